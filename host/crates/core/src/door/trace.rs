//! The span of each call: of one that runs, waits for an approval or is refused. It names the tool, its
//! client, the key and the decision, and has neither arguments nor results.

use std::sync::Arc;

use super::{Membership, Origin, report::Report};
use crate::{
    run::Position,
    tool::{CallError, Tool, ToolOutput},
};
use airlock_telemetry::{Span, names};

/// Decision about a call that ran.
const ALLOWED: &str = "allowed";
/// Decision about a call that did not run.
const REFUSED: &str = "refused";
/// Decision about a call that waits for a person, or for answers of its caller.
const PENDING: &str = "pending";

/// Span of a call that runs. Dropping it before [`Self::end`] means that the call was cancelled.
pub(super) struct CallSpan {
    span: Span,
    /// Reports of the call; `None` if the span is not recorded or has ended.
    report: Option<Arc<Report>>,
    is_refused: bool,
}

/// The parts of an admitted call that its span names.
pub(super) struct TracedCall<'c> {
    pub(super) tool: &'c Tool,
    pub(super) origin: &'c Origin,
    pub(super) membership: &'c Membership,
    /// Name of the reason for which it was admitted.
    pub(super) permission: &'static str,
    pub(super) place: Option<&'c RunPlace>,
}

/// Place of a call in the run of its script.
pub(super) struct RunPlace {
    /// Identifier of the run; `None` if it is not kept.
    pub(super) run: Option<String>,
    pub(super) position: Position,
}

impl CallSpan {
    /// Starts the span of a call that is about to run, below the one in which it was decided.
    pub(super) fn begin(parent: &Span, call: &TracedCall<'_>, report: &Arc<Report>) -> Self {
        let span = start(parent, Some(call.tool.name.as_str()));
        let is_recorded = span.is_recorded();
        if is_recorded {
            describe(&span, call.tool.name.as_str(), call.origin, call.membership);
            span.set(names::AIRLOCK_DECISION_REASON, call.permission);
            if let Some(client) = &call.tool.client {
                span.set(names::AIRLOCK_CLIENT, client.as_str());
            }
            if let Some(place) = call.place {
                if let Some(run) = &place.run {
                    span.set(names::AIRLOCK_RUN_ID, run);
                }
                span.set(names::AIRLOCK_RUN_POSITION, place.position.to_string());
            }
        }
        Self { span, report: is_recorded.then(|| report.clone()), is_refused: false }
    }

    /// The span, under which the call runs.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Takes note that a control refuses the call. Returns the error of the call.
    pub(super) fn refuse(&mut self, refusal: CallError) -> CallError {
        self.is_refused = true;
        refusal.not_begun()
    }

    /// Ends the span with the result of the call.
    pub(super) fn end(mut self, result: &Result<ToolOutput, CallError>) {
        self.close(result.as_ref().err());
    }

    fn close(&mut self, error: Option<&CallError>) {
        let Some(report) = self.report.take() else { return };
        if let Some(fuel) = report.fuel() {
            self.span.set(names::AIRLOCK_FUEL, fuel);
        }
        if let Some(bytes) = report.memory_bytes() {
            self.span.set(names::AIRLOCK_MEMORY_BYTES, bytes);
        }
        if let Some(run) = report.run() {
            self.span.set(names::AIRLOCK_RUN_ID, &*run);
        }
        match error {
            Some(error) if self.is_refused => decide(&self.span, REFUSED, Some(error)),
            Some(error) if waits(error) => decide(&self.span, PENDING, None),
            error => decide(&self.span, ALLOWED, error),
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if self.report.is_some() {
            self.close(Some(&CallError::cancelled()));
        }
    }
}

/// Records the span of a call that the door does not admit: it is refused, or needs an approval first.
/// `offered` is the name of the tool on the wire; `None` if no such tool is offered.
pub(super) fn not_admitted(
    offered: Option<&str>,
    name: &str,
    origin: &Origin,
    membership: &Membership,
    error: Option<&CallError>,
) {
    let span = start(&Span::current(), offered);
    if !span.is_recorded() {
        return;
    }
    // The name may be of any length: no such tool may exist.
    let name = &name[..name.floor_char_boundary(airlock_strings::MAX_NAME_BYTES)];
    describe(&span, name, origin, membership);
    match error {
        Some(error) if !waits(error) => decide(&span, REFUSED, Some(error)),
        _ => decide(&span, PENDING, None),
    }
}

/// Starts the span of a call of a tool; `None` for one that is not offered, because callers and models invent names.
fn start(parent: &Span, offered: Option<&str>) -> Span {
    let span = Span::internal(|| match offered {
        Some(tool) => format!("{} {tool}", names::EXECUTE_TOOL),
        None => names::EXECUTE_TOOL.to_owned(),
    });
    span.child_of(parent).start()
}

fn describe(span: &Span, name: &str, origin: &Origin, membership: &Membership) {
    span.set(names::GEN_AI_OPERATION_NAME, names::EXECUTE_TOOL);
    span.set(names::GEN_AI_TOOL_NAME, name);
    span.set(names::AIRLOCK_ORIGIN, origin.name());
    if let Some(key) = &membership.key {
        span.set(names::AIRLOCK_KEY_ID, key.as_str());
    }
}

/// Ends a span with the decision about its call, and the error of a call that failed. Its message is left
/// out: it may repeat arguments and results.
fn decide(span: &Span, decision: &'static str, error: Option<&CallError>) {
    span.set(names::AIRLOCK_DECISION, decision);
    if let Some(error) = error {
        // Tools choose their own codes, which are no small set.
        let is_of_tool = error.tool_error().is_some();
        span.fail(if is_of_tool { names::TOOL_ERROR } else { error.code().as_str() }, "");
    }
    span.end();
}

/// Returns whether a call with this error can go on once a person, or its caller, has decided.
fn waits(error: &CallError) -> bool {
    error.is_unapproved() || error.suspension().is_some() || error.input_required().is_some()
}
