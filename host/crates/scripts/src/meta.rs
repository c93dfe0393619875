//! The meta-tools as a model sees them, and their arguments.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    language::LanguageTexts,
    layout::{Layout, LayoutKind},
    search::{DEFAULT_LIMIT, MAX_LIMIT},
    stubs::LineRange,
};
use airlock_core::{
    door,
    tool::{Annotations, CallError, ErrorKind, Tool, ToolError},
};

pub(super) const LIST: &str = "listToolFiles";
pub(super) const READ: &str = "readToolFile";
pub(super) const DOCS: &str = "getToolDocs";
pub(super) use crate::runs::EXECUTE;
pub(super) const SEARCH: &str = "searchTools";

/// Parameters of all meta-tools.
const PARAMETERS: [&str; 8] =
    ["fileName", "startLine", "endLine", "server", "tool", "query", "limit", "code"];
/// Maximum bytes of a script: about 16,000 tokens, more than a model writes in one answer. The
/// executors parse it on every run.
const MAX_SOURCE: usize = 64 << 10;

/// Returns the meta-tools that every view with scripts has, with texts for the layout of the files
/// and the language of scripts.
pub(super) fn tools(layout: &Layout, language: &LanguageTexts) -> Vec<Arc<Tool>> {
    let by_tool = "servers/<server>/<tool>.pyi";
    let file = match layout.kind() {
        LayoutKind::Server => "one file a server, servers/<server>.pyi".to_owned(),
        LayoutKind::Tool => format!("one file a tool, {by_tool}"),
        LayoutKind::Mixed => {
            format!("one file a server, servers/<server>.pyi, or one file a tool, {by_tool}")
        }
    };
    let example = match layout.kind() {
        LayoutKind::Server => "servers/github.pyi",
        LayoutKind::Tool | LayoutKind::Mixed => {
            "servers/github/create_issue.pyi, or servers/github.pyi for all of a server's tools"
        }
    };
    let list = format!(
        "Lists the tools that scripts can call, as a tree of virtual files: {file}. Call this first, then readToolFile for \
         names and parameters, getToolDocs if they are not enough, and executeToolCode to run a script."
    );
    let read = "Reads a virtual file: the signature of each tool, with types, on one line. Only the names and parameters listed here exist; \
         do not guess others. File names match without regard to case. The first \
         line tells how many lines there are; if it says that the file is complete, do not read it again in parts.";
    let docs = "Explains one tool in full: its whole description, every parameter with its limits, what it returns, whether it needs an \
                approval, and an example. Use it \
                when the signature from readToolFile is not enough.";
    vec![
        read_only(Tool::own(LIST, &list, object(&[], &json!({})))),
        read_only(Tool::own(
            READ,
            read,
            object(
                &["fileName"],
                &json!({
                    "fileName": {"type": "string", "description": format!("As listToolFiles shows it: {example}")},
                    "startLine": {"type": "number", "description": "First line to read, from 1. Leave it out to read the whole file"},
                    "endLine": {"type": "number", "description": "Last line to read, itself included"},
                }),
            ),
        )),
        read_only(Tool::own(
            DOCS,
            docs,
            object(
                &["server", "tool"],
                &json!({
                    "server": {"type": "string", "description": "The server's name, as in listToolFiles"},
                    "tool": {"type": "string", "description": "The tool's name, as in readToolFile"},
                }),
            ),
        )),
        execute(language),
    ]
}

/// Returns the meta-tool that only views with many tools have.
pub(super) fn search() -> Arc<Tool> {
    let description = "Finds tools that scripts can call by words of their names, servers and descriptions, and shows their \
                       signatures as readToolFile does, the best first. Use it instead of listToolFiles and readToolFile when you \
                       know what you want to do.";
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
        "description": "Maximum number of tools to return",
    });
    let properties = json!({
        "query": {"type": "string", "description": "A few words, such as: create issue"},
        "server": {"type": "string", "description": "Search only this server, named as in listToolFiles"},
        "limit": limit,
    });
    read_only(Tool::own(SEARCH, description, object(&["query"], &properties)))
}

