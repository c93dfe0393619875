//! Checks the arguments of calls, and the structured results of MCP servers, against the schemas of
//! the tools.
//!
//! The schemas are compiled once, when the tools are published. A schema that cannot be compiled, or
//! for which no check is bounded, is reported to the operator, and values pass unchecked: the
//! source's tools stay usable.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::report_unchecked;
use airlock_core::{
    door::{Admitted, Mailbox, Provider, Relay, RelayError, Subscription},
    tenant::Tenant,
    threads,
    tool::{Answers, CallError, ClientName, Tool, ToolName, ToolOutput},
};
use airlock_json::{
    JsonText,
    schema::{BadSchema, CompileWork, CompiledSchema, Problem, Violations},
};

/// Maximum memory of the compiled schemas of one source, in bytes: enough for thousands of ordinary
/// ones.
const MAX_BYTES: usize = 64 << 20;
/// Maximum work of compiling the schemas of one kind in one list, usable or not, in documents that
/// take as much as a document may: about half a second, or two seconds for patterns made for it.
const MAX_DOCUMENTS: u64 = 5;
/// Maximum number of reasons that are kept for operators.
const MAX_REASONS: usize = 100;
/// Largest list that is compiled in a turn of [`QUICK_COMPILER`], in bytes of its schemas.
const QUICK_BYTES: usize = 1 << 20;
/// Held while the schemas of a list are compiled: servers take turns, so that all of them together
/// take one CPU, and the memory of one compiler.
static COMPILER: Mutex<()> = Mutex::new(());
/// Held while a list is compiled as far as a little work goes, which is enough for ordinary ones: they
/// do not wait for servers whose lists take seconds.
static QUICK_COMPILER: Mutex<()> = Mutex::new(());

/// A provider whose arguments and results are checked.
struct Checked {
    provider: Arc<dyn Provider>,
    schemas: Schemas,
}

/// Compiled schemas of a list of tools.
#[derive(Default)]
struct Schemas {
    input: HashMap<ToolName, Arc<CompiledSchema>>,
    output: HashMap<ToolName, Arc<CompiledSchema>>,
    bytes: usize,
    /// Reasons for the schemas that are left out.
    unchecked: Vec<String>,
}

/// Values of a source that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// None: the provider checks its values itself.
    Nothing,
    /// The arguments of calls.
    Arguments,
    /// The arguments of calls and structured results.
    ArgumentsAndResults,
}

/// Reason that values are not checked against a schema.
#[derive(Debug, thiserror::Error)]
enum Unchecked {
    #[error(transparent)]
    Bad(#[from] BadSchema),
    #[error(
        "nothing can be checked against the {0}: with it, the source's compiled schemas take more than {MAX_BYTES} bytes"
    )]
    TooMany(&'static str),
}

/// Returns a provider that checks values of the tools. Reports the schemas that cannot be checked. Blocks
/// while the schemas are compiled.
pub(super) fn values(
    checks: Checks,
    client: &ClientName,
    tools: &[Arc<Tool>],
    provider: Arc<dyn Provider>,
) -> Arc<dyn Provider> {
    if checks == Checks::Nothing {
        return provider;
    }
    let schemas = Schemas::compile(checks, tools);
    report_unchecked(client, &schemas.unchecked);
    Arc::new(Checked { provider, schemas })
}

impl Schemas {
    /// Compiles the output schemas before the input schemas, so that a list with large ones loses the
    /// checks of arguments, which its server checks itself.
    fn compile(checks: Checks, tools: &[Arc<Tool>]) -> Self {
        // The locks guard no data.
        let quick = {
            let _turn = QUICK_COMPILER.lock();
            Self::compile_quickly(checks, tools)
        };
        quick.unwrap_or_else(|| {
            let _turn = COMPILER.lock();
            let mut schemas = Self::default();
            let compiled = schemas.compile_lists(
                checks,
                tools,
                || CompileWork::of_documents(MAX_DOCUMENTS),
                |_| false,
            );
            compiled.expect("no problem ends it");
            schemas
        })
    }

    /// Compiles a list if it takes little work; `None` if it takes more.
    fn compile_quickly(checks: Checks, tools: &[Arc<Tool>]) -> Option<Self> {
        if tools.iter().map(|tool| schema_bytes(tool)).sum::<usize>() > QUICK_BYTES {
            return None;
        }
        let mut schemas = Self::default();
        schemas.compile_lists(checks, tools, CompileWork::quick, is_spent)?;
        Some(schemas)
    }

