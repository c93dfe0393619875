//! Linking of this version's imports: its names and types over the functions in
//! [`imports`](mod@crate::imports).
//!
//! The functions are linked by hand with the generated types, because they charge fuel. The
//! generated traits can access the store only with the engine's concurrency support, which is not
//! compiled in.

use airlock_core::tool::{self, CallError};
use wasmtime::component::Linker;

use super::{
    bindings::{
        executor::airlock::executor::bindings::{self as wit, Binding},
        log::Level,
        tools::CallRequest,
        types::{ToolError, ToolOutput},
    },
    convert,
};
use crate::{
    ResultPart, ScriptCall, SourceCall, SourceValue, ToolFlow, ValueFlow, WrongCall,
    imports::{log, script},
    run::state::{GuestSide, ScriptSide, State, Store},
};

/// Result of a tool, for a guest.
pub(super) type GuestResult = Result<ToolOutput, ToolError>;

/// Links the imports of a script executor.
pub(crate) fn link_executor(linker: &mut Linker<State<ScriptSide>>) -> wasmtime::Result<()> {
    link_log(linker)?;
    link_script_calls(linker)?;
    link_bindings(linker)
}

/// Links the log.
pub(super) fn link_log<G: GuestSide>(linker: &mut Linker<State<G>>) -> wasmtime::Result<()> {
    let mut log = linker.instance("airlock:host/log@0.1.0")?;
    log.func_wrap(
        "write",
        |mut store: Store<'_, G>,
         (level, message, fields): (Level, String, Vec<(String, String)>)| {
            log::write(&mut store, level.into(), &message, &fields)
        },
    )
}

/// Links the tool calls of a script. It has nothing to list: its tools are its bindings.
fn link_script_calls(linker: &mut Linker<State<ScriptSide>>) -> wasmtime::Result<()> {
    let mut tools = linker.instance("airlock:host/tools@0.1.0")?;
    tools.func_wrap_async("call", |store: Store<'_, ScriptSide>, (request,): (CallRequest,)| {
        Box::new(async move {
            Ok((answer_for_guest(script::call(store, call_from_guest(request)).await?),))
        })
    })?;
    tools.func_wrap_async(
        "call-batch",
        |store: Store<'_, ScriptSide>, (requests,): (Vec<CallRequest>,)| {
            Box::new(async move {
                let requests = requests.into_iter().map(call_from_guest).collect();
                let answers = script::call_batch(store, requests).await?;
                Ok((answers.into_iter().map(answer_for_guest).collect::<Vec<GuestResult>>(),))
            })
        },
    )
}

/// Links the private imports of a script executor.
fn link_bindings(linker: &mut Linker<State<ScriptSide>>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("airlock:executor/bindings")?;
    interface.func_wrap(
        "find",
        |mut store: Store<'_, ScriptSide>, (of, name): (String, String)| {
            let found = script::find(&mut store, &of, &name)?;
            Ok((found.map(|(name, tool)| Binding { name, tool }),))
        },
    )?;
    interface.func_wrap("names", |mut store: Store<'_, ScriptSide>, (of,): (String,)| {
        Ok((script::names(&mut store, &of)?,))
    })?;
    interface.func_wrap("namespaces", |mut store: Store<'_, ScriptSide>, (): ()| {
        Ok((script::namespaces(&mut store)?,))
    })?;
    interface.func_wrap("functions", |mut store: Store<'_, ScriptSide>, (): ()| {
        Ok((script::functions(&mut store)?,))
    })?;
    interface.func_wrap(
        "check",
        |mut store: Store<'_, ScriptSide>, (calls,): (Vec<wit::SourceCall>,)| {
            let calls: Vec<_> = calls.into_iter().map(call_of_source).collect();
            let wrong = script::check(&mut store, &calls)?;
            Ok((wrong.into_iter().map(wrong_for_guest).collect::<Vec<_>>(),))
        },
    )?;
    interface.func_wrap(
        "follow",
        |mut store: Store<'_, ScriptSide>, (flows,): (Vec<wit::ToolFlow>,)| {
            script::follow(&mut store, flows.into_iter().map(flow_from_guest).collect())
        },
    )
}

fn flow_from_guest(flow: wit::ToolFlow) -> ToolFlow {
    let wit::ToolFlow { tool, values } = flow;
    let values = values.into_iter();
    let values = values.map(|wit::ValueFlow { path, tools }| ValueFlow { path, tools }).collect();
    ToolFlow { tool, values }
}

fn call_of_source(call: wit::SourceCall) -> SourceCall {
    let wit::SourceCall { namespace, name, arguments, is_open, mistake } = call;
    let arguments = arguments.into_iter();
    let arguments =
        arguments.map(|argument| (argument.name, value_from_guest(argument.value))).collect();
    SourceCall { namespace, name, arguments, is_open, mistake }
}

fn value_from_guest(value: wit::SourceValue) -> SourceValue {
    match value {
        wit::SourceValue::Unknown => SourceValue::Unknown,
        wit::SourceValue::Known(json) => SourceValue::Known(json),
        wit::SourceValue::Part(wit::ResultPart { call, keys }) => {
            SourceValue::Part(ResultPart { call, keys })
        }
    }
}

fn wrong_for_guest(wrong: WrongCall) -> wit::WrongCall {
    let WrongCall { call, message, hint, by_tool } = wrong;
    wit::WrongCall { call, message, hint, by_tool }
}

same_variants!(Level => log::Level { Trace Debug Info Warn Error });

fn call_from_guest(request: CallRequest) -> ScriptCall {
    ScriptCall { tool: request.name, arguments: request.arguments }
}

/// Converts the result of a tool for a guest.
pub(super) fn answer_for_guest(answer: Result<tool::ToolOutput, CallError>) -> GuestResult {
    answer.map(convert::output_for_guest).map_err(convert::error_for_guest)
}
