//! Definitions that sources list: a guard decides about each before the tool is offered.

use std::fs;

use airlock_tests::{Setup, mcp::Endpoint, misbehaving};
use serde_json::{Value, json};

use super::{ANN, Guarded, guarded, notes, records::digest, warden};
use crate::records::events;

/// Returns the definition of a tool, whose description says how the guard decides.
pub(super) fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {
        "text": {"type": "string", "description": description},
    }}})
}

/// Starts a gateway whose server `listed` has these tools.
pub(super) async fn listing(guard: Value, tools: &[Value]) -> Guarded {
    Guarded::start(|setup| with_list(setup, &guard, tools)).await
}

fn with_list(setup: Setup, guard: &Value, tools: &[Value]) -> Setup {
    let file = setup.directory().join("tools.json");
    fs::write(&file, json!(tools).to_string()).expect("the file can be written");
    let modes = [format!("tools={}", file.display()), format!("notes={}", notes(&setup).display())];
    let modes = [modes[0].as_str(), modes[1].as_str()];
    let client = misbehaving("listed", modes).execute(&["*"]).auto(&["*"]);
    setup.client(client).set("/guards", json!([guard]))
}

/// Returns the tools of the server that an MCP client sees.
pub(super) async fn offered(guarded: &Guarded) -> Vec<Value> {
    let list = Endpoint::new(&guarded.gateway).modern("tools/list", json!({})).result().await;
    let tools = list["tools"].as_array().expect("tools").iter();
    tools
        .filter(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with("listed-")))
        .cloned()
        .collect()
}

#[tokio::test]
async fn a_denied_tool_is_not_offered_and_a_call_of_it_names_the_guard_and_its_reason() {
    let tools = [tool("echo", "plain"), tool("note", "definition:deny")];
    let guarded = listing(warden(&json!({})), &tools).await;
    let names: Vec<_> = offered(&guarded).await.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["listed-echo"]);
    let denied = guarded.call("listed-note", "plain").await;
    let message = r#"the call of tool 'listed-note' is not made, because the tool's definition is denied by the guard "warden": the call says so (told)"#;
    assert_eq!((denied.refusal(), denied.code()), ((403, message), "guard_denied"));
    assert_eq!(guarded.noted(), "");
    let client = guarded.gateway.connected("listed").await;
    let reason = r#""note": the guard "warden" denies its definition: the call says so (told)"#;
    assert_eq!(client["left_out"], json!([reason]));
    let explained = guarded.gateway.get("/api/mcp/explain").await.ok();
    assert!(explained.to_string().contains("denies its definition"), "{explained:#}");
}

#[tokio::test]
async fn the_texts_of_a_definition_are_replaced_and_its_schema_stays() {
    let guarded = listing(warden(&json!({})), &[tool("note", "definition:rewrite secret")]).await;
    let [note] = &offered(&guarded).await[..] else { panic!("there is one") };
    let text = note["description"].as_str().expect("a text");
    assert!(text.ends_with("definition:rewrite hidden"), "{note:#}");
    let property = &note["inputSchema"]["properties"]["text"];
    assert_eq!(*property, json!({"type": "string", "description": "definition:rewrite hidden"}));
    assert_eq!(guarded.call("listed-note", "plain").await.content(), "called note");
}

#[tokio::test]
async fn a_tool_about_which_a_guard_fails_is_not_offered() {
    for word in ["trap", "spin", "hoard", "big", "broken", "array", "ask", "rename"] {
        let tools = [tool("note", &format!("definition:{word}")), tool("echo", "plain")];
        let guarded = listing(warden(&json!({})), &tools).await;
        assert_eq!(offered(&guarded).await.len(), 1, "{word}");
        let refused = guarded.call("listed-note", "plain").await;
        assert_eq!((refused.status, refused.code()), (403, "guard_failed"), "{word}");
        assert_eq!(guarded.noted(), "");
    }
}

