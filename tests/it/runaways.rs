//! Scripts that run away, in both languages, one after the other through one gateway: each ends with
//! an error that names its reason, the next script runs as ever, and the memory of the gateway does
//! not grow.

use airlock_tests::{Client, Gateway, Setup, guests};
use serde_json::{Value, json};

/// Most bytes by which the peak of the process's memory grows while all scripts run twice, which would
/// be 5 GiB if the memory of each were kept: the 64 MiB of each of the places in the pool that are used
/// in turn, and what the gateway keeps of the component and of the journal.
const MAX_GROWN: u64 = 256 << 20;

/// Scripts that both languages have.
const COMMON: [(&str, &str); 24] = [
    ("for in for", "for a in range(1 << 30):\n    for b in range(1 << 30):\n        pass"),
    ("while", "while True:\n    pass"),
    ("while with a counter", "n = 0\nwhile n >= 0:\n    n += 1"),
    ("a comprehension", "x = [a for a in range(1 << 30) for b in range(1 << 30) if b < 0]"),
    ("a generator", "x = sum(1 for a in range(1 << 30) for b in range(1 << 30))"),
    ("a function that loops", "def f():\n    while True:\n        pass\nf()"),
    (
        "a list that grows while it is read",
        "x = [1]\nn = 0\nwhile n < len(x):\n    x.append(n)\n    n += 1",
    ),
    ("recursion", "def f(n):\n    return f(n + 1)\nf(0)"),
    ("mutual recursion", "def f(n):\n    return g(n)\ndef g(n):\n    return f(n)\nf(0)"),
    ("recursion through a key", "def f(n):\n    return sorted([n], key = f)\nf(0)"),
    ("a huge list", "x = [0] * 10 ** 9"),
    ("a huge string", "x = 'ab' * 10 ** 9"),
    ("a doubled string", "x = 'a'\nwhile True:\n    x = x + x"),
    ("a doubled list", "x = [0]\nwhile True:\n    x = x + x"),
    ("a dict that grows", "x = {}\nn = 0\nwhile True:\n    x[n] = [n] * 100\n    n += 1"),
    ("a tower of powers", "x = 10 ** 10 ** 8"),
    ("squares", "x = 3\nwhile True:\n    x = x * x"),
    ("a shift", "x = 1 << 10 ** 9"),
    ("a huge number as text", "x = str(7 ** 300000)\nwhile True:\n    y = str(7 ** 300000)"),
    ("a wide field", "x = f'{1:>1000000000000}'"),
    ("joined text", "x = ','.join(['a' * 1000] * 10 ** 7)"),
    ("a nasty key", "x = sorted(range(1000), key = lambda n: sum(range(10 ** 7)))"),
    ("prints", "for n in range(10 ** 6):\n    print('x' * 1000)"),
    ("calls", "for n in range(10 ** 6):\n    text.word_count(text = 'a')"),
];

/// Returns scripts that are written by a program.
fn written() -> Vec<(&'static str, String)> {
    let nested = |open: &str, close: &str| {
        let depth = 60_000 / (open.len() + close.len());
        format!("x = {}1{}", open.repeat(depth), close.repeat(depth))
    };
    vec![
        ("nested brackets", nested("(", ")")),
        ("nested lists", nested("[", "]")),
        ("nested calls", nested("len(", ")")),
        ("signs", nested("-", "")),
        ("a long sum", nested("1 + ", "")),
        ("nested conditions", nested("1 if 1 else ", "")),
        ("nested blocks", (0..330).map(|n| " ".repeat(n) + "if 1:\n").collect::<String>() + &" ".repeat(331) + "pass"),
        ("a regular expression", "import re\nx = re.match('(a|aa)+$', 'a' * 5000 + 'b')\nwhile True:\n    y = re.findall('(a*)*b', 'a' * 10000)".to_owned()),
        ("a large regular expression", "import re\nx = re.compile('((a{100}){100}){100}')".to_owned()),
        ("a large literal", format!("x = [{}]\nwhile True:\n    x = x + x", "1,".repeat(30_000))),
        ("a large literal of text", format!("x = '{}'\nwhile True:\n    x = x + x", "a".repeat(60_000))),
        ("too long", "#".repeat((64 << 10) + 1)),
    ]
}

/// Executes a script. Returns what stopped it.
async fn stopped(gateway: &Gateway, code: &str) -> Result<String, String> {
    let reply = gateway.execute("executeToolCode", &json!({"code": code})).await;
    if reply.status != 200 {
        return Err(reply.text);
    }
    let content = reply.body["content"].as_str().unwrap_or_default();
    let kinds = [
        "Execution syntax error:",
        "Execution runtime error:",
        "Execution stopped at a limit:",
        "code parameter has",
    ];
    let is_typed = kinds.iter().any(|kind| content.starts_with(kind));
    match (&reply.body["is_error"], is_typed) {
        (Value::Bool(true), true) => Ok(content.to_owned()),
        _ => Err(reply.text),
    }
}

/// Runs every script, and after each one that is well.
async fn run_all(gateway: &Gateway, what: &str) {
    let well =
        json!({"code": "x = text.word_count(text = 'one two')\nresult = sorted([x['words'], 1])"});
    let common = COMMON.iter().map(|(name, source)| (*name, (*source).to_owned()));
    for (name, source) in common.chain(written()) {
        if let Err(text) = stopped(gateway, &source).await {
            panic!("{what}, {name}: {}", text.chars().take(400).collect::<String>());
        }
        let next = gateway.execute("executeToolCode", &well).await.ok();
        assert_eq!(next["is_error"], Value::Null, "{what}, after {name}: {next:#}");
    }
    gateway.sandbox_is_empty().await;
}

async fn stay(language: &str) {
    let gateway = Setup::new()
        .client(Client::wasm("text", guests::TEXT).auto(&["*"]).code_mode())
        .set("/mcp/tool_manager_config/code_mode_language", language)
        .set("/mcp/tool_manager_config/code_mode_cpu_time", "250ms")
        .serve_connected()
        .await;
    let begun = gateway.peak_memory();
    for round in ["first", "second"] {
        run_all(&gateway, &format!("{language}, {round} round")).await;
    }
    let grown = gateway.peak_memory() - begun;
    assert!(grown <= MAX_GROWN, "{language}: the peak has grown by {} MiB", grown >> 20);
}

#[tokio::test]
async fn a_starlark_script_that_runs_away_ends_and_leaves_nothing() {
    stay("starlark").await;
}

#[tokio::test]
async fn a_python_script_that_runs_away_ends_and_leaves_nothing() {
    stay("python").await;
}
