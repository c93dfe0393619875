//! Input and output schemas of a plugin's tools, compiled when it is loaded. Arguments are checked
//! before the guest runs, structured results afterwards.
//!
//! A tool with an invalid schema is left out. A tool with a schema that is too large or too
//! recursive is kept, and values are not checked against that schema: the guest gets the arguments
//! as the caller sent them, and the caller the structured result as the guest returned it. The
//! other schema of the tool is checked as usual.

use std::{collections::BTreeMap, sync::Arc};

use airlock_core::{
    door::Arguments,
    tenant::Tenant,
    threads,
    tool::{CallError, ToolDefinition, ToolName, ToolOutput},
};
use airlock_json::{
    JsonText,
    schema::{BadSchema, CompiledSchema, MAX_SOURCE_BYTES},
};
use airlock_strings::{MAX_NAME_BYTES, cut};

/// The tools of a plugin after their schemas were compiled.
#[derive(Debug, Default)]
pub struct Tools {
    /// Definitions of the tools that the plugin runs.
    pub definitions: Vec<ToolDefinition>,
    /// The tools that are left out, because their name or a schema of theirs is invalid, with the
    /// reasons.
    pub left_out: Vec<String>,
    /// The schemas that values are not checked against, with the tools and the reasons.
    pub unchecked: Vec<String>,
}

/// Schemas of one plugin's tools, keyed by the plugin's own tool names.
#[derive(Default)]
pub(super) struct Schemas {
    tools: BTreeMap<String, Pair>,
    bytes: usize,
}

struct Pair {
    input: SchemaCheck,
    output: Option<SchemaCheck>,
}

/// Check against one schema.
enum SchemaCheck {
    Compiled(Arc<CompiledSchema>),
    /// The schema is too large or too recursive; every value passes.
    Unchecked,
}

/// Reason for which a tool is left out.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("a tool's name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -")]
    Name,
    #[error("another tool of the plugin has this name")]
    Repeated,
    #[error(transparent)]
    Schema(#[from] BadSchema),
}

impl Schemas {
    /// Compiles the schemas of each definition. Leaves out the tools that cannot be used. Blocks.
    pub(super) fn compile(definitions: Vec<ToolDefinition>) -> (Self, Tools) {
        let mut schemas = Self::default();
        let mut tools = Tools::default();
        for definition in definitions {
            let name = cut(definition.name.clone(), MAX_NAME_BYTES);
            match schemas.add(&definition) {
                Err(bad) => tools.left_out.push(format!("tool {name:?}: {bad}")),
                Ok(unchecked) => {
                    let unchecked =
                        unchecked.iter().map(|reason| format!("tool {name:?}: {reason}"));
                    tools.unchecked.extend(unchecked);
                    tools.definitions.push(definition);
                }
            }
        }
        (schemas, tools)
    }

    /// Adds the schemas of a tool. Returns the reason for each that values are not checked against.
    /// Fails if its name or a schema is invalid.
    fn add(&mut self, definition: &ToolDefinition) -> Result<Vec<String>, Unusable> {
        if !ToolName::is_valid(&definition.name) {
            return Err(Unusable::Name);
        }
        if self.tools.contains_key(&definition.name) {
            return Err(Unusable::Repeated);
        }
        let mut unchecked = Vec::new();
        let input = self.check("inputSchema", &definition.input_schema, &mut unchecked)?;
        let output = match &definition.output_schema {
            Some(schema) => Some(self.check("outputSchema", schema, &mut unchecked)?),
            None => None,
        };
        self.tools.insert(definition.name.clone(), Pair { input, output });
        Ok(unchecked)
    }

    /// Compiles one schema. Adds to `unchecked` the reason if it is not checked.
    fn check(
        &mut self,
        which: &'static str,
        schema: &JsonText,
        unchecked: &mut Vec<String>,
    ) -> Result<SchemaCheck, BadSchema> {
        let compiled = match CompiledSchema::compile_text(which, schema) {
            Ok(compiled) => compiled,
            Err(bad) if bad.is_unbounded() => {
                unchecked.push(bad.to_string());
                return Ok(SchemaCheck::Unchecked);
            }
            Err(bad) => return Err(bad),
        };
        let bytes = self.bytes.saturating_add(compiled.bytes());
        if bytes > MAX_SOURCE_BYTES {
            unchecked.push(format!(
                "nothing can be checked against the {which}: with it, the plugin's compiled schemas take more than {MAX_SOURCE_BYTES} bytes"
            ));
            return Ok(SchemaCheck::Unchecked);
        }
        self.bytes = bytes;
        Ok(SchemaCheck::Compiled(Arc::new(compiled)))
    }

