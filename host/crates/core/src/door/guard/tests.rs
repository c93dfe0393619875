use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, ThreadId},
    time::Duration,
};

use futures_util::{FutureExt as _, future::ready};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{task::yield_now, time::timeout};

use super::*;
use crate::{
    door::{
        Admitted, Approved, Budget, Caller, CallerCapabilities, Event, Filter, OwnTools,
        Permission, Provider, Source, View,
    },
    threads::{self, poll_to_end},
    tool::{
        Allowlist, Answers, Content, ErrorKind, GuardDecision, GuardHook, HostCode, Policy,
        READ_RESOURCE, ToolError, client,
    },
};

/// Sends a part, and returns its arguments, or fails with them if the tool is `failing`. The result of `misfit` does not
/// fit its schema.
struct Echo;

impl Provider for Echo {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        call.chain().reporter().emit(Content::text("early"));
        let text = call.arguments().as_str().to_owned();
        let tool = call.tool().clone();
        async move {
            if tool.original == "misfit" {
                Err(CallError::invalid_result(tool.name.clone(), "users.ann", "x"))
            } else if tool.original == "failing" {
                Err(ToolError::new(ErrorKind::Other, text).into())
            } else {
                Ok(ToolOutput::text(text))
            }
        }
        .boxed()
    }

    fn resume(&self, call: Admitted, _: Answers) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        self.call(call)
    }

    fn decided_tool(&self, _: &View, arguments: &Arguments) -> Option<Arc<Tool>> {
        let reads = arguments.as_str().contains("uri");
        reads.then(|| Arc::new(reader().of_client(&client("a"))))
    }
}

/// Returns one of the gateway's own tools, which uses the client `a` in a call with a URI.
fn reader() -> Tool {
    Tool::own(READ_RESOURCE, "", json!({"type": "object"}))
}

fn act(hook: GuardHook, verdict: GuardDecision) -> GuardAct {
    GuardAct { guard: "test".into(), digest: "sha256:0".into(), hook, verdict }
}

/// Adds a letter to the text `x` of each call, denies `no`, asks about `ask`, and replaces each outcome. It is not
/// idempotent.
#[derive(Default)]
struct Scribe {
    asked: AtomicUsize,
}

impl Scribe {
    fn decide(&self, call: &ProposedCall<'_>) -> Result<GuardedCall, CallError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let text = call.arguments.as_str();
        if text.contains("no") {
            let denied = act(GuardHook::Before, GuardDecision::Deny);
            return Err(CallError::guard_denied(call.tool.name.clone(), denied, "c", "it says no"));
        }
        let longer = text.replace("\"}", "+\"}");
        let arguments = Arguments::parse(call.tool.name.as_str(), &longer)?;
        let mut questions = GuardQuestions::new();
        if text.contains("ask") {
            questions.push("test".into(), "look at it");
        }
        let acts = vec![act(GuardHook::Before, GuardDecision::Rewrite)];
        Ok(GuardedCall { arguments: Some(arguments), questions, acts })
    }
}

impl CallGuards for Scribe {
    fn before<'g>(
        &'g self,
        call: &'g ProposedCall<'g>,
        _: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        ready(self.decide(call)).boxed()
    }

    fn looks_before(&self, call: &ProposedCall<'_>) -> bool {
        call.tool.original == "asked"
    }

    fn looks_after(&self, call: &ProposedCall<'_>) -> bool {
        !call.arguments.as_str().contains("plain")
    }

    fn after(
        &self,
        call: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        let text = outcome.map_or_else(|error| error.to_string(), |output| output.to_text());
        call.record(act(GuardHook::After, GuardDecision::Rewrite));
        async move { Ok(ToolOutput::text(format!("seen: {text}"))) }.boxed()
    }
}

fn caller(origin: Origin, guards: Option<Arc<dyn CallGuards>>) -> Caller {
    with_events(origin, guards).0
}

