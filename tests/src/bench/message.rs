//! The messages of MCP that the benchmark's own clients send and receive, as text.

use serde_json::{Value, json};

/// Era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25, with sessions.
    Legacy,
    /// 2026-07-28, without.
    Modern,
}

impl Era {
    /// All eras, by their discriminants.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// Returns its revision of the protocol.
    pub fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// A request that is sent again and again.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Calls a tool without arguments.
    Call(&'static str),
    /// Lists all tools.
    List,
}

impl Work {
    /// Returns the method of the request.
    pub fn method(self) -> &'static str {
        match self {
            Self::Call(_) => "tools/call",
            Self::List => "tools/list",
        }
    }

    /// Returns the request.
    pub fn request(self, era: Era, id: u64) -> String {
        let meta = match era {
            Era::Legacy => "",
            Era::Modern => {
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"benchmark","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#
            }
        };
        let own = match self {
            Self::Call(tool) => format!(r#""name":"{tool}","arguments":{{}}"#),
            Self::List => String::new(),
        };
        let comma = if meta.is_empty() || own.is_empty() { "" } else { "," };
        let method = self.method();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{own}{comma}{meta}}}}}"#
        )
    }

    /// Panics unless a response is that of a tool that worked, or the whole list of `tools` tools.
    pub fn check(self, response: &[u8], tools: usize) {
        let text = String::from_utf8_lossy(response);
        let response: Value = serde_json::from_slice(response)
            .unwrap_or_else(|error| panic!("{error}: no response: {text}"));
        let result = &response["result"];
        match self {
            Self::Call(_) => assert_eq!(result["content"][0]["text"], "ok", "{text}"),
            Self::List => {
                assert_eq!(result["tools"].as_array().map(Vec::len), Some(tools), "{text}");
            }
        }
    }
}

/// Returns the request that opens a session.
pub fn initialize() -> String {
    let client = json!({"name": "benchmark", "version": "1"});
    let params =
        json!({"protocolVersion": Era::Legacy.version(), "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

/// Notification that follows it.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The part of a message that a client reads: enough to detect a failure, at a negligible cost.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// Identifier of the request.
    pub id: u64,
    /// False for an error of the protocol or of the tool.
    pub is_success: bool,
}

impl Response {
    /// Reads a message; `None` if it has no identifier, as notifications have none.
    pub fn read(message: &[u8]) -> Option<Self> {
        /// Bytes in which the beginning of a response is, also that of one in an event.
        const HEAD: usize = 128;
        /// The longest response that is searched for the error of a tool.
        const SHORT: usize = 4 << 10;
        let head = &message[..message.len().min(HEAD)];
        let start = find(head, br#""id":"#)? + br#""id":"#.len();
        let digits = head[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let id = str::from_utf8(&head[start..start + digits]).ok()?.parse().ok()?;
        let is_result = message[start + digits..].starts_with(br#","result":"#);
        let has_failed = message.len() <= SHORT && find(message, br#""isError":true"#).is_some();
        Some(Self { id, is_success: is_result && !has_failed })
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
