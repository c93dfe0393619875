//! Input and output schemas of a plugin's tools, compiled when it is loaded. Arguments are checked
//! before the guest runs, structured results afterwards.

use std::collections::BTreeMap;

use airlock_core::{
    schema::{BadSchema, CompiledSchema},
    tool::{CallError, ToolDefinition, ToolName, ToolOutput},
};
use serde_json::Value;

/// Most memory that the compiled schemas of one plugin may take, in bytes: enough for thousands of
/// ordinary ones.
const MAX_BYTES: usize = 64 << 20;

/// Schemas of one plugin's tools, keyed by the plugin's own tool names.
#[derive(Default)]
pub(super) struct Schemas {
    tools: BTreeMap<String, Pair>,
    bytes: usize,
}

struct Pair {
    input: CompiledSchema,
    output: Option<CompiledSchema>,
}

/// Error: a tool with an output schema has to return structured data (MCP 2025-06-18, Structured
/// Content).
#[derive(Debug, thiserror::Error)]
#[error("the structured result is missing; a tool with an output schema must return one")]
struct NoStructuredResult;

impl Schemas {
    /// Compiles the schemas of each definition. Returns the schemas, the definitions kept, and for
    /// each tool left out the reason that a schema of it cannot be used. Blocks.
    pub(super) fn compile(
        definitions: Vec<ToolDefinition>,
    ) -> (Self, Vec<ToolDefinition>, Vec<String>) {
        let mut schemas = Self::default();
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for definition in definitions {
            match schemas.add(&definition) {
                Ok(()) => kept.push(definition),
                Err(reason) => left_out.push(format!("tool {:?}: {reason}", definition.name)),
            }
        }
        (schemas, kept, left_out)
    }

    fn add(&mut self, definition: &ToolDefinition) -> Result<(), String> {
        let pair = Pair::compile(definition).map_err(|bad| bad.to_string())?;
        self.bytes = self.bytes.saturating_add(pair.bytes());
        if self.bytes > MAX_BYTES {
            return Err(format!(
                "the schemas of the plugin's tools take more than {MAX_BYTES} bytes once compiled"
            ));
        }
        // If two tools have one name, the first wins, as in the catalog.
        self.tools.entry(definition.name.clone()).or_insert(pair);
        Ok(())
    }

    /// Checks arguments, the JSON text of an object. The error lists what to change. Arguments of a
    /// tool without compiled schemas pass.
    pub(super) fn check_arguments(
        &self,
        tool: &str,
        name: &ToolName,
        arguments: &str,
    ) -> Result<(), CallError> {
        let Some(pair) = self.tools.get(tool) else { return Ok(()) };
        let arguments: Value = serde_json::from_str(arguments).map_err(|error| {
            CallError::BadArguments { name: name.to_string(), detail: format!("not JSON: {error}") }
        })?;
        pair.input
            .check(&arguments)
            .map_err(|violations| CallError::InvalidArguments { name: name.clone(), violations })
    }

    /// Checks a result. If the tool has an output schema, the structured data of the result has to
    /// fit it.
    pub(super) fn check_result(
        &self,
        tool: &str,
        name: &ToolName,
        output: &ToolOutput,
    ) -> Result<(), CallError> {
        let Some(schema) = self.tools.get(tool).and_then(|pair| pair.output.as_ref()) else {
            return Ok(());
        };
        let invalid = |place: &str, cause| CallError::InvalidResult {
            tool: name.clone(),
            place: place.to_owned(),
            cause,
        };
        let structured =
            output.structured.as_ref().ok_or_else(|| invalid("", Box::new(NoStructuredResult)))?;
        schema.check(structured).map_err(|violations| {
            let place =
                violations.told().first().map_or(String::new(), |first| first.place.clone());
            invalid(&place, Box::new(violations))
        })
    }
}

impl Pair {
    fn compile(definition: &ToolDefinition) -> Result<Self, BadSchema> {
        let output = definition
            .output_schema
            .as_ref()
            .map(|schema| CompiledSchema::compile_text("outputSchema", schema));
        Ok(Self {
            input: CompiledSchema::compile_text("inputSchema", &definition.input_schema)?,
            output: output.transpose()?,
        })
    }

