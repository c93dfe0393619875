//! Recordings of spans without the feature `otlp`: there are none.

use crate::{AttributeValue, Span, TraceContext, span::SpanKind};

/// Beginning of a span. There is no value of this type.
pub(crate) enum SpanStart {}

impl SpanStart {
    pub(crate) fn new(_: SpanKind, _: String) -> Option<Self> {
        None
    }

    pub(crate) fn begin_trace(&mut self) {
        match *self {}
    }

    pub(crate) fn set_parent(&mut self, _: &Span) {
        match *self {}
    }

    pub(crate) fn set_remote_parent(&mut self, _: &TraceContext) {
        match *self {}
    }

    pub(crate) fn link(&mut self, _: &TraceContext) {
        match *self {}
    }

    pub(crate) fn start(self) -> Span {
        match self {}
    }
}

/// A recording. There is no value of this type.
pub(crate) enum Recorded {}

impl Recorded {
    pub(crate) fn is_kept(&self) -> bool {
        match *self {}
    }

    pub(crate) fn set(&self, _: &'static str, _: AttributeValue) {
        match *self {}
    }

    pub(crate) fn rename(&self, _: String) {
        match *self {}
    }

    pub(crate) fn fail(&self, _: &str, _: &str) {
        match *self {}
    }

    pub(crate) fn event(&self, _: &'static str, _: Vec<(&'static str, AttributeValue)>) {
        match *self {}
    }

    pub(crate) fn trace_context(&self) -> TraceContext {
        match *self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }
}
