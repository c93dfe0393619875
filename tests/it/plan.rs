//! `airlock plan`: which calls a script makes, without making any.

use airlock_tests::{Client, Setup, guests, misbehaving};
use serde_json::{Value, json};

/// Runs the command with a script of this name. Returns the printed document.
async fn plan(setup: &Setup, name: &str, source: &str) -> Value {
    let script = setup.file(name, source);
    setup.airlock("plan").arg(script).arg("--json").run().await.json()
}

#[tokio::test]
async fn a_plan_has_the_calls_of_a_script_and_makes_none() {
    let setup = Setup::new();
    let database = setup.directory().join("airlock.db");
    let grants = json!({"kv": {"notes": {"max_bytes": "64KiB"}}, "clocks": true});
    let notes = Client::wasm("notes", guests::NOTES).set("/wasm_config/grants", grants);
    let notes = notes.code_mode().auto(&["list_notes", "read_note"]);
    let setup = setup.set("/store", database.to_str().expect("a path in UTF-8")).client(notes);
    let source = "
for note in notes.list_notes()['notes']:
    notes.read_note(id = note['id'])
for n in range(2):
    notes.add_note(title = 'a')
";
    for name in ["script.star", "script.py"] {
        let plan = plan(&setup, name, source).await;
        assert_eq!((&plan["complete"], &plan["unknown_from"]), (&json!(true), &Value::Null));
        let calls = plan["calls"].as_array().expect("calls").iter();
        let calls: Vec<_> = calls
            .map(|call| {
                json!([
                    call["name"],
                    call["arguments"],
                    call["varying"],
                    call["times"],
                    call["rehearsed"],
                    call["needs_approval"],
                ])
            })
            .collect();
        let expected = [
            json!(["notes.list_notes", {}, [], 1, [1, 1], false]),
            json!(["notes.read_note", {}, ["id"], null, [1, 2], false]),
            json!(["notes.add_note", {"title": "a"}, [], 2, [2, 2], true]),
        ];
        assert_eq!(calls, expected, "{name}: {plan:#}");
    }
    let kept = setup.script("result = len(notes.list_notes()['notes'])").await;
    assert_eq!(kept["result"], 0, "{kept:#}");
}

#[tokio::test]
async fn a_plan_ends_where_a_result_is_needed_that_nothing_describes() {
    let setup = Setup::new();
    let file = setup.directory().join("notes");
    let mode = format!("notes={}", file.display());
    let setup = setup.client(misbehaving("server", [mode.as_str()]).code_mode().auto(&["*"]));
    let source =
        "server.note(text = 'x')\nx = server.echo(text = 'a')\nserver.note(text = x['key'])";
    for name in ["script.star", "script.py"] {
        let plan = plan(&setup, name, source).await;
        assert_eq!((&plan["complete"], &plan["unknown_from"]["line"]), (&json!(false), &json!(3)));
        let undescribed = &plan["unknown_from"]["undescribed"];
        assert_eq!(undescribed, &json!(["server-note", "server-echo"]), "{plan:#}");
        assert_eq!(plan["calls"].as_array().map(Vec::len), Some(2), "{plan:#}");
    }
    let script = setup.file("script.py", source);
    let answers = setup.file("answers.json", r#"{"server.echo": {"key": "described"}}"#);
    let described = setup.airlock("plan").arg(&script).arg("--answers").arg(answers);
    let described = described.run().await.ok();
    assert!(described.stdout.contains("server.note(text=\"described\"): once"), "{described}");
    let unknown = setup.file("unknown.json", r#"{"server.nothing": 1}"#);
    let unknown = setup.airlock("plan").arg(&script).arg("--answers").arg(unknown).run().await;
    assert!(unknown.stderr.contains("\"server.nothing\" has a described answer"), "{unknown}");
    assert!(!file.exists(), "a tool was called");
}

#[tokio::test]
async fn a_plan_decides_a_rule_about_arguments_by_what_they_may_come_from() {
    let sink = json!({
        "tools": ["mail-note"],
        "from": ["web"],
        "arguments": ["text"],
        "decision": "deny",
    });
    let setup = Setup::new()
        .client(misbehaving("web", []).code_mode().auto(&["*"]))
        .client(misbehaving("mail", []).code_mode().auto(&["*"]))
        .set("/mcp/information_flow/sinks", json!([sink]));
    for name in ["script.star", "script.py"] {
        for (text, is_refused) in [("'fixed'", false), ("'to ' + a", true)] {
            let source = format!("a = web.echo(text = 'page')\nmail.note(text = {text})");
            let plan = plan(&setup, name, &source).await;
            assert_eq!(plan["complete"], !is_refused, "{name}: {plan:#}");
            let reason = plan["calls"][1]["refused"].as_str().unwrap_or_default();
            let is_about_value = reason.contains("may come from untrusted content");
            assert_eq!(is_about_value, is_refused, "{name}: {plan:#}");
        }
    }
}

#[tokio::test]
async fn a_plan_names_the_calls_that_a_rule_about_sinks_refuses_or_asks_about() {
    let source = "mail.note(text = 'before')\na = web.echo(text = 'page')\nmail.note(text = a)";
    for decision in ["deny", "ask"] {
        let sink = json!({"tools": ["mail-note"], "from": ["web"], "decision": decision});
        let setup = Setup::new()
            .client(misbehaving("web", []).code_mode().auto(&["*"]))
            .client(misbehaving("mail", []).code_mode().auto(&["*"]))
            .set("/mcp/information_flow/sinks", json!([sink]));
        let plan = plan(&setup, "script.star", source).await;
        let is_refused = decision == "deny";
        assert_eq!(plan["complete"], !is_refused, "{plan:#}");
        let calls = plan["calls"].as_array().expect("calls");
        let notes: Vec<_> = calls.iter().filter(|call| call["tool"] == "mail-note").collect();
        assert_eq!((&notes[0]["refused"], &notes[0]["sources"]), (&Value::Null, &json!([])));
        assert_eq!(notes[1]["flows"], json!({"text": ["web.echo"]}), "{plan:#}");
        assert_eq!(notes[1]["needs_approval"], !is_refused, "{plan:#}");
        if is_refused {
            let reason = notes[1]["refused"].as_str().expect("a reason");
            assert!(reason.contains("from web"), "{reason}");
            assert_eq!(plan["unknown_from"]["line"], 3, "{plan:#}");
        } else {
            assert_eq!(notes[1]["sources"], json!(["web"]), "{plan:#}");
        }
    }
}
