//! The position in a trace, in the header `traceparent` of W3C Trace Context. Its other header, `tracestate`, is not
//! read: it is data of the caller's vendors, which would reach every server.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Length of a `traceparent` of version 00, in bytes.
const TRACEPARENT_BYTES: usize = 55;
/// Flag of a trace that is recorded. Other flags are dropped.
const SAMPLED: u8 = 1;

/// The position of a span in a trace, as it is exchanged with other programs. As text, it is the `traceparent`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    is_sampled: bool,
}

/// Error of a text that is no position in a trace.
#[derive(Debug, thiserror::Error)]
#[error(
    "expected a traceparent of W3C Trace Context, such as 00-<32 hex digits>-<16 hex digits>-01"
)]
pub struct BadTraceContext;

impl TraceContext {
    /// Parses the value of the header `traceparent`; `None` if it is not valid.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let next = traceparent.as_bytes().get(TRACEPARENT_BYTES);
        // The end of one of a later version is unknown, and not read.
        let is_whole = next.is_none_or(|next| *next == b'-' && !traceparent.starts_with("00"));
        let head = traceparent.get(..TRACEPARENT_BYTES).filter(|_| is_whole)?;
        let mut parts = head.split('-');
        let [version] = hex::<1>(parts.next()?)?;
        let trace_id = hex::<16>(parts.next()?)?;
        let span_id = hex::<8>(parts.next()?)?;
        let [flags] = hex::<1>(parts.next()?)?;
        let is_valid = version != 0xff && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & SAMPLED != 0 })
    }

    /// Returns the value of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{}-{}-{flags:02x}", Hex(&self.trace_id), Hex(&self.span_id))
    }

    /// Returns the id of the trace, in hexadecimal digits.
    pub fn trace_id(&self) -> String {
        Hex(&self.trace_id).to_string()
    }

    /// Returns the id of the span, in hexadecimal digits.
    pub fn span_id(&self) -> String {
        Hex(&self.span_id).to_string()
    }
}

#[cfg(feature = "otlp")]
impl From<&opentelemetry::trace::SpanContext> for TraceContext {
    fn from(context: &opentelemetry::trace::SpanContext) -> Self {
        Self {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            is_sampled: context.is_sampled(),
        }
    }
}

#[cfg(feature = "otlp")]
impl From<&TraceContext> for opentelemetry::trace::SpanContext {
    fn from(context: &TraceContext) -> Self {
        use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

        SpanContext::new(
            TraceId::from_bytes(context.trace_id),
            SpanId::from_bytes(context.span_id),
            TraceFlags::default().with_sampled(context.is_sampled),
            true,
            TraceState::default(),
        )
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for TraceContext {
    type Error = BadTraceContext;

    fn try_from(text: String) -> Result<Self, BadTraceContext> {
        // A gateway of an earlier version has stored a `tracestate` behind it.
        let parent = text.split_once(' ').map_or(text.as_str(), |(parent, _)| parent);
        Self::parse(parent).ok_or(BadTraceContext)
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        context.to_string()
    }
}

/// Parses `N` bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

/// Bytes in hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_traceparent_comes_back_as_it_was() {
        let context = TraceContext::parse(PARENT).expect("a position");
        assert_eq!(context.traceparent(), PARENT);
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id(), "b7ad6b7169203331");
    }

    #[test]
    fn flags_but_for_the_sampled_one_are_dropped() {
        let other = PARENT.replace("-01", "-fe");
        let context = TraceContext::parse(&other).expect("a position");
        assert!(context.traceparent().ends_with("-00"));
    }

    #[test]
    fn a_later_version_may_be_longer_and_is_passed_on_as_version_00() {
        for end in ["extra".to_owned(), "x".repeat(4_096)] {
            let later = format!("cc{}-{end}", &PARENT[2..]);
            let context = TraceContext::parse(&later).expect("a position");
            assert_eq!(context.traceparent(), PARENT);
        }
    }

    #[test]
    fn other_texts_are_no_position() {
        for text in [
            "",
            &PARENT[..54],
            &format!("{PARENT}-extra"),
            &format!("{PARENT}0"),
            &PARENT.to_uppercase(),
            &PARENT.replace("b7ad6b7169203331", "0000000000000000"),
            &PARENT.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &format!("ff{}", &PARENT[2..]),
            &PARENT.replace('-', "é"),
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_position_is_stored_as_text_and_read_without_an_older_state() {
        let context = TraceContext::parse(PARENT).expect("a position");
        let stored = serde_json::to_string(&context).expect("text");
        assert_eq!(stored, format!("\"{PARENT}\""));
        for stored in [stored, format!("\"{PARENT} a=1,b=x y\"")] {
            assert_eq!(serde_json::from_str::<TraceContext>(&stored).expect("it"), context);
        }
        assert!(serde_json::from_str::<TraceContext>("\"00-xyz\"").is_err());
    }
}
