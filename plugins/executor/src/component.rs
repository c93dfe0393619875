//! The world `script-executor` around a language. An executor exports itself with
//!
//! ```ignore
//! type Executor = airlock_executor::component::Executor<Starlark>;
//! airlock_executor::component::export!(Executor);
//! ```

use std::{
    arch::wasm32,
    marker::PhantomData,
    panic::{self, PanicHookInfo},
};

use self::wit::Guest;
use self::wit::airlock::executor::bindings;
use self::wit::airlock::host::log::{self, Level};
use self::wit::airlock::host::tools::{self, CallRequest};
use self::wit::airlock::types::types::{
    Content, ContentBlock, ErrorKind, ToolError as WireError, ToolOutput,
};
use self::wit::exports::airlock::executor::executor;
use crate::{
    Binding, Bindings, Catalogue, Failure, FailureKind, Language, Request, Script, SourceCall,
    SourceValue, ToolAnswer, ToolError, ToolFlow, Tools, ValueFlow, WrongCall,
};

#[expect(
    missing_docs,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the canonical ABI passes raw memory"
)]
pub mod wit {
    wit_bindgen::generate!({
        path: ["../../wit/types/0.1.0", "../../wit/host/0.1.0", "../../wit/executor"],
        world: "airlock:executor/script-executor",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "::airlock_executor::component::wit",
    });
}

pub use wit::export;

/// Implementation of the component's exports for a language.
pub struct Executor<L>(PhantomData<L>);

impl<L: Language> Guest for Executor<L> {
    fn prepare() {
        panic::set_hook(Box::new(panicked));
        L::prepare();
    }
}

/// Logs a panic. A collection that the address space cannot hold needs more memory than there is, so
/// that much is requested: the host refuses it, and reports the limit instead of a trap.
fn panicked(info: &PanicHookInfo<'_>) {
    log::write(Level::Error, &info.to_string(), &[]);
    if info.payload_as_str() == Some("capacity overflow") {
        wasm32::memory_grow::<0>(1 << 15);
    }
}

impl<L: Language> executor::Guest for Executor<L> {
    fn run(script: executor::Script) -> Result<Option<String>, executor::Failure> {
        L::run(&script.into(), &HostTools, &|line| log::write(Level::Info, line, &[]))
            .map_err(Into::into)
    }
}

/// The tools that the host provides.
struct HostTools;

impl Tools for HostTools {
    fn call(&self, request: Request) -> Result<ToolAnswer, ToolError> {
        answer(tools::call(&request.into()))
    }

    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<ToolAnswer, ToolError>> {
        let requests: Vec<CallRequest> = requests.into_iter().map(Into::into).collect();
        tools::call_batch(&requests).into_iter().map(answer).collect()
    }
}

fn answer(result: Result<ToolOutput, WireError>) -> Result<ToolAnswer, ToolError> {
    let output = result?;
    Ok(match output.structured_content {
        Some(json) => ToolAnswer::Json(json),
        None => ToolAnswer::Text(output.content.into_iter().filter_map(text).collect()),
    })
}

/// Returns the text of a part. The host turns other parts into structured content.
fn text(content: Content) -> Option<String> {
    match content.block {
        ContentBlock::Text(text) => Some(text),
        _ => None,
    }
}

impl From<WireError> for ToolError {
    fn from(error: WireError) -> Self {
        Self {
            kind: kind(error.kind).to_owned(),
            code: error.code,
            message: error.message,
            data: error.details,
            retry_after_ms: error.retry_after_ms,
        }
    }
}

/// Returns the name of a kind, as in the contract.
fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "invalid-input",
        ErrorKind::NotFound => "not-found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Denied => "denied",
        ErrorKind::AuthRequired => "auth-required",
        ErrorKind::RateLimited => "rate-limited",
        ErrorKind::LimitReached => "limit-reached",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::TooLarge => "too-large",
        ErrorKind::Internal => "internal",
        ErrorKind::Other => "other",
    }
}

impl From<Request> for CallRequest {
    fn from(request: Request) -> Self {
        Self { name: request.tool, arguments: request.arguments, timeout_ms: None }
    }
}

/// All tools of the run, as the host finds them.
struct All;

impl Catalogue for All {
    fn find(&self, namespace: &str, name: &str) -> Option<Binding> {
        let bindings::Binding { name, tool } = bindings::find(namespace, name)?;
        Some(Binding::in_namespace(namespace, name, tool))
    }

    fn names(&self, namespace: &str) -> Vec<String> {
        bindings::names(namespace)
    }

    fn namespaces(&self) -> Vec<String> {
        bindings::namespaces()
    }

    fn functions(&self) -> Vec<String> {
        bindings::functions()
    }

    fn check(&self, calls: &[SourceCall]) -> Vec<WrongCall> {
        let calls: Vec<_> = calls.iter().map(source_call_for_host).collect();
        bindings::check(&calls).into_iter().map(Into::into).collect()
    }

    fn follow(&self, flows: &[ToolFlow]) {
        let flows: Vec<_> = flows.iter().cloned().map(Into::into).collect();
        bindings::follow(&flows);
    }
}

impl From<ToolFlow> for bindings::ToolFlow {
    fn from(flow: ToolFlow) -> Self {
        let ToolFlow { tool, values } = flow;
        Self { tool, values: values.into_iter().map(Into::into).collect() }
    }
}

impl From<ValueFlow> for bindings::ValueFlow {
    fn from(flow: ValueFlow) -> Self {
        let ValueFlow { path, tools } = flow;
        Self { path, tools }
    }
}

fn source_call_for_host(call: &SourceCall) -> bindings::SourceCall {
    let arguments = call.arguments.iter();
    bindings::SourceCall {
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        arguments: arguments
            .map(|(name, value)| bindings::SourceArgument {
                name: name.clone(),
                value: value_for_host(value),
            })
            .collect(),
        is_open: call.is_open,
        mistake: call.mistake.clone(),
    }
}

fn value_for_host(value: &SourceValue) -> bindings::SourceValue {
    match value {
        SourceValue::Unknown => bindings::SourceValue::Unknown,
        SourceValue::Known(json) => bindings::SourceValue::Known(json.clone()),
        SourceValue::Part { call, keys } => {
            bindings::SourceValue::Part(bindings::ResultPart { call: *call, keys: keys.clone() })
        }
    }
}

impl From<bindings::WrongCall> for WrongCall {
    fn from(wrong: bindings::WrongCall) -> Self {
        let bindings::WrongCall { call, message, hint, by_tool } = wrong;
        Self { call, message, hint, by_tool }
    }
}

impl From<executor::Function> for Binding {
    fn from(function: executor::Function) -> Self {
        Self::function(function.name, function.tool, function.parameters)
    }
}

impl From<executor::Script> for Script {
    fn from(script: executor::Script) -> Self {
        let executor::Script {
            name,
            source,
            namespaces,
            functions,
            inputs,
            clock_ms,
            last_expression,
            follows_values,
        } = script;
        let functions = functions.into_iter().map(Into::into).collect();
        let bindings = Bindings::new(namespaces, functions, Box::new(All));
        Self { name, source, bindings, inputs, clock_ms, last_expression, follows_values }
    }
}

impl From<Failure> for executor::Failure {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, line, column, rendered } = failure;
        let kind = match kind {
            FailureKind::Syntax => executor::FailureKind::Syntax,
            FailureKind::Runtime => executor::FailureKind::Runtime,
            FailureKind::Tool => executor::FailureKind::Tool,
        };
        Self { kind, message, line, column, rendered }
    }
}
