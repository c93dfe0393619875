//! `airlock mcp --connect`: a client on standard input and output, and a gateway that runs.

use std::net::SocketAddr;

use airlock_tests::{
    Gateway, Setup,
    mcp::{Endpoint, LEGACY},
    misbehaving, wait,
};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use super::{
    ANN, BOB, Changing,
    pipe::{Pipe, names},
    plain, text,
    upstream::Upstream,
    usage,
};

fn steps() -> Value {
    json!({"name": "up-steps", "_meta": {"progressToken": "token"}})
}

fn connect(gateway: &Gateway) -> Pipe {
    Pipe::connect(&format!("{}/mcp", gateway.address()), &[], &[("AIRLOCK_LOG", "debug")])
}

async fn progress(pipe: &mut Pipe, step: u64) {
    let message = pipe.next().await.expect("progress");
    let params = json!({"progressToken": "token", "progress": step, "total": 3});
    assert_eq!(message["params"], params, "{message}");
}

#[tokio::test]
async fn both_eras_list_call_and_receive_progress() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let mut pipe = connect(&gateway);
    let expected = ["up-big", "up-count_all_tools", "up-region", "up-rich", "up-steps"];
    let listed = pipe.ask_modern("tools/list", json!({})).await;
    assert_eq!(names(&listed).len(), expected.len(), "{listed}");
    // Its schema asks for headers, which only the bridge can add.
    let region = json!({"name": "up-region", "arguments": {"region": "\u{e4} ", "count": 7}});
    let result = pipe.ask_modern("tools/call", region.clone()).await;
    assert_eq!(result["content"], text(&region["arguments"].to_string()));
    let id = pipe.modern("tools/call", steps()).await;
    progress(&mut pipe, 1).await;
    upstream.proceed_to(2);
    progress(&mut pipe, 2).await;
    upstream.proceed_to(3);
    assert_eq!(pipe.result(&id).await["content"], text("done"));

    upstream.proceed_to(1);
    assert_eq!(pipe.initialize(json!({})).await["protocolVersion"], LEGACY);
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await).len(), expected.len());
    assert_eq!(pipe.ask("tools/call", region.clone()).await["content"], result["content"]);
    let id = pipe.request("tools/call", steps()).await;
    progress(&mut pipe, 1).await;
    upstream.proceed_to(3);
    progress(&mut pipe, 2).await;
    assert_eq!(pipe.result(&id).await["content"], text("done"));
    for is_modern in [false, true] {
        let call = json!({"name": "none"});
        let id = if is_modern {
            pipe.modern("tools/call", call).await
        } else {
            pipe.request("tools/call", call).await
        };
        assert_eq!(pipe.error(&id).await["code"], -32602);
    }
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_cancelled_request_is_cancelled_at_the_gateway_in_both_eras() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let mut pipe = connect(&gateway);
    pipe.initialize(json!({})).await;
    for (index, is_modern) in [false, true].into_iter().enumerate() {
        let id = if is_modern {
            pipe.modern("tools/call", steps()).await
        } else {
            pipe.request("tools/call", steps()).await
        };
        progress(&mut pipe, 1).await;
        pipe.cancel(&id).await;
        pipe.cancel(&id).await;
        upstream.is_cancelled(&(0..=index).collect::<Vec<_>>()).await;
        assert!(pipe.ask("tools/list", json!({})).await["tools"].is_array());
    }
    upstream.proceed_to(3);
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_changed_list_is_notified_in_both_eras() {
    let setup = Setup::new();
    let (plugin, client) = Changing::new(&setup, "guest");
    let gateway = setup.client(client).serve_connected().await;
    let mut legacy = connect(&gateway);
    let mut modern = connect(&gateway);
    legacy.initialize(json!({})).await;
    assert_eq!(names(&legacy.ask("tools/list", json!({})).await), ["guest-run"]);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let id = modern.modern("subscriptions/listen", wanted).await;
    let acknowledged = modern.next().await.expect("an acknowledgment");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    super::wait_for_streams(&gateway, 2).await;
    plugin.reload(&gateway, &[("run", "Misbehaves."), ("late", "New.")]).await;
    legacy.changed().await;
    let changed = modern.changed().await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    assert_eq!(names(&legacy.ask("tools/list", json!({})).await), ["guest-late", "guest-run"]);
    legacy.end().await.ok();
    gateway.terminate();
    assert_eq!(modern.result(&id).await["resultType"], "complete");
    modern.end().await.ok();
    gateway.ended().await;
}

