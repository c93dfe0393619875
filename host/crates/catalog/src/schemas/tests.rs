use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, json};

use super::*;
use crate::SourceKind;
use crate::{Catalog, published::Published};
use airlock_core::{
    door::{Budget, Caller, Filter, Origin, Provider},
    threads::INLINE_BYTES,
    tool::{Allowlist, ClientName, ErrorKind, HostCode, Policy, ToolError},
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

/// Returns the tree that a check has built of the arguments, as text, or `none`.
struct Takes;
impl Provider for Takes {
    fn call(&self, mut call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let tree = call.take_members().map(|members| Value::from(members).to_string());
            Ok(ToolOutput::text(tree.unwrap_or_else(|| "none".to_owned())))
        })
    }
}

async fn caller(kind: SourceKind) -> Caller {
    caller_of(kind, Arc::new(Returns)).await
}

async fn caller_of(kind: SourceKind, provider: Arc<dyn Provider>) -> Caller {
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
    let policy = Policy { execute: Allowlist::All, ..Policy::default() };
    catalog.add_client(&name, kind, policy);
    let tools = serde_json::from_value(tools).expect("definitions");
    assert_eq!(catalog.publish(&name, tools, provider).await, [""; 0]);
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
    let caller = caller(SourceKind::Server("stdio")).await;
    let fits = call(&caller, "rows", &json!({"returns": {"rows": ["a"]}})).await;
    assert_eq!(fits.expect("it fits"), "text");
    let refused = call(&caller, "rows", &json!({"returns": {"rows": ["a", 7]}})).await;
    let refused = refused.expect_err("not a text");
    assert_eq!(refused.code(), HostCode::InvalidResult);
    insta::assert_snapshot!(refused, @"the result of tool db-rows does not fit its output schema at rows[1]");
    let missing = call(&caller, "rows", &json!({"returns": null})).await;
    assert_eq!(missing.expect_err("nothing").code(), HostCode::InvalidResult);
}

