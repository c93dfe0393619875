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
    Content, ContentBlock, EmbeddedResource, ErrorKind, Media, ResourceContents, ResourceLink,
    ToolError, ToolOutput,
};
use self::wit::exports::airlock::executor::executor;
use crate::{
    Answer, Binding, Bindings, Failure, FailureKind, Field, Part, Request, Script, ToolFailure,
    Tools,
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
    fn call(&self, request: Request) -> Result<Answer, ToolFailure> {
        answer(tools::call(&request.into()))
    }

    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, ToolFailure>> {
        let requests: Vec<CallRequest> = requests.into_iter().map(Into::into).collect();
        tools::call_batch(&requests).into_iter().map(answer).collect()
    }
}

fn answer(result: Result<ToolOutput, ToolError>) -> Result<Answer, ToolFailure> {
    let output = result?;
    Ok(match output.structured_content {
        Some(json) => Answer::Json(json),
        None => parts(output.content),
    })
}

/// Joins the texts of a result; keeps its parts if one of them is no text.
fn parts(content: Vec<Content>) -> Answer {
    let parts: Vec<_> = content.into_iter().map(|content| part(content.block)).collect();
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::Handle(_) => None,
    };
    match parts.iter().map(text).collect() {
        Some(text) => Answer::Text(text),
        None => Answer::Parts(parts),
    }
}

fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) | ContentBlock::Other(text) => Part::Text(text),
        ContentBlock::Image(it) => media("image", it),
        ContentBlock::Audio(it) => media("audio", it),
        ContentBlock::ResourceLink(link) => self::link(link),
        ContentBlock::EmbeddedResource(it) => resource(it),
    }
}

fn media(kind: &str, media: Media) -> Part {
    Part::Handle(vec![
        ("type", Field::Text(kind.to_owned())),
        ("mime_type", Field::Text(media.mime_type)),
        ("size", Field::Size(media.data.len() as u64)),
    ])
}

fn link(link: ResourceLink) -> Part {
    let mut fields = vec![
        ("type", Field::Text("resource_link".to_owned())),
        ("uri", Field::Text(link.uri)),
        ("name", Field::Text(link.name)),
    ];
    fields.extend(link.mime_type.map(|it| ("mime_type", Field::Text(it))));
    fields.extend(link.size.map(|it| ("size", Field::Size(it))));
    Part::Handle(fields)
}

fn resource(resource: EmbeddedResource) -> Part {
    let blob = match resource.contents {
        ResourceContents::Text(text) => return Part::Text(text),
        ResourceContents::Blob(blob) => blob,
    };
    let mut fields =
        vec![("type", Field::Text("resource".to_owned())), ("uri", Field::Text(resource.uri))];
    fields.extend(resource.mime_type.map(|it| ("mime_type", Field::Text(it))));
    fields.push(("size", Field::Size(blob.len() as u64)));
    Part::Handle(fields)
}

impl From<ToolError> for ToolFailure {
    fn from(error: ToolError) -> Self {
        Self {
            kind: kind(error.kind).to_owned(),
            code: error.code,
            message: error.message,
            data: error.details,
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
        let clock_ms = script.clock_ms;
        Self { name: script.name, source: script.source, bindings, clock_ms }
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

/// The source of randomness that `getrandom` expects from the embedder on this target. It returns
/// the same bytes in every run, because a run must have the same result every time. Hash maps below
/// the interpreter seed themselves with it, and the interpreter gives identities to objects that
/// leave it; neither is visible to scripts.
#[expect(unsafe_code, reason = "`getrandom` finds its custom backend by symbol name")]
mod entropy {
    use std::slice;
    use std::sync::atomic::{AtomicU64, Ordering};

    static DRAWN: AtomicU64 = AtomicU64::new(0);

    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __getrandom_v03_custom(
        dest: *mut u8,
        len: usize,
    ) -> Result<(), getrandom::Error> {
        // SAFETY: `getrandom` passes a valid, writable buffer of this length, whose bytes need not
        // be initialized; a `u8` may hold anything once it is written.
        unsafe { dest.write_bytes(0, len) };
        let bytes = unsafe { slice::from_raw_parts_mut(dest, len) };
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&next().to_le_bytes()[..word.len()]);
        }
        Ok(())
    }

    /// Returns the next number of SplitMix64, so that no two identities are equal.
    fn next() -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let drawn = DRAWN.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
