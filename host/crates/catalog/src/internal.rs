//! Tools of the program itself, which are functions of it: which definitions it may register, and what a call of one is.

use serde_json::{Map, Value};

use airlock_core::{
    door::Admitted,
    threads,
    tool::{
        BadTool, CallError, Cause, ClientName, Tool, ToolDefinition, ToolError, ToolName, own_code,
    },
};
use airlock_json::{JsonText, schema::CompiledSchema};

/// Reason that the program cannot register a tool of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadInternalTool {
    /// `internal-` and the name would not be a name that every model accepts.
    #[error("a tool's name must have 1 to 55 letters, digits, `_` or `-`, found {0:?}")]
    Name(String),
    /// The definition is not valid.
    #[error(transparent)]
    Definition(#[from] BadTool),
    /// Arguments or results cannot be checked against the schema.
    #[error("the {of} of tool {tool:?} cannot be checked")]
    Schema {
        /// Its name.
        tool: String,
        /// `arguments` or `results`.
        of: &'static str,
        /// The cause.
        #[source]
        source: Cause,
    },
}

/// Fails if the catalog would drop or rename a tool of the program itself, or not check its arguments or results. Returns
/// the tool as the catalog will have it. Blocks while the schemas are compiled: about 0.1 ms for an ordinary one.
pub fn check_internal(definition: ToolDefinition) -> Result<Tool, BadInternalTool> {
    let client = ClientName::internal();
    let name = &definition.name;
    if ToolName::new(&client, name).as_str() != format!("{client}-{name}") {
        return Err(BadInternalTool::Name(name.clone()));
    }
    let tool = Tool::adopt(&client, definition)?;
    check_schema(&tool, "arguments", "inputSchema", &tool.input_schema)?;
    if let Some(schema) = &tool.output_schema {
        check_schema(&tool, "results", "outputSchema", schema)?;
    }
    Ok(tool)
}

fn check_schema(
    tool: &Tool,
    of: &'static str,
    which: &'static str,
    schema: &JsonText,
) -> Result<(), BadInternalTool> {
    let compiled = CompiledSchema::compile_text(which, schema).map(drop);
    let tool = &tool.original;
    compiled.map_err(|bad| BadInternalTool::Schema { tool: tool.clone(), of, source: bad.into() })
}

/// Returns the arguments of a call: the tree that their check has built, or else one that is parsed now, of long ones on a
/// blocking thread.
pub async fn read_arguments(call: &mut Admitted) -> Map<String, Value> {
    if let Some(members) = call.take_members() {
        return members;
    }
    let arguments = call.arguments().clone();
    let bytes = arguments.as_str().len();
    threads::read(call.chain().tenant(), bytes, move || arguments.to_object()).await
}

/// Returns the error of a tool, whose code does not look like one of the gateway.
pub fn own_error(error: ToolError) -> CallError {
    let code = error.code.and_then(own_code);
    CallError::from(ToolError { code, ..error })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(name: &str, schema: &Value) -> Result<Tool, BadInternalTool> {
        let definition = json!({"name": name, "inputSchema": schema});
        check_internal(serde_json::from_value(definition).expect("a definition"))
    }

    #[test]
    fn a_name_that_the_catalog_would_change_is_refused() {
        let long = "a".repeat(56);
        for name in ["", "a b", "a.b", "größe", &long] {
            let refused = checked(name, &json!({}));
            assert!(matches!(&refused, Err(BadInternalTool::Name(found)) if found == name));
        }
        assert!(checked(&long[..55], &json!({})).is_ok(), "it is short enough");
    }

    #[test]
    fn a_schema_that_nothing_can_be_checked_against_is_refused() {
        let refused = checked("a", &json!({"type": "array"}));
        assert!(matches!(refused, Err(BadInternalTool::Definition(BadTool::Schema { .. }))));
        let bad = json!({"properties": {"b": {"type": "strin"}}});
        let refused = checked("a", &bad);
        assert!(matches!(
            &refused,
            Err(BadInternalTool::Schema { tool, of: "arguments", .. }) if tool == "a"
        ));
        let definition = json!({"name": "a", "inputSchema": {}, "outputSchema": bad});
        let refused = check_internal(serde_json::from_value(definition).expect("a definition"));
        assert!(matches!(refused, Err(BadInternalTool::Schema { of: "results", .. })));
    }
}