#[tokio::test]
async fn each_decision_that_changes_something_has_one_line_in_the_audit_log() {
    let log = tempfile::tempdir().expect("a directory");
    let tools = [
        tool("echo", "plain"),
        tool("note", "definition:deny"),
        tool("fail", "definition:rewrite secret"),
        tool("odd", "definition:trap"),
    ];
    let guarded = Guarded::start(|setup| {
        let setup = setup.set("/records/audit/enabled", true);
        let setup = setup.set("/records/audit/dir", log.path().display().to_string());
        with_list(setup, &warden(&json!({})), &tools)
    })
    .await;
    for _ in 0..2 {
        assert_eq!(offered(&guarded).await.len(), 2);
        assert_eq!(guarded.call("listed-note", "plain").await.code(), "guard_denied");
    }
    guarded.gateway.terminate();
    guarded.gateway.ended().await;
    let mut lines = events(log.path());
    lines.retain(|event| event["kind"] == "definition_guarded");
    let found: Vec<_> = lines
        .iter()
        .map(|line| ["object", "verdict", "code"].map(|name| line[name].as_str().unwrap_or("")))
        .collect();
    let expected = [
        ["listed-fail", "rewrite", ""],
        ["listed-note", "deny", "told"],
        ["listed-odd", "fail", ""],
    ];
    assert_eq!(found, expected);
    let digest = digest();
    for line in &lines {
        assert_eq!(line["actor"], r#"guard "warden""#);
        assert_eq!((&line["client"], &line["guard_digest"]), (&json!("listed"), &json!(digest)));
        let definition = line["definition"].as_str().expect("a digest");
        assert!(definition.starts_with("sha256:"), "{definition}");
    }
}

#[tokio::test]
async fn a_guard_knows_the_tool_and_its_source() {
    let guarded = listing(warden(&json!({})), &[tool("note", "definition:facts")]).await;
    let denied = guarded.call("listed-note", "plain").await;
    let facts = "tool=listed-note client=listed trusted=false settings={}";
    assert!(denied.refusal().1.contains(facts), "{}", denied.text);
}

#[tokio::test]
async fn a_guard_decides_about_the_definitions_in_its_scope_alone() {
    let tools = [tool("note", "definition:deny"), tool("echo", "definition:deny")];
    for (on, expected) in [
        (json!({"tools": ["listed-note"]}), 1),
        (json!({"clients": ["server"]}), 2),
        (json!({"keys": ["ann"]}), 2),
    ] {
        let guard = warden(&on);
        let rows: &[(&str, &[&str])] = &[("server", &["*"])];
        let guarded =
            Guarded::start(|setup| with_list(setup.key("ann", ANN, rows), &guard, &tools)).await;
        assert_eq!(offered(&guarded).await.len(), expected, "{on}");
    }
}

#[tokio::test]
async fn a_hook_that_a_guard_does_not_have_is_not_run_and_cannot_be_named() {
    let tools = [tool("note", "definition:deny")];
    let mut guard = warden(&json!({}));
    guard["settings"] = json!({"is": "hooks:before"});
    let guarded = listing(guard.clone(), &tools).await;
    assert_eq!(offered(&guarded).await.len(), 1);
    for (words, hooks, message) in [
        (
            "hooks:before",
            json!(["before", "definition"]),
            "the guard has no hook definition; it has before",
        ),
        ("hooks:none", Value::Null, "the guard has no hooks, so that it is never asked"),
    ] {
        guard["settings"] = json!({"is": words});
        guard["hooks"] = hooks;
        let setup = guarded_setup(&guard);
        let checked = setup.airlock("check").arg("--json").run().await.failed().json();
        assert_eq!(checked["errors"][0]["key"], "guards[0].hooks", "{checked:#}");
        assert_eq!(checked["errors"][0]["message"], message);
    }
}

fn guarded_setup(guard: &Value) -> Setup {
    guarded(Setup::new()).set("/guards", json!([guard]))
}
