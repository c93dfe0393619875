//! Ways to write a call of a tool that needs an approval, through every entry, in both languages.
//! None may make the call, and the run must stop at it.

use std::path::PathBuf;

use airlock_tests::{Client, guests};
use serde_json::{Value, json};

use super::{ANN, Recorded, calls, pending};

/// Ways that both languages have.
const COMMON: [(&str, &str); 13] = [
    ("plain", "rec.drop(n = 9)"),
    ("one dict", "rec.drop({'n': 9})"),
    ("an alias", "f = rec.drop\nf(n = 9)"),
    ("an aliased server", "s = rec\ns.drop(n = 9)"),
    ("in a dict", "d = {'f': [rec.drop]}\nd['f'][0](n = 9)"),
    ("a default argument", "def f(t = rec.drop):\n    return t(n = 9)\nf()"),
    ("a lambda", "(lambda t: t(n = 9))(rec.drop)"),
    ("a comprehension", "[t(n = 9) for t in [rec.drop]]"),
    (
        "a nested function",
        "def f():\n    def g():\n        return rec.drop(n = 9)\n    return g()\nf()",
    ),
    ("getattr", "getattr(rec, 'drop')(n = 9)"),
    ("a computed name", "getattr(rec, ''.join(['dr', 'op']))(n = 9)"),
    ("a shadowed name", "read = rec.drop\nread(n = 9)"),
    ("keyword arguments of a dict", "rec.drop(**{'n': 9})"),
];
/// Ways of Starlark alone.
const STARLARK: [(&str, &str); 4] = [
    ("attempted", "attempt(rec.drop, {'n': 9})"),
    ("gathered", "gather([(rec.read, {'n': 8}), (rec.drop, {'n': 9})], attempt = True)"),
    ("mapped", "map(lambda n: rec.drop(n = n), [9])"),
    ("a key function", "sorted([9], key = lambda n: rec.drop(n = n)['n'])"),
];
/// Ways of Python alone.
const PYTHON: [(&str, &str); 2] = [
    ("caught", "try:\n    rec.drop(n = 9)\nexcept Exception:\n    pass"),
    ("awaited", "import asyncio\nawait asyncio.gather(rec.read(n = 8), rec.drop(n = 9))"),
];

fn ways(language: &str) -> Vec<(&'static str, &'static str)> {
    let own: &[_] = if language == "python" { &PYTHON } else { &STARLARK };
    COMMON.iter().chain(own).copied().collect()
}

/// A gateway whose model writes the script that the user's message holds.
async fn recorded(language: &str) -> Recorded {
    Recorded::with(&["read", "add"], |setup| {
        setup.set("/mcp/tool_manager_config/code_mode_language", language)
    })
    .await
}

/// Returns the position at which a run has stopped, and that nothing but reads was made.
fn stopped(recorded: &Recorded, run: &Value, what: &str) {
    assert_eq!(pending(run).len(), 1, "{what}: {run:#}");
    assert_eq!(run["pending"][0]["tool"], "rec-drop", "{what}");
    let dropped = recorded.written().into_iter().filter(|(tool, _)| tool == "drop").count();
    assert_eq!(dropped, 0, "{what}: the tool ran");
}

#[tokio::test]
async fn a_script_that_a_caller_executes_stops_however_it_writes_the_call() {
    for language in ["starlark", "python"] {
        let recorded = recorded(language).await;
        for (what, way) in ways(language) {
            let reply = recorded.execute("", &format!("{way}\nrec.add(n = 7)")).await;
            stopped(&recorded, &reply["airlock"]["run"], &format!("{language}, {what}"));
        }
        assert_eq!(recorded.written(), [], "{language}: nothing after the call has run");
    }
}

#[tokio::test]
async fn a_run_that_goes_on_stops_however_it_writes_the_call() {
    for language in ["starlark", "python"] {
        let recorded = recorded(language).await;
        for (what, way) in ways(language) {
            // The first call is approved; the second is the same but for its argument.
            let script = format!("rec.drop(n = 1)\n{way}");
            let reply = recorded.execute("", &script).await;
            let id = reply["airlock"]["run"]["id"].as_str().expect("an id").to_owned();
            let run = recorded.decide(&id, "approve", json!(["1"])).await;
            assert_eq!(run["state"], "suspended", "{language}, {what}: {run:#}");
            let dropped = recorded.written();
            assert!(dropped.iter().all(|(_, n)| *n == 1), "{language}, {what}: {dropped:?}");
        }
    }
}

#[tokio::test]
async fn a_script_of_a_model_stops_however_it_writes_the_call() {
    for language in ["starlark", "python"] {
        for (what, way) in ways(language) {
            let arguments = json!({"code": way});
            let turns = json!({"turns": [{"when": {"role": "user"}, "answer": {"tool_calls": [{"name": super::EXECUTE, "arguments": arguments}]}}]});
            let recorded = Recorded::with(&["read", "add"], |setup| {
                setup
                    .scripted("local", &turns)
                    .set("/mcp/tool_manager_config/code_mode_language", language)
            })
            .await;
            let body =
                json!({"model": "local/model", "messages": [{"role": "user", "content": "go"}]});
            let answer = recorded.post(ANN, "/v1/chat/completions", &body).await.ok();
            stopped(&recorded, &answer["airlock"]["run"], &format!("{language}, {what}"));
            // The model that writes the same script again approves nothing.
            let answer = recorded.post(ANN, "/v1/chat/completions", &body).await.ok();
            stopped(&recorded, &answer["airlock"]["run"], &format!("{language}, {what}"));
        }
    }
}

