//! Operations of all subjects, as random steps: the same ones on both kinds of database, and many at
//! once on one.

mod strategy;
mod subjects;

use std::time::Duration;

use futures_util::future::join_all;
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRng, TestRunner},
};

use self::{strategy::step, subjects::Step};
use crate::{
    Database,
    tests::{
        home::{TestHome, on_both},
        sums,
    },
};

/// Steps of one sequence on both databases.
const STEPS: usize = 300;
/// Tasks that make steps at the same time, and steps of each.
const TASKS: usize = 8;
const STEPS_OF_TASK: usize = 60;

/// Makes a step, on each of these databases. Returns the results as texts.
async fn take(step: &Step, homes: &[(TestHome, Database)]) -> Vec<String> {
    let mut results = Vec::new();
    for (home, database) in homes {
        if let Step::Pass(time) = step {
            home.clock.pass(*time);
        }
        results.push(step.take(database).await);
    }
    results
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, max_shrink_iters: 50, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_databases_have_the_same_results_and_right_sums(
        steps in prop::collection::vec(step(), STEPS)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let Some(postgres) = TestHome::postgres() else { return };
            let mut homes = Vec::new();
            for mut home in [TestHome::sqlite(), postgres] {
                // Of one database alone, since a key changes no result.
                if home.server.is_none() {
                    home.set_keys(1, &[]);
                }
                let database = home.open().await;
                homes.push((home, database));
            }
            for step in &steps {
                let results = take(step, &homes).await;
                assert_eq!(results[0], results[1], "{step:?}");
            }
            for (_, database) in &homes {
                sums::check(database).await;
                sums::check_tools(database).await;
            }
        });
    }
}

on_both! {
    threads:
    sums_are_right_after_many_changes_by_several_processes_at_once,
}

async fn sums_are_right_after_many_changes_by_several_processes_at_once(home: TestHome) {
    // Three gateways.
    let databases = join_all((0..3).map(|_| home.open())).await;
    let tasks = (0..TASKS).map(|task| {
        let database = databases[task % databases.len()].clone();
        let clock = home.clock.clone();
        tokio::spawn(async move {
            for step in random_steps(task) {
                if let Step::Pass(_) = step {
                    clock.pass(Duration::from_millis(1));
                }
                let result = step.take(&database).await;
                assert!(!result.contains("FAILED"), "{step:?}: {result}");
            }
        })
    });
    for done in join_all(tasks).await {
        done.expect("no step failed");
    }
    sums::check(&databases[0]).await;
}

/// Returns steps that are the same in each run of the test.
fn random_steps(task: usize) -> Vec<Step> {
    let config = Config::default();
    let seed = [u8::try_from(task).expect("few"); 32];
    let rng = TestRng::from_seed(config.rng_algorithm, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let steps = prop::collection::vec(step(), STEPS_OF_TASK).new_tree(&mut runner);
    steps.expect("a strategy without filters").current()
}
