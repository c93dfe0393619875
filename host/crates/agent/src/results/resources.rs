//! The tool `readResource`: reads a resource of an MCP server, such as one that a result links to.
//!
//! The call is decided as `resources/read` of an MCP client is: by the operator's `resources_to_read`,
//! the row of the virtual key and the filter of the request. A URI can carry data to the server, so guards and sinks
//! decide about the call too, as about one of a tool of that server.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{
    presentation::Results,
    provenance::{Presented, Provenance},
};
use airlock_core::{
    door::{Admitted, Arguments, Provider, RelayError, RelayRequest, RelayView, View},
    tool::{
        Annotations, CallError, ClientName, Content, ContentBlock, ErrorKind, READ_RESOURCE,
        SourceSet, Tool, ToolError, ToolOutput, Trust, join,
    },
};
use airlock_json::{self as json, Caps};

const DESCRIPTION: &str = "Reads a resource of an MCP server, for example one that the result of a tool links to. Its text \
                           comes from outside.";

/// Longest URI, in bytes: twice what browsers and proxies are sure to accept. It is compared with
/// the templates of every server, and repeated in the error.
const MAX_URI_BYTES: usize = 4_096;

/// Maximum memory of the result of `resources/read` as a tree, in bytes. It has up to 1 MiB as text, which may take a
/// hundred times as much.
const MAX_TREE_BYTES: usize = 4 << 20;

/// Maximum number of the contents of a resource. A server sends one, or those of a directory.
const MAX_CONTENTS: usize = 4_096;

/// Runs the tool.
pub(super) struct ResourceReader {
    results: Results,
    tool: Arc<Tool>,
}

impl ResourceReader {
    pub(super) fn new(results: Results) -> Self {
        Self { results, tool: definition() }
    }

    /// The definition of the tool.
    pub(super) fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    async fn read(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        let ResourceTarget { relays, server, uri } =
            ResourceTarget::find(chain.view(), call.arguments())?;
        let limit = chain.deadline().saturating_duration_since(Instant::now());
        let request = RelayRequest::Read { uri: uri.clone() };
        let relay = relays.admit(&server, request, limit).map_err(|_| unknown(&uri))?;
        // What is read is marked as untrusted, whatever the trust in the server's tools is.
        chain.receive(&SourceSet::from(&server));
        let read = relay.run().await.map_err(|error| match error {
            RelayError::NotFound => unknown(&uri),
            error => refused(&server, &error),
        })?;
        let contents = contents_of(&read).map_err(|error| refused(&server, &error))?;
        Ok(self.present(call, &server, &contents))
    }

    /// Presents the contents of a resource: marked as that of a tool of the server, a large text as
    /// a preview, and images beside it.
    fn present(&self, call: &Admitted, server: &ClientName, contents: &[Value]) -> ToolOutput {
        let (images, others): (Vec<Content>, Vec<Content>) =
            contents.iter().map(content).partition(is_image);
        let provenance = Provenance::new(server.clone(), Trust::Untrusted);
        let text = join(&others);
        let Presented { text, remark, .. } =
            self.results.present(text, &provenance, call.chain().tenant());
        let text = match provenance.marks() {
            Some(marks) => marks.wrap(&text),
            None => text,
        };
        let parts = [text, remark].into_iter().filter(|part| !part.is_empty()).map(Content::text);
        ToolOutput { content: parts.chain(images).collect(), ..ToolOutput::default() }
    }
}

impl Provider for ResourceReader {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.read(&call).await })
    }

    fn decided_tool(&self, view: &View, arguments: &Arguments) -> Option<Arc<Tool>> {
        // A call without a target reaches no server.
        let target = ResourceTarget::find(view, arguments).ok()?;
        Some(Arc::new(self.tool.of_client(&target.server)))
    }
}

/// The resource that a call reads.
struct ResourceTarget<'v> {
    relays: &'v RelayView,
    server: ClientName,
    uri: String,
}

