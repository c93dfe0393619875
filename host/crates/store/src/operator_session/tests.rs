use std::{sync::mpsc, task::Poll};

use futures_util::future::join_all;

use super::*;
use crate::tests::home::{TestHome, on_both};

const LIFE: Duration = Duration::from_mins(10);
const HOUR: Duration = Duration::from_hours(1);
const RULES: SessionRules = SessionRules { policy: [5; 32], idle: HOUR };

on_both! {
    a_login_is_taken_once_and_by_its_own_browser,
    a_login_expires_and_one_too_many_ends_the_oldest_of_the_peer_with_the_most,
    a_peer_has_a_bounded_number_of_logins,
    with_a_key_a_login_remembers_nothing_that_is_readable,
    a_session_is_valid_while_it_is_used_and_not_beyond_its_life,
    a_session_ends_with_its_settings_its_successor_and_its_revocation,
    sessions_have_a_bounded_number_for_each_operator,
    a_session_is_found_although_another_peer_takes_all_places_that_it_can_get,
}

async fn begin(database: &Database, state: u8) {
    begin_from(database, state, 1).await;
}

async fn begin_from(database: &Database, state: u8, peer: u8) {
    let document = Secret::new("hunter2");
    let login =
        NewOperatorLogin { state: [state; 32], browser: [7; 32], peer: [peer; 32], document };
    database.begin_operator_login(login, LIFE).await.expect("written");
}

async fn take(database: &Database, state: u8, browser: u8) -> OperatorLoginTaken {
    let taken = database.take_operator_login([state; 32], [browser; 32], [1; 32]);
    taken.await.expect("written")
}

fn done() -> OperatorLoginTaken {
    OperatorLoginTaken::Done(Secret::new("hunter2"))
}

fn new(number: u8) -> NewOperatorSession {
    NewOperatorSession {
        id: format!("id-{number}"),
        digest: [number; 32],
        policy: RULES.policy,
        issuer: "https://idp".to_owned(),
        subject: "ann\0".to_owned(),
        name: "ann (https://idp)".to_owned(),
        role: "admin".to_owned(),
        sees_payloads: true,
    }
}

async fn open(database: &Database, number: u8, previous: Option<u8>) {
    let previous = previous.map(|number| [number; 32]);
    let opened = database.open_operator_session(new(number), 3 * HOUR, previous).await;
    opened.expect("written");
}

async fn revoke(database: &Database, id: &str) -> Option<String> {
    database.revoke_operator_session(id, "bob").await.expect("written")
}

/// Finds a session, and records its use if that is due.
async fn find(database: &Database, number: u8) -> Option<OperatorSession> {
    let found = database.operator_session([number; 32], RULES, "peer").await.expect("read")?;
    if found.is_use_due {
        database.record_operator_session_use([number; 32]).await.expect("written");
    }
    Some(found.session)
}

async fn a_login_is_taken_once_and_by_its_own_browser(home: TestHome) {
    let database = home.open().await;
    begin(&database, 1).await;
    assert_eq!(take(&database, 2, 7).await, OperatorLoginTaken::Gone);
    assert_eq!(take(&database, 1, 8).await, OperatorLoginTaken::OtherBrowser);
    assert_eq!(take(&database, 1, 7).await, done());
    assert_eq!(take(&database, 1, 7).await, OperatorLoginTaken::Gone);
}

#[test]
fn a_login_shows_no_secret_in_the_log() {
    let document = Secret::new("hunter2");
    let login = NewOperatorLogin { state: [1; 32], browser: [2; 32], peer: [3; 32], document };
    assert!(!format!("{login:?} {:?}", done()).contains("hunter2"));
}

async fn a_login_expires_and_one_too_many_ends_the_oldest_of_the_peer_with_the_most(
    home: TestHome,
) {
    let database = home.open().await;
    begin(&database, 1).await;
    home.clock.pass(LIFE);
    assert_eq!(take(&database, 1, 7).await, OperatorLoginTaken::Gone);
    begin(&database, 2).await;
    home.clock.pass(Duration::from_secs(1));
    database
        .write(Subject::OPERATOR_SESSIONS, |sql| {
            let insert = "INSERT INTO operator_login (id, browser, peer, expires_ms, document) \
                          VALUES (?1, ?2, ?2, ?3, ?2)";
            let expires = sql.now() + milliseconds(LIFE);
            let ids: Vec<_> = (1..MAX_LOGINS).map(|number| number.to_string()).collect();
            let rows: Vec<_> =
                ids.iter().map(|id| params![id, &[0_u8; 32], expires].to_vec()).collect();
            sql.run_all(insert, &rows).map(drop)
        })
        .await
        .expect("written");
    begin(&database, 3).await;
    let count = "SELECT count(*) FROM operator_login";
    let count: u32 = database.read(|sql| sql.one(count, &[], first)).await.expect("read");
    assert_eq!(count, MAX_LOGINS, "one of the others has ended");
    assert_eq!(take(&database, 2, 7).await, done(), "it is older, and of another peer");
    assert_eq!(take(&database, 3, 7).await, done());
}

