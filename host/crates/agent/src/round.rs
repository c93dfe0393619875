//! One round of calls: divides calls into those to run and those for the caller, and runs them.

use std::{pin::pin, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::{
    Settings,
    allowance::Allowance,
    calls::ToolCall,
    event::{CallEnded, CallStarted, Emitter, Event, Reports},
    names::{CallOwner, CallableNames},
    present::{Message, Presenter, ResultSource},
    waiting::Approver,
};
use crate::results::Results;
use airlock_conversation::Part;
use airlock_core::door::log_call;
use airlock_core::{
    door::{Admitted, Arguments, CallId, Caller},
    threads,
    tool::{
        CallError, CallFailure, Details, ErrorKind, HostCode, InputRequired, ReachedLimit,
        Suspension, ToolOutput,
    },
};

/// The calls of a response, divided.
pub(super) struct SortedCalls {
    /// Calls to run or refuse.
    pub(super) batch: CallBatch,
    /// Calls to hand to the caller.
    pub(super) pending: Vec<PendingCall>,
}

/// The calls of one response that the gateway handles, in the order of the response.
#[derive(Default)]
pub(super) struct CallBatch {
    /// Calls to run, or to refuse for a reason.
    calls: Vec<(ToolCall, Option<CallRefusal>)>,
    /// Number of calls in the response that are not the caller's own, including those that are handed
    /// to the caller.
    found: usize,
}

/// Limits on the number of calls that are not the caller's own.
pub(super) struct CallQuota {
    /// Calls of one response.
    per_answer: usize,
    /// Calls of the request; `None` without a limit.
    in_all: Option<usize>,
    /// Calls of the request that are left.
    left: usize,
}

/// Reason that a call is refused before the door decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallRefusal {
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

/// A call that is handed to the caller.
pub(super) struct PendingCall {
    pub(super) call: ToolCall,
    pub(super) reason: PendingReason,
}

/// Reason that a call is handed to the caller.
pub(super) enum PendingReason {
    /// The tool needs approval.
    NeedsApproval,
    /// The call ran and reached a nested call that needs approval. It cannot be resumed.
    Stopped {
        /// Tool that needs approval.
        tool: String,
        /// Arguments of the nested call, as JSON text.
        arguments: String,
    },
    /// The script that ran reached a call that needs a decision, which resumes its run.
    Suspended(Box<Suspension>),
    /// The tool waits for answers of the caller.
    InputRequired(Box<InputRequired>),
    /// The tool is not the gateway's: it is the caller's own, or, after the last round or without tools
    /// of the gateway, may not exist.
    NotOffered,
    /// The gateway would run the call, but the maximum number of rounds is reached.
    DepthLimit,
}

/// A call that was run, or refused with a message to the model.
pub(super) struct CallOutcome {
    pub(super) call: ToolCall,
    /// Identifier at the door; `None` if the call was refused before the door admitted it.
    pub(super) id: Option<CallId>,
    /// Text of the result that the model receives.
    pub(super) text: Arc<str>,
    /// The result with its images as content parts. The model receives it instead of
    /// the text. `None` if there are no images, or the provider does not read them.
    pub(super) parts: Option<Vec<Part>>,
    /// Handle of the unchanged result, for programs; `None` if it is not kept.
    pub(super) raw: Option<String>,
    /// Error of the call; `None` if it succeeded.
    pub(super) error: Option<CallError>,
}

impl CallBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns all calls.
    pub(super) fn into_calls(self) -> impl Iterator<Item = ToolCall> {
        self.calls.into_iter().map(|(call, _)| call)
    }
}

