use super::*;
use crate::{
    SealError, SealKey,
    tests::home::{TestHome, on_both},
};
use airlock_database::schema;

fn login(access_token: &str) -> UpstreamLogin {
    UpstreamLogin {
        holder: None,
        issuer: "https://as.example.com".to_owned(),
        client_id: "id".to_owned(),
        client_secret: None,
        authentication: "none".to_owned(),
        token_endpoint: "https://as.example.com/token".to_owned(),
        resource: "https://mcp.example.com/mcp".to_owned(),
        scopes: "read".to_owned(),
        wanted: String::new(),
        access_token: access_token.to_owned(),
        refresh_token: Some("refresh".to_owned()),
        obtained_ms: 1,
        expires_ms: Some(2),
    }
}

fn id() -> LoginId {
    LoginId::of_operator("up", "s")
}

const TIME: Duration = Duration::from_secs(30);

on_both! {
    a_login_belongs_to_a_client_and_a_server,
    one_process_refreshes_at_a_time_until_its_claim_ends,
    a_change_of_an_earlier_version_is_not_made,
    with_a_key_one_process_refreshes_at_a_time_too,
    with_a_key_a_change_of_an_earlier_version_is_not_made_either,
    with_a_key_no_secret_is_readable_in_the_database,
    a_login_whose_key_is_missing_names_the_key_and_can_be_replaced,
    a_token_that_was_moved_to_another_login_does_not_open,
    a_plain_login_is_read_with_a_key_and_sealed_by_the_next_change,
    the_logins_of_holders_are_apart_from_each_other_and_from_that_of_the_operator,
    a_login_that_is_not_renewed_loses_its_tokens_and_stays_in_the_list,
    logins_are_removed_by_their_session_and_their_holder,
}

/// Returns the login of a holder, whose session and key have its number.
fn user_login(holder: u8, access_token: &str) -> UpstreamLogin {
    let holder = LoginHolder {
        session: format!("session-{holder}"),
        key_name: format!("key-{holder}"),
        ..LoginHolder::default()
    };
    UpstreamLogin { holder: Some(holder), ..login(access_token) }
}

async fn put_user_login(database: &Database, holder: u8, access_token: &str) {
    let id = id().of_holder([holder; 32]);
    let put = database.put_upstream_login(&id, user_login(holder, access_token)).await;
    put.expect("written");
}

/// Returns the sessions of the listed logins, with whether they are active.
async fn sessions(database: &Database, holder: Option<u8>) -> Vec<(String, bool)> {
    let logins = database.user_logins(holder.map(|holder| [holder; 32]), 0).await.expect("read");
    logins.into_iter().map(|login| (login.holder.session, login.is_active)).collect()
}

async fn the_logins_of_holders_are_apart_from_each_other_and_from_that_of_the_operator(
    mut home: TestHome,
) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    database.put_upstream_login(&id(), login("operator")).await.expect("written");
    for (holder, token) in [(1, "first"), (2, "other"), (1, "second")] {
        put_user_login(&database, holder, token).await;
    }
    for (holder, token) in [(1, "second"), (2, "other")] {
        let id = id().of_holder([holder; 32]);
        let read = database.upstream_login(&id).await.expect("read");
        assert_eq!(read, Some(user_login(holder, token)));
        let claimed = database.claim_refresh(&id, token, TIME).await.expect("written");
        assert_eq!(claimed, RefreshClaim::Claimed(user_login(holder, token)));
    }
    let nobodys = database.upstream_login(&id().of_holder([3; 32])).await;
    assert_eq!(nobodys.expect("read"), None);
    let operators = database.claim_refresh(&id(), "operator", TIME).await.expect("written");
    assert_eq!(operators, RefreshClaim::Claimed(login("operator")), "not claimed by a holder");
    database.remove_upstream_logins("up").await.expect("written");
    let all = [("session-1".to_owned(), true), ("session-2".to_owned(), true)];
    assert_eq!(sessions(&database, None).await, all);
    assert_eq!(sessions(&database, Some(2)).await, all[1..]);
}

async fn a_login_that_is_not_renewed_loses_its_tokens_and_stays_in_the_list(home: TestHome) {
    let database = home.open().await;
    put_user_login(&database, 1, "hunter2-token").await;
    let id = id().of_holder([1; 32]);
    database.void_user_login(&id, "another").await.expect("written");
    assert!(database.upstream_login(&id).await.expect("read").is_some());
    database.void_user_login(&id, "hunter2-token").await.expect("written");
    assert_eq!(database.upstream_login(&id).await.expect("read"), None);
    assert_eq!(claim_of(&database, &id).await, RefreshClaim::Gone);
    assert_eq!(sessions(&database, Some(1)).await, [("session-1".to_owned(), false)]);
    put_user_login(&database, 1, "next").await;
    assert_eq!(sessions(&database, Some(1)).await, [("session-1".to_owned(), true)]);
}

async fn claim_of(database: &Database, id: &LoginId) -> RefreshClaim {
    database.claim_refresh(id, "hunter2-token", TIME).await.expect("written")
}