async fn a_peer_has_a_bounded_number_of_logins(home: TestHome) {
    let database = home.open().await;
    begin_from(&database, 200, 2).await;
    for state in 1..=65 {
        begin(&database, state).await;
        home.clock.pass(Duration::from_secs(1));
    }
    assert_eq!(take(&database, 1, 7).await, OperatorLoginTaken::Gone, "one too many");
    assert_eq!(take(&database, 2, 7).await, done());
    assert_eq!(take(&database, 200, 7).await, done(), "it is of another peer");
}

async fn with_a_key_a_login_remembers_nothing_that_is_readable(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    begin(&database, 1).await;
    let select = "SELECT document FROM operator_login";
    let document: Vec<u8> = database.read(|sql| sql.one(select, &[], first)).await.expect("read");
    assert!(!document.windows(7).any(|part| part == b"hunter2"));
    assert_eq!(take(&database, 1, 7).await, done());
}

async fn a_session_is_valid_while_it_is_used_and_not_beyond_its_life(home: TestHome) {
    let database = home.open().await;
    assert_eq!(find(&database, 1).await, None);
    open(&database, 1, None).await;
    let first = find(&database, 1).await.expect("it is new");
    assert_eq!(
        (first.seen_ms, first.expires_ms - first.created_ms),
        (first.created_ms, 10_800_000)
    );
    assert_eq!((first.subject.as_str(), first.sees_payloads), ("ann\0", true));
    // Its use is recorded once a minute.
    home.clock.pass(Duration::from_secs(59));
    find(&database, 1).await.expect("it is used");
    assert_eq!(find(&database, 1).await.expect("it is used").seen_ms, first.seen_ms);
    home.clock.pass(Duration::from_secs(1));
    find(&database, 1).await.expect("it is used");
    assert_eq!(find(&database, 1).await.expect("it is used").seen_ms, first.seen_ms + 60_000);
    for _ in 0..2 {
        home.clock.pass(HOUR.saturating_sub(Duration::from_secs(1)));
        find(&database, 1).await.expect("it is used");
    }
    home.clock.pass(HOUR);
    assert_eq!(find(&database, 1).await, None, "it was idle, and is over");
    open(&database, 2, None).await;
    home.clock.pass(HOUR);
    assert_eq!(find(&database, 2).await, None, "it was idle");
}

async fn a_session_ends_with_its_settings_its_successor_and_its_revocation(home: TestHome) {
    let database = home.open().await;
    open(&database, 1, None).await;
    let others = SessionRules { policy: [6; 32], ..RULES };
    assert_eq!(database.operator_session([1; 32], others, "peer").await.expect("read"), None);
    open(&database, 2, Some(1)).await;
    assert_eq!(find(&database, 1).await, None);
    open(&database, 3, None).await;
    let listed = database.operator_sessions(RULES).await.expect("read");
    let ids: Vec<_> = listed.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, ["id-2", "id-3"]);
    assert_eq!(database.operator_sessions(others).await.expect("read"), []);
    assert!(database.end_operator_session([2; 32]).await.expect("written"));
    assert!(!database.end_operator_session([2; 32]).await.expect("written"));
    assert_eq!(revoke(&database, "id-2").await, None);
    assert_eq!(revoke(&database, "id-3").await.as_deref(), Some("ann (https://idp)"));
    assert_eq!(find(&database, 3).await, None);
    let changes = database.recorded_changes(None, 9).await.expect("read");
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!((change.actor.as_str(), change.action.as_str()), ("bob", "session.revoke"));
}

async fn sessions_have_a_bounded_number_for_each_operator(home: TestHome) {
    let database = home.open().await;
    for number in 1..=17 {
        open(&database, number, None).await;
        home.clock.pass(Duration::from_secs(1));
    }
    assert_eq!(find(&database, 1).await, None, "one too many");
    assert_eq!(database.operator_sessions(RULES).await.expect("read").len(), 16);
    let other = NewOperatorSession { subject: "bob".to_owned(), ..new(18) };
    database.open_operator_session(other, HOUR, None).await.expect("written");
    assert!(find(&database, 2).await.is_some());
}

async fn a_session_is_found_although_another_peer_takes_all_places_that_it_can_get(home: TestHome) {
    let database = home.open().await;
    open(&database, 1, None).await;
    let mut held = Vec::new();
    let mut goes = Vec::new();
    for _ in 0..home.connections() {
        let (go, wait) = mpsc::channel::<()>();
        let mut reading = Box::pin(database.read(move |_| Ok(wait.recv().is_err())));
        assert!(futures_util::poll!(&mut reading).is_pending(), "it has a connection");
        held.push(reading);
        goes.push(go);
    }
    let mut flood = Vec::new();
    loop {
        let mut finding = Box::pin(database.operator_session([9; 32], RULES, "attacker"));
        match futures_util::poll!(&mut finding) {
            Poll::Pending => flood.push(finding),
            Poll::Ready(refused) => {
                assert!(matches!(refused, Err(Unavailable::Busy)), "{refused:?}");
                break;
            }
        }
    }
    let mut finding = Box::pin(database.operator_session([1; 32], RULES, "operator"));
    assert!(futures_util::poll!(&mut finding).is_pending(), "another peer has places");
    drop((flood, goes));
    assert!(finding.await.expect("read").is_some());
    join_all(held).await;
}