fn with_events(
    origin: Origin,
    guards: Option<Arc<dyn CallGuards>>,
) -> (Caller, crate::door::Events) {
    let name = client("a");
    let tools = ["free", "asked", "failing", "misfit"].map(|tool| {
        let definition = json!({"name": tool, "inputSchema": {}});
        let definition = serde_json::from_value(definition).expect("a definition");
        Arc::new(Tool::adopt(&name, definition).expect("a good tool"))
    });
    let operators = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::parse(&["free", "failing", "misfit"]).expect("a good list"),
        ..Policy::default()
    };
    let provider: Arc<dyn Provider> = Arc::new(Echo);
    let unaccepted = BTreeSet::new();
    let source = Source {
        client: &name,
        policy: &operators,
        tools: &tools,
        unaccepted: &unaccepted,
        provider: &provider,
        is_server: true,
        is_switched_off: false,
    };
    let own = OwnTools { tools: vec![Arc::new(reader())], provider: provider.clone() };
    let view = View::new([source], None, &Filter::none(), None).with_reader(&own);
    let view = view.with_guards(guards);
    let second = Duration::from_secs(1);
    let budget =
        Budget { deadline: second, script: second, nested_calls: 4, depth: 2, in_flight: 1 };
    Caller::with_events(view, origin, budget, CallerCapabilities::default())
}

fn scribe() -> Arc<dyn CallGuards> {
    Arc::new(Scribe::default())
}

fn approved(caller: &Caller, arguments: &str) -> Approved {
    let entry = caller.view().find(&Origin::Model, "a-asked").expect("it is there");
    Approved::new(entry, arguments, None)
}