fn execute(language: &LanguageTexts) -> Arc<Tool> {
    let schema = object(
        &["code"],
        &json!({
            "code": {"type": "string", "description": "The script. The value of its global `result` is returned"},
        }),
    );
    let mut tool = Tool::own(EXECUTE, language.description, schema);
    let output = json!({
        "type": "object",
        "properties": {"result": {"description": "The value of `result`; null if the script did not set it"}},
        "required": ["result"],
    });
    tool.output_schema = Some(output.into());
    Arc::new(tool)
}

/// Error: an argument of a meta-tool is missing or has the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadArgument(String);

impl From<BadArgument> for CallError {
    fn from(bad: BadArgument) -> Self {
        ToolError::new(ErrorKind::InvalidInput, bad.0).into()
    }
}

/// Arguments of a call. The error texts are those that existing models and clients expect.
pub(super) struct MetaArguments(pub(super) Map<String, Value>);

impl MetaArguments {
    /// Reads the arguments of all meta-tools. Others are left out: a script runs for minutes, and
    /// what a caller sent beside it would be held as a tree.
    pub(super) fn new(arguments: &door::Arguments) -> Self {
        Self(arguments.scalars(&PARAMETERS))
    }

    /// Returns a required text. Fails if it is missing or not a string.
    pub(super) fn text(&self, name: &str) -> Result<&str, BadArgument> {
        let text = self.0.get(name).and_then(Value::as_str);
        text.ok_or_else(|| {
            BadArgument(format!("{name} parameter is required and must be a string"))
        })
    }

    /// Returns the script without surrounding blanks. Fails if it is missing, empty or too long.
    pub(super) fn code(&self) -> Result<&str, BadArgument> {
        match self.0.get("code").and_then(Value::as_str) {
            None | Some("") => Err(BadArgument(
                "code parameter is required and must be a non-empty string".to_owned(),
            )),
            Some(code) if code.len() > MAX_SOURCE => Err(BadArgument(format!(
                "code parameter has {} bytes; the limit is {MAX_SOURCE}",
                code.len()
            ))),
            Some(code) => Ok(code.trim()),
        }
    }

    /// Returns the requested lines.
    pub(super) fn range(&self) -> Result<LineRange, BadArgument> {
        Ok(LineRange { start: self.line("startLine")?, end: self.line("endLine")? })
    }

    /// Returns the words to search for. Fails if they are missing or blank.
    pub(super) fn query(&self) -> Result<&str, BadArgument> {
        let query = self.0.get("query").and_then(Value::as_str);
        query.filter(|query| !query.trim().is_empty()).ok_or_else(|| {
            BadArgument("query parameter is required and must be a non-empty string".to_owned())
        })
    }

    /// Returns an optional text. Fails if it is not a string. A blank one counts as missing.
    pub(super) fn optional(&self, name: &str) -> Result<Option<&str>, BadArgument> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(_) => Err(BadArgument(format!("{name} parameter must be a string"))),
        }
    }

    /// Returns the number of tools to show. Numbers outside of the range become its nearest end.
    pub(super) fn limit(&self) -> Result<usize, BadArgument> {
        Ok(self.line("limit")?.map_or(DEFAULT_LIMIT, |limit| limit.clamp(1, MAX_LIMIT)))
    }

    fn line(&self, name: &str) -> Result<Option<usize>, BadArgument> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            // Floats are accepted because models write 3.0. The conversion saturates, and the file
            // clamps the result.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(Value::Number(number)) => Ok(number.as_f64().map(|line| line as usize)),
            Some(_) => Err(BadArgument(format!("{name} parameter must be a number"))),
        }
    }
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn read_only(mut tool: Tool) -> Arc<Tool> {
    tool.annotations = Annotations {
        read_only: Some(true),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
        ..Annotations::default()
    };
    Arc::new(tool)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{language, layout::BindingLevel};
    use airlock_core::door::ScriptLanguage;

    #[test]
    fn every_parameter_of_a_meta_tool_is_read() {
        let language = language::describe(ScriptLanguage::Starlark);
        let mut tools = super::tools(&Layout::from(BindingLevel::Server), language);
        tools.push(search());
        let schemas = tools.iter().map(|tool| tool.input_schema.to_value().expect("a schema"));
        let declared = schemas.flat_map(|schema| {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            properties.into_iter().map(|(name, _)| name)
        });
        assert_eq!(declared.collect::<BTreeSet<_>>(), PARAMETERS.map(str::to_owned).into());
    }
}
