//! One round of calls: divides calls into those to run and those for the caller, and runs them.

use std::{collections::BTreeSet, pin::pin, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::{
    Settings,
    allowance::Allowance,
    calls::ToolCall,
    event::{CallEnded, CallStarted, Emitter, Event, Reports},
    present::{Message, Presenter, ResultSource},
    waiting::Approver,
};
use crate::results::Results;
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
    /// Calls to run.
    run: Vec<ToolCall>,
    /// Calls to refuse, because a limit on their number was reached.
    beyond: Vec<(ToolCall, CallLimit)>,
    /// Number of calls of the gateway's tools in the response, including those that are handed to
    /// the caller.
    found: usize,
}

/// Limits on the number of calls of the gateway's tools.
pub(super) struct CallQuota {
    /// Calls of one response.
    per_answer: usize,
    /// Calls of the request; `None` without a limit.
    in_all: Option<usize>,
    /// Calls of the request that are left.
    left: usize,
}

/// Limit for which a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallLimit {
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
    /// The tool is not the gateway's: it is the caller's own or does not exist.
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
    /// The result with its images as content parts, as JSON text. The model receives it instead of
    /// the text. `None` if there are no images, or the provider does not read them.
    pub(super) parts: Option<String>,
    /// Handle of the unchanged result, for programs; `None` if it is not kept.
    pub(super) raw: Option<String>,
    /// Error of the call; `None` if it succeeded.
    pub(super) error: Option<CallError>,
}

impl CallBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.run.is_empty() && self.beyond.is_empty()
    }

    /// Returns all calls: those to run, then those to refuse.
    pub(super) fn into_calls(self) -> impl Iterator<Item = ToolCall> {
        self.run.into_iter().chain(self.beyond.into_iter().map(|(call, _)| call))
    }
}

impl CallQuota {
    /// Creates the limits of a request that has made no calls.
    pub(super) fn new(per_answer: usize, in_all: Option<usize>) -> Self {
        Self { per_answer, in_all, left: in_all.unwrap_or(usize::MAX) }
    }

    /// Counts a call of a response in which `found` calls come before it. Fails if a limit is
    /// reached.
    fn take(&mut self, found: usize) -> Result<(), CallLimit> {
        if found >= self.per_answer {
            return Err(CallLimit::Answer { limit: self.per_answer });
        }
        match (self.left.checked_sub(1), self.in_all) {
            (None, Some(limit)) => return Err(CallLimit::Request { limit }),
            (left, _) => self.left = left.unwrap_or_default(),
        }
        Ok(())
    }
}

