//! The misbehaving server over HTTP: one request per connection, parsed by hand.
//!
//! | Argument | Behaviour |
//! |---|---|
//! | `refuse=STATUS` | refuses every request with this status, and repeats all its headers |
//! | `flood=KIND` | its event stream is endless, see `flood.rs` |
//! | `retry` | its event stream ends at once and asks the client to reconnect at once |
//!
//! | Tool | Result |
//! |---|---|
//! | `echo` | the headers of the request |
//! | `echo_refused` | the same as a JSON-RPC error, with status 400 |
//! | `huge` | a short result, next to 5 MiB in the same body |
//! | `huge_event` | 5 MiB in one event |
//! | `streams` | number of times that its event stream was opened |
//! | `expire` | forgets all sessions, so that the next request with one gets status 404 |
//! | `calls` | number of calls so far, this one included |

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use crate::flood;

const TOOLS: [&str; 7] =
    ["echo", "echo_refused", "huge", "huge_event", "streams", "expire", "calls"];

/// Serves until the process is killed. Its URL is the first line on stdout.
pub(crate) fn serve(modes: &[String]) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}/mcp", listener.local_addr()?);
    let server = Arc::new(Server { modes: modes.to_vec(), ..Server::default() });
    for stream in listener.incoming() {
        let server = server.clone();
        let stream = stream?;
        // A connection that the client closes is normal: many tests do that.
        thread::spawn(move || drop(server.respond(stream)));
    }
    Ok(())
}

#[derive(Default)]
struct Server {
    modes: Vec<String>,
    streams: AtomicU32,
    calls: AtomicU32,
    /// Number of the session that is known.
    session: AtomicU32,
}

struct Request {
    method: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

impl Request {
    fn read(stream: &TcpStream) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let method = line.split(' ').next().unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length =
            headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Self { method, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
    }
}

impl Server {
    fn mode(&self, name: &str) -> Option<&str> {
        self.modes.iter().find_map(|mode| mode.strip_prefix(name)?.strip_prefix('='))
    }

    fn respond(&self, mut stream: TcpStream) -> io::Result<()> {
        let request = Request::read(&stream)?;
        let headers = format!("you sent {:?}", request.headers);
        if let Some(status) = self.mode("refuse") {
            let challenge =
                format!("www-authenticate: Bearer error=\"{}\"\r\n", headers.replace('"', "'"));
            return answer(&mut stream, status, "text/plain", &challenge, headers.as_bytes());
        }
        let session = self.session.load(Ordering::Relaxed).to_string();
        if request.headers.get("mcp-session-id").is_some_and(|named| *named != session) {
            return answer(&mut stream, "404 Not Found", "text/plain", "", b"");
        }
        if request.method == "GET" {
            return self.events(&mut stream);
        }
        let id = &request.body["id"];
        let result = match request.body["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "misbehaving", "version": "1"},
            }),
            "ping" => json!({}),
            "tools/list" => {
                let tools =
                    TOOLS.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
                json!({"tools": tools})
            }
            "tools/call" => match self.call(&mut stream, &request, &headers)? {
                Some(result) => result,
                None => return Ok(()),
            },
            _ if id.is_null() => return answer(&mut stream, "202 Accepted", "text/plain", "", b""),
            _ => {
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}});
                return answer(
                    &mut stream,
                    "200 OK",
                    "application/json",
                    "",
                    error.to_string().as_bytes(),
                );
            }
        };
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let session = format!("mcp-session-id: {session}\r\n");
        answer(&mut stream, "200 OK", "application/json", &session, body.as_bytes())
    }

    /// Calls a tool. Returns its result; `None` if the response was sent.
    fn call(
        &self,
        stream: &mut TcpStream,
        request: &Request,
        headers: &str,
    ) -> io::Result<Option<Value>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let id = &request.body["id"];
        let sent = match request.body["params"]["name"].as_str().unwrap_or_default() {
            "echo" => return Ok(Some(text(headers))),
            "expire" => {
                self.session.fetch_add(1, Ordering::Relaxed);
                return Ok(Some(text("forgotten")));
            }
            "calls" => return Ok(Some(text(&self.calls.load(Ordering::Relaxed).to_string()))),
            "streams" => return Ok(Some(text(&self.streams.load(Ordering::Relaxed).to_string()))),
            "echo_refused" => {
                let error = json!({"code": -32000, "message": headers});
                let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                answer(stream, "400 Bad Request", "application/json", "", body.as_bytes())
            }
            "huge" => {
                let body = json!({"jsonrpc": "2.0", "id": id, "result": text("little"), "beside": "x".repeat(5 << 20)});
                answer(stream, "200 OK", "application/json", "", body.to_string().as_bytes())
            }
            "huge_event" => {
                let result = text(&"x".repeat(5 << 20));
                let event = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let event = format!("data: {event}\n\n");
                answer(stream, "200 OK", "text/event-stream", "", event.as_bytes())
            }
            other => return Ok(Some(text(&format!("there is no tool {other}")))),
        };
        sent.map(|()| None)
    }

    fn events(&self, stream: &mut TcpStream) -> io::Result<()> {
        self.streams.fetch_add(1, Ordering::Relaxed);
        if self.modes.iter().any(|mode| mode == "retry") {
            return answer(
                stream,
                "200 OK",
                "text/event-stream",
                "",
                b"id: 1\nretry: 0\ndata:\n\n",
            );
        }
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )?;
        match self.mode("flood") {
            Some(kind) => flood::without_end(kind, &mut Events(stream)),
            None => loop {
                thread::park();
            },
        }
    }
}

/// Makes each line an event.
struct Events<'a>(&'a mut TcpStream);

impl io::Write for Events<'_> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let events: Vec<u8> = lines
            .split_inclusive(|byte| *byte == b'\n')
            .flat_map(|line| [b"data: ", line, b"\n"].concat())
            .collect();
        self.0.write_all(&events)?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answer(
    stream: &mut TcpStream,
    status: &str,
    content_type: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}
