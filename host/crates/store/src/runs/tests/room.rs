//! Bounds on stored runs: their bytes, and the order in which they are removed.

use super::*;
use airlock_database::sql::first;

async fn names(runs: &Runs) -> Vec<String> {
    runs.list(100).await.expect("read").into_iter().map(|run| run.id).collect()
}

async fn bytes(runs: &Runs, id: &str) -> u64 {
    runs.head(id).await.expect("it is there").bytes
}

fn ended(script: &str) -> Vec<RunStep> {
    vec![begin(script), RunStep::End("{}".into())]
}

on_both! {
    runs_beyond_the_bounds_are_removed_those_that_have_ended_first,
    an_owner_has_its_bounds_to_the_run_and_to_the_byte,
    a_run_counts_for_the_bytes_of_its_texts_in_every_way_to_store_them,
    expired_runs_of_every_owner_are_removed,
    beyond_the_bound_of_all_owners_the_oldest_runs_of_the_largest_go_until_the_rest_fits,
    the_bound_of_all_owners_is_looked_after_by_one_in_many_runs_that_stop,
    tools_are_stored_once_and_removed_with_their_last_run,
    tools_count_for_one_of_the_runs_that_have_them_also_after_it_is_removed,
    different_tools_of_many_runs_are_bounded_by_the_bytes_of_their_owner,
}

async fn runs_beyond_the_bounds_are_removed_those_that_have_ended_first(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    for (id, end) in
        [("a", RunStep::Suspend), ("b", RunStep::End("{}".into())), ("c", RunStep::Suspend)]
    {
        runs.step(id, 1, vec![begin("s"), end]).await.expect("stored");
    }
    assert_eq!(names(&runs).await, ["c", "b", "a"]);
    runs.step("d", 1, vec![begin("s"), RunStep::Suspend]).await.expect("stored");
    assert_eq!(names(&runs).await, ["d", "c", "a"], "the one that has ended is removed");
    runs.step("e", 1, vec![begin("s"), RunStep::Suspend]).await.expect("stored");
    assert_eq!(names(&runs).await, ["e", "d", "c"], "then the oldest");
    // A script that runs stays, however much it holds.
    runs.step("f", 1, vec![begin(&"x".repeat(2 << 20)), RunStep::Renew]).await.expect("stored");
    runs.step("g", 1, ended("s")).await.expect("stored");
    assert_eq!(names(&runs).await, ["g", "f"], "its bytes leave no room for the others");
    home.clock.pass(BOUNDS.expire_after + Duration::from_secs(1));
    runs.step("h", 1, ended("s")).await.expect("stored");
    assert_eq!(names(&runs).await, ["h"], "its process has ended, and it has expired");
}

async fn an_owner_has_its_bounds_to_the_run_and_to_the_byte(home: TestHome) {
    // 512 bytes of overhead, the script in bytes, `{}`; and the tools `[]` for one of the runs.
    let both = 2 * (512 + "ßß".len() as u64 + 2) + 2;
    for (owner, bound, left) in [(1, both, vec!["b1", "a1"]), (2, both - 1, vec!["b2"])] {
        let runs = open(&home, [owner; 32], RunBounds { owner_bytes: bound, ..BOUNDS }).await;
        for id in ["a", "b"] {
            let steps = vec![begin_with("ßß", "[]", owner), RunStep::End("{}".into())];
            runs.step(&format!("{id}{owner}"), 1, steps).await.expect("stored");
        }
        assert_eq!(names(&runs).await, left, "with {bound} bytes");
    }
    let runs = open(&home, [3; 32], BOUNDS).await;
    for id in ["a", "b", "c"] {
        runs.step(id, 1, ended("s")).await.expect("stored");
    }
    assert_eq!(names(&runs).await, ["c", "b", "a"]);
    runs.step("d", 1, ended("s")).await.expect("stored");
    assert_eq!(names(&runs).await, ["d", "c", "b"]);
}

async fn a_run_counts_for_the_bytes_of_its_texts_in_every_way_to_store_them(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let steps = vec![
        begin("ß"),
        RunStep::Record(at(1), called("ß"), "\"ß\"".into()),
        RunStep::Intend(at(2), called("")),
        RunStep::Ask(at(3), called("")),
        RunStep::Suspend,
    ];
    runs.step("r", 1, steps).await.expect("stored");
    let begun = 512 + 2 + 2 + 3 * 256 + 2 + 4;
    assert_eq!(bytes(&runs, "r").await, begun);
    runs.step("r", 1, vec![RunStep::Answer(at(2), 1, "\"ßß\"".into())]).await.expect("stored");
    assert_eq!(bytes(&runs, "r").await, begun + 6);
    let denial = RunDecision::Deny(Some("\"ß\"".to_owned()));
    runs.decide("r", None, vec![(at(3), denial)]).await.expect("it waits");
    assert_eq!(bytes(&runs, "r").await, begun + 6 + 4);
    let run = runs.get("r").await.expect("it is there");
    let denied = &run.calls[2];
    assert_eq!((denied.call.stage, denied.answer.as_deref()), (Stage::Denied, Some("\"ß\"")));
    runs.cancel("r", "\"ß\"").await.expect("it is suspended");
    assert_eq!(bytes(&runs, "r").await, begun + 6 + 4 + 4);
}

