use std::{fs, time::Duration};

use sha2::{Digest as _, Sha256};

use super::*;
use crate::{
    engine::{compiler_engine, pooled_engine},
    settings::CompilerChild,
};

/// A shell script that runs in the compiler's place.
struct Script {
    home: tempfile::TempDir,
}

impl Script {
    fn new(body: &str) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("compiler");
        // Written by a process of its own. A program cannot be started while any process has it
        // open for writing, and each child that other tests start inherits for a moment what this
        // process has open.
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 700 \"$2\"";
        let written = std::process::Command::new("/bin/sh")
            .args(["-c", write, "sh", body])
            .arg(&path)
            .status();
        assert!(written.expect("a shell").success());
        Self { home }
    }

    fn settings(&self, wall: Duration) -> Compiling {
        let program = self.home.path().join("compiler");
        Compiling::InChild(CompilerChild { wall, ..CompilerChild::new(program) })
    }

    fn compiler(&self, wall: Duration) -> Compiler {
        compiler(self.settings(wall))
    }
}

const LONG: Duration = Duration::from_mins(1);

fn compiler(settings: Compiling) -> Compiler {
    Compiler::new(compiler_engine().expect("an engine"), None, None, settings)
}

fn component(text: &str) -> Arc<[u8]> {
    wat::parse_str(text).expect("a component").into()
}

/// Returns the error of compiling an empty component, with its causes.
async fn failed(compiler: &Compiler) -> String {
    let error =
        compiler.component(component("(component)")).await.expect_err("it does not compile");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn a_component_compiles_in_this_process_and_is_cached() {
    let home = tempfile::tempdir().expect("a directory");
    let cache = CodeCache::open(home.path()).expect("a cache");
    let engine = compiler_engine().expect("an engine");
    let compiler = Compiler::new(engine, Some(cache), None, Compiling::IN_PROCESS);
    let wasm = component("(component (core module (func)))");
    assert!(!compiler.is_compiled(&wasm));
    compiler.component(wasm.clone()).await.expect("it compiles");
    assert!(compiler.is_compiled(&wasm));
    compiler.component(wasm).await.expect("it is loaded");
}

#[tokio::test]
async fn an_executor_whose_code_is_cached_is_found_by_its_digest_and_not_read() {
    let home = tempfile::tempdir().expect("a directory");
    let cache = CodeCache::open(home.path()).expect("a cache");
    let engine = compiler_engine().expect("an engine");
    let compiler = Compiler::new(engine, Some(cache), None, Compiling::IN_PROCESS);
    let text = r#"(component
        (core module $m
            (memory (export "memory") 1)
            (func (export "prepare") (i32.store (i32.const 8) (i32.const 2))))
        (core instance $i (instantiate $m))
        (func (export "prepare") (canon lift (core func $i "prepare"))))"#;
    let wasm: &'static [u8] = wat::parse_str(text).expect("a component").leak();
    let digest: [u8; 32] = Sha256::digest(wasm).into();
    compiler.executor(wasm, digest).await.expect("it compiles");
    compiler.executor(b"not read", digest).await.expect("it is loaded");
    let unknown = compiler.executor(b"not read", [0; 32]).await;
    assert!(matches!(unknown, Err(CompileError::NotAComponent(_))));
    let CompileTotals { cached, compiled, .. } = compiler.totals();
    assert_eq!((cached, compiled), (1, 1));
}

#[tokio::test]
async fn each_reason_not_to_compile_a_component_is_an_error_of_its_own() {
    let compiler = compiler(Compiling::IN_PROCESS);
    assert!(matches!(kind(&compiler, vec![0; 100].into()).await, CompileError::NotAComponent(_)));
    assert!(matches!(kind(&compiler, component("(module)")).await, CompileError::CoreModule));
    let extism = "(module (import \"extism:host/env\" \"input_length\" (func (result i64))))";
    assert!(matches!(kind(&compiler, component(extism)).await, CompileError::Extism));
    let large = kind(&compiler, vec![0; MAX_COMPONENT_BYTES + 1].into()).await;
    assert!(matches!(large, CompileError::TooLarge { found } if found == MAX_COMPONENT_BYTES + 1));
    assert!(matches!(
        kind(&compiler, component("(component (core module (func (result i32))))")).await,
        CompileError::Failed(_)
    ));
    let many = format!("(component (core module {}))", "(func)".repeat(100_001));
    assert!(matches!(
        kind(&compiler, component(&many)).await,
        CompileError::TooMuch { what: "functions", found: 100_001, .. }
    ));
    let native = compiler_engine()
        .expect("an engine")
        .precompile_component(&component("(component)"))
        .expect("it compiles");
    assert!(matches!(kind(&compiler, native.into()).await, CompileError::NotAComponent(_)));
}

