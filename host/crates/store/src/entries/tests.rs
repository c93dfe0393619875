use futures_util::future::join_all;

use super::*;
use crate::{
    SealError, SealKey,
    operators::{OperatorAdded, StoredOperator},
    tests::home::{TestHome, on_both},
};
use airlock_database::sql::{first, params};

const DIGEST: [u8; 32] = [7; 32];

fn value(document: &str) -> EntryValue {
    EntryValue { replaces: None, document: Some(document.to_owned()) }
}

fn change(name: &str, after: Option<EntryValue>, revision: i64) -> EntryChange {
    EntryChange {
        actor: "ann".to_owned(),
        action: "client.set".to_owned(),
        kind: EntryKind::Client,
        name: name.to_owned(),
        after,
        components: Vec::new(),
        revision,
    }
}

/// Makes a change that is up to date. Returns its number.
async fn done(database: &Database, name: &str, after: Option<EntryValue>) -> i64 {
    let revision = database.entries().await.expect("read").revision;
    match database.change_entry(change(name, after, revision)).await.expect("written") {
        EntryChanged::Done(id) => id,
        refused => panic!("{refused:?}"),
    }
}

/// Executes a statement for each of these numbers, and the numbers as texts.
async fn insert(database: &Database, statement: &'static str, numbers: std::ops::Range<i64>) {
    let names: Vec<_> = numbers.map(|number| (number, number.to_string())).collect();
    for names in names.chunks(2_000) {
        let names = names.to_vec();
        let inserted = database.write(Subject::SETTINGS, move |sql| {
            let rows = names.iter().map(|(number, name)| params![*number, name].to_vec());
            sql.run_all(statement, &rows.collect::<Vec<_>>())
        });
        inserted.await.expect("written");
    }
}

on_both! {
    entries_are_added_replaced_and_removed,
    of_callers_with_the_same_revision_one_makes_its_change,
    a_change_is_recorded_with_what_was_before_and_after,
    the_record_is_read_page_by_page,
    a_change_of_what_a_limit_counts_is_recorded_and_leaves_the_revision,
    the_record_keeps_the_newest_changes_and_the_revision,
    the_oldest_documents_of_the_record_make_room_and_their_changes_stay,
    entries_have_a_bounded_number,
    documents_have_bounded_sizes,
    with_a_key_no_document_is_readable_in_the_database,
    a_document_whose_key_is_missing_names_the_key,
    an_entry_whose_key_is_lost_is_removed_and_its_changes_stay_listed,
    an_entry_that_cannot_be_opened_hides_no_other_and_no_removal,
    a_document_that_was_moved_to_another_row_does_not_open,
    an_entry_of_a_newer_version_is_left_out,
}

async fn a_change_of_what_a_limit_counts_is_recorded_and_leaves_the_revision(home: TestHome) {
    let database = home.open().await;
    assert_eq!(done(&database, "a", Some(value("1"))).await, 1);
    for (action, after) in [("limit.override", Some("{}")), ("limit.reset", None)] {
        let change = LimitChange {
            actor: "ann".to_owned(),
            action: action.to_owned(),
            limit: "l".to_owned(),
            after: after.map(str::to_owned),
        };
        database.record_limit_change(change).await.expect("written");
    }
    let recorded = database.recorded_changes(None, 2).await.expect("read");
    let shown: Vec<_> = recorded
        .iter()
        .map(|change| (change.id, change.kind_name(), change.action.as_str(), change.name.as_str()))
        .collect();
    assert_eq!(shown, [(3, "limit", "limit.reset", "l"), (2, "limit", "limit.override", "l")]);
    let after: Vec<_> =
        recorded.iter().map(|change| change.after.clone().expect("readable")).collect();
    assert_eq!(after, [None, Some(value("{}"))]);
    // An entry is changed by who knows the latest change of one.
    assert_eq!(database.entries().await.expect("read").revision, 1);
    assert_eq!(done(&database, "a", Some(value("2"))).await, 4);
}

