use std::{collections::BTreeMap, future::pending};

use futures_util::FutureExt as _;
use tokio::{sync::oneshot, time::advance};

use super::*;
use crate::{
    event_log::{EventReader, Next},
    running::MAX_RUNNING,
    settings::SessionBounds,
};
use airlock_core::memory::Limited;
use airlock_core::{
    door::VirtualKey,
    tool::{ClientName, QuestionKinds},
};
use airlock_json::Caps;
use airlock_wire::{
    message::{Message, Request},
    version::Version,
};

const BOUNDS: SessionBounds = SessionBounds {
    total: 4,
    per_key: 3,
    streams_per_key: 2,
    streams: 3,
    idle: Duration::from_mins(10),
};
const PEER: Peer = Peer {
    version: Version::V2025_11_25,
    questions: QuestionKinds::ELICITATION,
    log_level: None,
    takes_tasks: true,
};

fn account(name: &str) -> Tenant {
    VirtualKey::new(name, name, BTreeMap::new()).tenant().clone()
}

fn request(id: u32) -> Request {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
    match Message::read(text.into(), &Caps::memory(1 << 16)) {
        Ok(Message::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

/// Returns an exchange that answers at once.
fn quick(id: u32, result: &str) -> Exchange {
    Exchange::ready(request(id).id, Ok(result.to_owned()))
}

/// Returns an exchange that never answers.
fn endless(id: u32) -> Exchange {
    Exchange::new(request(id).id, None, |outlet| async move {
        outlet.notify("begun", &serde_json::json!({}));
        pending::<()>().await;
        Ok(String::new())
    })
}

fn unlimited() -> MemoryBudget {
    MemoryBudget::unlimited()
}

async fn texts(reader: &mut EventReader) -> Vec<Arc<String>> {
    let mut texts = Vec::new();
    while let Some(Next { text, .. }) = reader.next().await {
        texts.push(text);
    }
    texts
}

/// Lets spawned tasks run until they wait.
async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_exists_for_its_account_only_and_until_it_is_closed() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    assert!(sessions.find(session.id(), &account("ann"), &ToolboxScope::All).is_some());
    assert!(sessions.find(session.id(), &account("bob"), &ToolboxScope::All).is_none());
    assert!(sessions.find("", &account("ann"), &ToolboxScope::All).is_none());
    let client = ToolboxScope::Client(ClientName::parse("fs").expect("a name"));
    assert!(sessions.find(session.id(), &account("ann"), &client).is_none(), "another path");
    sessions.close(&session);
    assert!(sessions.find(session.id(), &account("ann"), &ToolboxScope::All).is_none());
    assert!(session.closed().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_unless_it_is_used_runs_a_request_or_listens() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let tenant = account("ann");
    let used = sessions.open(tenant.clone(), ToolboxScope::All, PEER).expect("room");
    let running = sessions.open(tenant.clone(), ToolboxScope::All, PEER).expect("room");
    let listening = sessions.open(tenant.clone(), ToolboxScope::All, PEER).expect("room");
    running.run(endless(1), unlimited(), ()).expect("it runs");
    let listener = listening.listen();
    advance(BOUNDS.idle / 2).await;
    assert!(sessions.find(used.id(), &tenant, &ToolboxScope::All).is_some());
    advance(BOUNDS.idle / 2).await;
    assert!(
        is_open(&sessions, &used, "ann")
            && is_open(&sessions, &running, "ann")
            && is_open(&sessions, &listening, "ann")
    );
    advance(BOUNDS.idle).await;
    assert!(
        !is_open(&sessions, &used, "ann")
            && is_open(&sessions, &running, "ann")
            && is_open(&sessions, &listening, "ann")
    );
    drop(listener);
    running.cancel(&request(1).id);
    settle().await;
    advance(BOUNDS.idle).await;
    assert!(!is_open(&sessions, &running, "ann") && !is_open(&sessions, &listening, "ann"));
    assert_eq!(sessions.usage(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_gives_back_what_it_holds_when_another_client_comes() {
    let idle = BOUNDS.idle;
    for by_stream in [false, true] {
        let sessions = Sessions::new(BOUNDS, Arc::default());
        let expired = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
        advance(idle / 2).await;
        let used = sessions.open(account("bob"), ToolboxScope::All, PEER).expect("room");
        advance(idle / 2).await;
        if by_stream {
            drop(sessions.stream(account("bob")).expect("room"));
        } else {
            assert!(is_open(&sessions, &used, "bob"));
        }
        assert_eq!((sessions.usage().0, Arc::strong_count(&expired)), (1, 1));
    }
}

/// Returns whether an account can use a session.
fn is_open(sessions: &Sessions, session: &Session, name: &str) -> bool {
    sessions.find(session.id(), &account(name), &ToolboxScope::All).is_some()
}

#[tokio::test(start_paused = true)]
async fn beyond_its_bound_an_account_loses_the_session_that_is_idle_for_longest() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let mut own = Vec::new();
    for _ in 0..BOUNDS.per_key {
        own.push(sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room"));
        advance(Duration::from_secs(1)).await;
    }
    let other = sessions.open(account("bob"), ToolboxScope::All, PEER).expect("room");
    own[0].run(endless(1), unlimited(), ()).expect("it runs");
    own.push(
        sessions
            .open(account("ann"), ToolboxScope::All, PEER)
            .expect("in the place of an idle one"),
    );
    let left: Vec<bool> = own.iter().map(|session| is_open(&sessions, session, "ann")).collect();
    assert_eq!(left, [true, false, true, true]);
    assert!(is_open(&sessions, &other, "bob"));
    for session in &own[2..] {
        session.run(endless(1), unlimited(), ()).expect("it runs");
    }
    let refused =
        sessions.open(account("ann"), ToolboxScope::All, PEER).err().expect("all are in use");
    assert_eq!(refused.code, code::REFUSED);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_on_all_the_account_with_the_most_sessions_loses_one() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let large: Vec<_> = (0..3)
        .map(|_| sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room"))
        .collect();
    let small = sessions.open(account("bob"), ToolboxScope::All, PEER).expect("room");
    advance(Duration::from_secs(1)).await;
    sessions.open(account("cid"), ToolboxScope::All, PEER).expect("in the place of one of ann's");
    let left = large.iter().filter(|session| is_open(&sessions, session, "ann")).count();
    assert_eq!(left, 2);
    assert!(sessions.find(small.id(), &account("bob"), &ToolboxScope::All).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_makes_room_for_a_tenant_with_fewer() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let mut own = Vec::new();
    for id in 0..3 {
        let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
        session.run(endless(id), unlimited(), ()).expect("it runs");
        own.push(session);
        advance(Duration::from_secs(1)).await;
    }
    sessions.open(account("bob"), ToolboxScope::All, PEER).expect("room");
    let new = sessions
        .open(account("cid"), ToolboxScope::All, PEER)
        .expect("in the place of ann's oldest");
    assert!(own[0].closed().is_cancelled() && !own[1].closed().is_cancelled());
    assert!(sessions.find(new.id(), &account("cid"), &ToolboxScope::All).is_some());
}

#[tokio::test]
async fn waiting_streams_are_bounded_for_an_account_and_in_all() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let first = sessions.stream(account("ann")).expect("room");
    let second = sessions.stream(account("ann")).expect("room");
    assert!(sessions.stream(account("ann")).is_err());
    let third = sessions.stream(account("bob")).expect("room");
    // Ann has two more than a newcomer, whose stream takes the place of the oldest.
    let fourth = sessions.stream(account("cid")).expect("ann's");
    assert!(first.evicted().now_or_never().is_some() && second.evicted().now_or_never().is_none());
    assert!(sessions.stream(account("dan")).is_err(), "nobody has two more");
    drop(first);
    drop((second, third, fourth));
    assert_eq!(sessions.usage(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn few_of_many_sessions_beyond_lower_bounds_are_closed_at_a_time() {
    let many = SessionBounds { per_key: 64, total: 64, ..BOUNDS };
    for (lower, name) in
        [(SessionBounds { per_key: 1, ..many }, "ann"), (SessionBounds { total: 1, ..many }, "bob")]
    {
        let sessions = Sessions::new(many, Arc::default());
        for _ in 0..40 {
            sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
        }
        sessions.set_bounds(lower);
        for left in [25, 10, 1] {
            sessions.open(account(name), ToolboxScope::All, PEER).expect("room");
            assert_eq!(sessions.usage().0, left, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lower_bounds_close_sessions_and_streams_when_another_one_is_opened() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    for name in ["ann", "ann", "ann", "bob"] {
        sessions.open(account(name), ToolboxScope::All, PEER).expect("room");
        advance(Duration::from_secs(1)).await;
    }
    sessions.set_bounds(SessionBounds { per_key: 1, ..BOUNDS });
    sessions.open(account("ann"), ToolboxScope::All, PEER).expect("in the place of the idle ones");
    assert_eq!(sessions.usage().0, 2);
    sessions.set_bounds(SessionBounds { total: 1, ..BOUNDS });
    sessions.open(account("cid"), ToolboxScope::All, PEER).expect("in the place of the idle ones");
    assert_eq!(sessions.usage().0, 1);

    let first = sessions.stream(account("ann")).expect("room");
    let second = sessions.stream(account("ann")).expect("room");
    let third = sessions.stream(account("bob")).expect("room");
    sessions.set_bounds(SessionBounds { streams_per_key: 1, ..BOUNDS });
    assert!(sessions.stream(account("ann")).is_err());
    assert!(first.evicted().now_or_never().is_some() && second.evicted().now_or_never().is_none());
    drop(third);
    sessions.set_bounds(BOUNDS);
    let third = sessions.stream(account("ann")).expect("room");
    sessions.set_bounds(SessionBounds { streams: 2, ..BOUNDS });
    let fourth = sessions.stream(account("cid")).expect("ann's");
    assert!(second.evicted().now_or_never().is_some() && third.evicted().now_or_never().is_none());
    drop((first, second, third, fourth));
    assert_eq!(sessions.usage().1, 0);
}

#[tokio::test(start_paused = true)]
async fn an_identifier_is_in_use_until_its_request_has_ended() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let response = session.run(endless(1), unlimited(), ()).expect("it runs");
    assert!(session.run(quick(1, "{}"), unlimited(), ()).is_err());
    session.cancel(&request(1).id);
    session.cancel(&request(1).id);
    session.cancel(&request(2).id);
    settle().await;
    let sent = texts(&mut response.into_stream()).await;
    assert!(sent.len() <= 1, "no response of a cancelled request: {sent:?}");
    session.run(quick(1, "{}"), unlimited(), ()).expect("it is free again");
}

#[tokio::test(start_paused = true)]
async fn running_requests_of_a_session_are_bounded_and_end_with_it() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let count = u32::try_from(MAX_RUNNING).expect("small");
    let responses: Vec<_> =
        (0..count).map(|id| session.run(endless(id), unlimited(), ()).expect("room")).collect();
    let refused = session.run(quick(count, "{}"), unlimited(), ()).err().expect("too many");
    assert_eq!(refused.code, code::REFUSED);
    sessions.close(&session);
    for response in responses {
        texts(&mut response.into_stream()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_stream_are_kept_for_a_minute_and_others_not_at_all() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let mut response = session.run(quick(1, "{}"), unlimited(), ()).expect("it runs");
    assert!(response.response().await.is_some() && session.log(1).is_some());
    drop(response);
    assert!(session.log(1).is_none());
    let response = session.run(quick(2, "{}"), unlimited(), ()).expect("it runs");
    let mut log = response.into_stream();
    texts(&mut log).await;
    settle().await;
    assert!(session.log(log.stream()).is_some());
    advance(KEPT_FOR + Duration::from_secs(1)).await;
    settle().await;
    assert!(session.log(log.stream()).is_none());
}

#[tokio::test(start_paused = true)]
async fn kept_events_are_bounded_in_number_and_in_bytes() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let mut streams = Vec::new();
    for id in 0..20 {
        streams.push(streamed(&session, id, "{}").await);
    }
    assert_eq!(kept(&session, &streams), KEPT_LOGS);
    assert!(session.log(streams[19]).is_some() && session.log(streams[0]).is_none());
    let large = format!("\"{}\"", "x".repeat(KEPT_BYTES));
    let first = streamed(&session, 100, &large).await;
    let second = streamed(&session, 101, "{}").await;
    assert!(session.log(first).is_none() && session.log(second).is_some());
    assert_eq!(kept(&session, &streams), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_events_are_dropped_holds_its_session_no_longer() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let idle = Arc::strong_count(&session);
    for id in 0..200 {
        streamed(&session, id, "{}").await;
    }
    settle().await;
    assert_eq!(Arc::strong_count(&session) - idle, KEPT_LOGS, "one for each that is kept");
    sessions.close(&session);
    settle().await;
    assert_eq!(Arc::strong_count(&session), 1);
}

/// Runs a request whose response is streamed, and returns the number of the stream.
async fn streamed(session: &Arc<Session>, id: u32, result: &str) -> u64 {
    let response = session.run(quick(id, result), unlimited(), ()).expect("it runs");
    let mut log = response.into_stream();
    texts(&mut log).await;
    settle().await;
    log.stream()
}

fn kept(session: &Session, streams: &[u64]) -> usize {
    streams.iter().filter(|stream| session.log(**stream).is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn a_response_without_memory_becomes_an_error_and_its_memory_is_given_back() {
    let memory = Limited::new(1_000);
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let large = format!("\"{}\"", "x".repeat(2_000));
    let mut response =
        session.run(quick(1, &large), MemoryBudget::new(memory.clone()), ()).expect("it runs");
    let sent = response.response().await.expect("an error");
    assert!(sent.contains(r#""code":-32000"#), "{sent:?}");
    let mut response =
        session.run(quick(2, "{}"), MemoryBudget::new(memory.clone()), ()).expect("it runs");
    assert!(response.response().await.is_some() && memory.taken() > 0);
    drop(response);
    assert_eq!(memory.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_ready_at_once_needs_no_task() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let mut response = session.run(quick(1, "7"), unlimited(), ()).expect("it runs");
    let next = response.peek().now_or_never().flatten().expect("it is ready");
    drop(response);
    let text = Arc::into_inner(next.text).expect("the response alone has it now");
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":1,"result":7}"#);
    assert!(next.is_last);
    let mut response = session.run(endless(2), unlimited(), ()).expect("it runs");
    let next = response.peek().now_or_never().flatten().expect("it has notified");
    assert!(next.text.contains("begun") && !next.is_last);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_client_has_left_goes_on_and_its_events_are_not_kept() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    for has_begun in [false, true] {
        let (proceed, proceeding) = oneshot::channel::<()>();
        let (ended, end) = oneshot::channel();
        let exchange = Exchange::new(request(1).id, None, |_| async move {
            let _ = proceeding.await;
            let _ = ended.send(());
            Ok("{}".to_owned())
        });
        let mut response = session.run(exchange, unlimited(), ()).expect("it runs");
        let stream = session.next_stream.load(Ordering::Relaxed) - 1;
        if has_begun {
            assert!(response.peek().now_or_never().is_none());
        }
        drop(response);
        proceed.send(()).expect("it waits");
        assert!(end.await.is_ok(), "it ran to its end");
        settle().await;
        assert!(session.log(stream).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_stream_listens_and_another_one_takes_over_when_it_ends() {
    let sessions = Sessions::new(BOUNDS, Arc::default());
    let session = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    let first = session.listen();
    let second = session.listen();
    assert!(!first.is_current() && second.is_current());
    drop(second);
    assert!(first.is_current());
    let third = session.listen();
    assert!(third.is_current() && !first.is_current());
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_session_is_that_until_it_is_closed_or_was_used_last() {
    let times = Arc::<ServerTimes>::default();
    let sessions = Sessions::new(BOUNDS, times.clone());
    let closed = sessions.open(account("ann"), ToolboxScope::All, PEER).expect("room");
    drop(sessions.open(account("bob"), ToolboxScope::All, PEER).expect("room"));
    advance(Duration::from_secs(7)).await;
    sessions.close(&closed);
    drop(closed);
    assert_eq!((times.sessions().count(), times.sessions().sum()), (1, 7.0));
    advance(BOUNDS.idle).await;
    drop(sessions.open(account("cid"), ToolboxScope::All, PEER).expect("room"));
    assert_eq!((times.sessions().count(), times.sessions().sum()), (2, 7.0));
}