impl CallLimit {
    /// Returns the error of a call in a response with `found` calls.
    fn into_error(self, found: usize) -> CallError {
        let (code, limit, message) = match self {
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
        matches!(
            self.error.as_ref().map(CallError::details),
            Some(Details::Unapproved { .. } | Details::Suspended(_) | Details::InputRequired(_))
        )
    }

    /// Charges the result. If it does not fit, its images become notes; if that does not fit
    /// either, an error replaces it.
    fn within(self, allowance: &Allowance) -> Self {
        if self.is_waiting() {
            return self;
        }
        // An admitted call has an identifier, and its tool may have run.
        let was_made = self.id.is_some();
        match allowance.take(self.parts.as_ref().map_or(self.text.len(), String::len)) {
            Ok(()) => self,
            Err(_) if self.parts.is_some() => Self { parts: None, ..self }.within(allowance),
            Err(exceeded) => Self::refused(self.call, self.id, exceeded.into_call_error(was_made)),
        }
    }
}

/// Returns whether the call is for a tool that the gateway offers. All other calls are handed to
/// the caller.
fn is_offered(call: &ToolCall, offered: &BTreeSet<String>) -> bool {
    call.arguments.is_some() && !call.is_shown && offered.contains(&call.name)
}

/// Returns whether any call is for a tool that the gateway offers. Does not parse arguments.
pub(super) fn any_offered(calls: &[ToolCall], offered: &BTreeSet<String>) -> bool {
    calls.iter().any(|call| is_offered(call, offered))
}

/// Divides calls. Asks the door only about calls of offered tools within the quota, because the
/// door parses arguments, and a tree takes more memory than its text. A call with invalid arguments
/// is not pending: it is refused, and the model can correct it. With `waits`, calls that need an
/// approval are not pending either: each waits for it before it runs.
pub(super) async fn sort(
    calls: Vec<ToolCall>,
    offered: &BTreeSet<String>,
    caller: &Caller,
    waits: bool,
    quota: &mut CallQuota,
) -> SortedCalls {
    let mut sorted = SortedCalls { batch: CallBatch::default(), pending: Vec::new() };
    for call in calls {
        if !is_offered(&call, offered) {
            sorted.pending.push(PendingCall::new(call, PendingReason::NotOffered));
            continue;
        }
        match quota.take(sorted.batch.found) {
            Ok(()) => match reason_to_wait(&call, caller).await {
                Some(PendingReason::NeedsApproval) if waits => sorted.batch.run.push(call),
                Some(reason) => sorted.pending.push(PendingCall::new(call, reason)),
                None => sorted.batch.run.push(call),
            },
            Err(beyond) => sorted.batch.beyond.push((call, beyond)),
        }
        sorted.batch.found += 1;
    }
    sorted
}

/// Returns the reason that a call is pending; `None` if the door admits it or refuses it.
async fn reason_to_wait(call: &ToolCall, caller: &Caller) -> Option<PendingReason> {
    match caller.needs_approval(&call.name) {
        Err(_) => Some(PendingReason::NotOffered),
        Ok(false) => None,
        Ok(true) => arguments(call, caller).await.is_ok().then_some(PendingReason::NeedsApproval),
    }
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
    /// Keeps large results; `None` if results are not shortened.
    pub(super) results: Option<&'a Results>,
    /// True if the provider reads images in the results of tools.
    pub(super) reads_images: bool,
    /// Waits for approvals; `None` if calls that need one are pending.
    pub(super) approver: Option<&'a Approver>,
}

/// Runs calls, at most [`Settings::parallel_calls`] at the same time, and returns the outcomes in
/// the order of the calls. A call beyond a limit ends with an error for the model. Returns shortly
/// after the deadline at the latest.
pub(super) async fn run(batch: CallBatch, conditions: &RoundConditions<'_>) -> Vec<CallOutcome> {
    let RoundConditions { settings, allowance, listener, .. } = conditions;
    let CallBatch { run, beyond, found } = batch;
    let mut ended = Vec::with_capacity(run.len() + beyond.len());
    let running = run.into_iter().map(|call| async move {
        listener.start(&call).await;
        let ended = match reason_to_refuse(allowance) {
            Some(error) => CallOutcome::refused(call, None, error),
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
    // Polled together: the calls and the reports send to the same channel, which serves senders in
    // the order in which they began to wait. One that is not polled would block the others forever.
    tokio::select! {
        () = work => {}
        () = listener.forward() => {}
    }
    for (call, limit) in beyond {
        listener.start(&call).await;
        let refused = CallOutcome::refused(call, None, limit.into_error(found));
        listener.end(&refused).await;
        ended.push(refused.within(allowance));
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
            raw: call.raw.as_object().cloned().unwrap_or_default(),
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
    let arguments = arguments(call, caller).await?;
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
    use serde_json::Value;

    use super::*;
    use crate::{Run, allowance::RESULT_COPIES, tests::SETTINGS};
    use airlock_core::door::{Filter, Origin};
    use airlock_core::memory::Limited;
    use airlock_fakes as fake;
    use airlock_model::MemoryBudget;

    fn caller() -> Caller {
        let (catalog, _) = fake::catalog();
        let view = catalog.snapshot().view(&Filter::none(), None);
        Caller::new(view, Origin::Model, fake::BUDGET)
    }

    fn calls(names: &[&str]) -> Vec<ToolCall> {
        let calls = names.iter().enumerate().map(|(position, name)| ToolCall {
            position,
            choice: 0,
            id: position.to_string(),
            name: (*name).to_owned(),
            arguments: Some("{}".to_owned()),
            is_shown: false,
            raw: Value::Null,
        });
        calls.collect()
    }

    fn positions(calls: &[ToolCall]) -> Vec<usize> {
        calls.iter().map(|call| call.position).collect()
    }

    #[tokio::test]
    async fn the_door_is_asked_about_calls_up_to_the_limit() {
        let caller = caller();
        let offered: BTreeSet<String> = ["desk-echo", "desk-write"].map(str::to_owned).into();
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
            let sorted =
                sort(calls(&names), &offered, &caller, false, &mut CallQuota::new(limit, None))
                    .await;
            let refused: Vec<_> =
                sorted.batch.beyond.iter().map(|(call, _)| call.position).collect();
            assert_eq!((positions(&sorted.batch.run), refused), (run, beyond), "{limit}");
            let waiting: Vec<_> =
                sorted.pending.iter().map(|pending| pending.call.position).collect();
            assert_eq!((waiting, sorted.batch.found), (pending, 6), "{limit}");
        }
    }

    #[tokio::test]
    async fn calls_beyond_the_limit_of_the_request_are_refused_in_every_later_response() {
        let caller = caller();
        let offered: BTreeSet<String> = ["desk-echo"].map(str::to_owned).into();
        let mut quota = CallQuota::new(3, Some(4));
        let answer = CallLimit::Answer { limit: 3 };
        let request = CallLimit::Request { limit: 4 };
        for expected in [
            (vec![0, 2, 3], vec![(4, answer)]),
            (vec![0], vec![(2, request), (3, request), (4, answer)]),
            (vec![], vec![(0, request), (2, request), (3, request), (4, answer)]),
        ] {
            let names = ["desk-echo", "mine", "desk-echo", "desk-echo", "desk-echo"];
            let batch = sort(calls(&names), &offered, &caller, false, &mut quota).await.batch;
            let beyond: Vec<_> =
                batch.beyond.iter().map(|(call, limit)| (call.position, *limit)).collect();
            assert_eq!((positions(&batch.run), beyond), expected);
        }
    }

    #[tokio::test]
    async fn long_arguments_are_not_checked_on_a_worker() {
        let caller = caller();
        let offered = BTreeSet::from(["desk-write".to_owned()]);
        let tenant = caller.view().tenant().clone();
        for (bytes, is_here) in [(10, true), (threads::INLINE_BYTES, false)] {
            let mut call = calls(&["desk-write"]);
            call[0].arguments = Some(format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes)));
            let held = threads::occupy(&tenant).await;
            let mut quota = CallQuota::new(1, None);
            let mut sorting = Box::pin(sort(call, &offered, &caller, false, &mut quota));
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
        let names = ["desk-echo", "desk-fail", "desk-large", "desk-echo", "desk-fail"];
        let offered = names.map(str::to_owned).into();
        let settings = Settings { calls_per_answer: 3, ..SETTINGS };
        let allowance = Arc::new(Allowance::new(&settings, &MemoryBudget::new(memory.clone())));
        let (done, result) = tokio::sync::oneshot::channel();
        let kept = allowance.clone();
        let mut quota = CallQuota::new(settings.calls_per_answer, None);
        let batch = sort(calls(&names), &offered, &caller, false, &mut quota).await.batch;
        let mut events = 0;
        let mut running = Run::new(|emitter| async move {
            let listener = Listener { emitter, reports: Reports::new(None) };
            let conditions = RoundConditions {
                caller: &caller,
                settings: &settings,
                allowance: &allowance,
                listener: &listener,
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
        assert_eq!(codes, [None, Some(HostCode::ToolError), None, refused, refused]);
        let bytes: usize = ended.iter().map(|ended| ended.text.len()).sum();
        assert_eq!(memory.taken(), bytes * RESULT_COPIES);
        drop(kept);
        assert_eq!(memory.taken(), 0);
    }
}
