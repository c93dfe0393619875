//! The real gateway as a child process.

use std::{
    io::{BufRead as _, BufReader, Read},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{EventStream, OPERATOR, Setup, binary, wait};

/// Time limit for the start, and for the end after SIGTERM.
const LIMIT: Duration = wait::COMPILED;

/// A gateway that serves. Dropping it stops it with SIGTERM, and fails the test unless it exits
/// with code 0. If the test has failed already, the gateway's output is printed.
pub struct Gateway {
    address: String,
    pid: Pid,
    ended: mpsc::Receiver<ExitStatus>,
    said: Arc<Mutex<Vec<u8>>>,
    http: reqwest::Client,
    setup: Setup,
}

impl Gateway {
    pub(crate) async fn start(setup: Setup) -> Self {
        Self::start_with(setup, &[]).await
    }

    pub(crate) async fn start_with(setup: Setup, variables: &[(&str, &str)]) -> Self {
        Self::launch(setup, variables, true).await
    }

    /// Starts it, and waits until it listens; until all is loaded too if `is_loaded`.
    pub(crate) async fn launch(setup: Setup, variables: &[(&str, &str)], is_loaded: bool) -> Self {
        let config = setup.write();
        let mut child = Command::new(binary("airlock-under-test"))
            .args(["serve", "--config"])
            .arg(config)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the gateway can be started");
        let pid = Pid::from_child(&child);
        let said = Arc::new(Mutex::new(Vec::new()));
        collect(child.stderr.take().expect("piped above"), said.clone());
        let announced = first_lines(&mut child, said.clone());
        let ended = watch(child);
        let lines = move || {
            let address = announced.recv_timeout(LIMIT);
            if is_loaded {
                // The second line says so. Without one it has ended, and the address is of no use.
                let _ = announced.recv_timeout(LIMIT);
            }
            address
        };
        let address = tokio::task::spawn_blocking(lines).await.expect("no panic in it");
        let mut gateway =
            Self { address: String::new(), pid, ended, said, http: http_client(), setup };
        let line = address.unwrap_or_default();
        line.strip_prefix("listening on ")
            .expect("the first line announces the address")
            .clone_into(&mut gateway.address);
        gateway
    }

    /// Returns the URL `http://127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the directory of its configuration.
    pub fn directory(&self) -> &Path {
        self.setup.directory()
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the lines of its output so far, except the first two of stdout. A line that is not read to its end
    /// is left out.
    pub fn said(&self) -> String {
        let mut said = self.output();
        said.truncate(said.rfind('\n').map_or(0, |end| end + 1));
        said
    }

    /// Waits until its output has a text. Returns the output. Another thread reads it, so a line may come later
    /// than the response to the request that it is about.
    pub async fn until_said(&self, text: &str) -> String {
        self.until_said_times(text, 1).await
    }

    /// Waits until its output has a text at least this many times. Returns the output.
    pub async fn until_said_times(&self, text: &str, times: usize) -> String {
        wait::until(&format!("the gateway to say {text:?}"), async || {
            Some(self.said()).filter(|said| said.matches(text).count() >= times)
        })
        .await
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.said.lock()).into_owned()
    }

    /// Returns the peak resident memory of its process, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Returns the resident memory of its process, in bytes.
    pub fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the resident memory of its process that is not pages of files, in bytes.
    pub fn own_memory(&self) -> u64 {
        self.memory("RssAnon:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero()))
            .unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .expect("it lives, and Linux counts");
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
        kibibytes << 10
    }

    /// Builds a request, to be sent with [`Reply::fetch`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.address))
    }

    /// Sends a GET request; as the operator of the tests below `/api`.
    pub async fn get(&self, path: &str) -> Reply {
        Reply::fetch(self.as_operator(Method::GET, path)).await
    }

    /// Returns the metrics with all that has happened before: scrapes within a second share a text.
    pub async fn metrics(&self) -> String {
        let shared = self.get("/metrics").await.text;
        // A text counts the bytes of the responses before it, so no two are equal.
        wait::until("the metrics to be rendered", async || {
            let text = self.get("/metrics").await.text;
            (text != shared).then_some(text)
        })
        .await
    }

    /// Sends a POST request with a JSON body; as the operator of the tests below `/api`.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        Reply::fetch(self.as_operator(Method::POST, path).json(body)).await
    }

    /// Sends a PUT request with a JSON body; as the operator of the tests below `/api`.
    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        Reply::fetch(self.as_operator(Method::PUT, path).json(body)).await
    }

    /// Sends a DELETE request; as the operator of the tests below `/api`.
    pub async fn delete(&self, path: &str) -> Reply {
        Reply::fetch(self.as_operator(Method::DELETE, path)).await
    }

    fn as_operator(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.request(method, path);
        if path.starts_with("/api/") { request.bearer_auth(OPERATOR) } else { request }
    }

    /// Runs one tool through the endpoint for tool execution. The text of its result is as the tool
    /// sent it, for programs such as tests.
    pub async fn execute(&self, name: &str, arguments: &Value) -> Reply {
        self.post(EXECUTE, &tool_call(name, arguments)).await
    }

    /// Runs one tool like [`execute`](Self::execute), but its result is presented for a model.
    pub async fn execute_for_model(&self, name: &str, arguments: &Value) -> Reply {
        self.post("/v1/mcp/tool/execute", &tool_call(name, arguments)).await
    }

    /// Runs one tool like [`execute`](Self::execute), with more headers.
    pub async fn execute_with(
        &self,
        headers: &[(&str, &str)],
        name: &str,
        arguments: &Value,
    ) -> Reply {
        let request = self.request(Method::POST, EXECUTE).json(&tool_call(name, arguments));
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Reply::fetch(request).await
    }

    /// Requests a chat completion of one user message.
    pub async fn chat(&self, model: &str, message: &str) -> Reply {
        let body = json!({"model": model, "messages": [{"role": "user", "content": message}]});
        self.post("/v1/chat/completions", &body).await
    }

    /// Requests a streamed chat completion. `body` is JSON text, so that it is sent as it is.
    pub async fn stream(&self, body: impl Into<String>) -> EventStream {
        let request = self.request(Method::POST, "/v1/chat/completions").body(body.into());
        EventStream::open(request.header("content-type", "application/json")).await
    }

    /// Returns one source of tools as the administrative API shows it; `None` if it is unknown.
    pub async fn client(&self, name: &str) -> Option<Value> {
        let clients = self.get("/api/mcp/clients").await.ok();
        clients["clients"]
            .as_array()?
            .iter()
            .find(|client| client["config"]["name"] == name)
            .cloned()
    }

    /// Waits until a source of tools is in a given state.
    pub async fn in_state(&self, name: &str, state: &str) -> Value {
        let what = format!("{name} to be {state}");
        wait::until_within(wait::COMPILED, &what, async || {
            self.client(name).await.filter(|client| client["state"] == state)
        })
        .await
    }

    /// Waits until a source of tools is connected.
    pub async fn connected(&self, name: &str) -> Value {
        self.in_state(name, "connected").await
    }

    /// Waits until no guest is alive. Fails if any resource of the pool stays in use.
    pub async fn sandbox_is_empty(&self) {
        let what = "the pool of sandboxes to be empty";
        let empty = json!({"instances": 0, "memories": 0, "tables": 0, "stacks": 0});
        wait::until(what, async || {
            let health = self.get("/health").await.ok();
            let left: serde_json::Map<_, _> = empty
                .as_object()?
                .keys()
                .map(|key| (key.clone(), health["sandbox"][key].clone()))
                .collect();
            (Value::Object(left) == empty).then_some(())
        })
        .await;
    }

    /// Sends SIGTERM, as an operator would.
    pub fn terminate(&self) {
        // It may have ended by itself; `drop` checks how it ended.
        let _ = kill_process(self.pid, Signal::TERM);
    }

    /// Waits until it has ended without being asked to, for example because a server has killed it.
    /// Returns its configuration, for the next gateway.
    pub async fn killed(mut self) -> Setup {
        let ended = std::mem::replace(&mut self.ended, mpsc::channel().1);
        let status = tokio::task::spawn_blocking(move || ended.recv_timeout(LIMIT))
            .await
            .expect("no panic in it")
            .expect("it ends");
        assert!(!status.success(), "{status}");
        let (sender, receiver) = mpsc::channel();
        // What `drop` expects of a gateway that ends well.
        sender.send(ExitStatus::default()).expect("the receiver is here");
        self.ended = receiver;
        std::mem::take(&mut self.setup)
    }

    /// Kills it, and returns its configuration, for the next gateway.
    pub async fn kill(self) -> Setup {
        let _ = kill_process(self.pid, Signal::KILL);
        self.killed().await
    }

    /// Waits until it ends after [`terminate`](Self::terminate), without blocking the tasks of the
    /// test.
    pub async fn ended(mut self) {
        let ended = std::mem::replace(&mut self.ended, mpsc::channel().1);
        let status = tokio::task::spawn_blocking(move || ended.recv_timeout(LIMIT))
            .await
            .expect("no panic in it");
        let (sender, receiver) = mpsc::channel();
        if let Ok(status) = status {
            sender.send(status).expect("the receiver is here");
        }
        self.ended = receiver;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.terminate();
        let status = self.ended.recv_timeout(LIMIT);
        if status.is_err() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let ended_well = status.as_ref().is_ok_and(ExitStatus::success);
        if !ended_well || thread::panicking() {
            eprintln!("--- the gateway said\n{}---", self.output());
        }
        if !thread::panicking() {
            assert!(
                ended_well,
                "SIGTERM did not end the gateway with exit code 0 in {LIMIT:?}: {status:?}"
            );
        }
    }
}