async fn entries_are_added_replaced_and_removed(home: TestHome) {
    let database = home.open().await;
    assert_eq!(database.entries().await.expect("read"), Entries::default());
    let key = EntryChange { kind: EntryKind::VirtualKey, ..change("a", Some(value("{}")), 0) };
    assert_eq!(database.change_entry(key).await.expect("written"), EntryChanged::Done(1));
    assert_eq!(done(&database, "b\0", Some(value("1"))).await, 2);
    let removed = EntryValue { replaces: Some(DIGEST), document: None };
    assert_eq!(done(&database, "a", Some(removed)).await, 3);
    home.clock.pass(std::time::Duration::from_secs(1));
    assert_eq!(done(&database, "b\0", Some(value("2"))).await, 4);
    let expected = [
        (EntryKind::Client, "a", Some(DIGEST), None, 1_000_000),
        (EntryKind::Client, "b\0", None, Some("2"), 1_001_000),
        (EntryKind::VirtualKey, "a", None, Some("{}"), 1_000_000),
    ];
    let expected = expected.map(|(kind, name, replaces, document, changed_ms)| Entry {
        kind,
        name: name.to_owned(),
        replaces,
        document: document.map(str::to_owned),
        changed_ms,
    });
    let entries = database.entries().await.expect("read");
    let all = Entries { keys_changed: true, ..Entries::default() };
    assert_eq!(entries, Entries { revision: 4, entries: expected.to_vec(), ..all.clone() });
    assert_eq!(done(&database, "a", None).await, 5);
    let entries = database.entries().await.expect("read");
    assert_eq!(entries, Entries { revision: 5, entries: expected[1..].to_vec(), ..all });
}

async fn of_callers_with_the_same_revision_one_makes_its_change(home: TestHome) {
    let databases = [home.open().await, home.open().await];
    done(&databases[0], "a", Some(value("{}"))).await;
    let callers = (0..20).map(|number| {
        let new = change(&number.to_string(), Some(value("{}")), 1);
        databases[number % 2].change_entry(new)
    });
    let made = join_all(callers).await;
    let made: Vec<_> = made.into_iter().map(|made| made.expect("written")).collect();
    assert_eq!(made.iter().filter(|made| **made == EntryChanged::Done(2)).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|made| **made == EntryChanged::Outdated).count(), 19);
    for revision in [0, 1, 3] {
        let outdated = databases[1].change_entry(change("b", None, revision)).await;
        assert_eq!(outdated.expect("read"), EntryChanged::Outdated, "{revision}");
    }
    assert_eq!(databases[1].entries().await.expect("read").entries.len(), 2);
}

async fn a_change_is_recorded_with_what_was_before_and_after(home: TestHome) {
    let database = home.open().await;
    let values = [
        Some(value("1")),
        Some(EntryValue { replaces: Some(DIGEST), document: None }),
        Some(EntryValue { replaces: None, document: None }),
        None,
    ];
    let mut before = None;
    for (after, id) in values.into_iter().zip(1..) {
        assert_eq!(done(&database, "a", after.clone()).await, id);
        let expected = RecordedChange {
            id,
            at_ms: 1_000_000,
            actor: "ann".to_owned(),
            action: "client.set".to_owned(),
            kind: Some(EntryKind::Client),
            name: "a".to_owned(),
            before: Ok(before),
            after: Ok(after.clone()),
        };
        assert_eq!(database.recorded_change(id).await.expect("read"), Some(expected));
        before = after;
    }
    assert_eq!(database.recorded_change(5).await.expect("read"), None);
}

