//! Calls that need an approval: the client's user is asked, and an answer counts only for the call
//! that was asked about, from the client that was asked.

mod operators;
mod scripts;

use std::{fs, path::PathBuf};

use airlock_tests::{
    Airlock, Client, Gateway, Reply, Setup,
    mcp::{Endpoint, LEGACY, McpRequest, McpSession, Messages},
    misbehaving, wait,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ANN, BOB, text};

/// A gateway whose tool `server-note` needs an approval and appends to a file.
struct Noting {
    gateway: Gateway,
    notes: PathBuf,
}

impl Noting {
    async fn start(change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = Setup::new().set("/server/require_virtual_key", false);
        let rows: [(&str, &[&str]); 1] = [("server", &["*"])];
        let setup = setup.key("ann", ANN, &rows).key("bob", BOB, &rows);
        let notes = setup.directory().join("notes");
        let client = noting(&setup).auto(&["echo"]);
        let gateway = change(setup.client(client)).serve_connected().await;
        Self { gateway, notes }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::new(&self.gateway)
    }

    /// Returns a client that can ask its user.
    fn asking(&self) -> Endpoint {
        self.endpoint().with_elicitation()
    }

    /// Returns what was noted.
    fn noted(&self) -> String {
        fs::read_to_string(&self.notes).unwrap_or_default()
    }
}

fn noting(setup: &Setup) -> Client {
    let mode = format!("notes={}", setup.directory().join("notes").display());
    misbehaving("server", [mode.as_str()])
}

/// Returns the parameters of a call of `note`.
fn note(text: &str) -> Value {
    json!({"name": "server-note", "arguments": {"text": text}})
}

fn declined(reason: &str) -> Value {
    text(&format!("tool 'server-note' did not run: {reason}"))
}

/// Makes a call in a session, and reads the question.
async fn asked(session: &McpSession, params: Value) -> (Messages, Value) {
    let mut stream = session.request("tools/call", params).stream().await;
    let question = stream.next().await.expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (stream, question)
}

/// Reads the response, which must be all that is left.
async fn response(stream: Messages) -> Value {
    let mut rest = stream.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    rest[0]["result"].take()
}

async fn accepted(request: McpRequest) {
    let reply = request.reply().await;
    assert_eq!(reply.status, 202, "{}", reply.text);
}

