use std::{collections::BTreeMap, time::Duration};

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::{
    limits::{BURST_TOKENS, PROGRESS_QUEUE, TOKEN_TIME},
    variables::variable_secrets,
};
use airlock_core::{door::SessionId, secret::Secret, tenant::Tenant};

fn inbox() -> (Arc<Inbox>, Unsolicited) {
    let env = BTreeMap::from([("TOKEN".to_owned(), Secret::new("hunter2hunter2"))]);
    Inbox::new(Arc::new(Redactor::new(variable_secrets(&env)).expect("a good secret")))
}

fn receive(inbox: &Arc<Inbox>, message: &Value) {
    inbox.receive(message.to_string().as_bytes());
}

fn ann() -> Tenant {
    Tenant::of_key([1; 32], "ann")
}

/// Returns a caller without a session.
fn party(tenant: &Tenant) -> Party {
    Party { tenant: tenant.clone(), session: None }
}

/// Returns what the sender of a request has received; `None` if it still waits.
fn taken(waiting: &mut AwaitedResponse) -> Option<Reception> {
    (&mut waiting.response).now_or_never()?.ok()
}

/// Returns the received text as JSON.
fn json_of(waiting: &mut AwaitedResponse) -> Value {
    match taken(waiting) {
        Some(Reception::Text(text)) => serde_json::from_slice(&text).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

fn answer(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {"content": "odd"}})
}

