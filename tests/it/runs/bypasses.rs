//! Ways to write a call of a tool that needs an approval, through every entry, in both languages.
//! None may make the call, and the run must stop at it.

use serde_json::{Value, json};

use super::{ANN, Recorded, pending};

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