#[tokio::test]
async fn a_question_and_its_answer_pass_the_bridge() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let mut pipe = connect(&gateway);
    pipe.initialize(json!({"elicitation": {}})).await;
    let call = json!({"name": "server-echo", "arguments": {"text": "x"}});
    for (action, is_error) in [("accept", false), ("decline", true)] {
        let id = pipe.request("tools/call", call.clone()).await;
        let question = pipe.next().await.expect("a question");
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let answer = json!({"action": action, "content": {}});
        pipe.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        assert_eq!(pipe.result(&id).await["isError"] == true, is_error);
    }
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_session_that_the_gateway_has_closed_is_opened_anew() {
    let setup = Setup::new().set("/server/require_virtual_key", false);
    let guest = plain(&setup, "guest");
    let setup = setup.client(guest).key("ann", ANN, &[("guest", &["*"])]);
    let gateway = setup.set("/mcp_server/max_sessions_per_key", 1).serve_connected().await;
    let url = format!("{}/mcp", gateway.address());
    let mut pipe = Pipe::connect(&url, &[], &[("AIRLOCK_KEY", ANN)]);
    // Without `initialized` it opens no stream, so that the session is idle.
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    assert_eq!(pipe.ask("initialize", params).await["protocolVersion"], LEGACY);
    for _ in 0..3 {
        assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["guest-run"]);
        let other = Endpoint::new(&gateway).key(ANN).session().await;
        assert_eq!(usage(&gateway).await.0, 1);
        drop(other);
    }
    let result = pipe.ask("tools/call", json!({"name": "guest-run"})).await;
    assert_eq!(result["content"], text("ok"));
    pipe.end().await.ok();
}

/// Forwards connections to a gateway, which can be exchanged for another.
struct Relay {
    address: SocketAddr,
    target: watch::Sender<String>,
    serving: JoinHandle<()>,
}

impl Relay {
    async fn start(gateway: &Gateway) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (target, targets) = watch::channel(String::new());
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                connections.spawn(forward(near, targets.clone()));
            }
        });
        let relay = Self { address, target, serving };
        relay.turn_to(gateway);
        relay
    }

    /// Cuts all connections. Later ones go to this gateway.
    fn turn_to(&self, gateway: &Gateway) {
        self.target.send_replace(gateway.address().trim_start_matches("http://").to_owned());
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn forward(mut near: TcpStream, mut targets: watch::Receiver<String>) {
    let target = targets.borrow_and_update().clone();
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = targets.changed() => {}
    }
}

/// Waits until the bridge reaches the gateway behind the relay again. A request on a connection that
/// is being cut fails.
async fn reconnected(pipe: &mut Pipe) {
    wait::until("the bridge to reach the gateway", async || {
        let id = pipe.modern("server/discover", json!({})).await;
        pipe.response(&id).await.get("result").map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn a_gateway_that_was_restarted_is_used_like_the_old_one() {
    let configure = || {
        let setup = Setup::new();
        let (plugin, client) = Changing::new(&setup, "guest");
        (plugin, setup.client(client))
    };
    let (_, first) = configure();
    let (plugin, second) = configure();
    let first = first.serve_connected().await;
    let second = second.serve_connected().await;
    let relay = Relay::start(&first).await;
    let mut pipe = Pipe::connect(&relay.url(), &[], &[]);
    pipe.initialize(json!({})).await;
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["guest-run"]);
    super::wait_for_streams(&first, 1).await;
    relay.turn_to(&second);
    drop(first);
    reconnected(&mut pipe).await;
    let result = pipe.ask("tools/call", json!({"name": "guest-run"})).await;
    assert_eq!(result["content"], text("ok"));
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["guest-run"]);
    assert_eq!(usage(&second).await.0, 1);
    super::wait_for_streams(&second, 1).await;
    plugin.reload(&second, &[("run", "Misbehaves."), ("late", "New.")]).await;
    pipe.changed().await;
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["guest-late", "guest-run"]);
    pipe.end().await.ok();
}

#[tokio::test]
async fn requests_at_the_same_time_open_one_session_after_a_restart() {
    let configure = || {
        let setup = Setup::new();
        let guest = plain(&setup, "guest");
        setup.client(guest)
    };
    let first = configure().serve_connected().await;
    let second = configure().serve_connected().await;
    let relay = Relay::start(&first).await;
    let mut pipe = Pipe::connect(&relay.url(), &[], &[]);
    pipe.initialize(json!({})).await;
    relay.turn_to(&second);
    reconnected(&mut pipe).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(pipe.request("tools/call", json!({"name": "guest-run"})).await);
    }
    for _ in 0..20 {
        let response = pipe.next().await.expect("a response");
        assert_eq!(response["result"]["content"], text("ok"), "{response}");
        waiting.retain(|id| *id != response["id"]);
    }
    assert_eq!(waiting, [Value::Null; 0]);
    assert_eq!(usage(&second).await.0, 1);
    pipe.end().await.ok();
    assert_eq!(usage(&second).await.0, 0, "the session is ended with the bridge");
}

