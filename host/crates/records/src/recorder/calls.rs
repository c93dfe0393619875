//! The control of calls of tools.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures_util::future::BoxFuture;

use super::{ADMISSION, Recorder};
use crate::{
    event::{CallCode, CallEnd, CallFacts, CallResult, Event, RefusedCall},
    queue::{NoRoom, Queue},
};
use airlock_core::{
    door::{Admitted, CallControl, Chain, ControlledCall, Refusal},
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
        // One that has no room is counted as lost.
        let _ = self.queue.push(Event::Refused(Box::new(RefusedCall::new(refusal))));
    }
}

impl Recorder {
    /// Records the admission of a call that does not wait for it.
    fn admit(&self, facts: Arc<CallFacts>) {
        let has_effects = facts.has_effects;
        let pushed = self.queue.push(Event::Admitted(facts));
        if has_effects && (pushed.is_err() || self.queue.is_failing()) {
            self.queue.metrics.unrecorded.inc();
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
        if self.queue.is_failing() {
            return Err(self.refuse_unrecorded(&facts));
        }
        let written = match self.queue.push_awaited(Event::Admitted(facts.clone())) {
            Ok(written) => written,
            Err(NoRoom) => return Err(self.refuse_unrecorded(&facts)),
        };
        // Dropped together with this future, it records that the call was cancelled.
        let mut running = self.running(facts, chain);
        running.has_begun = false;
        if self.is_written(written, ADMISSION).await {
            running.has_begun = true;
            running.begun = Instant::now();
            return Ok(Box::new(running));
        }
        self.queue.metrics.refused.inc();
        let error = CallError::records_unavailable();
        running.finish(CallStatus::Refused, Some(CallCode::from(&error)), None);
        Err(error)
    }

    /// Records that a call is refused whose admission is in no log.
    fn refuse_unrecorded(&self, facts: &CallFacts) -> CallError {
        self.queue.metrics.refused.inc();
        let error = CallError::records_unavailable();
        let refused = RefusedCall::unrecorded(facts, &error);
        // One that has no room is counted as lost.
        let _ = self.queue.push(Event::Refused(Box::new(refused)));
        error
    }

    fn running(&self, facts: Arc<CallFacts>, chain: Chain) -> RunningCall {
        let parts = Some(RunningParts { facts, chain });
        RunningCall { parts, queue: self.queue.clone(), begun: Instant::now(), has_begun: true }
    }
}

/// A call that runs.
struct RunningCall {
    /// `None` once its end is recorded.
    parts: Option<RunningParts>,
    queue: Arc<Queue>,
    begun: Instant,
    /// False while it waits until its admission is recorded, and if its source has not begun it.
    has_begun: bool,
}

struct RunningParts {
    facts: Arc<CallFacts>,
    chain: Chain,
}

impl RunningCall {
    /// Records the end.
    fn finish(mut self, status: CallStatus, code: Option<CallCode>, result: Option<CallResult>) {
        self.record(status, code, result);
    }

    fn record(&mut self, status: CallStatus, code: Option<CallCode>, result: Option<CallResult>) {
        let Some(RunningParts { facts, chain }) = self.parts.take() else { return };
        let reporter = chain.reporter();
        let end = CallEnd {
            facts,
            at: SystemTime::now(),
            status,
            has_begun: self.has_begun,
            code,
            duration: self.begun.elapsed(),
            fuel: reporter.fuel(),
            run: reporter.run(),
            result,
        };
        // One that has no room is counted as lost.
        let _ = self.queue.push(Event::Ended(Box::new(end)));
    }
}

impl ControlledCall for RunningCall {
    fn end(mut self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        match result {
            Ok(output) => {
                // A copy is made for the writer alone, and only if it has room.
                let has_room = self.queue.has_room(output.size());
                let output = has_room.then(|| CallResult::Output(Box::new(output.clone())));
                self.finish(CallStatus::Success, None, output);
            }
            Err(error) => {
                self.has_begun = !error.has_not_begun();
                let text = error.tool_error().map(|_| error.to_text());
                let text = text.filter(|text| self.queue.has_room(text.len()));
                let text = text.map(|text| CallResult::Error(text.into()));
                self.finish(status(error), Some(CallCode::from(error)), text);
            }
        }
    }
}

/// Returns the state of a call that has failed.
fn status(error: &CallError) -> CallStatus {
    match error.code() {
        HostCode::LimitReached | HostCode::BudgetExceeded | HostCode::RecordsUnavailable
            if error.has_not_begun() =>
        {
            CallStatus::Refused
        }
        HostCode::Cancelled => CallStatus::Cancelled,
        _ => CallStatus::Error,
    }
}

impl Drop for RunningCall {
    /// Records that the call was cancelled, unless its end is recorded.
    fn drop(&mut self) {
        self.record(CallStatus::Cancelled, Some(CallCode::Host(HostCode::Cancelled)), None);
    }
}
