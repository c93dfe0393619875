//! Runs the corpora of scripts as models write them, and compares each with what `CPython` makes of it.

use airlock_python::Python;
use airlock_test_executors::corpora::{self, Corpus};

/// Scripts of the corpus of habits that are known to run, in percent. Never to be lowered.
const LEAST_HABITS: usize = 92;

/// Scripts of the held-out corpus that are known to run. Never to be lowered.
const LEAST_HELD_OUT: usize = 80;

#[test]
fn habits_of_models_run_as_in_cpython() {
    let Some(Corpus { same, total }) = corpora::run::<Python>("habits") else { return };
    assert!(same * 100 >= total * LEAST_HABITS, "{same} of {total} scripts ran");
}

#[test]
fn habits_that_only_this_executor_has_run_as_in_cpython() {
    let Some(Corpus { same, total }) = corpora::run::<Python>("habits/python") else { return };
    assert_eq!(same, total);
}

#[test]
fn as_many_held_out_scripts_as_ever_run_as_in_cpython() {
    let Some(Corpus { same, total }) = corpora::run::<Python>("held_out") else { return };
    assert!(same >= LEAST_HELD_OUT, "{same} of {total} scripts ran");
}
