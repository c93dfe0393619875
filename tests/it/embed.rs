//! The gateway as a library: the examples that embed it, run as they are, the tools of the embedding
//! program, and the life of the gateway.

mod chats;
mod depths;
mod requests;
mod servers;
mod vaults;

use std::{process::Stdio, sync::Arc, time::Instant};

use airlock::{
    Gateway, GatewayBuilder, GatewayError, NativeTool, RequestError, ToolContext,
    config::Config,
    door::{
        Admitted, CallControl, Caller, CallerCapabilities, ControlledCall, Event, Origin, Progress,
        Refusal,
    },
    tool::{Annotations, CallError, Content, HostCode, ToolError, ToolOutput},
};
use airlock_tests::{
    BUDGET, Embedded, Setup, example_binary,
    mcp::{Endpoint, McpSession},
    wait,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, process::Command, sync::Notify, time::timeout};

/// Runs an example to its end, in a directory of its own, where its store is. Returns the lines that it prints.
async fn example(name: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let run = Command::new(example_binary(name))
        .current_dir(directory.path())
        .env("NO_PROXY", "*")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(wait::COMPILED, run).await.expect("it ends").expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    printed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_model_of_the_program_calls_a_tool_of_the_program() {
    let printed = example("embed").await;
    assert_eq!(printed.join("\n").trim_end(), "The weather in Oslo: celsius: -4\nsky: snow");
}

#[tokio::test]
async fn a_policy_of_the_program_requires_an_approval_and_refuses_a_call() {
    let printed = example("requests").await;
    let [tool, waits, done, refused] = &printed[..] else { panic!("{printed:#?}") };
    assert_eq!(tool, "internal-pay: Pays an amount.");
    assert_eq!(waits, r#"waits: internal-pay {"amount":20}"#);
    assert_eq!(done, "done: anonymous paid 20");
    assert!(refused.starts_with("airlock.policy_refused: "), "{refused}");
}

#[tokio::test]
async fn a_chat_is_shown_as_it_runs_and_its_call_is_billed_by_a_control_of_the_program() {
    let printed = example("events").await;
    let expected = [
        r#"calls internal-weather {"name":"Oslo"}"#,
        "internal-weather: snow in Oslo",
        "There is snow in Oslo",
        "billed: 1",
    ];
    assert_eq!(printed, expected);
}

#[tokio::test]
async fn the_gateway_is_a_service_of_another_http_server() {
    let printed = example("axum").await;
    let [program, gateway] = &printed[..] else { panic!("{printed:#?}") };
    assert_eq!(program, "Hello from the program!");
    let answer: Value = serde_json::from_str(gateway).expect("JSON");
    assert_eq!(answer["content"], "Hello from the gateway!", "{answer:#}");
}

/// Returns the tenant of the call, and reports progress before.
async fn describe(_: Map<String, Value>, context: ToolContext) -> Result<ToolOutput, ToolError> {
    assert!(context.deadline() > Instant::now(), "there is time left");
    context.report_progress(Progress { done: 1.0, total: Some(2.0), message: None });
    let tenant = context.tenant().to_string();
    Ok(ToolOutput { structured: Some(json!({"tenant": tenant})), ..ToolOutput::text(tenant) })
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
        Caller::with_events(view, Origin::Caller, BUDGET, CallerCapabilities::default());
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

/// Returns whether a session lists the tool `later` of the program.
async fn lists_later(session: &McpSession) -> bool {
    let listed = session.request("tools/list", json!({})).result().await;
    let mut tools = listed["tools"].as_array().expect("tools").iter();
    tools.any(|tool| tool["name"] == "internal-later")
}

#[tokio::test]
async fn mcp_clients_are_notified_of_tools_of_the_program_that_come_and_go() {
    let setup = Setup::new();
    let config = Config::load(&setup.write()).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let gateway = Gateway::builder(config).listener(listener).start().await.expect("it starts");
    let serving = tokio::spawn(gateway.serve());
    let session = Endpoint::at(&format!("http://{address}")).session().await;
    assert!(!lists_later(&session).await);
    let mut notifications = session.listen().stream().await;
    let later = NativeTool::new("later", "Comes later.", json!({}), describe);
    gateway.tools().register(later).await.expect("its name is free");
    let notified = notifications.next().await.expect("a notification");
    assert_eq!(notified["method"], "notifications/tools/list_changed", "{notified}");
    assert!(lists_later(&session).await);
    gateway.tools().remove("later").await.expect("it is there");
    let notified = notifications.next().await.expect("a notification");
    assert_eq!(notified["method"], "notifications/tools/list_changed", "{notified}");
    assert!(!lists_later(&session).await);
    drop(notifications);
    timeout(wait::SOON, gateway.stop()).await.expect("it stops");
    timeout(wait::SOON, serving).await.expect("it ends").expect("no panic").expect("no error");
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
async fn a_clone_stops_the_gateway_which_serves_once() {
    let setup = Setup::new();
    let config = Config::load(&setup.write()).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let gateway = Gateway::builder(config).listener(listener).start().await.expect("it starts");
    assert_eq!(gateway.local_addr(), Some(address));
    assert_eq!(gateway.bound_addr().await, address);
    let serving = tokio::spawn(gateway.serve());
    let client = airlock::tls::client().no_proxy().build().expect("a client");
    let health = client.get(format!("http://{address}/health")).send().await.expect("it serves");
    assert!(health.status().is_success(), "{}", health.status());
    let twice = gateway.serve().await.expect_err("it serves already");
    assert!(matches!(twice, GatewayError::Served), "{twice}");

    let other = gateway.clone();
    let request = gateway.request().open().expect("it takes requests");
    timeout(wait::SOON, other.stop()).await.expect("it stops");
    timeout(wait::SOON, serving).await.expect("it ends").expect("no panic").expect("no error");
    let refused = request.tools().await.expect_err("it has stopped");
    assert!(matches!(refused, RequestError::Stopped), "{refused}");
    gateway.stop().await;
}

/// A tool whose calls end once they are released.
#[derive(Default)]
struct HeldCalls {
    begun: Arc<Notify>,
    released: Arc<Notify>,
}

impl HeldCalls {
    fn tool(&self) -> NativeTool {
        let begun = self.begun.clone();
        let released = self.released.clone();
        NativeTool::new("held", "Ends once it is released.", json!({}), move |_, _| {
            let begun = begun.clone();
            let released = released.clone();
            async move {
                begun.notify_one();
                released.notified().await;
                Ok(ToolOutput::text("released"))
            }
        })
    }

    /// Waits until a call has begun.
    async fn begin(&self) {
        timeout(wait::SOON, self.begun.notified()).await.expect("it is called");
    }
}

#[tokio::test]
async fn a_second_stop_waits_for_the_requests_in_flight_as_the_first_one_does() {
    let held = HeldCalls::default();
    let setup = Setup::new();
    let config = Config::load(&setup.write()).expect("a configuration");
    let builder = Gateway::builder(config).register_tool(held.tool()).expect("a tool");
    let gateway = builder.start().await.expect("it starts");
    let request = gateway.request().approving().open().expect("it takes requests");
    let call = tokio::spawn(async move { request.call("internal-held", json!({})).await });
    held.begin().await;
    let other = gateway.clone();
    let mut first = Box::pin(gateway.stop());
    let mut second = Box::pin(other.stop());
    assert!(first.as_mut().now_or_never().is_none(), "a request is in flight");
    assert!(second.as_mut().now_or_never().is_none(), "it waits for the same");
    held.released.notify_one();
    let both = async { tokio::join!(first, second) };
    timeout(wait::SOON, both).await.expect("both end");
    let reply = call.await.expect("no panic").expect("it is not cut off");
    assert_eq!(reply.into_output().expect("a result").to_text(), "released");
    timeout(wait::SOON, gateway.stop()).await.expect("it has stopped");
}

#[tokio::test]
async fn dropping_the_future_that_serves_ends_the_requests_on_its_sockets_at_once() {
    let held = HeldCalls::default();
    let setup = Setup::new();
    let config = Config::load(&setup.write()).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let builder = Gateway::builder(config).listener(listener);
    let builder = builder.register_tool(held.tool()).expect("a tool");
    let gateway = builder.start().await.expect("it starts");
    let serving = tokio::spawn(gateway.serve());
    let client = airlock::tls::client().no_proxy().build().expect("a client");
    let body = json!({"function": {"name": "internal-held", "arguments": "{}"}});
    let request = client.post(format!("http://{address}/v1/mcp/tool/execute"));
    let request = request.header("Content-Type", "application/json").body(body.to_string());
    let response = tokio::spawn(request.send());
    held.begin().await;
    serving.abort();
    let ended = timeout(wait::SOON, response).await.expect("it does not wait for the call");
    assert!(ended.expect("no panic").is_err(), "the connection is closed without a response");
    timeout(wait::SOON, gateway.stop()).await.expect("it stops");
}

#[tokio::test]
async fn settings_that_the_server_refuses_are_an_error_of_the_configuration() {
    let setup = Setup::new();
    let mut config = Config::load(&setup.write()).expect("a configuration");
    config.server.max_connections = 0;
    let error = Gateway::builder(config).open().map(drop).expect_err("it does not start");
    assert!(matches!(error, GatewayError::Configuration { .. }), "{error}");
}

#[tokio::test]
async fn a_listener_of_the_program_that_other_machines_reach_needs_virtual_keys() {
    let setup = Setup::new();
    let config = Config::load(&setup.write()).expect("a configuration");
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let opened = Gateway::builder(config).listener(listener).open();
    let error = opened.map(drop).expect_err("everyone could call every tool");
    assert!(matches!(error, GatewayError::Configuration { .. }), "{error}");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains("require_virtual_key"), "{cause}");
}

#[tokio::test]
async fn a_program_may_wait_for_its_sources_without_a_limit() {
    let embedded = Embedded::with(Setup::new(), |_| {}, |builder| builder).await;
    let settled = embedded.gateway().settled(std::time::Duration::MAX, |_| true);
    timeout(wait::SOON, settled).await.expect("there are no sources");
    embedded.stop().await;
}

/// Returns a tool that holds a value as long as the gateway keeps its body.
fn holder(held: &Arc<()>) -> NativeTool {
    let held = held.clone();
    NativeTool::new("holder", "Holds a value.", json!({}), move |_, _| {
        let held = held.clone();
        async move { Ok(ToolOutput::text(Arc::strong_count(&held).to_string())) }
    })
}

#[tokio::test]
async fn a_gateway_that_is_stopped_or_dropped_keeps_nothing_of_the_program() {
    for is_stopped in [true, false] {
        let held = Arc::new(());
        let setup = Setup::new();
        let config = Config::load(&setup.write()).expect("a configuration");
        let builder = Gateway::builder(config).register_tool(holder(&held)).expect("a tool");
        let gateway = builder.start().await.expect("it starts");
        gateway.watch_plugins();
        let request = gateway.request().as_operator().open().expect("it takes requests");
        assert!(!request.tools().await.expect("it lists them").is_empty());
        drop(request);
        if is_stopped {
            timeout(wait::SOON, gateway.stop()).await.expect("it stops");
        }
        drop(gateway);
        // A task that is cancelled is dropped by its thread.
        wait::until("the tool to be dropped", async || {
            (Arc::strong_count(&held) == 1).then_some(())
        })
        .await;
    }
}
