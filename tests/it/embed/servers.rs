//! MCP servers of the embedding program: governed, supervised, and named like other clients.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use airlock::{
    BadServer, CallReply, ConnectFailure, Gateway, GatewayBuilder, ProgramServer, RequestError,
    ServerStream, ServerTransport,
    config::Config,
    tool::{Allowlist, Policy},
};
use airlock_tests::{Embedded, Setup, wait};
use futures_util::future::BoxFuture;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Map, json};
use tokio::sync::Notify;

use super::example;

/// A way to a server in the process, with what the test sees of it.
#[derive(Default)]
struct Way {
    connections: AtomicUsize,
    /// Attempts to connect that panic before one succeeds.
    panics: AtomicUsize,
    /// Ends the present connection.
    hang_up: Notify,
}

/// The transport over a [`Way`].
struct InProcess(Arc<Way>);

impl ServerTransport for InProcess {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>> {
        Box::pin(async {
            let panics = self
                .0
                .panics
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            assert!(panics.is_err(), "on purpose");
            self.0.connections.fetch_add(1, Ordering::SeqCst);
            let (stream, other_end) = tokio::io::duplex(64 << 10);
            let way = self.0.clone();
            tokio::spawn(async move {
                let Ok(serving) = Greeter.serve(other_end).await else { return };
                tokio::select! {
                    _ = serving.waiting() => {}
                    () = way.hang_up.notified() => {}
                }
            });
            Ok(Box::new(stream) as Box<dyn ServerStream>)
        })
    }
}

struct Greeter;

impl ServerHandler for Greeter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("greet", "Greets.", schema)]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("hello")]).into())
    }
}

/// Starts a gateway with the server `greeter`, whose tools the program may call without an approval or not.
async fn greeting(setup: Setup, way: &Arc<Way>, auto_execute: Allowlist) -> Embedded {
    let policy = Policy { execute: Allowlist::All, auto_execute, ..Policy::default() };
    let server = ProgramServer { policy, ..ProgramServer::from(InProcess(way.clone())) };
    let build = |builder: GatewayBuilder| builder.with_server("greeter", server).expect("a server");
    let embedded = Embedded::with(setup, |_| {}, build).await;
    embedded.gateway().settled(wait::SOON, |_| true).await;
    embedded
}

/// Calls the tool of the server as the program.
async fn greet(embedded: &Embedded) -> Result<CallReply, RequestError> {
    let request = embedded.gateway().request().open().expect("it takes requests");
    request.call("greeter-greet", Map::new()).await
}

#[tokio::test]
async fn the_example_calls_a_server_inside_the_program() {
    let printed = example("server").await;
    assert_eq!(printed, ["greeter-greet", "readContent", "Hello from the program!"]);
}

#[tokio::test]
async fn a_server_of_the_program_is_connected_again_after_it_has_hung_up() {
    let way = Arc::<Way>::default();
    let embedded = greeting(Setup::new(), &way, Allowlist::All).await;
    let reply = greet(&embedded).await.expect("it succeeds");
    assert!(matches!(&reply, CallReply::Done(output) if output.to_text() == "hello"), "{reply:?}");
    let before = way.connections.load(Ordering::SeqCst);
    way.hang_up.notify_one();
    wait::until("another connection", async || {
        (way.connections.load(Ordering::SeqCst) > before).then_some(())
    })
    .await;
    let _ = wait::until("a call that succeeds", async || greet(&embedded).await.ok()).await;
    embedded.stop().await;
}

#[tokio::test]
async fn a_server_of_the_program_whose_transport_panics_is_connected_again() {
    let way = Arc::new(Way { panics: AtomicUsize::new(1), ..Way::default() });
    let embedded = greeting(Setup::new(), &way, Allowlist::All).await;
    let _ = wait::until("a call that succeeds", async || greet(&embedded).await.ok()).await;
    assert_eq!(way.connections.load(Ordering::SeqCst), 1);
    embedded.stop().await;
}

#[tokio::test]
async fn a_call_to_a_server_of_the_program_waits_for_an_approval_unless_its_policy_permits_it() {
    let way = Arc::<Way>::default();
    let embedded = greeting(Setup::new(), &way, Allowlist::default()).await;
    let reply = greet(&embedded).await.expect("it waits");
    assert!(reply.pending().is_some(), "{reply:?}");
    embedded.stop().await;
}

#[tokio::test]
async fn a_server_of_the_program_stays_when_the_file_changes_and_keeps_its_name() {
    let setup = Setup::new();
    let file = setup.write();
    let way = Arc::<Way>::default();
    let embedded = greeting(setup, &way, Allowlist::All).await;
    let connections = way.connections.load(Ordering::SeqCst);
    let other = json!({
        "name": "greeter", "connection_type": "stdio", "stdio_config": {"command": "/bin/false"},
        "tools_to_execute": ["*"],
    });
    let text = std::fs::read_to_string(&file).expect("the file");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["mcp"]["client_configs"] = json!([other]);
    std::fs::write(&file, config.to_string()).expect("written");
    embedded.gateway().reloader().reload_all().await;
    let reply = greet(&embedded).await.expect("it succeeds");
    assert!(matches!(reply, CallReply::Done(_)), "{reply:?}");
    assert_eq!(way.connections.load(Ordering::SeqCst), connections, "it is the same connection");
    embedded.stop().await;
}

#[test]
fn a_taken_name_and_a_bad_one_are_typed_errors_of_the_builder() {
    let config = Config::parse("{}", "embedded", &|_| None).expect("a configuration");
    let builder = Gateway::builder(config);
    let builder = builder.with_server("own", InProcess(Arc::default())).expect("it is free");
    let taken = builder.with_server("own", InProcess(Arc::default())).map(drop);
    assert!(matches!(taken, Err(BadServer::Taken(_))), "{taken:?}");
    let config = Config::parse("{}", "embedded", &|_| None).expect("a configuration");
    let bad = Gateway::builder(config).with_server("a-b", InProcess(Arc::default())).map(drop);
    assert!(matches!(bad, Err(BadServer::Name(_))), "{bad:?}");
}
