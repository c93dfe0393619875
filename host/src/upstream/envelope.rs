//! Determines the kind of a received JSON-RPC message, without a tree of its contents.

use std::{borrow::Cow, fmt};

use rmcp::model::RequestId;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use super::limits::MAX_ID_BYTES;

/// Kind of a message, by its members `method` and `id`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'t> {
    /// A result or an error for a request of the gateway.
    Answer(RequestId),
    /// An error that names no request.
    Refusal,
    /// A request, which must be answered.
    Request { id: RequestId, method: Cow<'t, str> },
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
pub(super) fn cancelled(text: &[u8]) -> Option<RequestId> {
    let Cancelled { params } = serde_json::from_slice(text).ok()?;
    params.request_id.0
}

/// Returns an identifier in the form used for comparison, in which a string that is a number
/// becomes the number: some servers send the number of a request back as a string.
pub(super) fn comparable(id: &RequestId) -> RequestId {
    match id {
        RequestId::String(text) => text.parse().map_or_else(|_| id.clone(), RequestId::Number),
        RequestId::Number(_) => id.clone(),
    }
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

/// An identifier, if there is one. `rmcp` parses it through a tree, which a server could make as
/// large as a message.
#[derive(Default)]
struct Id(Option<RequestId>);

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
        Ok(Id(Some(RequestId::Number(id))))
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
        Ok(Id(Some(RequestId::String(id.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    #[test]
    fn method_and_id_determine_the_kind() {
        let kind = |text: &'static str| Kind::of(text.as_bytes());
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#),
            Some(Kind::Answer(number(1)))
        );
        assert_eq!(
            kind(r#" {"result":null,"id":"a"}"#),
            Some(Kind::Answer(RequestId::String("a".into())))
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

    #[test]
    fn an_identifier_is_bounded_to_the_byte() {
        let message = |bytes: usize| format!(r#"{{"id":"{}"}}"#, "x".repeat(bytes));
        assert!(Kind::of(message(MAX_ID_BYTES).as_bytes()).is_some());
        assert!(Kind::of(message(MAX_ID_BYTES + 1).as_bytes()).is_none());
    }

    #[test]
    fn a_cancellation_names_its_request() {
        assert_eq!(
            cancelled(br#"{"method":"notifications/cancelled","params":{"requestId":"7"}}"#),
            Some(RequestId::String("7".into()))
        );
        assert_eq!(cancelled(br#"{"params":{}}"#), None);
        assert_eq!(cancelled(b"{}"), None);
        assert_eq!(comparable(&RequestId::String("7".into())), number(7));
        assert_eq!(comparable(&RequestId::String("x7".into())), RequestId::String("x7".into()));
    }
}