async fn kind(compiler: &Compiler, wasm: Arc<[u8]>) -> CompileError {
    compiler.component(wasm).await.expect_err("it does not compile")
}

#[tokio::test]
async fn a_child_that_takes_too_long_is_killed_with_all_that_it_started() {
    let script = Script::new("sleep 600 & echo $! > \"$(dirname \"$0\")/started\"; wait");
    let begun = Instant::now();
    insta::assert_snapshot!(failed(&script.compiler(Duration::from_secs(2))).await, @"the component does not compile: compiling took more than 2s");
    assert!(begun.elapsed() < LONG);
    is_gone(&script).await;
}

#[tokio::test]
async fn a_child_is_killed_when_its_caller_is_dropped() {
    let script = Script::new("sleep 600 & echo $! > \"$(dirname \"$0\")/started\"; wait");
    let compiler = script.compiler(LONG);
    let mut waiting = Box::pin(compiler.component(component("(component)")));
    let started = script.home.path().join("started");
    tokio::select! {
        _ = &mut waiting => panic!("it ended"),
        () = until(|| started_process(&started).is_some()) => {}
    }
    drop(waiting);
    is_gone(&script).await;
}

/// Waits until the process that a script started has ended.
async fn is_gone(script: &Script) {
    let started = script.home.path().join("started");
    until(|| started_process(&started).is_some()).await;
    let process = started_process(&started).expect("it was started");
    until(|| !is_running(process)).await;
}

fn started_process(started: &Path) -> Option<u32> {
    fs::read_to_string(started).ok()?.trim().parse().ok()
}

/// Returns whether a process runs. One that has ended and was not reaped yet has no memory any more.
fn is_running(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/status"))
        .is_ok_and(|status| status.contains("VmRSS"))
}

async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.expect("it takes no minute");
}

#[tokio::test]
async fn a_child_that_fails_is_an_error_with_its_standard_error() {
    insta::assert_snapshot!(failure_of("ulimit -c 0; kill -SEGV $$").await, @"the component does not compile: the compiler failed (signal: 11 (SIGSEGV))");
    insta::assert_snapshot!(failure_of("cat >/dev/null; echo 'out of memory' >&2; ulimit -c 0; kill -ABRT $$").await, @"the component does not compile: the compiler failed (signal: 6 (SIGABRT)): out of memory");
    insta::assert_snapshot!(failure_of("cat >/dev/null; printf 'line\\tone\\033[31m\\n' >&2; exit 1").await, @"the component does not compile: line one�[31m");
    insta::assert_snapshot!(failure_of("exit 3").await, @"the component does not compile: the compiler failed (exit status: 3)");
    let said =
        failure_of("cat >/dev/null; head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1").await;
    assert!(said.len() < 4 << 10, "{} bytes", said.len());
}

async fn failure_of(body: &str) -> String {
    failed(&Script::new(body).compiler(LONG)).await
}

#[tokio::test]
async fn output_of_a_child_that_is_no_code_for_this_engine_is_refused() {
    let text = failure_of("cat >/dev/null; echo nothing").await;
    assert!(
        text.starts_with("the component does not compile: the compiled code cannot be loaded: "),
        "{text}"
    );
    let text = failure_of("cat >/dev/null").await;
    assert!(
        text.starts_with("the component does not compile: the compiled code cannot be loaded: "),
        "{text}"
    );
    let missing = Compiling::InChild(CompilerChild::new("/nowhere/airlock"));
    let text = failed(&compiler(missing)).await;
    assert!(
        text.starts_with("the component does not compile: the compiler cannot be run: "),
        "{text}"
    );
}

