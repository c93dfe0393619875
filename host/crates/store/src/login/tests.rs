use super::*;
use crate::{
    SealKey, schema,
    tests::home::{TestHome, on_both},
};

fn login(access_token: &str) -> UpstreamLogin {
    UpstreamLogin {
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
}

async fn a_login_belongs_to_a_client_and_a_server(home: TestHome) {
    let database = home.open().await;
    database.put_upstream_login("up", "https://a/", login("1")).await.expect("written");
    for (client, server, found) in
        [("up", "https://a/", true), ("up", "https://b/", false), ("other", "https://a/", false)]
    {
        let read = database.upstream_login(client, server).await.expect("read");
        assert_eq!(read, found.then(|| login("1")), "{client} {server}");
    }
    assert!(!format!("{:?}", login("hunter2")).contains("hunter2"));
    assert_eq!(database.remove_upstream_logins("up").await.expect("written"), 1);
    assert_eq!(database.upstream_login("up", "https://a/").await.expect("read"), None);
}

#[tokio::test]
async fn nothing_of_a_removed_login_stays_in_the_files() {
    let home = TestHome::sqlite();
    let database = home.open().await;
    for token in ["first-hunter2", "second-hunter2"] {
        database.put_upstream_login("up", "s", login(token)).await.expect("written");
    }
    assert!(home.has_bytes(b"hunter2"));
    database.remove_upstream_logins("up").await.expect("written");
    assert!(!home.has_bytes(b"hunter2"));
}

async fn one_process_refreshes_at_a_time_until_its_claim_ends(home: TestHome) {
    let database = home.open().await;
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Gone);
    database.put_upstream_login("up", "s", login("1")).await.expect("written");
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Busy);
    home.clock.pass(Duration::from_secs(29));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Busy);
    home.clock.pass(Duration::from_secs(1));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    database.release_refresh("up", "s", "1").await.expect("written");
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    home.clock.set(Duration::from_secs(1));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    let renewed = database.renew_upstream_login("up", "s", "1", login("2")).await;
    assert!(renewed.expect("written"));
    assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Changed(login("2")));
    assert_eq!(claim(&database, "2").await.expect("written"), RefreshClaim::Claimed(login("2")));
}

async fn claim(database: &Database, token: &str) -> Result<RefreshClaim, Unavailable> {
    database.claim_refresh("up", "s", token, TIME).await
}

async fn a_change_of_an_earlier_version_is_not_made(home: TestHome) {
    let database = home.open().await;
    database.put_upstream_login("up", "s", login("2")).await.expect("written");
    assert!(!database.renew_upstream_login("up", "s", "1", login("3")).await.expect("written"));
    database.want_scopes("up", "s", "1", "write").await.expect("written");
    assert_eq!(database.upstream_login("up", "s").await.expect("read"), Some(login("2")));
    database.want_scopes("up", "s", "2", "write").await.expect("written");
    let wanted = database.upstream_login("up", "s").await.expect("read").expect("a login");
    assert_eq!(wanted.wanted, "write");
    assert!(!database.renew_upstream_login("up", "t", "2", login("3")).await.expect("written"));
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
    database.put_upstream_login("up", "s", secrets()).await.expect("written");
    assert_eq!(database.upstream_login("up", "s").await.expect("read"), Some(secrets()));
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
    first.put_upstream_login("up", "s", login("1")).await.expect("written");
    home.set_keys(2, &[]);
    let other = home.open().await;
    let id = SealKey::new(&[1; 32]).id();
    for database in [&keyless, &other] {
        let read = database.upstream_login("up", "s").await.map(drop);
        let claimed = claim(database, "1").await.map(drop);
        let released = database.release_refresh("up", "s", "1").await;
        let renewed = database.renew_upstream_login("up", "s", "1", login("2")).await.map(drop);
        for refused in [read, claimed, released, renewed] {
            let refused = refused.expect_err("the key is missing");
            assert!(
                matches!(refused, Unavailable::Sealed(SealError::UnknownKey(key)) if key == id)
            );
            assert!(airlock_strings::with_causes(&refused).contains(&id.to_string()));
        }
    }
    assert_eq!(claim(&first, "1").await.expect("written"), RefreshClaim::Claimed(login("1")));
    other.put_upstream_login("up", "s", login("3")).await.expect("written");
    assert_eq!(other.upstream_login("up", "s").await.expect("read"), Some(login("3")));
}

async fn a_token_that_was_moved_to_another_login_does_not_open(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    for (server, token) in [("a", "1"), ("b", "2")] {
        database.put_upstream_login("up", server, login(token)).await.expect("written");
    }
    let moved = "UPDATE upstream_login SET access_token = \
                 (SELECT access_token FROM upstream_login WHERE server = ?1)";
    database
        .write(Subject::login("up"), move |sql| sql.run(moved, params!["a"]))
        .await
        .expect("written");
    assert_eq!(database.upstream_login("up", "a").await.expect("read"), Some(login("1")));
    let refused = database.upstream_login("up", "b").await;
    assert!(matches!(refused, Err(Unavailable::Sealed(SealError::Altered(_)))), "{refused:?}");
    let swapped = "UPDATE upstream_login SET refresh_token = access_token WHERE server = ?1";
    database
        .write(Subject::login("up"), move |sql| sql.run(swapped, params!["a"]))
        .await
        .expect("written");
    let refused = database.upstream_login("up", "a").await;
    assert!(matches!(refused, Err(Unavailable::Sealed(SealError::Altered(_)))), "{refused:?}");
}

async fn a_plain_login_is_read_with_a_key_and_sealed_by_the_next_change(mut home: TestHome) {
    home.open().await.put_upstream_login("up", "s", secrets()).await.expect("written");
    home.set_keys(1, &[]);
    let database = home.open().await;
    assert_eq!(
        claim(&database, "hunter2-access").await.expect("written"),
        RefreshClaim::Claimed(secrets())
    );
    assert!(stored(&database).await.contains(&b"hunter2-access".to_vec()));
    let renewed = database.renew_upstream_login("up", "s", "hunter2-access", secrets()).await;
    assert!(renewed.expect("written"));
    assert!(!stored(&database).await.concat().windows(7).any(|window| window == b"hunter2"));
    assert_eq!(database.upstream_login("up", "s").await.expect("read"), Some(secrets()));
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
    assert_eq!(database.upstream_login("up", "s").await.expect("read"), Some(login(&secret)));
    database.remove_upstream_logins("up").await.expect("written");
    assert!(!home.has_bytes(b"hunter2"));
}
