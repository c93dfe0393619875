//! Scripts whose calls are looked at before the first is made: one that would fail leaves nothing half done.

use airlock_tests::{Client, Gateway, Setup, guests};
use serde_json::json;

/// The languages of scripts.
const LANGUAGES: [&str; 2] = ["starlark", "python"];
/// End of the text about a script that has not run.
const REFUSED: &str = "the script has not run, and no call was made";

/// Calls that follow one that is right, with a part of the reason for which none is made.
const WRONG: [(&str, &str); 12] = [
    ("notes.ad_note(title = 'b')", "`notes` has no tool `ad_note`"),
    ("notes.add_note(titel = 'b')", "unknown parameter `titel`; did you mean `title`?"),
    ("notes.add_note(text = 'b')", "the parameter `title` is missing"),
    ("notes.add_note({'text': 'b'})", "the parameter `title` is missing"),
    ("notes.add_note(title = 7)", "the parameter `title` must be string, not number"),
    ("t = -7.5\nnotes.add_note(title = t)", "the parameter `title` must be string, not number"),
    ("notes.add_note(title = ['b'])", "the parameter `title` must be string, not array"),
    ("notes.read_note('1')", "notes.read_note takes arguments by name"),
    ("notes.read_note(id = '1')", "the parameter `id` must be integer, not string"),
    ("notes.add_note(title = x)", "and the result of `notes.add_note` is object"),
    ("def f(y):\n  return notes.read_note(id = True)\nf(x)", "must be integer, not boolean"),
    ("for n in range(3):\n  notes.nothing()", "`notes` has no tool `nothing`"),
];

/// Calls that run, or that may be right.
const RIGHT: [&str; 11] = [
    "notes.read_note(id = x['id'])",
    "notes.add_note(title = x['title'])",
    "x['id'] = 'b'\nnotes.add_note(title = x['id'])",
    "x = 'b'\nnotes.add_note(title = x)",
    "notes.add_note(title = str(x['id']))",
    "notes.add_note(title = 'b', tags = ['c'])",
    "notes.add_note({'title': 'b'})",
    "d = {'title': 'b'}\nnotes.add_note(**d)",
    "d = {'title': 'b'}\nnotes.add_note(d)",
    "f = notes.add_note\nf(title = 'b')",
    "def f(notes):\n  return notes.append(7)\nf([])",
];

/// Wrong calls that a script never makes: it ends well without them.
const NEVER_MADE: [&str; 8] = [
    "if x['id'] == 'b':\n  notes.nothing()",
    "for n in []:\n  notes.add_note(titel = n)",
    "while x['id'] == 'b':\n  notes.nothing()",
    "def f():\n  return notes.add_note(title = 7)",
    "f = lambda: notes.read_note(id = '1')",
    "def f():\n  return 1\n  notes.nothing()\nf()",
    "y = notes.nothing() if x['id'] == 'b' else 1",
    "y = [notes.nothing() for n in [1] if n > 1]",
];

/// Calls in Python whose failure the script may handle, or which it does not make.
const HANDLED: [&str; 7] = [
    "if x:\n  return 1\nnotes.nothing()",
    "if hasattr(notes, 'nothing'):\n  notes.nothing()",
    "try:\n  notes.nothing()\nexcept Exception:\n  pass",
    "def f():\n  return notes.add_note(title = 7)\ntry:\n  f()\nexcept Exception:\n  pass",
    "y = notes.add_note(title = 7)\ntry:\n  await y\nexcept Exception:\n  pass",
    "import asyncio\nawait asyncio.gather(notes.add_note(title = 7), return_exceptions=True)",
    "f = lambda: notes.read_note(id = '1')\ntry:\n  f()\nexcept ToolError:\n  pass",
];

async fn gateway() -> Gateway {
    let grants = json!({"kv": {"notes": {"max_bytes": "64KiB"}}, "clocks": true});
    let notes = Client::wasm("notes", guests::NOTES).set("/wasm_config/grants", grants);
    Setup::new().client(notes.code_mode().auto(&["*"])).serve_connected().await
}

/// Runs a script after a first call. Returns the response as text.
async fn run(gateway: &Gateway, language: &str, script: &str) -> String {
    let code = format!("x = notes.add_note(title = 'a')\n{script}\n");
    let headers = [("x-airlock-code-mode-language", language)];
    gateway.execute_with(&headers, "executeToolCode", &json!({"code": code})).await.text
}

#[tokio::test]
async fn a_wrong_call_is_refused_before_the_first_call_in_both_languages() {
    let gateway = gateway().await;
    for language in LANGUAGES {
        for (script, reason) in WRONG {
            let text = run(&gateway, language, script).await;
            assert!(text.contains(reason), "{language}: {script}: {text}");
            assert!(text.contains(REFUSED), "{language}: {script}: {text}");
        }
    }
    let kept = json!({"code": "result = len(notes.list_notes()['notes'])"});
    let kept = gateway.execute("executeToolCode", &kept).await.content();
    assert!(kept.contains("Return value: 0\n"), "{kept}");
}

#[tokio::test]
async fn a_wrong_call_among_calls_at_the_same_time_is_refused() {
    let gateway = gateway().await;
    let good = "(notes.add_note, {'title': 'b'})";
    for (bad, reason) in [
        ("(notes.nothing, {})", "`notes` has no tool `nothing`"),
        ("(notes.add_note, {'title': 7})", "must be string, not number"),
    ] {
        let text = run(&gateway, "starlark", &format!("gather([{good}, {bad}])")).await;
        assert!(text.contains(reason) && text.contains(REFUSED), "{bad}: {text}");
    }
    let script = format!("gather([{good}, (notes.add_note, {{'title': 7}})], attempt = True)");
    let text = run(&gateway, "starlark", &script).await;
    assert!(text.contains("Execution completed"), "{text}");
}

#[tokio::test]
async fn all_wrong_calls_of_a_script_are_shown_with_their_lines() {
    let gateway = gateway().await;
    let script = "notes.nothing()\nnotes.add_note(title = 7)";
    for (language, places) in
        [("starlark", ["code.star:2:1", "code.star:3:1"]), ("python", ["line 2", "line 3"])]
    {
        let text = run(&gateway, language, script).await;
        for part in places.into_iter().chain(["has `add_note`, ", "must be string, not number"]) {
            assert!(text.contains(part), "{language}: {part}: {text}");
        }
    }
}

#[tokio::test]
async fn a_call_that_may_be_right_is_made_in_both_languages() {
    let gateway = gateway().await;
    for language in LANGUAGES {
        for script in RIGHT.into_iter().chain(NEVER_MADE) {
            let text = run(&gateway, language, script).await;
            assert!(text.contains("Execution completed"), "{language}: {script}: {text}");
        }
    }
    for script in HANDLED {
        let text = run(&gateway, "python", script).await;
        assert!(!text.contains(REFUSED), "{script}: {text}");
    }
}
