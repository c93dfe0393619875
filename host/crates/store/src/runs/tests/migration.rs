//! Databases of older versions.

use rusqlite::{Connection, params};

use super::*;
use airlock_database::schema;

#[tokio::test]
async fn runs_of_the_version_before_are_kept_with_their_sizes_in_bytes() {
    let home = TestHome::sqlite();
    home.clock.set(BEGIN);
    let old = Connection::open(home.directory.path().join("airlock.db")).expect("opened");
    for migration in &schema::MIGRATIONS[..5] {
        old.execute_batch(migration).expect("an older version");
    }
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).expect("set");
    old.pragma_update(None, "user_version", 5).expect("set");
    old.execute("INSERT INTO run_tools VALUES (1, x'00', '[\"ß\"]')", ()).expect("written");
    for number in 1..=2 {
        let run = "INSERT INTO run VALUES (?1, 'r' || ?1, ?2, 500, ?3, ?3, 1, 'suspended', NULL, 0, \
             'starlark', 7, 1, NULL, 'ß')";
        old.execute(run, params![number, ANN, 1_000_000_000_i64]).expect("written");
        let call = "INSERT INTO run_call VALUES (?1, 1, 0, 'answered', 0, NULL, 0, 'fs-write', 'd', \
             'ßß', '\"ß\"')";
        old.execute(call, [number]).expect("written");
    }
    drop(old);
    let runs = open(&home, ANN, BOUNDS).await;
    let run = runs.get("r1").await.expect("it is kept");
    assert_eq!((run.bytes, run.bindings.as_str()), (512 + 6 + 2 + 256 + 4 + 4, "[\"ß\"]"));
    assert_eq!(runs.head("r2").await.expect("it is kept").bytes, run.bytes - 6);
    let expected = StoredCall {
        position: at(1),
        call: Call { called: called("ßß"), stage: Stage::Answered },
        answer: Some("\"ß\"".into()),
    };
    assert_eq!(run.calls, [expected]);
    let shown = runs.show("r1").await.expect("it is kept");
    assert_eq!(shown.calls[0].answer, Some(ShownAnswer::Whole("\"ß\"".into())));
    // The sums of the owner are there too, and calls go with their run.
    let steps = vec![begin("s"), RunStep::End("{}".into())];
    for id in ["a", "b", "c"] {
        runs.step(id, 1, steps.clone()).await.expect("stored");
    }
    let counts = runs.database.read(|sql| {
        let select = "SELECT runs, bytes - (SELECT sum(bytes) FROM run), (SELECT count(*) FROM run_call) \
                      FROM run_owner";
        sql.one(select, &[], |row| {
            Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?))
        })
    });
    // Of the three that are kept, two wait and one has ended.
    assert_eq!(counts.await.expect("read"), (3, 0, 2));
}

#[tokio::test]
async fn calls_of_the_version_before_are_kept_and_written_without_a_table_of_their_stages() {
    let home = TestHome::sqlite();
    home.clock.set(BEGIN);
    let path = home.directory.path().join("airlock.db");
    let old = Connection::open(&path).expect("opened");
    for migration in &schema::MIGRATIONS[..27] {
        old.execute_batch(migration).expect("an older version");
    }
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).expect("set");
    old.pragma_update(None, "user_version", 27).expect("set");
    old.execute("INSERT INTO run_tools VALUES (1, x'00', '[]')", ()).expect("written");
    let run = "INSERT INTO run (number, id, scope, bytes, created_ms, changed_ms, epoch, phase, cancelled, \
               language, tools, script) VALUES (1, 'r', ?1, 500, ?2, ?2, 1, 'suspended', 0, 'starlark', 1, '')";
    old.execute(run, params![ANN, 1_000_000_000_i64]).expect("written");
    let call = "INSERT INTO run_call VALUES (1, ?1, 0, ?2, 0, NULL, 0, 'fs-write', 'd', NULL, '{}', ?3, \
                '[\"web\"]', 'w', NULL)";
    for (block, stage, answer) in [(1, "answered", Some("1")), (2, "pending", None)] {
        old.execute(call, params![block, stage, answer]).expect("written");
    }
    drop(old);
    let runs = open(&home, ANN, BOUNDS).await;
    let run = runs.get("r").await.expect("it is kept");
    assert_eq!(stages(&run), [Stage::Answered, Stage::Pending { attempts: 0 }]);
    let kept =
        Called { written: Some("w".into()), sources: Some("[\"web\"]".into()), ..called("{}") };
    assert!(run.calls.iter().all(|stored| stored.call.called == kept), "{:?}", run.calls);
    assert_eq!((run.calls[0].answer.as_deref(), run.pending), (Some("1"), 1));
    let file = Connection::open(path).expect("opened");
    let insert = "INSERT INTO run_call (run, block, branch, stage, attempts, repeatable, tool, definition, \
                  arguments) VALUES (1, 3, 0, ?1, 0, 0, 't', 'd', '{}')";
    let mut explained = file.prepare(&format!("EXPLAIN {insert}")).expect("explained");
    let codes = explained.query_map(["sent"], |row| row.get(1)).expect("explained");
    let codes: Vec<String> = codes.collect::<Result<_, _>>().expect("explained");
    assert!(codes.iter().any(|code| code == "MakeRecord"), "{codes:?}");
    assert!(!codes.iter().any(|code| code == "OpenEphemeral"), "{codes:?}");
    assert!(file.execute(insert, ["other"]).is_err(), "there is no such stage");
}
