use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::{settings::CallLogSettings, testing::MemoryLogs};
use airlock_core::{
    act::{ActKind, Actor},
    door::{Admitted, Budget, CallControl, Caller, Filter, Origin, Provider, Source, View},
    model_control::{
        ControlRefusal, ModelOutcome, ModelRequest, ServiceTier, TokenUsage, ToolTokens,
    },
    tenant::Tenant,
    tool::{
        Allowlist, CallError, ClientName, GuardAct, GuardDecision, GuardHook, HostCode, Policy,
        Tool, ToolDefinition, ToolOutput, Trust,
    },
};
use airlock_store::call_log::CallStatus;

const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 3,
    depth: 3,
    in_flight: 8,
};

/// Counts its calls, and looks whether the admission was recorded before.
#[derive(Default)]
struct Effects {
    logs: MemoryLogs,
    calls: AtomicUsize,
    unrecorded: AtomicUsize,
    /// Set to make a call wait for ever.
    hangs: AtomicBool,
    /// Error with which the next call fails; `None` for a success.
    error: Mutex<Option<CallError>>,
    begun: Notify,
}

impl Provider for Effects {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let id = call.chain().id().to_string();
            let is_recorded = self.logs.0.lines.lock().iter().any(|line| line.contains(&id));
            self.unrecorded.fetch_add(usize::from(!is_recorded), Ordering::SeqCst);
            self.begun.notify_one();
            if self.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let error = self.error.lock().take();
            error.map_or_else(|| Ok(ToolOutput::text("done")), Err)
        })
    }
}

/// Returns the price of a call: one tool has one.
fn price(tool: &str) -> Option<u64> {
    (tool == "t-write").then_some(7)
}

struct Test {
    logs: MemoryLogs,
    effects: Arc<Effects>,
    recorder: Arc<Recorder>,
    caller: Caller,
}

impl Test {
    fn new(on_failure: OnFailure) -> Self {
        Self::with_limits(on_failure, LIMITS)
    }

    fn with_limits(on_failure: OnFailure, limits: QueueLimits) -> Self {
        let logs = MemoryLogs::default();
        let log = CallLogSettings { retention: Duration::from_secs(1), contents: false };
        let settings = RecordSettings { call_log: Some(log), audit: None, on_failure };
        let database = LazyDatabase::new(airlock_store::Settings::new("/nowhere/airlock.db"));
        let rows = Some(logs.clone());
        let sinks = RecordSinks { audit: Some(logs.opener()), rows, price: Arc::new(price) };
        let recorder = Recorder::start_with(settings, database, "test".to_owned(), sinks, limits);
        let recorder = recorder.expect("a thread");
        let effects = Arc::new(Effects { logs: logs.clone(), ..Effects::default() });
        let caller = caller(effects.clone(), recorder.clone());
        Self { logs, effects, recorder, caller }
    }

    async fn call(&self, tool: &str) -> Result<ToolOutput, CallError> {
        self.caller.admit(tool, "{\"a\":1}")?.run().await
    }

