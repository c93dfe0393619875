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
        let live = span.is_recording().then(|| LiveSpan { span, attributes: Vec::new() });
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
    /// The SDK would keep both values of an attribute that is set twice.
    attributes: Vec<KeyValue>,
}

impl Recorded {
    pub(crate) fn is_kept(&self) -> bool {
        self.live.lock().is_some()
    }

    pub(crate) fn set(&self, name: &'static str, value: AttributeValue) {
        if let Some(live) = &mut *self.live.lock() {
            live.set(name, value);
        }
    }

    pub(crate) fn rename(&self, name: String) {
        if let Some(live) = &mut *self.live.lock() {
            live.span.update_name(name);
        }
    }

    pub(crate) fn fail(&self, error_type: &str, message: &str) {
        if let Some(live) = &mut *self.live.lock() {
            live.set(names::ERROR_TYPE, cut(error_type.to_owned(), MAX_NAME).into());
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
        if let Some(LiveSpan { mut span, attributes }) = live {
            span.set_attributes(attributes);
            span.end();
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.end();
    }
}

impl LiveSpan {
    fn set(&mut self, name: &'static str, value: AttributeValue) {
        let present = self.attributes.iter_mut().find(|attribute| attribute.key.as_str() == name);
        if let Some(attribute) = present {
            attribute.value = value.into();
        } else if self.attributes.len() < MAX_ELEMENTS {
            self.attributes.push(KeyValue::new(name, value));
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
