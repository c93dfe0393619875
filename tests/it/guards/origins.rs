//! Calls of every origin: each is denied, and the control beside it is made.

use airlock::{NativeTool, ToolContext, ToolEffect, schemars::JsonSchema, tool::ToolError};
use airlock_tests::{
    Client, Embedded, OPERATOR, Reply, Service, Setup, guests, mcp::Endpoint, service,
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Guarded, guarded, notes, server, warden};

const DENIED: &str = "is denied by the guard";

#[tokio::test]
async fn calls_of_a_model_are_guarded() {
    let calls = ["before:deny", "plain"].map(|text| ("server-note", json!({"text": text})));
    let model = Service::saying([service::asking_for(&calls), service::text("done")]).await;
    let guarded = Guarded::start(|setup| setup.openai("fake", model.base_url())).await;
    let _ = guarded.gateway.chat("fake/model", "go").await.ok();
    assert_eq!(guarded.noted(), "plain\n");
    let told = model.asked().pop().expect("the model was asked again").body.to_string();
    assert!(told.contains(DENIED), "{told}");
}

#[tokio::test]
async fn calls_of_mcp_clients_of_both_eras_are_guarded() {
    let guarded = Guarded::start(|setup| setup).await;
    for client in Endpoint::new(&guarded.gateway).both().await {
        let denied = client.call("server-note", &json!({"text": "before:deny"})).result().await;
        assert_eq!(denied["_meta"]["airlock/error"]["code"], "airlock.guard_denied", "{client:?}");
        let rewritten = json!({"text": "before:rewrite after:rewrite secret"});
        let made = client.call("server-note", &rewritten).result().await;
        let text = &made["content"][0]["text"];
        assert_eq!(text, "noted before:rewrite after:rewrite hidden", "{client:?}");
    }
    assert_eq!(guarded.noted(), "before:rewrite after:rewrite hidden\n".repeat(2));
}

#[tokio::test]
async fn calls_of_scripts_are_guarded_and_the_tool_that_runs_scripts_is_not() {
    let guarded = Guarded::start(|setup| {
        let client = server(&setup, "coded").auto(&["note"]).code_mode();
        setup.client(client)
    })
    .await;
    let failed = run(&guarded, "result = coded.note(text = \"before:deny\")").await;
    assert!(failed.text.contains(DENIED), "{}", failed.text);
    assert_eq!(guarded.noted(), "");
    let made =
        run(&guarded, "result = coded.note(text = \"before:rewrite after:rewrite secret\")").await;
    assert!(made.text.contains("noted before:rewrite after:rewrite hidden"), "{}", made.text);
    assert_eq!(guarded.noted(), "before:rewrite after:rewrite hidden\n");
}

#[tokio::test]
async fn a_plan_has_the_arguments_and_the_decisions_of_guards() {
    let setup = guarded(Setup::new());
    let client = server(&setup, "coded").auto(&["note"]).code_mode();
    let setup = setup.client(client);
    let calls = ["before:rewrite secret", "before:ask", "before:deny"];
    let source = calls.map(|text| format!("coded.note(text = '{text}')\n")).concat();
    let script = setup.file("script.star", &source);
    let plan = setup.airlock("plan").arg(script).arg("--json").run().await.json();
    let planned = plan["calls"].as_array().expect("calls").iter();
    let planned: Vec<_> =
        planned.map(|call| json!([call["arguments"]["text"], call["needs_approval"]])).collect();
    let expected = [json!(["before:rewrite hidden", false]), json!(["before:ask", true])];
    assert_eq!(planned, expected, "{plan:#}");
    assert_eq!(plan["unknown_from"]["line"], 3, "{plan:#}");
    assert!(plan["unknown_from"]["message"].to_string().contains(DENIED), "{plan:#}");
    assert!(!notes(&setup).exists(), "a tool was called");
}

async fn run(guarded: &Guarded, code: &str) -> Reply {
    guarded.gateway.execute("executeToolCode", &json!({"code": code})).await
}

#[tokio::test]
async fn nested_calls_of_plugins_are_guarded() {
    let plugin = Client::wasm("guest", guests::HOSTILE).tools(&["server-note"]);
    let guarded = Guarded::start(|setup| setup.client(plugin)).await;
    for (text, expected) in [("before:deny", DENIED), ("plain", "noted plain")] {
        let relay = json!({"tool": "server-note", "arguments": {"text": text}});
        let reply = guarded.gateway.execute("guest-relay", &relay).await;
        assert!(reply.text.contains(expected), "{}", reply.text);
    }
    assert_eq!(guarded.noted(), "plain\n");
}

#[tokio::test]
async fn calls_that_operators_try_are_guarded() {
    let operator =
        json!({"name": "tests", "role": "admin", "token": OPERATOR, "sees_payloads": true});
    let guarded =
        Guarded::start(|setup| setup.set("/management/operators", json!([operator]))).await;
    for (text, state) in [("before:deny", "failed"), ("plain", "completed")] {
        let call = json!({"tool": "server-note", "arguments": {"text": text}});
        let request = guarded.gateway.request(Method::POST, "/api/mcp/try");
        let tried = Reply::fetch(request.bearer_auth(OPERATOR).json(&call)).await.ok();
        assert_eq!(tried["state"], state, "{tried:#}");
        if state == "failed" {
            assert_eq!(tried["error"]["code"], "airlock.guard_denied");
        }
    }
    assert_eq!(guarded.noted(), "plain\n");
}

#[tokio::test]
async fn calls_of_the_command_line_are_guarded() {
    let setup = guarded(Setup::new());
    let denied = setup.call("server-note", &json!({"text": "before:deny"})).await;
    assert_eq!(denied["error"]["code"], "airlock.guard_denied", "{denied:#}");
    assert!(!notes(&setup).exists());
    let made = setup.call("server-note", &json!({"text": "plain"})).await;
    assert_eq!(made["ok"], true, "{made:#}");
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct Told {
    text: String,
    mood: Mood,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
#[serde(rename_all = "snake_case")]
enum Mood {
    Secret,
    Plain,
}

async fn tell(told: Told, _: ToolContext) -> Result<String, ToolError> {
    Ok(format!("told {}", told.text))
}

/// Starts a gateway of a program with the tool `tell`, which is guarded.
async fn telling() -> Embedded {
    let tool = NativeTool::typed("tell", "Tells a text.", tell).effect(ToolEffect::Adds);
    let setup = Setup::new().set("/guards", json!([warden(&json!({"clients": ["internal"]}))]));
    Embedded::with(setup, |_| {}, |builder| builder.register_tool(tool).expect("a tool")).await
}

async fn code(embedded: &Embedded, arguments: Value) -> String {
    let request = embedded.gateway().request().approving().open().expect("it is permitted");
    let made = request.call("internal-tell", arguments).await;
    made.map_or_else(|error| error.code(), |_| "made".to_owned())
}

#[tokio::test]
async fn calls_of_the_embedding_program_are_guarded_and_rewritten_arguments_are_checked() {
    let embedded = telling().await;
    for (text, mood, expected) in [
        ("before:deny", "plain", "airlock.guard_denied"),
        ("plain", "secret", "made"),
        // The guard makes a mood of it that the schema does not have.
        ("before:rewrite", "secret", "airlock.bad_arguments"),
    ] {
        let found = code(&embedded, json!({"text": text, "mood": mood})).await;
        assert_eq!(found, expected, "{text}");
    }
    embedded.stop().await;
}