impl CallQuota {
    /// Creates the limits of a request that has made no calls.
    pub(super) fn new(per_answer: usize, in_all: Option<usize>) -> Self {
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
    fn into_error(self, name: &str, found: usize, names: &CallableNames) -> CallError {
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

impl PendingCall {
    pub(super) fn new(call: ToolCall, reason: PendingReason) -> Self {
        Self { call, reason }
    }
}

impl PendingReason {
    /// Returns whether the loop ended because no further round was permitted.
    pub(super) fn is_depth_limit(pending: &[PendingCall]) -> bool {
        pending.iter().any(|pending| matches!(pending.reason, Self::DepthLimit))
    }
}

impl CallOutcome {
    /// Ends a call that was not made, or whose result does not fit.
    fn refused(call: ToolCall, id: Option<CallId>, error: CallError) -> Self {
        let Message { text, parts } = Message::refusal(&call.name, &error);
        Self { call, id, text: text.into(), parts, raw: None, error: Some(error) }
    }

    /// Ends a call and presents its result.
    fn ran(
        call: ToolCall,
        id: CallId,
        result: Result<ToolOutput, CallError>,
        presenter: &Presenter<'_>,
    ) -> Self {
        let raw = presenter.keep(&result);
        let (Message { text, parts }, error) = match result {
            Ok(output) => (presenter.output(output), None),
            Err(error) => (presenter.error(&call.name, &error), Some(error)),
        };
        Self { call, id: Some(id), text: text.into(), parts, raw, error }
    }

    fn to_event(&self) -> CallEnded {
        CallEnded {
            tool_call_id: self.call.id.clone(),
            name: self.call.name.clone(),
            text: self.text.clone(),
            error: self.error.as_ref().map(CallFailure::from),
        }
    }

    /// Returns whether the call waits for the caller and so has no result.
    pub(super) fn is_waiting(&self) -> bool {
        self.to_pending().is_some()
    }

    /// Returns the call if it waits for an approval or for answers of the caller.
    pub(super) fn to_pending(&self) -> Option<PendingCall> {
        let error = self.error.as_ref()?;
        let reason = match error.details() {
            Details::Unapproved { arguments } => {
                let tool = error.tool().map_or_else(String::new, ToString::to_string);
                PendingReason::Stopped { tool, arguments: arguments.clone() }
            }
            Details::Suspended(suspension) => PendingReason::Suspended(suspension.clone()),
            Details::InputRequired(asked) => PendingReason::InputRequired(asked.clone()),
            _ => return None,
        };
        Some(PendingCall::new(self.call.clone(), reason))
    }

    /// Charges the result. If it does not fit, its images become notes; if that does not fit
    /// either, an error replaces it.
    fn within(self, allowance: &Allowance) -> Self {
        if self.is_waiting() {
            return self;
        }
        // An admitted call has an identifier, and its tool may have run.
        let was_made = self.id.is_some();
        let parts = self.parts.as_ref().map(|parts| parts.iter().map(Part::bytes).sum::<usize>());
        match allowance.take(parts.unwrap_or(self.text.len())) {
            Ok(()) => self,
            Err(_) if self.parts.is_some() => Self { parts: None, ..self }.within(allowance),
            Err(exceeded) => Self::refused(self.call, self.id, exceeded.into_call_error(was_made)),
        }
    }
}

/// Divides calls. Asks the door only about calls of offered tools within the quota, because the
/// door parses arguments, and a tree takes more memory than its text. A call with invalid arguments
/// is not pending: it is refused, and the model can correct it. So is a call of an unknown tool. With
/// `waits`, calls that need an approval are not pending either: each waits for it before it runs.
pub(super) async fn sort(
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
        if refusal.is_none() && !waits && needs_approval(&call, caller).await {
            caller.report_wait(&call.name);
            sorted.pending.push(PendingCall::new(call, PendingReason::NeedsApproval));
        } else {
            sorted.batch.calls.push((call, refusal));
        }
    }
    sorted
}

/// Returns whether the door requires an approval; false if it admits the call or refuses it.
async fn needs_approval(call: &ToolCall, caller: &Caller) -> bool {
    let Ok(is_needed) = caller.needs_approval(&call.name) else { return false };
    // A policy may require one that the configuration does not.
    if !is_needed && !caller.view().has_policy() {
        return false;
    }
    let Ok(arguments) = arguments(call, caller).await else { return false };
    caller.call_needs_approval(&call.name, &arguments).is_ok_and(|needed| needed)
}

async fn arguments(call: &ToolCall, caller: &Caller) -> Result<Arguments, CallError> {
    let text = call.arguments.as_deref().unwrap_or_default();
    threads::arguments(caller, &call.name, text).await
}

/// Conditions of a round.
pub(super) struct RoundConditions<'a> {
    pub(super) caller: &'a Caller,
    pub(super) settings: &'a Settings,
    pub(super) allowance: &'a Allowance,
    pub(super) listener: &'a Listener,
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
    let running = calls.into_iter().map(|(call, refusal)| async move {
        listener.start(&call).await;
        let refused = refusal.map(|refusal| refusal.into_error(&call.name, found, names));
        let ended = match refused.or_else(|| reason_to_refuse(allowance)) {
            Some(error) => {
                conditions.caller.report_refusal(&call.name, &error);
                CallOutcome::refused(call, None, error)
            }
            None => run_one(call, conditions).await,
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
pub(super) struct Listener {
    pub(super) emitter: Emitter,
    pub(super) reports: Reports,
}

impl Listener {
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
        self.emitter.emit(Event::Started(started)).await;
    }

    async fn end(&self, ended: &CallOutcome) {
        self.reports.flush(&self.emitter).await;
        self.emitter.emit(Event::Ended(ended.to_event())).await;
    }
}

/// Returns the reason that a call is not started; `None` if it may start.
fn reason_to_refuse(allowance: &Allowance) -> Option<CallError> {
    if allowance.is_over() {
        return Some(CallError::cancelled());
    }
    allowance.check().err().map(|exceeded| exceeded.into_call_error(false))
}

async fn run_one(call: ToolCall, conditions: &RoundConditions<'_>) -> CallOutcome {
    let RoundConditions { caller, allowance, listener, results, reads_images, .. } = conditions;
    // Admitted only now, because the deadline of a call starts on admission and the call may have
    // waited for its turn.
    match admit(&call, conditions).await {
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
            CallOutcome::ran(call, id, result, &presenter)
        }
        Err(error) => CallOutcome::refused(call, None, error),
    }
}

/// Decides a call. One that needs an approval waits for a person's decision first.
async fn admit(call: &ToolCall, conditions: &RoundConditions<'_>) -> Result<Admitted, CallError> {
    let RoundConditions { caller, allowance, approver, .. } = conditions;
    let name = &call.name;
    let checked = arguments(call, caller).await;
    let arguments = checked.inspect_err(|error| caller.report_refusal(name, error))?;
    match (caller.admit(name, &arguments), approver) {
        (Err(error), Some(approver)) if error.is_unapproved() => {
            let permit = approver.approval(caller, name, arguments.as_str(), allowance).await?;
            caller.admit_approved(name, &arguments, &permit)
        }
        (decided, _) => decided,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{Run, allowance::RESULT_COPIES, tests::SETTINGS};
    use airlock_conversation::ToolCall as ToolCallItem;
    use airlock_core::door::{Filter, Origin};
    use airlock_core::memory::Limited;
    use airlock_fakes as fake;
    use airlock_model::MemoryBudget;

    fn caller() -> Caller {
        let (catalog, _) = fake::catalog();
        let view = catalog.snapshot().view(&Filter::none(), None);
        Caller::new(view, Origin::Model, fake::BUDGET)
    }

    /// Returns calls of the caller's tool `mine`, of the unknown tool `other`, and of the gateway's.
    fn calls(names: &[&str]) -> Vec<ToolCall> {
        let calls = names.iter().enumerate().map(|(position, name)| ToolCall {
            position,
            choice: 0,
            id: position.to_string(),
            name: (*name).to_owned(),
            arguments: Some("{}".to_owned()),
            owner: match *name {
                "mine" => CallOwner::Caller,
                "other" => CallOwner::Unknown,
                _ => CallOwner::Gateway,
            },
            item: ToolCallItem::function(position.to_string(), *name, "{}"),
        });
        calls.collect()
    }

    /// Returns the positions of the calls to run, and those of the refused ones with the reason.
    fn divided(batch: &CallBatch) -> (Vec<usize>, Vec<(usize, CallRefusal)>) {
        let calls = batch.calls.iter();
        let run = calls.clone().filter(|(_, refusal)| refusal.is_none());
        let refused = calls.filter_map(|(call, refusal)| Some((call.position, (*refusal)?)));
        (run.map(|(call, _)| call.position).collect(), refused.collect())
    }

    #[tokio::test]
    async fn the_door_is_asked_about_calls_up_to_the_limit() {
        let caller = caller();
        // The door reports that every call of `desk-write` needs approval, if it is asked.
        let names = [
            "mine",
            "desk-write",
            "desk-echo",
            "desk-echo",
            "desk-write",
            "mine",
            "desk-write",
            "desk-echo",
        ];
        for (limit, run, beyond, pending) in [
            (0, vec![], vec![1, 2, 3, 4, 6, 7], vec![0, 5]),
            (1, vec![], vec![2, 3, 4, 6, 7], vec![0, 1, 5]),
            (3, vec![2, 3], vec![4, 6, 7], vec![0, 1, 5]),
            (6, vec![2, 3, 7], vec![], vec![0, 1, 4, 5, 6]),
        ] {
            let mut quota = CallQuota::new(limit, None);
            let sorted = sort(calls(&names), &caller, false, &mut quota).await;
            let (found, refused) = divided(&sorted.batch);
            let refused: Vec<_> = refused.into_iter().map(|(position, _)| position).collect();
            assert_eq!((found, refused), (run, beyond), "{limit}");
            let waiting: Vec<_> =
                sorted.pending.iter().map(|pending| pending.call.position).collect();
            assert_eq!((waiting, sorted.batch.found), (pending, 6), "{limit}");
        }
    }

    #[tokio::test]
    async fn a_call_of_an_unknown_tool_is_refused_in_its_place_and_counts() {
        let names = ["other", "desk-echo", "mine", "other", "desk-echo"];
        let mut quota = CallQuota::new(3, None);
        let sorted = sort(calls(&names), &caller(), false, &mut quota).await;
        let beyond = CallRefusal::Answer { limit: 3 };
        let refused = vec![(0, CallRefusal::Unknown), (3, CallRefusal::Unknown), (4, beyond)];
        assert_eq!(divided(&sorted.batch), (vec![1], refused));
        let pending: Vec<_> = sorted.pending.iter().map(|pending| pending.call.position).collect();
        assert_eq!((pending, sorted.batch.found), (vec![2], 4));
    }

    #[tokio::test]
    async fn calls_beyond_the_limit_of_the_request_are_refused_in_every_later_response() {
        let caller = caller();
        let mut quota = CallQuota::new(3, Some(4));
        let answer = CallRefusal::Answer { limit: 3 };
        let request = CallRefusal::Request { limit: 4 };
        for expected in [
            (vec![0, 2, 3], vec![(4, answer)]),
            (vec![0], vec![(2, request), (3, request), (4, answer)]),
            (vec![], vec![(0, request), (2, request), (3, request), (4, answer)]),
        ] {
            let names = ["desk-echo", "mine", "desk-echo", "desk-echo", "desk-echo"];
            let batch = sort(calls(&names), &caller, false, &mut quota).await.batch;
            assert_eq!(divided(&batch), expected);
        }
    }

    #[tokio::test]
    async fn long_arguments_are_not_checked_on_a_worker() {
        let caller = caller();
        let tenant = caller.view().tenant().clone();
        for (bytes, is_here) in [(10, true), (threads::INLINE_BYTES, false)] {
            let mut call = calls(&["desk-write"]);
            call[0].arguments = Some(format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes)));
            let held = threads::occupy(&tenant).await;
            let mut quota = CallQuota::new(1, None);
            let mut sorting = Box::pin(sort(call, &caller, false, &mut quota));
            let at_once = sorting.as_mut().now_or_never();
            assert_eq!(at_once.is_some(), is_here, "{bytes}");
            drop(held);
            let sorted = if let Some(sorted) = at_once { sorted } else { sorting.await };
            assert!(matches!(sorted.pending[0].reason, PendingReason::NeedsApproval), "{bytes}");
        }
    }

    #[tokio::test]
    async fn the_results_of_run_and_of_refused_calls_are_charged() {
        let caller = caller();
        let memory = Limited::new(1 << 20);
        let names = ["desk-echo", "other", "desk-large", "desk-echo", "desk-fail"];
        let settings = Settings { calls_per_answer: 3, ..SETTINGS };
        let allowance = Arc::new(Allowance::new(&settings, &MemoryBudget::new(memory.clone())));
        let (done, result) = tokio::sync::oneshot::channel();
        let kept = allowance.clone();
        let mut quota = CallQuota::new(settings.calls_per_answer, None);
        let batch = sort(calls(&names), &caller, false, &mut quota).await.batch;
        let mut events = 0;
        let mut running = Run::new(|emitter| async move {
            let listener = Listener { emitter, reports: Reports::new(None) };
            let conditions = RoundConditions {
                caller: &caller,
                settings: &settings,
                allowance: &allowance,
                listener: &listener,
                names: &CallableNames::default(),
                results: None,
                reads_images: false,
                approver: None,
            };
            let ended = super::super::round::run(batch, &conditions).await;
            done.send(ended).ok();
        });
        while running.next().await.is_some() {
            events += 1;
        }
        assert_eq!(events, 2 * names.len(), "each call starts and ends");
        let ended = result.await.expect("it ran");
        let codes: Vec<_> =
            ended.iter().map(|ended| ended.error.as_ref().map(CallError::code)).collect();
        let refused = Some(HostCode::TooManyCalls);
        assert_eq!(codes, [None, Some(HostCode::NotFound), None, refused, refused]);
        let bytes: usize = ended.iter().map(|ended| ended.text.len()).sum();
        assert_eq!(memory.taken(), bytes * RESULT_COPIES);
        drop(kept);
        assert_eq!(memory.taken(), 0);
    }
}
