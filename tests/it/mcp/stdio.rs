//! `airlock mcp --config`: one client on standard input and output.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use airlock_tests::{Client, Setup, guests, mcp::LEGACY, mcp::MODERN, misbehaving, wait};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{
    Changing, hanging,
    pipe::{Pipe, names},
    plain, text,
    upstream::Upstream,
};

const NOISY: [&str; 3] = ["echo", "hang", "wait_for"];

/// Returns a server whose tools need no approval, and which writes noise.
fn noisy() -> Client {
    misbehaving("server", ["noise"]).execute(&NOISY).auto(&NOISY)
}

fn echo(words: &str) -> Value {
    json!({"name": "server-echo", "arguments": {"text": words}})
}

/// Returns the parameters of a call that waits for a file.
fn waiting(gate: &Path) -> Value {
    json!({"name": "server-wait_for", "arguments": {"file": gate}})
}

/// Waits until the call of [`waiting`] has begun.
async fn has_begun(gate: &Path) {
    let mark = gate.with_extension("waiting");
    wait::until("the call to begin", async || mark.exists().then_some(())).await;
}

#[tokio::test]
async fn both_eras_are_served_and_stdout_has_only_messages() {
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let setup = setup.client(noisy()).client(guest);
    let mut pipe = Pipe::serve(&setup.write());
    let expected = ["guest-run", "server-echo", "server-hang", "server-wait_for"];
    // Sent before the sources are connected.
    let discovered = pipe.ask_modern("server/discover", json!({})).await;
    assert_eq!(discovered["supportedVersions"], json!([MODERN]), "{discovered}");
    assert_eq!(names(&pipe.ask_modern("tools/list", json!({})).await), expected);
    let result = pipe.ask_modern("tools/call", echo("modern")).await;
    assert_eq!((&result["content"], &result["resultType"]), (&text("modern"), &json!("complete")));

    let initialized = pipe.initialize(json!({})).await;
    assert_eq!(initialized["protocolVersion"], LEGACY);
    assert_eq!(initialized["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), expected);
    let result = pipe.ask("tools/call", echo("legacy")).await;
    assert_eq!((&result["content"], result.get("resultType")), (&text("legacy"), None));
    assert_eq!(pipe.ask("ping", json!({})).await, json!({}));
    assert_eq!(pipe.ask("logging/setLevel", json!({"level": "debug"})).await, json!({}));
    for (method, code) in [("no/such", -32601), ("server/discover", -32602)] {
        let id = pipe.request(method, json!({})).await;
        assert_eq!(pipe.error(&id).await["code"], code, "{method}");
    }
    let id = pipe.request("tools/call", json!({"name": "none"})).await;
    assert_eq!(pipe.error(&id).await["code"], -32602);
    let said = pipe.end().await.ok();
    assert!(said.contains("DEBUG"), "the log is on standard error: {said}");
}

#[tokio::test]
async fn at_the_first_start_a_client_is_answered_at_once_and_its_calls_wait_for_the_compiler() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let home = home.path().to_str().expect("UTF-8");
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT).auto(&["*"]));
    let config = setup.write();
    let arguments = ["--config", config.to_str().expect("UTF-8")];
    let begun = Instant::now();
    let mut pipe = Pipe::start(&arguments, &[("AIRLOCK_CACHE_DIR", home), ("HOME", home)]);
    pipe.initialize(json!({})).await;
    let answered = begun.elapsed();
    let call = json!({"name": "text-word_count", "arguments": {"text": "one two"}});
    let id = pipe.request("tools/call", call).await;
    let (counted, _) = after_changes(&mut pipe, &id).await;
    assert_eq!(counted["structuredContent"]["words"], 2, "{counted}");
    // From the start of the process it takes 0.2 s; a machine that is slower is so for the compiler too.
    let compiled = begun.elapsed();
    let is_at_once = answered < Duration::from_secs(3) || answered < compiled / 2;
    assert!(is_at_once, "{answered:?} of {compiled:?}");
    let said = pipe.end().await.said;
    assert!(said.contains("compiling to native code, once"), "{said}");
}

/// Reads the result of a request. Returns it, and whether a change of the tools was reported before.
async fn after_changes(pipe: &mut Pipe, id: &Value) -> (Value, bool) {
    let mut has_changed = false;
    loop {
        let message = pipe.next().await.expect("a response");
        if message.get("id") == Some(id) {
            return (message["result"].clone(), has_changed);
        }
        assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
        has_changed = true;
    }
}

