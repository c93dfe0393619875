//! Exports the interpreter as the world `script-executor`.

use std::{
    arch::wasm32,
    panic::{self, PanicHookInfo},
};

use airlock_executor::Catalogue;

use self::wit::Guest;
use self::wit::airlock::executor::bindings;
use self::wit::airlock::host::log::{self, Level};
use self::wit::airlock::host::tools::{self, CallRequest};
use self::wit::airlock::types::types::{
    Content, ContentBlock, ErrorKind, ResourceContents, ToolError, ToolOutput,
};
use self::wit::exports::airlock::executor::executor;
use crate::{
    Answer, Binding, Bindings, Failure, FailureKind, Fault, Handle, Part, Request, Script, Tools,
};

#[expect(
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the canonical ABI passes raw memory"
)]
mod wit {
    wit_bindgen::generate!({
        path: ["../../wit/types/0.1.0", "../../wit/host/0.1.0", "../../wit/executor"],
        world: "airlock:executor/script-executor",
        generate_all,
    });

    export!(Executor);

    use super::Executor;
}

/// Implementation of the component's exports.
struct Executor;

impl Guest for Executor {
    fn prepare() {
        panic::set_hook(Box::new(panicked));
        crate::prepare();
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

impl executor::Guest for Executor {
    fn run(script: executor::Script) -> Result<Option<String>, executor::Failure> {
        crate::run(&script.into(), &Host, &|line| log::write(Level::Info, line, &[]))
            .map_err(Into::into)
    }
}

/// The tools that the host provides.
struct Host;

impl Tools for Host {
    fn call(&self, request: Request) -> Result<Answer, Fault> {
        answer(tools::call(&request.into()))
    }

    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, Fault>> {
        let requests: Vec<CallRequest> = requests.into_iter().map(Into::into).collect();
        tools::call_batch(&requests).into_iter().map(answer).collect()
    }
}

fn answer(result: Result<ToolOutput, ToolError>) -> Result<Answer, Fault> {
    let output = result?;
    if let Some(json) = output.structured_content {
        return Ok(Answer::Json(json));
    }
    let parts: Vec<Part> = output.content.into_iter().map(part).collect();
    if parts.iter().any(|part| matches!(part, Part::Handle(_))) {
        return Ok(Answer::Parts(parts));
    }
    let texts = parts.into_iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        Part::Handle(_) => None,
    });
    Ok(Answer::Text(texts.collect()))
}

/// Converts one part of a result. The bytes of the parts that are not text stay behind.
fn part(part: Content) -> Part {
    let handle = |kind, mime_type, size, uri| Part::Handle(Handle { kind, mime_type, size, uri });
    let size = |data: &[u8]| u64::try_from(data.len()).ok();
    match part.block {
        ContentBlock::Text(text) | ContentBlock::Other(text) => Part::Text(text),
        ContentBlock::Image(it) => handle("image", Some(it.mime_type), size(&it.data), None),
        ContentBlock::Audio(it) => handle("audio", Some(it.mime_type), size(&it.data), None),
        ContentBlock::ResourceLink(it) => {
            handle("resource_link", it.mime_type, it.size, Some(it.uri))
        }
        ContentBlock::EmbeddedResource(it) => match it.contents {
            ResourceContents::Text(text) => Part::Text(text),
            ResourceContents::Blob(blob) => {
                handle("resource", it.mime_type, size(&blob), Some(it.uri))
            }
        },
    }
}

impl From<ToolError> for Fault {
    fn from(error: ToolError) -> Self {
        let kind = match error.kind {
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
        };
        Self { kind: kind.into(), code: error.code, message: error.message, details: error.details }
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
        Some(Binding { namespace: namespace.to_owned(), name, alias: None, tool })
    }

    fn names(&self, namespace: &str) -> Vec<String> {
        bindings::names(namespace)
    }

    fn namespaces(&self) -> Vec<String> {
        bindings::namespaces()
    }
}

impl From<executor::Script> for Script {
    fn from(script: executor::Script) -> Self {
        let bindings = Bindings::new(script.namespaces, Box::new(All));
        Self { name: script.name, source: script.source, bindings }
    }
}

impl From<Failure> for executor::Failure {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::Syntax => executor::FailureKind::Syntax,
            FailureKind::Runtime => executor::FailureKind::Runtime,
            FailureKind::Tool => executor::FailureKind::Tool,
        };
        Self {
            kind,
            message: failure.message,
            line: failure.line,
            column: failure.column,
            rendered: failure.rendered,
        }
    }
}

/// The source of randomness that `getrandom` expects from the embedder on this target. It always
/// fails, because a run must have the same result every time. Crates below Starlark link it and
/// never call it.
#[expect(unsafe_code, reason = "`getrandom` finds its custom backend by symbol name")]
mod entropy {
    #[unsafe(no_mangle)]
    extern "Rust" fn __getrandom_v03_custom(
        _dest: *mut u8,
        _len: usize,
    ) -> Result<(), getrandom::Error> {
        Err(getrandom::Error::UNSUPPORTED)
    }
}
