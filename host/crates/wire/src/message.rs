//! JSON-RPC messages, read from hostile text.
//!
//! Parameters stay text: no tree is built of what is passed on.

use std::{borrow::Cow, fmt};

use serde_json::Value;

use super::{error::RpcError, id::RpcId, method};
use airlock_json::{self as json, Caps, RawObject, raw};
use airlock_strings::cut;

/// Maximum bytes of the identifier of a client's request, as JSON. Each pending request keeps it,
/// and each message about the request repeats it. Clients send numbers or UUIDs.
pub const MAX_REQUEST_ID_BYTES: usize = 256;
/// Member of `_meta` in which a request of the modern era names its revision (2026-07-28).
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Maximum bytes of the name of a method, and of a key in an error. MCP has no method of more than 50.
const MAX_METHOD_BYTES: usize = 128;

/// A message of a client.
#[derive(Debug)]
pub enum Message {
    /// A request, which gets one response.
    Request(Request),
    /// A notification, which gets none.
    Notification(Notification),
    /// The response to a request of the gateway.
    Response(RpcResponse),
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Its identifier.
    pub id: RpcId,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Params,
}

impl Request {
    /// Returns the text of the request, with the members of its parameters as they were sent.
    pub fn to_text(&self) -> String {
        let method = Value::from(self.method.as_str());
        let params = self.params.members.to_text();
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":{method},"params":{params}}}"#,
            self.id.as_json()
        )
    }
}

/// A notification.
#[derive(Debug)]
pub struct Notification {
    /// Its method.
    pub method: String,
    params: Params,
}

/// Parameters of a message. They are read once, together with the message.
#[derive(Debug, Default)]
pub struct Params {
    members: RawObject,
    meta: RawObject,
    message_bytes: usize,
}

impl Params {
    /// Returns the JSON text of a member; `None` if there is no such member.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members.get(name)
    }

    /// Returns a member that is a string; `None` for any other.
    pub fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).and_then(raw::string)
    }

    /// Returns the JSON text of a member of `_meta`; `None` if there is no such member.
    pub fn meta(&self, name: &str) -> Option<&str> {
        self.meta.get(name)
    }

    /// Returns whether the request is of the modern era: its `_meta` names a revision.
    pub fn names_version(&self) -> bool {
        self.meta(META_VERSION).is_some()
    }

    /// Returns the revision that `_meta` names; `None` if it names none, or not as a string.
    pub fn version(&self) -> Option<Cow<'_, str>> {
        self.meta(META_VERSION).and_then(raw::string)
    }

    /// Returns the length of the message, in bytes: all of it is kept with the parameters. 0 if there are none.
    pub fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Reads the parameters of a message of so many bytes. Fails if they are no object, or if they or `_meta`
    /// have too many members, or one twice.
    fn read(body: &RawObject, message_bytes: usize) -> Result<Self, String> {
        let Some(text) = body.get("params") else { return Ok(Self::default()) };
        let members = body.object("params").filter(|_| text.starts_with('{'));
        let members = members.ok_or("`params` must be an object")?;
        let members = members.map_err(|error| format!("`params`: {error}"))?;
        let meta = members.object("_meta").transpose();
        let meta = meta.map_err(|error| format!("`params`: {error}"))?.unwrap_or_default();
        if let Some(name) = members.repeated().or(meta.repeated()) {
            return Err(format!("`params`: the key {:?} occurs twice", shown(name)));
        }
        Ok(Self { members, meta, message_bytes })
    }
}

/// The response to a request of the gateway.
#[derive(Debug)]
pub struct RpcResponse {
    /// Identifier of the request.
    pub id: RpcId,
    body: RawObject,
}

/// A message that cannot be handled, with the identifier of the request if it could be read.
#[derive(Debug)]
pub struct BadMessage {
    /// Identifier of the request; `None` if it could not be read.
    pub id: Option<RpcId>,
    /// The error for the client.
    pub error: RpcError,
}

