use super::*;
use crate::{
    entries::{EntryChange, EntryChanged, EntryKind, EntryValue},
    tests::home::{TestHome, on_both},
};
use airlock_database::sql::{first, params};

on_both! {
    a_component_is_read_as_it_was_stored_and_twice_is_once,
    a_component_that_is_damaged_or_incomplete_is_not_there,
    an_entry_names_only_components_that_are_there,
    components_that_no_entry_names_are_removed_when_there_is_no_room,
    entries_name_components_of_bounded_size,
}

/// Returns a component of so many bytes.
fn component(number: u8, bytes: usize) -> Arc<[u8]> {
    vec![number; bytes].into()
}

async fn put(database: &Database, component: &Arc<[u8]>) -> ComponentDigest {
    let put = database.put_component(component.clone()).await.expect("written");
    assert_eq!(put, ComponentPut::Done);
    ComponentDigest::compute(component)
}

async fn assign(database: &Database, name: &str, components: Vec<ComponentDigest>) -> EntryChanged {
    let document = (!components.is_empty()).then(|| format!("{components:?}"));
    let change = EntryChange {
        actor: "ann".to_owned(),
        action: "plugin.install".to_owned(),
        kind: EntryKind::Client,
        name: name.to_owned(),
        after: document.map(|text| EntryValue { replaces: None, document: Some(text) }),
        components,
        revision: database.entries().await.expect("read").revision,
    };
    database.change_entry(change).await.expect("written")
}

async fn run(database: &Database, statement: &'static str) {
    let done = database.write(Subject::SETTINGS, move |sql| sql.run(statement, &[]));
    assert!(done.await.expect("written") > 0, "{statement}");
}

async fn count(database: &Database, table: &'static str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    database.read(move |sql| sql.one(&count, &[], first)).await.expect("read")
}

#[test]
fn a_digest_is_read_as_it_is_shown() {
    let digest = ComponentDigest::compute(b"");
    let text = digest.to_string();
    assert!(text.starts_with("sha256:e3b0c44298fc1c14"), "{text}");
    assert_eq!(text.parse(), Ok(digest));
    assert_eq!(text.to_uppercase().replace("SHA", "sha").parse(), Ok(digest));
    for bad in ["", "sha256:", &text[1..], &text[..70], &format!("{text}0"), "sha256:../../etc"] {
        assert_eq!(bad.parse::<ComponentDigest>(), Err(BadDigest), "{bad}");
    }
}

async fn a_component_is_read_as_it_was_stored_and_twice_is_once(home: TestHome) {
    let database = home.open().await;
    for bytes in [0, 1, PART_BYTES, PART_BYTES + 1] {
        let component: Arc<[u8]> = (0..=250).cycle().take(bytes).collect();
        let digest = put(&database, &component).await;
        assert_eq!(put(&database, &component).await, digest);
        let read = database.component(digest).await.expect("read").expect("it is there");
        assert!(read == *component, "{bytes}");
    }
    assert_eq!(count(&database, "component").await, 4);
    assert_eq!(count(&database, "component_part").await, 4);
    assert_eq!(database.component(ComponentDigest([7; 32])).await.expect("read"), None);
}

