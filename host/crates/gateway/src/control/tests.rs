use std::{collections::BTreeSet, future::pending, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use serde_json::json;

use super::Controls;
use airlock_core::{
    door::{
        Admitted, Budget, CallControl, CallPolicy, Caller, ControlledCall, Filter, Membership,
        Origin, PolicyVerdict, ProposedCall, Provider, Refusal, Source, View,
    },
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
        ServiceTier,
    },
    tenant::Tenant,
    tool::{Allowlist, CallError, ClientName, HostCode, Policy, Tool, ToolDefinition, ToolOutput},
};

const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 8,
    depth: 3,
    in_flight: 8,
};

/// Decision of a control.
#[derive(Debug, Clone, Copy)]
enum Decision {
    Permits,
    Refuses,
    /// It never decides.
    Waits,
}

/// A control of both kinds. All controls of one test append their notifications to one list.
#[derive(Clone)]
struct TestControl {
    name: &'static str,
    decision: Decision,
    cost: Option<u64>,
    told: Arc<Mutex<Vec<String>>>,
}

impl TestControl {
    fn tell(&self, what: &str) {
        self.told.lock().push(format!("{} {what}", self.name));
    }

    fn begun(&self) -> TestPart {
        self.tell("begin");
        TestPart { control: self.clone(), has_ended: false }
    }
}

struct TestPart {
    control: TestControl,
    has_ended: bool,
}

impl TestPart {
    fn ended(&mut self, end: &str) {
        self.has_ended = true;
        self.control.tell(&format!("end {end}"));
    }
}

impl Drop for TestPart {
    fn drop(&mut self) {
        if !self.has_ended {
            self.control.tell("drop");
        }
    }
}

impl CallControl for TestControl {
    fn begin<'c>(
        &'c self,
        _: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        async move {
            match self.decision {
                Decision::Permits => {
                    let begun: Box<dyn ControlledCall> = Box::new(self.begun());
                    Ok(begun)
                }
                Decision::Refuses => Err(CallError::limit_reached("of a test", None)),
                Decision::Waits => pending().await,
            }
        }
        .boxed()
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        self.tell(&format!("refused {}", refusal.name));
    }

    fn call_refused(&self, call: &Admitted, refusal: &CallError) {
        let code = refusal.code().as_str();
        self.tell(&format!("call_refused {} {code}", call.tool().full_name));
    }
}

impl ControlledCall for TestPart {
    fn end(mut self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        let end = match result {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.code().as_str(), error.has_not_begun()),
        };
        self.ended(&end);
    }
}

impl ModelControl for TestControl {
    fn begin<'c>(
        &'c self,
        _: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        async move {
            match self.decision {
                Decision::Permits => {
                    let begun: Box<dyn ControlledModelRequest> = Box::new(self.begun());
                    Ok(begun)
                }
                Decision::Refuses => Err(ControlRefusal {
                    code: HostCode::LimitReached,
                    message: "a limit of a test".to_owned(),
                    retry_after: None,
                }),
                Decision::Waits => pending().await,
            }
        }
        .boxed()
    }

    fn request_refused(&self, request: ModelRequest<'_>, refusal: &ControlRefusal) {
        self.tell(&format!("request_refused {} {}", request.model, refusal.code.as_str()));
    }
}

impl ControlledModelRequest for TestPart {
    fn cost(&self, _: &ModelOutcome<'_>) -> Option<u64> {
        self.control.cost
    }

    fn end(mut self: Box<Self>, outcome: &ModelOutcome<'_>) {
        self.ended(&format!("{} {}", outcome.error.unwrap_or("ok"), outcome.has_not_begun));
    }
}

/// The controls `a`, `b` and `c`, and the list of their notifications.
struct Three {
    controls: Controls,
    told: Arc<Mutex<Vec<String>>>,
}