    /// Waits until the audit log has all events so far.
    async fn audited(&self) {
        let waiting = self.recorder.metrics.of_log(SignedLines::NAME).waiting;
        while waiting.get() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the events that either log has lost.
    fn lost(&self) -> u64 {
        let names = [SignedLines::NAME, MemoryLogs::NAME];
        names.into_iter().map(|name| self.recorder.metrics.of_log(name).lost.get()).sum()
    }

    /// Waits until everything so far is written.
    async fn stop(&self) {
        self.recorder.stop().await;
    }
}

/// Returns a caller with the tools `t-read`, which only reads, and `t-write`.
fn caller(effects: Arc<Effects>, control: Arc<dyn CallControl>) -> Caller {
    let client = ClientName::parse("t").expect("a name");
    let tools = [true, false].map(|reads| {
        let definition = json!({
            "name": if reads { "read" } else { "write" },
            "inputSchema": {},
            "annotations": {"readOnlyHint": reads},
        });
        let definition: ToolDefinition = serde_json::from_value(definition).expect("a tool");
        Arc::new(Tool::adopt(&client, definition).expect("a good tool"))
    });
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let provider: Arc<dyn Provider> = effects;
    let source = Source {
        client: &client,
        policy: &policy,
        tools: &tools,
        unaccepted: &BTreeSet::new(),
        provider: &provider,
        is_server: false,
        is_switched_off: false,
    };
    let view = View::new([source], None, &Filter::default(), None).with_control(Some(control));
    Caller::new(view, Origin::Model, BUDGET)
}

#[tokio::test]
async fn a_call_with_effects_runs_once_its_admission_is_recorded() {
    let test = Test::new(OnFailure::Refuse);
    for _ in 0..20 {
        test.call("t-write").await.expect("it runs");
    }
    assert_eq!(test.effects.unrecorded.load(Ordering::SeqCst), 0);
    test.stop().await;
    let row = test.logs.last();
    assert_eq!(row.status, CallStatus::Success);
    assert_eq!((row.tool.as_str(), row.client.as_deref()), ("t-write", Some("t")));
    assert_eq!((row.origin.as_str(), row.decision.as_str()), ("model", "automatic"));
    assert!(row.arguments_digest.is_some() && row.result_digest.is_some());
    assert!(row.salt.is_some() && row.duration_us.is_some());
    let kinds = test.logs.kinds();
    assert_eq!(kinds.iter().filter(|kind| *kind == "call_admitted").count(), 20);
    assert_eq!(kinds.iter().filter(|kind| *kind == "call_ended").count(), 20);
}

#[tokio::test]
async fn without_logs_calls_with_effects_are_refused_and_others_run() {
    let test = Test::new(OnFailure::Refuse);
    test.logs.fail(true);
    let error = test.call("t-write").await.expect_err("refused");
    assert_eq!(error.code(), HostCode::RecordsUnavailable);
    assert!(error.has_not_begun());
    let error = test.call("t-write").await.expect_err("refused at once");
    assert_eq!(error.code(), HostCode::RecordsUnavailable);
    test.call("t-read").await.expect("it only reads");
    assert_eq!(test.effects.calls.load(Ordering::SeqCst), 1);
    assert_eq!(test.recorder.metrics.refused.get(), 2);
    test.logs.fail(false);
    // The writer tries again by itself.
    while test.recorder.logs.is_failing() {
        tokio::task::yield_now().await;
    }
    test.call("t-write").await.expect("it runs again");
    test.stop().await;
    let refused =
        test.logs.0.tools.lock().iter().filter(|row| row.status == CallStatus::Refused).count();
    assert_eq!(refused, 2, "the refusals are recorded later");
    assert_eq!(test.lost(), 0);
}

#[tokio::test(start_paused = true)]
async fn with_a_log_that_hangs_the_first_call_waits_and_others_are_refused_at_once() {
    let test = Test::new(OnFailure::Refuse);
    test.logs.hang(true);
    let begun = tokio::time::Instant::now();
    let error = test.call("t-write").await.expect_err("refused");
    assert_eq!(error.code(), HostCode::RecordsUnavailable);
    let waited = begun.elapsed();
    assert!(waited >= ADMISSION);
    let error = test.call("t-write").await.expect_err("refused");
    assert_eq!(error.code(), HostCode::RecordsUnavailable);
    let act = Act::new(ActKind::LogErased, Actor::Gateway, "tools");
    assert!(!test.recorder.record_before(act).await, "nothing is erased unrecorded");
    assert_eq!(begun.elapsed(), waited, "they do not wait");
    test.call("t-read").await.expect("it only reads");
    assert_eq!(test.effects.calls.load(Ordering::SeqCst), 1);
    tokio::time::resume();
    test.logs.hang(false);
    while test.recorder.logs.is_failing() {
        tokio::task::yield_now().await;
    }
    test.call("t-write").await.expect("it runs again");
    test.stop().await;
    let tools = test.logs.0.tools.lock();
    let refused = tools.iter().filter(|row| row.status == CallStatus::Refused).count();
    assert_eq!(refused, 2, "the refusals are recorded later");
    assert!(!test.logs.kinds().contains(&"log_erased".to_owned()));
}

#[tokio::test]
async fn a_store_that_hangs_delays_no_line_and_takes_no_result_from_the_audit_log() {
    let limits = QueueLimits { bytes: 64 << 10, ..LIMITS };
    let test = Test::with_limits(OnFailure::Count, limits);
    test.logs.0.rows.hangs.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        test.call("t-write").await.expect("it runs");
        test.audited().await;
    }
    let act = Act::new(ActKind::LogErased, Actor::Gateway, "tools");
    assert!(test.recorder.record_awaited(act).await, "it is in the audit log");
    assert_eq!(test.logs.kinds().len(), 41);
    let with_results = {
        let lines = test.logs.0.lines.lock();
        lines.iter().filter(|line| line.contains("\"result\":")).count()
    };
    assert_eq!(with_results, 20, "also those that have no room in the other queue");
    assert!(test.logs.0.tools.lock().is_empty());
    test.logs.0.rows.hangs.store(false, Ordering::SeqCst);
    test.stop().await;
    let rows = test.logs.0.tools.lock();
    let ended = rows.iter().filter(|row| row.status == CallStatus::Success);
    let (with_digest, without): (Vec<_>, Vec<_>) =
        ended.partition(|row| row.result_digest.is_some());
    assert!(!with_digest.is_empty() && !without.is_empty());
    assert_eq!(with_digest.len() + without.len(), 20);
    assert_eq!(test.lost(), 0);
}

