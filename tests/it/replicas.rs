//! Several gateways on one store, as behind a load balancer that sends each request to any of them.

mod load;

use std::path::PathBuf;

use airlock_tests::{
    Client, Gateway, OPERATOR, Reply, Setup,
    mcp::{Endpoint, LEGACY},
    misbehaving, peers, root,
    service::{self, Service},
    wait,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::certificates::Authority;

/// Virtual keys of two callers.
const ANN: &str = "sk-bf-ann0123456789abcdef";
const BOB: &str = "sk-bf-bob0123456789abcdef";

const EXECUTE: &str = "/v1/mcp/tool/execute";

/// Two gateways on one store, with a server that asks and one whose results are kept.
struct Pair {
    directory: tempfile::TempDir,
    first: Gateway,
    second: Gateway,
}

impl Pair {
    async fn start() -> Self {
        Self::with(|setup| setup).await
    }

    async fn with(change: impl Fn(Setup) -> Setup) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let [first, second] = [0, 1].map(|_| change(replica(&directory)).serve_connected());
        let (first, second) = tokio::join!(first, second);
        Self { directory, first, second }
    }

    fn endpoints(&self) -> [Endpoint; 2] {
        let all = json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        [&self.first, &self.second]
            .map(|gateway| Endpoint::new(gateway).key(ANN).with_capabilities(all.clone()))
    }

    /// Returns the names of the tools of the asking server that have run.
    fn ran(&self) -> String {
        std::fs::read_to_string(notes(&self.directory)).unwrap_or_default()
    }
}

fn notes(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("notes")
}

fn replica(directory: &tempfile::TempDir) -> Setup {
    let server = root().join("tests/fixtures/asking/server.py").display().to_string();
    let notes = notes(directory).display().to_string();
    let asking = ["-B", &server, "modern", &notes].map(str::to_owned);
    let asking = Client::stdio("up", peers::python(), asking).auto(&["ask"]);
    let rows: [(&str, &[&str]); 3] = [("up", &["*"]), ("long", &["*"]), ("kept", &["*"])];
    let store = directory.path().join("airlock.db").display().to_string();
    Setup::new()
        .set("/store", store)
        .set("/server/replica_url", "http://127.0.0.1:0")
        .key("ann", ANN, &rows)
        .key("bob", BOB, &rows)
        .client(asking.set("/allow", ["elicitation"].as_slice()))
        .client(peers::everything("long").auto(&["*"]))
        .client(misbehaving("kept", ["results"]).auto(&["*"]))
}

/// Returns the parameters of a call that asks for a name.
fn ask() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"message": "Name?", "requestedSchema": schema});
    let question = json!({"method": "elicitation/create", "params": params});
    json!({"name": "up-ask", "arguments": {"questions": [question]}})
}

fn answer() -> Value {
    json!({"action": "accept", "content": {"name": "Ann"}})
}