#[tokio::test]
async fn a_response_is_accepted_once_and_only_if_it_was_requested() {
    let (inbox, _unsolicited) = inbox();
    receive(&inbox, &answer(1));
    let mut first = inbox.expect(1, ResponseKind::Whole);
    let mut second = inbox.expect(2, ResponseKind::Whole);
    assert_eq!(taken(&mut first), None, "it came before it was asked for");
    receive(&inbox, &answer(1));
    receive(&inbox, &json!({"jsonrpc": "2.0", "id": 1, "result": "again"}));
    assert_eq!(json_of(&mut first), answer(1));
    receive(&inbox, &answer("2"));
    assert_eq!(json_of(&mut second), answer("2"), "a number may come back as a string");
    drop(inbox.expect(3, ResponseKind::Whole));
    assert!(!inbox.is_awaited(3), "it was given up");
    receive(&inbox, &answer(3));
    assert!(inbox.in_flight.lock().awaited.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_log_message_belongs_to_the_only_request_of_a_caller() {
    let (inbox, _unsolicited) = inbox();
    let message = json!({"method": "notifications/message", "params": {"level": "info"}});
    let mut gateways_own = inbox.expect(1, ResponseKind::Whole);
    let mut first = inbox.expect(2, ResponseKind::Whole);
    first.belong(party(&ann()), LogMessages::Wanted, None);
    receive(&inbox, &message);
    assert!(first.logs.try_recv().is_ok() && gateways_own.logs.try_recv().is_err());
    let mut second = inbox.expect(3, ResponseKind::Whole);
    second.belong(party(&ann()), LogMessages::Dropped, None);
    receive(&inbox, &message);
    assert!(first.logs.try_recv().is_err(), "it may be about the other one");
    drop(first);
    let mut third = inbox.expect(4, ResponseKind::Whole);
    third.belong(party(&ann()), LogMessages::Wanted, None);
    receive(&inbox, &answer(3));
    receive(&inbox, &message);
    assert!(third.logs.try_recv().is_err(), "it may be about the one that was given up");
    tokio::time::advance(super::super::limits::LOG_QUARANTINE).await;
    receive(&inbox, &message);
    assert!(third.logs.try_recv().is_ok() && second.logs.try_recv().is_err());
}

#[tokio::test]
async fn a_response_that_cannot_be_read_fails_its_request_at_once() {
    let (inbox, _unsolicited) = inbox();
    let dense = format!("[{}0]", r#"{"":0},"#.repeat(400_000));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!("\"{}\"", "x".repeat(MAX_MESSAGE_BYTES));
    for (result, is_large) in [
        (dense.as_str(), true),
        (&long, true),
        (&deep, false),
        ("1e999x", false),
        ("{\"a\":1", false),
        ("\u{1}", false),
    ] {
        let mut waiting = inbox.expect(1, ResponseKind::Whole);
        inbox.receive(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).as_bytes());
        let reception = taken(&mut waiting).expect("it does not wait");
        match reception {
            Reception::TooLarge => assert!(is_large),
            Reception::Unreadable(_) => assert!(!is_large),
            Reception::Text(_) => panic!("{result:.20} was accepted"),
        }
    }
    let mut waiting = inbox.expect(1, ResponseKind::Whole);
    inbox.refuse_too_long(1);
    assert_eq!(taken(&mut waiting), Some(Reception::TooLarge));
}

#[tokio::test]
async fn pages_are_kept_as_received_up_to_their_length() {
    let (inbox, _unsolicited) = inbox();
    let mut waiting = inbox.expect(1, ResponseKind::Pages);
    let text = br#"{"id":1,"result":{"tools":[1e999,"hunter2hunter2"]}}"#;
    inbox.receive(text);
    assert_eq!(taken(&mut waiting), Some(Reception::Text(text.to_vec())));
}

#[tokio::test]
async fn every_wait_ends_with_the_connection() {
    let (inbox, _unsolicited) = inbox();
    let mut before = inbox.expect(1, ResponseKind::Whole);
    inbox.disconnect();
    let mut after = inbox.expect(2, ResponseKind::Whole);
    assert!((&mut before.response).await.is_err() && (&mut after.response).await.is_err());
}

#[tokio::test]
async fn secrets_are_redacted_from_every_accepted_message() {
    let (inbox, mut unsolicited) = inbox();
    let mut waiting = inbox.expect(1, ResponseKind::Whole);
    receive(&inbox, &json!({"id": 1, "error": {"code": -32000, "message": "bad hunter2hunter2"}}));
    assert_eq!(json_of(&mut waiting)["error"]["message"], "bad [secret TOKEN]");
    receive(
        &inbox,
        &json!({"method": "notifications/resources/updated", "params": "hunter2hunter2"}),
    );
    let event = unsolicited.events.try_recv().expect("an event");
    assert!(String::from_utf8_lossy(&event.text).contains("[secret TOKEN]"));
}

#[tokio::test]
async fn progress_arrives_in_its_order_before_the_response() {
    let (inbox, _unsolicited) = inbox();
    let mut waiting = inbox.expect(7, ResponseKind::Whole);
    for done in 0..PROGRESS_QUEUE + 2 {
        receive(&inbox, &progress(&json!(7), done));
    }
    receive(&inbox, &progress(&json!(8), 1));
    receive(&inbox, &json!({"method": "notifications/progress"}));
    receive(&inbox, &answer(7));
    receive(&inbox, &progress(&json!(7), 99));
    let first = waiting.reports.recv().await.expect("a report");
    assert_eq!((first.done, first.total, first.message.as_deref()), (0.0, Some(9.0), Some("a b")));
    let mut rest = 0;
    while waiting.reports.recv().await.is_some() {
        rest += 1;
    }
    assert_eq!(rest, PROGRESS_QUEUE - 1, "those that do not fit are dropped");
    let mut by_text = inbox.expect(9, ResponseKind::Whole);
    receive(&inbox, &progress(&json!("9"), 1));
    assert!(by_text.reports.try_recv().is_ok());
}

fn progress(token: &Value, done: usize) -> Value {
    let params = json!({"progressToken": token, "progress": done, "total": 9, "message": "a\nb"});
    json!({"method": "notifications/progress", "params": params})
}

#[tokio::test]
async fn notifications_are_passed_on_by_method_and_a_list_change_is_recorded() {
    let (inbox, mut unsolicited) = inbox();
    for method in ["novel", "cancelled", "progress", "subscriptions/acknowledged"] {
        receive(&inbox, &json!({"method": format!("notifications/{method}"), "params": {}}));
        assert!(unsolicited.events.try_recv().is_err(), "{method}");
    }
    receive(&inbox, &updated(MAX_NOTIFICATION_BYTES));
    assert!(unsolicited.events.try_recv().is_err(), "too long");
    for _ in 0..=MAX_EVENTS {
        receive(&inbox, &updated(1));
    }
    let kept = std::iter::from_fn(|| unsolicited.events.try_recv().ok()).count();
    assert_eq!(kept, MAX_EVENTS);
    for _ in 0..3 {
        receive(&inbox, &json!({"method": "notifications/tools/list_changed"}));
    }
    inbox.changed().await;
    assert!(inbox.changed().now_or_never().is_none(), "several reports count as one");
}

fn updated(bytes: usize) -> Value {
    json!({"method": "notifications/resources/updated", "params": "x".repeat(bytes)})
}

#[tokio::test]
async fn a_request_is_passed_on_and_one_too_many_is_a_flood() {
    let (inbox, mut unsolicited) = inbox();
    receive(&inbox, &request(0, "ping"));
    receive(&inbox, &request(0, "ping"));
    assert!(unsolicited.requests.try_recv().is_ok());
    assert!(unsolicited.requests.try_recv().is_err(), "the same identifier again");
    for id in 1..MAX_UNANSWERED {
        receive(&inbox, &request(id, "roots/list"));
        assert!(unsolicited.requests.try_recv().is_ok());
    }
    inbox.record_answered(&RpcId::from(0));
    receive(&inbox, &request(1_000, "ping"));
    assert!(unsolicited.requests.try_recv().is_ok());
    assert!(inbox.flood().is_none() && inbox.ready().await.is_ok());
    receive(&inbox, &request(1_001, "ping"));
    assert!(unsolicited.requests.try_recv().is_err());
    assert_eq!(
        (inbox.flood(), inbox.ready().await),
        (Some(Flood::Unanswered), Err(Flood::Unanswered))
    );
}

fn request(id: usize, method: &str) -> Value {
    json!({"id": id, "method": method, "params": ["x"]})
}

#[tokio::test]
async fn the_method_of_a_request_is_cut() {
    let (inbox, mut unsolicited) = inbox();
    receive(
        &inbox,
        &json!({"id": 3, "method": "m".repeat(airlock_strings::MAX_EXCERPT_BYTES + 1)}),
    );
    let request = unsolicited.requests.try_recv().expect("a request");
    assert_eq!(request.method.len(), airlock_strings::MAX_EXCERPT_BYTES);
}

#[tokio::test(start_paused = true)]
async fn unsolicited_messages_are_delayed_and_then_refused_as_a_flood() {
    let (inbox, _unsolicited) = inbox();
    let mut read = 0_u32;
    while inbox.ready().await.is_ok() {
        inbox.receive(b"this is no message");
        read += 1;
    }
    // A burst, then the allowed rate until `FLOOD_TOLERANCE` ends; the clock counts whole
    // milliseconds.
    assert!((35_000..50_000).contains(&read), "{read}");
    let waited = tokio::time::timeout(Duration::from_secs(1), inbox.flooded()).await;
    assert_eq!(waited, Ok(Flood::Rate));
}

#[tokio::test(start_paused = true)]
async fn any_byte_counts_as_a_sign_of_life() {
    let (inbox, _unsolicited) = inbox();
    let begun = inbox.last_received();
    sleep(Duration::from_secs(5)).await;
    inbox.receive(b"?");
    assert_eq!(inbox.last_received().duration_since(begun), Duration::from_secs(5));
}

/// Returns the tokens that the server is charged for what `act` receives.
fn cost(act: impl Fn(&Arc<Inbox>)) -> u128 {
    let (inbox, _unsolicited) = inbox();
    inbox.spend(BURST_TOKENS);
    act(&inbox);
    let wait = inbox.bucket.lock().wait(Instant::now()).expect("no flood");
    wait.as_nanos() / TOKEN_TIME.as_nanos()
}

#[tokio::test(start_paused = true)]
async fn every_unsolicited_message_is_charged_by_its_kind_and_size() {
    assert_eq!(cost_of("no message"), 1);
    assert_eq!(cost_of(&"x".repeat(3 * BYTES_PER_TOKEN)), 4);
    assert_eq!(cost_of(&notification("message")), 1);
    assert_eq!(cost_of(&notification("tools/list_changed")), 1);
    assert_eq!(cost_of(r#"{"id":1,"method":"ping"}"#), 1 + u128::from(REQUEST_TOKENS));
    assert_eq!(cost_of(r#"{"id":1,"result":{}}"#), 1, "it was not requested");
    assert_eq!(cost_of(r#"{"error":{"code":1,"message":"m"}}"#), 1);
    assert_eq!(cost(|inbox| inbox.charge_stream()), u128::from(STREAM_TOKENS));
    let large = json!({"id": 1, "result": {"x": "x".repeat(1 << 20)}});
    let requested = cost(|inbox| {
        let _waiting = inbox.expect(1, ResponseKind::Whole);
        receive(inbox, &large);
    });
    assert_eq!(requested, 0);
    assert_eq!(cost_of_abandoned(&large, 1), 0, "it was requested, and its caller has left");
    assert!(cost_of_abandoned(&large, 2) > 0, "a response comes once");
}

fn cost_of(text: &str) -> u128 {
    cost(|inbox| inbox.receive(text.as_bytes()))
}

fn notification(method: &str) -> String {
    json!({"method": format!("notifications/{method}")}).to_string()
}

/// Returns the cost of responses to one request whose caller has left.
fn cost_of_abandoned(response: &Value, times: usize) -> u128 {
    cost(|inbox| {
        let waiting = inbox.expect(1, ResponseKind::Whole);
        waiting.belong(party(&ann()), LogMessages::Dropped, None);
        drop(waiting);
        (0..times).for_each(|_| receive(inbox, response));
    })
}

#[tokio::test]
async fn a_question_reaches_the_only_caller_or_the_one_on_whose_stream_it_came() {
    let (inbox, mut unsolicited) = inbox();
    let ask = |id: i64, within: Option<i64>| {
        let question = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "hunter2hunter2"}});
        inbox.receive_within(within, question.to_string().as_bytes());
    };
    let mut refused = || unsolicited.requests.try_recv().map(|request| request.id).ok();
    ask(0, None);
    assert_eq!(refused(), Some(RpcId::from(0)), "no caller is there");
    let (taker, mut asked) = Taker::new(2);
    let mut kept = Vec::new();
    let mut next = || {
        let question = asked.try_recv().ok()?;
        let id = question.open.id().clone();
        kept.push(question);
        Some(id)
    };
    let first = inbox.expect(1, ResponseKind::Whole);
    first.belong(party(&ann()), LogMessages::Dropped, Some(taker));
    ask(1, None);
    assert_eq!((next(), refused()), (Some(RpcId::from(1)), None));
    let second = inbox.expect(2, ResponseKind::Whole);
    second.belong(party(&ann()), LogMessages::Dropped, None);
    ask(2, None);
    assert_eq!((next(), refused()), (None, Some(RpcId::from(2))), "it may be either's");
    ask(3, Some(1));
    ask(4, Some(2));
    assert_eq!((next(), refused()), (Some(RpcId::from(3)), Some(RpcId::from(4))));
    drop(second);
    ask(5, None);
    assert_eq!((next(), refused()), (None, Some(RpcId::from(5))), "it may be of the one given up");
    for id in 6..9 {
        ask(id, Some(1));
    }
    assert_eq!(refused(), Some(RpcId::from(8)), "the queue is full");
    let long = json!({"jsonrpc": "2.0", "id": 9, "method": "roots/list", "params": {"x": "x".repeat(MAX_QUESTION_BYTES)}});
    inbox.receive_within(Some(1), long.to_string().as_bytes());
    assert_eq!(refused(), Some(RpcId::from(9)), "it is too long");
}

#[tokio::test(start_paused = true)]
async fn after_a_call_was_given_up_only_its_tenant_is_asked_until_it_is_answered() {
    let (inbox, _unsolicited) = inbox();
    let bob = Tenant::of_key([2; 32], "bob");
    let given_up = inbox.expect(1, ResponseKind::Whole);
    given_up.belong(party(&ann()), LogMessages::Dropped, None);
    drop(given_up);
    tokio::time::advance(super::super::limits::LOG_QUARANTINE * 100).await;
    let mut id = 100;
    let mut is_asked = |tenant: &Tenant| {
        id += 1;
        let (taker, mut asked) = Taker::new(1);
        let waiting = inbox.expect(id, ResponseKind::Whole);
        waiting.belong(party(tenant), LogMessages::Dropped, Some(taker));
        let question = json!({"jsonrpc": "2.0", "id": format!("q{id}"), "method": "roots/list"});
        receive(&inbox, &question);
        let is_asked = asked.try_recv().is_ok();
        // It is answered, and not given up.
        receive(&inbox, &answer(id));
        is_asked
    };
    assert!(!is_asked(&bob), "the question may be about the call of another tenant");
    assert!(is_asked(&ann()));
    receive(&inbox, &answer(1));
    assert!(is_asked(&bob), "the server no longer works on that call");
}

#[tokio::test(start_paused = true)]
async fn a_question_reaches_the_session_of_all_running_calls_and_no_other() {
    let (inbox, mut unsolicited) = inbox();
    let one = Some(SessionId::next());
    let other = Some(SessionId::next());
    let (taker, mut asked) = Taker::new(8);
    let mut last = 0;
    let mut call = |session| {
        last += 1;
        let waiting = inbox.expect(last, ResponseKind::Whole);
        let party = Party { tenant: ann(), session };
        waiting.belong(party, LogMessages::Dropped, Some(taker.clone()));
        waiting
    };
    let mut next = 0;
    let mut ask = || {
        next += 1;
        receive(&inbox, &json!({"id": next, "method": "roots/list"}));
        match (asked.try_recv(), unsolicited.requests.try_recv()) {
            (Ok(question), Err(_)) => Ok(question),
            (Err(_), Ok(request)) => Err(request.not_asked),
            both => panic!("{}", both.0.is_ok()),
        }
    };
    assert_eq!(ask().err(), Some(Some(NotAsked::NoCaller)));
    let first = call(one);
    let second = call(one);
    let question = ask().expect("both are of one session");
    let third = call(other);
    assert_eq!(ask().err(), Some(Some(NotAsked::SeveralClients)));
    drop(third);
    assert_eq!(ask().err(), Some(Some(NotAsked::Cancelled)), "the server may still work on it");
    inbox.record_cancelled(3);
    drop(ask().expect("the server has read the cancellation"));
    let (_, response) = unsolicited.responses.try_recv().expect("a response");
    assert!(response.is_err(), "no caller answers it, and both calls may wait for it");
    drop(second);
    assert_eq!(ask().err(), Some(Some(NotAsked::Cancelled)));
    receive(&inbox, &answer(2));
    let forgotten = ask().expect("the server has answered it");
    // The question of a call that has ended is answered all the same: another one may have asked.
    question.open.respond(Ok("{}".to_owned()));
    let (id, response) = unsolicited.responses.try_recv().expect("a response");
    assert!(id == RpcId::from(2) && response.is_ok());
    drop(forgotten);
    assert!(unsolicited.responses.try_recv().is_err(), "its own call is the only one");
    let _fourth = call(one);
    let question = ask().expect("both are of one session");
    drop(question);
    let (_, response) = unsolicited.responses.try_recv().expect("a response");
    assert!(response.is_err(), "the other call may wait for it");
    drop(first);
}

#[tokio::test]
async fn questions_that_callers_have_are_no_flood_and_are_forgotten_with_them() {
    let (inbox, mut unsolicited) = inbox();
    let count = MAX_UNANSWERED + 10;
    let (taker, mut asked) = Taker::new(count);
    let waiting = inbox.expect(1, ResponseKind::Whole);
    waiting.belong(party(&ann()), LogMessages::Dropped, Some(taker));
    for id in 0..count {
        receive(&inbox, &json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}));
    }
    assert!(inbox.flood().is_none() && unsolicited.requests.try_recv().is_err());
    let kept: Vec<_> = (0..count).map(|_| asked.try_recv().expect("a question")).collect();
    assert_eq!(inbox.in_flight.lock().asked.len(), count);
    drop(kept);
    assert!(inbox.in_flight.lock().asked.is_empty());
    assert!(inbox.in_flight.lock().unanswered.is_empty());
}

#[tokio::test]
async fn texts_that_are_no_messages_are_counted_and_the_first_one_is_quoted() {
    let (inbox, _unsolicited) = inbox();
    for blank in ["", " \t"] {
        inbox.receive(blank.as_bytes());
    }
    receive(&inbox, &json!({"jsonrpc": "2.0", "method": "notifications/message"}));
    assert!(inbox.noise().is_none() && inbox.noisy().now_or_never().is_none());
    let first = format!("hunter2hunter2\u{1b}{}", "x".repeat(MAX_MESSAGE_BYTES));
    for text in [&first, "second", "[1]"] {
        inbox.receive(text.as_bytes());
    }
    inbox.noisy().now_or_never().expect("there was a text");
    let noise = inbox.noise().expect("there was a text");
    assert_eq!(noise.lines, 3);
    assert!(
        noise.first.starts_with("[secret TOKEN]")
            && noise.first.len() <= airlock_strings::MAX_EXCERPT_BYTES + 8,
        "{noise:?}"
    );
}
