//! The control of calls of tools.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures_util::future::BoxFuture;

use super::{ADMISSION, CallPrice, Recorder};
use crate::{
    event::{
        CallCode, CallEnd, CallFacts, CallResult, RecordEvent, RefusedCall, ResultContent,
        ShortText,
    },
    queues::LogQueues,
};
use airlock_core::{
    door::{Admitted, CallControl, Chain, ControlledCall, Permission, Refusal},
    tool::{CallError, HostCode, ToolOutput},
};
use airlock_store::call_log::CallStatus;

impl CallControl for Recorder {
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        let facts = Arc::new(CallFacts::new(call));
        let chain = call.chain().clone();
        if facts.has_effects && self.is_strict() {
            return Box::pin(self.admit_recorded(facts, chain));
        }
        self.admit(facts.clone());
        let running: Box<dyn ControlledCall> = Box::new(self.running(facts, chain));
        Box::pin(std::future::ready(Ok(running)))
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        self.record_refused(RefusedCall::new(refusal));
    }

    fn call_refused(&self, call: &Admitted, refusal: &CallError) {
        self.record_refused(RefusedCall::not_made(&CallFacts::new(call), refusal));
    }
}

impl Recorder {
    /// Records the admission of a call that does not wait for it.
    fn admit(&self, facts: Arc<CallFacts>) {
        let has_effects = facts.has_effects;
        let pushed = self.logs.push(RecordEvent::Admitted(facts));
        if has_effects && (pushed.is_err() || self.logs.is_failing()) {
            self.metrics.unrecorded.inc();
            self.report_unrecorded();
        }
    }

    /// Waits until the admission of a call is in every log. Fails if it cannot be written: the call is not made
    /// then, and its refusal is recorded once that is possible.
    async fn admit_recorded(
        &self,
        facts: Arc<CallFacts>,
        chain: Chain,
    ) -> Result<Box<dyn ControlledCall>, CallError> {
        if self.logs.is_failing() {
            return Err(self.refuse_unrecorded(&facts));
        }
        let pending = self.logs.push_awaited(RecordEvent::Admitted(facts.clone()));
        if pending.is_in_none() {
            return Err(self.refuse_unrecorded(&facts));
        }
        // Dropped together with this future, it records that the call was cancelled.
        let mut running = self.running(facts, chain);
        running.has_begun = false;
        if pending.written(ADMISSION).await {
            running.has_begun = true;
            running.begun = Instant::now();
            return Ok(Box::new(running));
        }
        self.metrics.refused.inc();
        let error = CallError::records_unavailable();
        running.finish(CallStatus::Refused, Some(CallCode::from(&error)), None);
        Err(error)
    }

    /// Records that a call is refused whose admission is in no log.
    fn refuse_unrecorded(&self, facts: &CallFacts) -> CallError {
        self.metrics.refused.inc();
        let error = CallError::records_unavailable();
        self.record_refused(RefusedCall::not_made(facts, &error));
        error
    }

    fn record_refused(&self, refused: RefusedCall) {
        // One that has no room is counted as lost.
        let _ = self.logs.push(RecordEvent::Refused(Box::new(refused)));
    }

    fn running(&self, facts: Arc<CallFacts>, chain: Chain) -> OpenCall {
        OpenCall {
            parts: Some(RunningParts { facts, chain }),
            logs: self.logs.clone(),
            price: self.price.clone(),
            begun: Instant::now(),
            has_begun: true,
        }
    }
}

/// A call that runs.
struct OpenCall {
    /// `None` once its end is recorded.
    parts: Option<RunningParts>,
    logs: Arc<LogQueues>,
    price: CallPrice,
    begun: Instant,
    /// False while it waits until its admission is recorded, and if its source has not begun it.
    has_begun: bool,
}

struct RunningParts {
    facts: Arc<CallFacts>,
    chain: Chain,
}

impl OpenCall {
    /// Records the end.
    fn finish(mut self, status: CallStatus, code: Option<CallCode>, result: Option<ResultContent>) {
        self.record(status, code, result);
    }

    fn record(
        &mut self,
        status: CallStatus,
        code: Option<CallCode>,
        result: Option<ResultContent>,
    ) {
        let Some(RunningParts { facts, chain }) = self.parts.take() else { return };
        let reporter = chain.reporter();
        let end = CallEnd {
            at: SystemTime::now(),
            status,
            code,
            duration: self.begun.elapsed(),
            cost: self.cost(&facts),
            fuel: reporter.fuel(),
            memory_bytes: reporter.memory_bytes(),
            run: reporter.run().map(|run| ShortText::new(&run)),
            guards: reporter.guard_acts(),
            result: result.map(|content| Arc::new(CallResult::new(content))),
            facts,
        };
        // One that has no room is counted as lost.
        let _ = self.logs.push(RecordEvent::Ended(Box::new(end)));
    }

    /// Returns the cost of the call in millionths of a US dollar, as limits count it: one that ran costs its price
    /// whatever its result, and one that continues another costs nothing more.
    fn cost(&self, facts: &CallFacts) -> Option<u64> {
        let CallFacts { tool, permission, .. } = facts;
        let is_paid = self.has_begun && *permission != Permission::Continuation;
        if !is_paid || tool.client.is_none() {
            return None;
        }
        (self.price)(tool.full_name.as_str())
    }
}

impl ControlledCall for OpenCall {
    fn end(mut self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        match result {
            Ok(output) => {
                // A copy is made for the writers alone, and only if it has room.
                let has_room = self.logs.has_room(output.size());
                let output = has_room.then(|| ResultContent::Output(Box::new(output.clone())));
                self.finish(CallStatus::Success, None, output);
            }
            Err(error) => {
                self.has_begun = !error.has_not_begun();
                let text = error.tool_error().map(|_| error.to_text());
                let text = text.filter(|text| self.logs.has_room(text.len()));
                let text = text.map(|text| ResultContent::Error(text.into()));
                self.finish(status(error), Some(CallCode::from(error)), text);
            }
        }
    }
}

/// Returns the state of a call that has failed.
fn status(error: &CallError) -> CallStatus {
    if error.code() == HostCode::Cancelled { CallStatus::Cancelled } else { CallStatus::Error }
}

impl Drop for OpenCall {
    /// Records that the call was cancelled, unless its end is recorded.
    fn drop(&mut self) {
        self.record(CallStatus::Cancelled, Some(CallCode::Host(HostCode::Cancelled)), None);
    }
}
