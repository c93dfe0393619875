//! Determines the kind of a received JSON-RPC message, without a tree of its contents.

use std::borrow::Cow;

use serde::Deserialize;

use super::id::RpcId;

/// Kind of a message, by its members `method` and `id`.
#[derive(Debug, PartialEq, Eq)]
pub enum MessageKind<'t> {
    /// A result or an error for a request of the gateway.
    Answer(RpcId),
    /// An error that names no request.
    Refusal,
    /// A request, which must be answered.
    Request {
        /// Its identifier.
        id: RpcId,
        /// Its method.
        method: Cow<'t, str>,
    },
    /// A notification.
    Notification(Cow<'t, str>),
}

impl<'t> MessageKind<'t> {
    /// Reads the members that determine the kind of a message. Allocates no more than an identifier
    /// and the name of the method, however large and deep the rest is. Returns `None` if the text is
    /// not a JSON object, or if its method or identifier is invalid.
    pub fn read(text: &'t [u8]) -> Option<Self> {
        // serde also accepts an array for a struct.
        if !text.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let Envelope { method, id } = serde_json::from_slice(text).ok()?;
        Some(match (method, id) {
            (None, Some(id)) => Self::Answer(id),
            (None, None) => Self::Refusal,
            (Some(method), Some(id)) => Self::Request { id, method },
            (Some(method), None) => Self::Notification(method),
        })
    }
}

/// Returns the request that a `notifications/cancelled` names.
pub fn cancelled(text: &[u8]) -> Option<RpcId> {
    let Cancelled { params } = serde_json::from_slice(text).ok()?;
    params.request_id
}

#[derive(Deserialize)]
struct Envelope<'t> {
    #[serde(borrow)]
    method: Option<Cow<'t, str>>,
    id: Option<RpcId>,
}

#[derive(Deserialize)]
struct Cancelled {
    params: CancelledParams,
}

#[derive(Deserialize)]
struct CancelledParams {
    #[serde(rename = "requestId")]
    request_id: Option<RpcId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_id_determine_the_kind() {
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#),
            Some(MessageKind::Answer(1.into()))
        );
        assert_eq!(kind(r#" {"result":null,"id":"a"}"#), Some(MessageKind::Answer(string("a"))));
        assert_eq!(kind(r#"{"id":2.0,"error":{}}"#), Some(MessageKind::Answer(2.into())));
        assert_eq!(kind(r#"{"id":null,"error":{}}"#), Some(MessageKind::Refusal));
        assert_eq!(
            kind(r#"{"id":3,"method":"ping"}"#),
            Some(MessageKind::Request { id: 3.into(), method: "ping".into() })
        );
        assert_eq!(kind(r#"{"method":"a\/b"}"#), Some(MessageKind::Notification("a/b".into())));
        for text in [
            "",
            "[]",
            r#"["ping",1]"#,
            "1",
            "{",
            r#"{"id":[1]}"#,
            r#"{"id":{}}"#,
            r#"{"id":1.5}"#,
            r#"{"id":1e300}"#,
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
        assert_eq!(kind(r#"{"id":1,"id":2}"#), None);
        assert_eq!(kind(r#"{"method":7}"#), None);
    }

    fn kind(text: &str) -> Option<MessageKind<'_>> {
        MessageKind::read(text.as_bytes())
    }

    fn string(id: &str) -> RpcId {
        serde_json::from_value(id.into()).expect("it is short")
    }

    #[test]
    fn a_cancellation_names_its_request() {
        assert_eq!(
            cancelled(br#"{"method":"notifications/cancelled","params":{"requestId":"7"}}"#),
            Some(string("7"))
        );
        assert_eq!(cancelled(br#"{"params":{}}"#), None);
        assert_eq!(cancelled(b"{}"), None);
    }
}
