use std::sync::Arc;

use airlock_core::act::{Act, ActKind};
use uuid::Uuid;

use super::*;
use crate::event::CallOrigin;
use airlock_core::{model_control::TokenUsage, tool::HostCode};

fn render(events: &[Event]) -> Rendered {
    let renderer =
        Renderer { has_audit: true, has_call_log: true, keeps_contents: true, prices: None };
    renderer.batch(events.iter())
}

fn model_end(usage: Option<TokenUsage>) -> ModelEnd {
    ModelEnd {
        id: Uuid::nil(),
        begun: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        tenant: Tenant::ANONYMOUS,
        membership: Membership { key: Some("k1".to_owned()), ..Membership::default() },
        model: "openai/a".to_owned(),
        is_streamed: false,
        status: CallStatus::Success,
        provider: Some("openai".to_owned()),
        served_model: Some("x".repeat(1_000)),
        usage,
        cost: Some(3_000_000),
        code: None,
        duration: Duration::from_millis(2),
    }
}

#[test]
fn a_request_to_a_model_has_its_tokens_and_its_cost() {
    let usage = TokenUsage { input: 3, cached_input: 1, output: 2, reasoning: 0 };
    let Rendered { lines, rows } = render(&[Event::Model(Box::new(model_end(Some(usage))))]);
    let line: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(line["kind"], "model_ended");
    assert_eq!(line["time_ms"], 1_000);
    assert_eq!(line["key"], "k1");
    assert_eq!(line["cost_microdollars"], 3_000_000);
    assert_eq!(rows.models[0].cost, Some(3_000_000));
    assert_eq!(rows.models[0].tokens.map(|tokens| tokens.output), Some(2));
    let served = rows.models[0].served_model.as_deref().expect("it is kept");
    assert!(served.len() <= MAX_TEXT_BYTES);
}

#[test]
fn numbers_that_a_provider_has_made_up_are_bounded() {
    let usage = TokenUsage { input: 1, cached_input: u64::MAX, output: u64::MAX, reasoning: 0 };
    let Rendered { rows, .. } = render(&[Event::Model(Box::new(model_end(Some(usage))))]);
    let tokens = rows.models[0].tokens.expect("tokens");
    assert!(tokens.output.checked_mul(250_000).is_some());
    assert_eq!(tokens.output, tokens.cached);
}

#[test]
fn a_refusal_has_a_line_and_a_row_and_an_act_a_line_alone() {
    let refused = RefusedCall {
        id: Uuid::nil(),
        at: SystemTime::UNIX_EPOCH,
        tenant: Tenant::of_key([1; 32], "team"),
        membership: Arc::default(),
        origin: CallOrigin::Script,
        parent: None,
        name: "no\u{202e}tool".into(),
        client: None,
        code: CallCode::Host(HostCode::NotFound),
    };
    let act = Act::new(ActKind::ApprovalGranted, "operator \"ann\"", "call_1").with("tool", "a-b");
    let act = TimedAct { at: SystemTime::UNIX_EPOCH, act };
    let events = [Event::Refused(Box::new(refused)), Event::Act(Box::new(act))];
    let Rendered { lines, rows } = render(&events);
    let lines: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["code"], "airlock.not_found");
    assert_eq!(lines[0]["key"], "team", "a key without a membership has its name");
    assert_eq!(lines[1]["kind"], "approval_granted");
    assert_eq!((&lines[1]["object"], &lines[1]["tool"]), (&json!("call_1"), &json!("a-b")));
    assert_eq!(rows.tools.len(), 1);
    assert_eq!(rows.tools[0].status, CallStatus::Refused);
}

#[test]
fn no_event_is_too_long_for_the_audit_log() {
    let hostile = "\u{1}".repeat(1 << 20);
    let membership = Membership {
        key: Some(hostile.clone()),
        key_name: Some(hostile.clone()),
        team: Some(hostile.clone()),
        customer: Some(hostile.clone()),
    };
    let refused = RefusedCall {
        id: Uuid::nil(),
        at: SystemTime::UNIX_EPOCH,
        tenant: Tenant::of_key([1; 32], "team"),
        membership: Arc::new(membership.clone()),
        origin: CallOrigin::Script,
        parent: None,
        name: hostile.as_str().into(),
        client: None,
        code: CallCode::Tool(hostile.as_str().into()),
    };
    let mut model = model_end(None);
    model.membership = membership;
    model.model.clone_from(&hostile);
    model.provider = Some(hostile.clone());
    model.code = Some(hostile.clone());
    let mut events = vec![Event::Refused(Box::new(refused)), Event::Model(Box::new(model))];
    for count in [0, 3, 9] {
        let mut act = Act::new(ActKind::ConfigChanged, &hostile, &hostile);
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        act.details.extend(names.iter().take(count).map(|name| (*name, hostile.clone())));
        let at = SystemTime::UNIX_EPOCH;
        events.push(Event::Act(Box::new(TimedAct { at, act })));
    }
    for line in render(&events).lines {
        assert!(line.len() <= airlock_audit::MAX_EVENT_BYTES, "{} bytes: {line:.60}", line.len());
    }
}

#[test]
fn lost_events_leave_a_line() {
    let lost = LostEvents { until: SystemTime::UNIX_EPOCH, count: 7 };
    let Rendered { lines, rows } = render(&[Event::Lost(lost)]);
    assert_eq!(lines, [r#"{"count":7,"kind":"events_lost","time_ms":0}"#]);
    assert!(rows.is_empty());
}
