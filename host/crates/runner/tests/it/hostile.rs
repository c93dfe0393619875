//! Scripts that attack the process: each ends as an error, and the runner goes on.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};

use crate::{failure, finished, in_each, python};
use airlock_runner::{
    Function, FunctionError, Functions, RunError, RunLimits, RunRequest, ScriptLanguage,
};

/// Checks that a script ends as an error that is its own, and that the next script runs.
async fn contained(request: RunRequest) {
    let code = request.code.chars().take(60).collect::<String>();
    let language = request.language;
    let error = failure(request).await;
    let is_own =
        matches!(error, RunError::Script(_) | RunError::Limit { .. } | RunError::Crashed(_));
    assert!(is_own, "{code}: {error:?}");
    let next = finished(RunRequest::new(language, "1 + 1")).await;
    assert_eq!(next.value, Some(json!(2)), "{code}");
}

#[tokio::test]
async fn endless_loops_end() {
    let limits = RunLimits { cpu: std::time::Duration::from_millis(100), ..RunLimits::default() };
    for code in [
        "while True:\n    pass",
        "for a in range(1 << 30):\n    for b in range(1 << 30):\n        pass",
        "[0 for a in range(1 << 30) for b in range(1 << 30)]",
        "x = 3\nwhile True:\n    x = x * x",
        "'a' * 1000000 in 'a' * 500000 + 'b'\nwhile True:\n    sorted(range(10000))",
    ] {
        for request in in_each(code) {
            contained(request.with_limits(limits)).await;
        }
    }
}

#[tokio::test]
async fn memory_that_grows_without_end_ends() {
    for code in [
        "x = [0]\nwhile True:\n    x = x + x",
        "x = 'a'\nwhile True:\n    x = x + x",
        "x = {}\nn = 0\nwhile True:\n    x[n] = 'x' * 1000\n    n += 1",
        "x = 'x' * (1 << 30)",
        "[0] * (1 << 40)",
        "x = []\nwhile True:\n    x = [x, x]",
        "1 << (1 << 40)",
    ] {
        for request in in_each(code) {
            contained(request).await;
        }
    }
}

#[tokio::test]
async fn recursion_without_end_ends() {
    for code in [
        "def f(n):\n    return f(n + 1)\nf(0)",
        "def f(n):\n    return [f(x) for x in [n + 1]]\nf(0)",
        "def f(n):\n    return sorted([1, 2], key = lambda x: f(n))\nf(0)",
    ] {
        for request in in_each(code) {
            contained(request).await;
        }
    }
}

#[tokio::test]
async fn sources_that_nest_without_end_are_refused() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{'a':", "}"), ("-", ""), ("not ", "")] {
        let code = format!("x = {}1{}", open.repeat(30_000), close.repeat(30_000));
        for request in in_each(&code) {
            contained(request).await;
        }
    }
}

#[tokio::test]
async fn values_that_nest_without_end_or_hold_themselves_are_refused() {
    for code in ["x = []\nfor _ in range(100000):\n    x = [x]\nx", "x = []\nx.append(x)\nx"] {
        for request in in_each(code) {
            contained(request).await;
        }
    }
}

#[tokio::test]
async fn arguments_that_nest_without_end_do_not_reach_a_function() {
    let schema = json!({"properties": {"value": {}}});
    let take = Function::new("take", "", schema, async |_| Ok(Value::Null));
    let functions = Functions::new([take]).expect("a function");
    for code in [
        "x = []\nfor _ in range(100000):\n    x = [x]\ntake(x)",
        "x = []\nx.append(x)\ntake(x)",
        "take('x' * 50000000)",
        "take([[], [], [], []] * 100000)",
    ] {
        for request in in_each(code) {
            contained(request.with_functions(functions.clone())).await;
        }
    }
}

#[tokio::test]
async fn printing_without_end_ends_and_is_bounded() {
    let limits = RunLimits {
        cpu: std::time::Duration::from_millis(200),
        output_bytes: 10_000,
        ..RunLimits::default()
    };
    for code in ["while True:\n    print('x' * 1000)", "while True:\n    print('')"] {
        for request in in_each(code) {
            contained(request.with_limits(limits)).await;
        }
    }
}

#[tokio::test]
async fn calls_without_end_end() {
    let take = Function::new("take", "", json!({}), async |_| Ok(Value::Null));
    let take = take.parameters(vec!["value".to_owned()]);
    let functions = Functions::new([take]).expect("a function");
    for request in in_each("while True:\n    take('x')") {
        contained(request.with_functions(functions.clone())).await;
    }
    let code = "import asyncio\nawait asyncio.gather(*[take(n) for n in range(100000)])";
    contained(python(code).with_functions(functions)).await;
}

#[tokio::test]
async fn a_journal_is_bounded() {
    let take = Function::new("take", "", json!({}), async |_| Ok(Value::Null));
    let take = take.parameters(vec!["value".to_owned()]);
    let functions = Functions::new([take]).expect("a function");
    let request = RunRequest::new(
        ScriptLanguage::Python,
        "x = 'x' * 1000000\nfor _ in range(100):\n    take(x)",
    );
    let error = failure(request.with_functions(functions).with_journal(true)).await;
    assert_eq!(crate::limit_of(&error), "bytes of a journal");
}

#[tokio::test]
async fn failures_of_a_block_that_the_sandbox_has_no_memory_for_end_the_run_early() {
    let made = Arc::new(AtomicU32::new(0));
    let counts = made.clone();
    let text = "x".repeat(1 << 20);
    let large = Function::new("large", "", json!({}), move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        let failed = FunctionError::new(text.clone());
        async move { Err(failed) }
    });
    let functions = Functions::new([large]).expect("a function");
    for (language, code) in [
        (
            ScriptLanguage::Python,
            "import asyncio\nawait asyncio.gather(*[large() for _ in range(200)])",
        ),
        (ScriptLanguage::Starlark, "gather([(large, {}) for _ in range(200)])"),
    ] {
        made.store(0, Ordering::Relaxed);
        let request = RunRequest::new(language, code).with_functions(functions.clone());
        assert_eq!(crate::limit_of(&failure(request).await), "memory_bytes");
        assert!(made.load(Ordering::Relaxed) < 100, "no more calls are made than can be answered");
    }
}

#[tokio::test]
async fn results_of_a_block_that_the_sandbox_has_no_memory_for_end_the_run_early() {
    let made = Arc::new(AtomicU32::new(0));
    let counts = made.clone();
    let large = Function::new("large", "", json!({}), move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Ok(json!("x".repeat(1 << 20))) }
    });
    let functions = Functions::new([large]).expect("a function");
    for (language, code) in [
        (
            ScriptLanguage::Python,
            "import asyncio\nawait asyncio.gather(*[large() for _ in range(200)])",
        ),
        (ScriptLanguage::Starlark, "gather([(large, {}) for _ in range(200)])"),
    ] {
        made.store(0, Ordering::Relaxed);
        let request = RunRequest::new(language, code).with_functions(functions.clone());
        assert_eq!(crate::limit_of(&failure(request).await), "memory_bytes");
        assert!(made.load(Ordering::Relaxed) < 100, "no more calls are made than can be answered");
    }
}
