//! Limits of a run, at their edges and beyond.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{RUNNER, failure, finished, in_each, limit_of, python};
use airlock_runner::{
    Function, FunctionCall, FunctionError, Functions, RunError, RunLimits, RunRequest, RunState,
    Runner, RunnerSettings, ScriptLanguage,
};

fn limited(change: impl FnOnce(&mut RunLimits)) -> RunLimits {
    let mut limits = RunLimits::default();
    change(&mut limits);
    limits
}

fn echo() -> Functions {
    let schema = json!({"properties": {"value": {}}});
    let echo = Function::new("echo", "", schema, async |call| {
        Ok(call.arguments().get("value").cloned().unwrap_or_default())
    });
    Functions::new([echo]).expect("a function")
}

#[tokio::test]
async fn a_limit_that_cannot_be_used_is_named_before_anything_runs() {
    let limits = limited(|limits| limits.calls = 0);
    let refused = failure(python("1").with_limits(limits)).await;
    assert!(matches!(refused, RunError::Limits { field: "calls", .. }), "{refused:?}");
}

#[tokio::test]
async fn as_many_calls_are_made_as_the_limit_and_no_more() {
    let limits = limited(|limits| limits.calls = 5);
    for request in in_each("for n in range(count):\n    echo(n)\ncount") {
        let request = request.with_functions(echo()).with_limits(limits);
        let run = finished(request.clone().with_input("count", 5)).await;
        assert_eq!((run.value, run.calls), (Some(json!(5)), 5));
        let beyond = failure(request.with_input("count", 6)).await;
        assert_eq!(limit_of(&beyond), "calls");
    }
}

#[tokio::test]
async fn calls_that_are_refused_count() {
    let limits = limited(|limits| limits.calls = 5);
    let code = "\
for n in range(count):
    try:
        echo(wrong)
    except ToolError:
        pass
count";
    let schema = json!({"properties": {"value": {"type": "integer"}}});
    let strict = Function::new("echo", "", schema, async |_| Ok(Value::Null));
    let strict = Functions::new([strict]).expect("a function");
    let request = python(code).with_functions(strict).with_limits(limits).with_input("wrong", "a");
    assert_eq!(finished(request.clone().with_input("count", 5)).await.calls, 5);
    assert_eq!(limit_of(&failure(request.with_input("count", 6)).await), "calls");
}

#[tokio::test]
async fn a_value_may_be_as_large_as_the_limit_and_no_larger() {
    for request in in_each("'x' * size") {
        // The text has two quotes.
        let request = request.with_limits(limited(|limits| limits.result_bytes = 10_002));
        let run = finished(request.clone().with_input("size", 10_000)).await;
        assert_eq!(run.value, Some(json!("x".repeat(10_000))));
        let beyond = failure(request.clone().with_input("size", 10_001)).await;
        assert_eq!(limit_of(&beyond), "result_bytes");
        let far_beyond = failure(request.with_input("size", 9_000_000)).await;
        assert_eq!(limit_of(&far_beyond), "result_bytes");
    }
}

#[tokio::test]
async fn printed_text_may_be_as_long_as_the_limit_and_the_rest_is_left_out() {
    for request in in_each("for _ in range(count):\n    print('x' * 9)") {
        let request = request.with_limits(limited(|limits| limits.output_bytes = 99));
        let run = finished(request.clone().with_input("count", 10)).await;
        assert_eq!((run.output.len(), run.output.lines().count()), (99, 10));
        let run = finished(request.with_input("count", 1_000)).await;
        assert_eq!(run.output.lines().count(), 11);
        assert!(run.output.ends_with(']') && run.output.len() < 200, "{}", run.output);
    }
    let request = python("print('x' * 1000000)\n1");
    let run = finished(request.with_limits(limited(|limits| limits.output_bytes = 100))).await;
    assert_eq!((run.value, run.output.len()), (Some(json!(1)), 100), "a long line is cut");
}

#[tokio::test]
async fn a_script_has_its_memory_and_no_more() {
    let limits = limited(|limits| limits.memory_bytes = 128 << 20);
    for request in in_each("len('x' * size)") {
        let request = request.with_limits(limits);
        let run = finished(request.clone().with_input("size", 16 << 20)).await;
        assert_eq!(run.value, Some(json!(16 << 20)));
        assert!((16 << 20..=128 << 20).contains(&run.peak_memory), "{}", run.peak_memory);
        let beyond = failure(request.with_input("size", 200 << 20)).await;
        assert!(matches!(
            beyond,
            RunError::Limit { limit: "memory_bytes", .. }
                | RunError::Crashed(_)
                | RunError::Script(_)
        ));
    }
    let little = limited(|limits| limits.memory_bytes = 1 << 16);
    let refused = failure(python("1").with_limits(little)).await;
    assert_eq!(limit_of(&refused), "memory_bytes", "the executor itself needs more");
}

#[tokio::test]
async fn the_values_of_a_large_starlark_script_grow_its_memory_and_those_of_a_small_one_do_not() {
    let least = starlark_peak("").await;
    assert_eq!(starlark_peak("len([str(n) for n in range(100)])").await, least);
    let large = starlark_peak("len([str(n) * 50 for n in range(5000)])").await;
    assert!(large > least, "{large} bytes; an empty script has {least}");
}

