//! Divides the calls of a response into those to run, those to refuse and those for the caller.

use super::{PendingCall, PendingReason, arguments};
use crate::{
    calls::ToolCall,
    names::{CallOwner, CallableNames},
};
use airlock_core::{
    door::{Arguments, Caller},
    tool::{CallError, ErrorKind, HostCode, ReachedLimit},
};

/// The calls of a response, divided.
pub(crate) struct SortedCalls {
    /// Calls to run or refuse.
    pub(crate) batch: CallBatch,
    /// Calls to hand to the caller.
    pub(crate) pending: Vec<PendingCall>,
}

/// The calls of one response that the gateway handles, in the order of the response.
#[derive(Default)]
pub(crate) struct CallBatch {
    /// Calls to run or to refuse.
    pub(super) calls: Vec<BatchedCall>,
    /// Number of calls in the response that are not the caller's own, including those that are handed
    /// to the caller.
    pub(super) found: usize,
}

/// A call to run, or to refuse.
pub(super) struct BatchedCall {
    pub(super) call: ToolCall,
    /// Reason to refuse it; `None` to run it.
    pub(super) refusal: Option<CallRefusal>,
    /// Its arguments with the decision of the guards about them, with which it is admitted; `None` if no guard was
    /// asked yet.
    pub(super) decided: Option<Result<Arguments, CallError>>,
}

/// Limits on the number of calls that are not the caller's own.
pub(crate) struct CallQuota {
    /// Calls of one response.
    per_answer: usize,
    /// Calls of the request; `None` without a limit.
    in_all: Option<usize>,
    /// Calls of the request that are left.
    left: usize,
}

/// Reason that a call is refused before the door decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallRefusal {
    /// No tool that the model was offered has the name.
    Unknown,
    /// Limit on the calls of one response.
    Answer {
        /// The limit.
        limit: usize,
    },
    /// Limit on the calls of the request.
    Request {
        /// The limit.
        limit: usize,
    },
}

impl CallBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns all calls.
    pub(crate) fn into_calls(self) -> impl Iterator<Item = ToolCall> {
        self.calls.into_iter().map(|batched| batched.call)
    }
}

impl CallQuota {
    /// Creates the limits of a request that has made no calls.
    pub(crate) fn new(per_answer: usize, in_all: Option<usize>) -> Self {
        Self { per_answer, in_all, left: in_all.unwrap_or(usize::MAX) }
    }

    /// Counts a call of a response in which `found` calls come before it. Fails if a limit is
    /// reached.
    fn take(&mut self, found: usize) -> Result<(), CallRefusal> {
        if found >= self.per_answer {
            return Err(CallRefusal::Answer { limit: self.per_answer });
        }
        match (self.left.checked_sub(1), self.in_all) {
            (None, Some(limit)) => return Err(CallRefusal::Request { limit }),
            (left, _) => self.left = left.unwrap_or_default(),
        }
        Ok(())
    }
}

impl CallRefusal {
    /// Returns the error of a call of the tool `name`, in a response with `found` calls.
    pub(super) fn into_error(self, name: &str, found: usize, names: &CallableNames) -> CallError {
        let (code, limit, message) = match self {
            Self::Unknown => return names.not_found(name),
            Self::Answer { limit } => (
                HostCode::TooManyCalls,
                limit,
                format!(
                    "your answer has {found} tool calls, more than the limit of {limit}; this call was not made: ask for it in your next answer"
                ),
            ),
            Self::Request { limit } => (
                HostCode::MaxToolCalls,
                limit,
                format!(
                    "this request may make {limit} tool calls in all, and they were made; this call was not made: answer without it"
                ),
            ),
        };
        CallError::new(ErrorKind::LimitReached, code, message)
            .with_limit(ReachedLimit::Amount(limit as u64))
    }
}

/// Divides calls. Asks the door only about calls of offered tools within the quota, because the
/// door parses arguments, and a tree takes more memory than its text. A call with invalid arguments
/// is not pending: it is refused, and the model can correct it. So is a call of an unknown tool. With
/// `waits`, calls that need an approval are not pending either: each waits for it before it runs.
pub(crate) async fn sort(
    calls: Vec<ToolCall>,
    caller: &Caller,
    waits: bool,
    quota: &mut CallQuota,
) -> SortedCalls {
    let mut sorted = SortedCalls { batch: CallBatch::default(), pending: Vec::new() };
    for call in calls {
        if call.owner == CallOwner::Caller {
            sorted.pending.push(PendingCall::new(call, PendingReason::NotOffered));
            continue;
        }
        let refusal = match quota.take(sorted.batch.found) {
            Err(beyond) => Some(beyond),
            Ok(()) => (call.owner == CallOwner::Unknown).then_some(CallRefusal::Unknown),
        };
        sorted.batch.found += 1;
        let may_wait = refusal.is_none() && !waits;
        let read = if may_wait { read_arguments(&call, caller).await } else { None };
        if let Some(Ok(arguments)) = &read
            && caller.call_needs_approval(&call.name, arguments).is_ok_and(|needed| needed)
        {
            caller.report_wait(&call.name);
            let pending = PendingCall::new(call, PendingReason::NeedsApproval);
            let pending = pending.after(caller.context()).asked_by(arguments.questions());
            sorted.pending.push(pending);
        } else {
            // Without guards, they are read again: until the call runs, its text is in memory once.
            let decided = read.filter(|_| caller.view().has_guards());
            sorted.batch.calls.push(BatchedCall { call, refusal, decided });
        }
    }
    sorted
}

/// Returns the arguments of a call that may need an approval, as the guards leave them; `None` if the door admits or
/// refuses the call whatever they are.
async fn read_arguments(call: &ToolCall, caller: &Caller) -> Option<Result<Arguments, CallError>> {
    let is_needed = caller.needs_approval(&call.name).ok()?;
    // A policy or a guard may require one that the configuration does not.
    if !is_needed && !caller.view().may_ask() {
        return None;
    }
    Some(arguments(call, caller).await)
}
