//! The kinds of requests.

use std::sync::atomic::{AtomicU64, Ordering};

use airlock_tests::OPERATOR;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::place::Place;

/// A kind of request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A call of a tool that stores nothing.
    Call,
    /// A call of a tool that reads an entry of its store.
    ReadEntry,
    /// A call of a tool that writes some.
    WriteEntry,
    /// A script with one call, whose journal is stored.
    Script,
    /// A response that is stored.
    Response,
    /// A request of an MCP client to the gateway that has its session.
    Session,
    /// The same through another gateway.
    Forwarded,
    /// The list of virtual keys.
    ListKeys,
    /// A new virtual key.
    MakeKey,
}

/// All kinds, in the order of the report.
pub(crate) const KINDS: [Kind; 9] = [
    Kind::Call,
    Kind::ReadEntry,
    Kind::WriteEntry,
    Kind::Script,
    Kind::Response,
    Kind::Session,
    Kind::Forwarded,
    Kind::ListKeys,
    Kind::MakeKey,
];

/// Number of keys that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

const EXECUTE: &str = "/v1/mcp/tool/execute";
const KEYS: &str = "/api/governance/virtual-keys";

impl Kind {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Call => "a call that stores nothing",
            Self::ReadEntry => "a call that reads an entry",
            Self::WriteEntry => "a call that writes entries",
            Self::Script => "a script with one call",
            Self::Response => "a stored response",
            Self::Session => "an MCP request in its session",
            Self::Forwarded => "the same, forwarded",
            Self::ListKeys => "management: the list of keys",
            Self::MakeKey => "management: a new key",
        }
    }

    pub(crate) fn request(self, place: &Place) -> RequestBuilder {
        let count = json!({"text": "a b"});
        match self {
            Self::Call => execute(place, "text-word_count", &count),
            Self::ReadEntry => execute(place, "notes-read_note", &json!({"id": 1})),
            Self::WriteEntry => execute(place, "notes-add_note", &json!({"title": "Milk"})),
            Self::Script => {
                let code = "result = text.word_count(text = 'a b')['words']";
                execute(place, "executeToolCode", &json!({"code": code}))
            }
            Self::Response => {
                let body = json!({"model": "scripted/m", "input": "hi", "store": true});
                place.gateway.request(Method::POST, "/v1/responses").json(&body)
            }
            Self::Session => place.session.request("tools/list", json!({})).builder(),
            Self::Forwarded => place.forwarded.request("tools/list", json!({})).builder(),
            Self::ListKeys => operate(place, Method::GET),
            Self::MakeKey => {
                let name = format!("key-{}", MADE.fetch_add(1, Ordering::Relaxed));
                let key = json!({"name": name, "is_active": false, "mcp_configs": []});
                operate(place, Method::POST).json(&key)
            }
        }
    }
}

fn execute(place: &Place, tool: &str, arguments: &Value) -> RequestBuilder {
    let call = json!({"id": "c", "function": {"name": tool, "arguments": arguments.to_string()}});
    place.gateway.request(Method::POST, EXECUTE).json(&call)
}

fn operate(place: &Place, method: Method) -> RequestBuilder {
    place.gateway.request(method, KEYS).bearer_auth(OPERATOR)
}
