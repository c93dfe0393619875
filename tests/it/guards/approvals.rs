//! Guards and approvals: a guard may ask for one, and a person approves what is then run.

use airlock::{
    CallReply, NativeTool, PendingApproval, ToolContext, ToolEffect,
    door::ScriptLanguage,
    schemars::JsonSchema,
    tool::{Allowlist, Policy, ToolError},
};
use airlock_tests::{
    Client, Embedded, OPERATOR, Reply, Service, Setup, guests, mcp::Endpoint, service,
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Guarded, server, warden};

/// Returns the parameters of a call of `server-note`.
fn note(text: &str) -> Value {
    json!({"name": "server-note", "arguments": {"text": text}})
}

#[tokio::test]
async fn a_guard_asks_the_user_of_a_client_about_a_tool_that_needs_no_approval() {
    let guarded = Guarded::start(|setup| setup).await;
    let endpoint = Endpoint::new(&guarded.gateway).with_elicitation();
    let unasked = endpoint.modern("tools/call", note("plain")).result().await;
    assert_eq!(unasked["resultType"], "complete", "{unasked}");
    let question = endpoint.modern("tools/call", note("before:ask")).result().await;
    assert_eq!(question["resultType"], "input_required", "{question}");
    let message = &question["inputRequests"]["approval"]["params"]["message"];
    let reason = "\n\nThe guard \"warden\" asks: the call says so";
    assert!(message.as_str().is_some_and(|message| message.ends_with(reason)), "{message}");
    assert_eq!(guarded.noted(), "plain\n");
    let accepted = endpoint
        .modern("tools/call", note("before:ask"))
        .member("/params/requestState", question["requestState"].clone())
        .member("/params/inputResponses", json!({"approval": {"action": "accept", "content": {}}}));
    let made = accepted.result().await;
    assert_eq!(made["content"][0]["text"], "noted before:ask", "{made}");
}

#[tokio::test]
async fn a_plugin_that_an_mcp_client_calls_makes_no_call_that_a_guard_asks_about() {
    let plugin = Client::wasm("guest", guests::HOSTILE).tools(&["server-note"]);
    for (auto, expected) in [(true, "which needs an approval"), (false, "noted before:ask")] {
        let plugin = if auto { plugin.clone().auto(&["relay"]) } else { plugin.clone() };
        let guarded = Guarded::start(|setup| setup.client(plugin)).await;
        let endpoint = Endpoint::new(&guarded.gateway).with_elicitation();
        let relay = json!({"tool": "server-note", "arguments": {"text": "before:ask"}});
        let call = json!({"name": "guest-relay", "arguments": relay});
        let mut result = endpoint.modern("tools/call", call.clone()).result().await;
        if !auto {
            assert_eq!(result["resultType"], "input_required", "{result}");
            assert_eq!(guarded.noted(), "");
            let answer = json!({"approval": {"action": "accept", "content": {}}});
            let accepted = endpoint
                .modern("tools/call", call)
                .member("/params/requestState", result["requestState"].clone())
                .member("/params/inputResponses", answer);
            result = accepted.result().await;
        }
        assert!(result.to_string().contains(expected), "{result}");
        // The approval of the plugin's call covers the calls that it makes.
        assert_eq!(guarded.noted(), if auto { "" } else { "before:ask\n" });
    }
}

#[tokio::test]
async fn the_list_of_approvals_shows_the_arguments_of_the_guard_and_these_run() {
    let guarded = Guarded::start(|setup| {
        let client = server(&setup, "coded").auto(&["echo"]);
        setup.client(client).set("/mcp_server/approval_wait", "0s")
    })
    .await;
    let session = Endpoint::new(&guarded.gateway).session().await;
    let call = json!({"name": "coded-note", "arguments": {"text": "before:rewrite secret"}});
    let waits = session.request("tools/call", call.clone()).result().await;
    let id = waits["_meta"]["airlock/approval"]["id"].as_str().expect("an identifier").to_owned();
    let listed = guarded.gateway.get("/v1/approvals").await.ok();
    let shown = json!({"text": "before:rewrite hidden"}).to_string();
    assert_eq!(listed["data"][0]["arguments"], shown, "{listed:#}");
    let approve = guarded.gateway.request(Method::POST, &format!("/v1/approvals/{id}/approve"));
    assert_eq!(Reply::fetch(approve).await.status, 200);
    let made = session.request("tools/call", call).result().await;
    assert_eq!(made["content"][0]["text"], "noted before:rewrite hidden", "{made}");
    assert_eq!(guarded.noted(), "before:rewrite hidden\n");
}

#[tokio::test]
async fn a_call_that_waits_is_shown_with_the_reason_of_the_guard() {
    let guarded = Guarded::start(|setup| setup.set("/mcp_server/approval_wait", "0s")).await;
    let session = Endpoint::new(&guarded.gateway).session().await;
    let waits = session.request("tools/call", note("before:ask")).result().await;
    let id = waits["_meta"]["airlock/approval"]["id"].as_str().expect("it waits").to_owned();
    let listed = guarded.gateway.get("/v1/approvals").await.ok();
    assert_eq!(listed["data"][0]["asked_by"], asked_by(), "{listed:#}");
    // This operator sees no payloads, and a reason may have arguments in it.
    let request = guarded.gateway.request(Method::GET, "/v1/approvals").bearer_auth(OPERATOR);
    let seen = Reply::fetch(request).await.ok();
    assert_eq!(seen["data"][0]["asked_by"], json!([{"guard": "warden"}]), "{seen:#}");
    let approve = guarded.gateway.request(Method::POST, &format!("/v1/approvals/{id}/approve"));
    assert_eq!(Reply::fetch(approve).await.status, 200);
    let made = session.request("tools/call", note("before:ask")).result().await;
    assert_eq!(made["content"][0]["text"], "noted before:ask", "{made}");
}