#[tokio::test]
async fn a_call_runs_and_is_recorded_with_the_arguments_of_the_guards() {
    let model = caller(Origin::Model, Some(scribe()));
    let call = model.admit("a-free", r#"{"x":"plain"}"#).expect("it is permitted");
    assert_eq!(call.arguments().as_str(), r#"{"x":"plain+"}"#);
    let acts = call.chain().reporter().guard_acts();
    assert_eq!(acts, [act(GuardHook::Before, GuardDecision::Rewrite)]);
    assert_eq!(call.run().await.expect("it runs").to_text(), r#"{"x":"plain+"}"#);
    assert_eq!(&*model.ledger().records()[0].arguments, r#"{"x":"plain+"}"#);
    let without = caller(Origin::Model, None).admit("a-free", r#"{"x":"no"}"#).expect("no guards");
    assert!(without.chain().reporter().guard_acts().is_empty());
}

#[test]
fn every_decision_about_a_call_is_refused_if_a_guard_denies_it() {
    for origin in [Origin::Model, Origin::Caller, Origin::Program, Origin::Operator] {
        let caller = caller(origin.clone(), Some(scribe()));
        let parsed = Arguments::parse("a-free", r#"{"x":"no"}"#).expect("an object");
        let answers = Answers { token: String::new(), given: BTreeMap::new() };
        let approved = approved(&caller, r#"{"x":"no"}"#);
        let refused = [
            caller.admit("a-free", r#"{"x":"no"}"#).err(),
            caller.admit("a-free", &parsed).err(),
            caller.admit_approved("a-asked", &parsed, &approved).err(),
            caller.resume("a-free", &parsed, answers).err(),
            caller.call_needs_approval("a-free", &parsed).err(),
            poll_to_end(caller.guarded("a-free", parsed)).err(),
        ];
        for error in refused {
            let code = error.map(|error| error.code());
            assert_eq!(code, Some(HostCode::GuardDenied), "{origin:?}");
        }
    }
}

#[test]
fn a_call_that_uses_a_client_is_guarded_before_as_one_of_a_tool_of_that_client() {
    let model = caller(Origin::Model, Some(scribe()));
    let denied = model.admit(READ_RESOURCE, r#"{"uri":"no"}"#).err();
    assert_eq!(denied.map(|error| error.code()), Some(HostCode::GuardDenied));
    let call = model.admit(READ_RESOURCE, r#"{"uri":"y"}"#).expect("it is permitted");
    assert_eq!(call.arguments().as_str(), r#"{"uri":"y+"}"#);
    assert!(call.tool().client.is_none());
    let asked = model.admit(READ_RESOURCE, r#"{"uri":"ask"}"#).err().expect("it is refused");
    assert!(asked.is_unapproved());
    // It uses no client.
    let wrapper = model.admit(READ_RESOURCE, r#"{"x":"no"}"#).expect("it is not guarded");
    assert_eq!(wrapper.arguments().as_str(), r#"{"x":"no"}"#);
}

#[test]
fn nested_calls_are_guarded_as_those_of_the_request() {
    let model = caller(Origin::Model, Some(scribe()));
    let outer = model.admit("a-free", "{}").expect("it is permitted");
    let origin = Origin::Plugin(Arc::new(["a-free".to_owned()].into()));
    let nested = outer.chain().admit(&origin, "a-free", r#"{"x":"no"}"#).err();
    assert_eq!(nested.map(|error| error.code()), Some(HostCode::GuardDenied));
    let nested = outer.chain().admit(&origin, "a-free", r#"{"x":"y"}"#).expect("it is permitted");
    assert_eq!(nested.arguments().as_str(), r#"{"x":"y+"}"#);
    // In the place of the outer call, whose source is away.
    let denied = Arguments::parse("a-free", r#"{"x":"no"}"#).expect("an object");
    let other = outer.chain().admit_in_place(&Origin::Model, "a-free", &denied).err();
    assert_eq!(other.map(|error| error.code()), Some(HostCode::GuardDenied));
}

#[test]
fn an_approval_is_about_the_arguments_of_the_guards_which_are_not_guarded_again() {
    let guards = Arc::new(Scribe::default());
    let model = caller(Origin::Model, Some(guards.clone()));
    let given = Arguments::parse("a-asked", r#"{"x":"y"}"#).expect("an object");
    let guarded = poll_to_end(model.guarded("a-asked", given.clone())).expect("it is permitted");
    assert_eq!(guarded.as_str(), r#"{"x":"y+"}"#);
    assert!(model.call_needs_approval("a-asked", &guarded).expect("it may be called"));
    let shown = approved(&model, guarded.as_str());
    let call = model.admit_approved("a-asked", &guarded, &shown).expect("it is approved");
    assert_eq!(call.arguments().as_str(), r#"{"x":"y+"}"#);
    assert_eq!(call.permission(), Permission::Person);
    assert_eq!(guards.asked.load(Ordering::Relaxed), 1);
    // The same call as its maker repeats it.
    assert!(model.admit_approved("a-asked", &given, &shown).is_ok());
    // An approval of what the guards have changed is none.
    let before = approved(&model, given.as_str());
    let refused = model.admit_approved("a-asked", &given, &before).err().expect("it is refused");
    assert!(refused.is_unapproved());
}

#[test]
fn arguments_that_were_guarded_for_another_tool_or_origin_are_guarded_again() {
    let guards = Arc::new(Scribe::default());
    let model = caller(Origin::Model, Some(guards.clone()));
    let given = Arguments::parse("a-free", r#"{"x":"y"}"#).expect("an object");
    let guarded = poll_to_end(model.guarded("a-free", given)).expect("it is permitted");
    let other = model.admit("a-failing", &guarded).expect("it is permitted");
    assert_eq!(other.arguments().as_str(), r#"{"x":"y++"}"#);
    let own = caller(Origin::Caller, Some(guards));
    let other = own.admit("a-free", &guarded).expect("it is permitted");
    assert_eq!(other.arguments().as_str(), r#"{"x":"y++"}"#);
}

#[test]
fn a_guard_that_asks_requires_an_approval_with_its_reason() {
    let model = caller(Origin::Model, Some(scribe()));
    let error = model.admit("a-free", r#"{"x":"ask"}"#).err().expect("it needs an approval");
    assert!(error.is_unapproved());
    assert!(error.to_string().ends_with(": look at it"), "{error}");
    assert!(model.view().may_ask());
    let own = caller(Origin::Caller, Some(scribe()));
    assert!(own.admit("a-free", r#"{"x":"ask"}"#).is_ok(), "the request is the approval");
}

#[tokio::test]
async fn an_outcome_is_what_the_guards_leave_of_it_and_nothing_is_sent_before() {
    let (own, mut events) = with_events(Origin::Caller, Some(scribe()));
    for (tool, expected) in
        [("a-free", r#"seen: {"x":"y+"}"#), ("a-failing", r#"seen: {"x":"y+"}"#)]
    {
        let call = own.admit(tool, r#"{"x":"y"}"#).expect("it is permitted");
        let chain = call.chain().clone();
        assert_eq!(call.run().await.expect("it is replaced").to_text(), expected);
        assert_eq!(chain.reporter().guard_acts().len(), 2);
    }
    assert!(own.ledger().records().iter().all(|record| record.emitted.is_empty()));
    assert!(events.try_recv().is_err(), "parts before the result are withheld");
    let call = own.admit("a-free", r#"{"x":"plain"}"#).expect("it is permitted");
    assert_eq!(call.run().await.expect("it runs").to_text(), r#"{"x":"plain+"}"#);
    assert!(matches!(events.try_recv(), Ok(Event::Partial { .. })));
    let answers = Answers { token: String::new(), given: BTreeMap::new() };
    let resumed = own.resume("a-free", r#"{"x":"y"}"#, answers).expect("it is permitted");
    assert_eq!(resumed.run().await.expect("it runs").to_text(), r#"seen: {"x":"y+"}"#);
}

/// Keeps the threads on which it is asked, and yields before it decides.
#[derive(Default)]
struct Located(Mutex<Vec<ThreadId>>);

impl CallGuards for Located {
    fn before<'g>(
        &'g self,
        _: &'g ProposedCall<'g>,
        _: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        self.0.lock().push(thread::current().id());
        async {
            yield_now().await;
            Ok(GuardedCall::default())
        }
        .boxed()
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
        async move { outcome }.boxed()
    }
}

#[tokio::test]
async fn a_request_yields_while_guards_decide_and_the_door_polls_them_to_their_end() {
    let model = caller(Origin::Model, Some(Arc::new(Located::default())));
    let outer = model.admit("a-free", "{}").expect("the door waits for them");
    let mut asked = Box::pin(threads::arguments(&model, "a-free", "{}"));
    assert!(asked.as_mut().now_or_never().is_none());
    assert!(model.admit("a-free", &asked.await.expect("it is permitted")).is_ok());
    let chain = outer.chain();
    let mut asked = Box::pin(threads::guarded_nested(chain, &Origin::Model, "a-free", "{}"));
    assert!(asked.as_mut().now_or_never().is_none());
    assert!(asked.await.expect("it is permitted").is_some());
}

#[tokio::test]
async fn guards_decide_and_free_their_turn_while_the_request_is_not_polled() {
    let model = caller(Origin::Model, Some(Arc::new(Located::default())));
    let mut asked = Box::pin(threads::arguments(&model, "a-free", "{}"));
    assert!(asked.as_mut().now_or_never().is_none());
    let freed = threads::occupy_turns(model.view().tenant());
    drop(timeout(Duration::from_secs(30), freed).await.expect("the turn is free"));
    assert!(asked.await.is_ok());
}

#[tokio::test]
async fn guards_look_at_long_arguments_on_a_blocking_thread_and_once() {
    for (bytes, is_here) in [(0, true), (threads::INLINE_BYTES, false)] {
        let guards = Arc::new(Located::default());
        let model = caller(Origin::Model, Some(guards.clone()));
        let text = json!({"x": "y".repeat(bytes)}).to_string();
        let checked = threads::arguments(&model, "a-free", &text).await.expect("it is permitted");
        assert!(model.admit("a-free", &checked).is_ok());
        let parsed = Arguments::parse("a-free", &text).expect("an object");
        let entry = model.view().find(&Origin::Model, "a-free").expect("it is there");
        let deadline = Instant::now() + Duration::from_secs(1);
        let guarded = threads::guarded(model.view(), &Origin::Model, entry, parsed, deadline).await;
        assert!(model.admit("a-free", &guarded.expect("it is permitted")).is_ok());
        let asked = guards.0.lock().clone();
        assert_eq!(asked.len(), 2, "the door asks nothing again");
        assert!(asked.iter().all(|on| (*on == thread::current().id()) == is_here), "{bytes}");
    }
}

#[tokio::test]
async fn an_error_names_no_member_of_a_result_that_guards_look_at() {
    for (guards, is_named) in [(None, true), (Some(scribe()), false)] {
        let own = caller(Origin::Caller, guards);
        let call = own.admit("a-misfit", r#"{"x":"y"}"#).expect("it is permitted");
        let error = call.run().await.expect_err("it does not fit");
        assert_eq!(error.code(), HostCode::InvalidResult);
        assert_eq!(error.to_string().contains("ann"), is_named, "{error}");
        assert!(error.to_string().starts_with("the result of tool a-misfit does not fit"));
    }
}

#[test]
fn a_tool_is_guarded_if_a_guard_looks_at_its_calls_before_or_after() {
    for (guards, expected) in [(Some(scribe()), true), (None, false)] {
        let caller = caller(Origin::Model, guards);
        for tool in ["a-asked", "a-free"] {
            let entry = caller.view().find(&Origin::Model, tool).expect("it is there");
            assert_eq!(caller.view().is_guarded(&Origin::Model, entry), expected, "{tool}");
        }
    }
}
