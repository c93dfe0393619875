//! Tests of changes: every process notices them, also after a connection was lost.

use super::*;
use crate::{
    entries::{EntryChange, EntryChanged, EntryKind, EntryValue},
    operators::StoredOperator,
    tests::home::{TestHome, on_both},
};

/// Time in which a change is noticed, with room for a machine that is busy.
const SOON: Duration = Duration::from_secs(15);

async fn next(changes: &mut Changes) -> Vec<ChangeKind> {
    let next = tokio::time::timeout(SOON, changes.next()).await.expect("it is noticed in time");
    next.expect("the database is there").into_iter().collect()
}

on_both! {
    a_change_is_noticed_by_other_processes_and_by_its_own,
    the_first_changes_are_those_of_before,
    a_change_that_is_rolled_back_is_not_noticed,
    changes_of_entries_and_operators_are_noticed_by_other_processes,
}

async fn a_change_is_noticed_by_other_processes_and_by_its_own(home: TestHome) {
    let first = home.open().await;
    let second = home.open().await;
    let mut of_first = first.changes();
    let mut of_second = second.changes();
    for kind in [ChangeKind::Keys, ChangeKind::Config, ChangeKind::Keys] {
        first.announce(kind).await.expect("written");
        assert_eq!(next(&mut of_second).await, [kind]);
        assert_eq!(next(&mut of_first).await, [kind]);
    }
    assert!(of_second.age() < SOON);
    // Pins, logins and approvals announce their own changes.
    second.pin_first_list("c", vec![("t".into(), "1".into())]).await.expect("written");
    assert_eq!(next(&mut of_first).await, [ChangeKind::Pins]);
    second.pin_first_list("c", vec![("t".into(), "2".into())]).await.expect("nothing is new");
    let life = Duration::from_secs(9);
    second.ask_approval([1; 32], [1; 32], "a".into(), "{}".into(), life).await.expect("written");
    assert_eq!(next(&mut of_first).await, [ChangeKind::Approvals]);
    let decision = crate::approvals::NewDecision {
        approves: true,
        actor: "ann".into(),
        reason: None,
        needs_two: false,
    };
    second.all_approvals().decide("a", decision).await.expect("written");
    assert_eq!(next(&mut of_first).await, [ChangeKind::Approvals]);
}

async fn the_first_changes_are_those_of_before(home: TestHome) {
    let database = home.open().await;
    for kind in [ChangeKind::Keys, ChangeKind::Config] {
        database.announce(kind).await.expect("written");
    }
    let mut changes = database.changes();
    assert_eq!(next(&mut changes).await, [ChangeKind::Config, ChangeKind::Keys]);
    // Each reader has its own.
    assert_eq!(next(&mut database.changes()).await, [ChangeKind::Config, ChangeKind::Keys]);
}

async fn a_change_that_is_rolled_back_is_not_noticed(home: TestHome) {
    let database = home.open().await;
    let mut changes = database.changes();
    let undone = database.attempt(vec![Subject::revision("keys")], |sql| {
        sql.announce(ChangeKind::Keys)?;
        Ok(Err::<(), _>("undone"))
    });
    assert_eq!(undone.await.expect("it is refused"), Err("undone"));
    database.announce(ChangeKind::Config).await.expect("written");
    assert_eq!(next(&mut changes).await, [ChangeKind::Config]);
}

async fn changes_of_entries_and_operators_are_noticed_by_other_processes(home: TestHome) {
    let first = home.open().await;
    let second = home.open().await;
    let mut changes = second.changes();
    for (kind, expected, revision) in
        [(EntryKind::Client, ChangeKind::Config, 0), (EntryKind::VirtualKey, ChangeKind::Keys, 1)]
    {
        let change = EntryChange {
            actor: "ann".to_owned(),
            action: "add".to_owned(),
            kind,
            name: "a".to_owned(),
            after: Some(EntryValue { replaces: None, document: Some("{}".to_owned()) }),
            components: Vec::new(),
            revision,
        };
        let made = first.change_entry(change.clone()).await.expect("written");
        assert_eq!(made, EntryChanged::Done(revision + 1));
        assert_eq!(next(&mut changes).await, [expected]);
        assert_eq!(second.entries().await.expect("read").revision, revision + 1);
        // Announces nothing.
        let outdated = first.change_entry(change).await.expect("read");
        assert_eq!(outdated, EntryChanged::Outdated);
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
    first.add_operator(operator, true, "ann").await.expect("written");
    assert_eq!(next(&mut changes).await, [ChangeKind::Operators]);
    assert!(first.remove_operator("ann", "ann").await.expect("written"));
    assert_eq!(next(&mut changes).await, [ChangeKind::Operators]);
}

#[tokio::test]
async fn a_change_is_noticed_after_the_connection_was_lost() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let mut changes = database.changes();
    database.announce(ChangeKind::Keys).await.expect("written");
    assert_eq!(next(&mut changes).await, [ChangeKind::Keys]);
    let server = home.server.as_ref().expect("a server");
    server.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid(); \
         UPDATE airlock_revision SET revision = revision + 1",
    );
    assert_eq!(next(&mut changes).await, [ChangeKind::Keys]);
}

#[test]
fn all_kinds_count_as_changed_after_an_outage_and_one_whose_revision_is_gone_at_any_time() {
    let both = [(ChangeKind::Config, 3), (ChangeKind::Keys, 7)];
    let seen = WatchedRevisions { revisions: both.into(), outages: 0 };
    assert_eq!(changed(&seen, &seen), BTreeSet::new());
    let back = WatchedRevisions { outages: 1, ..seen.clone() };
    assert_eq!(changed(&seen, &back), BTreeSet::from(both.map(|(kind, _)| kind)));
    let restored = WatchedRevisions { revisions: [both[0]].into(), outages: 0 };
    assert_eq!(changed(&seen, &restored), BTreeSet::from([ChangeKind::Keys]));
}

#[tokio::test]
async fn changes_end_with_the_file() {
    let home = TestHome::sqlite();
    let database = home.open().await;
    let mut changes = database.changes();
    std::fs::remove_file(home.directory.path().join("airlock.db")).expect("deleted");
    let ended = tokio::time::timeout(SOON, changes.next()).await.expect("it is noticed in time");
    assert_eq!(ended, None);
}
