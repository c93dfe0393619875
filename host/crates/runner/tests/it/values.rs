//! Inputs, values and printed text.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::{RUNNER, failure, finished, in_each, python};
use airlock_runner::{FailureKind, InputProblem, RunError, ScriptFailure};

fn script_failure(error: RunError) -> ScriptFailure {
    match error {
        RunError::Script(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_value_is_that_of_result_or_of_the_last_expression() {
    for (code, value) in [
        ("1 + 1", Some(json!(2))),
        ("result = [1]\n2", Some(json!([1]))),
        ("x = {'a': None}\nx", Some(json!({"a": null}))),
        ("x = 1", None),
        ("None", None),
        ("", None),
    ] {
        for request in in_each(code) {
            let language = request.language;
            let run = finished(request).await;
            assert_eq!(run.value, value, "{code} in {language:?}");
            assert_eq!(run.calls, 0);
            assert!(run.journal.is_none());
        }
    }
}

#[tokio::test]
async fn a_value_nests_as_deep_as_the_host_reads_and_a_deeper_one_is_the_scripts_failure() {
    for levels in [127, 128] {
        for request in
            in_each(&format!("x = 1\nfor _ in range({levels}):\n    x = [x]\nresult = x"))
        {
            if levels == 127 {
                assert!(finished(request).await.value.is_some());
            } else {
                let refused = script_failure(failure(request).await);
                assert_eq!(refused.kind, FailureKind::Runtime);
                assert!(refused.message.contains("127 levels"), "{refused}");
            }
        }
    }
}

#[tokio::test]
async fn inputs_are_variables_that_a_script_may_assign_to() {
    for request in in_each("n = n + len(names)\n[n, names, deep['a'][0]]") {
        let request = request
            .with_input("n", 40)
            .with_input("names", json!(["é", "\u{1f600}"]))
            .with_input("deep", json!({"a": [1.5]}));
        let run = finished(request).await;
        assert_eq!(run.value, Some(json!([42, ["é", "\u{1f600}"], 1.5])));
    }
}

#[tokio::test]
async fn an_input_that_cannot_be_a_variable_is_refused_before_anything_runs() {
    for name in ["for", "a b", "result"] {
        let refused = failure(python("1").with_input(name, 1)).await;
        assert!(matches!(refused, RunError::Input { name: found, .. } if found == name));
    }
    let refused = failure(python("1").with_input("result", 1)).await;
    assert!(matches!(refused, RunError::Input { problem: InputProblem::Result, .. }));
}

#[tokio::test]
async fn printed_lines_are_kept_and_delivered_in_order() {
    for request in in_each("for n in range(1000):\n    print(n)\nprint('last', 'line')") {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = heard.clone();
        let request =
            request.with_on_print(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        let run = finished(request).await;
        let mut expected: Vec<_> = (0..1_000).map(|n| n.to_string()).collect();
        expected.push("last line".to_owned());
        assert_eq!(*heard.lock().expect("no panic"), expected);
        assert_eq!(run.output, expected.join("\n"));
    }
}

#[tokio::test]
async fn failures_of_a_script_have_their_place() {
    for (code, kind, line) in [
        ("x = 1\ny = = 2", FailureKind::Syntax, Some(2)),
        ("x = 1\n\n[][x]", FailureKind::Runtime, Some(3)),
    ] {
        for request in in_each(code) {
            let failure = script_failure(failure(request).await);
            assert_eq!((failure.kind, failure.line), (kind, line), "{}", failure.rendered);
            assert!(!failure.message.is_empty() && failure.function.is_none());
            assert!(failure.rendered.contains(&failure.message), "{}", failure.rendered);
        }
    }
}

#[tokio::test]
async fn the_same_script_burns_the_same_fuel_and_a_run_knows_its_memory() {
    for request in in_each("t = 0\nfor n in range(1000):\n    t += n * n\nt") {
        let first = finished(request.clone()).await;
        let second = finished(request).await;
        assert_eq!(first.value, Some(Value::from(332_833_500)));
        assert!(first.fuel > 0 && first.fuel == second.fuel);
        let most = airlock_runner::RunLimits::default().memory_bytes;
        assert!((1..=most).contains(&first.peak_memory), "{}", first.peak_memory);
    }
}

#[tokio::test]
async fn a_script_has_no_clock_no_files_and_no_network() {
    for code in [
        "from datetime import datetime\ndatetime.now()",
        "open('/etc/passwd').read()",
        "import socket",
        "__import__('os').system('id')",
    ] {
        assert!(matches!(failure(python(code)).await, RunError::Script(_)), "{code}");
    }
}

#[tokio::test]
async fn scripts_of_many_tasks_run_beside_each_other() {
    RUNNER.load(airlock_runner::ScriptLanguage::Python).await.expect("it is built in");
    let running = (0..200_u64).map(|n| {
        tokio::spawn(async move { (n, finished(python("n * 2").with_input("n", n)).await) })
    });
    for running in running.collect::<Vec<_>>() {
        let (n, run) = running.await.expect("no panic in it");
        assert_eq!(run.value, Some(Value::from(n * 2)));
    }
}