#[tokio::test]
async fn a_child_gets_the_component_its_limits_and_an_empty_environment() {
    let script = Script::new(
        "cd \"$(dirname \"$0\")\"; /usr/bin/env > environment; pwd -P > /dev/null; echo \"$@\" > arguments; cat > component; exit 1",
    );
    let compiler = script.compiler(Duration::from_secs(10));
    let wasm = component("(component (core module (func)))");
    compiler.component(wasm.clone()).await.expect_err("it does not compile");
    assert_eq!(written(&script, "component"), *wasm);
    let environment = String::from_utf8(written(&script, "environment")).expect("UTF-8");
    // The shell sets these itself.
    let inherited = environment.lines().filter(|line| {
        !["PWD=", "OLDPWD=", "_=", "SHLVL="].iter().any(|own| line.starts_with(own))
    });
    assert_eq!(inherited.collect::<Vec<_>>(), Vec::<&str>::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let digest = crate::cache::name::settings_digest(&compiler_engine().expect("an engine"));
    let expected = format!("compile-component plain {digest} {} {}\n", 10 * cores, 8_u64 << 30);
    assert_eq!(String::from_utf8(written(&script, "arguments")).expect("UTF-8"), expected);
}

fn written(script: &Script, name: &str) -> Vec<u8> {
    fs::read(script.home.path().join(name)).expect("it was written")
}

#[tokio::test]
async fn the_same_component_is_compiled_once_and_others_take_turns() {
    let script = Script::new(
        "cd \"$(dirname \"$0\")\"; mkdir running || echo two at once >> failed; cat > /dev/null; echo x >> runs; sleep 0.2; rmdir running; exit 1",
    );
    let compiler = script.compiler(LONG);
    let one = component("(component)");
    let other = component("(component (core module))");
    let ten =
        (0..10).map(|n| compiler.component(if n % 2 == 0 { one.clone() } else { other.clone() }));
    let ended = futures_util::future::join_all(ten).await;
    assert!(ended.iter().all(|result| matches!(result, Err(CompileError::Failed(_)))));
    let runs = fs::read_to_string(script.home.path().join("runs")).expect("it ran");
    assert_eq!(runs.lines().count(), 2);
    assert!(!script.home.path().join("failed").exists());
    assert!(compiler.0.flights.lock().values().all(|flight| flight.upgrade().is_none()));
}

#[test]
fn a_child_compiles_for_the_engine_of_its_parent() {
    let pooled = pooled_engine(4, None).expect("an engine");
    let own = compiler_engine().expect("an engine");
    assert_eq!(
        crate::cache::name::settings_digest(&pooled),
        crate::cache::name::settings_digest(&own)
    );
    let native = own
        .precompile_component(&component("(component (core module (func)))"))
        .expect("it compiles");
    #[expect(unsafe_code, reason = "the bytes came from the serializer")]
    let loaded = unsafe { Component::deserialize(&pooled, &native) };
    assert!(loaded.is_ok());
}

#[tokio::test]
async fn a_component_begins_to_be_compiled_when_its_turn_has_come() {
    let compiler = compiler(Compiling::IN_PROCESS);
    let wasm = component("(component)");
    let turn = compiler.0.turn.clone().lock_owned().await;
    let compiling = compiler.component(wasm.clone());
    let mut compiling = std::pin::pin!(compiling);
    let begun = compiler.begun(wasm.clone());
    let mut begun = std::pin::pin!(begun);
    // Another component has the turn.
    let other = CodeName::new(&compiler.0.engine, Form::Plain, b"another one");
    compiler.0.begun.send_replace(Some(other));
    while compiler.0.flights.lock().is_empty() {
        assert!(compiling.as_mut().now_or_never().is_none(), "it waits for its turn");
        assert!(begun.as_mut().now_or_never().is_none(), "its turn has not come");
        tokio::task::yield_now().await;
    }
    drop(turn);
    let (outcome, ()) = futures_util::future::join(compiling, begun).await;
    outcome.expect("it compiles");
}
