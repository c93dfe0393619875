//! Requests of a change to its server, which are what it costs if the server is far away.

use std::time::Duration;

use airlock_core::run::{Called, Position};

use crate::{
    Database,
    kv::Opener,
    recall::{NewRecord, RecallBounds},
    responses::{NewResponse, ResponseBounds, Texts},
    runs::{NewRun, RunBounds, RunStep, ScriptTools},
    sql::{Subject, first},
    tests::home::TestHome,
};

const ANN: [u8; 32] = [1; 32];
const DAY: Duration = Duration::from_hours(24);

/// Returns the requests of the connection that writes so far. The tests use only one.
async fn requests(database: &Database) -> u32 {
    let counted = database.write(Subject::APPROVALS, |sql| {
        sql.one("SELECT 1", &[], first::<i64>)?;
        Ok(sql.requests())
    });
    counted.await.expect("counted")
}

/// Requests of [`requests`] itself: the begin of its change, its statement, and the end.
const OWN: u32 = 3;

/// Fails if `change` does not take `expected` requests, the begin and the end included. It is made once
/// before, because the first time also prepares the statements.
macro_rules! assert_requests {
    ($database:expr, $expected:expr, $change:expr) => {{
        $change(0).await;
        requests(&$database).await;
        let before = requests(&$database).await;
        $change(1).await;
        let after = requests(&$database).await;
        assert_eq!(after - before - OWN, $expected);
    }};
}

#[tokio::test]
async fn a_change_takes_a_few_requests() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let store = database.kv("p", "s", Opener::Own(ANN), 1 << 20);
    assert_requests!(database, 5, async |_| store
        .set("k", vec![1], None, None)
        .await
        .expect("set"));
    for key in ["0", "1"] {
        store.set(key, vec![1], None, None).await.expect("set");
    }
    assert_requests!(database, 5, async |number: u32| {
        assert!(store.delete(&number.to_string(), None).await.expect("deleted"));
    });

    let bounds = ResponseBounds { expire_after: DAY, owner_bytes: 1 << 20, total_bytes: 1 << 20 };
    let responses = database.responses(ANN, bounds);
    assert_requests!(database, 7, async |number: u32| {
        let id = number.to_string();
        let response = NewResponse { id, previous: None, texts: Texts::default() };
        responses.put(response).await.expect("stored");
    });

    let bounds = RecallBounds {
        expire_after: DAY,
        owner_records: 9,
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
    };
    let recall = database.recall(ANN, bounds);
    assert_requests!(database, 6, async |number: u8| {
        let record = NewRecord { anchors: vec![[number; 32], [9; 32]], text: Some("x".into()) };
        recall.put(record).await.expect("stored");
    });
}

#[tokio::test]
async fn a_run_that_only_reads_takes_as_many_requests_whatever_it_has_called() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let bounds = RunBounds {
        expire_after: DAY,
        owner_runs: 9,
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
        lease: DAY,
        approval: DAY,
    };
    let runs = database.runs(ANN, bounds);
    // The first run that stops also looks after the bound of all owners.
    runs.step("first", 1, whole(1)).await.expect("stored");
    for calls in [1, 30] {
        assert_requests!(database, 8, async |number: u32| {
            runs.step(&format!("{calls}-{number}"), 1, whole(calls)).await.expect("stored");
        });
    }
}

fn whole(calls: u32) -> Vec<RunStep> {
    let begin = RunStep::Begin(NewRun {
        language: "l".into(),
        script: "s".into(),
        tools: ScriptTools::new(|| ("[]".into(), [0; 32])),
        clock_ms: None,
    });
    let records = (0..calls).map(|block| {
        let called = Called {
            tool: "t".into(),
            arguments: "{}".into(),
            definition: "d".into(),
            is_repeatable: true,
        };
        RunStep::Record(Position { block, branch: 0 }, called, "1".into())
    });
    let end = RunStep::End("{}".into());
    [begin].into_iter().chain(records).chain([end]).collect()
}