#[tokio::test]
async fn a_call_of_a_model_is_returned_with_the_reason_of_the_guard() {
    let asked = [("server-note", json!({"text": "before:ask"}))];
    let model = Service::saying([service::asking_for(&asked)]).await;
    let guarded = Guarded::start(|setup| setup.openai("fake", model.base_url())).await;
    let answer = guarded.gateway.chat("fake/model", "go").await.ok();
    let pending = &answer["airlock"]["pending"][0];
    assert_eq!(pending["reason"], "needs_approval", "{answer:#}");
    assert_eq!(pending["asked_by"], asked_by(), "{answer:#}");
    assert_eq!(guarded.noted(), "");
}

/// Returns the guard that asks, with its reason, as a call that waits shows it.
fn asked_by() -> Value {
    json!([{"guard": "warden", "reason": "the call says so"}])
}

#[tokio::test]
async fn an_approval_does_not_count_against_a_guard_that_denies() {
    let guarded = Guarded::start(|setup| {
        let client = server(&setup, "coded").auto(&["echo"]);
        setup.client(client).set("/mcp_server/approval", "always_allow")
    })
    .await;
    let session = Endpoint::new(&guarded.gateway).session().await;
    let call = json!({"name": "coded-note", "arguments": {"text": "before:deny"}});
    let denied = session.request("tools/call", call).result().await;
    assert_eq!(denied["_meta"]["airlock/error"]["code"], "airlock.guard_denied", "{denied}");
    assert_eq!(guarded.noted(), "");
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct Note {
    text: String,
}

async fn noted(note: Note, _: ToolContext) -> Result<String, ToolError> {
    Ok(format!("noted {}", note.text))
}

/// Starts a gateway of a program with the tool `note`, which is guarded and offered to scripts. Its calls need an
/// approval, unless they are `auto`.
async fn noting(auto: Allowlist) -> Embedded {
    let tool = NativeTool::typed("note", "Notes a text.", noted).effect(ToolEffect::Adds);
    let setup = Setup::new().set("/guards", json!([warden(&json!({"clients": ["internal"]}))]));
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: auto,
        code_mode: true,
        ..Policy::default()
    };
    Embedded::with(
        setup,
        |_| {},
        |builder| builder.native_policy(policy).register_tool(tool).expect("a tool"),
    )
    .await
}

/// Returns the arguments of the call that waits.
fn arguments(pending: &PendingApproval) -> Value {
    serde_json::from_str(&pending.calls[0].arguments).expect("JSON")
}

#[tokio::test]
async fn a_script_stops_for_an_approval_of_the_arguments_of_the_guard_and_goes_on_with_them() {
    let embedded = noting(Allowlist::default()).await;
    let request = embedded.gateway().request().language(ScriptLanguage::Starlark);
    let request = request.open().expect("it is permitted");
    let code = "result = internal.note(text = \"before:rewrite secret\")";
    let stopped = request.run_script(code).await.expect("it waits");
    let pending = stopped.pending().expect("it waits").clone();
    assert_eq!(arguments(&pending), json!({"text": "before:rewrite hidden"}));
    request.approve(&pending.id).await.expect("it waits");
    let CallReply::Done(output) = request.resume(&pending.id).await.expect("it goes on") else {
        panic!("it is approved")
    };
    assert!(output.to_text().contains("noted before:rewrite hidden"), "{}", output.to_text());
    embedded.stop().await;
}

#[tokio::test]
async fn a_guard_asks_about_one_call_of_a_script_whose_tool_needs_no_approval() {
    let embedded = noting(Allowlist::All).await;
    let request = embedded.gateway().request().language(ScriptLanguage::Starlark);
    let request = request.open().expect("it is permitted");
    let code = "internal.note(text = \"plain\")\nresult = internal.note(text = \"before:ask\")";
    let stopped = request.run_script(code).await.expect("it waits");
    let pending = stopped.pending().expect("it waits").clone();
    assert_eq!(pending.calls.len(), 1);
    assert_eq!(arguments(&pending), json!({"text": "before:ask"}));
    let asked = pending.calls[0].asked_by.to_string();
    assert_eq!(asked, "the guard \"warden\" asks: the call says so");
    let listed = request.pending().await.expect("a list");
    assert_eq!(listed[0].calls, pending.calls);
    request.approve(&pending.id).await.expect("it waits");
    let CallReply::Done(output) = request.resume(&pending.id).await.expect("it goes on") else {
        panic!("it is approved")
    };
    assert!(output.to_text().contains("noted before:ask"), "{}", output.to_text());
    embedded.stop().await;
}