async fn the_record_is_read_page_by_page(home: TestHome) {
    let database = home.open().await;
    for number in 1..=5 {
        done(&database, "a", Some(value(&number.to_string()))).await;
    }
    for (before, limit, expected) in [
        (None, 9, &[5, 4, 3, 2, 1][..]),
        (None, 2, &[5, 4]),
        (Some(4), 2, &[3, 2]),
        (Some(1), 9, &[]),
        (None, 0, &[]),
    ] {
        let page = database.recorded_changes(before, limit).await.expect("read");
        let ids: Vec<_> = page.iter().map(|change| change.id).collect();
        assert_eq!(ids, expected, "{before:?} {limit}");
    }
    // Of a megabyte each, and so is what each replaces.
    for _ in 0..6 {
        done(&database, "a", Some(value(&"x".repeat(MAX_DOCUMENT_BYTES)))).await;
    }
    let page = database.recorded_changes(None, 100).await.expect("read");
    let ids: Vec<_> = page.iter().map(|change| change.id).collect();
    assert_eq!(ids, [11, 10, 9, 8]);
}

const INSERT_CHANGE: &str = "INSERT INTO setting_change (id, at_ms, actor, action, name, has_before, \
                             has_after) VALUES (?1, 1, ?2, ?2, ?2, 0, 0)";

async fn the_record_keeps_the_newest_changes_and_the_revision(home: TestHome) {
    let database = home.open().await;
    done(&database, "a", Some(value("1"))).await;
    let count = i64::from(MAX_RECORDED);
    // Of operators.
    insert(&database, INSERT_CHANGE, 2..count + 20).await;
    let operator = StoredOperator {
        id: "1".to_owned(),
        name: "ann".to_owned(),
        role: "admin".to_owned(),
        sees_payloads: false,
        digest: DIGEST,
        created_ms: 1,
        expires_ms: None,
    };
    for name in ["ann", "bob"] {
        let operator =
            StoredOperator { id: name.to_owned(), name: name.to_owned(), ..operator.clone() };
        let added = database.add_operator(operator, false, "ann").await;
        assert_eq!(added.expect("written"), OperatorAdded::Done);
    }
    // The latest change of an entry, and the newest ones. One more change is to be removed.
    assert_eq!(ids(&database).await, (count + 1, 1));
    assert_eq!(database.entries().await.expect("read").revision, 1);
    assert_eq!(database.recorded_change(21).await.expect("read"), None);
    assert!(database.recorded_change(22).await.expect("read").is_some());
    let id = done(&database, "a", Some(value("2"))).await;
    assert_eq!(id, count + 22);
    assert_eq!(ids(&database).await, (count, 23));
    assert_eq!(database.entries().await.expect("read").revision, id);
}

async fn the_oldest_documents_of_the_record_make_room_and_their_changes_stay(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    let [small, large] = [1, 1_000].map(|length| value(&"x".repeat(length)));
    for after in [&small, &large, &small, &large] {
        done(&database, "a", Some(after.clone())).await;
    }
    done(&database, "a", None).await;
    let sealer = database.sealer();
    // The last two changes have a large document each, and their seals.
    let forgetting =
        database.write(Subject::SETTINGS, move |sql| record::forget_documents(sql, &sealer, 3_000));
    forgetting.await.expect("written");
    let listed = database.recorded_changes(None, 9).await.expect("read");
    let listed: Vec<_> = listed.into_iter().map(|change| [change.before, change.after]).collect();
    let expected = [
        [Ok(Some(large.clone())), Ok(None)],
        [Ok(Some(small.clone())), Ok(Some(large))],
        [Err(SealError::NotKept), Err(SealError::NotKept)],
        [Err(SealError::NotKept), Err(SealError::NotKept)],
        [Ok(None), Ok(Some(small))],
    ];
    assert_eq!(listed, expected);
}

/// Returns the number of recorded changes, and the first of their numbers.
async fn ids(database: &Database) -> (i64, i64) {
    let read = database.read(|sql| {
        let select = "SELECT count(*), min(id) FROM setting_change";
        sql.one(select, &[], |row| Ok((row.get(0)?, row.get(1)?)))
    });
    read.await.expect("read")
}

const INSERT_ENTRY: &str = "INSERT INTO setting_entry (kind, name, changed_ms) \
                            VALUES ('client', ?2, ?1)";

