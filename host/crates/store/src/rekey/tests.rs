use std::{sync::mpsc, time::Duration};

use futures_util::future::{join, join_all};
use tokio::sync::oneshot;

use super::*;
use crate::{
    SealError, SealKey,
    entries::{EntryChange, EntryChanged, EntryKind, EntryValue, UnreadableEntry},
    login::{LoginId, RefreshClaim, UpstreamLogin},
    operator_session::NewOperatorLogin,
    operators::StoredOperator,
    tests::home::{TestHome, on_both, until_one_waits},
};
use airlock_core::secret::Secret;
use airlock_database::sql::params;

/// More than a page.
const LOGINS: u8 = 40;

fn login(token: &str) -> UpstreamLogin {
    UpstreamLogin {
        holder: None,
        issuer: String::new(),
        client_id: "id".to_owned(),
        client_secret: None,
        authentication: "none".to_owned(),
        token_endpoint: "e".to_owned(),
        resource: "r".to_owned(),
        scopes: String::new(),
        wanted: String::new(),
        access_token: format!("hunter2-{token}"),
        refresh_token: Some(format!("hunter2-refresh-{token}")),
        obtained_ms: 1,
        expires_ms: None,
    }
}

/// Writes secrets of each table. Returns the number of values.
async fn fill(database: &Database) -> u64 {
    for number in 0..LOGINS {
        let server = number.to_string();
        let id = LoginId::of_operator("up", &server);
        let put = database.put_upstream_login(&id, login(&server));
        put.await.expect("written");
    }
    for revision in 0..2 {
        let document = Some(format!("hunter2-{revision}"));
        let change = EntryChange {
            actor: "ann".to_owned(),
            action: "client.set".to_owned(),
            kind: EntryKind::Client,
            name: "a".to_owned(),
            after: Some(EntryValue { replaces: None, document }),
            components: Vec::new(),
            revision,
        };
        let made = database.change_entry(change).await;
        assert_eq!(made.expect("written"), EntryChanged::Done(revision + 1));
    }
    let operator = StoredOperator {
        id: "1".to_owned(),
        name: "ann".to_owned(),
        role: "admin".to_owned(),
        sees_payloads: true,
        digest: [7; 32],
        created_ms: 1,
        expires_ms: None,
    };
    database.add_operator(operator, true, "ann").await.expect("written");
    let document = Secret::new("hunter2-login");
    let begun = NewOperatorLogin { state: [1; 32], browser: [2; 32], peer: [3; 32], document };
    database.begin_operator_login(begun, Duration::from_mins(10)).await.expect("written");
    let values_of_record = 1 + 2 + 1;
    2 * u64::from(LOGINS) + 1 + values_of_record + 1
}

/// Fails if a secret of [`fill`] cannot be read.
async fn check(database: &Database) {
    for number in 0..LOGINS {
        let number = number.to_string();
        let read =
            database.upstream_login(&LoginId::of_operator("up", &number)).await.expect("read");
        assert_eq!(read, Some(login(&number)));
    }
    let entries = database.entries().await.expect("read").entries;
    assert_eq!(entries[0].document.as_deref(), Some("hunter2-1"));
    assert_eq!(database.recorded_changes(None, 9).await.expect("read").len(), 3);
}

on_both! {
    plain_secrets_are_sealed_and_leave_no_trace,
    secrets_get_the_current_key_and_open_without_the_older_one,
    gateways_that_have_both_keys_run_meanwhile,
    a_secret_whose_key_is_missing_stops_it_and_the_next_time_goes_on,
}

async fn plain_secrets_are_sealed_and_leave_no_trace(mut home: TestHome) {
    // It stays open, so that nothing else copies the log into the file.
    let plain = home.open().await;
    let values = fill(&plain).await;
    assert!(home.server.is_some() || home.has_bytes(b"hunter2"));
    home.set_keys(1, &[]);
    assert_eq!(rekey(home.settings()).await.expect("sealed"), values);
    assert!(!home.has_bytes(b"hunter2"));
    check(&home.open().await).await;
    assert_eq!(rekey(home.settings()).await.expect("nothing is left"), 0);
}