#[tokio::test]
async fn a_legacy_client_is_asked_and_the_call_runs_only_if_its_user_accepts() {
    let noting = Noting::start(|setup| setup).await;
    let session = noting.asking().session().await;
    let form = json!({"type": "object", "properties": {}});
    for (answer, expected, noted) in [
        (json!({"action": "accept", "content": {}}), text("noted a"), "a\n"),
        (json!({"action": "decline"}), declined("the user declined it"), "a\n"),
        (json!({"action": "cancel"}), declined("the user dismissed the question"), "a\n"),
        (json!({"action": "ACCEPT"}), declined("the client could not ask the user"), "a\n"),
        (json!({"accept": true}), declined("the client could not ask the user"), "a\n"),
        (json!("accept"), declined("the client could not ask the user"), "a\n"),
    ] {
        let (stream, question) = asked(&session, note("a")).await;
        let params = &question["params"];
        let message = params["message"].as_str().expect("a text");
        assert!(message.contains("server-note") && message.contains(r#"text: "a""#), "{message}");
        assert_eq!((&params["mode"], &params["requestedSchema"]), (&json!("form"), &form));
        accepted(session.respond(&question["id"], answer.clone())).await;
        let result = response(stream).await;
        assert_eq!((&result["content"], noting.noted().as_str()), (&expected, noted), "{answer}");
        assert_eq!(result["isError"] == true, expected != text("noted a"), "{result}");
    }
    let (stream, question) = asked(&session, note("a")).await;
    let error = session.respond(&question["id"], json!({})).member("/result", ());
    accepted(error.member("/error", json!({"code": -32601, "message": "no"}))).await;
    assert_eq!(response(stream).await["content"], declined("the client could not ask the user"));
    // Tools that need no approval are not asked about.
    let echo = json!({"name": "server-echo", "arguments": {"text": "x"}});
    assert_eq!(session.request("tools/call", echo).result().await["content"], text("x"));
}

#[tokio::test]
async fn a_modern_client_is_asked_and_the_call_runs_only_if_its_user_accepts() {
    let noting = Noting::start(|setup| setup).await;
    let endpoint = noting.asking();
    for (answer, expected, noted) in [
        (json!({"action": "decline"}), declined("the user declined it"), ""),
        (json!({"action": "cancel"}), declined("the user dismissed the question"), ""),
        (json!({"action": "accept", "content": {}}), text("noted a"), "a\n"),
    ] {
        let question = endpoint.modern("tools/call", note("a")).result().await;
        assert_eq!(question["resultType"], "input_required", "{question}");
        let asked = &question["inputRequests"]["approval"];
        assert_eq!(
            (&asked["method"], &asked["params"]["mode"]),
            (&json!("elicitation/create"), &json!("form"))
        );
        let answered = endpoint.modern("tools/call", note("a"));
        let answered = answered
            .member("/params/requestState", question["requestState"].clone())
            .member("/params/inputResponses", json!({"approval": answer}));
        let result = answered.result().await;
        assert_eq!((&result["content"], noting.noted().as_str()), (&expected, noted), "{answer}");
        assert_eq!(result["resultType"], "complete");
    }
}

/// Returns the state of a question about a modern call.
async fn state(endpoint: &Endpoint, params: Value) -> String {
    let question = endpoint.modern("tools/call", params).result().await;
    question["requestState"].as_str().expect("a state").to_owned()
}

/// Builds a modern call that comes with the user's acceptance.
fn approved(endpoint: &Endpoint, params: Value, state: impl Into<Value>) -> McpRequest {
    let call = endpoint.modern("tools/call", params).member("/params/requestState", state);
    call.member("/params/inputResponses", json!({"approval": {"action": "accept", "content": {}}}))
}

#[tokio::test]
async fn a_state_that_was_changed_or_made_for_another_call_is_refused() {
    let noting = Noting::start(|setup| setup).await;
    let endpoint = noting.asking();
    let one = noting.asking().source("server");
    let ann = noting.asking().key(ANN);
    let bob = noting.asking().key(BOB);
    let good = state(&endpoint, note("a")).await;
    let anns = state(&ann, note("a")).await;
    let flipped = |index: usize| {
        let mut bytes = good.clone().into_bytes();
        bytes[index] = if bytes[index] == b'B' { b'C' } else { b'B' };
        String::from_utf8(bytes).expect("ASCII")
    };
    let mut bad = vec![
        ("no text", approved(&endpoint, note("a"), 7)),
        ("an empty text", approved(&endpoint, note("a"), "")),
        ("not Base64", approved(&endpoint, note("a"), "%%%")),
        ("cut", approved(&endpoint, note("a"), &good[..good.len() - 2])),
        ("longer", approved(&endpoint, note("a"), format!("{good}AAAA"))),
        ("other arguments", approved(&endpoint, note("b"), good.as_str())),
        (
            "more arguments",
            approved(
                &endpoint,
                json!({"name": "server-note", "arguments": {"text": "a", "x": 1}}),
                good.as_str(),
            ),
        ),
        (
            "another tool",
            approved(
                &endpoint,
                json!({"name": "server-pid", "arguments": {"text": "a"}}),
                good.as_str(),
            ),
        ),
        ("a key's", approved(&endpoint, note("a"), anns.as_str())),
        ("another key's", approved(&bob, note("a"), anns.as_str())),
        ("nobody's", approved(&ann, note("a"), good.as_str())),
    ];
    // The time and the seal.
    bad.extend(
        [0, 3, 9, 20, 50].map(|at| ("flipped", approved(&endpoint, note("a"), flipped(at)))),
    );
    for (what, request) in bad {
        let error = request.error().await;
        assert_eq!(error["code"], -32602, "{what}: {error}");
        assert_eq!(noting.noted(), "", "{what}");
    }
    // Unchanged, the state counts, and once.
    assert_eq!(
        approved(&endpoint, note("a"), good.as_str()).result().await["content"],
        text("noted a")
    );
    let again = approved(&endpoint, note("a"), good.as_str()).error().await;
    assert_eq!(again["code"], -32602, "{again}");
    let own = json!({"name": "note", "arguments": {"text": "a"}});
    let owns = state(&one, own.clone()).await;
    assert_eq!(approved(&one, own, owns).result().await["content"], text("noted a"));
    assert_eq!(approved(&ann, note("a"), anns).result().await["content"], text("noted a"));
}

#[tokio::test]
async fn an_acceptance_without_a_state_or_a_readable_answer_asks_again() {
    let noting = Noting::start(|setup| setup).await;
    let endpoint = noting.asking();
    let good = state(&endpoint, note("a")).await;
    let accept = json!({"action": "accept", "content": {}});
    let call = |answers: Value| {
        endpoint.modern("tools/call", note("a")).member("/params/inputResponses", answers)
    };
    for request in [
        call(json!({"approval": accept})),
        call(json!({"other": accept})).member("/params/requestState", good.as_str()),
        call(json!({})).member("/params/requestState", good.as_str()),
        call(json!({"approval": {"action": "yes"}})).member("/params/requestState", good.as_str()),
    ] {
        let result = request.result().await;
        assert_eq!(result["resultType"], "input_required", "{result}");
    }
    for answers in [json!([]), json!("accept"), json!({"approval": "accept"})] {
        let request = call(answers).member("/params/requestState", good.as_str());
        assert_eq!(request.error().await["code"], -32602);
    }
    assert_eq!(noting.noted(), "");
}

#[tokio::test]
async fn a_state_expires_and_a_question_without_an_answer_too() {
    let noting = Noting::start(|setup| setup.set("/mcp_server/approval_timeout", "1s")).await;
    let endpoint = noting.asking();
    let old = state(&endpoint, note("a")).await;
    let session = endpoint.session().await;
    let (unanswered, question) = asked(&session, note("b")).await;
    let expected = declined("the user did not answer in time");
    assert_eq!(response(unanswered).await["content"], expected);
    accepted(session.respond(&question["id"], json!({"action": "accept"}))).await;
    wait::until("the state to expire", async || {
        // Without an answer nothing runs, whether it has expired or not.
        let call =
            endpoint.modern("tools/call", note("a")).member("/params/requestState", old.as_str());
        let response = call.response().await;
        (response["error"]["code"] == -32602).then_some(())
    })
    .await;
    assert_eq!(approved(&endpoint, note("a"), old).error().await["code"], -32602);
    assert_eq!(noting.noted(), "");
}

#[tokio::test]
async fn only_the_client_that_was_asked_can_answer() {
    let noting = Noting::start(|setup| setup).await;
    let ann = noting.asking().key(ANN);
    let bob = noting.asking().key(BOB);
    let session = ann.session().await;
    let (stream, question) = asked(&session, note("a")).await;
    let id = &question["id"];
    let accept = json!({"action": "accept", "content": {}});
    // Another session of the same key has questions of its own.
    for other in [ann.session().await, bob.session().await, noting.endpoint().session().await] {
        accepted(other.respond(id, accept.clone())).await;
    }
    assert_eq!(session.named_by(&bob).respond(id, accept.clone()).reply().await.status, 404);
    for other in ["airlock-1", "airlock-99", "0", "a"] {
        accepted(session.respond(&json!(other), accept.clone())).await;
    }
    accepted(session.respond(&json!(0), accept.clone())).await;
    let without = ann.post(json!({"jsonrpc": "2.0", "id": id, "result": accept.clone()}));
    assert_eq!(without.reply().await.status, 400);
    assert_eq!(noting.noted(), "");
    accepted(session.respond(id, json!({"action": "decline"}))).await;
    // A second answer changes nothing.
    accepted(session.respond(id, accept)).await;
    assert_eq!(response(stream).await["content"], declined("the user declined it"));
    assert_eq!(noting.noted(), "");
}

#[tokio::test]
async fn a_question_is_withdrawn_with_its_call() {
    let noting = Noting::start(|setup| setup).await;
    let session = noting.asking().session().await;
    let call = session.request("tools/call", note("a")).member("/id", "q");
    let mut stream = call.stream().await;
    let question = stream.next().await.expect("a question");
    accepted(session.notify("notifications/cancelled", json!({"requestId": "q"}))).await;
    assert_eq!(stream.rest().await, [Value::Null; 0]);
    accepted(session.respond(&question["id"], json!({"action": "accept"}))).await;
    // A stream that was cut is resumed, and the question can still be answered.
    let (stream, question) = asked(&session, note("b")).await;
    drop(stream);
    accepted(session.respond(&question["id"], json!({"action": "accept"}))).await;
    wait::until("the call to run", async || (noting.noted() == "b\n").then_some(())).await;
}

/// Returns the calls that wait for an approval, as the holder of a key sees them.
async fn waiting(gateway: &Gateway, key: Option<&str>) -> Vec<Value> {
    let request = gateway.request(Method::GET, "/v1/approvals");
    let request = key.into_iter().fold(request, |request, key| request.header("x-bf-vk", key));
    Reply::fetch(request).await.ok()["data"].as_array().expect("a list").clone()
}

/// Decides about a call. Returns the status of the response.
async fn decide(gateway: &Gateway, key: Option<&str>, id: &str, action: &str) -> u16 {
    let request = gateway.request(Method::POST, &format!("/v1/approvals/{id}/{action}"));
    let request = key.into_iter().fold(request, |request, key| request.header("x-bf-vk", key));
    Reply::fetch(request).await.status
}

#[tokio::test]
async fn a_call_of_a_client_that_cannot_ask_waits_for_a_person() {
    let noting = Noting::start(|setup| setup).await;
    let gateway = &noting.gateway;
    let [modern, legacy] = noting.endpoint().key(ANN).both().await;
    let stateless = noting.asking().key(ANN);
    let stateless = stateless
        .post(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": note("c")}));
    let no_stream = noting.asking().key(ANN).session().await;
    let no_stream = no_stream.request("tools/call", note("d")).set("accept", "application/json");
    let mut noted = String::new();
    for (request, letter) in [
        (modern.request("tools/call", note("a")), "a"),
        (legacy.request("tools/call", note("b")), "b"),
        (stateless, "c"),
        (no_stream, "d"),
    ] {
        let mut call = Box::pin(request.result());
        let approving = async {
            let calls = wait::until("the call to wait", async || {
                Some(waiting(gateway, Some(ANN)).await).filter(|calls| calls.len() == 1)
            });
            let call = calls.await.remove(0);
            assert_eq!((&call["tool"], &call["state"]), (&json!("server-note"), &json!("pending")));
            assert_eq!(call["arguments"], json!({"text": letter}).to_string(), "{call}");
            assert_eq!(noting.noted(), noted);
            let id = call["id"].as_str().expect("an identifier");
            assert!(
                waiting(gateway, Some(BOB)).await.is_empty()
                    && waiting(gateway, None).await.is_empty()
            );
            for other in [Some(BOB), None] {
                assert_eq!(decide(gateway, other, id, "approve").await, 404);
            }
            assert_eq!(decide(gateway, Some(ANN), id, "approve").await, 200);
            assert_eq!(decide(gateway, Some(ANN), id, "deny").await, 404, "it is decided");
        };
        let (result, ()) = tokio::join!(&mut call, approving);
        assert_eq!(result["content"], text(&format!("noted {letter}")));
        noted.push_str(letter);
        noted.push('\n');
        assert_eq!(noting.noted(), noted);
        assert!(waiting(gateway, Some(ANN)).await.is_empty(), "the approval is used");
    }
}

#[tokio::test]
async fn a_call_without_a_decision_says_how_to_approve_it_and_runs_once_when_it_is_repeated() {
    let noting = Noting::start(|setup| setup.set("/mcp_server/approval_wait", "0s")).await;
    let session = noting.endpoint().session().await;
    let call = async |words: &str| session.request("tools/call", note(words)).result().await;
    let failed = call("a").await;
    let id = failed["_meta"]["airlock/approval"]["id"].as_str().expect("an identifier").to_owned();
    let said = failed["content"][0]["text"].as_str().expect("a text");
    for part in [format!("airlock approvals approve {id}"), format!("/v1/approvals/{id}/approve")] {
        assert!(said.contains(&part), "{said}");
    }
    assert_eq!(failed["_meta"]["airlock/error"]["code"], "airlock.approval_pending", "{failed}");
    assert_eq!(
        call("a").await["_meta"]["airlock/approval"]["id"],
        id.as_str(),
        "it is the same call"
    );
    let other = call("b").await["_meta"]["airlock/approval"]["id"].clone();
    assert_ne!(other, id.as_str());
    // The command line decides about the calls of a running gateway.
    let config = noting.gateway.directory().join("airlock.json");
    let airlock = |arguments: &[&str]| {
        let command = Airlock::new().arg("approvals");
        let command = arguments.iter().fold(command, Airlock::arg);
        command.arg("--json").arg("--config").arg(&config)
    };
    let listed = airlock(&["list"]).run().await.ok().json();
    assert_eq!(listed["approvals"].as_array().map(Vec::len), Some(2), "{listed:#}");
    let approve = Airlock::new().arg("approvals").arg("approve").arg(&id);
    let approved = approve.arg("--config").arg(&config).run().await.ok().stdout;
    assert!(approved.starts_with(&format!("approved:\n{id}  approved  ")), "{approved}");
    let again = airlock(&["approve", &id]).run().await.failed().json();
    assert_eq!(again["error"]["code"], "airlock.approval_not_found", "{again:#}");
    let told = again["error"]["message"].as_str().expect("a message");
    assert!(told.starts_with(&format!("{id} was approved already by ")), "{told}");
    let _ = airlock(&["deny", other.as_str().expect("an identifier")]).run().await.ok();
    assert_eq!(noting.noted(), "", "nothing runs before it is repeated");
    // Lines of this level are written a little late.
    wait::until("both decisions to be logged", async || {
        let said = noting.gateway.said();
        (said.matches("a call that waits was decided about").count() == 2).then_some(())
    })
    .await;
    assert_eq!(call("a").await["content"], text("noted a"));
    assert_eq!(call("b").await["content"], declined("a person denied it"));
    assert_eq!(call("a").await["isError"], true, "the approval counts once");
    assert_eq!(noting.noted(), "a\n");
}

#[tokio::test]
async fn a_client_that_asks_its_own_user_is_named_by_its_key_and_its_name() {
    let rules = json!([{"virtual_key": "ann", "client_name": "editor", "approval": "client"}]);
    let noting = Noting::start(|setup| {
        setup.set("/mcp_server/approval_rules", rules).set("/mcp_server/approval_wait", "0s")
    })
    .await;
    for (key, name, runs) in [(ANN, "editor", true), (ANN, "agent", false), (BOB, "editor", false)]
    {
        let endpoint = noting.endpoint().key(key);
        let info = json!({"name": name, "version": "1"});
        let modern = endpoint.modern("tools/call", note(name));
        let pointer = "/params/_meta/io.modelcontextprotocol~1clientInfo";
        let modern = modern.member(pointer, info.clone()).result().await;
        let initialize = endpoint.initialize(LEGACY).member("/params/clientInfo", info);
        let opened = initialize.send().await;
        let session = opened.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
        let legacy = endpoint.header("mcp-session-id", &session);
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": note(name)});
        let legacy = legacy.post(call).result().await;
        for result in [modern, legacy] {
            assert_eq!(result["isError"] != true, runs, "{key} {name}: {result}");
        }
    }
    assert_eq!(noting.noted(), "editor\n".repeat(2));
    let said = noting.gateway.until_said_times("its client asks its own user", 2).await;
    assert_eq!(said.matches("its client asks its own user").count(), 2, "{said}");
}

#[tokio::test]
async fn with_never_such_tools_are_refused_and_with_always_allow_they_run() {
    for (mode, runs) in [("never", false), ("always_allow", true)] {
        let noting = Noting::start(|setup| setup.set("/mcp_server/approval", mode)).await;
        let endpoints = [noting.endpoint(), noting.asking()];
        for client in [endpoints[0].both().await, endpoints[1].both().await].into_iter().flatten() {
            let result = client.request("tools/call", note("a")).result().await;
            assert_eq!(result["isError"] == true, !runs, "{mode} {client:?}: {result}");
            assert_eq!(result["content"] == text("noted a"), runs, "{mode} {client:?}: {result}");
            let echo = client.call("server-echo", &json!({"text": "x"})).result().await;
            assert_eq!(echo["content"], text("x"), "{mode} {client:?}");
        }
        assert_eq!(noting.noted(), if runs { "a\n".repeat(4) } else { String::new() });
    }
}

#[tokio::test]
async fn with_never_no_forged_answer_lets_a_call_run() {
    let noting = Noting::start(|setup| setup.set("/mcp_server/approval", "never")).await;
    let result = approved(&noting.asking(), note("a"), "AAAA").result().await;
    assert_eq!((&result["isError"], noting.noted().as_str()), (&json!(true), ""), "{result}");
}