async fn entries_have_a_bounded_number(home: TestHome) {
    let database = home.open().await;
    insert(&database, INSERT_ENTRY, 1..i64::from(MAX_ENTRIES)).await;
    let last = done(&database, "x", Some(value("{}"))).await;
    let refused = database.change_entry(change("y", Some(value("{}")), last)).await;
    assert_eq!(refused.expect("read"), EntryChanged::Full);
    assert_eq!(database.entries().await.expect("read").revision, last);
    // One that is there may be replaced, and makes room when it is removed.
    done(&database, "x", Some(value("[1]"))).await;
    done(&database, "1", None).await;
    done(&database, "y", Some(value("{}"))).await;
    assert_eq!(database.entries().await.expect("read").entries.len(), 10_000);
}

async fn documents_have_bounded_sizes(home: TestHome) {
    let database = home.open().await;
    let largest = "x".repeat(MAX_DOCUMENT_BYTES);
    let refused = database.change_entry(change("a", Some(value(&format!("{largest}x"))), 0)).await;
    assert_eq!(refused.expect("read"), EntryChanged::Full);
    done(&database, "a", Some(value(&largest))).await;
    let copy = "INSERT INTO setting_entry (kind, name, document, changed_ms) \
                SELECT kind, ?2, document, ?1 FROM setting_entry WHERE name = ?3";
    let copied = database.write(Subject::SETTINGS, move |sql| {
        for number in 1..64_u8 {
            let name = number.to_string();
            sql.run(copy, params![i64::from(number), &name, "a"])?;
        }
        Ok(())
    });
    copied.await.expect("written");
    let refused = database.change_entry(change("b", Some(value("x")), 1)).await;
    assert_eq!(refused.expect("read"), EntryChanged::Full);
    done(&database, "a", Some(value(&largest[1..]))).await;
    done(&database, "b", Some(value("x"))).await;
}

async fn with_a_key_no_document_is_readable_in_the_database(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    for document in ["hunter2-1", "hunter2-2"] {
        done(&database, "a", Some(value(document))).await;
    }
    let stored = database.read(|sql| {
        let select = "SELECT document, before_document, after_document \
                      FROM setting_entry, setting_change WHERE id = 2";
        sql.one(select, &[], |row| {
            Ok([row.get::<Vec<u8>>(0)?, row.get::<Vec<u8>>(1)?, row.get::<Vec<u8>>(2)?])
        })
    });
    for value in stored.await.expect("read") {
        assert!(!value.windows(7).any(|window| window == b"hunter2"));
    }
    assert!(!home.has_bytes(b"hunter2"));
    let entries = database.entries().await.expect("read").entries;
    assert_eq!(entries[0].document.as_deref(), Some("hunter2-2"));
    let recorded = database.recorded_changes(None, 9).await.expect("read");
    assert_eq!(recorded[0].before, Ok(Some(value("hunter2-1"))));
    assert_eq!(recorded[0].after, Ok(Some(value("hunter2-2"))));
    let shown = format!("{entries:?} {recorded:?} {:?}", change("a", Some(value("hunter2")), 1));
    assert!(!shown.contains("hunter2"), "{shown}");
}

async fn a_document_whose_key_is_missing_names_the_key(mut home: TestHome) {
    let keyless = home.open().await;
    home.set_keys(1, &[]);
    done(&home.open().await, "a", Some(value("{}"))).await;
    home.set_keys(2, &[]);
    let other = home.open().await;
    let missing = SealError::UnknownKey(SealKey::new(&[1; 32]).id());
    for database in [&keyless, &other] {
        let listed = database.recorded_changes(None, 1).await.expect("read");
        let found = database.recorded_change(1).await.expect("read");
        for change in listed.into_iter().chain(found) {
            assert_eq!([change.before, change.after], [Ok(None), Err(missing)]);
        }
    }
    home.set_keys(2, &[1]);
    let both = home.open().await;
    assert_eq!(both.entries().await.expect("read").entries[0].document.as_deref(), Some("{}"));
}

