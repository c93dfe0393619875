//! Spans: the operations of a trace.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    AttributeValue, TraceContext, future,
    recorded::{Recorded, SpanStart},
    value::{MAX_NAME, cut},
};

/// True while spans are recorded.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// True if callers with a key may continue their own traces.
static TRUSTS_CALLERS: AtomicBool = AtomicBool::new(false);

/// Returns whether spans are recorded.
pub fn is_on() -> bool {
    cfg!(feature = "otlp") && IS_ON.load(Ordering::Relaxed)
}

/// Begins and ends the recording of spans, of the whole process.
#[cfg(feature = "otlp")]
pub(crate) fn switch(is_on: bool, trusts_callers: bool) {
    TRUSTS_CALLERS.store(trusts_callers, Ordering::Relaxed);
    IS_ON.store(is_on, Ordering::Relaxed);
}

/// One operation of a trace. It ends when it is ended, or when the last clone is dropped. It is empty, and
/// everything done with it free, while nothing is traced.
#[derive(Clone, Default)]
pub struct Span(pub(crate) Option<Arc<Recorded>>);

/// The side of an operation from which a span sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Server,
    Client,
    Internal,
}

/// Collects what a span begins with.
#[must_use = "a span begins with `start`"]
pub struct SpanBuilder(Option<SpanStart>);

impl Span {
    /// Begins a span for a request that is served. `name` is not called while nothing is traced.
    pub fn server(name: impl FnOnce() -> String) -> SpanBuilder {
        SpanBuilder::new(SpanKind::Server, name)
    }

    /// Begins a span for a request to another program.
    pub fn client(name: impl FnOnce() -> String) -> SpanBuilder {
        SpanBuilder::new(SpanKind::Client, name)
    }

    /// Begins a span for an operation inside the gateway.
    pub fn internal(name: impl FnOnce() -> String) -> SpanBuilder {
        SpanBuilder::new(SpanKind::Internal, name)
    }

    /// Returns the empty span.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Returns the span of the future that is polled, see [`TraceFuture`](crate::TraceFuture).
    pub fn current() -> Self {
        if is_on() { future::current() } else { Self::none() }
    }

    /// Returns whether anything that is set is kept: false for the empty span, and for one that the sampler
    /// left out.
    pub fn is_recorded(&self) -> bool {
        self.kept().is_some()
    }

    /// Sets an attribute, whose name is one of [`names`](crate::names). A value that is set again is replaced.
    pub fn set(&self, name: &'static str, value: impl Into<AttributeValue>) {
        if let Some(recorded) = self.kept() {
            recorded.set(name, value.into());
        }
    }

    /// Changes the name.
    pub fn rename(&self, name: impl FnOnce() -> String) {
        if let Some(recorded) = self.kept() {
            recorded.rename(cut(name(), MAX_NAME));
        }
    }

    /// Marks the operation as failed. `error_type` is a code of a small set, `message` for people and without
    /// contents of requests.
    pub fn fail(&self, error_type: &str, message: &str) {
        if let Some(recorded) = self.kept() {
            recorded.fail(error_type, message);
        }
    }

    /// Adds an event at this time.
    pub fn event(
        &self,
        name: &'static str,
        attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) {
        if let Some(recorded) = self.kept() {
            recorded.event(name, attributes.into_iter().collect());
        }
    }

    /// Returns the position in the trace, to be passed on to another program or stored; `None` for the empty
    /// span. A span that the sampler left out has one, which says so.
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|recorded| recorded.trace_context())
    }

    /// Ends the span. What is set later is dropped. Without it, the span ends with its last clone.
    pub fn end(&self) {
        if let Some(recorded) = &self.0 {
            recorded.end();
        }
    }

    /// Returns the recording, unless the span is empty.
    #[cfg(feature = "otlp")]
    pub(crate) fn recorded(&self) -> Option<&Recorded> {
        self.0.as_deref()
    }

    fn kept(&self) -> Option<&Recorded> {
        self.0.as_deref().filter(|recorded| recorded.is_kept())
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Span").field(&self.trace_context()).finish()
    }
}

impl SpanBuilder {
    fn new(kind: SpanKind, name: impl FnOnce() -> String) -> Self {
        Self(is_on().then(|| SpanStart::new(kind, cut(name(), MAX_NAME))).flatten())
    }

    /// Makes it a child of `parent` instead of the current span. With the empty span, it begins a trace.
    pub fn child_of(self, parent: &Span) -> Self {
        self.with(|start| start.set_parent(parent))
    }

    /// Makes it a child of a span of another program.
    pub fn remote_parent(self, parent: &TraceContext) -> Self {
        self.with(|start| start.set_remote_parent(parent))
    }

    /// Takes the position that a caller sends along. It becomes the parent if the operator trusts callers and
    /// this one has a key, else only a link: a parent decides which requests are traced, and under which id.
    pub fn of_caller(self, sent: Option<TraceContext>, has_key: bool) -> Self {
        let is_trusted = has_key && TRUSTS_CALLERS.load(Ordering::Relaxed);
        match sent {
            Some(parent) if is_trusted => self.remote_parent(&parent),
            Some(other) => self.root().link(&other),
            None => self.root(),
        }
    }

    /// Adds a link to a span of another trace.
    pub fn link(self, other: &TraceContext) -> Self {
        self.with(|start| start.link(other))
    }

    /// Begins a trace.
    pub fn root(self) -> Self {
        self.with(SpanStart::begin_trace)
    }

    /// Starts the span.
    #[must_use = "a span ends when it is dropped"]
    pub fn start(self) -> Span {
        self.0.map_or_else(Span::none, SpanStart::start)
    }

    fn with(mut self, change: impl FnOnce(&mut SpanStart)) -> Self {
        if let Some(start) = &mut self.0 {
            change(start);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_nothing_is_traced_no_name_is_made_and_spans_are_empty() {
        let span = Span::server(|| panic!("a name")).root().start();
        assert!(!span.is_recorded());
        assert!(span.trace_context().is_none());
        span.set("a", "b");
        span.rename(|| panic!("a name"));
        span.end();
    }
}
