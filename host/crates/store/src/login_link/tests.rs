use super::*;
use crate::tests::home::{TestHome, on_both};

const LIFE: Duration = Duration::from_mins(15);

on_both! {
    a_link_is_found_by_its_identifier_until_it_is_taken_by_its_state,
    all_links_for_a_login_end_when_one_is_taken,
    a_link_expires_to_the_second,
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

async fn a_link_is_found_by_its_identifier_until_it_is_taken_by_its_state(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    let link = database.login_link([1; 32]).await.expect("read").expect("a link");
    assert_eq!((&link.id, link.document.as_str()), (&id(7), "hunter2"));
    assert!(!is_open(&database, 2).await);
    let start = async |state: u8| {
        let started = database.start_login_link([1; 32], [state; 32], state.to_string()).await;
        started.expect("written")
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
    assert!(!is_open(&database, 1).await && !start(10).await);
}

async fn all_links_for_a_login_end_when_one_is_taken(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    put(&database, 2, 7).await;
    put(&database, 3, 8).await;
    put_at(&database, 4, "other", 7).await;
    let started = database.start_login_link([1; 32], [9; 32], String::new()).await;
    assert!(started.expect("written"));
    assert!(database.take_login_link([9; 32]).await.expect("written"));
    assert!(!is_open(&database, 1).await && !is_open(&database, 2).await);
    assert!(is_open(&database, 3).await, "another holder's");
    assert!(is_open(&database, 4).await, "at another client");
}

async fn a_link_expires_to_the_second(home: TestHome) {
    let database = home.open().await;
    put(&database, 1, 7).await;
    let started = database.start_login_link([1; 32], [9; 32], String::new()).await;
    assert!(started.expect("written"));
    home.clock.pass(LIFE.saturating_sub(Duration::from_secs(1)));
    assert!(is_open(&database, 1).await);
    home.clock.pass(Duration::from_secs(1));
    assert!(!is_open(&database, 1).await);
    assert!(!database.take_login_link([9; 32]).await.expect("written"));
    assert_eq!(database.started_login_link([9; 32]).await.expect("read"), None);
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