#[tokio::test]
async fn a_session_goes_on_at_any_gateway() {
    let pair = Pair::start().await;
    let [at_first, at_second] = pair.endpoints();
    let opened = at_first.session().await;
    let elsewhere = opened.named_by(&at_second);
    let listed = elsewhere.request("tools/list", json!({})).result().await;
    assert!(listed["tools"].as_array().is_some_and(|tools| tools.len() > 2), "{listed}");
    // The question comes on the stream of the call; its answer may come to the other gateway.
    for (asking, answering) in [(&elsewhere, &opened), (&opened, &elsewhere)] {
        let mut stream = asking.request("tools/call", ask()).stream().await;
        let question = stream.next().await.expect("a question");
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let accepted = answering.respond(&question["id"], answer()).reply().await;
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        let response = stream.next().await.expect("a response");
        assert!(response.to_string().contains("Ann"), "{response}");
    }
    // A cancellation reaches the gateway that runs the call.
    let slow = json!({"name": "kept-hang", "arguments": {}});
    let call = opened.request("tools/call", slow).member("/id", "slow").stream().await;
    let cancelled = elsewhere.notify("notifications/cancelled", json!({"requestId": "slow"}));
    assert_eq!(cancelled.reply().await.status, 202);
    assert_eq!(call.rest().await, Vec::<Value>::new(), "a cancelled request gets no response");
    let stream = elsewhere.listen().send().await;
    assert_eq!(
        (stream.status().as_u16(), &stream.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    drop(stream);
    // For another caller the session does not exist at either.
    for endpoint in pair.endpoints() {
        let stolen = opened.named_by(&endpoint.key(BOB));
        let refused = stolen.request("ping", json!({})).reply().await;
        assert_eq!(
            (refused.status, &refused.body["error"]["data"]["code"]),
            (404, &json!("no_session")),
            "{}",
            refused.text
        );
    }
    assert_eq!(elsewhere.delete().reply().await.status, 204);
    assert_eq!(opened.request("ping", json!({})).reply().await.status, 404);
    assert_eq!(elsewhere.request("ping", json!({})).reply().await.status, 404);
}

#[tokio::test]
async fn a_call_that_asks_goes_on_at_any_gateway_and_an_answer_counts_once() {
    let pair = Pair::start().await;
    let [at_first, at_second] = pair.endpoints();
    let asked = at_first.modern("tools/call", ask()).result().await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let mut answered = ask();
    answered["requestState"] = asked["requestState"].clone();
    answered["inputResponses"] = json!({"0": answer()});
    let stolen = at_second.clone().key(BOB).modern("tools/call", answered.clone()).response().await;
    assert!(!stolen.to_string().contains("Ann"), "{stolen}");
    let result = at_second.modern("tools/call", answered.clone()).result().await;
    assert!(result.to_string().contains("Ann"), "{result}");
    for endpoint in [&at_first, &at_second] {
        let again = endpoint.modern("tools/call", answered.clone()).response().await;
        assert!(!again.to_string().contains("Ann"), "{again}");
    }
    assert_eq!(pair.ran(), "ask\n", "the call ran once");

    // An approval by the client's user is bound to one call, and counts once at all gateways together.
    let mut note = json!({"name": "up-note", "arguments": {}});
    let asked = at_first.modern("tools/call", note.clone()).result().await;
    note["requestState"] = asked["requestState"].clone();
    note["inputResponses"] = json!({"approval": {"action": "accept", "content": {}}});
    at_second.modern("tools/call", note.clone()).result().await;
    for endpoint in [&at_first, &at_second] {
        let again = endpoint.modern("tools/call", note.clone()).error().await;
        assert_eq!(again["code"], -32602, "{again}");
    }
    assert_eq!(pair.ran(), "ask\nnote\n");
}

#[tokio::test]
async fn tasks_and_kept_results_are_read_at_any_gateway() {
    let service =
        Service::saying([service::asking_for(&[("kept-mixed", json!({}))]), service::text("end")])
            .await;
    let pair = Pair::with(|setup| setup.openai("fake", service.base_url())).await;
    let [at_first, at_second] = pair.endpoints();
    let research = json!({"name": "long-simulate-research-query", "arguments": {"topic": "tides"}});
    let created = at_first.modern("tools/call", research).result().await;
    let task = json!({"taskId": created["taskId"]});
    let state = at_second.modern("tasks/get", task.clone()).result().await;
    assert_eq!(state["taskId"], created["taskId"], "{state}");
    let other = at_second.clone().key(BOB).modern("tasks/get", task.clone()).error().await;
    assert_eq!(other["code"], -32602);
    at_second.modern("tasks/cancel", task.clone()).result().await;
    let state = at_first.modern("tasks/get", task).result().await;
    assert_eq!(state["status"], "cancelled", "{state}");

    let chat = json!({"model": "fake/model", "messages": [{"role": "user", "content": "go"}]});
    let answered = post(&pair.first, "/v1/chat/completions", &chat).await.ok();
    let handle =
        answered["airlock"]["calls"][0]["raw_result"].as_str().expect("a handle").to_owned();
    for gateway in [&pair.first, &pair.second] {
        for (key, status) in [(ANN, 200), (BOB, 404)] {
            let path = format!("/v1/mcp/results/{handle}");
            let request = gateway.request(Method::GET, &path).header("x-bf-vk", key);
            assert_eq!(Reply::fetch(request).await.status, status, "{key}");
        }
    }

    let call = json!({"function": {"name": "up-ask", "arguments": ask()["arguments"].to_string()}});
    let shown = post(&pair.first, EXECUTE, &call).await.ok();
    let required = &shown["airlock"]["input_required"];
    let mut answered = call;
    answered["request_state"] = required["request_state"].clone();
    answered["input_responses"] = json!({"0": answer()});
    let result = post(&pair.second, EXECUTE, &answered).await.ok();
    assert!(result.to_string().contains("Ann"), "{result}");

    let call = json!({"function": {"name": "kept-long", "arguments": "{}"}});
    let preview = post(&pair.first, EXECUTE, &call).await.ok()["content"].to_string();
    let handle = preview.split(['"', '\\']).find(|word| word.starts_with("content_"));
    let arguments = json!({"handle": handle.expect("a handle"), "offset": 99_990}).to_string();
    let call = json!({"function": {"name": "readContent", "arguments": arguments}});
    let page = post(&pair.second, EXECUTE, &call).await.ok();
    assert!(page["content"].to_string().contains("line 9999"), "{page}");
}

#[tokio::test]
async fn what_a_model_was_sent_is_shown_at_any_gateway_to_an_operator_who_sees_payloads() {
    let service = Service::saying([
        service::asking_for(&[("kept-echo", json!({"text": "x"}))]),
        service::text("end"),
    ])
    .await;
    let operators =
        json!([{"name": "tests", "role": "admin", "token": OPERATOR, "sees_payloads": true}]);
    let pair = Pair::with(|setup| {
        setup
            .openai("fake", service.base_url())
            .set("/server/debug_requests", json!({}))
            .set("/management/operators", operators.clone())
    })
    .await;
    let chat = json!({"model": "fake/model", "messages": [{"role": "user", "content": "go"}]});
    let request = pair.first.request(Method::POST, "/v1/chat/completions").header("x-bf-vk", ANN);
    let response = request.json(&chat).send().await.expect("a response");
    let id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    let path = format!("/api/requests/{id}/debug");
    assert_eq!(response.status(), 200);
    for gateway in [&pair.first, &pair.second] {
        // The record is completed when the response has been sent, a moment after its head is read.
        let shown = wait::until("the record to be complete", async || {
            Some(gateway.get(&path).await.ok()).filter(|shown| shown["state"] != "running")
        })
        .await;
        assert_eq!(
            (&shown["state"], &shown["path"]),
            (&json!("completed"), &json!("/v1/chat/completions"))
        );
        let exchanges = shown["exchanges"].as_array().expect("the exchanges");
        let asked = service.asked();
        let sent: Vec<_> = exchanges.iter().map(|one| one["request"]["body"].as_str()).collect();
        let expected: Vec<_> = asked.iter().map(|asked| Some(asked.text.as_str())).collect();
        assert_eq!(sent, expected);
        assert_eq!(exchanges[1]["response"]["status"], 200);
        assert!(exchanges[1]["response"]["body"].to_string().contains("end"), "{shown:#}");
        assert_eq!(shown["airlock"]["calls"][0]["name"], "kept-echo");
        let token = asked[0].authorization.trim_start_matches("Bearer ");
        assert!(!token.is_empty() && !shown.to_string().contains(token), "{shown:#}");
    }
    let caller = pair.first.request(Method::GET, &path).header("x-bf-vk", ANN);
    let caller = Reply::fetch(caller.bearer_auth(ANN)).await;
    assert_eq!((caller.status, caller.code()), (401, "operator_required"));
    let made = json!({"name": "eve", "role": "admin"});
    let made = pair.first.post("/api/operators", &made).await.ok();
    let token = made["token"].as_str().expect("a token");
    let blind = pair.first.request(Method::GET, &path).bearer_auth(token);
    let blind = Reply::fetch(blind).await;
    assert_eq!((blind.status, blind.code()), (403, "payloads_hidden"));
    let unknown = pair.first.get("/api/requests/req_1/debug").await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_request"));
    pair.first.until_said("an operator reads the content of a request").await;
}

#[tokio::test]
async fn gateways_with_an_authority_of_their_own_show_each_other_their_certificates() {
    let authority = Authority::new();
    let files = tempfile::tempdir().expect("a directory");
    let [certificate, key] = authority.sign("127.0.0.1").write(files.path(), "gateway");
    let ca = files.path().join("ca.pem");
    std::fs::write(&ca, &authority.pem).expect("written");
    let tls =
        json!({"certificate": certificate, "key": key, "client_ca": ca, "client_auth": "required"});
    let replica_tls = json!({"ca_file": ca, "client_certificate": certificate, "client_key": key});
    let directory = tempfile::tempdir().expect("a directory");
    let [first, second] = [0, 1].map(|_| {
        replica(&directory)
            .set("/server/replica_url", "https://127.0.0.1:0")
            .set("/server/tls", tls.clone())
            .set("/server/replica_tls", replica_tls.clone())
            .serve()
    });
    let (first, second) = tokio::join!(first, second);
    let pem = [&certificate, &key].map(|path| std::fs::read(path).expect("it is there")).concat();
    let identity = reqwest::Identity::from_pem(&pem);
    let trusted = reqwest::Certificate::from_pem(authority.pem.as_bytes()).expect("a certificate");
    let client = airlock::tls::client()
        .no_proxy()
        .tls_certs_only([trusted])
        .identity(identity.expect("an identity"))
        .build()
        .expect("a client");
    let send = async |gateway: &Gateway, session: Option<&str>, method: &str| {
        let request = client
            .post(format!("{}/mcp", gateway.address()))
            .header("x-bf-vk", ANN)
            .header("accept", "application/json, text/event-stream");
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        let params = match method {
            "initialize" => {
                json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
            }
            _ => json!({}),
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        request.json(&body).send().await.expect("a response")
    };
    let opened = send(&first, None, "initialize").await;
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    wait::until("the session to be found at the other gateway", async || {
        (send(&second, Some(&session), "ping").await.status() == 200).then_some(())
    })
    .await;
}

async fn post(gateway: &Gateway, path: &str, body: &Value) -> Reply {
    let request = gateway.request(Method::POST, path).header("x-bf-vk", ANN);
    Reply::fetch(request.json(body)).await
}

#[tokio::test]
async fn what_a_gateway_had_that_was_killed_is_gone_and_clients_begin_again() {
    let pair = Pair::start().await;
    let [at_first, at_second] = pair.endpoints();
    let opened = at_first.session().await;
    let elsewhere = opened.named_by(&at_second);
    elsewhere.request("ping", json!({})).result().await;
    let asked = at_first.modern("tools/call", ask()).result().await;
    let Pair { first, second, .. } = pair;
    first.kill().await;
    let gone = elsewhere.request("ping", json!({})).reply().await;
    assert_eq!(
        (gone.status, &gone.body["error"]["data"]["code"]),
        (404, &json!("no_session")),
        "{}",
        gone.text
    );
    let mut answered = ask();
    answered["requestState"] = asked["requestState"].clone();
    answered["inputResponses"] = json!({"0": answer()});
    let refused = at_second.modern("tools/call", answered).response().await;
    assert!(!refused.to_string().contains("Ann"), "{refused}");
    at_second.session().await.request("ping", json!({})).result().await;
    drop(second);
}

#[tokio::test]
async fn a_forwarded_request_is_not_forwarded_again_and_a_handle_selects_no_other_address() {
    let pair = Pair::start().await;
    let [at_first, at_second] = pair.endpoints();
    let opened = at_first.session().await;
    let elsewhere = opened.named_by(&at_second.clone().header("x-airlock-forwarded", "x"));
    assert_eq!(elsewhere.request("ping", json!({})).reply().await.status, 404);
    // A handle of a gateway that there is not.
    let invented = "00112233-4455-8677-8899-aabbccddeeff";
    let unknown = opened.named_by(&at_second).request("ping", json!({}));
    let refused = unknown.set("mcp-session-id", invented).reply().await;
    assert_eq!(refused.status, 404, "{}", refused.text);
    let with_session = at_second.initialize(LEGACY).set("mcp-session-id", invented).reply().await;
    assert_eq!(with_session.status, 200, "{}", with_session.text);
}

#[tokio::test]
async fn a_gateway_that_stops_is_forgotten_by_the_others() {
    let pair = Pair::start().await;
    let [at_first, at_second] = pair.endpoints();
    let elsewhere = at_first.session().await.named_by(&at_second);
    let Pair { first, second, directory } = pair;
    first.terminate();
    first.ended().await;
    let gone = elsewhere.request("ping", json!({})).reply().await;
    assert_eq!(gone.status, 404, "{}", gone.text);
    let database = rusqlite::Connection::open(directory.path().join("airlock.db"));
    let count =
        database.expect("a file").query_row("SELECT count(*) FROM replica", (), |row| row.get(0));
    assert_eq!(count, Ok(1), "only the other one is announced");
    // The next one has the store, and is found.
    let third = replica(&directory).serve_connected().await;
    let [endpoint, ..] = [Endpoint::new(&third).key(ANN)];
    let elsewhere = endpoint.session().await.named_by(&at_second);
    wait::until("the third gateway to be found", async || {
        (elsewhere.request("ping", json!({})).reply().await.status == 200).then_some(())
    })
    .await;
    drop((second, third));
}