    /// Checks the arguments of a call of the plugin's tool `tool`, which callers know as `name`. The error
    /// lists what to change. Arguments of a tool without compiled schemas pass.
    pub(super) async fn check_arguments(
        &self,
        tool: &str,
        name: &ToolName,
        tenant: &Tenant,
        arguments: &Arguments,
    ) -> Result<(), CallError> {
        let Some(SchemaCheck::Compiled(schema)) = self.tools.get(tool).map(|pair| &pair.input)
        else {
            return Ok(());
        };
        let checked = threads::check_arguments(tenant, schema, arguments, |schema, members| {
            schema.check(&members)
        })
        .await;
        checked.map_err(|violations| CallError::invalid_arguments(name.clone(), &violations))
    }

    /// Checks the structured result of a call in `output`, which is the same afterwards.
    pub(super) async fn check_result(
        &self,
        tool: &str,
        name: &ToolName,
        tenant: &Tenant,
        output: &mut ToolOutput,
    ) -> Result<(), CallError> {
        let Some(check) = self.tools.get(tool).and_then(|pair| pair.output.as_ref()) else {
            return Ok(());
        };
        let schema = match check {
            SchemaCheck::Compiled(schema) => Some(schema),
            SchemaCheck::Unchecked => None,
        };
        threads::check_result(tenant, name, schema, output).await
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::{ClientName, ErrorKind, HostCode};
    use futures_util::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;

    fn compile(definitions: &Value) -> (Schemas, Tools) {
        let (schemas, tools) =
            Schemas::compile(serde_json::from_value(definitions.clone()).expect("definitions"));
        let total = tools.definitions.len() + tools.left_out.len();
        assert_eq!(total, definitions.as_array().map_or(0, Vec::len));
        (schemas, tools)
    }

    fn name() -> ToolName {
        ToolName::new(&ClientName::parse("p").expect("a good name"), "t")
    }

    fn check_arguments(schemas: &Schemas, tool: &str, text: &str) -> Result<(), CallError> {
        let arguments = Arguments::parse(tool, text).expect("an object");
        wait_for(schemas.check_arguments(tool, &name(), &Tenant::ANONYMOUS, &arguments))
    }

    fn check_result(
        schemas: &Schemas,
        tool: &str,
        structured: Option<&Value>,
    ) -> Result<(), CallError> {
        let mut output = ToolOutput { structured: structured.cloned(), ..ToolOutput::text("x") };
        let name = name();
        let checked = schemas.check_result(tool, &name, &Tenant::ANONYMOUS, &mut output);
        let checked = wait_for(checked);
        assert_eq!(output.structured.as_ref(), structured, "it is the same afterwards");
        checked
    }

    fn wait_for<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(work)
    }

    fn tool(output: &Value) -> Value {
        let input =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        json!({"name": "t", "inputSchema": input, "outputSchema": output})
    }