/// Returns the most memory that a script in Starlark has had, in bytes.
async fn starlark_peak(code: &str) -> u64 {
    finished(RunRequest::new(ScriptLanguage::Starlark, code)).await.peak_memory
}

#[tokio::test]
async fn cpu_time_ends_a_loop() {
    let limits = limited(|limits| limits.cpu = Duration::from_millis(50));
    for request in in_each("while True:\n    pass") {
        assert_eq!(limit_of(&failure(request.with_limits(limits)).await), "cpu");
    }
}

#[tokio::test]
async fn the_deadline_ends_a_run_that_waits_for_a_function() {
    let limits = limited(|limits| limits.deadline = Duration::from_millis(100));
    let parallel = RunRequest::new(
        ScriptLanguage::Python,
        "import asyncio\nawait asyncio.gather(wait(), wait())",
    );
    for request in in_each("wait()").into_iter().chain([parallel]) {
        let wait = Function::new("wait", "", json!({}), async |_| {
            std::future::pending::<()>().await;
            Ok(Value::Null)
        });
        let functions = Functions::new([wait]).expect("a function");
        let request = request.with_functions(functions).with_limits(limits);
        assert_eq!(limit_of(&failure(request).await), "deadline");
    }
}

#[tokio::test]
async fn arguments_that_are_too_large_are_a_failure_of_the_call() {
    for request in in_each("len(echo('x' * size))") {
        let request = request.with_functions(echo());
        // The least beyond 1 MiB, with its name and its quotes.
        let around = r#"{"value":""}"#.len();
        let size = (1 << 20) - around;
        let run = finished(request.clone().with_input("size", size)).await;
        assert_eq!(run.value, Some(json!(size)));
        let beyond = failure(request.with_input("size", size + 1)).await;
        let RunError::Script(failure) = beyond else { panic!("{beyond:?}") };
        let code = failure.function.expect("the call has failed").code;
        assert_eq!(code.as_deref(), Some("airlock.bad_arguments"));
    }
}

#[tokio::test]
async fn a_script_inside_the_only_instance_that_waits_for_another_one_ends() {
    let settings = RunnerSettings { concurrent: 1, ..RunnerSettings::default() };
    let runner = Runner::new(settings).expect("a sandbox");
    let inner = runner.clone();
    let nested = Function::new("nested", "", json!({}), move |_| {
        let runner = inner.clone();
        async move {
            let limits = limited(|limits| limits.deadline = Duration::from_millis(10));
            match runner.run(python("1").with_limits(limits)).await {
                Ok(ended) => Err(FunctionError::new(format!("{ended:?}"))),
                Err(error) => Ok(json!(limit_of(&error))),
            }
        }
    });
    let functions = Functions::new([nested]).expect("a function");
    let ended = runner.run(python("nested()").with_functions(functions)).await.expect("it ends");
    let RunState::Finished(run) = ended else { panic!("{ended:?}") };
    assert_eq!(run.value, Some(json!("concurrent")));
}

/// Returns a function that runs a script that calls it again, in its own future or in a task apart, and counts its calls.
fn nested(limits: RunLimits, is_apart: bool, made: Arc<AtomicU32>) -> Functions {
    let body = move |call: FunctionCall| {
        made.fetch_add(1, Ordering::Relaxed);
        let request = python("nested()")
            .with_functions(nested(limits, is_apart, made.clone()))
            .with_limits(limits)
            .with_nesting(if is_apart { call.nesting() } else { 0 });
        async move {
            let ended = if is_apart {
                tokio::spawn(RUNNER.run(request)).await.expect("it does not panic")
            } else {
                Box::pin(RUNNER.run(request)).await
            };
            match ended {
                Ok(RunState::Finished(run)) => Ok(run.value.unwrap_or_default()),
                Ok(RunState::Pending(run)) => Err(FunctionError::new(format!("{run:?}"))),
                Err(error) => Ok(json!(limit_of(&error))),
            }
        }
    };
    Functions::new([Function::new("nested", "", json!({}), body)]).expect("a function")
}

#[tokio::test]
async fn scripts_in_each_other_end_at_their_limit() {
    for is_apart in [false, true] {
        for most in [1, 3] {
            let made = Arc::new(AtomicU32::new(0));
            let limits = limited(|limits| limits.nesting = most);
            let functions = nested(limits, is_apart, made.clone());
            let request = python("nested()").with_functions(functions).with_limits(limits);
            assert_eq!(finished(request).await.value, Some(json!("nesting")), "{is_apart} {most}");
            assert_eq!(made.load(Ordering::Relaxed), most, "each script within the limit calls");
        }
    }
}

#[tokio::test]
async fn scripts_after_each_other_are_not_nested() {
    let limits = limited(|limits| limits.nesting = 1);
    for _ in 0..3 {
        assert_eq!(finished(python("1").with_limits(limits)).await.value, Some(json!(1)));
    }
}
