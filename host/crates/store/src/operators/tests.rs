use std::{pin::pin, sync::mpsc};

use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::*;
use crate::{
    entries::RecordedChange,
    tests::home::{TestHome, on_both, until_one_waits},
};

fn operator(name: &str) -> StoredOperator {
    StoredOperator {
        id: format!("id-{name}"),
        name: name.to_owned(),
        role: "admin\0\"".to_owned(),
        sees_payloads: true,
        digest: [7; 32],
        created_ms: 5,
        expires_ms: Some(9),
    }
}

async fn add(database: &Database, name: &str, first_only: bool) -> OperatorAdded {
    database.add_operator(operator(name), first_only, "root").await.expect("written")
}

on_both! {
    operators_are_added_and_removed_by_their_names,
    of_many_callers_one_adds_the_first_operator,
    changes_of_operators_are_recorded_without_the_digest,
    operators_have_a_bounded_number,
}

async fn operators_are_added_and_removed_by_their_names(home: TestHome) {
    let database = home.open().await;
    assert_eq!(database.operators().await.expect("read"), []);
    assert!(!database.remove_operator("ann", "root").await.expect("written"));
    for name in ["bob", "ann"] {
        assert_eq!(add(&database, name, false).await, OperatorAdded::Done);
        assert_eq!(add(&database, name, false).await, OperatorAdded::NameTaken);
        assert_eq!(add(&database, "first", true).await, OperatorAdded::NotFirst);
    }
    let expected = [operator("ann"), operator("bob")];
    assert_eq!(database.operators().await.expect("read"), expected);
    let never = StoredOperator { expires_ms: None, sees_payloads: false, ..operator("c") };
    let added = database.add_operator(never.clone(), false, "root").await;
    assert_eq!(added.expect("written"), OperatorAdded::Done);
    for name in ["bob", "ann"] {
        assert!(database.remove_operator(name, "root").await.expect("written"));
        assert!(!database.remove_operator(name, "root").await.expect("written"));
    }
    assert_eq!(database.operators().await.expect("read"), [never]);
    // There is one.
    assert_eq!(add(&database, "first", true).await, OperatorAdded::NotFirst);
    assert!(database.remove_operator("c", "root").await.expect("written"));
    assert_eq!(add(&database, "first", true).await, OperatorAdded::Done);
}

async fn of_many_callers_one_adds_the_first_operator(home: TestHome) {
    let databases = [home.open().await, home.open().await];
    let names: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    let callers =
        names.iter().zip(0..).map(|(name, number)| add(&databases[number % 2], name, true));
    let added = join_all(callers).await;
    assert_eq!(added.iter().filter(|added| **added == OperatorAdded::Done).count(), 1);
    assert_eq!(added.iter().filter(|added| **added == OperatorAdded::NotFirst).count(), 49);
    assert_eq!(databases[0].operators().await.expect("read").len(), 1);
    assert_eq!(databases[1].recorded_changes(None, 9).await.expect("read").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_operator_is_added_after_a_change_that_has_begun() {
    let Some(home) = TestHome::postgres() else { return };
    let databases = [home.open().await, home.open().await];
    let (begun, has_begun) = oneshot::channel();
    let (go, wait) = mpsc::channel::<()>();
    let first = databases[0].clone();
    let adding = tokio::spawn(async move {
        let log = OperatorLog { sealer: first.sealer(), actor: "root".to_owned() };
        let adding = first.write(Subject::SETTINGS, move |sql| {
            let added = super::add(sql, &operator("ann"), true, &log);
            let _ = begun.send(());
            let _ = wait.recv();
            added
        });
        adding.await
    });
    has_begun.await.expect("it has begun");
    let late = add(&databases[1], "bob", true);
    let mut late = pin!(late);
    tokio::select! {
        added = &mut late => panic!("it has not waited: {added:?}"),
        () = until_one_waits(&databases[0]) => drop(go),
    }
    assert_eq!(late.await, OperatorAdded::NotFirst);
    assert_eq!(adding.await.expect("no panic").expect("written"), OperatorAdded::Done);
}

async fn changes_of_operators_are_recorded_without_the_digest(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    assert_eq!(add(&database, "ann", true).await, OperatorAdded::Done);
    assert!(database.remove_operator("ann", "bob").await.expect("written"));
    let document = r#"{"role":"admin\u0000\"","sees_payloads":true,"expires_ms":9}"#;
    let rights = EntryValue { replaces: None, document: Some(document.to_owned()) };
    let added = RecordedChange {
        id: 1,
        at_ms: 1_000_000,
        actor: "root".to_owned(),
        action: "operator.add".to_owned(),
        kind: None,
        name: "ann".to_owned(),
        before: Ok(None),
        after: Ok(Some(rights.clone())),
    };
    let removed = RecordedChange {
        id: 2,
        actor: "bob".to_owned(),
        action: "operator.remove".to_owned(),
        before: Ok(Some(rights)),
        after: Ok(None),
        ..added.clone()
    };
    assert_eq!(database.recorded_changes(None, 9).await.expect("read"), [removed, added]);
    assert!(!home.has_bytes(b"sees_payloads\":"), "the rights are sealed");
    assert_eq!(database.entries().await.expect("read").revision, 0, "no entry was changed");
}

async fn operators_have_a_bounded_number(home: TestHome) {
    let database = home.open().await;
    let names: Vec<_> = (1..MAX_OPERATORS).map(|number| number.to_string()).collect();
    let inserted = database.write(Subject::SETTINGS, move |sql| {
        let insert = "INSERT INTO operator (id, name, role, sees_payloads, digest, created_ms) \
                      VALUES (?1, ?1, ?1, 0, ?2, 1)";
        let digest = [7; 32];
        let rows = names.iter().map(|name| params![name, &digest].to_vec());
        sql.run_all(insert, &rows.collect::<Vec<_>>())
    });
    inserted.await.expect("written");
    assert_eq!(add(&database, "ann", false).await, OperatorAdded::Done);
    assert_eq!(add(&database, "bob", false).await, OperatorAdded::Full);
    assert_eq!(add(&database, "ann", false).await, OperatorAdded::NameTaken);
    assert!(database.remove_operator("1", "root").await.expect("written"));
    assert_eq!(add(&database, "bob", false).await, OperatorAdded::Done);
    assert_eq!(database.operators().await.expect("read").len(), 1_000);
}