    #[test]
    fn arguments_that_do_not_fit_fail_with_what_to_change() {
        let (schemas, _) = compile(&json!([tool(&json!({}))]));
        assert!(check_arguments(&schemas, "t", r#"{"n": 1}"#).is_ok());
        let refused = check_arguments(&schemas, "t", r#"{"n": "1"}"#).expect_err("not an integer");
        assert_eq!(
            (refused.code(), refused.kind()),
            (HostCode::BadArguments, ErrorKind::InvalidInput)
        );
        insta::assert_snapshot!(refused, @r#"the arguments of tool 'p-t' do not fit its input schema: n: found "1", expected an integer, not its text in quotes"#);
    }

    #[tokio::test]
    async fn long_arguments_and_slow_results_are_not_checked_on_a_worker() {
        let slow = json!({"properties": {"a": {"pattern": "^[01]*1[01]{350}[a-y]"}}});
        let (schemas, _) = compile(&json!([tool(&slow)]));
        let held = threads::occupy(&Tenant::ANONYMOUS).await;
        let text = format!(r#"{{"n":1,"a":"{}"}}"#, "x".repeat(threads::INLINE_BYTES));
        let arguments = Arguments::parse("t", &text).expect("an object");
        let mut output = ToolOutput::text("x");
        output.structured = Some(json!({"a": "01".repeat(3_000)}));
        let name = name();
        let tenant = Tenant::ANONYMOUS;
        let arguments = schemas.check_arguments("t", &name, &tenant, &arguments);
        let result = schemas.check_result("t", &name, &tenant, &mut output);
        let mut arguments = Box::pin(arguments);
        let mut result = Box::pin(result);
        assert!(arguments.as_mut().now_or_never().is_none());
        assert!(result.as_mut().now_or_never().is_none());
        drop(held);
        assert!(arguments.await.is_ok());
        assert_eq!(result.await.expect_err("it has no letter").code(), HostCode::InvalidResult);
    }

    #[test]
    fn a_result_that_does_not_fit_the_output_schema_is_refused_with_the_place() {
        let (schemas, _) = compile(&json!([tool(
            &json!({"properties": {"rows": {"items": {"type": "string"}}}})
        )]));
        assert!(check_result(&schemas, "t", Some(&json!({"rows": ["a"]}))).is_ok());
        let refused = check_result(&schemas, "t", Some(&json!({"rows": ["a", 7]})))
            .expect_err("not a string");
        assert_eq!(
            (refused.code(), refused.kind()),
            (HostCode::InvalidResult, ErrorKind::Internal)
        );
        insta::assert_snapshot!(refused, @"the result of tool p-t does not fit its output schema at rows[1]");
        let cause =
            std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        insta::assert_snapshot!(cause, @"rows[1]: found 7, expected a string");
        insta::assert_snapshot!(check_result(&schemas, "t", None).expect_err("no result"), @"the result of tool p-t does not fit its output schema");
    }

    #[test]
    fn a_tool_with_an_invalid_schema_is_left_out_and_so_is_the_second_of_a_name() {
        let second = json!({"name": "t", "inputSchema": {"required": ["other"]}});
        let (schemas, tools) = compile(&json!([
            tool(&json!({})),
            second,
            {"name": "gone", "inputSchema": {"$ref": "#/$defs/gone"}},
            {"name": "out", "inputSchema": {}, "outputSchema": {"type": "text"}},
        ]));
        assert!(check_arguments(&schemas, "t", r#"{"n": 1}"#).is_ok());
        assert!(check_arguments(&schemas, "t", r#"{"other": 1}"#).is_err());
        let Tools { left_out, unchecked, .. } = tools;
        assert_eq!((left_out.len(), unchecked.len()), (3, 0), "{left_out:?}");
        insta::assert_snapshot!(left_out[0], @r#"tool "t": another tool of the plugin has this name"#);
        insta::assert_snapshot!(left_out[1], @r##"tool "gone": invalid inputSchema: #: nothing is at the reference "#/$defs/gone""##);
    }

    #[test]
    fn a_tool_with_a_name_that_the_contract_does_not_permit_is_left_out() {
        let longest = "a".repeat(64);
        let (_, tools) = compile(&json!([
            named(&longest),
            named("Get-it_2"),
            named(&format!("{longest}a")),
            named("get it"),
            named("")
        ]));
        let kept: Vec<_> = tools.definitions.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(kept, [longest.as_str(), "Get-it_2"]);
        insta::assert_snapshot!(tools.left_out[1], @r#"tool "get it": a tool's name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -"#);
    }

    fn named(name: &str) -> Value {
        json!({"name": name, "inputSchema": {}})
    }

    #[test]
    fn a_tool_with_an_unbounded_schema_is_kept_and_only_that_schema_is_not_checked() {
        let endless = json!({"properties": {"n": {"anyOf": [{"$ref": "#/properties/n"}]}}});
        let (schemas, tools) = compile(&json!([
            {"name": "t", "inputSchema": endless, "outputSchema": {"required": ["rows"]}},
            {"name": "both", "inputSchema": endless, "outputSchema": endless},
            {"name": "gone", "inputSchema": endless, "outputSchema": {"type": "text"}},
        ]));
        assert_eq!((tools.definitions.len(), tools.left_out.len()), (2, 1));
        assert_eq!(tools.unchecked.len(), 3, "{:?}", tools.unchecked);
        insta::assert_snapshot!(tools.unchecked[0], @r##"tool "t": nothing can be checked against the inputSchema: #/properties/n: more than 256 subschemas inside each other for one value; does a reference lead back to itself?"##);
        assert!(check_arguments(&schemas, "t", r#"{"n": "any"}"#).is_ok());
        assert!(check_result(&schemas, "t", Some(&json!({}))).is_err());
        assert!(check_result(&schemas, "both", Some(&json!({}))).is_ok());
        assert!(
            check_result(&schemas, "both", None).is_err(),
            "an output schema requires a structured result"
        );
    }

    #[test]
    fn schemas_beyond_the_memory_bound_of_a_plugin_are_not_checked() {
        let large = json!({"enum": vec![0; 100_000]});
        let tools: Vec<_> =
            (0..6).map(|n| json!({"name": format!("t{n}"), "inputSchema": large})).collect();
        let (schemas, tools) = compile(&json!(tools));
        assert_eq!(tools.definitions.len(), 6);
        assert!(check_arguments(&schemas, "t0", "{}").is_err());
        assert!(check_arguments(&schemas, "t5", "{}").is_ok());
        let unchecked = tools.unchecked.last().expect("they are too large together");
        insta::assert_snapshot!(unchecked, @r#"tool "t5": nothing can be checked against the inputSchema: with it, the plugin's compiled schemas take more than 67108864 bytes"#);
    }
}
