use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time,
};

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{sorting::CallRefusal, *};
use crate::{Run, allowance::RESULT_COPIES, names::CallOwner, tests::SETTINGS};
use airlock_conversation::ToolCall as ToolCallItem;
use airlock_core::{
    door::{CallGuards, Filter, FinishedCall, GuardedCall, Origin, ProposedCall},
    memory::{Limited, MemoryBudget},
    tool::{GuardAct, GuardDecision, GuardHook, HostCode, ToolOutput},
};
use airlock_fakes as fake;

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
    let run = calls.clone().filter(|batched| batched.refusal.is_none());
    let refused = calls.filter_map(|batched| Some((batched.call.position, batched.refusal?)));
    (run.map(|batched| batched.call.position).collect(), refused.collect())
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
        let waiting: Vec<_> = sorted.pending.iter().map(|pending| pending.call.position).collect();
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

/// Adds a mark to the arguments of each call, denies `no`, asks about `ask`, and counts how often it is asked. It is not
/// idempotent.
#[derive(Default)]
struct Marking(AtomicUsize);

impl Marking {
    fn decide(&self, call: &ProposedCall<'_>) -> Result<GuardedCall, CallError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let text = call.arguments.as_str();
        let name = &call.tool.name;
        if text.contains("no") {
            let hook = GuardHook::Before;
            let verdict = GuardDecision::Deny;
            let act = GuardAct { guard: "test".into(), digest: "".into(), hook, verdict };
            return Err(CallError::guard_denied(name.clone(), act, "c", "it says no"));
        }
        let marked = Arguments::parse(name.as_str(), &text.replace("\"}", "+\"}"))?;
        let mut decided = GuardedCall { arguments: Some(marked), ..GuardedCall::default() };
        if text.contains("ask") {
            decided.questions.push("test".into(), "look at it");
        }
        Ok(decided)
    }
}

impl CallGuards for Marking {
    fn before<'g>(
        &'g self,
        call: &'g ProposedCall<'g>,
        _: time::Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        let decided = self.decide(call);
        Box::pin(async { decided })
    }

    fn looks_before(&self, _: &ProposedCall<'_>) -> bool {
        true
    }

    fn looks_after(&self, _: &ProposedCall<'_>) -> bool {
        false
    }

    fn after(
        &self,
        _: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { outcome })
    }
}

#[tokio::test]
async fn guards_decide_once_about_each_call_and_what_they_leave_runs() {
    let guards = Arc::new(Marking::default());
    let (catalog, _) = fake::catalog();
    catalog.set_guards(guards.clone());
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Model, fake::BUDGET);
    let mut three = calls(&["desk-echo", "desk-echo", "desk-echo"]);
    for (call, text) in three.iter_mut().zip(["plain", "no", "ask"]) {
        call.arguments = Some(format!(r#"{{"x":"{text}"}}"#));
    }
    let mut quota = CallQuota::new(3, None);
    let sorted = sort(three, &caller, false, &mut quota).await;
    let [waiting] = &sorted.pending[..] else { panic!("one asks") };
    assert_eq!(waiting.asked_by.to_string(), "the guard \"test\" asks: look at it");
    assert_eq!(guards.0.load(Ordering::Relaxed), 3);
    let memory = MemoryBudget::new(Limited::new(1 << 20));
    let allowance = Arc::new(Allowance::new(&SETTINGS, &memory));
    let (ended, _) = run_all(caller, SETTINGS, allowance, sorted.batch).await;
    assert_eq!(guards.0.load(Ordering::Relaxed), 3, "they were asked before");
    assert_eq!(&*ended[0].text, r#"echo {"x":"plain+"}"#);
    let denied = ended[1].error.as_ref().map(CallError::code);
    assert_eq!(denied, Some(HostCode::GuardDenied));
}

/// Runs a batch, and returns the outcomes and the number of events.
async fn run_all(
    caller: Caller,
    settings: Settings,
    allowance: Arc<Allowance>,
    batch: CallBatch,
) -> (Vec<CallOutcome>, usize) {
    let (done, result) = tokio::sync::oneshot::channel();
    let mut running = Run::new(|emitter| async move {
        let listener = RoundListener { emitter, reports: Reports::new(None) };
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
        done.send(super::super::round::run(batch, &conditions).await).ok();
    });
    let mut events = 0;
    while running.next().await.is_some() {
        events += 1;
    }
    (result.await.expect("it ran"), events)
}

#[tokio::test]
async fn a_long_result_is_not_presented_on_a_worker() {
    let caller = caller();
    let tenant = caller.view().tenant().clone();
    for (bytes, is_here) in [(100, true), (threads::INLINE_BYTES, false)] {
        let allowance = Arc::new(Allowance::new(&SETTINGS, &MemoryBudget::unlimited()));
        let mut quota = CallQuota::new(1, None);
        let mut call = calls(&["desk-echo"]);
        // Its arguments are read here. The result repeats them, and is longer.
        let text = "x".repeat(bytes - r#"{"x":""}"#.len());
        call[0].arguments = Some(format!(r#"{{"x":"{text}"}}"#));
        let batch = sort(call, &caller, false, &mut quota).await.batch;
        let held = threads::occupy(&tenant).await;
        let mut running = Box::pin(run_all(caller.clone(), SETTINGS, allowance, batch));
        let mut ran = None;
        for _ in 0..100 {
            ran = running.as_mut().now_or_never();
            if ran.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(ran.is_some(), is_here, "{bytes}");
        drop(held);
        let (ended, _) = if let Some(ran) = ran { ran } else { running.await };
        assert!(ended[0].error.is_none() && ended[0].text.len() > bytes, "{bytes}");
    }
}

#[tokio::test]
async fn many_calls_of_unknown_tools_yield_to_other_tasks() {
    let caller = caller();
    let allowance = Arc::new(Allowance::new(&SETTINGS, &MemoryBudget::unlimited()));
    let mut quota = CallQuota::new(100, None);
    let batch = sort(calls(&["other"; 100]), &caller, false, &mut quota).await.batch;
    let mut running = Box::pin(run_all(caller, SETTINGS, allowance, batch));
    let mut polls = 0;
    let ran = poll_fn(|context| {
        polls += 1;
        running.as_mut().poll(context)
    });
    let (ended, _) = ran.await;
    assert!(ended.len() == 100 && ended.iter().all(|ended| ended.error.is_some()));
    assert!(polls > 20, "{polls}");
}

#[tokio::test]
async fn the_results_of_run_and_of_refused_calls_are_charged() {
    let caller = caller();
    let memory = Limited::new(1 << 20);
    let names = ["desk-echo", "other", "desk-large", "desk-echo", "desk-fail"];
    let settings = Settings { calls_per_answer: 3, ..SETTINGS };
    let allowance = Arc::new(Allowance::new(&settings, &MemoryBudget::new(memory.clone())));
    let mut quota = CallQuota::new(settings.calls_per_answer, None);
    let batch = sort(calls(&names), &caller, false, &mut quota).await.batch;
    let (ended, events) = run_all(caller, settings, allowance.clone(), batch).await;
    assert_eq!(events, 2 * names.len(), "each call starts and ends");
    let codes: Vec<_> =
        ended.iter().map(|ended| ended.error.as_ref().map(CallError::code)).collect();
    let refused = Some(HostCode::TooManyCalls);
    assert_eq!(codes, [None, Some(HostCode::NotFound), None, refused, refused]);
    let bytes: usize = ended.iter().map(|ended| ended.text.len()).sum();
    assert_eq!(memory.taken(), bytes * RESULT_COPIES);
    drop(allowance);
    assert_eq!(memory.taken(), 0);
}
