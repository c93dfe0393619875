//! Determines the kind of a received JSON-RPC message, without a tree of its contents.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use super::limits::MAX_ID_BYTES;

/// Identifier of a request, which a server chose or sent back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RpcId {
    /// A whole number.
    Number(i64),
    /// Any other text, of at most [`MAX_ID_BYTES`].
    Text(Arc<str>),
}

impl RpcId {
    /// Returns the number of one of the gateway's own requests; `None` if the identifier cannot be
    /// one. Some servers send the number of a request back as a string.
    pub(super) fn own(&self) -> Option<i64> {
        match self {
            Self::Number(id) => Some(*id),
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// Returns the JSON text.
    pub(super) fn to_json(&self) -> String {
        match self {
            Self::Number(id) => id.to_string(),
            Self::Text(text) => serde_json::Value::from(&**text).to_string(),
        }
    }
}

/// Kind of a message, by its members `method` and `id`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'t> {
    /// A result or an error for a request of the gateway.
    Answer(RpcId),
    /// An error that names no request.
    Refusal,
    /// A request, which must be answered.
    Request { id: RpcId, method: Cow<'t, str> },
    /// A notification.
    Notification(Cow<'t, str>),
}

impl<'t> Kind<'t> {
    /// Reads the members that determine the kind of a message. Allocates no more than
    /// [`MAX_ID_BYTES`] and the name of the method, however large and deep the rest is. Returns
    /// `None` if the text is not a JSON object, or if its method or identifier is invalid.
    pub(super) fn of(text: &'t [u8]) -> Option<Self> {
        // serde also accepts an array for a struct.
        if !text.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let Envelope { method, id } = serde_json::from_slice(text).ok()?;
        Some(match (method, id.0) {
            (None, Some(id)) => Self::Answer(id),
            (None, None) => Self::Refusal,
            (Some(method), Some(id)) => Self::Request { id, method },
            (Some(method), None) => Self::Notification(method),
        })
    }
}

/// Returns the request that a `notifications/cancelled` names.
pub(super) fn cancelled(text: &[u8]) -> Option<RpcId> {
    let Cancelled { params } = serde_json::from_slice(text).ok()?;
    params.request_id.0
}

#[derive(Deserialize)]
struct Envelope<'t> {
    #[serde(borrow, default)]
    method: Option<Cow<'t, str>>,
    #[serde(default)]
    id: Id,
}

#[derive(Deserialize)]
struct Cancelled {
    params: CancelledParams,
}

#[derive(Deserialize)]
struct CancelledParams {
    #[serde(default, rename = "requestId")]
    request_id: Id,
}

/// An identifier, if there is one, read without a tree.
#[derive(Default)]
pub(super) struct Id(pub(super) Option<RpcId>);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number, or a string of at most {MAX_ID_BYTES} bytes")
    }

    fn visit_unit<E: Error>(self) -> Result<Id, E> {
        Ok(Id(None))
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Id, E> {
        Ok(Id(Some(RpcId::Number(id))))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Id, E> {
        i64::try_from(id).map_err(E::custom).and_then(|id| self.visit_i64(id))
    }

    fn visit_f64<E: Error>(self, id: f64) -> Result<Id, E> {
        // Above 2^53, a double does not represent a single whole number.
        let is_whole = id.fract() == 0.0 && id.abs() < 9_007_199_254_740_992.0;
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and fits")]
        if is_whole { self.visit_i64(id as i64) } else { Err(E::custom("no whole number")) }
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<Id, E> {
        if id.len() > MAX_ID_BYTES {
            return Err(E::invalid_length(id.len(), &self));
        }
        Ok(Id(Some(RpcId::Text(id.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(id: i64) -> RpcId {
        RpcId::Number(id)
    }

    #[test]
    fn method_and_id_determine_the_kind() {
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#),
            Some(Kind::Answer(number(1)))
        );
        assert_eq!(
            kind(r#" {"result":null,"id":"a"}"#),
            Some(Kind::Answer(RpcId::Text("a".into())))
        );
        assert_eq!(kind(r#"{"id":2.0,"error":{}}"#), Some(Kind::Answer(number(2))));
        assert_eq!(kind(r#"{"id":null,"error":{}}"#), Some(Kind::Refusal));
        assert_eq!(
            kind(r#"{"id":3,"method":"ping"}"#),
            Some(Kind::Request { id: number(3), method: "ping".into() })
        );
        assert_eq!(kind(r#"{"method":"a\/b"}"#), Some(Kind::Notification("a/b".into())));
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

    fn kind(text: &str) -> Option<Kind<'_>> {
        Kind::of(text.as_bytes())
    }

    #[test]
    fn an_identifier_is_bounded_to_the_byte() {
        assert!(Kind::of(message(MAX_ID_BYTES).as_bytes()).is_some());
        assert!(Kind::of(message(MAX_ID_BYTES + 1).as_bytes()).is_none());
    }

    fn message(id_bytes: usize) -> String {
        format!(r#"{{"id":"{}"}}"#, "x".repeat(id_bytes))
    }

    #[test]
    fn a_cancellation_names_its_request() {
        assert_eq!(
            cancelled(br#"{"method":"notifications/cancelled","params":{"requestId":"7"}}"#),
            Some(RpcId::Text("7".into()))
        );
        assert_eq!(cancelled(br#"{"params":{}}"#), None);
        assert_eq!(cancelled(b"{}"), None);
        assert_eq!(RpcId::Text("7".into()).own(), Some(7));
        assert_eq!(RpcId::Text("x7".into()).own(), None);
        assert_eq!(RpcId::Text("x\"7".into()).to_json(), r#""x\"7""#);
    }
}
