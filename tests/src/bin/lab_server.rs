//! An MCP server over stdio (2025-11-25) of a case of the attack lab: `lab-server CASE NAME LOG LATER`.
//!
//! It has the tools of the server `NAME` in the file `CASE`; those of `later` as soon as the file `LATER` exists. It
//! appends each call to `LOG`, a line of JSON each: the name of server and tool, and the arguments.
//!
//! | `answer` of a tool | Result |
//! |---|---|
//! | a text | this text |
//! | `[{"when": {…}, "answer": …}]` | the answer of the first rule whose `when` the arguments have |
//! | `{"error": "…"}` | an error of JSON-RPC with this message |
//! | another object | the whole result |
//! | nothing | the text `ok` |
//!
//! `sends` of a tool are messages that the server sends before this answer, each as often as its `times` says (1):
//! notifications, and requests to the gateway. The server waits for no response. It appends the result of a request to
//! `LOG`, as a call of the tool `answers`.

use std::{
    env, fs,
    fs::OpenOptions,
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [case, name, log, later] = arguments.as_slice() else {
        return Err(io::Error::other("usage: lab-server CASE NAME LOG LATER"));
    };
    let case: Value = serde_json::from_str(&fs::read_to_string(case)?)?;
    let servers = case["servers"].as_array().map_or(&[][..], Vec::as_slice);
    let server = servers.iter().find(|server| server["name"] == name.as_str());
    let server = server.ok_or_else(|| io::Error::other("the case has no such server"))?.clone();
    LabServer { server, log: log.into(), later: later.into() }.run()
}

struct LabServer {
    /// Its member of the case.
    server: Value,
    log: PathBuf,
    later: PathBuf,
}

impl LabServer {
    fn run(self) -> io::Result<()> {
        for line in io::stdin().lock().lines() {
            let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
            let Some(id) = message.get("id") else { continue };
            if message.get("method").is_none() {
                self.answered(&message)?;
                continue;
            }
            let (member, value) = match self.respond(&message)? {
                Ok(result) => ("result", result),
                Err(error) => ("error", error),
            };
            send(&json!({"jsonrpc": "2.0", "id": id, member: value}))?;
        }
        Ok(())
    }

    /// Appends the result in a response of the gateway to the log; an error is none.
    fn answered(&self, response: &Value) -> io::Result<()> {
        response.get("result").map_or(Ok(()), |result| self.append("answers", result))
    }

    /// Returns the result or the error of a request.
    fn respond(&self, message: &Value) -> io::Result<Result<Value, Value>> {
        Ok(match message["method"].as_str().unwrap_or_default() {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": self.server["name"], "version": "1"},
            })),
            "ping" => Ok(json!({})),
            "tools/list" => {
                let definitions = self.tools().iter().map(|tool| &tool["definition"]);
                Ok(json!({"tools": definitions.collect::<Vec<_>>()}))
            }
            "tools/call" => return self.call(&message["params"]),
            _ => Err(json!({"code": -32601, "message": "no such method"})),
        })
    }

    /// Returns its tools of this moment.
    fn tools(&self) -> &[Value] {
        let later = self.server["later"].as_array().filter(|_| self.later.exists());
        later.or(self.server["tools"].as_array()).map_or(&[][..], Vec::as_slice)
    }

    fn call(&self, params: &Value) -> io::Result<Result<Value, Value>> {
        let name = params["name"].as_str().unwrap_or_default();
        self.append(name, &params["arguments"])?;
        let tool = self.tools().iter().find(|tool| tool["definition"]["name"] == name);
        let Some(tool) = tool else {
            return Ok(Err(json!({"code": -32602, "message": "no such tool"})));
        };
        for sent in tool["sends"].as_array().into_iter().flatten() {
            let mut message = sent["message"].clone();
            message["jsonrpc"] = "2.0".into();
            for _ in 0..sent["times"].as_u64().unwrap_or(1) {
                send(&message)?;
            }
        }
        Ok(answer(&tool["answer"], &params["arguments"]))
    }

    /// Appends a line to the log.
    fn append(&self, tool: &str, arguments: &Value) -> io::Result<()> {
        let server = self.server["name"].as_str().unwrap_or_default();
        let line = json!({"tool": format!("{server}-{tool}"), "arguments": arguments});
        let mut log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        // In one piece, because all servers of a case write to it.
        log.write_all(format!("{line}\n").as_bytes())
    }
}

/// Writes a message to the gateway.
fn send(message: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, message)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Returns the result or the error that an answer of a case stands for.
fn answer(answer: &Value, arguments: &Value) -> Result<Value, Value> {
    match answer {
        Value::Null => Ok(text("ok")),
        Value::String(words) => Ok(text(words)),
        Value::Array(rules) => {
            let rule = rules.iter().find(|rule| fits(&rule["when"], arguments));
            rule.map_or_else(
                || Ok(text("nothing was found")),
                |rule| self::answer(&rule["answer"], arguments),
            )
        }
        whole => match whole.get("error") {
            Some(message) => Err(json!({"code": -32000, "message": message})),
            None => Ok(whole.clone()),
        },
    }
}

/// Returns whether arguments have all members of `when`.
fn fits(when: &Value, arguments: &Value) -> bool {
    let mut members = when.as_object().into_iter().flatten();
    members.all(|(name, value)| arguments[name] == *value)
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