#[tokio::test]
async fn a_server_that_starts_slowly_delays_no_call_of_other_tools_and_its_own_are_announced() {
    let setup = Setup::new().set("/server/startup_wait", "0s");
    let gate = setup.directory().join("pipe");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
    let late = misbehaving("late", [format!("late={}", gate.display()).as_str()]);
    let guest = plain(&setup, "guest");
    let setup = setup.client(late.execute(&["echo"])).client(guest);
    let mut pipe = Pipe::serve(&setup.write());
    pipe.initialize(json!({})).await;
    let call = json!({"name": "guest-run", "arguments": {}});
    let id = pipe.request("tools/call", call).await;
    let (called, _) = after_changes(&mut pipe, &id).await;
    assert_ne!(called["isError"], true, "{called}");
    assert!(called["content"].is_array(), "{called}");

    // Opening it waits until the server has opened it as well.
    let opened = tokio::task::spawn_blocking(move || fs::write(gate, "go")).await;
    opened.expect("no panic in it").expect("the server reads it");
    let mut is_announced = false;
    loop {
        let id = pipe.request("tools/list", json!({})).await;
        let (listed, has_changed) = after_changes(&mut pipe, &id).await;
        is_announced |= has_changed;
        if names(&listed).contains(&"late-echo") {
            break;
        }
    }
    if !is_announced {
        pipe.changed().await;
    }
    pipe.close();
}

