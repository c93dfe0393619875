//! Recordings of spans, by the SDK of OpenTelemetry.

use std::sync::Arc;

use opentelemetry::{
    Context, KeyValue,
    trace::{
        Link, Span as _, SpanContext, SpanKind as OtelKind, Status, TraceContextExt as _,
        Tracer as _,
    },
};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};
use parking_lot::{Mutex, RwLock};

use crate::{
    AttributeValue, Span, TraceContext, future, names,
    span::SpanKind,
    value::{MAX_ELEMENTS, MAX_NAME, MAX_TEXT, cut},
};

/// Maximum bytes of the values of a span's attributes. Callers, servers and providers choose some of the
/// texts, such as the names of tools and models, and 2,048 spans that wait for the collector take up to 64 MiB.
const MAX_SPAN_BYTES: usize = 32 << 10;

/// Makes the spans of the process; `None` while nothing is traced.
static TRACER: RwLock<Option<SdkTracer>> = RwLock::new(None);

/// Replaces what makes the spans.
pub(crate) fn trace_with(tracer: Option<SdkTracer>) {
    *TRACER.write() = tracer;
}

/// Beginning of a span.
pub(crate) struct SpanStart {
    tracer: SdkTracer,
    kind: SpanKind,
    name: String,
    /// `None` for a span that begins a trace.
    parent: Option<SpanContext>,
    links: Vec<Link>,
}

impl SpanStart {
    /// Begins a child of the current span, if there is one; `None` if nothing is traced any more.
    pub(crate) fn new(kind: SpanKind, name: String) -> Option<Self> {
        let tracer = TRACER.read().clone()?;
        Some(Self { tracer, kind, name, parent: position(&future::current()), links: Vec::new() })
    }

    pub(crate) fn begin_trace(&mut self) {
        self.parent = None;
    }

    pub(crate) fn set_parent(&mut self, parent: &Span) {
        self.parent = position(parent);
    }

    pub(crate) fn set_remote_parent(&mut self, parent: &TraceContext) {
        self.parent = Some(parent.into());
    }

    pub(crate) fn link(&mut self, other: &TraceContext) {
        self.links.push(Link::with_context(other.into()));
    }

    pub(crate) fn start(self) -> Span {
        let parent = self
            .parent
            .map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        let builder = self.tracer.span_builder(self.name).with_kind(self.kind.into());
        let span = self.tracer.build_with_context(builder.with_links(self.links), &parent);
        let context = span.span_context().clone();
        let live =
            span.is_recording().then(|| LiveSpan { span, attributes: Attributes::default() });
        Span(Some(Arc::new(Recorded { context, live: Mutex::new(live) })))
    }
}

/// Returns the position of a span in its trace; `None` for the empty span.
fn position(span: &Span) -> Option<SpanContext> {
    span.recorded().map(|recorded| recorded.context.clone())
}

/// A recording, until it is dropped.
pub(crate) struct Recorded {
    context: SpanContext,
    /// `None` if the span has ended, or was left out by the sampler.
    live: Mutex<Option<LiveSpan>>,
}

struct LiveSpan {
    span: SdkSpan,
    attributes: Attributes,
}

/// Attributes of a span. The SDK would keep both values of one that is set twice.
#[derive(Default)]
struct Attributes(Vec<(&'static str, AttributeValue)>);

impl Recorded {
    pub(crate) fn is_kept(&self) -> bool {
        self.live.lock().is_some()
    }

    pub(crate) fn set(&self, name: &'static str, value: AttributeValue) {
        if let Some(live) = &mut *self.live.lock() {
            live.attributes.set(name, value);
        }
    }

    pub(crate) fn rename(&self, name: String) {
        if let Some(live) = &mut *self.live.lock() {
            live.span.update_name(name);
        }
    }

    pub(crate) fn fail(&self, error_type: &str, message: &str) {
        if let Some(live) = &mut *self.live.lock() {
            live.attributes.set(names::ERROR_TYPE, cut(error_type.to_owned(), MAX_NAME).into());
            live.span.set_status(Status::error(cut(message.to_owned(), MAX_TEXT)));
        }
    }

    pub(crate) fn event(
        &self,
        name: &'static str,
        attributes: Vec<(&'static str, AttributeValue)>,
    ) {
        if let Some(live) = &mut *self.live.lock() {
            let attributes = attributes.into_iter().take(MAX_ELEMENTS);
            let attributes = attributes.map(|(name, value)| KeyValue::new(name, value)).collect();
            live.span.add_event(name, attributes);
        }
    }

    pub(crate) fn trace_context(&self) -> TraceContext {
        TraceContext::from(&self.context)
    }

    /// Returns the position in the trace, as the SDK has it.
    pub(crate) fn context(&self) -> &SpanContext {
        &self.context
    }

    pub(crate) fn end(&self) {
        // The SDK queues the span outside of the lock.
        let live = self.live.lock().take();
        if let Some(LiveSpan { mut span, attributes: Attributes(attributes) }) = live {
            let attributes = attributes.into_iter();
            span.set_attributes(attributes.map(|(name, value)| KeyValue::new(name, value)));
            span.end();
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.end();
    }
}

impl Attributes {
    /// Sets an attribute. If there are too many, or too many bytes, the span has none of this name.
    fn set(&mut self, name: &'static str, value: AttributeValue) {
        let others = self.0.iter().filter(|(present, _)| *present != name);
        let others: usize = others.map(|(_, value)| value.bytes()).sum();
        if others + value.bytes() > MAX_SPAN_BYTES {
            // A value from before would be wrong.
            self.0.retain(|(present, _)| *present != name);
            return;
        }
        if let Some((_, present)) = self.0.iter_mut().find(|(present, _)| *present == name) {
            *present = value;
        } else if self.0.len() < MAX_ELEMENTS {
            self.0.push((name, value));
        }
    }
}

impl From<SpanKind> for OtelKind {
    fn from(kind: SpanKind) -> Self {
        match kind {
            SpanKind::Server => Self::Server,
            SpanKind::Client => Self::Client,
            SpanKind::Internal => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_beyond_the_bytes_of_a_span_is_dropped_and_one_is_replaced() {
        let mut attributes = Attributes::default();
        let text = "x".repeat(MAX_TEXT);
        let half = vec![text.as_str(); MAX_SPAN_BYTES / MAX_TEXT / 2];
        attributes.set("a", half.as_slice().into());
        attributes.set("b", half.as_slice().into());
        attributes.set("c", true.into());
        assert_eq!(attributes.0.len(), 2);
        attributes.set("b", true.into());
        attributes.set("c", text.as_str().into());
        let kept: [(_, AttributeValue); 3] =
            [("a", half.as_slice().into()), ("b", true.into()), ("c", text.as_str().into())];
        assert_eq!(attributes.0, kept);
        let all = vec![text.as_str(); MAX_SPAN_BYTES / MAX_TEXT];
        attributes.set("c", all.as_slice().into());
        assert_eq!(attributes.0, kept[..2]);
    }
}
