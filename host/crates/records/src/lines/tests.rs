use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::{queue::QueuedEvent, rows, testing};
use airlock_core::{
    act::{Act, ActKind},
    model_control::TokenUsage,
    tenant::User,
    tool::{GuardAct, GuardDecision, GuardHook, HostCode},
};
use airlock_store::call_log::{CallStatus, LogBatch, MAX_TEXT_BYTES};

/// Returns the line and the rows of an event.
fn rendered(event: RecordEvent) -> (Value, LogBatch) {
    let line = render(&event);
    assert!(line.len() <= airlock_audit::MAX_EVENT_BYTES, "{} bytes: {line:.60}", line.len());
    let queued = QueuedEvent { event: Arc::new(event), bytes: 1, waiter: None };
    (serde_json::from_str(&line).expect("JSON"), rows::render(&[queued], true))
}

fn model_end(usage: Option<TokenUsage>) -> ModelEnd {
    ModelEnd {
        id: Uuid::nil(),
        begun: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(3),
        tenant: Tenant::ANONYMOUS,
        membership: Membership { key: Some("k1".to_owned()), ..Membership::default() },
        model: ShortText::new("openai/a"),
        is_streamed: false,
        status: CallStatus::Success,
        provider: Some(ShortText::new("openai")),
        served_model: Some(ShortText::new(&"x".repeat(1_000))),
        usage,
        tool_tokens: None,
        cost: Some(3_000_000),
        code: None,
        guards: Vec::new(),
        duration: Duration::from_millis(2),
    }
}

fn refused_call(name: &str, code: CallCode, membership: Membership) -> RecordEvent {
    RecordEvent::Refused(Box::new(RefusedCall {
        membership: Arc::new(membership),
        origin: "script",
        name: ShortText::new(name),
        code,
        ..testing::refused_call(Tenant::of_key([1; 32], "team"))
    }))
}

#[test]
fn a_request_to_a_model_has_its_tokens_its_cost_and_the_time_of_its_end() {
    let usage = TokenUsage { input: 3, cached_input: 1, output: 2, reasoning: 0 };
    let (line, rows) = rendered(RecordEvent::Model(Box::new(model_end(Some(usage)))));
    assert_eq!(line["kind"], "model_ended");
    assert_eq!(line["time_ms"], 3_000);
    assert_eq!(line["key"], "k1");
    assert_eq!(line["cost_microdollars"], 3_000_000);
    assert_eq!(rows.models[0].at_ms, 1_000, "rows are listed by their beginning");
    assert_eq!(rows.models[0].cost, Some(3_000_000));
    assert_eq!(rows.models[0].tokens.map(|tokens| tokens.output), Some(2));
    let served = rows.models[0].served_model.as_deref().expect("it is kept");
    assert!(served.len() <= MAX_TEXT_BYTES);
}

#[test]
fn numbers_that_a_provider_has_made_up_are_bounded() {
    let usage = TokenUsage { input: 1, cached_input: u64::MAX, output: u64::MAX, reasoning: 0 };
    let (_, rows) = rendered(RecordEvent::Model(Box::new(model_end(Some(usage)))));
    let tokens = rows.models[0].tokens.expect("tokens");
    assert!(tokens.output.checked_mul(250_000).is_some());
    assert_eq!(tokens.output, tokens.cached);
}

#[test]
fn a_refusal_has_a_line_and_a_row_and_an_act_a_line_alone() {
    let code = CallCode::Host(HostCode::NotFound);
    let refused = refused_call("no\u{202e}tool", code, Membership::default());
    let (line, rows) = rendered(refused);
    assert_eq!(line["code"], "airlock.not_found");
    assert_eq!(line["key"], "team", "a key without a membership has its name");
    assert_eq!((rows.tools.len(), rows.tools[0].status), (1, CallStatus::Refused));
    let user = User { issuer: "https://i".to_owned(), subject: "ann".to_owned() };
    let actor = Actor::User { key: "view".to_owned(), user };
    let act = Act::new(ActKind::ApprovalGranted, actor, "call_1").with("tool", "a-b");
    let act = TimedAct { at: SystemTime::UNIX_EPOCH, act };
    let (line, rows) = rendered(RecordEvent::Act(Box::new(act)));
    assert_eq!(line["kind"], "approval_granted");
    assert_eq!((&line["object"], &line["tool"]), (&json!("call_1"), &json!("a-b")));
    assert_eq!(line["actor"], "user of key \"view\"");
    assert_eq!((&line["user_issuer"], &line["user_subject"]), (&json!("https://i"), &json!("ann")));
    assert!(rows.is_empty());
}

#[test]
fn decisions_of_guards_are_in_the_line_and_the_row_of_a_refusal() {
    let mut refused =
        refused_call("a-b", CallCode::Host(HostCode::GuardDenied), Membership::default());
    let RecordEvent::Refused(call) = &mut refused else { panic!("it is a refusal") };
    call.guards.push(guard_act(GuardHook::Before));
    let (line, rows) = rendered(refused);
    let expected =
        json!([{"guard": "g", "digest": "sha256:0", "hook": "before", "verdict": "deny"}]);
    assert_eq!((&line["code"], &line["guards"]), (&json!("airlock.guard_denied"), &expected));
    assert_eq!(rows.tools[0].guards.as_deref(), Some(&*expected.to_string()));
    let code = CallCode::Host(HostCode::NotFound);
    let (line, rows) = rendered(refused_call("a-b", code, Membership::default()));
    assert!(line.get("guards").is_none() && rows.tools[0].guards.is_none());
}

