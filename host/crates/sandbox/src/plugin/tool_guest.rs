//! The part that components of all kinds share: they describe their tools, and run them.

use airlock_core::tool::{Content, ToolDefinition, ToolError, ToolOutput};
use futures_util::future::BoxFuture;
use wasmtime::Store;

use super::side::PluginSide;
use crate::run::state::State;

/// Bytes of the message of a guest's error, which a model reads; the rest is cut. The contract
/// promises this number (`message` of `tool-error`).
pub(crate) const MAX_ERROR_BYTES: usize = 4 << 10;
/// Bytes of the code of a guest's error; the rest is cut. The contract promises this number (`code`
/// of `tool-error`).
pub(crate) const MAX_CODE_BYTES: usize = 128;
/// Bytes of JSON text of an error's details, of its vendor keys, and of its other members, each;
/// longer ones are left out. The contract promises this number (`details` of `tool-error`).
pub(crate) const MAX_DETAILS_BYTES: usize = 64 << 10;

/// A compiled and linked component that can describe its tools and run them: what all versions of
/// the plugin contract have in common. Every call runs in a store of its own.
pub(crate) trait ToolGuest: Send + Sync {
    /// Returns the tools as the component describes them. The inner error is the component's own
    /// refusal; the outer error means that the call failed, for example with a trap.
    fn describe<'a>(
        &'a self,
        store: &'a mut Store<State<PluginSide>>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Vec<ToolDefinition>, String>>>;

    /// Runs one tool under the name that the component gives it. `arguments` is the JSON text of an
    /// object.
    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<State<PluginSide>>,
        tool: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Returned, ToolError>>>;

    /// Returns whether the build of this guest embeds tool descriptors. If it does, embedded
    /// descriptors are used and `describe` is called only without them.
    fn embeds_descriptors(&self) -> bool {
        true
    }
}

/// Result of a guest.
pub(crate) struct Returned {
    pub(crate) output: ToolOutput,
    /// Number of parts at the start of the content that were emitted ahead of the rest.
    pub(crate) emitted: usize,
}

impl Returned {
    /// Returns the result as its readers get it. Data without content of its own gets its text if
    /// parts were emitted, because the data of a result with content is not rendered.
    pub(crate) fn readable(self) -> ToolOutput {
        let Self { mut output, emitted } = self;
        if let Some(data) = &output.structured
            && emitted > 0
            && output.content.len() == emitted
        {
            output.content.push(Content::text(data.to_string()));
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_rendered_behind_emitted_parts_as_it_is_without_them() {
        assert_eq!(rendered(&[], 0), r#"{"n":1}"#);
        assert_eq!(rendered(&["early"], 1), "early\n{\"n\":1}");
        assert_eq!(rendered(&["early", "late"], 1), "early\nlate");
        assert_eq!(rendered(&["late"], 0), "late");
    }

    fn rendered(texts: &[&str], emitted: usize) -> String {
        let content = texts.iter().map(|text| Content::text(*text)).collect();
        let structured = Some(serde_json::json!({"n": 1}));
        let output = ToolOutput { content, structured, ..ToolOutput::default() };
        Returned { output, emitted }.readable().to_text()
    }
}