impl<'v> ResourceTarget<'v> {
    /// Finds the resource that arguments name. Fails if they name none that may be read.
    fn find(view: &'v View, arguments: &Arguments) -> Result<Self, CallError> {
        let arguments = arguments.scalars(&["uri", "server"]);
        let uri = arguments.get("uri").and_then(Value::as_str);
        let uri = uri.filter(|uri| uri.len() <= MAX_URI_BYTES);
        let uri = uri.ok_or_else(|| bad("uri parameter is required and must be a string"))?;
        let relays = view.relay().ok_or_else(|| unknown(uri))?;
        let server = match arguments.get("server").and_then(Value::as_str) {
            Some(server) => ClientName::parse(server).map_err(|_| unknown(uri))?,
            None => owner(relays, uri).ok_or_else(|| {
                bad("no server lists the resource, or several do: name one with the parameter server")
            })?,
        };
        // Guards and sinks are not asked about a hidden server: their decisions would show that it exists.
        if !relays.may_read(&server, uri) {
            return Err(unknown(uri));
        }
        Ok(Self { relays, server, uri: uri.to_owned() })
    }
}

/// Returns the definition of the tool.
fn definition() -> Arc<Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "As the link has it"},
            "server": {"type": "string", "description": "Name of the server whose result has the link; needed only if \
                several servers have the URI"},
        },
        "required": ["uri"],
    });
    let mut tool = Tool::own(READ_RESOURCE, DESCRIPTION, schema);
    tool.annotations = Annotations {
        read_only: Some(true),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(true),
        ..Annotations::default()
    };
    Arc::new(tool)
}

/// Returns the only server that lists a URI, or may have it by a template.
fn owner(relays: &RelayView, uri: &str) -> Option<ClientName> {
    let mut owners = relays.owners(uri);
    let first = owners.next()?;
    owners.next().is_none().then(|| first.clone())
}

/// Returns the contents in a result of `resources/read`. Fails if they would take too much memory.
fn contents_of(read: &str) -> Result<Vec<Value>, RelayError> {
    let too_large = RelayError::TooLarge { limit_bytes: MAX_TREE_BYTES };
    if let Err(error) = json::check(read.as_bytes(), &Caps::memory(MAX_TREE_BYTES))
        && error.is_cap()
    {
        return Err(too_large);
    }
    let mut read: Value = serde_json::from_str(read).unwrap_or_default();
    match read["contents"].take() {
        Value::Array(contents) if contents.len() > MAX_CONTENTS => Err(too_large),
        Value::Array(contents) => Ok(contents),
        _ => Ok(Vec::new()),
    }
}

/// Reads one of the contents of a resource.
fn content(contents: &Value) -> Content {
    let image = contents["mimeType"].as_str().filter(|mime| mime.starts_with("image/"));
    match (image, contents["blob"].as_str()) {
        (Some(mime), Some(data)) => {
            ContentBlock::Image { data: data.into(), mime_type: mime.into() }.into()
        }
        _ => Content::from_mcp(json!({"type": "resource", "resource": contents})),
    }
}

fn is_image(content: &Content) -> bool {
    matches!(content.block, ContentBlock::Image { .. })
}

fn bad(message: &str) -> CallError {
    CallError::from(ToolError::new(ErrorKind::InvalidInput, message))
}

/// Returns the error of an unknown resource. Hidden ones return `NotFound`, exactly like these.
fn unknown(uri: &str) -> CallError {
    let message = format!("no server that you may use has the resource {uri:?}");
    CallError::from(ToolError::new(ErrorKind::NotFound, message))
}

/// Returns the error of a resource that its server does not return.
fn refused(server: &ClientName, error: &RelayError) -> CallError {
    let kind = match error {
        RelayError::Busy | RelayError::Unavailable(_) => ErrorKind::Unavailable,
        RelayError::Disabled => ErrorKind::Denied,
        RelayError::Deadline { .. } => ErrorKind::Timeout,
        RelayError::TooLarge { .. } => ErrorKind::TooLarge,
        RelayError::Unsupported | RelayError::InputRequired(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    CallError::from(ToolError::new(kind, format!("{server} did not return the resource: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_take_too_much_memory_are_refused() {
        let text = |contents: &Value| json!({"contents": contents}).to_string();
        let count = |read: &str| contents_of(read).ok().map(|contents| contents.len());
        let one = json!({"uri": "a:b", "text": "x".repeat(1 << 19)});
        for (contents, expected) in [
            (json!([one]), Some(1)),
            (json!(vec![0; MAX_CONTENTS]), Some(MAX_CONTENTS)),
            (json!(vec![0; MAX_CONTENTS + 1]), None),
            (json!([{"x": vec![json!({"": 0}); 1 << 17]}]), None),
            (json!(1), Some(0)),
        ] {
            assert_eq!(count(&text(&contents)), expected);
        }
        assert_eq!(count("no JSON"), Some(0));
    }
}