async fn a_component_that_is_damaged_or_incomplete_is_not_there(home: TestHome) {
    let database = home.open().await;
    let digest = put(&database, &component(1, PART_BYTES + 5)).await;
    run(&database, "DELETE FROM component_part WHERE number = 1").await;
    assert_eq!(database.component(digest).await.expect("read"), None);
    let absent = EntryChanged::ComponentAbsent(digest);
    assert_eq!(assign(&database, "a", vec![digest]).await, absent);
    // An upload that was interrupted is completed by the next one.
    put(&database, &component(1, PART_BYTES + 5)).await;
    assert!(database.component(digest).await.expect("read").is_some());
    let damage = database.write(Subject::SETTINGS, move |sql| {
        let update = "UPDATE component_part SET content = ?1 WHERE number = 1";
        sql.run(update, params![&[2_u8; 5]])
    });
    assert_eq!(damage.await.expect("written"), 1);
    assert_eq!(database.component(digest).await.expect("read"), None);
    // The next upload repairs it, also if its size or the number of its parts is wrong.
    put(&database, &component(1, PART_BYTES + 5)).await;
    assert!(database.component(digest).await.expect("read").is_some());
    run(&database, "UPDATE component_part SET number = 2 WHERE number = 1").await;
    run(&database, "UPDATE component SET bytes = 3").await;
    put(&database, &component(1, PART_BYTES + 5)).await;
    assert!(database.component(digest).await.expect("read").is_some());
    assert_eq!(count(&database, "component_part").await, 2);
    // An entry that names a damaged one may name another one beside it.
    assert_eq!(assign(&database, "a", vec![digest]).await, EntryChanged::Done(1));
    run(&database, "DELETE FROM component_part WHERE number = 1").await;
    let other = put(&database, &component(3, 10)).await;
    assert_eq!(assign(&database, "a", vec![digest, other]).await, EntryChanged::Done(2));
}

async fn an_entry_names_only_components_that_are_there(home: TestHome) {
    let database = home.open().await;
    let absent = ComponentDigest([7; 32]);
    let digest = put(&database, &component(1, 10)).await;
    assert_eq!(
        assign(&database, "a", vec![digest, absent]).await,
        EntryChanged::ComponentAbsent(absent)
    );
    assert!(database.entries().await.expect("read").entries.is_empty());
    assert_eq!(count(&database, "component_use").await, 0);
    assert_eq!(assign(&database, "a", vec![digest, digest]).await, EntryChanged::Done(1));
    assert_eq!(assign(&database, "b", vec![digest]).await, EntryChanged::Done(2));
    assert_eq!(count(&database, "component_use").await, 2);
    assert_eq!(assign(&database, "a", Vec::new()).await, EntryChanged::Done(3));
    assert_eq!(count(&database, "component_use").await, 1);
}

async fn components_that_no_entry_names_are_removed_when_there_is_no_room(home: TestHome) {
    let database = home.open().await;
    let named = put(&database, &component(0, 10)).await;
    assert_eq!(assign(&database, "a", vec![named]).await, EntryChanged::Done(1));
    let mut others = Vec::new();
    for number in 1..=4 {
        home.clock.pass(std::time::Duration::from_secs(1));
        others.push(put(&database, &component(number, 10)).await);
    }
    // The sizes are as noted: two of these fill the room.
    run(&database, "UPDATE component SET bytes = 120000000 WHERE bytes = 10").await;
    home.clock.pass(std::time::Duration::from_secs(1));
    let last = put(&database, &component(5, 10)).await;
    let mut present = Vec::new();
    let select = "SELECT digest FROM component ORDER BY touched_ms";
    let found = database.read(move |sql| sql.all(select, &[], first::<[u8; 32]>)).await;
    present.extend(found.expect("read").into_iter().map(ComponentDigest));
    assert_eq!(present, [named, others[2], others[3], last]);
    assert_eq!(count(&database, "component_part").await, 4);
}

async fn entries_name_components_of_bounded_size(home: TestHome) {
    let database = home.open().await;
    let first = put(&database, &component(1, 10)).await;
    assert_eq!(assign(&database, "a", vec![first]).await, EntryChanged::Done(1));
    run(&database, "UPDATE component SET bytes = 1073741815").await;
    let second = put(&database, &component(2, 10)).await;
    assert_eq!(assign(&database, "b", vec![second]).await, EntryChanged::ComponentsFull);
    run(&database, "UPDATE component SET bytes = 1073741814 WHERE bytes > 10").await;
    assert_eq!(assign(&database, "b", vec![second]).await, EntryChanged::Done(2));
    // An entry that names nothing new is not refused.
    run(&database, "UPDATE component SET bytes = 1073741815 WHERE bytes > 10").await;
    assert_eq!(assign(&database, "b", Vec::new()).await, EntryChanged::Done(3));
}
