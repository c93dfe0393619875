//! Recordings of spans without the feature `otlp`: there are none.

use crate::{AttributeValue, TraceContext, span::SpanStart};

/// A recording. There is no value of this type.
pub(crate) enum Recorded {}

impl Recorded {
    pub(crate) fn start(_: SpanStart) -> Option<Self> {
        None
    }

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