async fn an_entry_whose_key_is_lost_is_removed_and_its_changes_stay_listed(mut home: TestHome) {
    home.set_keys(1, &[]);
    done(&home.open().await, "a", Some(value("1"))).await;
    home.set_keys(2, &[]);
    let database = home.open().await;
    done(&database, "a", None).await;
    done(&database, "a", Some(value("2"))).await;
    let entries = database.entries().await.expect("read");
    assert_eq!((entries.entries.len(), entries.unreadable), (1, Vec::new()));
    let lost = SealError::UnknownKey(SealKey::new(&[1; 32]).id());
    let listed = database.recorded_changes(None, 9).await.expect("read");
    let listed: Vec<_> = listed.into_iter().map(|change| [change.before, change.after]).collect();
    let expected = [
        [Ok(None), Ok(Some(value("2")))],
        [Err(SealError::NotKept), Ok(None)],
        [Ok(None), Err(lost)],
    ];
    assert_eq!(listed, expected);
}

async fn an_entry_that_cannot_be_opened_hides_no_other_and_no_removal(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    let rotated = EntryValue { replaces: Some(DIGEST), ..value("{}") };
    done(&database, "rotated", Some(rotated)).await;
    home.set_keys(2, &[]);
    let other = home.open().await;
    let removed = EntryValue { replaces: Some(DIGEST), document: None };
    done(&other, "gone", Some(removed)).await;
    done(&other, "own", Some(value("1"))).await;
    for (database, hidden, key) in [(&database, "own", 2), (&other, "rotated", 1)] {
        let all = database.entries().await.expect("read");
        assert_eq!((all.revision, all.entries.len()), (3, 2), "{all:?}");
        let gone = all.entries.iter().find(|entry| entry.name == "gone").expect("it is read");
        assert_eq!((gone.replaces, &gone.document), (Some(DIGEST), &None));
        let unreadable = UnreadableEntry {
            kind: EntryKind::Client,
            name: hidden.to_owned(),
            replaces: (hidden == "rotated").then_some(DIGEST),
            reason: SealError::UnknownKey(SealKey::new(&[key; 32]).id()),
        };
        assert_eq!(all.unreadable, [unreadable]);
    }
}

async fn a_document_that_was_moved_to_another_row_does_not_open(mut home: TestHome) {
    home.set_keys(1, &[]);
    let database = home.open().await;
    for name in ["a", "b"] {
        done(&database, name, Some(value(name))).await;
    }
    for moved in [
        "UPDATE setting_entry SET document = (SELECT document FROM setting_entry WHERE name = ?1)",
        "UPDATE setting_change SET after_document = (SELECT after_document FROM setting_change \
         WHERE name = ?1)",
    ] {
        let moved = database.write(Subject::SETTINGS, move |sql| sql.run(moved, params!["a"]));
        moved.await.expect("written");
    }
    let all = database.entries().await.expect("read");
    assert_eq!(all.entries.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(), ["a"]);
    let [altered] = &all.unreadable[..] else { panic!("{all:?}") };
    assert!(matches!(altered.reason, SealError::Altered(_)) && altered.name == "b", "{all:?}");
    assert!(database.recorded_change(1).await.expect("read").is_some());
    let recorded = database.recorded_change(2).await.expect("read").expect("it is there");
    assert!(matches!(recorded.after, Err(SealError::Altered(_))), "{recorded:?}");
}

async fn an_entry_of_a_newer_version_is_left_out(home: TestHome) {
    let database = home.open().await;
    done(&database, "a", Some(value("{}"))).await;
    let newer = "INSERT INTO setting_entry (kind, name, changed_ms) VALUES (?1, ?2, 1)";
    let inserted =
        database.write(Subject::SETTINGS, move |sql| sql.run(newer, params!["later", "b"]));
    inserted.await.expect("written");
    assert_eq!(database.entries().await.expect("read").entries.len(), 1);
    let count =
        database.read(|sql| sql.one("SELECT count(*) FROM setting_entry", &[], first::<i64>));
    assert_eq!(count.await.expect("read"), 2);
}