async fn logins_are_removed_by_their_session_and_their_holder(home: TestHome) {
    let database = home.open().await;
    for holder in 1..=3 {
        put_user_login(&database, holder, "token").await;
    }
    let others = database.remove_user_login("session-1", Some([2; 32])).await.expect("written");
    assert_eq!((others, sessions(&database, None).await.len()), (None, 3));
    let own = database.remove_user_login("session-1", Some([1; 32])).await.expect("written");
    assert_eq!(own.expect("removed").id, id().of_holder([1; 32]));
    let removed = database.remove_logins_of(&[[2; 32], [9; 32]]).await.expect("written");
    assert_eq!(removed.len(), 1);
    assert_eq!(sessions(&database, None).await, [("session-3".to_owned(), true)]);
    let by_operator = database.remove_user_login("session-3", None).await.expect("written");
    assert!(by_operator.is_some() && sessions(&database, None).await.is_empty());
}

async fn a_login_belongs_to_a_client_and_a_server(home: TestHome) {
    let database = home.open().await;
    database
        .put_upstream_login(&LoginId::of_operator("up", "https://a/"), login("1"))
        .await
        .expect("written");
    for (client, server, found) in
        [("up", "https://a/", true), ("up", "https://b/", false), ("other", "https://a/", false)]
    {
        let read =
            database.upstream_login(&LoginId::of_operator(client, server)).await.expect("read");
        assert_eq!(read, found.then(|| login("1")), "{client} {server}");
    }
    assert!(!format!("{:?}", login("hunter2")).contains("hunter2"));
    assert_eq!(database.remove_upstream_logins("up").await.expect("written"), 1);
    assert_eq!(
        database.upstream_login(&LoginId::of_operator("up", "https://a/")).await.expect("read"),
        None
    );
}

#[tokio::test]
async fn nothing_of_a_removed_login_stays_in_the_files() {
    let home = TestHome::sqlite();
    let database = home.open().await;
    for token in ["first-hunter2", "second-hunter2"] {
        database.put_upstream_login(&id(), login(token)).await.expect("written");
    }
    assert!(home.has_bytes(b"hunter2"));
    database.remove_upstream_logins("up").await.expect("written");
    assert!(!home.has_bytes(b"hunter2"));
}

async fn one_process_refreshes_at_a_time_until_its_claim_ends(home: TestHome) {
    let database = home.open().await;
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Gone);
    database.put_upstream_login(&id(), login("1")).await.expect("written");
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Busy);
    home.clock.pass(Duration::from_secs(29));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Busy);
    home.clock.pass(Duration::from_secs(1));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    database.release_refresh(&id(), "1").await.expect("written");
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    home.clock.set(Duration::from_secs(1));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    let renewed = database.renew_upstream_login(&id(), "1", login("2")).await;
    assert!(renewed.expect("written"));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Changed(login("2")));
    assert_eq!(claim(&database, "2").await.expect("written"), RefreshClaim::Claimed(login("2")));
}

async fn claim(database: &Database, token: &str) -> Result<RefreshClaim, Unavailable> {
    database.claim_refresh(&id(), token, TIME).await
}

async fn a_change_of_an_earlier_version_is_not_made(home: TestHome) {
    let database = home.open().await;
    database.put_upstream_login(&id(), login("2")).await.expect("written");
    assert!(!database.renew_upstream_login(&id(), "1", login("3")).await.expect("written"));
    database.want_scopes(&id(), "1", "write").await.expect("written");
    assert_eq!(database.upstream_login(&id()).await.expect("read"), Some(login("2")));
    database.want_scopes(&id(), "2", "write").await.expect("written");
    let wanted = database.upstream_login(&id()).await.expect("read").expect("a login");
    assert_eq!(wanted.wanted, "write");
    assert!(
        !database
            .renew_upstream_login(&LoginId::of_operator("up", "t"), "2", login("3"))
            .await
            .expect("written")
    );
}

async fn with_a_key_one_process_refreshes_at_a_time_too(mut home: TestHome) {
    home.set_keys(1, &[]);
    one_process_refreshes_at_a_time_until_its_claim_ends(home).await;
}

async fn with_a_key_a_change_of_an_earlier_version_is_not_made_either(mut home: TestHome) {
    home.set_keys(1, &[]);
    a_change_of_an_earlier_version_is_not_made(home).await;
}

fn secrets() -> UpstreamLogin {
    UpstreamLogin {
        client_secret: Some("hunter2-client".to_owned()),
        refresh_token: Some("hunter2-refresh".to_owned()),
        ..login("hunter2-access")
    }
}

/// Returns the stored secrets of the logins.
async fn stored(database: &Database) -> Vec<Vec<u8>> {
    let select = "SELECT client_secret, access_token, refresh_token FROM upstream_login";
    let rows = database.read(move |sql| {
        sql.all(select, &[], |row| {
            (0..3).map(|column| row.get::<Vec<u8>>(column)).collect::<Result<Vec<_>, _>>()
        })
    });
    rows.await.expect("read").concat()
}

