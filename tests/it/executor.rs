//! The script executor that the binary carries: its imports, and the errors of hostile scripts.

use std::fs;

use airlock_tests::{Setup, guests, misbehaving};
use serde_json::{Value, json};

async fn run(source: &str) -> Value {
    Setup::new().client(misbehaving("server", []).code_mode().auto(&["*"])).script(source).await
}

#[test]
fn the_executors_import_nothing_of_wasi() {
    for component in [guests::STARLARK, guests::PYTHON] {
        let component = fs::read(component).expect("the component");
        let imports = airlock::compile::imports(&component).expect("a component");
        assert!(
            !imports.is_empty() && imports.iter().all(|name| name.starts_with("airlock:")),
            "{imports:?}"
        );
    }
}

#[tokio::test]
async fn a_script_gathers_prints_and_returns_numbers_of_any_size() {
    let ran = run("
many = gather([(server.echo, {'text': str(n)}) for n in range(3)])
print('one\\ntwo', len(many))
result = {'many': many, 'big': json.decode('123456789012345678901234567890') + 1, 'huge': str(json.decode('1e999'))}
")
    .await;
    let expected =
        json!({"many": [0, 1, 2], "big": "123456789012345678901234567891", "huge": "inf"});
    assert_eq!((&ran["result"], &ran["output"]), (&expected, &json!("one\ntwo 3")), "{ran:#}");
}

#[tokio::test]
async fn endless_recursion_fails_with_a_line_through_any_kind_of_frame() {
    for source in [
        "def f(n):\n  return f(n + 1)\nf(0)",
        "def f(n):\n  return [f(x) for x in [n + 1]]\nf(0)",
        "def f(n):\n  return sorted([1, 2], key = lambda x: f(n))\nf(0)",
        "def f(n, *args, **kwargs):\n  return max([n, 2], key = lambda x: f(n + 1, *args, **kwargs))\nf(0, 1, a = 2)",
        "def f(n):\n  return f\"{str(f(n + 1))} {partial(f, n)()}\"\nf(0)",
        "def f(n):\n  return list(map(f, [n]))\nf(0)",
    ] {
        let ran = run(source).await;
        assert_eq!(ran["error"]["code"], "script_runtime", "{source}: {ran:#}");
        let message = ran["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("call stack") && message.contains("code.star:"),
            "{source}: {message}"
        );
    }
}

#[tokio::test]
async fn a_deep_value_is_converted_at_the_deepest_frame() {
    let source = "
def deep():
    x = []
    for _ in range(120):
        x = [x]
    return x
def f(n):
    if n == 0:
        x = json.decode(json.encode(deep()))
        return [len(server.echo(text = json.encode(x))), len(repr(x)), x < [x]]
    return sorted([n], key = lambda _: f(n - 1))
f(48)
result = 'done'
";
    let ran = run(source).await;
    assert_eq!(ran["result"], "done", "{ran:#}");
}

#[tokio::test]
async fn hostile_sources_are_stopped_by_the_limit_that_they_exceed() {
    let nested =
        |open: &str, close: &str| format!("x = {}1{}", open.repeat(30_000), close.repeat(30_000));
    for (source, codes) in [
        (nested("(", ")"), &["script_syntax"][..]),
        (nested("[", "]"), &["script_syntax"]),
        (nested("-", ""), &["airlock.stack_overflow", "airlock.memory", "airlock.trap"]),
        (
            "x = [0]\nfor _ in range(1 << 30):\n  x = x + x".to_owned(),
            &["airlock.memory", "airlock.trap"],
        ),
        (
            "def f():\n  for _ in range(1 << 30):\n    for _ in range(1 << 30):\n      pass\nf()"
                .to_owned(),
            &["airlock.out_of_fuel", "airlock.cpu_time"],
        ),
    ] {
        let ran = run(&source).await;
        let code = ran["error"]["code"].as_str().unwrap_or_default();
        assert!(codes.contains(&code), "{}: {ran:#}", &source[..30.min(source.len())]);
    }
}