async fn secrets_get_the_current_key_and_open_without_the_older_one(mut home: TestHome) {
    home.set_keys(1, &[]);
    let values = fill(&home.open().await).await;
    home.set_keys(2, &[1]);
    assert_eq!(rekey(home.settings()).await.expect("sealed"), values);
    home.set_keys(2, &[]);
    check(&home.open().await).await;
    home.set_keys(1, &[]);
    let read = home.open().await.entries().await.expect("the others are read");
    assert_eq!(read.entries.len(), 0);
    assert!(matches!(
        read.unreadable[..],
        [UnreadableEntry { reason: SealError::UnknownKey(_), .. }]
    ));
}

async fn gateways_that_have_both_keys_run_meanwhile(mut home: TestHome) {
    home.set_keys(1, &[2]);
    let old = home.open().await;
    fill(&old).await;
    home.set_keys(2, &[1]);
    let new = home.open().await;
    let renewing = join_all((0..LOGINS).map(|number| {
        let database = [&old, &new][usize::from(number % 2)];
        renew(database, number)
    }));
    let (sealed, _) = join(rekey(home.settings()), renewing).await;
    sealed.expect("sealed");
    for database in [&old, &new] {
        check(database).await;
    }
    // The gateway that seals with the older key may have done so after it.
    rekey(home.settings()).await.expect("sealed");
    home.set_keys(2, &[]);
    check(&home.open().await).await;
}

/// Renews a login as [`fill`] has it.
async fn renew(database: &Database, number: u8) {
    let server = number.to_string();
    let expected = login(&server);
    let token = &expected.access_token;
    let claimed = database
        .claim_refresh(&LoginId::of_operator("up", &server), token, Duration::from_secs(9))
        .await;
    assert_eq!(claimed.expect("written"), RefreshClaim::Claimed(login(&server)));
    let renewed = database
        .renew_upstream_login(&LoginId::of_operator("up", &server), token, login(&server))
        .await;
    assert!(renewed.expect("written"));
}

async fn a_secret_whose_key_is_missing_stops_it_and_the_next_time_goes_on(mut home: TestHome) {
    home.set_keys(1, &[]);
    let values = fill(&home.open().await).await;
    home.set_keys(3, &[]);
    let lost = home.open().await;
    lost.put_upstream_login(&LoginId::of_operator("up", "7"), login("7")).await.expect("written");
    home.set_keys(2, &[1]);
    let refused = rekey(home.settings()).await.expect_err("a key is missing");
    let shown = airlock_strings::with_causes(&refused);
    assert!(shown.contains(&SealKey::new(&[3; 32]).id().to_string()), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    home.set_keys(2, &[1, 3]);
    let left = rekey(home.settings()).await.expect("sealed");
    assert!((1..values).contains(&left), "pages before it were sealed: {left} of {values}");
    home.set_keys(2, &[]);
    check(&home.open().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_waits_for_a_change_of_its_logins() {
    let Some(mut home) = TestHome::postgres() else { return };
    let database = home.open().await;
    database
        .put_upstream_login(&LoginId::of_operator("up", "s"), login("old"))
        .await
        .expect("written");
    let (begun, has_begun) = oneshot::channel();
    let (go, wait) = mpsc::channel::<()>();
    let gateway = database.clone();
    let changing = tokio::spawn(async move {
        let change = gateway.write(Subject::login("up"), move |sql| {
            let _ = begun.send(());
            let _ = wait.recv();
            sql.run("UPDATE upstream_login SET access_token = ?1", params![b"new"])
        });
        change.await
    });
    has_begun.await.expect("it has begun");
    home.set_keys(1, &[]);
    let mut rekeying = tokio::spawn(rekey(home.settings()));
    tokio::select! {
        done = &mut rekeying => panic!("it has not waited: {done:?}"),
        () = until_one_waits(&database) => drop(go),
    }
    assert_eq!(changing.await.expect("no panic").expect("written"), 1);
    assert_eq!(rekeying.await.expect("no panic").expect("sealed"), 2);
    let read =
        home.open().await.upstream_login(&LoginId::of_operator("up", "s")).await.expect("read");
    assert_eq!(read.expect("a login").access_token, "new");
}

#[tokio::test]
async fn without_a_key_or_a_file_nothing_is_made() {
    let mut home = TestHome::sqlite();
    let refused = rekey(home.settings()).await;
    assert!(matches!(refused, Err(RekeyError::NoKey)), "{refused:?}");
    home.set_keys(1, &[]);
    let refused = rekey(home.settings()).await;
    assert!(matches!(refused, Err(RekeyError::Missing { .. })), "{refused:?}");
    assert!(home.settings().location.is_missing_file());
}
