//! The meta-tool `executeToolCode`: the report of a script.

use super::*;
use airlock_core::tool::{HostCode, ReachedLimit};

#[tokio::test]
async fn a_report_has_result_and_printed_text_but_no_tool_results() {
    let fake = Fake::ends(Ok(Some(json!({"z": 1, "a": [true, "x"]}))))
        .calling(&["clock-now"])
        .printing(&["one", "two"]);
    let output = run(fake, "...").await.expect("it succeeds");
    insta::assert_snapshot!(output.to_text(), @r#"
    Print output:
    one
    two

    Execution completed successfully.
    Return value: {
      "z": 1,
      "a": [
        true,
        "x"
      ]
    }

    Environment:
      Available server keys: clock, github
    Note: scripts are a subset of Python, without try, class and with; every run starts with a fresh scope.
    "#);
    assert_eq!(output.structured, Some(json!({"result": {"z": 1, "a": [true, "x"]}})));
}

#[tokio::test]
async fn a_run_without_a_result_reports_the_printed_lines() {
    insta::assert_snapshot!(run(Fake::ends(Ok(None)).printing(&["one"]), "...").await.expect("it succeeds").to_text(), @r#"
    Print output:
    one

    Execution completed successfully.

    Environment:
      Available server keys: clock, github
    Note: scripts are a subset of Python, without try, class and with; every run starts with a fresh scope.
    "#);
}

#[tokio::test]
async fn a_run_without_output_reports_hints() {
    let output =
        run(Fake::ends(Ok(None)).calling(&["clock-now"]), "...").await.expect("it succeeds");
    insta::assert_snapshot!(output.to_text(), @r#"
    Execution completed but produced no data: nothing was printed, and `result` was not set or is None.

    Hints:
      - Assign what you want to see to the global `result`, or print it
      - Its calls did run: do not repeat those that change something

    Environment:
      Available server keys: clock, github
    Note: scripts are a subset of Python, without try, class and with; every run starts with a fresh scope.
    "#);
    assert_eq!(output.structured, Some(json!({"result": null})));
    let blank =
        run(Fake::default(), " \n").await.expect("a blank script does not even run").to_text();
    assert!(blank.starts_with("Execution completed but produced no data:"), "{blank}");
}

#[tokio::test]
async fn printed_text_is_bounded() {
    let line = "x".repeat(1 << 10);
    let output = run(Fake::ends(Ok(None)).printing(&[line.as_str(); 100]), "...")
        .await
        .expect("it succeeds")
        .to_text();
    assert!(
        output.len() < 25_000
            && output.contains("[cut after ")
            && output.contains(" bytes; print less]"),
        "{}",
        output.len()
    );
}

#[tokio::test]
async fn a_result_beyond_its_limit_without_indentation_is_refused() {
    let fits = json!("x".repeat(report::MAX_RESULT - 2));
    assert!(run(Fake::ends(Ok(Some(fits))), "...").await.is_ok());
    let larger = json!("x".repeat(report::MAX_RESULT - 1));
    let refused = run(Fake::ends(Ok(Some(larger))), "...").await;
    let refused = refused.expect_err("it is too large");
    assert_eq!(refused.code(), HostCode::ResultTooLarge);
    assert!(refused.to_text().contains("larger than 1048576 bytes; return less"), "{refused}");
    let nested = (0..100).fold(json!(vec![1; 100_000]), |inner, _| json!([inner]));
    let text = run(Fake::ends(Ok(Some(nested))), "...").await.expect("it fits").to_text();
    assert!(text.len() < 1 << 18);
}

#[tokio::test]
async fn a_failure_reports_printed_text_and_completed_calls() {
    let fake = Fake::ends(Err(failure(FailureKind::Runtime)))
        .calling(&["clock-now", "github-create-issue", "github-create-issue"])
        .printing(&["one"]);
    let error = own(run(fake, "...").await);
    insta::assert_snapshot!(error.message, @r#"
    Execution runtime error:

    error: Variable `x` not found
     --> code.star:2:5

    Hints:
      - These calls succeeded before the failure and are not undone; do not repeat those that change something: clock.now, github.create_issue (2 times)

    Print Output:
    one

    Environment:
      Available server keys: clock, github
    "#);
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (ErrorKind::InvalidInput, Some("script_runtime"))
    );
    let details =
        json!({"line": 2, "column": 5, "message": "Variable `x` not found", "kind": "runtime"});
    assert_eq!(error.details, Some(details));
}

/// Returns the text that the model reads of a script that failed, up to the first blank line after the
/// failure.
async fn failed_with(tools: &Value, kind: FailureKind, message: &str) -> String {
    let catalog = Catalog::new();
    publish(&catalog, "github", open_policy(true), tools);
    let failure = ScriptError::Failed(ScriptFailure {
        kind,
        message: message.into(),
        line: Some(1),
        column: Some(1),
        rendered: format!("error: {message}\n --> code.star:1:1\n"),
    });
    let fake = Arc::new(Fake::ends(Err(failure)));
    let caller = caller(&catalog, fake, BindingLevel::Server, &Filter::none());
    let error = own(call(&caller, meta::EXECUTE, json!({"code": "..."})).await);
    assert_eq!(
        error.details.as_ref().expect("details")["message"],
        message,
        "a replay has the same"
    );
    let (_, text) = error.message.split_once("\n\n").expect("a title");
    text.split("\n\n").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_positional_argument_is_answered_with_the_real_names_of_the_parameters() {
    let wrong = [
        "github.create_issue takes arguments by name: write the name of the parameter, like `create_issue(name = …)`",
        "TypeError: github.create_issue takes arguments by name, like `github.create_issue(name = …)`, or one dict",
    ];
    let [starlark, python] = wrong;
    insta::assert_snapshot!(failed_with(&github(), FailureKind::Runtime, starlark).await, @r#"
    error: github.create_issue takes arguments by name: write the name of the parameter, like `github.create_issue(owner="...", title="...")`
     --> code.star:1:1
    "#);
    insta::assert_snapshot!(failed_with(&github(), FailureKind::Runtime, python).await, @r#"
    error: TypeError: github.create_issue takes arguments by name, like `github.create_issue(owner="...", title="...")`, or one dict
     --> code.star:1:1
    "#);
    let unknown = "github.create takes arguments by name, like `github.create(name = …)`";
    let text = failed_with(&github(), FailureKind::Runtime, unknown).await;
    assert!(text.contains("`github.create(name = …)`"), "{text}");
}

#[tokio::test]
async fn a_dict_in_place_of_the_only_parameter_is_answered_with_the_name_of_the_parameter() {
    let message = "github.add: the arguments do not fit: item: missing, expected an object";
    let text = failed_with(&tools_with_item("object"), FailureKind::Tool, message).await;
    let hint = "\nhint: one dict is taken as all arguments, by their names; to give it as `item`, write `github.add(item=";
    assert!(text.contains(hint), "{text}");
    for (kind, message) in [("string", message), ("object", "github.add: no such item")] {
        let text = failed_with(&tools_with_item(kind), FailureKind::Tool, message).await;
        assert!(!text.contains("hint:"), "{text}");
    }
}

/// Returns a tool whose only parameter is of this type.
/// Returns the tool's own error of a call that failed.
#[track_caller]
fn own(result: Result<ToolOutput, CallError>) -> ToolError {
    result.expect_err("it fails").into_tool_error().expect("it is the tool's own")
}

fn tools_with_item(kind: &str) -> Value {
    json!([{"name": "add", "description": "Adds.", "inputSchema": {
        "type": "object", "required": ["item"], "properties": {"item": {"type": kind}},
    }}])
}

#[tokio::test]
async fn a_limit_reports_printed_text_and_completed_calls() {
    let message = "the script used up its fuel of 20; compute less";
    let limit = CallError::new(ErrorKind::LimitReached, HostCode::OutOfFuel, message)
        .with_limit(ReachedLimit::Amount(20));
    let fake = Fake::ends(Err(ScriptError::Stopped(limit)))
        .calling(&["clock-now", "github-create-issue"])
        .printing(&["one"]);
    let error = run(fake, "...").await.expect_err("it was stopped");
    assert_eq!(
        (error.code(), error.limit()),
        (HostCode::OutOfFuel, Some(ReachedLimit::Amount(20)))
    );
    insta::assert_snapshot!(error.to_text(), @r#"
    Execution stopped at a limit:

    the script used up its fuel of 20; compute less

    Hints:
      - These calls succeeded before the failure and are not undone; do not repeat those that change something: clock.now, github.create_issue

    Print Output:
    one

    Environment:
      Available server keys: clock, github
    "#);
}

#[tokio::test]
async fn a_script_beyond_its_calls_reports_those_that_it_made() {
    assert!(run(making_calls(64), "...").await.is_ok());
    let error = run(making_calls(65), "...").await.expect_err("it was stopped");
    assert_eq!(error.code(), HostCode::Budget);
    let text = error.to_text();
    for part in ["the script reached its limit of 64 tool calls;", "clock.now (64 times)"] {
        assert!(text.contains(part), "{text}");
    }
}

fn making_calls(count: usize) -> Fake {
    Fake::ends(Ok(None)).calling(&vec!["clock-now"; count])
}

#[tokio::test]
async fn each_kind_of_failure_has_a_code_and_a_heading() {
    for (kind, code, heading) in [
        (FailureKind::Syntax, "script_syntax", "Execution syntax error:\n\nerror: Variable"),
        (FailureKind::Runtime, "script_runtime", "Execution runtime error:\n\nerror: Variable"),
        (FailureKind::Tool, "script_tool", "Execution runtime error:\n\nerror: Variable"),
    ] {
        let error = own(run(Fake::ends(Err(failure(kind))), "...").await);
        assert_eq!(error.code.as_deref(), Some(code));
        assert!(error.message.starts_with(heading), "{}", error.message);
    }
}

#[tokio::test]
async fn a_stop_by_the_journal_reports_printed_text_and_completed_calls() {
    let full =
        ToolError::new(ErrorKind::LimitReached, "there is no room").with_code("journal_full");
    let fake = Fake::ends(Err(ScriptError::Stopped(full.into())))
        .calling(&["github-create-issue"])
        .printing(&["one"]);
    let error = own(run(fake, "...").await);
    assert_eq!(error.code.as_deref(), Some("journal_full"));
    for part in
        ["Execution stopped:\n\nthere is no room\n", "github.create_issue", "Print Output:\none"]
    {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
}

#[tokio::test]
async fn the_reason_of_a_stopped_script_is_returned_unchanged() {
    for stopped in [
        CallError::cancelled(),
        CallError::busy(),
        CallError::from(ToolError::new(ErrorKind::Timeout, "late")),
    ] {
        let code = stopped.code();
        let result = run(Fake::ends(Err(ScriptError::Stopped(stopped))), "...").await;
        assert_eq!(result.expect_err("it was stopped").code(), code);
    }
}

#[tokio::test]
async fn a_call_that_needs_approval_stops_the_script() {
    let catalog = Catalog::new();
    let policy = Policy { auto_execute: Allowlist::default(), ..open_policy(true) };
    publish(&catalog, "github", policy, &github());
    let fake = Fake::ends(Ok(None)).calling(&["github-send"]);
    let caller = caller(&catalog, Arc::new(fake), BindingLevel::Server, &Filter::none());
    let stopped = call(&caller, meta::EXECUTE, json!({"code": "github.send()"})).await;
    let stopped = stopped.expect_err("it was stopped");
    assert!(stopped.is_unapproved());
    assert_eq!(stopped.tool().map(ToolName::as_str), Some("github-send"));
}

#[tokio::test]
async fn a_report_has_the_calls_of_tools_without_a_prefix() {
    let catalog = Catalog::new();
    publish(&catalog, "mail", without_prefix(), &json!([{"name": "send", "inputSchema": {}}]));
    let fake = Fake::ends(Err(failure(FailureKind::Runtime))).calling(&["mail-send"]);
    let runs = caller(&catalog, Arc::new(fake), BindingLevel::Server, &Filter::none());
    let message = own(call(&runs, meta::EXECUTE, json!({"code": "x"})).await).message;
    assert!(message.contains("change something: mail.send\n"), "{message}");
}
