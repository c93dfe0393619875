//! An MCP server over stdio or HTTP (2025-11-25) that misbehaves on request: at start by argument,
//! later by tool.
//!
//! It writes JSON-RPC by hand, because no library would send such messages.
//!
//! | Argument | Behaviour |
//! |---|---|
//! | `die` | ends before it has read anything |
//! | `mute` | reads, and never responds |
//! | `noise` | writes lines that are not JSON before it responds, and half a mebibyte to stderr |
//! | `malformed` | announces tools, one of which breaks the schema |
//! | `pages` | announces one tool per page |
//! | `endless` | announces an endless sequence of pages |
//! | `vast` | announces a tool whose 100 parameters all refer to one object of thousands of properties |
//! | `notes=FILE` | tool `note` appends to the file |
//! | `flood=KIND` | after listing its tools, sends one kind of message endlessly; see `flood.rs` |
//! | `deaf` | reads nothing after it has listed its tools |
//! | `late=FIFO` | reads nothing until a writer has opened and closed the named pipe |
//! | `changing` | reports a changed list after each listing, and has a tool with a long error |
//! | `results` | has tools whose results a model could misread; see `results.rs` |
//! | `tools=FILE` | lists the tools that the file has as a JSON array, and reports a changed list when the file changes |
//! | `http` | is an HTTP server and prints its URL; its modes are in `http.rs` |

#[path = "misbehaving_server/flood.rs"]
mod flood;
#[path = "misbehaving_server/http.rs"]
mod http;
#[path = "misbehaving_server/results.rs"]
mod results;

use std::{
    env, fs,
    io::{self, BufRead as _, Write as _},
    process, thread,
    time::Duration,
};

use serde_json::{Map, Value, json};

fn main() -> io::Result<()> {
    let server = Server { modes: env::args().skip(1).collect(), cancelled: 0, listed: 0 };
    if server.is("die") {
        process::exit(3);
    }
    if server.is("http") {
        return http::serve(&server.modes);
    }
    if let Some(pipe) = server.modes.iter().find_map(|mode| mode.strip_prefix("late=")) {
        fs::read(pipe)?;
    }
    server.run()
}

struct Server {
    modes: Vec<String>,
    cancelled: u32,
    listed: u32,
}

impl Server {
    fn is(&self, mode: &str) -> bool {
        self.modes.iter().any(|given| given == mode)
    }

    fn run(mut self) -> io::Result<()> {
        if self.is("noise") {
            println!("this server is happy to see you\n{{\"jsonrpc\": \"2.0\", \"id\"\n[]\n\n\"\"");
            flood_stderr(512);
        }
        if let Some(file) = self.file_of_tools().map(str::to_owned) {
            // The thread ends with the process.
            thread::spawn(move || report_changes(&file));
        }
        for line in io::stdin().lock().lines() {
            let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
            if self.is("mute") {
                continue;
            }
            if message["method"] == "notifications/cancelled" {
                self.cancelled += 1;
            }
            if let Some(id) = message.get("id")
                && let Some(answer) = self.answer(&message)
            {
                let (member, value) = match answer {
                    Ok(result) => ("result", result),
                    Err(code) => ("error", json!({"code": code, "message": "no"})),
                };
                send(&json!({"jsonrpc": "2.0", "id": id, member: value}))?;
            }
            if message["method"] == "tools/list" {
                self.after_the_list()?;
            }
        }
        Ok(())
    }

