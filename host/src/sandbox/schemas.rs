//! What a plugin's tools take and answer, compiled when it is loaded: arguments are checked before the guest runs, and its
//! structured results afterwards.

use std::collections::BTreeMap;

use crate::catalog::{CallError, Cause, CompiledSchema, ToolDefinition, ToolName, ToolOutput};

/// The schemas of one plugin's tools, by the plugin's own names.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Pair>);

struct Pair {
    input: CompiledSchema,
    output: Option<CompiledSchema>,
}

impl Schemas {
    /// Compiles what can be compiled. A tool whose schema cannot be used is left out, with the reason.
    pub(super) fn compile(definitions: Vec<ToolDefinition>) -> (Self, Vec<ToolDefinition>, Vec<String>) {
        let mut schemas = Self::default();
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for definition in definitions {
            let input = CompiledSchema::compile("inputSchema", &definition.input_schema);
            let output = definition.output_schema.as_ref().map(|schema| CompiledSchema::compile("outputSchema", schema));
            match (input, output.transpose()) {
                (Ok(input), Ok(output)) => {
                    schemas.0.insert(definition.name.clone(), Pair { input, output });
                    kept.push(definition);
                }
                (Err(bad), _) | (_, Err(bad)) => left_out.push(format!("tool {:?}: {bad}", definition.name)),
            }
        }
        (schemas, kept, left_out)
    }

    /// Checks arguments, JSON text of an object; the error says what to change.
    pub(super) fn check_arguments(&self, tool: &str, name: &ToolName, arguments: &str) -> Result<(), CallError> {
        let Some(pair) = self.0.get(tool) else { return Ok(()) };
        let refuse = |detail: String| CallError::BadArguments { name: name.to_string(), detail };
        let arguments = serde_json::from_str(arguments).map_err(|error| refuse(error.to_string()))?;
        pair.input.check(&arguments).map_err(|violations| refuse(violations.to_string()))
    }

    /// Checks an answer. A tool with an output schema has to answer data that fits it (MCP 2025-06-18, Structured Content).
    pub(super) fn check_result(&self, tool: &str, name: &ToolName, output: &ToolOutput) -> Result<(), CallError> {
        let Some(schema) = self.0.get(tool).and_then(|pair| pair.output.as_ref()) else { return Ok(()) };
        let wrong = match &output.structured {
            None => "it has an output schema and answered no structured result".to_owned(),
            Some(structured) => match schema.check(structured) {
                Ok(()) => return Ok(()),
                Err(violations) => format!("its structured result does not fit its output schema: {violations}"),
            },
        };
        Err(CallError::BadResult { tool: name.clone(), cause: Cause::from(wrong) })
    }
}
