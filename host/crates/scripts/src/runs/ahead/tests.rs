use std::time::Instant;

use airlock_catalog::Catalog;
use airlock_core::{
    door::{CallGuards, Filter, FinishedCall, GuardedCall, ProposedCall},
    tool::ToolOutput,
};
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use serde_json::json;

use super::*;
use crate::{
    names,
    tests::{catalog, open_policy, publish},
};

fn call(name: &str, arguments: &[(&str, SourceValue)]) -> SourceCall {
    let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    SourceCall {
        namespace: "github".into(),
        name: name.into(),
        arguments: arguments.collect(),
        is_open: false,
        mistake: None,
    }
}

fn known(json: &str) -> SourceValue {
    SourceValue::Known(json.into())
}

fn part(call: u32, keys: &[&str]) -> SourceValue {
    SourceValue::Part(ResultPart { call, keys: keys.iter().map(|key| (*key).to_owned()).collect() })
}

fn issue(title: SourceValue) -> SourceCall {
    call("create_issue", &[("title", title), ("owner", known("\"\""))])
}

fn open(call: SourceCall) -> SourceCall {
    SourceCall { is_open: true, ..call }
}

fn found(calls: &[SourceCall]) -> Vec<WrongCall> {
    found_with(None, calls)
}

fn found_with(guards: Option<Arc<dyn CallGuards>>, calls: &[SourceCall]) -> Vec<WrongCall> {
    let view = catalog().snapshot().view(&Filter::none(), None).with_guards(guards);
    let bindings = names::bindings(&names::namespaces(view.scripted()));
    wrong_calls(&view, &bindings, calls)
}

fn message(call: SourceCall) -> Option<String> {
    found(&[call]).pop().map(|wrong| wrong.message)
}

const PARAMETERS: &str = "Parameters: owner, title, labels?, place?, state?";

#[test]
fn arguments_are_refused_in_the_words_of_the_check_of_a_call() {
    let start = "github.create_issue: the arguments of tool 'github-create-issue' cannot be used:";
    for (wrong, detail) in [
        (
            call("create_issue", &[("title", SourceValue::Unknown)]),
            "the parameter `owner` is missing.",
        ),
        (issue(known("7")), "the parameter `title` must be string, not number."),
        (issue(known("null")), "the parameter `title` must be string, not null."),
        (open(issue(known("[]"))), "the parameter `title` must be string, not array."),
        (
            call("create_issue", &[("titel", known("\"\"")), ("owner", known("\"\""))]),
            "unknown parameter `titel`; did you mean `title`?",
        ),
    ] {
        let expected = format!("{start} {detail} {PARAMETERS}");
        assert_eq!(message(wrong), Some(expected));
    }
}

#[test]
fn what_may_be_right_passes() {
    for right in [
        issue(SourceValue::Unknown),
        issue(known("\"\"")),
        open(call("create_issue", &[])),
        open(call("create_issue", &[("titel", known("\"\""))])),
        call(
            "create_issue",
            &[("title", known("\"\"")), ("owner", known("\"\"")), ("labels", known("7"))],
        ),
        call("getuser", &[("any", known("1"))]),
        call("getUser", &[]),
        call("send", &[("from", known("\"\"")), ("reply-to", known("null"))]),
        SourceCall { namespace: "nothing".into(), ..call("any", &[]) },
    ] {
        assert_eq!(message(right.clone()), None, "{right:?}");
    }
}

#[test]
fn the_declared_result_of_a_tool_is_the_type_of_an_argument() {
    let first = issue(known("\"\""));
    for (value, expected) in [
        (part(0, &[]), Some("the result of `github.create_issue` is object.")),
        (part(0, &["url"]), None),
        // An integer of more than 64 bits becomes a text.
        (part(0, &["number"]), None),
        (part(0, &["nothing"]), None),
        (part(0, &["number", "more"]), None),
        (part(1, &[]), None),
        (part(9, &[]), None),
    ] {
        let calls = [first.clone(), call("getuser", &[]), issue(value.clone())];
        let wrong = found(&calls).pop();
        let message = wrong.as_ref().map(|wrong| wrong.message.as_str());
        assert_eq!(message.is_some(), expected.is_some(), "{value:?}: {message:?}");
        if let (Some(message), Some(expected)) = (message, expected) {
            let expected =
                format!("the parameter `title` must be string, and {expected} {PARAMETERS}");
            assert!(message.ends_with(&expected), "{message}");
        }
    }
}

#[test]
fn an_unknown_tool_is_refused_with_those_that_there_are() {
    let wrong = found(&[issue(known("\"\"")), call("create_isue", &[])]);
    let hint = "did you mean `github.create_issue`? `github` has `create_issue`, `getuser`, `send`";
    let expected = WrongCall {
        call: 1,
        message: "`github` has no tool `create_isue`".into(),
        hint: Some(hint.into()),
        by_tool: false,
    };
    assert_eq!(wrong, [expected]);
}

#[test]
fn a_mistake_in_the_form_of_a_call_is_that_of_the_script() {
    let mistake = Some("takes arguments by name".to_owned());
    let wrong = found(&[SourceCall { mistake, ..call("getUser", &[]) }]);
    let shown = wrong.first().map(|wrong| (wrong.message.as_str(), wrong.by_tool));
    assert_eq!(shown, Some(("github.getuser takes arguments by name", false)));
}

