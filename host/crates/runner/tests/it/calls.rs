//! Calls of functions: their arguments, their failures, and calls at the same time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio::sync::Barrier;

use crate::{RUNNER, failure, finished, in_each, python};
use airlock_runner::{
    ErrorKind, FailureKind, FinishedRun, Function, FunctionError, Functions, RunError, RunLimits,
    RunRequest, ScriptFailure, ScriptLanguage,
};

/// Returns its arguments.
fn echo() -> Function {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
        "required": ["text"],
        "additionalProperties": false,
    });
    Function::new("echo", "Returns its arguments.", schema, async |call| {
        assert!(call.deadline() > Instant::now(), "there is time left");
        Ok(Value::Object(call.into_arguments()))
    })
}

fn failing(error: FunctionError) -> Functions {
    let refuse = Function::new("refuse", "", json!({}), move |_| {
        let error = error.clone();
        async move { Err(error) }
    });
    Functions::new([refuse, echo()]).expect("functions")
}

fn script_failure(error: RunError) -> ScriptFailure {
    match error {
        RunError::Script(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn arguments_are_given_by_position_and_by_name() {
    let functions = Functions::new([echo()]).expect("a function");
    for code in ["echo('a', 2)", "echo('a', times = 2)", "echo(times = 2, text = 'a')"] {
        for request in in_each(code) {
            let run = finished(request.with_functions(functions.clone())).await;
            assert_eq!((run.value, run.calls), (Some(json!({"text": "a", "times": 2})), 1));
        }
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_the_schema_do_not_reach_the_function() {
    let made = Arc::new(AtomicU32::new(0));
    let counts = made.clone();
    let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let count = Function::new("count", "", schema, move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Ok(Value::Null) }
    });
    let functions = Functions::new([count]).expect("a function");
    for code in ["count('a')", "count()", "count(n = [1])"] {
        for request in in_each(code) {
            let failure = script_failure(failure(request.with_functions(functions.clone())).await);
            let function = failure.function.expect("it has failed");
            assert_eq!(function.name, "count");
            assert_eq!(function.code.as_deref(), Some("airlock.bad_arguments"), "{code}");
            assert!(function.message.contains("'count'"), "{}", function.message);
        }
    }
    assert_eq!(made.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_null_that_does_not_fit_stands_for_an_absent_argument() {
    let functions = Functions::new([echo()]).expect("a function");
    for request in in_each("echo('a', times = None)") {
        let run = finished(request.with_functions(functions.clone())).await;
        assert_eq!(run.value, Some(json!({"text": "a"})));
    }
}

#[tokio::test]
async fn functions_receive_the_context_of_their_own_run() {
    let whose = Function::new("whose", "", json!({}), async |call| {
        Ok(json!(call.context::<String>().map(|name| (*name).clone())))
    });
    let functions = Functions::new([whose]).expect("a function");
    for code in ["[whose(), whose()]", "import asyncio\nawait asyncio.gather(whose(), whose())"] {
        let request = python(code).with_functions(functions.clone());
        let ann = finished(request.clone().with_context(Arc::new("ann".to_owned())));
        let bob = finished(request.clone().with_context(Arc::new("bob".to_owned())));
        let (ann, bob) = tokio::join!(ann, bob);
        assert_eq!(ann.value, Some(json!(["ann", "ann"])));
        assert_eq!(bob.value, Some(json!(["bob", "bob"])));
        let other_type = finished(request.clone().with_context(Arc::new(1_u8))).await;
        assert_eq!(other_type.value, Some(json!([null, null])));
        assert_eq!(finished(request).await.value, Some(json!([null, null])));
    }
}

#[tokio::test]
async fn a_failure_reaches_the_script_with_all_its_parts() {
    let error = FunctionError::new("no such row\nsecond line")
        .with_kind(ErrorKind::NotFound)
        .with_code("airlock.row")
        .with_data(json!({"row": 7}))
        .with_retry_after(Duration::from_secs(2));
    let code = "\
try:
    refuse()
except ToolError as error:
    result = [error.kind, error.code, error.message, error.data, error.retry_after_ms]";
    let run = finished(python(code).with_functions(failing(error))).await;
    let message = "no such row\nsecond line";
    assert_eq!(run.value, Some(json!(["not-found", "row", message, {"row": 7}, 2_000])));
    let code = "attempt(refuse, {}).error.message";
    let starlark = RunRequest::new(ScriptLanguage::Starlark, code);
    let run = finished(starlark.with_functions(failing(FunctionError::new("no")))).await;
    assert_eq!(run.value, Some(json!("no")));
}

#[tokio::test]
async fn a_failure_that_is_not_handled_names_its_function() {
    let error = FunctionError::new("no such row").with_code("row");
    for request in in_each("x = 1\necho('a')\nrefuse()") {
        let request = request.with_functions(failing(error.clone()));
        let failure = script_failure(failure(request).await);
        assert_eq!((failure.kind, failure.line), (FailureKind::Tool, Some(3)));
        let function = failure.function.expect("it has failed");
        assert_eq!((&*function.name, &*function.message), ("refuse", "no such row"));
        assert_eq!(function.code.as_deref(), Some("row"));
        assert!(function.call.is_some(), "it was made");
    }
}

#[tokio::test]
async fn a_function_that_panics_fails_its_call_and_the_runner_goes_on() {
    let panics = Function::new("panics", "", json!({}), async |_| {
        assert!(std::thread::panicking(), "on purpose");
        Ok(Value::Null)
    });
    let functions = Functions::new([panics]).expect("a function");
    let parallel = python("import asyncio\nawait asyncio.gather(panics(), panics())");
    for request in in_each("panics()").into_iter().chain([parallel]) {
        let failure = script_failure(failure(request.with_functions(functions.clone())).await);
        let function = failure.function.expect("it has failed");
        assert_eq!(function.code.as_deref(), Some("airlock.unavailable"));
    }
    assert_eq!(finished(python("1")).await.value, Some(json!(1)));
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_schema_is_a_failure_of_the_call() {
    let schema = json!({"type": "string"});
    let wrong = Function::new("wrong", "", json!({}), async |_| Ok(json!(1)));
    let right = Function::new("right", "", json!({}), async |_| Ok(json!("text")));
    let nested = Function::new("nested", "", json!({}), async |_| {
        Ok((0..200).fold(Value::Null, |value, _| json!([value])))
    });
    let functions = [wrong.output_schema(schema.clone()), right.output_schema(schema), nested];
    let functions = Functions::new(functions).expect("functions");
    for (code, expected) in
        [("wrong()", "airlock.invalid_result"), ("nested()", "airlock.bad_result")]
    {
        for request in in_each(code) {
            let failure = script_failure(failure(request.with_functions(functions.clone())).await);
            let code = failure.function.expect("it has failed").code;
            assert_eq!(code.as_deref(), Some(expected));
        }
    }
    let run = finished(python("right()").with_functions(functions)).await;
    assert_eq!(run.value, Some(json!("text")), "a text stays a text");
}

#[tokio::test]
async fn texts_of_functions_are_not_read_as_json() {
    let text = Function::new("text", "", json!({}), async |_| Ok(json!("[1]")));
    let functions = Functions::new([text]).expect("a function");
    for request in in_each("text()") {
        let run = finished(request.with_functions(functions.clone())).await;
        assert_eq!(run.value, Some(json!("[1]")));
    }
}

/// Returns a function that ends once this many of its calls run.
fn meeting(calls: usize) -> Functions {
    let barrier = Arc::new(Barrier::new(calls));
    let meet = Function::new("meet", "", json!({}), move |_| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Ok(Value::Null)
        }
    });
    Functions::new([meet]).expect("a function")
}

#[tokio::test]
async fn calls_at_the_same_time_run_at_the_same_time() {
    let limits = RunLimits { parallel_calls: 5, ..RunLimits::default() };
    for (language, code) in [
        (
            ScriptLanguage::Python,
            "import asyncio\nlen(await asyncio.gather(*[meet() for _ in range(5)]))",
        ),
        (ScriptLanguage::Starlark, "len(gather([(meet, {}) for _ in range(5)]))"),
    ] {
        let request =
            RunRequest::new(language, code).with_functions(meeting(5)).with_limits(limits);
        assert_eq!(finished(request).await.value, Some(json!(5)));
    }
}

#[tokio::test]
async fn no_more_calls_run_at_the_same_time_than_the_limit() {
    let running = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let seen = most.clone();
    let watched = Function::new("watched", "", json!({}), move |_| {
        let running = running.clone();
        let most = most.clone();
        async move {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(Value::Null)
        }
    });
    let functions = Functions::new([watched]).expect("a function");
    let code = "import asyncio\nlen(await asyncio.gather(*[watched() for _ in range(40)]))";
    let limits = RunLimits { parallel_calls: 3, ..RunLimits::default() };
    let run = finished(python(code).with_functions(functions).with_limits(limits)).await;
    assert_eq!((run.value, run.calls), (Some(json!(40)), 40));
    assert!((1..=3).contains(&seen.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn what_was_printed_before_a_call_is_delivered_before_it() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let called = order.clone();
    let mark = Function::new("mark", "", json!({}), move |_| {
        called.lock().expect("no panic").push("call".to_owned());
        async { Ok(Value::Null) }
    });
    let functions = Functions::new([mark]).expect("a function");
    let printed = order.clone();
    let request = python("print('a')\nmark()\nprint('b')")
        .with_functions(functions)
        .with_on_print(move |line| printed.lock().expect("no panic").push(line.to_owned()));
    finished(request).await;
    assert_eq!(*order.lock().expect("no panic"), ["a", "call", "b"]);
}

#[tokio::test]
async fn a_finished_run_is_replayed_from_its_journal_without_a_call() {
    let made = Arc::new(AtomicU32::new(0));
    let counts = made.clone();
    let next = Function::new("next_number", "", json!({}), move |_| {
        let number = counts.fetch_add(1, Ordering::Relaxed);
        async move { Ok(json!(number)) }
    });
    let functions = Functions::new([next]).expect("a function");
    for request in in_each("print(start)\n[next_number() + start, next_number()]") {
        made.store(10, Ordering::Relaxed);
        let request = request
            .with_functions(functions.clone())
            .with_inputs(Map::from_iter([("start".to_owned(), json!(5))]))
            .with_journal(true);
        let run = finished(request).await;
        assert_eq!(run.value, Some(json!([15, 11])));
        let journal = run.journal.clone().expect("it was requested");
        let replayed = RUNNER.replay(&journal).await.expect("it is the same script");
        assert_eq!(made.load(Ordering::Relaxed), 12, "nothing was called");
        let replayed = FinishedRun { journal: run.journal.clone(), ..replayed };
        assert_eq!(FinishedRun { peak_memory: replayed.peak_memory, ..run }, replayed);
    }
}
