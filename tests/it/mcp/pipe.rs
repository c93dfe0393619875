//! `airlock mcp` as the client at the other end of its pipes.

use std::{path::Path, process::Stdio};

use airlock_tests::{
    binary,
    mcp::{LEGACY, MODERN},
    wait,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

/// A process of `airlock mcp`. Every line of its standard output must be a message.
pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    said: JoinHandle<String>,
    next: u64,
}

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Messages that were written after the last one that was read.
    pub(crate) rest: Vec<Value>,
    /// Standard error.
    pub(crate) said: String,
}

impl Pipe {
    /// Starts a gateway of its own.
    pub(crate) fn serve(config: &Path) -> Self {
        let config = config.to_str().expect("UTF-8");
        Self::start(&["--config", config], &[("AIRLOCK_LOG", "debug")])
    }

    /// Connects to a gateway that runs.
    pub(crate) fn connect(url: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start(&[&["--connect", url], arguments].concat(), environment)
    }

    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(binary("airlock-under-test"));
        command.arg("mcp").args(arguments).envs(environment.iter().copied()).env("NO_PROXY", "*");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("it can be started");
        let output = child.stdout.take().expect("piped above");
        let mut error = child.stderr.take().expect("piped above");
        let said = tokio::spawn(async move {
            let mut said = Vec::new();
            let _ = error.read_to_end(&mut said).await;
            String::from_utf8_lossy(&said).into_owned()
        });
        let input = child.stdin.take();
        Self { child, input, output: BufReader::new(output).lines(), said, next: 1 }
    }

    /// Writes bytes, which need be no message.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(bytes.as_ref()).await.expect("it is read");
        input.flush().await.expect("it is read");
    }

    /// Writes a message.
    pub(crate) async fn send(&mut self, message: Value) {
        self.write(format!("{message}\n")).await;
    }

    /// Sends a request of the legacy era. Returns its identifier.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.id();
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Sends a request of the modern era. Returns its identifier.
    pub(crate) async fn modern(&mut self, method: &str, mut params: Value) -> Value {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        self.request(method, params).await
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Cancels a request.
    pub(crate) async fn cancel(&mut self, id: &Value) {
        self.notify("notifications/cancelled", json!({"requestId": id})).await;
    }

    /// Begins the legacy era. Returns the result of `initialize`.
    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}});
        let id = self.request("initialize", params).await;
        let result = self.result(&id).await;
        self.notify("notifications/initialized", json!({})).await;
        result
    }

    /// Sends a legacy request and returns its result.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.result(&id).await
    }

    /// Sends a modern request and returns its result.
    pub(crate) async fn ask_modern(&mut self, method: &str, params: Value) -> Value {
        let id = self.modern(method, params).await;
        self.result(&id).await
    }

    /// Reads the next message; `None` at the end of the output. Panics if it does not come within [`wait::COMPILED`].
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(wait::COMPILED, self.output.next_line()).await;
        let line = line.expect("a message, or the end").expect("UTF-8")?;
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    /// Reads the response to a request, which must be the next message.
    pub(crate) async fn response(&mut self, id: &Value) -> Value {
        let Some(message) = self.next().await else {
            panic!("it ended instead: {}", (&mut self.said).await.expect("no panic in it"))
        };
        assert_eq!(message.get("id"), Some(id), "{message}");
        message
    }

    /// Reads the result of a request, which must be the next message.
    pub(crate) async fn result(&mut self, id: &Value) -> Value {
        let mut response = self.response(id).await;
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// Reads the error of a request, which must be the next message.
    pub(crate) async fn error(&mut self, id: &Value) -> Value {
        let mut response = self.response(id).await;
        assert!(response.get("result").is_none(), "{response}");
        response["error"].take()
    }

    /// Reads a notification of a changed list, which must be the next message.
    pub(crate) async fn changed(&mut self) -> Value {
        let message = self.next().await.expect("a notification");
        assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
        message
    }

    /// Closes the input.
    pub(crate) fn close(&mut self) {
        drop(self.input.take());
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let id = self.child.id().expect("it runs");
        let id = Pid::from_raw(id.try_into().expect("a process id")).expect("not zero");
        kill_process(id, Signal::TERM).expect("it runs");
    }

    /// Returns whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be awaited").is_some()
    }

    /// Closes the input and waits for the end, which must come soon.
    pub(crate) async fn end(mut self) -> Ended {
        self.close();
        let mut rest = Vec::new();
        while let Some(message) = self.next().await {
            rest.push(message);
        }
        let status = tokio::time::timeout(wait::SOON, self.child.wait()).await;
        let code = status.expect("it ends").expect("it can be awaited").code();
        Ended { code, rest, said: self.said.await.expect("no panic in it") }
    }

    fn id(&mut self) -> Value {
        self.next += 1;
        (self.next - 1).into()
    }
}

impl Ended {
    /// Panics unless it ended with code 0 and wrote no further message. Returns standard error.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.rest, [Value::Null; 0], "{}", self.said);
        self.said
    }
}

/// Returns the names of listed tools.
pub(crate) fn names(result: &Value) -> Vec<&str> {
    let tools = result["tools"].as_array().expect("a list");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}
