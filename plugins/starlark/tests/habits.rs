//! Runs the corpora of scripts in Python's style, and compares each with `CPython`'s own result.

use airlock_executor::Language as _;
use airlock_starlark::Starlark;
use airlock_test_executors::corpora::{self, Corpus};

/// Scripts of the held-out corpus that are known to run. Never to be lowered.
const LEAST_HELD_OUT: usize = 59;

#[test]
fn scripts_in_pythons_style_have_pythons_result() {
    Starlark::prepare();
    let Some(Corpus { same, total }) = corpora::run::<Starlark>("habits") else { return };
    assert!(total >= 150, "the corpus has {total} scripts");
    assert_eq!(same, total);
}

/// Scripts that were written by others than the executor's authors, and never looked at while it was
/// made. About a third use what cannot be had, such as `try` and classes.
#[test]
fn most_scripts_that_nothing_was_made_for_have_pythons_result() {
    Starlark::prepare();
    let Some(Corpus { same, total }) = corpora::run::<Starlark>("held_out") else { return };
    assert!(same >= LEAST_HELD_OUT, "{same} of {total} scripts ran");
}
