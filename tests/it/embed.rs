//! The gateway as a library: the example that embeds it, run as it is, and the tools of the embedding
//! program.

use std::{process::Stdio, sync::Arc, time::Instant};

use airlock::{
    Gateway, GatewayBuilder, GatewayError, NativeCall, NativeTool,
    config::Config,
    door::{
        Admitted, CallControl, Caller, ControlledCall, Event, Hearing, Origin, Progress, Refusal,
    },
    tool::{Annotations, CallError, Content, HostCode, ToolError, ToolOutput},
};
use airlock_tests::{BUDGET, Embedded, Setup, binary, wait};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::process::Command;

#[tokio::test]
async fn a_program_that_embeds_the_gateway_adds_a_tool_of_its_own() {
    let run = Command::new(binary("embedding-example"))
        .env("NO_PROXY", "*")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(wait::SOON, run).await.expect("it ends").expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: Value =
        serde_json::from_slice(&output.stdout).expect("it prints one JSON document");
    assert_eq!(answer["content"], "Hello, Ada!", "{answer:#}\n{said}");
}

/// Returns the tenant of the call, and reports progress before.
async fn describe(call: NativeCall) -> Result<ToolOutput, ToolError> {
    assert!(call.deadline() > Instant::now(), "there is time left");
    call.report_progress(Progress { done: 1.0, total: Some(2.0), message: None });
    Ok(ToolOutput::text(call.tenant().to_string()))
}

#[tokio::test]
async fn a_tool_of_the_program_knows_its_tenant_and_reports_progress() {
    let tool = NativeTool::new("describe", "Describes the call.", json!({}), describe)
        .output_schema(json!({"type": "object"}))
        .annotations(Annotations { read_only: Some(true), ..Annotations::default() });
    let build = |builder: GatewayBuilder| builder.register_tool(tool).expect("a tool");
    let embedded = Embedded::with(Setup::new(), |_| {}, build).await;
    let snapshot = embedded.gateway().catalog().snapshot();
    let client = snapshot.clients().next().expect("the program's own");
    assert_eq!(client.tools[0].annotations.read_only, Some(true));
    assert!(client.tools[0].output_schema.is_some());

    let view = embedded.holder("team").view().clone();
    let (caller, mut events) =
        Caller::with_events(view, Origin::Caller, BUDGET, Hearing::default());
    let call = caller.admit("internal-describe", "{}").expect("it may be called");
    let output = call.run().await.expect("it succeeds");
    let text = output.content.iter().find_map(Content::as_text).expect("a text");
    assert!(text.contains("team"), "{text}");
    let event = events.try_recv().expect("an event");
    assert!(
        matches!(&event, Event::Progress { progress, .. } if progress.total == Some(2.0)),
        "{event:?}"
    );
    embedded.stop().await;
}

/// Refuses every call.
struct Closed;

impl CallControl for Closed {
    fn begin<'c>(
        &'c self,
        _: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        Box::pin(async { Err(CallError::limit_reached("calls of the program", None)) })
    }

    fn refused(&self, _: &Refusal<'_>) {}
}

#[tokio::test]
async fn a_control_of_the_program_refuses_a_call_that_the_door_admits() {
    let tool = NativeTool::new("describe", "Describes the call.", json!({}), describe);
    let build = |builder: GatewayBuilder| {
        builder.register_tool(tool).expect("a tool").with_call_control(Arc::new(Closed))
    };
    let embedded = Embedded::with(Setup::new(), |_| {}, build).await;
    let call = embedded.holder("team").admit("internal-describe", "{}");
    let error = call.expect("the door admits it").run().await.expect_err("the control does not");
    assert_eq!(error.code(), HostCode::LimitReached);
    embedded.stop().await;
}

#[tokio::test]
async fn settings_that_the_server_refuses_are_an_error_of_the_configuration() {
    let mut config = Config::parse("{}", "embedded", &|_| None).expect("a configuration");
    config.server.max_connections = 0;
    let error = Gateway::builder(config).open().err().expect("it does not start");
    assert!(matches!(error, GatewayError::Configuration { .. }), "{error}");
}
