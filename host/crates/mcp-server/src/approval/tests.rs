use std::sync::{Arc, LazyLock};

use super::*;
use crate::exchange::{Asks, Exchange, Outgoing};
use crate::tests::{Unused, client, params as params_of};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Filter, Origin, View},
    tool::{Allowlist, Policy, QuestionKinds, SourceSet},
};
use airlock_wire::{id::RpcId, version::Version};

const LIMIT: Duration = Duration::from_mins(5);
const MODERN: Peer = Peer {
    version: Version::V2026_07_28,
    questions: QuestionKinds::ELICITATION,
    log_level: None,
    takes_tasks: false,
};
static NONE: LazyLock<SourceSet> = LazyLock::new(SourceSet::default);
static UNASKED: GuardQuestions = GuardQuestions::new();
const LEGACY: Peer = Peer { version: Version::V2025_11_25, ..MODERN };

fn view() -> View {
    view_with("Removes a file.")
}

/// Returns a view of two tools, of which `rm` has this description.
fn view_with(description: &str) -> View {
    let catalog = Catalog::new();
    let name = client("fs");
    let policy = Policy { execute: Allowlist::All, ..Policy::default() };
    catalog.add_client(&name, airlock_catalog::SourceKind::Server("stdio"), policy);
    let remove = json!({"name": "rm", "description": description, "inputSchema": {}});
    let tools = json!([remove, {"name": "mv", "inputSchema": {}}]);
    let tools = serde_json::from_value(tools).expect("definitions");
    catalog.blocking_publish(&name, tools, Arc::new(Unused));
    catalog.snapshot().view(&Filter::none(), None)
}

fn question<'q>(view: &'q View, name: &'q str, arguments: &'q str) -> ApprovalQuestion<'q> {
    let entry = view.find(&Origin::McpClient(Approval::Given), name).expect("it exists");
    let tenant = Tenant::ANONYMOUS;
    let sources = &NONE;
    let asked_by = &UNASKED;
    ApprovalQuestion { entry, is_automatic: false, name, arguments, tenant, sources, asked_by }
}

/// Asks in the modern era, with these parameters of the call.
async fn ask(
    question: &ApprovalQuestion<'_>,
    seal: &Seal,
    params: &Value,
) -> Result<ApprovalOutcome, RpcError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut exchange = Exchange::new(RpcId::own(1), None, |outlet| async move {
        let _ = sender.send(outlet);
        Ok(String::new())
    });
    exchange.next().await;
    let outlet = receiver.await.expect("an outlet");
    question.ask(MODERN, &params_of(&params.to_string()), &outlet, seal, LIMIT).await
}

/// Returns the state of the question that is asked first.
async fn state(question: &ApprovalQuestion<'_>, seal: &Seal) -> Value {
    match ask(question, seal, &json!({})).await {
        Ok(ApprovalOutcome::Asked(result)) => {
            let result: Value = serde_json::from_str(&result).expect("JSON");
            assert_eq!(result["resultType"], "input_required");
            assert_eq!(result["inputRequests"]["approval"]["method"], "elicitation/create");
            result["requestState"].clone()
        }
        other => panic!("{other:?}"),
    }
}

fn answered(state: &Value, action: &str) -> Value {
    json!({"requestState": state, "inputResponses": {"approval": {"action": action, "content": {}}}})
}