    /// Compiles the schemas, those of each kind with some `work`. `None` at the first problem that
    /// `ends` it.
    fn compile_lists(
        &mut self,
        checks: Checks,
        tools: &[Arc<Tool>],
        work: fn() -> CompileWork,
        ends: fn(&Unchecked) -> bool,
    ) -> Option<()> {
        if checks == Checks::ArgumentsAndResults {
            let declared =
                tools.iter().filter_map(|tool| Some((tool, tool.output_schema.as_ref()?)));
            self.output = self.compile_all("outputSchema", declared, work(), ends)?;
        }
        let declared = tools.iter().map(|tool| (tool, &tool.input_schema));
        self.input = self.compile_all("inputSchema", declared, work(), ends)?;
        Some(())
    }

    fn compile_all<'t>(
        &mut self,
        which: &'static str,
        declared: impl Iterator<Item = (&'t Arc<Tool>, &'t JsonText)>,
        mut work: CompileWork,
        ends: fn(&Unchecked) -> bool,
    ) -> Option<HashMap<ToolName, Arc<CompiledSchema>>> {
        let mut compiled = HashMap::new();
        for (tool, schema) in declared {
            match self.compile_one(which, schema, &mut work) {
                Ok(schema) => {
                    compiled.insert(tool.full_name.clone(), Arc::new(schema));
                }
                Err(reason) if ends(&reason) => return None,
                Err(reason) => self.unchecked.push(format!("tool {:?}: {reason}", tool.original)),
            }
        }
        Some(compiled)
    }

    fn compile_one(
        &mut self,
        which: &'static str,
        schema: &JsonText,
        work: &mut CompileWork,
    ) -> Result<CompiledSchema, Unchecked> {
        let compiled = CompiledSchema::compile_text_within(which, schema, work)?;
        let bytes = self.bytes.saturating_add(compiled.bytes());
        if bytes > MAX_BYTES {
            return Err(Unchecked::TooMany(which));
        }
        self.bytes = bytes;
        Ok(compiled)
    }
}

fn schema_bytes(tool: &Tool) -> usize {
    let output = tool.output_schema.as_ref().map_or(0, |schema| schema.as_str().len());
    tool.input_schema.as_str().len() + output
}

fn is_spent(reason: &Unchecked) -> bool {
    matches!(reason, Unchecked::Bad(BadSchema { problem: Problem::TooMuchWork, .. }))
}

impl Checked {
    async fn check_arguments(&self, call: &Admitted) -> Result<(), CallError> {
        let Some(schema) = self.schemas.input.get(&call.tool().full_name) else { return Ok(()) };
        let tenant = call.chain().tenant();
        let checked = threads::check_arguments(tenant, schema, call.arguments(), check_members);
        checked.await.map_err(|violations| {
            CallError::invalid_arguments(call.tool().name.clone(), &violations)
        })
    }

    async fn check_result(
        &self,
        tool: &ToolName,
        tenant: &Tenant,
        mut output: ToolOutput,
    ) -> Result<ToolOutput, CallError> {
        let Some(schema) = self.schemas.output.get(tool) else { return Ok(output) };
        threads::check_result(tenant, tool, Some(schema), &mut output).await?;
        Ok(output)
    }
}

/// Checks arguments. A `null` may stand for an absent one: clients send it for an argument that they do
/// not use, and the server receives it unchanged.
fn check_members(schema: &CompiledSchema, mut members: Value) -> Result<(), Violations> {
    let Err(violations) = schema.check(&members) else { return Ok(()) };
    if let Some(members) = members.as_object_mut() {
        let all = members.len();
        members.retain(|_, value| !value.is_null());
        if members.len() == all {
            return Err(violations);
        }
    }
    schema.check(&members).map_err(|_| violations)
}