/// Returns the body of a request to run one tool.
/// The endpoint that runs one tool, with the raw text of its result.
const EXECUTE: &str = "/v1/mcp/tool/execute?present=raw";

fn tool_call(name: &str, arguments: &Value) -> Value {
    json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
}

pub(crate) fn http_client() -> reqwest::Client {
    // A proxy of this machine must not come between a test and the loopback interface.
    airlock::tls::client().no_proxy().timeout(wait::COMPILED).build().expect("a client")
}

fn collect(mut stream: impl Read + Send + 'static, said: Arc<Mutex<Vec<u8>>>) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            said.lock().extend_from_slice(&buffer[..read]);
        }
    });
}

/// Sends the first two lines of stdout to the receiver, and collects the rest.
fn first_lines(child: &mut Child, said: Arc<Mutex<Vec<u8>>>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped by the caller"));
    thread::spawn(move || {
        for _ in 0..2 {
            let mut line = String::new();
            if stdout.read_line(&mut line).is_ok() && !line.is_empty() {
                let _ = sender.send(line.trim_end().to_owned());
            }
        }
        drop(sender);
        collect(stdout, said);
    });
    receiver
}

fn watch(mut child: Child) -> mpsc::Receiver<ExitStatus> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = sender.send(status);
        }
    });
    receiver
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Body as JSON; null if it is not JSON.
    pub body: Value,
    /// Body as it was received.
    pub text: String,
}

impl Reply {
    /// Sends a request and reads the whole response.
    pub async fn fetch(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the gateway answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("the answer is whole");
        Self { status, body: serde_json::from_str(&text).unwrap_or_default(), text }
    }

    /// Returns the body. Panics unless the status is 200.
    #[must_use]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK.as_u16(), "{}", self.text);
        self.body
    }

    /// Returns the text of a tool's result. Panics if the call failed.
    #[must_use]
    pub fn content(self) -> String {
        self.ok()["content"].as_str().unwrap_or_else(|| panic!("it has no content")).to_owned()
    }

    /// Returns the status and the message of a refusal. Panics on success.
    pub fn refusal(&self) -> (u16, &str) {
        assert!(self.status >= 400, "{} is no refusal: {}", self.status, self.text);
        (self.status, self.body["error"]["message"].as_str().unwrap_or(&self.text))
    }

    /// Returns the stable error code of a refusal. Panics on success.
    pub fn code(&self) -> &str {
        assert!(self.status >= 400, "{} is no refusal: {}", self.status, self.text);
        self.body["error"]["code"]
            .as_str()
            .unwrap_or_else(|| panic!("no error.code in {}", self.text))
    }
}