#[test]
fn decisions_of_guards_are_in_the_line_and_the_row_of_a_request_to_a_model() {
    let mut end = model_end(None);
    let (line, rows) = rendered(RecordEvent::Model(Box::new(model_end(None))));
    assert!(line.get("guards").is_none() && rows.models[0].guards.is_none());
    end.guards = vec![guard_act(GuardHook::BeforeModel), guard_act(GuardHook::AfterModel)];
    let (line, rows) = rendered(RecordEvent::Model(Box::new(end)));
    let expected = ["before_model", "after_model"]
        .map(|hook| json!({"guard": "g", "digest": "sha256:0", "hook": hook, "verdict": "deny"}));
    assert_eq!(line["guards"], json!(expected));
    assert_eq!(rows.models[0].guards.as_deref(), Some(&*json!(expected).to_string()));
}

#[test]
fn sources_are_in_the_line_and_the_row_of_a_refusal() {
    let code = HostCode::UntrustedContext;
    let mut refused = refused_call("a-b", CallCode::Host(code), Membership::default());
    let RecordEvent::Refused(call) = &mut refused else { panic!("it is a refusal") };
    call.sources.insert("web");
    let (line, rows) = rendered(refused);
    assert_eq!(line["sources"], json!(["web"]));
    assert_eq!(rows.tools[0].sources.as_deref(), Some(r#"["web"]"#));
    let (line, rows) = rendered(refused_call("a-b", CallCode::Host(code), Membership::default()));
    assert!(line.get("sources").is_none() && rows.tools[0].sources.is_none());
}

fn guard_act(hook: GuardHook) -> GuardAct {
    let verdict = GuardDecision::Deny;
    GuardAct { guard: "g".into(), digest: "sha256:0".into(), hook, verdict }
}

#[test]
fn no_event_is_too_long_for_the_audit_log() {
    let hostile = "\u{1}".repeat(1 << 20);
    let membership = Membership {
        key: Some(hostile.clone()),
        key_name: Some(hostile.clone()),
        team: Some(hostile.clone()),
        customer: Some(hostile.clone()),
        environment: Some(hostile.clone()),
    };
    let code = CallCode::Tool(ShortText::new(&hostile));
    let _ = rendered(refused_call(&hostile, code, membership.clone()));
    let mut model = model_end(None);
    model.membership = membership;
    model.model = ShortText::new(&hostile);
    model.provider = Some(ShortText::new(&hostile));
    model.code = Some(ShortText::new(&hostile));
    // More guards than a configuration may have, with the longest names.
    let act = GuardAct { guard: "g".repeat(64).into(), ..guard_act(GuardHook::BeforeModel) };
    model.guards = vec![act; 64];
    let _ = rendered(RecordEvent::Model(Box::new(model)));
    for count in [0, 3, 9] {
        let user = User { issuer: hostile.clone(), subject: hostile.clone() };
        let actor = Actor::User { key: hostile.clone(), user };
        let mut act = Act::new(ActKind::ConfigChanged, actor, &hostile);
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        act.details.extend(names.iter().take(count).map(|name| (*name, hostile.clone())));
        let at = SystemTime::UNIX_EPOCH;
        let _ = rendered(RecordEvent::Act(Box::new(TimedAct { at, act })));
    }
}

#[test]
fn an_erasure_has_as_many_identifiers_as_are_recorded_at_once() {
    let ids = vec![Uuid::max().to_string(); 30].join(" ");
    let act =
        Act::new(ActKind::LogErased, Actor::Gateway, "tools").with("count", "30").with("ids", &ids);
    let at = SystemTime::UNIX_EPOCH;
    let (line, _) = rendered(RecordEvent::Act(Box::new(TimedAct { at, act })));
    assert_eq!(line["ids"], ids);
}

#[test]
fn lost_events_leave_a_line() {
    let lost = RecordEvent::Lost(LostEvents { until: SystemTime::UNIX_EPOCH, count: 7 });
    assert_eq!(render(&lost), r#"{"count":7,"kind":"events_lost","time_ms":0}"#);
    assert!(rendered(lost).1.is_empty());
}

#[test]
fn counted_events_leave_a_line_with_their_caller() {
    let party = LoggedParty { key_id: Some("k1".to_owned()), ..LoggedParty::default() };
    let counted = CountedEvents {
        until: SystemTime::UNIX_EPOCH,
        kind: Some(CountedKind::Refusals),
        count: 7,
        party: Some(party),
    };
    let (line, rows) = rendered(RecordEvent::Counted(Box::new(counted)));
    let expected = json!({
        "count": 7,
        "events": "refusals",
        "key": "k1",
        "kind": "events_counted",
        "time_ms": 0,
    });
    assert_eq!(line, expected);
    assert!(rows.is_empty());
}
