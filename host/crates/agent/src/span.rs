//! The span of a request whose model is offered tools of the gateway: its rounds.

use super::Failure;
use airlock_telemetry::{Span, names};

/// Name of the gateway as an agent.
const AGENT: &str = "airlock";

/// Span of a request. Dropping it before [`Self::end`] means that the request was cancelled.
pub(super) struct AgentSpan {
    /// Empty for a request without tools.
    own: Span,
    /// The span under which the request runs.
    under: Span,
}

impl AgentSpan {
    /// Starts the span of a request. One whose model is offered no tools has none.
    pub(super) fn begin(offers: bool) -> Self {
        if !offers {
            return Self { own: Span::none(), under: Span::current() };
        }
        let own = Span::internal(|| format!("{} {AGENT}", names::INVOKE_AGENT)).start();
        own.set(names::GEN_AI_OPERATION_NAME, names::INVOKE_AGENT);
        own.set(names::GEN_AI_AGENT_NAME, AGENT);
        Self { under: own.clone(), own }
    }

    /// The span; the empty one for a request without tools.
    pub(super) fn own(&self) -> &Span {
        &self.own
    }

    /// The span under which the request runs: that of the caller's request, if it has none of its own.
    pub(super) fn under(&self) -> &Span {
        &self.under
    }

    /// Ends the span.
    pub(super) fn end(self, failure: Option<&Failure>) {
        if let Some(failure) = failure {
            self.own.fail(failure.code(), "");
        }
        self.own.end();
    }
}

impl Drop for AgentSpan {
    fn drop(&mut self) {
        // It has ended otherwise, and drops what is set.
        self.own.fail(names::CANCELLED, "");
        self.own.end();
    }
}
