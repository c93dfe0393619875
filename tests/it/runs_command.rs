//! `airlock run`, `runs` and `replay`: a run that waits, its exit codes, and how it is shown.

use std::process::{Command, Stdio};

use airlock_tests::{Airlock, Finished, Setup, binary, misbehaving};
use serde_json::json;

/// Exit code of a command whose run waits for a decision.
const WAITS: Option<i32> = Some(3);

/// A configuration whose tool `note` needs an approval.
fn setup() -> Setup {
    let setup = Setup::new();
    let notes = format!("notes={}", setup.directory().join("notes").display());
    let server = misbehaving("server", [notes.as_str()]);
    setup.client(server.code_mode().auto(&["echo", "fail"]))
}

async fn run(setup: &Setup, file: &str, script: &str) -> Finished {
    let file = setup.file(file, script);
    setup.airlock("run").arg(file).arg("--json").run().await
}

fn command<const N: usize>(setup: &Setup, words: [&str; N]) -> Airlock {
    let command = words.iter().fold(Airlock::new(), Airlock::arg);
    command.arg("--config").arg(setup.write())
}

#[tokio::test]
async fn a_called_script_that_waits_is_followed_by_the_commands_that_decide() {
    let setup = setup();
    let script = json!({"code": "server.note(text = \"b\")"}).to_string();
    let waits = command(&setup, ["call", "executeToolCode", &script]).run().await;
    assert_eq!(waits.code, WAITS, "{waits}");
    let option = format!("--config {}", setup.write().display());
    assert!(waits.stderr.contains(&format!("`airlock runs approve {option} run_")), "{waits}");
}

#[tokio::test]
async fn a_run_that_waits_has_its_own_exit_code_from_its_start_to_its_end() {
    let setup = setup();
    let script = "server.echo(text = \"a\")\nfor n in [\"b\", \"c\"]:\n    server.note(text = n)\nresult = 7\n";
    let waits = run(&setup, "script.star", script).await;
    let report = waits.json();
    assert_eq!((waits.code, &report["status"]), (WAITS, &json!("needs_approval")), "{waits}");
    let id = report["run"].as_str().expect("an id");
    assert_eq!(report["waits"]["id"], id);

    let list = command(&setup, ["runs", "list"]).run().await.ok().stdout;
    let (header, row) = list.split_once('\n').expect("a header");
    assert!(header.starts_with("ID ") && header.contains(" STATE "), "{list}");
    let words: Vec<_> = row.split_whitespace().take(5).collect();
    let [listed, "suspended", began, "starlark", "server-note:"] = words[..] else {
        panic!("{list}")
    };
    assert!(listed == id && began.starts_with("20") && began.ends_with('Z'), "{list}");
    assert!(row.trim_end().ends_with("server.echo(text = \"a\")"), "{list}");
    let list = command(&setup, ["runs", "list", "--json"]).run().await.ok().json();
    assert_eq!(list[0]["pending_calls"], 1, "{list:#}");

    let shown = command(&setup, ["runs", "show", id, "--json"]).run().await.ok().json();
    let call = json!([{"position": "2", "tool": "server-note", "arguments": {"text": "b"}}]);
    assert_eq!((&shown["pending"], &report["waits"]["pending"]), (&call, &call));

    let state = shown["request_state"].as_str().expect("a state");
    let again = command(&setup, ["runs", "approve", id]).run().await;
    assert_eq!(again.code, WAITS, "{again}");
    assert!(
        again.stderr.contains("approved:\n  2  server-note\n      {\"text\":\"b\"}"),
        "{again}"
    );
    let old = command(&setup, ["runs", "approve", id, "--state", state, "--json"]).run().await;
    assert_eq!((old.code, &old.json()["error"]["code"]), (Some(1), &json!("airlock.run_changed")));
    assert!(!old.stderr.contains("approved:"), "{old}");
    let ended = command(&setup, ["runs", "approve", id]).run().await.ok();
    assert!(ended.stdout.contains("result:\n7"), "{ended}");
    let list = command(&setup, ["runs", "list"]).run().await.ok().stdout;
    assert!(list.contains("completed") && !list.contains("server-note"), "{list}");

    let replayed = command(&setup, ["replay", id, "--json"]).run().await.ok().json();
    assert_eq!(replayed["stored"], replayed["derived"], "{replayed:#}");
    assert_eq!(replayed["stored"]["result"], 7, "{replayed:#}");
}