#[tokio::test]
async fn a_result_of_an_embedded_tool_is_checked_like_that_of_a_server() {
    let caller = caller(SourceKind::Internal).await;
    let fits = call(&caller, "rows", &json!({"returns": {"rows": ["a"]}})).await;
    assert_eq!(fits.expect("it fits"), "text");
    for returned in [json!({"rows": [7]}), Value::Null] {
        let refused = call(&caller, "rows", &json!({"returns": returned})).await;
        assert_eq!(refused.expect_err("it does not fit").code(), HostCode::InvalidResult);
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_the_input_schema_never_reach_a_server_or_an_embedded_tool() {
    for kind in [SourceKind::Server("http"), SourceKind::Internal] {
        let caller = caller(kind).await;
        let fits = call(&caller, "strict", &json!({"returns": "x"})).await;
        assert_eq!(fits.expect("it fits"), "text");
        let refused = call(&caller, "strict", &json!({"returns": 7})).await;
        let refused = refused.expect_err("not a text");
        assert_eq!(refused.code(), HostCode::BadArguments);
        assert!(refused.to_string().contains("returns"), "{refused}");
        let missing = call(&caller, "strict", &json!({})).await.expect_err("nothing");
        assert_eq!(missing.code(), HostCode::BadArguments, "the tool itself would fail otherwise");
    }
    let plugin = caller(SourceKind::Plugin).await;
    assert!(call(&plugin, "strict", &json!({"returns": 7})).await.is_ok(), "it checks itself");
}

#[tokio::test]
async fn a_function_of_the_program_gets_the_tree_that_the_check_of_short_arguments_has_built() {
    let internal = caller_of(SourceKind::Internal, Arc::new(Takes)).await;
    let short = json!({"returns": "x"});
    let taken = call(&internal, "strict", &short).await.expect("it fits");
    assert_eq!(taken, short.to_string());
    let long = json!({"returns": "x".repeat(INLINE_BYTES)});
    assert_eq!(call(&internal, "strict", &long).await.expect("it fits"), "none");
    let server = caller_of(SourceKind::Server("stdio"), Arc::new(Takes)).await;
    assert_eq!(call(&server, "strict", &short).await.expect("it fits"), "none");
}

#[tokio::test]
async fn a_null_may_stand_for_an_argument_that_may_be_absent() {
    let caller = caller(SourceKind::Server("stdio")).await;
    let optional = call(&caller, "slow", &json!({"returns": {}, "text": null})).await;
    assert_eq!(optional.expect("`text` may be absent"), "text");
    let nested = call(&caller, "slow", &json!({"returns": {"text": null}})).await;
    assert_eq!(nested.expect_err("a result").code(), HostCode::InvalidResult);
    let required = call(&caller, "strict", &json!({"returns": null})).await;
    assert_eq!(required.expect_err("`returns` is required").code(), HostCode::BadArguments);
}

#[tokio::test]
async fn arguments_pass_if_their_schema_cannot_be_checked_and_the_state_says_so() {
    let caller = caller(SourceKind::Server("stdio")).await;
    assert!(call(&caller, "odd", &json!({"returns": 7})).await.is_ok());
    let reported = status(&list(&[json!({"anyOf": [{"$ref": "#"}]})]));
    let reason = reported["unchecked"][0].as_str().expect("a reason");
    assert!(reason.starts_with(r#"tool "t0": nothing can be checked against the inputSchema"#));
    assert!(status(&[]).is_empty());
}

/// Returns the status of a source with these tools.
fn status(tools: &[Arc<Tool>]) -> Map<String, Value> {
    let schemas = Schemas::compile(Checks::ArgumentsAndResults, tools);
    let provider = Arc::new(Returns);
    let schemas = schemas.into();
    Published {
        provider,
        tools: tools.into(),
        schemas,
        observer: None,
        cache: None,
        fallbacks: Arc::default(),
        is_internal: false,
    }
    .status()
}

#[test]
fn a_check_that_takes_long_does_not_run_on_a_worker() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        let caller = caller(SourceKind::Server("stdio")).await;
        for (bytes, is_here) in [(2, true), (6_000, false)] {
            let misfit = json!({"text": "01".repeat(bytes / 2)});
            for (arguments, code) in [
                (misfit.clone(), HostCode::BadArguments),
                (json!({"returns": misfit}), HostCode::InvalidResult),
            ] {
                // Occupies the only blocking thread.
                let (release, released) = std::sync::mpsc::channel::<()>();
                let held = tokio::task::spawn_blocking(move || released.recv().is_err());
                let mut checked = Box::pin(call(&caller, "slow", &arguments));
                let at_once = checked.as_mut().now_or_never();
                drop(release);
                assert!(held.await.expect("no panic"), "it was released");
                assert_eq!(at_once.is_some(), is_here, "{code:?} with {bytes} bytes");
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
    let caller = caller(SourceKind::Server("stdio")).await;
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
    let caller = caller(SourceKind::Server("http")).await;
    let failed = call(&caller, "rows", &json!({})).await.expect_err("it failed");
    assert_eq!((failed.code(), failed.to_string().as_str()), (HostCode::ToolError, "it failed"));
}

#[tokio::test]
async fn results_pass_if_there_is_no_schema_that_can_be_checked_or_no_server() {
    let servers = caller(SourceKind::Server("stdio")).await;
    for tool in ["endless", "broken", "plain"] {
        assert!(call(&servers, tool, &json!({"returns": {"rows": 7}})).await.is_ok(), "{tool}");
    }
    let plugin = caller(SourceKind::Plugin).await;
    assert!(call(&plugin, "rows", &json!({"returns": {"rows": 7}})).await.is_ok());
}

#[test]
fn a_list_with_little_work_does_not_wait_for_one_with_much() {
    let ordinary = list(&vec![json!({"properties": {"a": {"type": "string"}}}); 100]);
    let properties = (0..4_000).map(|n| (n.to_string(), json!({"type": "string"})));
    let properties = json!({"properties": properties.collect::<Map<_, _>>()});
    let large = list(&[properties.clone(), properties]);
    let long = list(&vec![json!({"description": "x".repeat(QUICK_BYTES / 5)}); 5]);
    let quick = Schemas::compile_within(Checks::ArgumentsAndResults, &large, CompileWork::quick);
    assert!(quick.is_out_of_work);
    assert_eq!(Schemas::compile(Checks::ArgumentsAndResults, &large).input.len(), 2);
    // Each would wait for ever if it needed the other's turn.
    let turn = QUICK_COMPILER.lock();
    assert_eq!(Schemas::compile(Checks::ArgumentsAndResults, &long).input.len(), 5);
    drop(turn);
    let _turn = COMPILER.lock();
    assert_eq!(Schemas::compile(Checks::ArgumentsAndResults, &ordinary).input.len(), 100);
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
    let tools =
        (0..6).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}, "outputSchema": large}));
    let tools =
        tools.chain([json!({"name": "z", "inputSchema": {}, "outputSchema": {"type": "text"}})]);
    let tools: Vec<_> = tools.map(adopted).collect();
    let Schemas { output, unchecked, .. } = Schemas::compile(Checks::ArgumentsAndResults, &tools);
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
