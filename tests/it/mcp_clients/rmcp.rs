//! `rmcp`'s own client, in both eras and over both transports.

use std::sync::Arc;

use airlock_tests::wait;
use parking_lot::Mutex;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam,
        ProtocolVersion, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, PeerRequestOptions,
        RunningService,
    },
    transport::{
        StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use tokio::{process::Command, sync::Notify};

use super::{Server, Transport, add_tool, counted_words, one_plugin, setup};

/// Notes what the gateway notifies of.
#[derive(Clone, Default)]
struct Notes {
    progress: Arc<Mutex<Vec<f64>>>,
    list_changed: Arc<Notify>,
}

impl ClientHandler for Notes {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().push(params.progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }
}

type Session = RunningService<RoleClient, Notes>;

const ERAS: [bool; 2] = [false, true];

async fn connect(server: &Server, is_modern: bool) -> (Session, Notes) {
    let mode = if is_modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let notes = Notes::default();
    let target = server.target();
    let session = if target[0] == "http" {
        let http = airlock::tls::client().no_proxy().build().expect("a client");
        let config = StreamableHttpClientTransportConfig::with_uri(target[1].as_str());
        let transport = StreamableHttpClientTransport::with_client(http, config);
        notes.clone().serve_with_lifecycle(transport, mode).await
    } else {
        let mut command = Command::new(&target[1]);
        command.args(&target[2..]);
        let transport = TokioChildProcess::new(command).expect("it can be started");
        notes.clone().serve_with_lifecycle(transport, mode).await
    };
    let session = session.expect("connected");
    let version = &session.peer().peer_info().expect("it is connected").protocol_version;
    assert_eq!(!version.has_initialize(), is_modern, "{version}");
    (session, notes)
}

fn call(name: &'static str, arguments: &Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().expect("an object").clone();
    CallToolRequestParams::new(name).with_arguments(arguments)
}

async fn names(session: &Session) -> Vec<String> {
    let tools = session.peer().list_all_tools().await.expect("a list");
    tools.iter().map(|tool| tool.name.to_string()).collect()
}

async fn lists_calls_receives_progress_and_cancels(transport: Transport) {
    let server = Server::start(setup(), transport).await;
    for is_modern in ERAS {
        let (session, heard) = connect(&server, is_modern).await;
        let listed = names(&session).await;
        assert_eq!(listed, ["count-run", "guest-fail", "guest-ok", "hang-run", "text-word_count"]);
        let counted =
            session.peer().call_tool(call("text-word_count", &json!({"text": "one two"})));
        let counted = counted.await.expect("a result");
        let expected = counted_words()["structuredContent"].clone();
        assert_eq!(counted.structured_content, Some(expected));
        session.peer().call_tool(call("count-run", &json!({}))).await.expect("a result");
        // Each notification is handled in a task of its own, perhaps after the response.
        let progress = wait::until("all progress to be noted", async || {
            let mut noted = heard.progress.lock().clone();
            noted.sort_by(f64::total_cmp);
            (noted.len() == 3).then_some(noted)
        });
        assert_eq!(progress.await, [1.0, 2.0, 3.0]);
        let hanging = CallToolRequest::new(call("hang-run", &json!({})));
        let hanging = session.peer().send_cancellable_request(
            ClientRequest::CallToolRequest(hanging),
            PeerRequestOptions::no_options(),
        );
        let hanging = hanging.await.expect("it is sent");
        wait::until("the tool to begin", async || {
            let noted = heard.progress.lock().len();
            (noted == 4).then_some(())
        })
        .await;
        hanging.cancel(Some("enough".to_owned())).await.expect("it is sent");
        if let Server::Http(gateway) = &server {
            gateway.sandbox_is_empty().await;
        }
        assert_eq!(names(&session).await.len(), 5);
        session.cancel().await.expect("it ends");
    }
}

async fn notices_the_tool_of_a_reloaded_plugin(transport: Transport) {
    for is_modern in ERAS {
        let (setup, component) = one_plugin();
        let server = Server::start(setup, transport).await;
        let (session, heard) = connect(&server, is_modern).await;
        assert_eq!(names(&session).await, ["guest-ok"]);
        if is_modern {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let mut subscription = session.peer().listen(filter).await.expect("acknowledged");
            add_tool(&component).await;
            subscription.next().await.expect("open").expect("a notification");
        } else {
            add_tool(&component).await;
            heard.list_changed.notified().await;
        }
        assert_eq!(names(&session).await, ["guest-late", "guest-ok"]);
        session.cancel().await.expect("it ends");
    }
}

#[tokio::test]
async fn over_http_it_lists_calls_receives_progress_and_cancels() {
    lists_calls_receives_progress_and_cancels(Transport::Http).await;
}

#[tokio::test]
async fn over_stdio_it_lists_calls_receives_progress_and_cancels() {
    lists_calls_receives_progress_and_cancels(Transport::Stdio).await;
}

#[tokio::test]
async fn over_http_it_notices_the_tool_of_a_reloaded_plugin() {
    notices_the_tool_of_a_reloaded_plugin(Transport::Http).await;
}

#[tokio::test]
async fn over_stdio_it_notices_the_tool_of_a_reloaded_plugin() {
    notices_the_tool_of_a_reloaded_plugin(Transport::Stdio).await;
}
