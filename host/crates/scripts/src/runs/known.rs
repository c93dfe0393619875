//! The tools that a script has called, with what each call needs of a definition: a script that calls a tool in a loop reads
//! the definition once. A definition cannot change while it is here. One that is published meanwhile is another tool.

use std::{mem, sync::Arc};

use airlock_core::tool::{CallError, Tool};
use parking_lot::Mutex;

use super::arguments::{self, Declared};

/// Maximum number of tools that are kept. A script may call any number, each call is compared with all of them under a
/// lock, and a definition that a server has replaced stays in memory with them: 16 of the longest schemas have 4 MiB.
/// The definitions of others are read for each call.
const MAX_TOOLS: usize = 16;
/// Maximum bytes of the input schemas whose parameters are kept, all together. A copy takes up to twenty times as much.
const MAX_SCHEMA_BYTES: usize = 32 << 10;

/// Tools that a script has called.
#[derive(Default)]
pub(super) struct KnownTools(Mutex<KeptTools>);

#[derive(Default)]
struct KeptTools {
    tools: Vec<KnownTool>,
    /// Bytes of the schemas whose parameters are kept.
    schema_bytes: usize,
}

struct KnownTool {
    tool: Arc<Tool>,
    /// Digest of its definition, once it was needed.
    digest: Option<Arc<str>>,
    parameters: KnownParameters,
}

/// Parameters of a tool.
enum KnownParameters {
    /// They are read from the schema, not copied: most scripts call a tool once.
    Unread {
        /// True once the arguments of a call were checked.
        is_called: bool,
    },
    /// They were copied; `None` if the schema has none that are checked.
    Copied(Option<Arc<Declared<'static>>>),
}

impl KnownTools {
    /// Returns the [digest](Tool::digest) of a definition.
    pub(super) fn digest(&self, tool: &Arc<Tool>) -> Arc<str> {
        let mut kept = self.0.lock();
        let Some(known) = kept.known(tool) else { return tool.digest().into() };
        known.digest.get_or_insert_with(|| tool.digest().into()).clone()
    }

    /// Checks the arguments of a call, as JSON text, like [`arguments::check`].
    pub(super) fn check(&self, tool: &Arc<Tool>, arguments: &str) -> Result<(), CallError> {
        let copied = self.0.lock().parameters(tool);
        match copied {
            KnownParameters::Unread { .. } => arguments::check(tool, arguments),
            KnownParameters::Copied(None) => Ok(()),
            KnownParameters::Copied(Some(declared)) => {
                arguments::check_declared(tool, &declared, arguments)
            }
        }
    }
}

impl KeptTools {
    /// Returns a tool that is kept from now on; `None` if there is no room for it.
    fn known(&mut self, tool: &Arc<Tool>) -> Option<&mut KnownTool> {
        let at = self.tools.iter().position(|known| Arc::ptr_eq(&known.tool, tool));
        let at = match at {
            Some(at) => at,
            None if self.tools.len() == MAX_TOOLS => return None,
            None => {
                let parameters = KnownParameters::Unread { is_called: false };
                self.tools.push(KnownTool { tool: tool.clone(), digest: None, parameters });
                self.tools.len() - 1
            }
        };
        self.tools.get_mut(at)
    }

    /// Returns the parameters of a tool that is called. They are copied at its second call, if there is room.
    fn parameters(&mut self, tool: &Arc<Tool>) -> KnownParameters {
        let schema = tool.input_schema.as_str();
        let bytes = self.schema_bytes.saturating_add(schema.len());
        let Some(known) = self.known(tool) else {
            return KnownParameters::Unread { is_called: true };
        };
        match &mut known.parameters {
            KnownParameters::Copied(declared) => KnownParameters::Copied(declared.clone()),
            KnownParameters::Unread { is_called } => {
                if !mem::replace(is_called, true) || bytes > MAX_SCHEMA_BYTES {
                    return KnownParameters::Unread { is_called: true };
                }
                let declared = Declared::read(schema).map(Declared::into_owned).map(Arc::new);
                known.parameters = KnownParameters::Copied(declared.clone());
                self.schema_bytes = bytes;
                KnownParameters::Copied(declared)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::ClientName;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a tool whose one parameter is an integer, with a schema of some bytes more.
    fn tool(name: &str, bytes: usize) -> Arc<Tool> {
        let client = ClientName::parse("a").expect("a good name");
        let definition = json!({"name": name, "inputSchema": {
            "type": "object", "description": "x".repeat(bytes), "required": ["n"],
            "properties": {"n": {"type": "integer"}}, "additionalProperties": false,
        }});
        let definition = serde_json::from_value(definition).expect("a definition");
        Arc::new(Tool::adopt(&client, definition).expect("a good tool"))
    }

    fn checked(known: &KnownTools, tool: &Arc<Tool>, arguments: &Value) -> Option<String> {
        known.check(tool, &arguments.to_string()).err().map(|error| error.to_string())
    }

    fn copied(known: &KnownTools) -> usize {
        let kept = known.0.lock();
        let tools = kept.tools.iter();
        tools.filter(|known| matches!(known.parameters, KnownParameters::Copied(_))).count()
    }

    #[test]
    fn every_call_of_a_tool_is_checked_alike() {
        let tool = tool("t", 0);
        for arguments in [json!({}), json!({"n": "x"}), json!({"m": 1}), json!({"n": 1})] {
            let known = KnownTools::default();
            let expected = arguments::check(&tool, &arguments.to_string()).err();
            let expected = expected.map(|error| error.to_string());
            for _ in 0..3 {
                assert_eq!(checked(&known, &tool, &arguments), expected, "{arguments}");
            }
            assert_eq!(copied(&known), 1);
        }
    }

    #[test]
    fn a_tool_with_another_definition_is_another_one() {
        let known = KnownTools::default();
        let [tool, other] = [0, 1].map(|bytes| tool("t", bytes));
        for tool in [&tool, &other, &tool] {
            assert_eq!(*known.digest(tool), *tool.digest());
        }
        assert_ne!(known.digest(&tool), known.digest(&other));
    }

    #[test]
    fn a_script_that_calls_many_or_large_tools_keeps_some() {
        let known = KnownTools::default();
        let fits = json!({"n": 1});
        for n in 0..MAX_TOOLS + 2 {
            let tool = tool(&format!("t{n}"), MAX_SCHEMA_BYTES / 4);
            for _ in 0..3 {
                assert_eq!(checked(&known, &tool, &fits), None);
                assert!(checked(&known, &tool, &json!({})).is_some());
            }
            assert_eq!(*known.digest(&tool), *tool.digest());
        }
        let kept = known.0.lock().tools.len();
        assert_eq!((kept, copied(&known)), (MAX_TOOLS, 3));
    }

    #[test]
    fn a_tool_that_is_called_once_is_not_copied() {
        let known = KnownTools::default();
        let tool = tool("t", 0);
        assert_eq!(checked(&known, &tool, &json!({"n": 1})), None);
        assert_eq!(copied(&known), 0);
    }
}