    fn after_the_list(&mut self) -> io::Result<()> {
        self.listed += 1;
        if self.is("changing") {
            send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))?;
        }
        if let Some(kind) = self
            .modes
            .iter()
            .find_map(|mode| mode.strip_prefix("flood="))
            .filter(|_| self.listed == 1)
        {
            let kind = kind.to_owned();
            // The thread ends with the process, or when the pipe closes.
            thread::spawn(move || flood::without_end(&kind, &mut io::stdout()));
        }
        while self.is("deaf") {
            thread::park();
        }
        Ok(())
    }

    /// Returns the result or the error code of a request; `None` to send no response.
    fn answer(&self, message: &Value) -> Option<Result<Value, i32>> {
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => Some(Ok(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "misbehaving", "version": "1"},
            }))),
            "ping" => Some(Ok(json!({}))),
            "tools/list" => Some(Ok(self.list(message["params"]["cursor"].as_str()))),
            "tools/call" => self.call(&message["params"]),
            _ => Some(Err(-32601)),
        }
    }

    fn file_of_tools(&self) -> Option<&str> {
        self.modes.iter().find_map(|mode| mode.strip_prefix("tools="))
    }

    fn list(&self, cursor: Option<&str>) -> Value {
        if let Some(file) = self.file_of_tools() {
            let text = fs::read_to_string(file).expect("tools=FILE can be read");
            let tools: Value = serde_json::from_str(&text).expect("tools=FILE is JSON");
            return json!({"tools": tools});
        }
        let mut tools = TOOLS.map(|name| json!({"name": name, "description": name, "inputSchema": {"type": "object"}})).to_vec();
        if self.is("malformed") {
            tools.insert(1, json!({"name": "no_schema"}));
            tools.insert(3, json!({"name": "odd_schema", "inputSchema": 7}));
            tools.insert(
                5,
                json!({"name": "odd_hint", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes"}}),
            );
        }
        if self.is("vast") {
            tools.push(json!({"name": "vast", "description": "vast", "inputSchema": vast()}));
        }
        if self.is("results") {
            tools.extend(results::tools());
        }
        if self.is("changing") {
            let hint = json!({"readOnlyHint": "very ".repeat(38_000)});
            tools.push(json!({"name": "long_error", "inputSchema": {"type": "object"}, "annotations": hint}));
        }
        let page: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        if self.is("endless") {
            let name = format!("tool_{page}");
            return json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}], "nextCursor": (page + 1).to_string()});
        }
        if self.is("pages") {
            let next = (page + 1 < tools.len()).then(|| (page + 1).to_string());
            let mut answer = json!({"tools": [tools[page]]});
            if let Some(next) = next {
                answer["nextCursor"] = next.into();
            }
            return answer;
        }
        json!({"tools": tools})
    }

    fn call(&self, params: &Value) -> Option<Result<Value, i32>> {
        let argument = |name: &str| params["arguments"][name].clone();
        if self.file_of_tools().is_some() {
            let text = format!("called {}", params["name"].as_str().unwrap_or_default());
            return Some(Ok(json!({"content": [{"type": "text", "text": text}]})));
        }
        let name = params["name"].as_str().unwrap_or_default();
        if let Some(result) = results::call(name, &params["arguments"]) {
            return Some(Ok(result));
        }
        let text = match name {
            "echo" => argument("text").as_str().unwrap_or("nothing").to_owned(),
            "pid" => process::id().to_string(),
            "env" => env::vars().map(|(name, _)| name).collect::<Vec<_>>().join(" "),
            "cancelled" => self.cancelled.to_string(),
            "listed" => self.listed.to_string(),
            "secret" => format!("my environment is {:?}", env::vars().collect::<Vec<_>>()),
            "dense" => {
                // Each element takes seven bytes as text and five hundred in memory.
                let zeros = vec![json!({"": 0}); 550_000];
                return Some(Ok(json!({"content": [], "structuredContent": zeros})));
            }
            "note" => self.note(argument("text").as_str().unwrap_or_default()),
            "die" => process::exit(4),
            "hang" => return None,
            "refuse" => return Some(Err(-32000)),
            "fail" => {
                return Some(Ok(
                    json!({"content": [{"type": "text", "text": "it did not work"}], "isError": true}),
                ));
            }
            "flood_stderr" => {
                flood_stderr(16 << 10);
                "flooded".to_owned()
            }
            "garbage" => {
                println!(
                    "}}{{ \u{0} this is not JSON\n{{\"jsonrpc\":\"1.0\"}}\n{}",
                    "x".repeat(100_000)
                );
                "after the garbage".to_owned()
            }
            "wait_for" => wait_for(argument("file").as_str().unwrap_or_default()),
            "odd_content" => {
                return Some(Ok(
                    json!({"content": [{"type": "hologram", "shape": "cube"}, {"type": "text", "text": "beside it"}]}),
                ));
            }
            _ => return Some(Err(-32602)),
        };
        Some(Ok(json!({"content": [{"type": "text", "text": text}]})))
    }

    fn note(&self, text: &str) -> String {
        let file = self
            .modes
            .iter()
            .find_map(|mode| mode.strip_prefix("notes="))
            .expect("`note` needs notes=FILE");
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .expect("notes=FILE can be written");
        writeln!(file, "{text}").expect("notes=FILE can be written");
        format!("noted {text}")
    }
}

const TOOLS: [&str; 16] = [
    "cancelled",
    "dense",
    "die",
    "echo",
    "env",
    "fail",
    "flood_stderr",
    "garbage",
    "hang",
    "listed",
    "note",
    "odd_content",
    "pid",
    "refuse",
    "secret",
    "wait_for",
];

/// Returns a schema within 256 KiB that is very expensive to convert to types. It costs billions of
/// steps if each reference is read in full, and if each property is searched in the whole list of
/// required ones.
fn vast() -> Value {
    let references: Map<_, _> =
        (0..100).map(|n| (format!("p{n}"), json!({"$ref": "#/d"}))).collect();
    let properties: Map<_, _> = (0..15_500).map(|n| (format!("{n:x}"), json!(0))).collect();
    json!({
        "type": "object",
        "properties": references,
        "d": {"type": "object", "properties": properties, "required": vec![""; 40_000]},
    })
}

/// Reports a changed list whenever the file is another one than before.
fn report_changes(file: &str) {
    let mut known = fs::read(file).ok();
    loop {
        thread::park_timeout(Duration::from_millis(10));
        let now = fs::read(file).ok();
        if now != known {
            known = now;
            let _ = send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
    }
}

/// Creates a file that marks the start of the wait, and waits until the other file exists.
fn wait_for(file: &str) -> String {
    fs::write(format!("{file}.waiting"), "").expect("a test names a file that can be written");
    while fs::metadata(file).is_err() {
        thread::park_timeout(Duration::from_millis(5));
    }
    "it is there".to_owned()
}

fn send(message: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, message)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

fn flood_stderr(kibibytes: usize) {
    let line = "stderr ".repeat(146) + "\n";
    let mut stderr = io::stderr().lock();
    for _ in 0..kibibytes {
        // A gateway that stops reading stderr is the fault that this looks for.
        let _ = stderr.write_all(line.as_bytes());
    }
}