impl Provider for Checked {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            // Names on the wire change with those of other clients; this one does not.
            let tool = call.tool().full_name.clone();
            let tenant = call.chain().tenant().clone();
            self.check_arguments(&call).await?;
            let output = self.provider.call(call).await?;
            self.check_result(&tool, &tenant, output).await
        })
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let tool = call.tool().full_name.clone();
            let tenant = call.chain().tenant().clone();
            // The arguments are those of the call that asked, which were checked.
            let output = self.provider.resume(call, answers).await?;
            self.check_result(&tool, &tenant, output).await
        })
    }

    fn forget(&self, token: &str) {
        self.provider.forget(token);
    }

    fn relay(&self, relay: Relay) -> BoxFuture<'_, Result<String, RelayError>> {
        self.provider.relay(relay)
    }

    fn subscribe(
        &self,
        relay: Relay,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        self.provider.subscribe(relay, mailbox, label)
    }

    fn status(&self) -> Map<String, Value> {
        let mut status = self.provider.status();
        if !self.schemas.unchecked.is_empty() {
            let reasons = self.schemas.unchecked.iter().take(MAX_REASONS);
            status.insert("unchecked".to_owned(), reasons.cloned().collect());
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::Catalog;
    use airlock_core::{
        door::{Budget, Caller, Filter, Origin},
        threads::INLINE_BYTES,
        tool::{ErrorKind, Policy, ToolError, Whitelist},
    };

    /// Returns the member `returns` of the arguments as structured data, or an error without it.
    struct Returns;
    impl Provider for Returns {
        fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async move {
                match call.arguments().to_object().get("returns").cloned() {
                    Some(structured) => Ok(ToolOutput {
                        structured: Some(structured).filter(|structured| !structured.is_null()),
                        ..ToolOutput::text("text")
                    }),
                    None => Err(CallError::from(ToolError {
                        details: Some(json!(7)),
                        ..ToolError::new(ErrorKind::Internal, "it failed")
                    })),
                }
            })
        }
    }

    async fn caller(connection_type: &'static str) -> Caller {
        let endless = json!({"anyOf": [{"$ref": "#"}]});
        let slow = json!({"type": "object", "properties": {
            "returns": {}, "text": {"type": "string", "pattern": "^[01]*1[01]{350}[a-y]"}}});
        let tools = json!([
            {"name": "rows", "inputSchema": {}, "outputSchema":
                {"type": "object", "properties": {"rows": {"items": {"type": "string"}}}}},
            {"name": "endless", "inputSchema": {}, "outputSchema": endless},
            {"name": "broken", "inputSchema": {}, "outputSchema": {"type": "text"}},
            {"name": "plain", "inputSchema": {}},
            {"name": "strict", "inputSchema": {"type": "object", "required": ["returns"],
                "properties": {"returns": {"type": "string"}}}},
            {"name": "odd", "inputSchema": endless},
            {"name": "slow", "outputSchema": slow.clone(), "inputSchema": slow},
        ]);
        let name = ClientName::parse("db").expect("a good name");
        let catalog = Catalog::new();
        let policy = Policy { execute: Whitelist::All, ..Policy::default() };
        catalog.add_client(&name, connection_type, policy);
        let tools = serde_json::from_value(tools).expect("definitions");
        assert_eq!(catalog.publish(&name, tools, Arc::new(Returns)).await, [""; 0]);
        let budget = Budget {
            deadline: std::time::Duration::from_secs(30),
            script: std::time::Duration::from_secs(30),
            nested_calls: 0,
            depth: 1,
            in_flight: 1,
        };
        let view = catalog.snapshot().view(&Filter::none(), None);
        Caller::new(view, Origin::Caller, budget)
    }

    async fn call(caller: &Caller, tool: &str, arguments: &Value) -> Result<String, CallError> {
        let admitted = caller.admit(&format!("db-{tool}"), &arguments.to_string())?;
        admitted.run().await.map(|output| output.to_text())
    }

    #[tokio::test]
    async fn a_result_that_does_not_fit_the_output_schema_of_a_server_fails_with_its_own_code() {
        let caller = caller("stdio").await;
        let fits = call(&caller, "rows", &json!({"returns": {"rows": ["a"]}})).await;
        assert_eq!(fits.expect("it fits"), "text");
        let refused = call(&caller, "rows", &json!({"returns": {"rows": ["a", 7]}})).await;
        let refused = refused.expect_err("not a text");
        assert_eq!(refused.code(), "invalid_result");
        insta::assert_snapshot!(refused, @"the result of tool db-rows does not fit its output schema at rows[1]");
        let missing = call(&caller, "rows", &json!({"returns": null})).await;
        assert_eq!(missing.expect_err("nothing").code(), "invalid_result");
    }

    #[tokio::test]
    async fn arguments_that_do_not_fit_the_input_schema_never_reach_a_server_or_an_embedded_tool() {
        for connection_type in ["stdio", "http", "internal"] {
            let caller = caller(connection_type).await;
            let fits = call(&caller, "strict", &json!({"returns": "x"})).await;
            assert_eq!(fits.expect("it fits"), "text");
            let refused = call(&caller, "strict", &json!({"returns": 7})).await;
            let refused = refused.expect_err("not a text");
            assert_eq!(refused.code(), "bad_arguments");
            assert!(refused.to_string().contains("returns"), "{refused}");
            let missing = call(&caller, "strict", &json!({})).await.expect_err("nothing");
            assert_eq!(missing.code(), "bad_arguments", "the tool itself would fail otherwise");
        }
        let plugin = caller("wasm").await;
        assert!(call(&plugin, "strict", &json!({"returns": 7})).await.is_ok(), "it checks itself");
    }

    #[tokio::test]
    async fn a_null_may_stand_for_an_argument_that_may_be_absent() {
        let caller = caller("stdio").await;
        let optional = call(&caller, "slow", &json!({"returns": {}, "text": null})).await;
        assert_eq!(optional.expect("`text` may be absent"), "text");
        let nested = call(&caller, "slow", &json!({"returns": {"text": null}})).await;
        assert_eq!(nested.expect_err("a result").code(), "invalid_result");
        let required = call(&caller, "strict", &json!({"returns": null})).await;
        assert_eq!(required.expect_err("`returns` is required").code(), "bad_arguments");
    }

    #[tokio::test]
    async fn arguments_pass_if_their_schema_cannot_be_checked_and_the_state_says_so() {
        let caller = caller("stdio").await;
        assert!(call(&caller, "odd", &json!({"returns": 7})).await.is_ok());
        let client = ClientName::parse("db").expect("a good name");
        let tool = json!({"name": "odd", "inputSchema": {"anyOf": [{"$ref": "#"}]}});
        let tool = Tool::adopt(&client, serde_json::from_value(tool).expect("a definition"));
        let tools = [Arc::new(tool.expect("a good tool"))];
        let reported = values(Checks::Arguments, &client, &tools, Arc::new(Returns)).status();
        let reason = reported["unchecked"][0].as_str().expect("a reason");
        assert!(
            reason.starts_with(r#"tool "odd": nothing can be checked against the inputSchema"#)
        );
        let reported = values(Checks::Arguments, &client, &[], Arc::new(Returns)).status();
        assert!(reported.is_empty());
    }

    #[test]
    fn a_check_that_takes_long_does_not_run_on_a_worker() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().expect("a runtime");
        runtime.block_on(async {
            let caller = caller("stdio").await;
            for (bytes, is_here) in [(2, true), (6_000, false)] {
                let misfit = json!({"text": "01".repeat(bytes / 2)});
                for (arguments, code) in [
                    (misfit.clone(), "bad_arguments"),
                    (json!({"returns": misfit}), "invalid_result"),
                ] {
                    // Occupies the only blocking thread.
                    let (release, released) = std::sync::mpsc::channel::<()>();
                    let held = tokio::task::spawn_blocking(move || released.recv().is_err());
                    let mut checked = Box::pin(call(&caller, "slow", &arguments));
                    let at_once = checked.as_mut().now_or_never();
                    drop(release);
                    assert!(held.await.expect("no panic"), "it was released");
                    assert_eq!(at_once.is_some(), is_here, "{code} with {bytes} bytes");
                    let checked = if let Some(done) = at_once { done } else { checked.await };
                    assert_eq!(checked.expect_err("it has no letter").code(), code);
                }
            }
            let long = json!({"returns": {"text": "1".repeat(1_000) + "a"}});
            assert_eq!(call(&caller, "slow", &long).await.expect("it fits"), "text");
        });
    }

    #[tokio::test]
    async fn no_tree_of_long_arguments_is_built_before_there_is_a_thread() {
        let caller = caller("stdio").await;
        let held = threads::occupy(caller.view().tenant()).await;
        let arguments = json!({"returns": "x".repeat(INLINE_BYTES)}).to_string();
        let admitted = caller.admit("db-strict", &arguments).expect("it needs no approval");
        let mut running = Box::pin(admitted.run());
        assert!(running.as_mut().now_or_never().is_none(), "the check would be quick");
        drop(held);
        assert_eq!(running.await.expect("it fits").to_text(), "text");
    }

    #[tokio::test]
    async fn a_failure_is_not_checked() {
        let caller = caller("http").await;
        let failed = call(&caller, "rows", &json!({})).await.expect_err("it failed");
        assert_eq!((failed.code(), failed.to_string().as_str()), ("tool_error", "it failed"));
    }

    #[tokio::test]
    async fn results_pass_if_there_is_no_schema_that_can_be_checked_or_no_server() {
        let servers = caller("stdio").await;
        for tool in ["endless", "broken", "plain"] {
            assert!(call(&servers, tool, &json!({"returns": {"rows": 7}})).await.is_ok(), "{tool}");
        }
        let plugin = caller("wasm").await;
        assert!(call(&plugin, "rows", &json!({"returns": {"rows": 7}})).await.is_ok());
    }

    #[test]
    fn a_list_with_little_work_does_not_wait_for_one_with_much() {
        let ordinary = list(&vec![json!({"properties": {"a": {"type": "string"}}}); 100]);
        let properties = (0..4_000).map(|n| (n.to_string(), json!({"type": "string"})));
        let properties = json!({"properties": properties.collect::<Map<_, _>>()});
        let large = list(&[properties.clone(), properties]);
        let long = list(&vec![json!({"description": "x".repeat(QUICK_BYTES / 5)}); 5]);
        assert!(Schemas::compile_quickly(Checks::Arguments, &large).is_none());
        assert!(Schemas::compile_quickly(Checks::Arguments, &long).is_none());
        assert_eq!(Schemas::compile(Checks::Arguments, &large).input.len(), 2);
        // It would wait for ever if it needed this turn.
        let _turn = COMPILER.lock();
        assert_eq!(Schemas::compile(Checks::Arguments, &ordinary).input.len(), 100);
    }

    /// Returns tools with these input schemas.
    fn list(schemas: &[Value]) -> Vec<Arc<Tool>> {
        let tools = schemas.iter().enumerate();
        tools
            .map(|(n, schema)| adopted(json!({"name": format!("t{n}"), "inputSchema": schema})))
            .collect()
    }

    fn adopted(tool: Value) -> Arc<Tool> {
        let client = ClientName::parse("db").expect("a good name");
        let tool = serde_json::from_value(tool).expect("a definition");
        Arc::new(Tool::adopt(&client, tool).expect("a good tool"))
    }

    #[test]
    fn schemas_that_cannot_be_checked_are_reported_and_the_memory_is_bounded() {
        let large = json!({"enum": vec![0; 100_000]});
        let tools = (0..6)
            .map(|n| json!({"name": format!("t{n}"), "inputSchema": {}, "outputSchema": large}));
        let tools = tools
            .chain([json!({"name": "z", "inputSchema": {}, "outputSchema": {"type": "text"}})]);
        let tools: Vec<_> = tools.map(adopted).collect();
        let Schemas { output, unchecked, .. } =
            Schemas::compile(Checks::ArgumentsAndResults, &tools);
        assert_eq!((output.len(), unchecked.len()), (4, 3), "{unchecked:?}");
        insta::assert_snapshot!(unchecked[0], @r#"tool "t4": nothing can be checked against the outputSchema: with it, the source's compiled schemas take more than 67108864 bytes"#);
        assert!(unchecked[2].contains("invalid outputSchema"), "{}", unchecked[2]);
    }

    #[test]
    fn schemas_made_to_be_expensive_use_up_the_work_of_their_list_alone() {
        let Schemas { input, output, unchecked, .. } =
            compiled_patterns(&format!("(?i){}", r"\x80".repeat(10)));
        assert_eq!((input.len(), output.len()), (200, 6));
        assert_eq!(output.len() + unchecked.len(), 200);
        insta::assert_snapshot!(unchecked[193], @r#"tool "t199": nothing can be checked against the outputSchema: #: its patterns and "unevaluated" keywords take too much work to compile"#);
        assert_eq!(compiled_patterns(r"^[a-z]{2,20}\d\d$").unchecked, [""; 0]);
    }

    /// Compiles the schemas of 200 tools whose results have patterns that begin like this.
    fn compiled_patterns(pattern: &str) -> Schemas {
        let tools = (0..200).map(|n| json!({"name": format!("t{n:03}"), "inputSchema": {}, "outputSchema": {"pattern": format!("{pattern}{n}")}}));
        Schemas::compile(Checks::ArgumentsAndResults, &tools.map(adopted).collect::<Vec<_>>())
    }
}
