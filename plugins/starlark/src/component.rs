//! Exports the interpreter as the world `script-executor`.

use std::panic;

use self::wit::Guest;
use self::wit::airlock::host::log::{self, Level};
use self::wit::airlock::host::tools::{self, CallRequest};
use self::wit::airlock::types::types::{
    Content, ContentBlock, ResourceContents, ToolError, ToolOutput,
};
use self::wit::exports::airlock::executor::executor;
use crate::{Answer, Binding, Failure, FailureKind, Request, Script, Tools};

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
        panic::set_hook(Box::new(|info| log::write(Level::Error, &info.to_string(), &[])));
        crate::prepare();
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
    fn call(&self, request: Request) -> Result<Answer, String> {
        answer(tools::call(&request.into()))
    }

    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, String>> {
        let requests: Vec<CallRequest> = requests.into_iter().map(Into::into).collect();
        tools::call_batch(&requests).into_iter().map(answer).collect()
    }
}

fn answer(result: Result<ToolOutput, ToolError>) -> Result<Answer, String> {
    let output = result.map_err(|error| error.message)?;
    Ok(match output.structured_content {
        Some(json) => Answer::Json(json),
        None => Answer::Text(text(&output.content)),
    })
}

/// Returns the text of a result. A script cannot use the other parts, so they are replaced by a
/// description.
fn text(content: &[Content]) -> String {
    content
        .iter()
        .map(|part| match &part.block {
            ContentBlock::Text(text) => text.clone(),
            ContentBlock::Image(media) | ContentBlock::Audio(media) => {
                format!("[{}, {} bytes]", media.mime_type, media.data.len())
            }
            ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
            ContentBlock::EmbeddedResource(resource) => match &resource.contents {
                ResourceContents::Text(text) => text.clone(),
                ResourceContents::Blob(blob) => format!("[{}, {} bytes]", resource.uri, blob.len()),
            },
            ContentBlock::Other(block) => block.clone(),
        })
        .collect()
}

impl From<Request> for CallRequest {
    fn from(request: Request) -> Self {
        Self { name: request.tool, arguments: request.arguments, timeout_ms: None }
    }
}

impl From<executor::Script> for Script {
    fn from(script: executor::Script) -> Self {
        let binding = |it: executor::Binding| Binding {
            namespace: it.namespace,
            name: it.name,
            alias: it.alias,
            tool: it.tool,
        };
        Self {
            name: script.name,
            source: script.source,
            bindings: script.bindings.into_iter().map(binding).collect(),
        }
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