#[tokio::test]
async fn lines_that_are_no_messages_get_errors_and_the_next_line_counts() {
    let setup = Setup::new().set("/server/max_body", "64KiB").client(noisy());
    let mut pipe = Pipe::serve(&setup.write());
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"x":"{}"}}"#, "x".repeat(70_000));
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":1,"x":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let lines: [(&[u8], i64); 8] = [
        (long.as_bytes(), -32700),
        (deep.as_bytes(), -32700),
        (b"hello", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700),
        (b"{\"jsonrpc\":\"2.0\"", -32700),
        (b"\0", -32700),
        (b"[]", -32600),
        (b"{\"id\":5}", -32600),
    ];
    for (line, code) in lines {
        pipe.write([line, b"\n\n \r\n"].concat()).await;
        let message = pipe.next().await.expect("an error");
        assert_eq!(
            message["error"]["code"],
            code,
            "{}",
            String::from_utf8_lossy(&line[..line.len().min(40)])
        );
        // With Windows' line end.
        pipe.write(format!("{ping}\r\n")).await;
        assert_eq!(pipe.result(&json!(1)).await, json!({}));
    }
    // A line of the largest length.
    let room = (64 << 10)
        - json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": echo("")})
            .to_string()
            .len();
    let words = "x".repeat(room);
    pipe.send(json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": echo(&words)}))
        .await;
    assert_eq!(pipe.result(&json!(9)).await["content"], text(&words));
    pipe.end().await.ok();
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_process_after_its_running_requests() {
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let setup = setup.client(noisy()).client(guest);
    let gate = setup.directory().join("gate");
    let mut pipe = Pipe::serve(&setup.write());
    pipe.initialize(json!({})).await;
    let waits = pipe.request("tools/call", waiting(&gate)).await;
    has_begun(&gate).await;
    // The last line has no line end.
    let params = json!({"name": "guest-run"});
    let last = json!({"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": params});
    pipe.write(last.to_string()).await;
    pipe.close();
    assert_eq!(pipe.result(&json!("last")).await["content"], text("ok"));
    assert!(!pipe.has_ended(), "a request still runs");
    fs::write(&gate, "").expect("a file");
    assert_eq!(pipe.result(&waits).await["content"], text("it is there"));
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_request_that_does_not_end_keeps_the_process_no_longer_than_the_drain_timeout() {
    let setup = Setup::new().set("/server/drain_timeout", "300ms").client(noisy());
    let gate = setup.directory().join("gate");
    let mut pipe = Pipe::serve(&setup.write());
    pipe.request("tools/call", waiting(&gate)).await;
    has_begun(&gate).await;
    pipe.end().await.ok();
}

#[tokio::test]
async fn sigterm_ends_the_process_although_a_request_runs() {
    let setup = Setup::new();
    let hang = hanging(&setup, "hang");
    let setup = setup.client(noisy()).client(hang);
    let gate = setup.directory().join("gate");
    let mut pipe = Pipe::serve(&setup.write());
    pipe.initialize(json!({})).await;
    pipe.request("tools/call", waiting(&gate)).await;
    pipe.request("tools/call", json!({"name": "hang-run"})).await;
    has_begun(&gate).await;
    pipe.terminate();
    wait::until("it to end", async || pipe.has_ended().then_some(())).await;
    pipe.end().await.ok();
}

#[tokio::test]
async fn sigterm_while_the_gateway_starts_ends_the_process() {
    let setup = Setup::new().client(misbehaving("mute", ["mute"]));
    let mut pipe = Pipe::serve(&setup.write());
    // It waits for the source that never connects.
    pipe.request("tools/list", json!({})).await;
    pipe.request("ping", json!({})).await;
    assert_eq!(pipe.result(&json!(2)).await, json!({}));
    pipe.terminate();
    pipe.end().await.ok();
}

#[tokio::test]
async fn progress_is_sent_and_a_cancelled_request_gets_no_response() {
    let upstream = Upstream::start().await;
    let setup = Setup::new().client(upstream.client("up")).client(noisy());
    let mut pipe = Pipe::serve(&setup.write());
    pipe.initialize(json!({})).await;
    let call = json!({"name": "up-steps", "_meta": {"progressToken": "token"}});
    for (index, is_modern) in [false, true].into_iter().enumerate() {
        let id = if is_modern {
            pipe.modern("tools/call", call.clone()).await
        } else {
            pipe.request("tools/call", call.clone()).await
        };
        let progress = pipe.next().await.expect("progress");
        assert_eq!(progress["params"]["progressToken"], "token", "{progress}");
        // A second request with the same identifier is refused, and the first goes on.
        pipe.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": echo("")}))
            .await;
        assert_eq!(pipe.error(&id).await["code"], -32600);
        pipe.cancel(&json!(id.to_string())).await;
        pipe.cancel(&id).await;
        pipe.cancel(&id).await;
        upstream.is_cancelled(&(0..=index).collect::<Vec<_>>()).await;
        assert_eq!(pipe.ask("tools/call", echo("next")).await["content"], text("next"));
    }
    upstream.proceed_to(3);
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_plugin_that_is_replaced_is_notified_in_both_eras() {
    let setup = Setup::new();
    let (plugin, client) = Changing::new(&setup, "guest");
    let setup = setup.client(client);
    let mut pipe = Pipe::serve(&setup.write());
    pipe.initialize(json!({})).await;
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["guest-run"]);
    plugin.replace(&[("run", "Misbehaves."), ("late", "New.")]);
    assert_eq!(pipe.changed().await["params"].get("_meta"), None);
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["guest-late", "guest-run"]);
    pipe.end().await.ok();

    plugin.replace(&[("run", "Misbehaves.")]);
    let mut pipe = Pipe::serve(&setup.write());
    let listed = pipe.ask_modern("tools/list", json!({})).await;
    assert_eq!(names(&listed), ["guest-run"]);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let id = pipe.modern("subscriptions/listen", wanted).await;
    let acknowledged = pipe.next().await.expect("an acknowledgment");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    plugin.replace(&[("run", "Misbehaves."), ("late", "New.")]);
    let changed = pipe.changed().await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    pipe.close();
    let ended = pipe.result(&id).await;
    assert_eq!(ended["resultType"], "complete", "{ended}");
    pipe.end().await.ok();
}

#[tokio::test]
async fn a_call_that_needs_an_approval_is_asked_about() {
    let setup = Setup::new().client(misbehaving("server", []));
    let mut pipe = Pipe::serve(&setup.write());
    pipe.initialize(json!({"elicitation": {"form": {}}})).await;
    for (action, expected) in [
        ("accept", text("x")),
        ("decline", text("tool 'server-echo' did not run: the user declined it")),
    ] {
        let id = pipe.request("tools/call", echo("x")).await;
        let question = pipe.next().await.expect("a question");
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let answer = json!({"action": action, "content": {}});
        pipe.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        assert_eq!(pipe.result(&id).await["content"], expected);
    }
    // One that leaves without an answer.
    pipe.request("tools/call", echo("x")).await;
    pipe.next().await.expect("a question");
    pipe.terminate();
    pipe.end().await.ok();
}

#[tokio::test]
async fn one_source_is_served_with_its_own_names_and_an_unknown_one_is_reported() {
    let setup = Setup::new();
    let one = plain(&setup, "one");
    let two = plain(&setup, "two");
    let config = setup.client(one).client(two);
    let file = config.write();
    let file = file.to_str().expect("UTF-8");
    let mut pipe = Pipe::start(&["--config", file, "--client", "one"], &[]);
    assert_eq!(names(&pipe.ask("tools/list", json!({})).await), ["run"]);
    assert_eq!(pipe.ask("tools/call", json!({"name": "run"})).await["content"], text("ok"));
    pipe.end().await.ok();
    let pipe = Pipe::start(&["--config", file, "--client", "three"], &[]);
    let ended = pipe.end().await;
    assert!(ended.code == Some(1) && ended.rest.is_empty(), "{ended:?}");
    assert!(ended.said.contains("three") && ended.said.contains("one, two"), "{ended:?}");
}