#[tokio::test]
async fn a_modern_client_repeats_the_call_with_the_answer_of_its_user() {
    let view = view();
    let seal = Seal::new();
    let question = question(&view, "fs-rm", r#"{"a":1,"b":[{"c":2,"d":3}]}"#);
    let state = state(&question, &seal).await;
    for action in ["decline", "cancel"] {
        let outcome = ask(&question, &seal, &answered(&state, action)).await;
        assert!(matches!(outcome, Ok(ApprovalOutcome::Declined(_))), "{outcome:?}");
    }
    for unanswered in [json!({"requestState": state}), answered(&state, "maybe")] {
        let outcome = ask(&question, &seal, &unanswered).await;
        assert!(matches!(outcome, Ok(ApprovalOutcome::Asked(_))), "{outcome:?}");
    }
    let decided = ask(&question, &seal, &answered(&state, "accept")).await;
    assert_eq!(decided, Ok(ApprovalOutcome::Decided(Approval::Given)));
    let again = ask(&question, &seal, &answered(&state, "accept")).await;
    assert_eq!(again.expect_err("one answer runs one call").code, -32602);
    let unsealed = json!({"inputResponses": {"approval": {"action": "accept"}}});
    let outcome = ask(&question, &seal, &unsealed).await;
    assert!(
        matches!(outcome, Ok(ApprovalOutcome::Asked(_))),
        "an answer to no question: {outcome:?}"
    );
}

#[test]
fn a_state_counts_once_however_many_are_used_by_its_tenant_or_another_one() {
    let seal = Seal::new();
    let expires = now() + 60;
    let ann = Tenant::of_key([1; 32], "ann");
    let bob = Tenant::of_key([2; 32], "bob");
    assert!(seal.spend(&bob, spent(expires, 0)).is_ok());
    for number in 0..MAX_USED {
        assert!(seal.spend(&ann, spent(expires, number)).is_ok(), "{number}");
    }
    assert!(
        seal.spend(&ann, spent(expires, MAX_USED)).is_err(),
        "no other one is forgotten for it"
    );
    assert!(seal.spend(&ann, spent(expires, 0)).is_err());
    assert!(seal.spend(&bob, spent(expires, 0)).is_err());
    assert!(seal.spend(&bob, spent(expires, 1)).is_ok(), "another tenant has room of its own");
    seal.used.lock().insert(ann.clone(), [(now() - 1, [0; 32])].into());
    assert!(seal.spend(&ann, spent(expires, 0)).is_ok(), "an expired one takes no room");
    assert_eq!(seal.used.lock()[&ann].len(), 1);
}

fn spent(expires: u64, number: usize) -> UsedApproval {
    let mut code = [0; 32];
    code[..8].copy_from_slice(&number.to_be_bytes());
    (expires, code)
}

#[tokio::test]
async fn an_answer_counts_only_for_the_call_that_was_asked_about() {
    let view = view();
    let seal = Seal::new();
    let asked = question(&view, "fs-rm", r#"{"a":1,"b":2}"#);
    let state = state(&asked, &seal).await;
    let accept = answered(&state, "accept");
    let other_account = ApprovalQuestion {
        tenant: Tenant::of_key([1; 32], "bob"),
        ..question(&view, "fs-rm", r#"{"a":1,"b":2}"#)
    };
    let read = SourceSet::from_iter(["web"]);
    let after_reading =
        ApprovalQuestion { sources: &read, ..question(&view, "fs-rm", r#"{"a":1,"b":2}"#) };
    let mut asked_by = GuardQuestions::new();
    asked_by.push("mail".into(), "to others");
    let for_guards =
        ApprovalQuestion { asked_by: &asked_by, ..question(&view, "fs-rm", r#"{"a":1,"b":2}"#) };
    assert!(for_guards.message().ends_with("\n\nThe guard \"mail\" asks: to others"));
    let changed = view_with("Removes all files.");
    let tampered = answered(&format!("{}A", state.as_str().expect("text")).into(), "accept");
    for (question, params, seal) in [
        (question(&view, "fs-mv", r#"{"a":1,"b":2}"#), &accept, &seal),
        (question(&view, "fs-rm", r#"{"a":1,"b":3}"#), &accept, &seal),
        (question(&changed, "fs-rm", r#"{"a":1,"b":2}"#), &accept, &seal),
        (other_account, &accept, &seal),
        (after_reading, &accept, &seal),
        (for_guards, &accept, &seal),
        (question(&view, "fs-rm", r#"{"a":1,"b":2}"#), &tampered, &seal),
        (question(&view, "fs-rm", r#"{"a":1,"b":2}"#), &accept, &Seal::new()),
    ] {
        let refused = ask(&question, seal, params).await.expect_err("it is refused");
        assert_eq!(refused.code, -32602);
    }
}

#[test]
fn a_state_expires() {
    let view = view();
    let seal = Seal::new();
    let question = question(&view, "fs-rm", "{}");
    assert!(seal.open(&question, &seal.state(&question, LIMIT)).is_some());
    let mut head: Head = [7; 24];
    head[..8].copy_from_slice(&(now() - 1).to_be_bytes());
    let state = seal.sealed(&question, &head);
    assert!(seal.open(&question, &BASE64_URL_SAFE_NO_PAD.encode(state)).is_none());
}

#[test]
fn used_states_of_a_tenant_and_of_all_tenants_are_bounded() {
    let seal = Seal::new();
    let later = now() + 600;
    let counts: Vec<_> = (0..25).map(|number| fill(&seal, number, later)).collect();
    assert_eq!(counts[..9], [MAX_USED; 9]);
    assert_eq!(counts[9..12], [5_000, 2_500, 1_250], "half of what is free");
    assert_eq!(counts.iter().sum::<usize>(), MAX_ALL_USED);
    for number in [0, 24] {
        let refused = seal.spend(&tenant(number), state_of(number, MAX_USED, later));
        assert_eq!(refused.expect_err("no room").code, code::REFUSED, "{number}");
    }
    let again = seal.spend(&tenant(0), state_of(0, 0, later));
    assert_eq!(again.expect_err("it was used").code, code::INVALID_PARAMS);
    seal.used.lock().remove(&tenant(0));
    assert!(seal.spend(&tenant(24), state_of(24, MAX_USED, later)).is_ok(), "there is room again");
}

fn tenant(number: u8) -> Tenant {
    Tenant::of_key([number; 32], "t")
}

fn state_of(tenant: u8, number: usize, expires: u64) -> UsedApproval {
    let mut mac = [tenant; 32];
    mac[..8].copy_from_slice(&number.to_be_bytes());
    (expires, mac)
}

/// Uses states of a tenant until one is refused. Returns how many are remembered.
fn fill(seal: &Seal, number: u8, expires: u64) -> usize {
    // All but the last ones at once: each use looks through all tenants.
    let mut used = seal.used.lock();
    let free = MAX_ALL_USED - used.values().map(BTreeSet::len).sum::<usize>();
    let most = (MAX_USED - 1).min(free.saturating_sub(1) / 2);
    let states = (0..most).map(|state| state_of(number, state, expires));
    used.insert(tenant(number), states.collect());
    drop(used);
    let more = (most..)
        .take_while(|state| seal.spend(&tenant(number), state_of(number, *state, expires)).is_ok());
    most + more.count()
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_session_is_asked_in_the_middle_of_the_call() {
    for (answer, expected) in [
        (r#""result":{"action":"accept","content":{}}"#, ApprovalOutcome::Decided(Approval::Given)),
        (
            r#""result":{"action":"decline"}"#,
            ApprovalOutcome::Declined("the user declined it".into()),
        ),
        (r#""result":{}"#, ApprovalOutcome::Declined(UNREADABLE.into())),
        (r#""error":{"code":-1,"message":"no"}"#, ApprovalOutcome::Declined(UNREADABLE.into())),
        ("", ApprovalOutcome::Declined("the user did not answer in time".into())),
    ] {
        let asks = Arc::new(Asks::default());
        let mut exchange = Exchange::new(RpcId::own(1), Some(asks.clone()), |outlet| async move {
            let view = view();
            let seal = Seal::new();
            let question = question(&view, "fs-rm", "{}");
            let outcome = question.ask(LEGACY, &params_of("{}"), &outlet, &seal, LIMIT).await;
            Ok(format!("{:?}", format!("{:?}", outcome.expect("no error"))))
        });
        let Some(Outgoing::Ask(asked)) = exchange.next().await else { panic!("a question") };
        assert!(asked.contains("Run the tool fs-rm with these arguments?"), "{asked}");
        if !answer.is_empty() {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"airlock-0",{answer}}}"#);
            match airlock_wire::message::Message::read(
                text.into(),
                &airlock_json::Caps::memory(1 << 16),
            ) {
                Ok(airlock_wire::message::Message::Response(response)) => {
                    assert!(asks.resolve(&response));
                }
                other => panic!("{other:?}"),
            }
        }
        let Some(Outgoing::Last(last)) = exchange.next().await else { panic!("a response") };
        let expected = format!("{:?}", format!("{expected:?}"));
        assert!(last.text.contains(&expected), "{} {expected}", last.text);
    }
}

#[test]
fn a_question_shows_what_would_run_and_hides_nothing() {
    let view = view();
    let blanks = "\n".repeat(9_000);
    let long = format!(r#"{{{blanks}"a":"{}","cmd":"rm -rf /"}}"#, "x".repeat(9_000));
    let message = question(&view, "fs-rm", &long).message();
    assert!(message.contains("cmd: \"rm -rf /\""), "{message}");
    assert!(message.contains("[7002 characters are not shown]"), "{message}");
    assert!(message.chars().count() < 2_300);
    let many = (0..30).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",");
    let message = question(&view, "fs-rm", &format!("{{{many}}}")).message();
    assert!(message.ends_with("[10 more arguments are not shown]"), "{message}");
    let invisible = question(&view, "fs-rm", "{\"a\":\"\u{202e}b\"}").message();
    assert!(!invisible.contains('\u{202e}'), "{invisible}");
}
