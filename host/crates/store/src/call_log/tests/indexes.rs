//! Indexes of the call log in a file, and files whose indexes have all rows.

use rusqlite::Connection;

use super::*;
use airlock_database::schema;

/// Returns the steps of the plan for the rows of a filter.
async fn plan(database: &Database, kind: LogKind, filter: LogFilter) -> String {
    let steps = database.read(move |sql| {
        let selected = query::Selected::new(kind, &filter);
        let explain = format!("EXPLAIN QUERY PLAN SELECT * FROM {}", selected.from);
        // The fourth column is the text of a step.
        sql.all(&explain, &selected.values, |row| row.get::<String>(3))
    });
    steps.await.expect("planned").join("; ")
}

#[tokio::test]
async fn rare_rows_are_found_by_an_index_and_those_of_most_calls_by_their_time() {
    let home = TestHome::sqlite();
    let database = home.open().await;
    let value = vec!["x".to_owned()];
    let failed = vec![CallStatus::Error, CallStatus::Refused];
    let done = vec![CallStatus::Error, CallStatus::Success];
    for (kind, table, names) in
        [(LogKind::Tools, "tool_log", "tool"), (LogKind::Models, "model_log", "model")]
    {
        for (filter, index) in [
            (LogFilter { statuses: failed.clone(), ..all() }, "status"),
            (LogFilter { statuses: done.clone(), ..all() }, "time"),
            (LogFilter { keys: value.clone(), ..all() }, "key"),
            (LogFilter { names: value.clone(), ..all() }, names),
            (LogFilter { user_subject: Some("x".to_owned()), ..all() }, "user"),
            (all(), "time"),
        ] {
            let plan = plan(&database, kind, filter.clone()).await;
            let used = ["of", "by"].map(|word| format!("INDEX {table}_{word}_{index} "));
            assert!(used.iter().any(|name| plan.contains(name)), "{filter:?}: {plan}");
        }
    }
}

#[tokio::test]
async fn of_one_key_or_name_no_more_rows_are_sorted_than_are_read() {
    let home = TestHome::sqlite();
    let database = home.open().await;
    let sorts_all = "USE TEMP B-TREE FOR ORDER BY";
    let one = vec!["x".to_owned()];
    let several = vec!["x".to_owned(), "y".to_owned()];
    for kind in [LogKind::Tools, LogKind::Models] {
        for filter in [
            LogFilter { keys: one.clone(), ..all() },
            LogFilter { names: one.clone(), ..all() },
            LogFilter { user_subject: Some("x".to_owned()), ..all() },
        ] {
            let plan = plan(&database, kind, filter.clone()).await;
            assert!(!plan.contains(sorts_all), "{filter:?}: {plan}");
        }
        let filter = LogFilter { keys: several.clone(), ..all() };
        let plan = plan(&database, kind, filter).await;
        assert!(plan.contains(sorts_all), "so the text of the plan is known: {plan}");
    }
}

#[tokio::test]
async fn rows_of_a_file_whose_indexes_have_all_rows_are_kept_and_selected() {
    let home = TestHome::sqlite();
    let old = Connection::open(home.directory.path().join("airlock.db")).expect("opened");
    for migration in &schema::MIGRATIONS[..23] {
        old.execute_batch(migration).expect("an older version");
    }
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).expect("set");
    old.pragma_update(None, "user_version", 23).expect("set");
    for (id, status, key) in [("1", "success", None), ("2", "error", Some("k"))] {
        let insert = "INSERT INTO tool_log (id, at_ms, status, tool, origin, decision, key_id) \
                      VALUES (?1, 5, ?2, 'a', 'model', 'automatic', ?3)";
        old.execute(insert, (id, status, key)).expect("written");
    }
    drop(old);
    let database = home.open().await;
    assert_eq!(ids(&database, all(), page()).await, ["2", "1"]);
    let failed = LogFilter { statuses: vec![CallStatus::Error], ..all() };
    assert_eq!(ids(&database, failed, page()).await, ["2"]);
    let of_key = LogFilter { keys: vec!["k".to_owned()], ..all() };
    assert_eq!(ids(&database, of_key, page()).await, ["2"]);
}
