//! Requests of a change to its server, which are what it costs if the server is far away.

use std::{convert::Infallible, time::Duration};

use airlock_core::run::{Called, Position};

use crate::{
    Database,
    kv::Opener,
    recall::{NewRecord, Recall, RecallBounds},
    responses::{NewResponse, ResponseBounds, Texts},
    runs::{NewRun, RunBounds, RunStep, ScriptTools},
    tests::{home::TestHome, sums},
};
use airlock_database::sql::{Subject, first};

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
        trace: None,
        sources: None,
    });
    let records = (0..calls).map(|block| {
        let called = Called {
            tool: "t".into(),
            arguments: "{}".into(),
            definition: "d".into(),
            is_repeatable: true,
            written: None,
            sources: None,
            asked_by: None,
        };
        RunStep::Record(Position { block, branch: 0 }, called, "1".into())
    });
    let end = RunStep::End("{}".into());
    [begin].into_iter().chain(records).chain([end]).collect()
}

#[tokio::test]
async fn records_that_follow_each_other_take_as_many_requests_as_one() {
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
    runs.step("r", 1, whole(0)[..1].to_vec()).await.expect("begun");
    let mut records = whole(40).into_iter().filter(|step| matches!(step, RunStep::Record(..)));
    let mut next = vec![records.by_ref().take(1).collect::<Vec<_>>()];
    next.push(records.by_ref().take(1).collect());
    next.push(records.collect());
    let mut taken = Vec::new();
    for steps in next {
        let before = requests(&database).await;
        runs.step("r", 1, steps).await.expect("stored");
        taken.push(requests(&database).await - before - OWN);
    }
    assert_eq!(taken[1], taken[2], "{taken:?}");
    sums::check(&database).await;
}

#[tokio::test]
async fn pins_of_many_tools_take_as_many_requests_as_one() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    for (client, tools) in [("one", 1), ("many", 50)] {
        let names = (0..tools).map(|tool| (format!("{tool}"), "{}".to_owned()));
        let names: Vec<_> = names.collect();
        assert_requests!(database, 8, async |number: u32| {
            let client = format!("{client}{number}");
            let pinned = database.pin_first_list(&client, names.clone()).await;
            assert_eq!(pinned.expect("pinned").len(), tools);
        });
        let forget: Vec<_> = names.iter().map(|(name, _)| name.clone()).collect();
        // Two changes.
        assert_requests!(database, 12, async |number: u32| {
            let client = format!("later{client}{number}");
            database.pin_later_tools(&client, names.clone(), Vec::new()).await.expect("pinned");
            let left = database.pin_later_tools(&client, Vec::new(), forget.clone()).await;
            assert!(left.expect("forgotten").is_empty());
        });
    }
}

/// Returns the requests of the connection that reads so far.
async fn read_requests(database: &Database) -> u32 {
    database.read(|sql| Ok(sql.requests())).await.expect("counted")
}

#[tokio::test]
async fn a_conversation_and_records_of_many_anchors_take_a_few_requests() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let bounds = ResponseBounds { expire_after: DAY, owner_bytes: 1 << 20, total_bytes: 1 << 20 };
    let responses = database.responses(ANN, bounds);
    for turn in 0..16 {
        let previous = (turn > 0).then(|| (turn - 1).to_string());
        let response = NewResponse { id: turn.to_string(), previous, texts: Texts::default() };
        responses.put(response).await.expect("stored");
    }
    let recall = database.recall(ANN, recall_bounds());
    for number in 0..16 {
        put(&recall, number).await;
    }
    let anchors: Vec<_> = (0..64).map(|number| [number; 32]).collect();
    for expected in [None, Some(4)] {
        let before = read_requests(&database).await;
        let turns = responses.conversation("15", |_| Ok::<(), Infallible>(())).await;
        assert_eq!(turns.expect("read").len(), 16);
        let between = read_requests(&database).await;
        let Ok(found) =
            recall.find(anchors.clone(), |_| Ok::<(), Infallible>(())).await.expect("read");
        assert_eq!(found.iter().filter(|found| found.text.is_some()).count(), 16);
        let after = read_requests(&database).await;
        if let Some(expected) = expected {
            assert_eq!([between - before, after - between], [expected; 2]);
        }
    }
}

fn recall_bounds() -> RecallBounds {
    RecallBounds {
        expire_after: DAY,
        owner_records: 99,
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
    }
}

async fn put(recall: &Recall, number: u8) {
    let record = NewRecord { anchors: vec![[number; 32]], text: Some("x".into()) };
    recall.put(record).await.expect("stored");
}

#[tokio::test]
async fn what_has_expired_of_many_owners_is_removed_by_changes_of_bounded_requests() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    for owner in 0..30 {
        for number in 0..9 {
            put(&database.recall([owner; 32], recall_bounds()), number).await;
        }
    }
    let new = database.recall([99; 32], recall_bounds());
    for (count, rows) in [
        ("SELECT count(*) FROM recall_record WHERE expires <= ?1 AND text IS NOT NULL", 270),
        ("SELECT count(*) FROM recall_record WHERE ends <= ?1", 270),
    ] {
        home.clock.pass(DAY);
        let mut left = rows;
        while left > 0 {
            let before = requests(&database).await;
            put(&new, 0).await;
            let taken = requests(&database).await - before - OWN;
            assert!(taken < 80, "{taken}");
            let counted = database.read(move |sql| sql.one(count, &[sql.now().into()], first));
            let counted: i64 = counted.await.expect("read");
            assert!((1..=100).contains(&(left - counted)), "{left} {counted}");
            left = counted;
            sums::check(&database).await;
        }
    }
}