#[tokio::test]
async fn a_failed_run_is_shown_with_the_line_of_its_error() {
    let setup = setup();
    let failed = run(&setup, "script.star", "x = 1\ny = x // 0\n").await;
    assert_eq!(failed.code, Some(1), "{failed}");
    let report = failed.json();
    let id = report["run"].as_str().expect("an id");
    let shown = command(&setup, ["runs", "show", id]).run().await.ok().stdout;
    assert!(shown.contains("\nerror in line 2:\n  y = x // 0\n"), "{shown}");
    assert!(shown.contains("\nscript:\n  1  x = 1\n  2  y = x // 0\n"), "{shown}");
    let replayed = command(&setup, ["replay", id, "--json"]).run().await.ok().json();
    assert_eq!(replayed["stored"], replayed["derived"], "{replayed:#}");
    assert_eq!(replayed["derived"]["error"]["line"], 2, "{replayed:#}");
}

#[tokio::test]
async fn a_run_is_found_by_a_prefix_and_an_unknown_one_has_a_code() {
    let setup = setup();
    let ids =
        [run(&setup, "a.star", "result = 1\n").await, run(&setup, "a.star", "x = 1 // 0\n").await];
    let ids = ids.map(|ran| ran.json()["run"].as_str().expect("an id").to_owned());
    for id in &ids {
        let prefix = &id[..id.len() - 1];
        let shown = command(&setup, ["runs", "show", prefix, "--json"]).run().await.ok().json();
        assert_eq!(shown["id"], *id);
    }
    let both = command(&setup, ["runs", "show", "run_0", "--json"]).run().await;
    assert_eq!(both.json()["error"]["code"], "airlock.run_ambiguous", "{both}");
    let none = command(&setup, ["runs", "show", "run_x", "--json"]).run().await;
    assert_eq!(
        (none.code, &none.json()["error"]["code"]),
        (Some(1), &json!("airlock.run_not_found"))
    );
    let none = command(&setup, ["runs", "approve", "run_x"]).run().await;
    assert!(none.stderr.contains("no run run_x; `airlock runs list --config "), "{none}");
    let listed = |words: [&'static str; 2]| {
        let list = command(&setup, ["runs", "list", "--json"]);
        words.into_iter().fold(list, Airlock::arg)
    };
    let failed = listed(["--state", "failed"]).run().await.ok().json();
    assert_eq!(
        (failed[0]["id"].as_str(), failed[1].as_str()),
        (Some(&*ids[1]), None),
        "{failed:#}"
    );
    let one = listed(["--limit", "1"]).run().await.ok().json();
    assert_eq!(one.as_array().map(Vec::len), Some(1), "{one:#}");
    assert_ne!(listed(["--limit", "0"]).run().await.code, Some(0));
}

#[tokio::test]
async fn a_failure_names_its_file_its_run_and_the_calls_that_may_have_acted() {
    let setup = setup();
    let script = "server.echo(text = \"a\")\ne = attempt(server.fail, {})\nx = 1 // 0\n";
    let file = setup.file("report.star", script);
    let failed = setup.airlock("run").arg(file).run().await;
    assert_eq!(failed.code, Some(1), "{failed}");
    for part in [
        "report.star:3",
        "These calls succeeded before the failure and are not undone",
        "server.echo\n",
        "A call that failed may also have had an effect; check before you repeat it: server.fail\n",
        "airlock runs show",
    ] {
        assert!(failed.stderr.contains(part), "{part}: {failed}");
    }
}

#[tokio::test]
async fn the_error_that_a_tool_reports_has_a_kind_of_its_own() {
    let setup = setup();
    for (file, script) in [
        ("a.star", "e = attempt(server.fail, {}).error\nresult = [e.kind, e.code, e.message]\n"),
        (
            "a.py",
            "try:\n    server.fail()\nexcept ToolError as e:\n    result = [e.kind, e.code, e.message]\n",
        ),
    ] {
        let report = run(&setup, file, script).await.ok().json();
        assert_eq!(
            report["result"],
            json!(["other", "airlock.tool_error", "it did not work"]),
            "{file}"
        );
    }
}

#[tokio::test]
async fn a_script_out_of_fuel_is_told_what_to_do() {
    let setup = setup();
    for (file, script) in [("a.star", "while True: pass\n"), ("a.py", "while True: pass\n")] {
        let ended = run(&setup, file, script).await;
        let report = ended.json();
        let message = report["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((ended.code, &report["status"]), (Some(1), &json!("limit")), "{ended}");
        for part in ["the script used", "line where it stopped is not known", "fewer iterations"] {
            assert!(message.contains(part), "{file}: {message}");
        }
    }
}

#[test]
fn a_reader_that_closes_the_output_early_causes_no_message() {
    let setup = setup();
    let config = setup.write();
    for words in [["runs", "list"], ["tools", "--json"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(binary("airlock-under-test"));
        command.args(words).arg("--config").arg(&config).stdout(writer).stderr(Stdio::piped());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(1), ""), "{words:?}");
    }
}