impl Three {
    /// Creates controls of which the second one decides like this.
    fn new(second: Decision) -> Self {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let mut controls = Controls::default();
        for (name, decision, cost) in [
            ("a", Decision::Permits, None),
            ("b", second, Some(7)),
            ("c", Decision::Permits, Some(9)),
        ] {
            let control = Arc::new(TestControl { name, decision, cost, told: told.clone() });
            controls.add_calls(control.clone());
            controls.add_models(control);
        }
        Self { controls, told }
    }

    fn calls(&self) -> Arc<dyn CallControl> {
        self.controls.of_calls().expect("there are some")
    }

    fn models(&self) -> Arc<dyn ModelControl> {
        self.controls.of_models().expect("there are some")
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock())
    }
}

struct NoTools;

impl Provider for NoTools {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        async { Ok(ToolOutput::text("unused")) }.boxed()
    }
}

/// Returns a view with the tool `a-read`, which runs without an approval.
fn view() -> View {
    let client = ClientName::parse("a").expect("a good name");
    let definition = json!({"name": "read", "inputSchema": {}});
    let definition: ToolDefinition = serde_json::from_value(definition).expect("a tool");
    let tool = Arc::new(Tool::adopt(&client, definition).expect("a good tool"));
    let provider: Arc<dyn Provider> = Arc::new(NoTools);
    let source = Source {
        client: &client,
        policy: &Policy {
            execute: Allowlist::All,
            auto_execute: Allowlist::All,
            ..Policy::default()
        },
        tools: &[tool],
        unaccepted: &BTreeSet::new(),
        provider: &provider,
        is_server: false,
        is_switched_off: false,
    };
    View::new([source], None, &Filter::none(), None)
}

fn call() -> Admitted {
    Caller::new(view(), Origin::Caller, BUDGET).admit("a-read", "{}").expect("it is listed")
}

fn request<'r>(tenant: &'r Tenant, membership: &'r Membership) -> ModelRequest<'r> {
    ModelRequest {
        tenant,
        membership,
        model: "p/m",
        fallbacks: &[],
        bytes: 1,
        choices: 1,
        max_output_tokens: None,
        tier: ServiceTier::Standard,
        is_streamed: false,
        tool_tokens: None,
    }
}

/// A policy that has one verdict about all calls.
struct Verdict(PolicyVerdict);

impl CallPolicy for Verdict {
    fn narrow(&self, _: &ProposedCall<'_>) -> PolicyVerdict {
        self.0.clone()
    }
}

#[test]
fn of_several_policies_the_strictest_verdict_counts() {
    let refusal = PolicyVerdict::Refuse { reason: "no".to_owned() };
    for (verdicts, code) in [
        (vec![], None),
        (vec![PolicyVerdict::Unchanged, PolicyVerdict::Unchanged], None),
        (
            vec![PolicyVerdict::RequireApproval, PolicyVerdict::Unchanged],
            Some(HostCode::NeedsApproval),
        ),
        (vec![PolicyVerdict::RequireApproval, refusal.clone()], Some(HostCode::PolicyRefused)),
        (vec![refusal, PolicyVerdict::Unchanged], Some(HostCode::PolicyRefused)),
    ] {
        let mut controls = Controls::default();
        for verdict in &verdicts {
            controls.add_policy(Arc::new(Verdict(verdict.clone())));
        }
        let view = view().with_policy(controls.of_policies());
        let admitted = Caller::new(view, Origin::Model, BUDGET).admit("a-read", "{}");
        assert_eq!(admitted.err().map(|error| error.code()), code, "{verdicts:?}");
    }
}

#[tokio::test]
async fn controls_begin_and_end_in_their_order() {
    let three = Three::new(Decision::Permits);
    let call = call();
    let controlled = three.calls().begin(&call).await.expect("all permit it");
    controlled.end(&Ok(ToolOutput::text("x")));
    let expected = ["a begin", "b begin", "c begin", "a end ok", "b end ok", "c end ok"];
    assert_eq!(three.told(), expected);

    let tenant = Tenant::ANONYMOUS;
    let membership = Membership::default();
    let begun = three.models().begin(request(&tenant, &membership)).await;
    let controlled = begun.expect("all permit it");
    let outcome = ModelOutcome::default();
    assert_eq!(controlled.cost(&outcome), Some(7), "the first that knows it");
    controlled.end(&outcome);
    let expected = expected.map(|told| told.replace("ok", "ok false"));
    assert_eq!(three.told(), expected);
}

