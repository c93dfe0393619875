use futures_util::future::join_all;

use super::*;
use crate::login::{LoginHolder, UpstreamLogin};
use crate::tests::home::{TestHome, on_both};

const LIFE: Duration = Duration::from_mins(15);

on_both! {
    a_link_is_found_by_its_identifier_and_once_by_its_state,
    a_login_is_stored_by_its_link_and_ends_all_links_for_it,
    a_login_is_not_stored_once_its_holder_or_its_client_was_removed,
    a_link_expires_to_the_second,
    changes_of_a_link_at_once_are_all_made_and_one_without_a_document_removes_it,
    the_oldest_link_of_a_holder_ends_for_one_too_many,
    the_links_of_a_holder_are_removed_with_its_logins,
    with_a_key_a_link_remembers_nothing_that_is_readable,
}

fn id(holder: u8) -> LoginId {
    LoginId::of_operator("up", "s").of_holder([holder; 32])
}

async fn put(database: &Database, link: u8, holder: u8) {
    put_at(database, link, "up", holder).await;
}

async fn put_at(database: &Database, link: u8, client: &str, holder: u8) {
    let new = NewLoginLink {
        digest: [link; 32],
        client: client.to_owned(),
        server: "s".to_owned(),
        holder: [holder; 32],
        document: "hunter2".to_owned(),
    };
    database.put_login_link(new, LIFE).await.expect("written");
}

async fn is_open(database: &Database, link: u8) -> bool {
    database.login_link([link; 32]).await.expect("read").is_some()
}

async fn a_link_is_found_by_its_identifier_and_once_by_its_state(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    let link = database.login_link([1; 32]).await.expect("read").expect("a link");
    assert_eq!((&link.id, link.document.as_str()), (&id(7), "hunter2"));
    assert!(!is_open(&database, 2).await);
    let start = async |state: u8| {
        let starting =
            database.start_login_link([1; 32], [state; 32], move |_| Some(state.to_string()));
        starting.await.expect("written")
    };
    assert!(start(8).await && start(9).await);
    let started = async |state: u8| {
        let started = database.started_login_link([state; 32]).await.expect("read");
        started.map(|link| link.document)
    };
    assert_eq!((started(8).await, started(9).await), (None, Some("9".to_owned())));
    assert!(
        !database.take_login_link([8; 32]).await.expect("written"),
        "a later start replaced it"
    );
    assert!(database.take_login_link([9; 32]).await.expect("written"));
    assert!(!database.take_login_link([9; 32]).await.expect("written"), "once");
    assert!(is_open(&database, 1).await && start(10).await, "until the login is stored");
}

/// Stores a login of a holder by a link. Returns whether it was stored.
async fn store(database: &Database, link: u8, holder: u8) -> bool {
    let login = UpstreamLogin {
        holder: Some(LoginHolder { session: holder.to_string(), ..LoginHolder::default() }),
        authentication: "kind".to_owned(),
        access_token: "hunter2".to_owned(),
        ..UpstreamLogin::default()
    };
    database.put_user_login(&id(holder), [link; 32], login).await.expect("written")
}

async fn has_login(database: &Database, holder: u8) -> bool {
    database.upstream_login(&id(holder)).await.expect("read").is_some()
}

async fn a_login_is_stored_by_its_link_and_ends_all_links_for_it(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    put(&database, 2, 7).await;
    put(&database, 3, 8).await;
    put_at(&database, 4, "other", 7).await;
    assert!(store(&database, 1, 7).await && has_login(&database, 7).await);
    let [listed] = &database.user_logins(None, 0).await.expect("read")[..] else { panic!("one") };
    assert_eq!(listed.authentication, "kind");
    assert!(!is_open(&database, 1).await && !is_open(&database, 2).await);
    assert!(is_open(&database, 3).await, "another holder's");
    assert!(is_open(&database, 4).await, "at another client");
    assert!(!store(&database, 2, 7).await, "another login has ended the link");
}

async fn a_login_is_not_stored_once_its_holder_or_its_client_was_removed(home: TestHome) {
    let database = home.open().await;
    for holder in [7, 8, 9] {
        put(&database, holder, holder).await;
    }
    database.remove_logins_of(&[[7; 32]]).await.expect("written");
    assert!(!store(&database, 7, 7).await && !has_login(&database, 7).await);
    assert!(store(&database, 8, 8).await);
    let kept = database.remove_logins_elsewhere("up", Some("s")).await.expect("written");
    assert!(kept.is_empty() && has_login(&database, 8).await);
    let removed = database.remove_logins_elsewhere("up", Some("another")).await.expect("written");
    assert_eq!(removed.len(), 1);
    assert!(!has_login(&database, 8).await && !store(&database, 9, 9).await);
}

async fn a_link_expires_to_the_second(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    let started = database.start_login_link([1; 32], [9; 32], |_| Some(String::new())).await;
    assert!(started.expect("written"));
    home.clock.pass(LIFE.saturating_sub(Duration::from_secs(1)));
    assert!(is_open(&database, 1).await);
    home.clock.pass(Duration::from_secs(1));
    assert!(!is_open(&database, 1).await);
    assert!(!database.take_login_link([9; 32]).await.expect("written"));
    assert_eq!(database.started_login_link([9; 32]).await.expect("read"), None);
}

async fn changes_of_a_link_at_once_are_all_made_and_one_without_a_document_removes_it(
    home: TestHome,
) {
    let databases = [home.open().await, home.open().await];
    put(&databases[0], 1, 7).await;
    let changes = (0..8).map(|number: usize| {
        databases[number % 2]
            .update_login_link([1; 32], |link| Some(format!("{}, changed", link.document)))
    });
    for changed in join_all(changes).await {
        assert!(changed.expect("written").is_some());
    }
    let link = databases[0].login_link([1; 32]).await.expect("read").expect("a link");
    assert_eq!(link.document, format!("hunter2{}", ", changed".repeat(8)));
    let removed = databases[1].update_login_link([1; 32], |_| None).await;
    assert_eq!(removed.expect("written"), None);
    assert!(!is_open(&databases[0], 1).await);
    let absent = databases[0].update_login_link([1; 32], |_| Some(String::new())).await;
    assert_eq!(absent.expect("written"), None);
}

async fn the_oldest_link_of_a_holder_ends_for_one_too_many(home: TestHome) {
    let database = home.open().await;
    put(&database, 100, 8).await;
    let most = u8::try_from(MAX_LINKS).expect("few");
    for link in 0..=most {
        put(&database, link, 7).await;
        home.clock.pass(Duration::from_secs(1));
    }
    assert!(!is_open(&database, 0).await, "the oldest");
    for link in 1..=most {
        assert!(is_open(&database, link).await, "{link}");
    }
    assert!(is_open(&database, 100).await, "another holder's");
}

async fn the_links_of_a_holder_are_removed_with_its_logins(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    put(&database, 2, 8).await;
    database.remove_logins_of(&[[7; 32]]).await.expect("written");
    assert!(!is_open(&database, 1).await && is_open(&database, 2).await);
}

async fn with_a_key_a_link_remembers_nothing_that_is_readable(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    put(&database, 1, 7).await;
    let stored = database
        .read(|sql| sql.one("SELECT document FROM login_link", &[], |row| row.get::<Vec<u8>>(0)));
    let stored = stored.await.expect("read");
    assert!(!stored.windows(7).any(|bytes| bytes == b"hunter2"));
    assert!(is_open(&database, 1).await);
}