#[tokio::test]
async fn a_legacy_call_whose_connection_is_cut_gets_its_response_and_runs_once() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let relay = Relay::start(&gateway).await;
    let mut pipe = Pipe::connect(&relay.url(), &[], &[]);
    pipe.initialize(json!({})).await;
    let id = pipe.request("tools/call", steps()).await;
    progress(&mut pipe, 1).await;
    relay.turn_to(&gateway);
    upstream.proceed_to(3);
    progress(&mut pipe, 2).await;
    assert_eq!(pipe.result(&id).await["content"], text("done"));
    assert_eq!((upstream.calls("steps").len(), upstream.cancelled().len()), (1, 0));
    // Of the modern era it is lost, and its client is told so.
    upstream.proceed_to(1);
    let id = pipe.modern("tools/call", steps()).await;
    progress(&mut pipe, 1).await;
    relay.turn_to(&gateway);
    let error = pipe.error(&id).await;
    assert!(error["message"].to_string().contains("lost"), "{error}");
    upstream.is_cancelled(&[1]).await;
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_request_that_the_gateway_refuses_gets_an_error() {
    let setup = Setup::new().set("/server/require_virtual_key", true);
    let gateway = setup.key("ann", ANN, &[]).serve().await;
    let url = format!("{}/mcp", gateway.address());
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let nowhere = format!("http://{}/mcp", closed.local_addr().expect("it is bound"));
    drop(closed);
    for (url, key, expected) in [
        (url.clone(), BOB, "virtual key not found"),
        (url.clone(), "", "a virtual key is required"),
        (format!("{url}/none"), ANN, "no client or virtual MCP of this name"),
        (gateway.address().to_owned(), ANN, "there is nothing at"),
        (nowhere, ANN, "cannot be reached"),
    ] {
        let mut pipe = Pipe::connect(&url, &[], &[("AIRLOCK_KEY", key), ("AIRLOCK_LOG", "debug")]);
        let params = json!({"protocolVersion": LEGACY, "capabilities": {}});
        let initialize = pipe.request("initialize", params).await;
        let error = pipe.error(&initialize).await;
        assert!(error["message"].to_string().contains(expected), "{url}: {error}");
        let list = pipe.modern("tools/list", json!({})).await;
        let error = pipe.error(&list).await;
        assert!(error["message"].to_string().contains(expected), "{url}: {error}");
        let list = pipe.request("tools/list", json!({})).await;
        let error = pipe.error(&list).await;
        assert!(error["message"].to_string().contains(expected), "{url}: {error}");
        let said = pipe.end().await.ok();
        assert!(key.is_empty() || !said.contains(key), "the key is logged: {said}");
    }
}

#[tokio::test]
async fn headers_of_the_command_line_narrow_the_tools() {
    let setup = Setup::new();
    let one = plain(&setup, "one");
    let two = plain(&setup, "two");
    let gateway = setup.client(one).client(two).serve_connected().await;
    let url = format!("{}/mcp", gateway.address());
    let arguments = ["--header", "x-bf-mcp-include-clients: one"];
    let mut pipe = Pipe::connect(&url, &arguments, &[]);
    assert_eq!(names(&pipe.ask_modern("tools/list", json!({})).await), ["one-run"]);
    pipe.initialize(json!({})).await;
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["one-run"]);
    pipe.end().await.ok();
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_bridge_after_its_requests_and_sigterm_at_once() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let mut pipe = connect(&gateway);
    pipe.initialize(json!({})).await;
    let id = pipe.request("tools/call", steps()).await;
    progress(&mut pipe, 1).await;
    pipe.close();
    assert!(!pipe.has_ended());
    upstream.proceed_to(3);
    progress(&mut pipe, 2).await;
    assert_eq!(pipe.result(&id).await["content"], text("done"));
    pipe.end().await.ok();
    assert_eq!(usage(&gateway).await.0, 0);

    upstream.proceed_to(1);
    let mut pipe = connect(&gateway);
    pipe.initialize(json!({})).await;
    pipe.request("tools/call", steps()).await;
    progress(&mut pipe, 1).await;
    pipe.terminate();
    wait::until("it to end", async || pipe.has_ended().then_some(())).await;
    pipe.end().await.ok();
    wait::until("the session to be closed", async || (usage(&gateway).await.0 == 0).then_some(()))
        .await;
    upstream.is_cancelled(&[1]).await;
}

#[tokio::test]
async fn lines_that_are_no_messages_get_errors_without_the_gateway() {
    let gateway = Setup::new().serve().await;
    let mut pipe = connect(&gateway);
    for (line, code) in [("hello", -32700), ("[]", -32600), ("{\"jsonrpc\":\"2.0\"}", -32600)] {
        pipe.write(format!("{line}\n")).await;
        let message = pipe.next().await.expect("an error");
        assert_eq!(message["error"]["code"], code, "{line}");
    }
    let ping = pipe.ask("ping", json!({})).await;
    assert_eq!(ping, json!({}));
    pipe.end().await.ok();
}
