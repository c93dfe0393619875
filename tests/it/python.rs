//! The executor of scripts in Python: tools, failures, concurrency and limits, through the real
//! binary.

use std::collections::BTreeSet;

use airlock_tests::{Client, Embedded, Setup, guests, misbehaving};
use serde_json::{Value, json};

fn setup() -> Setup {
    Setup::new().client(misbehaving("server", []).code_mode().auto(&["*"]))
}

async fn run(source: &str) -> Value {
    setup().script_named("script.py", source).await
}

#[tokio::test]
async fn a_script_gathers_prints_and_returns_numbers_of_any_size() {
    let ran = run("
import asyncio, json
many = await asyncio.gather(*[server.echo(text=str(n)) for n in range(3)])
print('one\\ntwo', len(many))
big = server.echo(text='123456789012345678901234567890')
result = {'many': many, 'big': big + 1, 'huge': str(server.echo(text='1e999')), 'float': 1.0}
")
    .await;
    let expected = json!({"many": [0, 1, 2], "big": "123456789012345678901234567891", "huge": "inf", "float": 1.0});
    assert_eq!((&ran["result"], &ran["output"]), (&expected, &json!("one\ntwo 3")), "{ran:#}");
}

#[tokio::test]
async fn a_failed_tool_is_a_tool_error() {
    let ran = run("
try:
    server.fail()
except ToolError as e:
    result = [type(e).__name__, e.kind, e.code, bool(e.message), e.message == str(e)]
")
    .await;
    assert_eq!(ran["result"][0], "ToolError", "{ran:#}");
    assert_eq!((&ran["result"][3], &ran["result"][4]), (&json!(true), &json!(true)), "{ran:#}");
    let ran = run("def f():\n    return server.fail()\nx = 1\nf()").await;
    assert_eq!(ran["error"]["code"], "script_tool", "{ran:#}");
    let message = ran["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("File \"code.py\", line 2, in f"), "{message}");
}

#[tokio::test]
async fn endless_recursion_fails_with_a_line_through_any_kind_of_frame() {
    for source in [
        "def f(n):\n  return f(n + 1)\nf(0)",
        "def f(n):\n  return [f(x) for x in [n + 1]]\nf(0)",
        "def f(n):\n  return sorted([1, 2], key = lambda x: f(n))\nf(0)",
        "def f(n, *args, **kwargs):\n  return max([n, 2], key = lambda x: f(n + 1, *args, **kwargs))\nf(0, 1, a = 2)",
        "def f(n):\n  return f\"{str(f(n + 1))}\"\nf(0)",
        "def f(n):\n  return list(map(f, [n]))\nf(0)",
        "class A:\n  def __repr__(self):\n    return repr(self)\nrepr(A())",
        "class A:\n  def __eq__(self, other):\n    return self == other\nA() == A()",
        "import asyncio\nasync def f(n):\n  return await f(n + 1)\nawait f(0)",
    ] {
        let ran = run(source).await;
        assert_eq!(ran["error"]["code"], "script_runtime", "{source}: {ran:#}");
        let message = ran["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("recursion") && message.contains("code.py"),
            "{source}: {message}"
        );
    }
}

#[tokio::test]
async fn a_deep_value_is_converted_at_the_deepest_frame() {
    let source = "
import json
def deep():
    x = []
    for _ in range(100):
        x = [x]
    return x
def f(n):
    if n == 0:
        x = json.loads(json.dumps(deep()))
        return [len(server.echo(text = json.dumps(x))), len(repr(x)), x == [x]]
    return f(n - 1)
f(40)
result = 'done'
";
    let ran = run(source).await;
    assert_eq!(ran["result"], "done", "{ran:#}");
}

#[tokio::test]
async fn hostile_sources_end_in_a_typed_error() {
    let nested =
        |open: &str, close: &str| format!("x = {}1{}", open.repeat(20_000), close.repeat(20_000));
    let limits = [
        "airlock.stack_overflow",
        "airlock.memory",
        "airlock.trap",
        "airlock.out_of_fuel",
        "airlock.cpu_time",
        "airlock.deadline",
        "script_syntax",
        "script_runtime",
    ];
    for source in [
        nested("(", ")"),
        nested("[", "]"),
        nested("-", ""),
        nested("f(", ")"),
        format!("x = {}1", "await ".repeat(10_000)),
        format!("x = {}1", "1 + ".repeat(15_000)),
        format!("x = {}", "1 if 1 else ".repeat(5_000) + "0"),
        format!("{}pass", (0..330).map(|n| " ".repeat(n) + "if 1:\n").collect::<String>()),
        "x = [0]\nfor _ in range(1 << 30):\n  x = x + x".to_owned(),
        "x = 'a'\nwhile True:\n  x += x".to_owned(),
        "x = [0] * 10 ** 9".to_owned(),
        "x = 10 ** 10 ** 8".to_owned(),
        "x = 1 << 10 ** 9".to_owned(),
        "x = 3\nwhile True:\n  x = x * x".to_owned(),
        "while True: pass".to_owned(),
        "import re\nre.match(r'(a*)*(?=b)\\1$', 'a' * 40)".to_owned(),
        "import itertools\nsum(1 for _ in itertools.count())".to_owned(),
        "x = list(range(10 ** 12))".to_owned(),
        "x = 'a'.ljust(10 ** 12)".to_owned(),
        "x = f'{1:>1000000000000}'".to_owned(),
    ] {
        let ran = run(&source).await;
        let code = ran["error"]["code"].as_str().unwrap_or_default();
        assert!(limits.contains(&code), "{}: {ran:#}", &source[..40.min(source.len())]);
    }
}

#[tokio::test]
async fn the_clock_and_files_are_refused_with_the_reason() {
    for (source, reason) in [
        ("from datetime import datetime\ndatetime.now()", "no clock"),
        ("import time", "no clock"),
        ("open('/etc/passwd')", "no files"),
        ("import os\nos.environ['HOME']", "no environment"),
    ] {
        let ran = run(source).await;
        assert_eq!(ran["error"]["code"], "script_runtime", "{source}: {ran:#}");
        let message = ran["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(reason), "{source}: {message}");
    }
}

#[tokio::test]
async fn the_configuration_and_the_name_of_the_file_select_the_language() {
    let python = "try:\n    result = 1\nexcept ValueError:\n    pass";
    let starlark = "result = attempt(server.echo, {'text': 'a'}).value";
    let configured = setup().set("/mcp/tool_manager_config/code_mode_language", json!("python"));
    assert_eq!(configured.script_named("script", python).await["result"], 1);
    assert_eq!(configured.script_named("script.star", starlark).await["result"], "a");
    let default = setup();
    assert_eq!(default.script_named("script", starlark).await["result"], "a");
    assert_eq!(default.script_named("script.py", python).await["result"], 1);
}

#[tokio::test]
async fn the_same_script_consumes_the_same_fuel_a_thousand_times() {
    let source = "
import asyncio, json, re, statistics
from collections import Counter, defaultdict

async def count(words):
    try:
        return (await text_.word_count(text=words))['words']
    except ToolError as error:
        return error.code

groups = defaultdict(set)
for n in range(50):
    groups[n % 7].add(str(n))
words = await asyncio.gather(*[count(' '.join(sorted(group))) for group in groups.values()])
result = [words, Counter('abracadabra').most_common(2), statistics.mean(words), '%05.1f' % 2.5, {'a': 1} | {'b': 2}]
try:
    text_.word_count(nothing=1)
except ToolError as error:
    print(error.kind, hash('a') == hash('a'), id(groups) == id(groups), sorted(set('abc')))
"
    .replace("text_", "text");
    let setup = Setup::new()
        .client(Client::wasm("text", guests::TEXT).code_mode().auto(&["*"]))
        .set("/mcp/tool_manager_config/code_mode_language", json!("python"));
    let gateway = Embedded::start(setup).await;
    let arguments = json!({"code": source}).to_string();
    let mut seen = BTreeSet::new();
    for _ in 0..1_000 {
        let ended = gateway.call("executeToolCode", &arguments).await;
        assert!(ended.answer.is_ok(), "{ended:?}");
        seen.insert(ended.fuel);
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}
