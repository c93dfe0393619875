//! Components in the text format, loaded and called in a real engine.

mod bounds;
mod exports;
mod generated;
mod results;
mod values;

use std::sync::{Arc, LazyLock};

use airlock_compile::pooled_engine;
use airlock_core::tool::{CallError, ClientName, HostCode, ToolName, ToolOutput};
use serde_json::{Value, json};
use wasmtime::{Engine, Store, component::Component};

use super::{BadComponent, Plain, ToolGuest as _};
use crate::{
    Limits,
    plugin::{self, side::PluginSide},
    run::{instance, memory, state::State},
};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| pooled_engine(4, None).expect("an engine"));

/// Returns a core module with what the canonical ABI needs, and with `functions`. Its allocator
/// never frees.
fn core(functions: &str) -> String {
    format!(
        r#"(core module $module
            (memory (export "memory") 1)
            (global $next (mut i32) (i32.const 1024))
            (func $allocate (export "realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32) (local $at i32)
                (local.set $at (i32.and
                    (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
                    (i32.sub (i32.const 0) (local.get $align))))
                (global.set $next (i32.add (local.get $at) (local.get $size)))
                (block $fits (loop $grow
                    (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
                    (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
                    (br $grow)))
                (local.get $at))
            {functions})
        (core instance $core (instantiate $module))"#
    )
}

/// Returns the expression that lifts a function of the core module.
fn lift(function: &str) -> String {
    format!(
        r#"(canon lift (core func $core "{function}") (memory (core memory $core "memory")) (realloc (core func $core "realloc")))"#
    )
}

/// Parameters besides the value. There are more than the ABI passes as values, so that the
/// arguments arrive as one block of memory.
const PADDING: &str = "(tuple u8 u8 u8 u8 u8 u8 u8 u8 u8 u8 u8 u8 u8 u8 u8 u8)";

/// Returns a component with the function `echo`, which returns the block of its arguments.
fn echo(definitions: &str, ty: &str) -> String {
    let core = core(r#"(func (export "echo") (param i32) (result i32) (local.get 0))"#);
    let lift = lift("echo");
    format!(
        r#"(component {definitions} {core}
            (func (export "echo") (param "value" {ty}) (param "padding" {PADDING}) (result (tuple {ty} {PADDING})) {lift}))"#
    )
}

/// Returns the WAT that gives a type a name; the type is then `$name`.
fn named(name: &str, definition: &str) -> String {
    format!(
        r#"(type $internal-{name} {definition}) (export ${name} "{name}" (type $internal-{name}))"#
    )
}

/// Returns the bytes of a custom section.
pub(super) fn custom_section(name: &str, data: &[u8]) -> Vec<u8> {
    fn number(mut number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let low = u8::try_from(number & 0x7f).expect("seven bits");
            number >>= 7;
            if number == 0 {
                bytes.push(low);
                return bytes;
            }
            bytes.push(low | 0x80);
        }
    }
    let content = [number(name.len()), name.as_bytes().to_vec(), data.to_vec()].concat();
    [vec![0], number(content.len()), content].concat()
}

fn load_wasm(wasm: &[u8]) -> Result<Plain, BadComponent> {
    let component = Component::new(&ENGINE, wasm).expect("it compiles");
    let linker = plugin::linker(&ENGINE).expect("a linker");
    Plain::new(linker.instantiate_pre(&component).expect("it links"), wasm)
}

fn load(wat: &str) -> Result<Plain, BadComponent> {
    load_wasm(&wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}\n{wat}")))
}

/// Runs `body` in a store that is set up as for a call.
async fn run<T>(
    limits: Limits,
    body: impl AsyncFnOnce(&mut Store<State<PluginSide>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    run_in(1 << 30, limits, body).await
}

/// Runs `body` like [`run`], with `memory_bytes` of guest memory for the process.
async fn run_in<T>(
    memory_bytes: usize,
    limits: Limits,
    body: impl AsyncFnOnce(&mut Store<State<PluginSide>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let client = ClientName::parse("plain").expect("a name");
    let call = PluginSide::denied(client, Arc::default()).call(ToolName::own("plain"), limits);
    instance::run(&ENGINE, &memory::budget(memory_bytes), call, body).await
}

/// Calls a function within limits. The function's failure is returned as an error of the tool.
async fn call_within(
    limits: Limits,
    plain: &Plain,
    tool: &str,
    arguments: &str,
) -> Result<ToolOutput, CallError> {
    let called = run(limits, async |store| plain.invoke(store, tool, arguments).await).await;
    called?.map(|returned| returned.output).map_err(CallError::from)
}

async fn call(plain: &Plain, tool: &str, arguments: &Value) -> Result<ToolOutput, CallError> {
    call_within(Limits::PLUGIN, plain, tool, &arguments.to_string()).await
}

/// Sends a value through `echo` and returns the result, which is equal if both conversions agree.
async fn echoed(plain: &Plain, value: &Value) -> Result<Value, String> {
    let arguments = json!({"value": value, "padding": vec![0; 16]});
    let output = call(plain, "echo", &arguments).await.map_err(|error| {
        let message = error.to_string();
        let detail = message.strip_prefix("the arguments of tool 'plain' cannot be used: ");
        detail.expect("the arguments are bad").to_owned()
    })?;
    Ok(output.structured.expect("a value")["result"][0].clone())
}