#[tokio::test]
async fn calls_that_only_read_keep_no_call_with_effects_out_of_a_slow_log() {
    let limits = QueueLimits { events: 16, batch: 4, ..LIMITS };
    let test = Test::with_limits(OnFailure::Refuse, limits);
    test.logs.hang(true);
    while test.lost() == 0 {
        test.call("t-read").await.expect("it only reads");
    }
    let mut call = Box::pin(test.call("t-write"));
    tokio::select! {
        biased;
        ended = &mut call => panic!("there is room for its admission: {:?}", ended.err()),
        () = std::future::ready(()) => {}
    }
    test.logs.hang(false);
    call.await.expect("it runs");
    test.stop().await;
}

#[tokio::test]
async fn without_its_store_a_call_with_effects_is_refused_and_its_refusal_is_in_the_audit_log() {
    let test = Test::new(OnFailure::Refuse);
    test.logs.0.rows.fails.store(true, Ordering::SeqCst);
    let error = test.call("t-write").await.expect_err("refused");
    assert_eq!(error.code(), HostCode::RecordsUnavailable);
    assert!(test.recorder.logs.is_failing() && !test.recorder.logs.is_audit_failing());
    test.call("t-write").await.expect_err("refused at once");
    test.audited().await;
    assert_eq!(test.logs.kinds(), ["call_admitted", "call_ended", "call_refused"]);
    test.logs.0.rows.fails.store(false, Ordering::SeqCst);
    test.stop().await;
    assert_eq!(test.effects.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn without_logs_calls_are_counted_if_the_operator_wants_that() {
    let test = Test::new(OnFailure::Count);
    test.logs.fail(true);
    test.call("t-write").await.expect("it runs");
    while !test.recorder.logs.is_failing() {
        tokio::task::yield_now().await;
    }
    // The log may have failed while the first call was being admitted.
    let before = test.recorder.metrics.unrecorded.get();
    assert!(before <= 1, "{before}");
    test.call("t-write").await.expect("it runs");
    assert_eq!(test.recorder.metrics.unrecorded.get(), before + 1);
    test.logs.fail(false);
    test.stop().await;
    assert_eq!(test.logs.last().status, CallStatus::Success);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_recorded_as_cancelled() {
    let test = Test::new(OnFailure::Refuse);
    test.effects.hangs.store(true, Ordering::SeqCst);
    {
        let call = test.call("t-write");
        tokio::select! {
            _ = call => panic!("it hangs"),
            () = test.effects.begun.notified() => {}
        }
    }
    test.stop().await;
    assert_eq!(test.logs.last().status, CallStatus::Cancelled);
}

#[tokio::test]
async fn a_call_that_has_begun_costs_its_price_whatever_its_result() {
    let test = Test::new(OnFailure::Refuse);
    test.call("t-write").await.expect("it runs");
    *test.effects.error.lock() = Some(CallError::budget("nested calls", 3));
    test.call("t-write").await.expect_err("it fails");
    *test.effects.error.lock() = Some(CallError::budget("nested calls", 3).not_begun());
    test.call("t-write").await.expect_err("its source has not begun it");
    test.call("t-read").await.expect("it has no price");
    // The calls before have notified once together.
    test.effects.begun.notified().await;
    test.effects.hangs.store(true, Ordering::SeqCst);
    {
        let call = test.call("t-write");
        tokio::select! {
            _ = call => panic!("it hangs"),
            () = test.effects.begun.notified() => {}
        }
    }
    test.stop().await;
    let rows = test.logs.0.tools.lock();
    let costs = rows.iter().filter(|row| row.status != CallStatus::Processing).map(|row| row.cost);
    assert_eq!(costs.collect::<Vec<_>>(), [Some(7), Some(7), None, None, Some(7)]);
    let lines = test.logs.0.lines.lock();
    let paid = lines.iter().filter(|line| line.contains("\"cost_microdollars\":7"));
    assert_eq!(paid.count(), 3);
}

#[tokio::test]
async fn a_refusal_of_the_door_is_recorded() {
    let test = Test::new(OnFailure::Refuse);
    let error = test.caller.admit("t-none", "{}").err().expect("there is no such tool");
    assert_eq!(error.code(), HostCode::NotFound);
    test.stop().await;
    let row = test.logs.last();
    assert_eq!((row.tool.as_str(), row.status), ("t-none", CallStatus::Refused));
    assert_eq!(row.code.as_deref(), Some("airlock.not_found"));
}

#[tokio::test]
async fn a_call_that_another_control_refuses_is_one_refusal_and_no_admission() {
    let test = Test::new(OnFailure::Refuse);
    test.logs.fail(true);
    let call = test.caller.admit("t-write", "{}").expect("the door admits it");
    let refusal = CallError::limit_reached("calls of a test", None).not_begun();
    // It does not wait for the logs, which fail.
    test.recorder.call_refused(&call, &refusal);
    test.logs.fail(false);
    test.stop().await;
    assert_eq!(test.logs.kinds(), ["call_refused"]);
    let row = test.logs.last();
    assert_eq!((row.tool.as_str(), row.client.as_deref()), ("t-write", Some("t")));
    assert_eq!(row.status, CallStatus::Refused);
    assert_eq!(row.code.as_deref(), Some("airlock.limit_reached"));
}

#[tokio::test]
async fn a_request_that_another_control_refuses_is_one_refusal() {
    let test = Test::new(OnFailure::Refuse);
    let membership = airlock_core::door::Membership::default();
    let request = request(&membership);
    let control: &dyn airlock_core::model_control::ModelControl = &*test.recorder;
    for code in [HostCode::LimitReached, HostCode::Unavailable, HostCode::Cancelled] {
        let refusal = ControlRefusal { code, message: String::new(), retry_after: None };
        control.request_refused(request, &refusal);
    }
    test.stop().await;
    let states: Vec<_> = test.logs.0.models.lock().iter().map(|row| row.status).collect();
    assert_eq!(states, [CallStatus::Refused, CallStatus::Refused, CallStatus::Cancelled]);
}

fn request(membership: &airlock_core::door::Membership) -> ModelRequest<'_> {
    static CALLER: Tenant = Tenant::ANONYMOUS;
    ModelRequest {
        tenant: &CALLER,
        membership,
        model: "openai/a",
        fallbacks: &[],
        bytes: 1,
        choices: 1,
        max_output_tokens: None,
        tier: ServiceTier::Standard,
        is_streamed: true,
        tool_tokens: Some(ToolTokens { definitions: 7, ..ToolTokens::default() }),
    }
}

#[tokio::test]
async fn a_request_to_a_model_is_recorded_at_its_end_or_as_cut_off() {
    let test = Test::new(OnFailure::Refuse);
    let membership = airlock_core::door::Membership::default();
    let request = request(&membership);
    let control: &dyn airlock_core::model_control::ModelControl = &*test.recorder;
    let running = control.begin(request).await.expect("it never refuses");
    running.end(&ModelOutcome { provider: Some("openai"), ..ModelOutcome::default() });
    drop(control.begin(request).await.expect("it never refuses"));
    test.stop().await;
    let rows = test.logs.0.models.lock();
    let tokens = rows.iter().filter_map(|row| row.tool_tokens.as_deref());
    assert_eq!(tokens.filter(|tokens| tokens.contains(r#""definitions":7"#)).count(), 2);
    let states: Vec<_> = rows.iter().map(|row| row.status).collect();
    assert_eq!(states, [CallStatus::Success, CallStatus::Cancelled]);
}

#[tokio::test]
async fn a_request_whose_caller_has_left_keeps_what_is_known_of_it() {
    let test = Test::new(OnFailure::Refuse);
    let membership = airlock_core::door::Membership::default();
    let control: &dyn airlock_core::model_control::ModelControl = &*test.recorder;
    let running = control.begin(request(&membership)).await.expect("it never refuses");
    let usage = TokenUsage { input: 3, output: 2, ..TokenUsage::default() };
    let act = GuardAct {
        guard: "g".into(),
        digest: "sha256:0".into(),
        hook: GuardHook::BeforeModel,
        verdict: GuardDecision::Rewrite,
    };
    running.end(&ModelOutcome {
        provider: Some("openai"),
        usage: Some(usage),
        error: Some(HostCode::Cancelled.as_str()),
        guards: &[act],
        ..ModelOutcome::default()
    });
    test.stop().await;
    let rows = test.logs.0.models.lock();
    assert_eq!(
        (rows[0].status, rows[0].provider.as_deref()),
        (CallStatus::Cancelled, Some("openai"))
    );
    assert_eq!(rows[0].tokens.map(|tokens| tokens.output), Some(2));
    assert_eq!(rows[0].code.as_deref(), Some("cancelled"));
    let guards = rows[0].guards.as_deref().expect("a decision");
    assert!(guards.contains(r#""hook":"before_model","verdict":"rewrite""#), "{guards}");
}