#[test]
fn the_number_of_reported_calls_is_limited() {
    let calls = vec![issue(known("7")); MAX_WRONG + 1];
    assert_eq!(found(&calls[1..]).len(), MAX_WRONG);
    assert_eq!(found(&calls).len(), MAX_WRONG);
    let unknown = vec![call("create_isue", &[]); MAX_WRONG];
    let wrong = found(&[&unknown[..], &calls].concat());
    assert!(wrong.len() == MAX_WRONG && wrong.iter().all(|wrong| !wrong.by_tool), "{wrong:?}");
}

#[test]
fn a_mistake_is_shown_on_one_line_and_cut() {
    let mistake = Some("x\n".repeat(100_000));
    let message = message(SourceCall { mistake, ..call("getUser", &[]) }).expect("it is wrong");
    assert!(message.len() < 1_000 && !message.contains('\n'), "{message}");
}

#[test]
fn the_bytes_of_schemas_that_are_read_are_limited() {
    let right = issue(known("\"\""));
    let view = catalog().snapshot().view(&Filter::none(), None);
    let bindings = names::bindings(&names::namespaces(view.scripted()));
    let calls = [right];
    let tools = CalledTools::find(&view, &bindings, &calls);
    assert!(tools.result(&ResultPart { call: 0, keys: Vec::new() }, &calls).is_some());
    tools.left.set(1);
    assert!(tools.result(&ResultPart { call: 0, keys: Vec::new() }, &calls).is_none());
    assert_eq!((tools.read("a", 1), tools.read("b", 1)), (Some("a"), None));
    tools.left.set(5);
    assert_eq!((tools.read("ab", 3), tools.read("ab", 2)), (None, Some("ab")));
}

#[test]
fn of_the_parts_of_a_large_result_a_script_looks_up_no_more_than_the_calls_of_a_run_read() {
    /// As many lines such as `a.b(t=r["p"])` as a script of 64 KiB has.
    const PARTS: usize = (64 << 10) / 20;
    const SCHEMA: usize = 60 << 10;
    let catalog = Catalog::new();
    let schema = json!({
        "type": "object", "description": "x".repeat(SCHEMA), "properties": {"p": {"type": "string"}},
    });
    let tools = json!([{"name": "large", "inputSchema": {}, "outputSchema": schema}]);
    publish(&catalog, "github", open_policy(true), &tools);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let bindings = names::bindings(&names::namespaces(view.scripted()));
    let calls = [call("large", &[])];
    let tools = CalledTools::find(&view, &bindings, &calls);
    let part = ResultPart { call: 0, keys: vec!["p".to_owned()] };
    let found = (0..PARTS).filter(|_| tools.result(&part, &calls).is_some()).count();
    assert!(found > 0 && found * SCHEMA <= MAX_READ, "{found}");
    const { assert!(PARTS * SCHEMA > 40 * MAX_READ, "what they would read without the limit") };
}

#[test]
fn the_undeclared_names_that_are_compared_for_one_script_are_limited() {
    let right = [("title", known("\"\"")), ("owner", known("\"\""))];
    let mistyped =
        call("create_issue", &[&right[..], &[("lables", SourceValue::Unknown)]].concat());
    let names: Vec<_> = (0..8).map(|n| format!("zq{n}")).collect();
    let mut arguments = right.to_vec();
    arguments.extend(names.iter().map(|name| (name.as_str(), SourceValue::Unknown)));
    let others = vec![call("create_issue", &arguments); MAX_COMPARED / names.len()];
    assert!(found(&others).is_empty(), "nothing is like their names");
    for (others, expected) in [(&others[1..], 1), (&others[..], 0)] {
        let calls = [others, std::slice::from_ref(&mistyped)].concat();
        assert_eq!(found(&calls).len(), expected, "{} others", others.len());
    }
}

/// Looks at the calls of one tool, before them or after them.
struct Watched {
    tool: &'static str,
    is_before: bool,
}

impl CallGuards for Watched {
    fn before<'g>(
        &'g self,
        _: &'g ProposedCall<'g>,
        _: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        ready(Ok(GuardedCall::default())).boxed()
    }

    fn looks_before(&self, call: &ProposedCall<'_>) -> bool {
        self.is_before && call.tool.original == self.tool
    }

    fn looks_after(&self, call: &ProposedCall<'_>) -> bool {
        !self.is_before && call.tool.original == self.tool
    }

    fn after(
        &self,
        _: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        ready(outcome).boxed()
    }
}

#[test]
fn arguments_and_results_that_guards_may_change_are_left_to_the_call() {
    let calls = [
        issue(known("7")),
        issue(part(0, &[])),
        call("create_isue", &[]),
        SourceCall { mistake: Some("takes none".into()), ..call("create_issue", &[]) },
    ];
    for (tool, is_before, expected) in [
        ("create-issue", true, vec![2, 3]),
        ("create-issue", false, vec![2, 3]),
        ("other", true, vec![0, 1, 2, 3]),
    ] {
        let guards: Arc<dyn CallGuards> = Arc::new(Watched { tool, is_before });
        let wrong = found_with(Some(guards), &calls);
        let wrong: Vec<_> = wrong.iter().map(|wrong| wrong.call).collect();
        assert_eq!(wrong, expected, "{tool} {is_before}");
    }
}