async fn with_a_key_no_secret_is_readable_in_the_database(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    database.put_upstream_login(&id(), secrets()).await.expect("written");
    assert_eq!(database.upstream_login(&id()).await.expect("read"), Some(secrets()));
    let stored = stored(&database).await;
    assert_eq!(stored.len(), 3);
    for value in stored {
        assert!(!value.windows(7).any(|window| window == b"hunter2"));
    }
    assert!(!home.has_bytes(b"hunter2"));
}

async fn a_login_whose_key_is_missing_names_the_key_and_can_be_replaced(mut home: TestHome) {
    let keyless = home.open().await;
    home.set_keys(1, &[]);
    let first = home.open().await;
    first.put_upstream_login(&id(), login("1")).await.expect("written");
    home.set_keys(2, &[]);
    let other = home.open().await;
    let key = SealKey::new(&[1; 32]).id();
    for database in [&keyless, &other] {
        let read = database.upstream_login(&id()).await.map(drop);
        let claimed = claim(database, "1").await.map(drop);
        let released = database.release_refresh(&id(), "1").await;
        let renewed = database.renew_upstream_login(&id(), "1", login("2")).await.map(drop);
        for refused in [read, claimed, released, renewed] {
            let refused = refused.expect_err("the key is missing");
            assert!(
                matches!(refused, Unavailable::Sealed(SealError::UnknownKey(named)) if named == key)
            );
            assert!(airlock_strings::with_causes(&refused).contains(&key.to_string()));
        }
    }
    assert_eq!(claim(&first, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    other.put_upstream_login(&id(), login("3")).await.expect("written");
    assert_eq!(other.upstream_login(&id()).await.expect("read"), Some(login("3")));
}

async fn a_token_that_was_moved_to_another_login_does_not_open(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    for (server, token) in [("a", "1"), ("b", "2")] {
        database
            .put_upstream_login(&LoginId::of_operator("up", server), login(token))
            .await
            .expect("written");
    }
    let moved = "UPDATE upstream_login SET access_token = \
                 (SELECT access_token FROM upstream_login WHERE server = ?1)";
    database
        .write(Subject::login("up"), move |sql| sql.run(moved, params!["a"]))
        .await
        .expect("written");
    assert_eq!(
        database.upstream_login(&LoginId::of_operator("up", "a")).await.expect("read"),
        Some(login("1"))
    );
    let refused = database.upstream_login(&LoginId::of_operator("up", "b")).await;
    assert!(matches!(refused, Err(Unavailable::Sealed(SealError::Altered(_)))), "{refused:?}");
    let swapped = "UPDATE upstream_login SET refresh_token = access_token WHERE server = ?1";
    database
        .write(Subject::login("up"), move |sql| sql.run(swapped, params!["a"]))
        .await
        .expect("written");
    let refused = database.upstream_login(&LoginId::of_operator("up", "a")).await;
    assert!(matches!(refused, Err(Unavailable::Sealed(SealError::Altered(_)))), "{refused:?}");
}

async fn a_plain_login_is_read_with_a_key_and_sealed_by_the_next_change(mut home: TestHome) {
    home.open().await.put_upstream_login(&id(), secrets()).await.expect("written");
    home.set_keys(1, &[]);
    let database = home.open().await;
    assert_eq!(
        claim(&database, "hunter2-access").await.expect("written"),
        RefreshClaim::Claimed(secrets())
    );
    assert!(stored(&database).await.contains(&b"hunter2-access".to_vec()));
    let renewed = database.renew_upstream_login(&id(), "hunter2-access", secrets()).await;
    assert!(renewed.expect("written"));
    assert!(!stored(&database).await.concat().windows(7).any(|window| window == b"hunter2"));
    assert_eq!(database.upstream_login(&id()).await.expect("read"), Some(secrets()));
}

#[tokio::test]
async fn a_login_of_the_version_before_is_kept_and_leaves_no_trace_of_its_old_table() {
    let home = TestHome::sqlite();
    let path = home.directory.path().join("airlock.db");
    let old = rusqlite::Connection::open(&path).expect("opened");
    for migration in &schema::MIGRATIONS[..10] {
        old.execute_batch(migration).expect("an older version");
    }
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).expect("set");
    old.pragma_update(None, "user_version", 10).expect("set");
    let secret = format!("hunter2-{}", "x".repeat(9_000));
    let insert = "INSERT INTO upstream_login VALUES ('up', 's', 'https://as.example.com', 'id', NULL, \
                  'none', 'https://as.example.com/token', 'https://mcp.example.com/mcp', 'read', '', \
                  ?1, 'refresh', 1, 2, 77)";
    old.execute(insert, [&secret]).expect("written");
    drop(old);
    let database = home.open().await;
    assert_eq!(database.upstream_login(&id()).await.expect("read"), Some(login(&secret)));
    database.remove_upstream_logins("up").await.expect("written");
    assert!(!home.has_bytes(b"hunter2"));
}