    fn bytes(&self) -> usize {
        self.input.bytes() + self.output.as_ref().map_or(0, CompiledSchema::bytes)
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::ClientName;
    use serde_json::json;

    use super::*;

    fn compile(definitions: &Value) -> (Schemas, Vec<String>) {
        let (schemas, kept, left_out) =
            Schemas::compile(serde_json::from_value(definitions.clone()).expect("definitions"));
        assert_eq!(kept.len() + left_out.len(), definitions.as_array().map_or(0, Vec::len));
        (schemas, left_out)
    }

    fn name() -> ToolName {
        ToolName::new(&ClientName::parse("p").expect("a good name"), "t")
    }

    fn tool(output: &Value) -> Value {
        let input =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        json!({"name": "t", "inputSchema": input, "outputSchema": output})
    }

    #[test]
    fn arguments_that_do_not_fit_fail_with_what_to_change() {
        let (schemas, _) = compile(&json!([tool(&json!({}))]));
        assert!(schemas.check_arguments("t", &name(), r#"{"n": 1}"#).is_ok());
        let refused =
            schemas.check_arguments("t", &name(), r#"{"n": "1"}"#).expect_err("not an integer");
        assert_eq!(
            (refused.code(), refused.kind()),
            ("bad_arguments", airlock_core::tool::ErrorKind::InvalidInput)
        );
        insta::assert_snapshot!(refused, @r#"the arguments of tool 'p-t' do not fit its input schema: n: found "1", expected an integer, not its text in quotes"#);
    }

    #[test]
    fn a_result_that_does_not_fit_the_output_schema_is_refused_with_the_place() {
        let (schemas, _) = compile(&json!([tool(
            &json!({"properties": {"rows": {"items": {"type": "string"}}}})
        )]));
        let check = |structured| {
            schemas.check_result("t", &name(), &ToolOutput { structured, ..ToolOutput::text("x") })
        };
        assert!(check(Some(json!({"rows": ["a"]}))).is_ok());
        let refused = check(Some(json!({"rows": ["a", 7]}))).expect_err("not a string");
        assert_eq!(
            (refused.code(), refused.kind()),
            ("invalid_result", airlock_core::tool::ErrorKind::Internal)
        );
        insta::assert_snapshot!(refused, @"the result of tool p-t does not fit its output schema at rows[1]");
        let cause =
            std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        insta::assert_snapshot!(cause, @"rows[1]: found 7, expected a string");
        insta::assert_snapshot!(check(None).expect_err("no result"), @"the result of tool p-t does not fit its output schema");
    }

    #[test]
    fn a_tool_without_a_usable_schema_is_left_out_and_the_first_of_two_wins() {
        let second = json!({"name": "t", "inputSchema": {"required": ["other"]}});
        let (schemas, left_out) = compile(&json!([
            tool(&json!({})),
            second,
            {"name": "loop", "inputSchema": {"$ref": "#"}},
            {"name": "out", "inputSchema": {}, "outputSchema": {"type": "text"}},
        ]));
        assert!(schemas.check_arguments("t", &name(), r#"{"n": 1}"#).is_ok());
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        insta::assert_snapshot!(left_out[0], @r#"tool "loop": the inputSchema cannot be used: #: the subschema leads back to itself without going into the value"#);
    }

    #[test]
    fn all_schemas_of_a_plugin_share_one_bound() {
        let large = json!({"enum": vec![0; 100_000]});
        let tools: Vec<_> =
            (0..6).map(|n| json!({"name": format!("t{n}"), "inputSchema": large})).collect();
        let (schemas, left_out) = compile(&json!(tools));
        assert!(!schemas.tools.is_empty() && !left_out.is_empty(), "{left_out:?}");
        assert!(left_out[0].contains("67108864 bytes"), "{}", left_out[0]);
        assert!(
            schemas.check_arguments("t5", &name(), "{}").is_ok(),
            "what was left out is not checked, nor offered"
        );
    }
}