async fn expired_runs_of_every_owner_are_removed(home: TestHome) {
    home.clock.set(BEGIN);
    let ann = open(&home, ANN, BOUNDS).await;
    let bob = open(&home, BOB, BOUNDS).await;
    ann.step("a", 1, ended("s")).await.expect("stored");
    home.clock.pass(BOUNDS.expire_after);
    bob.step("b", 1, ended("s")).await.expect("stored");
    assert_eq!(names(&ann).await, ["a"]);
    home.clock.pass(Duration::from_secs(1));
    bob.step("c", 1, ended("s")).await.expect("stored");
    assert_eq!(names(&ann).await, Vec::<String>::new());
    assert_eq!(names(&bob).await, ["c", "b"]);
}

async fn beyond_the_bound_of_all_owners_the_oldest_runs_of_the_largest_go_until_the_rest_fits(
    home: TestHome,
) {
    home.clock.set(BEGIN);
    let bounds = RunBounds { owner_runs: 100, total_bytes: 6000, ..BOUNDS };
    let ann = open(&home, ANN, bounds).await;
    let bob = open(&home, BOB, bounds).await;
    bob.step("b", 1, ended("s")).await.expect("stored");
    // Two have about 1,500 bytes each; the one that runs stays, although it is the oldest.
    let large = "x".repeat(1000);
    ann.step("runs", 1, vec![begin(&large), RunStep::Renew]).await.expect("stored");
    for n in 0..5 {
        ann.step(&format!("a{n}"), 1, ended(&large)).await.expect("stored");
    }
    ann.step("waits", 1, vec![begin("s"), RunStep::Suspend]).await.expect("stored");
    // The bound is looked after by one in so many runs that stop.
    while !(ann.database.count_stopped_run() + 1).is_multiple_of(SWEPT_EVERY) {}
    let before = names(&bob).await;
    ann.step("last", 1, ended("s")).await.expect("stored");
    assert_eq!(names(&bob).await, before, "bob stores less");
    let left = names(&ann).await;
    assert!(left.contains(&"runs".to_owned()) && left.contains(&"waits".to_owned()), "{left:?}");
    let mut total = 0;
    for (runs, names) in [(&ann, &left), (&bob, &before)] {
        for name in names {
            total += bytes(runs, name).await;
        }
    }
    assert!(total <= bounds.total_bytes, "{total}");
    assert!(total > bounds.total_bytes - 1600, "no more are removed than necessary: {total}");
    assert!(!left.contains(&"a0".to_owned()), "the oldest that has ended");
}

async fn the_bound_of_all_owners_is_looked_after_by_one_in_many_runs_that_stop(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    assert!(!sweeps(&runs, &RunStep::Renew));
    let sweeping: Vec<_> =
        (0..=2 * SWEPT_EVERY).filter(|_| sweeps(&runs, &RunStep::Suspend)).collect();
    assert_eq!(sweeping, [0, SWEPT_EVERY, 2 * SWEPT_EVERY]);
}

fn sweeps(runs: &Runs, step: &RunStep) -> bool {
    runs.database.sweeps(std::slice::from_ref(step))
}

async fn tools_are_stored_once_and_removed_with_their_last_run(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, RunBounds { owner_runs: 1, ..BOUNDS }).await;
    for (id, begin) in [("a", begin("s")), ("b", begin("s")), ("c", begin_with("s", "[1]", 1))] {
        runs.step(id, 1, vec![begin, RunStep::End("{}".into())]).await.expect("stored");
        let count =
            runs.database.read(|sql| sql.one("SELECT count(*) FROM run_tools", &[], first::<i64>));
        assert_eq!(count.await.expect("read"), 1, "{id}");
    }
    assert_eq!(runs.get("c").await.expect("it is there").bindings, "[1]");
}

async fn tools_count_for_one_of_the_runs_that_have_them_also_after_it_is_removed(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let tools = "x".repeat(1000);
    for id in ["a", "b", "c"] {
        let steps = vec![begin_with("s", &tools, 1), RunStep::End("{}".into())];
        runs.step(id, 1, steps).await.expect("stored");
    }
    let run = 512 + 1 + 2;
    assert_eq!(counted(&runs, &["a", "b", "c"]).await, [run + 1000, run, run]);
    runs.step("d", 1, ended("s")).await.expect("stored");
    assert_eq!(counted(&runs, &["b", "c"]).await, [run, run + 1000], "a was removed");
    // The sums of the owners are those of their runs.
    let sums = runs.database.read(|sql| {
        let select =
            "SELECT runs, bytes, (SELECT CAST(sum(bytes) AS BIGINT) FROM run) FROM run_owner";
        sql.one(select, &[], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<i64>(2)?)))
    });
    let (count, sum, expected) = sums.await.expect("read");
    assert_eq!((count, sum), (3, expected));
}

async fn counted(runs: &Runs, ids: &[&str]) -> Vec<u64> {
    let mut counted = Vec::new();
    for id in ids {
        counted.push(bytes(runs, id).await);
    }
    counted
}

async fn different_tools_of_many_runs_are_bounded_by_the_bytes_of_their_owner(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, RunBounds { owner_runs: 100, ..BOUNDS }).await;
    let tools = "x".repeat(200 << 10);
    for n in 0..20 {
        let steps = vec![begin_with("s", &tools, n), RunStep::End("{}".into())];
        runs.step(&n.to_string(), 1, steps).await.expect("stored");
    }
    assert_eq!(names(&runs).await.len(), 5, "of 1 MiB");
}