/// A gateway with a plugin that may call `rec-drop` and write to a directory.
async fn with_a_plugin(language: &str, turns: &Value) -> (Recorded, PathBuf) {
    let lent = tempfile::tempdir().expect("a directory").keep();
    let plugin = Client::wasm("guest", guests::HOSTILE)
        .tools(&["rec-drop"])
        .directory("lent", &lent, "read_write")
        .set("/wasm_config/grants/scratch", json!({"max_bytes": "1MiB", "max_files": 10}))
        .auto(&["relay"])
        .code_mode();
    let recorded = Recorded::with(&["read"], |setup| {
        setup
            .client(plugin)
            .scripted("local", turns)
            .set("/mcp/tool_manager_config/code_mode_language", language)
    })
    .await;
    (recorded, lent)
}

#[tokio::test]
async fn a_plugin_that_a_script_calls_makes_no_call_that_needs_an_approval() {
    let script = "guest.relay(tool = 'rec-drop', arguments = {'n': 9})";
    let arguments = json!({"code": script});
    let turns = json!({"turns": [{"when": {"role": "user"}, "answer": {"tool_calls": [{"name": super::EXECUTE, "arguments": arguments}]}}]});
    for language in ["starlark", "python"] {
        let (recorded, _) = with_a_plugin(language, &turns).await;
        let executed = recorded.execute("", script).await["airlock"]["run"].clone();
        let body = json!({"model": "local/model", "messages": [{"role": "user", "content": "go"}]});
        let asked = recorded.post("", "/v1/chat/completions", &body).await.ok();
        // The second call of a run whose first was approved.
        let first = recorded.execute("", &format!("rec.drop(n = 1)\n{script}")).await;
        let id = first["airlock"]["run"]["id"].as_str().expect("an id").to_owned();
        let resumed = recorded.decide(&id, "approve", json!(["1"])).await;
        for (entry, run) in [("executed", &executed), ("chat", &asked["airlock"]["run"])] {
            assert_eq!(run["pending"][0]["tool"], "guest-relay", "{language}, {entry}: {run:#}");
        }
        assert_eq!(pending(&resumed), ["2"], "{language}: {resumed:#}");
        assert_eq!(recorded.written(), calls([("drop", 1)]), "{language}");
        // The approval of the plugin's call covers the calls that it makes.
        let run = recorded.decide(&id, "approve", json!(["2"])).await;
        assert_eq!(run["state"], "completed", "{language}: {run:#}");
        assert_eq!(recorded.written(), calls([("drop", 1), ("drop", 9)]), "{language}");
    }
}

#[tokio::test]
async fn a_plugin_that_has_written_a_file_is_not_run_again_unasked() {
    let (recorded, lent) = with_a_plugin("starlark", &json!({"turns": []})).await;
    let call = |path: &str| {
        format!("guest.relay(tool = 'rec-drop', arguments = {{'n': 9}}, file = '{path}')")
    };
    // A file of the call's own scratch directory is none that anybody sees.
    for (path, is_in_doubt) in [("/lent/file", true), ("/tmp/file", false)] {
        let reply = recorded.execute("", &call(path)).await;
        let id = reply["airlock"]["run"]["id"].as_str();
        let Some(id) = id else { panic!("{path}: {reply:#}") };
        let run = recorded.get("", &format!("/v1/runs/{id}")).await.ok();
        let doubted = run["in_doubt"].as_array().expect("a list");
        let doubted: Vec<_> = doubted.iter().map(|call| &call["position"]).collect();
        let expected = if is_in_doubt { vec!["1"] } else { Vec::new() };
        assert_eq!(doubted, expected, "{path}: {run:#}");
        if !is_in_doubt {
            continue;
        }
        // To make it again is no approval of what it calls, which nobody was shown.
        let run = recorded.resolve(&run, "1", "retry").await;
        assert_eq!(run["in_doubt"][0]["position"], "1", "{run:#}");
        // An approval that is repeated, as by a client that has lost its response, makes nothing again.
        let approve = json!({"calls": ["1"]});
        let refused = recorded.post("", &format!("/v1/runs/{id}/approve"), &approve).await;
        assert_eq!((refused.status, refused.code()), (409, "run_refused"), "{}", refused.text);
        assert_eq!(recorded.written(), []);
        let run = recorded.resolve(&run, "1", "approve").await;
        assert_eq!(run["state"], "completed", "{run:#}");
    }
    assert_eq!(std::fs::read_to_string(lent.join("file")).expect("written"), "relayed");
    assert_eq!(recorded.written(), calls([("drop", 9)]));
}

#[tokio::test]
async fn look_alikes_and_names_that_do_not_exist_call_nothing() {
    let recorded = recorded("starlark").await;
    for way in [
        // A Cyrillic letter.
        "rec.drоp(n = 9)",
        "rec['drop'](n = 9)",
        "rec.Drop(n = 9)",
        "rec.rec_drop(n = 9)",
        "drop(n = 9)",
    ] {
        let reply = recorded.execute("", way).await;
        assert_eq!(reply["is_error"], true, "{way}: {reply:#}");
        assert_eq!(reply["airlock"]["run"], Value::Null, "{way}: {reply:#}");
    }
    // Full-width letters are the same names in Python (NFKC), so the call stops as any other.
    for way in ["rec.ｄrop(n = 9)", "ｒec.drop(n = 9)"] {
        let reply = recorded.execute("", way).await;
        stopped(&recorded, &reply["airlock"]["run"], way);
    }
    assert_eq!(recorded.written(), []);
}