impl Message {
    /// Reads a message. Fails if the text is not one JSON object within `caps` that is a message of
    /// JSON-RPC 2.0. Batches are refused: MCP has none since 2025-06-18.
    pub fn read(text: Vec<u8>, caps: &Caps) -> Result<Self, BadMessage> {
        let is_batch = text.trim_ascii_start().starts_with(b"[");
        let bytes = text.len();
        let body = match RawObject::parse(text, caps) {
            Ok((body, _)) => body,
            Err(_) if is_batch => {
                return Err(bad(None, "batches are not supported; send one message"));
            }
            Err(error) => return Err(unreadable(&error)),
        };
        // Programs differ in which of the two they take, so a check in front of the gateway might have
        // seen another method or another tool.
        if let Some(name) = body.repeated() {
            return Err(bad(
                None,
                &format!("the key {:?} occurs twice in the message", shown(name)),
            ));
        }
        let known = body.get("id").and_then(id);
        if body.get("jsonrpc").and_then(raw::string).as_deref() != Some("2.0") {
            return Err(bad(known, "`jsonrpc` must be \"2.0\""));
        }
        let params = Params::read(&body, bytes).map_err(|message| bad(known.clone(), &message))?;
        if body.get("id").is_some() && known.is_none() {
            return Err(bad(None, "`id` must be a string or an integer, of at most 256 bytes"));
        }
        match (method(&body, known.as_ref())?, known) {
            (Some(method), Some(id)) => Ok(Self::Request(Request { id, method, params })),
            (Some(method), None) => Ok(Self::Notification(Notification { method, params })),
            (None, Some(id)) if body.get("result").is_some() != body.get("error").is_some() => {
                Ok(Self::Response(RpcResponse { id, body }))
            }
            (None, id) => Err(bad(id, "found neither a `method` nor a response")),
        }
    }
}

/// Reads an identifier; `None` if it is invalid or too long.
fn id(text: &str) -> Option<RpcId> {
    if text.len() > MAX_REQUEST_ID_BYTES { None } else { serde_json::from_str(text).ok() }
}

/// Returns a key for a message.
fn shown(key: &str) -> String {
    cut(key.to_owned(), MAX_METHOD_BYTES)
}

/// Returns the method; `None` if there is no such member.
fn method(body: &RawObject, id: Option<&RpcId>) -> Result<Option<String>, BadMessage> {
    let Some(text) = body.get("method") else { return Ok(None) };
    match raw::string(text).filter(|method| method.len() <= MAX_METHOD_BYTES) {
        Some(method) => Ok(Some(method.into_owned())),
        None => Err(bad(id.cloned(), "`method` must be a string of at most 128 bytes")),
    }
}

fn bad(id: Option<RpcId>, message: &str) -> BadMessage {
    BadMessage { id, error: RpcError::invalid_request(message) }
}

fn unreadable(error: &json::Error) -> BadMessage {
    let error = match error {
        error if error.is_cap() => RpcError::parse(format!("the message is too large: {error}")),
        error => RpcError::parse(format!("the message is not a JSON object: {error}")),
    };
    BadMessage { id: None, error }
}

impl Notification {
    /// Returns the request that is cancelled, if the notification cancels one.
    pub fn cancelled(&self) -> Option<RpcId> {
        if self.method != method::CANCELLED {
            return None;
        }
        id(self.params.get("requestId")?)
    }
}

impl RpcResponse {
    /// The result: JSON text; `None` if the request failed.
    pub fn result(&self) -> Option<&str> {
        self.body.get("result")
    }
}

/// Returns the text of a notification to the client. `params` must be a tree or JSON text.
pub fn notification(method: &str, params: &impl fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// Returns the text of a request to the client.
pub fn request(id: &RpcId, method: &str, params: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, id.as_json())
}

/// Returns the text of a successful response. `result` must be JSON text.
pub fn response(id: &RpcId, result: &str) -> String {
    const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;
    const MEMBER: &str = r#","result":"#;
    [HEAD, id.as_json(), MEMBER, result, "}"].concat()
}

/// Returns the text of an error response. That to a message without a readable identifier has none,
/// as the schema of MCP requires; JSON-RPC would have `null`.
pub fn failure(id: Option<&RpcId>, error: &RpcError) -> String {
    failure_as_sent(id, &serde_json::to_string(error).unwrap_or_default())
}