#[tokio::test]
async fn a_refusal_ends_the_controls_before_it_and_is_told_to_those_after_it() {
    let three = Three::new(Decision::Refuses);
    let refused = three.calls().begin(&call()).await.err().expect("one refuses it");
    assert_eq!(refused.code(), HostCode::LimitReached);
    assert!(refused.has_not_begun());
    let ended = ["a begin", "a end limit_reached true"];
    assert_eq!(three.told(), [&ended[..], &["c call_refused a-read limit_reached"]].concat());

    let tenant = Tenant::ANONYMOUS;
    let membership = Membership::default();
    let refused = three.models().begin(request(&tenant, &membership)).await.err();
    assert_eq!(refused.map(|refusal| refusal.code), Some(HostCode::LimitReached));
    assert_eq!(three.told(), [&ended[..], &["c request_refused p/m limit_reached"]].concat());
}

#[tokio::test]
async fn limits_are_asked_first_and_records_last() {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let [limits, own, records] = ["limits", "own", "records"].map(|name| {
        let told = told.clone();
        Arc::new(TestControl { name, decision: Decision::Permits, cost: None, told })
    });
    let mut controls = Controls::default();
    controls.add_calls(own.clone());
    controls.add_models(own);
    let controls = controls.between(&limits, Some(&records));
    let calls = controls.of_calls().expect("there are some");
    let running = calls.begin(&call()).await.map_err(|_| ()).expect("all permit it");
    let expected = ["limits begin", "own begin", "records begin"];
    assert_eq!(std::mem::take(&mut *told.lock()), expected);
    drop(running);
    told.lock().clear();
    let tenant = Tenant::ANONYMOUS;
    let membership = Membership::default();
    let models = controls.of_models().expect("there are some");
    let running = models.begin(request(&tenant, &membership)).await;
    assert_eq!(std::mem::take(&mut *told.lock()), expected);
    drop(running);
}

#[tokio::test]
async fn what_is_dropped_before_all_permit_it_has_not_begun() {
    let three = Three::new(Decision::Waits);
    let call = call();
    assert!(three.calls().begin(&call).now_or_never().is_none());
    let ended = ["a begin", "a end cancelled true"];
    assert_eq!(three.told(), [&ended[..], &["c call_refused a-read cancelled"]].concat());

    let tenant = Tenant::ANONYMOUS;
    let membership = Membership::default();
    assert!(three.models().begin(request(&tenant, &membership)).now_or_never().is_none());
    assert_eq!(three.told(), [&ended[..], &["c request_refused p/m cancelled"]].concat());
}

#[tokio::test]
async fn what_is_dropped_while_it_runs_is_cut_off_for_all() {
    let three = Three::new(Decision::Permits);
    drop(three.calls().begin(&call()).await.map_err(|_| ()).expect("all permit it"));
    let expected = ["a begin", "b begin", "c begin", "a drop", "b drop", "c drop"];
    assert_eq!(three.told(), expected);

    let tenant = Tenant::ANONYMOUS;
    let membership = Membership::default();
    drop(three.models().begin(request(&tenant, &membership)).await.ok());
    assert_eq!(three.told(), expected);
}

#[test]
fn all_are_told_of_what_the_door_refuses() {
    let three = Three::new(Decision::Refuses);
    three.calls().refused(&Refusal {
        tenant: &Tenant::ANONYMOUS,
        membership: &Membership::default(),
        origin: &Origin::Model,
        parent: None,
        name: "x",
        error: &CallError::not_found("x"),
    });
    assert_eq!(three.told(), ["a refused x", "b refused x", "c refused x"]);
}

#[test]
fn without_controls_there_is_nothing_to_install() {
    let none = Controls::default();
    assert!(none.of_calls().is_none() && none.of_models().is_none());
}
