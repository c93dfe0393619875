//! The finished executor in a sandbox like the host's: nothing but its two imports, fuel, memory and stack bounded.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine, Store, StoreLimits, StoreLimitsBuilder, Trap};

use self::airlock::host::log::Level;
use self::airlock::host::tools::{CallRequest, ToolPage};
use self::airlock::types::types::{Content, ErrorKind, TextPart, ToolDescriptor, ToolError, ToolOutput};
use self::exports::airlock::plugin::executor::{Binding, Failure, FailureKind, Script};

mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "airlock:plugin/script-executor" });
}

use self::bindings::{ScriptExecutor, airlock, exports};

const FUEL: u64 = 20_000_000_000;

#[test]
fn it_imports_nothing_of_wasi() {
    let (engine, _, component) = executor();
    let component = component.component_type();
    let imports: Vec<_> = component.imports(engine).map(|(name, _)| name).collect();
    assert!(imports.iter().all(|name| name.starts_with("airlock:")), "{imports:?}");
}

#[test]
fn a_script_calls_tools_prints_and_leaves_a_result() {
    let ran = run("
x = text.echo(a = 1, b = [True, None])
print('one\\ntwo', x['a'])
many = gather([(text.echo, {'n': n}) for n in range(3)])
result = {'x': x, 'sum': sum([m['n'] for m in many]), 'big': json.decode('123456789012345678901234567890') + 1}
");
    assert_eq!(ran.log, ["one", "two 1"]);
    let json = ran.result.expect("not stopped").expect("no failure").expect("a result");
    assert_eq!(json, r#"{"x":{"a":1,"b":[true,null]},"sum":3,"big":"123456789012345678901234567891"}"#);
    assert_eq!(ran.batches, [3]);
}

#[test]
fn a_tool_that_fails_ends_the_script_at_its_line() {
    let failure = failed("\nresult = text.fail(why = 'no')\n");
    assert_eq!(failure.kind, FailureKind::Tool);
    assert_eq!(failure.message, "text.fail: refused");
    assert_eq!((failure.line, failure.column), (Some(2), Some(10)));
}

#[test]
fn endless_recursion_is_a_failure_with_a_line_whatever_is_between_the_frames() {
    for source in [
        "def f(n):\n  return f(n + 1)\nf(0)",
        "def f(n):\n  return [f(x) for x in [n + 1]]\nf(0)",
        "def f(n):\n  return sorted([1, 2], key = lambda x: f(n))\nf(0)",
        "def f(n, *args, **kwargs):\n  return max([n, 2], key = lambda x: f(n + 1, *args, **kwargs))\nf(0, 1, a = 2)",
        "def f(n):\n  return f\"{str(f(n + 1))} {partial(f, n)()}\"\nf(0)",
        "def f(n):\n  return list(map(f, [n]))\nf(0)",
    ] {
        let failure = failed(source);
        assert_eq!(failure.kind, FailureKind::Runtime, "{source}");
        assert!(failure.message.contains("call stack"), "{source}: {}", failure.message);
        assert!(failure.line.is_some(), "{source}");
    }
}

#[test]
fn a_deep_value_can_be_converted_at_the_deepest_frame() {
    let source = "
def deep():
    x = []
    for _ in range(120):
        x = [x]
    return x
def f(n):
    if n == 0:
        x = json.decode(json.encode(deep()))
        return [text.echo(x = x) == {'x': x}, len(repr(x)), x < [x]]
    return sorted([n], key = lambda _: f(n - 1))
f(60)
";
    run(source).result.expect("not stopped").expect("no failure");
}

#[test]
fn a_number_beyond_a_float_does_not_take_the_interpreter_down() {
    let ran = run("result = str([json.decode('1e999'), text.huge()])");
    assert_eq!(ran.result.expect("not stopped").expect("no failure").as_deref(), Some("\"[+inf, +inf]\""));
}

#[test]
fn hostile_sources_are_stopped_and_do_not_hang() {
    let nested = |open: &str, close: &str| format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
    for (source, trap) in [
        (nested("(", ")"), Trap::StackOverflow),
        (nested("[", "]"), Trap::StackOverflow),
        (nested("-", ""), Trap::StackOverflow),
        ("x = [0]\nfor _ in range(1 << 30):\n  x = x + x".to_owned(), Trap::UnreachableCodeReached),
        ("def f():\n  for _ in range(1 << 30):\n    for _ in range(1 << 30):\n      pass\nf()".to_owned(), Trap::OutOfFuel),
    ] {
        let begun = Instant::now();
        let stopped = run(&source).result.expect_err("stopped");
        assert_eq!(stopped.downcast_ref(), Some(&trap), "{}", &source[..30.min(source.len())]);
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
}

#[test]
fn the_same_run_burns_the_same_fuel() {
    let source = "
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
table = {str(i): [fib(i), text.echo(i = i)] for i in range(10)}
print(hash('a'), set(table.keys()))
result = table
";
    let first = run(source).fuel;
    assert!((1..100).all(|_| run(source).fuel == first));
}

/// Prints what the README tells; run with `--nocapture`.
#[test]
fn an_empty_script_is_cheap() {
    let fuel = run("").fuel;
    let begun = Instant::now();
    for _ in 0..1_000 {
        run("").result.expect("not stopped").expect("no failure");
    }
    println!("empty script: {fuel} fuel, {:?} with memory allocated on demand", begun.elapsed() / 1_000);
    assert!(fuel < 200_000, "{fuel}");
}

fn failed(source: &str) -> Failure {
    run(source).result.unwrap_or_else(|stop| panic!("{source}: {stop:?}")).expect_err("a failure")
}

struct Ran {
    result: wasmtime::Result<Result<Option<String>, Failure>>,
    log: Vec<String>,
    batches: Vec<usize>,
    fuel: u64,
}

fn run(source: &str) -> Ran {
    let (engine, linker, component) = executor();
    let host = Host { limits: StoreLimitsBuilder::new().memory_size(64 << 20).build(), log: Vec::new(), batches: Vec::new() };
    let mut store = Store::new(engine, host);
    store.limiter(|host| &mut host.limits);
    store.set_fuel(FUEL).expect("fuel is on");
    let bind = |name: &str| Binding { namespace: "text".into(), name: name.into(), alias: None, tool: format!("text-{name}") };
    let bindings = ["echo", "fail", "huge"].map(bind).to_vec();
    let script = Script { name: "code.star".into(), source: source.into(), bindings };
    let instance = ScriptExecutor::instantiate(&mut store, component, linker).expect("the world is ours");
    let result = instance.airlock_plugin_executor().call_run(&mut store, &script);
    let fuel = FUEL - store.get_fuel().expect("fuel is on");
    let Host { log, batches, .. } = store.into_data();
    Ran { result, log, batches, fuel }
}

fn executor() -> &'static (Engine, Linker<Host>, Component) {
    static EXECUTOR: OnceLock<(Engine, Linker<Host>, Component)> = OnceLock::new();
    EXECUTOR.get_or_init(|| {
        let mut config = Config::new();
        config.consume_fuel(true).max_wasm_stack(512 << 10).wasm_relaxed_simd(false).cranelift_nan_canonicalization(true);
        let engine = Engine::new(&config).expect("a valid configuration");
        let component = Component::from_file(&engine, built()).expect("a component");
        let mut linker = Linker::new(&engine);
        ScriptExecutor::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host).expect("no name twice");
        (engine, linker, component)
    })
}

/// The executor that `AIRLOCK_EXECUTOR` names, or one built now.
fn built() -> PathBuf {
    if let Some(path) = std::env::var_os("AIRLOCK_EXECUTOR") {
        return path.into();
    }
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let status = Command::new(env!("CARGO_BIN_EXE_airlock-build")).arg("--target").arg(&target).arg("starlark").status();
    assert!(status.expect("the tool starts").success());
    target.join("plugins/starlark.wasm")
}

struct Host {
    limits: StoreLimits,
    log: Vec<String>,
    batches: Vec<usize>,
}

impl airlock::types::types::Host for Host {}

impl airlock::host::log::Host for Host {
    fn write(&mut self, _: Level, message: String, _: Vec<(String, String)>) {
        self.log.push(message);
    }
}

impl airlock::host::tools::Host for Host {
    fn list_tools(&mut self, _: Option<String>, _: u32) -> Result<ToolPage, ToolError> {
        Err(refused())
    }

    fn describe(&mut self, _: String) -> Result<ToolDescriptor, ToolError> {
        Err(refused())
    }

    fn call(&mut self, request: CallRequest) -> Result<ToolOutput, ToolError> {
        let text = match request.name.as_str() {
            "text-echo" => request.arguments,
            "text-huge" => "1e999".to_owned(),
            _ => return Err(refused()),
        };
        let content = vec![Content::Text(TextPart { text, mime_type: None })];
        Ok(ToolOutput { content, structured: None, meta: None })
    }

    fn call_batch(&mut self, requests: Vec<CallRequest>) -> Vec<Result<ToolOutput, ToolError>> {
        self.batches.push(requests.len());
        requests.into_iter().map(|request| self.call(request)).collect()
    }
}

fn refused() -> ToolError {
    ToolError { kind: ErrorKind::Denied, code: None, message: "refused".into(), retry_after_ms: None, details: None }
}