/// Returns the text of an error response with the error of another one. `error` must be JSON text.
pub fn failure_as_sent(id: Option<&RpcId>, error: &str) -> String {
    let id = id.map(|id| format!(r#""id":{},"#, id.as_json())).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Message, BadMessage> {
        Message::read(text.into(), &Caps::memory(1 << 20))
    }

    fn refusal(text: &str) -> (i64, String) {
        let bad = read(text).expect_err("it is refused");
        (bad.error.code, bad.error.message)
    }

    #[test]
    fn a_key_that_occurs_twice_in_the_envelope_is_refused() {
        assert!(read(&call(r#""name":"a","_meta":{"x":1}"#)).is_ok());
        for (text, key) in [
            (call_with(r#","method":"tools/list""#), "method"),
            (call_with(r#","\u0069d":2"#), "id"),
            (call_with(r#","params":{},"params":{"name":"b"}"#), "params"),
            (call(r#""name":"a","name":"b""#), "name"),
            (call(r#""_meta":{"x":1,"x":2}"#), "x"),
        ] {
            let (code, message) = refusal(&text);
            assert_eq!(code, -32_600, "{text}");
            assert!(message.contains(&format!("{key:?} occurs twice")), "{message}");
        }
    }

    fn call(params: &str) -> String {
        call_with(&format!(r#","params":{{{params}}}"#))
    }

    fn call_with(rest: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{rest}}}"#)
    }

    #[test]
    fn the_three_kinds_of_message_are_told_apart() {
        let Ok(Message::Request(request)) = read(
            r#" {"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"arguments":{"n":1.0}}}"#,
        ) else {
            panic!("a request")
        };
        assert_eq!((request.id.as_json(), request.method.as_str()), ("\"a\"", "tools/call"));
        assert_eq!(request.params.get("arguments"), Some(r#"{"n":1.0}"#));
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let Ok(Message::Notification(notification)) = read(cancel) else {
            panic!("a notification")
        };
        assert_eq!(notification.cancelled().expect("an id").as_json(), "7");
        let Ok(Message::Response(response)) = read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        else {
            panic!("a response")
        };
        assert_eq!(response.result(), Some("{}"));
        let Ok(Message::Response(response)) = read(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#) else {
            panic!("a response")
        };
        assert_eq!(response.result(), None);
    }

    #[test]
    fn a_request_is_written_as_it_was_read() {
        let text = r#"{"jsonrpc":"2.0","id":"\u0061","method":"t\"c","params":{"n":1.00,"_meta":{"x":[1e2]}}}"#;
        let Ok(Message::Request(request)) = read(text) else { panic!("a request") };
        let written = request.to_text();
        assert_eq!(written, text.replace(r"\u0061", "a"));
        let Ok(Message::Request(again)) = read(&written) else { panic!("a request") };
        assert_eq!(again.to_text(), written);
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let Ok(Message::Request(request)) = read(bare) else { panic!("a request") };
        assert_eq!(request.to_text(), bare.replace('}', r#","params":{}}"#));
    }

    #[test]
    fn a_text_that_is_no_message_is_refused_with_a_code() {
        for (text, code) in [
            ("", -32700),
            ("{", -32700),
            ("7", -32700),
            ("\"x\"", -32700),
            ("[]", -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
            ("{}", -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, -32600),
            (r#"{"jsonrpc":"2.0","result":{}}"#, -32600),
        ] {
            assert_eq!(refusal(text).0, code, "{text}");
        }
    }

    #[test]
    fn identifier_and_method_are_bounded() {
        assert!(read(&sized(MAX_REQUEST_ID_BYTES - 2, 1)).is_ok());
        assert!(refusal(&sized(MAX_REQUEST_ID_BYTES - 1, 1)).1.starts_with("`id` must be"));
        assert!(read(&sized(1, MAX_METHOD_BYTES)).is_ok());
        assert!(refusal(&sized(1, MAX_METHOD_BYTES + 1)).1.starts_with("`method` must be"));
    }

    /// Returns a request whose identifier and method have these lengths, without quotes.
    fn sized(id: usize, method: usize) -> String {
        let id = "x".repeat(id);
        let method = "x".repeat(method);
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"}}"#)
    }

    /// Returns the parameters of a request.
    fn params(text: &str) -> Params {
        match read(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{text}}}"#)) {
            Ok(Message::Request(request)) => request.params,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_of_parameters_and_of_their_metadata_are_found() {
        let params = params(r#"{"a":"\u0062","_meta":{"k":1}}"#);
        assert_eq!((params.string("a").as_deref(), params.meta("k")), (Some("b"), Some("1")));
        assert_eq!((params.get("k"), params.meta("a"), params.string("_meta")), (None, None, None));
        let none = super::tests::params(r#"{"_meta":[]}"#);
        assert_eq!(none.meta("k"), None);
        let many = (0..600).map(|n| format!(r#""{n}":0,"#)).collect::<Vec<_>>().concat();
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{{many}"x":0}}}}"#);
        assert!(refusal(&text).1.starts_with("`params`: "));
    }

    #[test]
    fn a_refused_request_keeps_its_identifier() {
        let bad = read(r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#).expect_err("refused");
        assert_eq!(bad.id.map(|id| id.as_json().to_owned()).as_deref(), Some("3"));
    }
}
