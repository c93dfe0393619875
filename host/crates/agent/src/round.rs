//! One round of calls: runs those of the gateway's tools, at most a certain number at a time.
//!
//! `sorting` divides the calls of a response, and `outcome` has what becomes of each.

mod outcome;
mod sorting;
#[cfg(test)]
mod tests;

use std::pin::pin;

use futures_util::{StreamExt as _, stream};
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};

use self::sorting::{BatchedCall, CallRefusal};
pub(super) use self::{
    outcome::{CallOutcome, PendingCall, PendingReason},
    sorting::{CallBatch, CallQuota, SortedCalls, sort},
};
use super::{
    Settings,
    allowance::Allowance,
    calls::ToolCall,
    event::{CallStarted, Emitter, Event, Reports},
    names::CallableNames,
    present::ResultSource,
    waiting::Approver,
};
use crate::results::Results;
use airlock_core::{
    door::{Admitted, Arguments, Caller, log_call},
    threads,
    tool::{CallError, ToolError},
};

/// Units of what a task may do before it yields, 128, that the error of a call of an unknown tool takes. The tool whose name
/// is most like that of the call is looked for, which takes a millisecond or two, and a response may have 1,024 such calls.
const UNKNOWN_UNITS: u8 = 64;

/// Conditions of a round.
pub(super) struct RoundConditions<'a> {
    pub(super) caller: &'a Caller,
    pub(super) settings: &'a Settings,
    pub(super) allowance: &'a Allowance,
    pub(super) listener: &'a RoundListener,
    pub(super) names: &'a CallableNames,
    /// Keeps large results; `None` if results are not shortened.
    pub(super) results: Option<&'a Results>,
    /// True if the provider reads images in the results of tools.
    pub(super) reads_images: bool,
    /// Waits for approvals; `None` if calls that need one are pending.
    pub(super) approver: Option<&'a Approver>,
}

/// Runs calls, at most [`Settings::parallel_calls`] at the same time, and returns the outcomes in
/// the order of the calls. A refused call ends with an error for the model. Returns shortly after the deadline at the latest.
pub(super) async fn run(batch: CallBatch, conditions: &RoundConditions<'_>) -> Vec<CallOutcome> {
    let RoundConditions { settings, allowance, listener, names, .. } = conditions;
    let CallBatch { calls, found } = batch;
    let mut ended = Vec::with_capacity(calls.len());
    let running = calls.into_iter().map(|BatchedCall { call, refusal, decided }| async move {
        listener.start(&call).await;
        if refusal == Some(CallRefusal::Unknown) {
            for _ in 0..UNKNOWN_UNITS {
                consume_budget().await;
            }
        }
        let refused = refusal.map(|refusal| refusal.into_error(&call.name, found, names));
        let ended = match refused.or_else(|| reason_to_refuse(allowance)) {
            Some(error) => {
                conditions.caller.report_refusal(&call.name, &error);
                CallOutcome::refused(call, None, error)
            }
            None => run_one(call, decided, conditions).await,
        };
        listener.end(&ended).await;
        ended
    });
    let work = async {
        let mut running = pin!(stream::iter(running).buffered(settings.parallel_calls.max(1)));
        // Results are charged as they complete. At most the results that fit, plus those of the
        // parallel calls, are in memory.
        while let Some(next) = running.next().await {
            ended.push(next.within(allowance));
        }
    };
    // Polled together: the calls and the reports share the room for one event, and are served in the order in
    // which they began to wait. One that is not polled would block the others forever.
    tokio::select! {
        () = work => {}
        () = listener.forward() => {}
    }
    ended
}

/// Sender of the events of a request, with the reports of its running calls.
pub(super) struct RoundListener {
    pub(super) emitter: Emitter,
    pub(super) reports: Reports,
}

impl RoundListener {
    /// Forwards the reports of running calls. Never completes.
    async fn forward(&self) {
        loop {
            self.emitter.emit(self.reports.next().await).await;
        }
    }

    async fn start(&self, call: &ToolCall) {
        let started = CallStarted {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone().unwrap_or_default(),
            extra: call.item.extra.clone(),
        };
        self.emitter.emit(Event::Started(Box::new(started))).await;
    }

    async fn end(&self, ended: &CallOutcome) {
        self.reports.flush(&self.emitter).await;
        self.emitter.emit(Event::Ended(Box::new(ended.to_event()))).await;
    }
}

/// Returns the reason that a call is not started; `None` if it may start.
fn reason_to_refuse(allowance: &Allowance) -> Option<CallError> {
    if allowance.is_over() {
        return Some(CallError::cancelled());
    }
    allowance.check().err().map(|exceeded| exceeded.into_call_error(false))
}

async fn run_one(
    call: ToolCall,
    decided: Option<Result<Arguments, CallError>>,
    conditions: &RoundConditions<'_>,
) -> CallOutcome {
    let RoundConditions { caller, allowance, listener, results, reads_images, .. } = conditions;
    // Admitted only now, because the deadline of a call starts on admission and the call may have
    // waited for its turn.
    match admit(&call, decided, conditions).await {
        Ok(admitted) => {
            let source = ResultSource::new(&admitted);
            let id = source.id();
            listener.reports.begin(id, &call.id);
            let begun = Instant::now();
            let result = timeout_at(allowance.deadline, admitted.run())
                .await
                .unwrap_or_else(|_| Err(CallError::cancelled()));
            log_call(&call.name, result.as_ref().err(), begun.elapsed());
            let presenter = source.presenter(caller, *results, *reads_images);
            let bytes = match &result {
                Ok(output) => output.size(),
                Err(error) => error.tool_error().map_or(0, ToolError::size),
            };
            let presenting = threads::read(caller.view().tenant(), bytes, move || {
                CallOutcome::ran(call, id, result, &presenter)
            });
            presenting.await
        }
        Err(error) => CallOutcome::refused(call, None, error),
    }
}

/// Decides a call. One that needs an approval waits for a person's decision first. If guards have `decided` about it,
/// it is made with the arguments that carry their decision: the door does not ask them again, and admits no others.
async fn admit(
    call: &ToolCall,
    decided: Option<Result<Arguments, CallError>>,
    conditions: &RoundConditions<'_>,
) -> Result<Admitted, CallError> {
    let RoundConditions { caller, allowance, approver, .. } = conditions;
    let name = &call.name;
    let checked = match decided {
        Some(decided) => decided,
        None => arguments(call, caller).await,
    };
    let arguments = checked.inspect_err(|error| caller.report_refusal(name, error))?;
    match (caller.admit(name, &arguments), approver) {
        (Err(error), Some(approver)) if error.is_unapproved() => {
            let permit = approver.approval(caller, name, &arguments, allowance).await?;
            caller.admit_approved(name, &arguments, &permit)
        }
        (decided, _) => decided,
    }
}

async fn arguments(call: &ToolCall, caller: &Caller) -> Result<Arguments, CallError> {
    let text = call.arguments.as_deref().unwrap_or_default();
    threads::arguments(caller, &call.name, text).await
}
