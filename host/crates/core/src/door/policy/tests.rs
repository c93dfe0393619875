use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;

use super::*;
use crate::{
    door::{
        Admitted, Approved, Budget, Caller, Filter, OwnTools, Permission, Provider, Source, View,
    },
    tool::{Allowlist, Answers, HostCode, Policy, SourceSet, ToolOutput, client},
};

struct Empty;

impl Provider for Empty {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        async { Ok(ToolOutput::default()) }.boxed()
    }
}

/// Refuses calls with `no` in their arguments, and requires an approval for those with `ask`.
struct ByArguments;

impl CallPolicy for ByArguments {
    fn narrow(&self, call: &ProposedCall<'_>) -> PolicyVerdict {
        match call.arguments.as_str() {
            text if text.contains("no") => {
                PolicyVerdict::Refuse { reason: "it says no".to_owned() }
            }
            text if text.contains("ask") => PolicyVerdict::RequireApproval,
            _ => PolicyVerdict::Unchanged,
        }
    }
}

/// Returns a caller that may call `a-free` without an approval and `a-asked` with one, and scripts.
fn caller(origin: Origin, policy: Option<Arc<dyn CallPolicy>>) -> Caller {
    let name = client("a");
    let tools = ["free", "asked"].map(|tool| {
        let definition = json!({"name": tool, "inputSchema": {}});
        let definition = serde_json::from_value(definition).expect("a definition");
        Arc::new(Tool::adopt(&name, definition).expect("a good tool"))
    });
    let operators = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::parse(&["free"]).expect("a good list"),
        ..Policy::default()
    };
    let provider: Arc<dyn Provider> = Arc::new(Empty);
    let unaccepted = BTreeSet::new();
    let source = Source {
        client: &name,
        policy: &operators,
        tools: &tools,
        unaccepted: &unaccepted,
        provider: &provider,
        is_server: false,
        is_switched_off: false,
    };
    let own = OwnTools { tools: Vec::new(), provider: provider.clone() };
    let view = View::new([source], Some(&own), &Filter::none(), None).with_policy(policy);
    let second = Duration::from_secs(1);
    let budget =
        Budget { deadline: second, script: second, nested_calls: 1, depth: 2, in_flight: 1 };
    Caller::new(view, origin, budget)
}

fn narrowed(origin: Origin) -> Caller {
    caller(origin, Some(Arc::new(ByArguments)))
}

#[test]
fn a_policy_requires_approvals_and_refuses_and_leaves_the_rest_as_it_was() {
    let model = narrowed(Origin::Model);
    let free = model.admit("a-free", r#"{"x":1}"#).expect("nothing narrows it");
    assert_eq!(free.permission(), Permission::Automatic);
    let asked = model.admit("a-free", r#"{"x":"ask"}"#).err().expect("it needs an approval");
    assert!(asked.is_unapproved());
    let refused = model.admit("a-free", r#"{"x":"no"}"#).err().expect("it is refused");
    assert_eq!(refused.code(), HostCode::PolicyRefused);
    assert!(refused.to_string().ends_with("it says no"), "{refused}");
    // It admits nothing that the configuration does not.
    assert!(model.admit("a-asked", "{}").is_err_and(|error| error.is_unapproved()));
    let unknown = model.admit("a-nothing", "{}").err().expect("there is none");
    assert_eq!(unknown.code(), HostCode::NotFound);
}

#[test]
fn a_refusal_counts_for_callers_that_approve_and_for_calls_that_a_person_has_approved() {
    let own = narrowed(Origin::Caller);
    assert!(own.admit("a-asked", r#"{"x":"ask"}"#).is_ok(), "the request is the approval");
    for name in ["a-free", "a-asked"] {
        let refused = own.admit(name, r#"{"x":"no"}"#).err().expect("it is refused");
        assert_eq!(refused.code(), HostCode::PolicyRefused);
    }
    let model = narrowed(Origin::Model);
    for (arguments, is_admitted) in [(r#"{"x":"ask"}"#, true), (r#"{"x":"no"}"#, false)] {
        let entry = model.view().find(&Origin::Model, "a-free").expect("it is there");
        let approved = Approved {
            tool: "a-free".into(),
            definition: entry.tool.digest().into(),
            arguments: arguments.into(),
            covers_nested: false,
            by_operators: false,
            decided_by: None,
            sources: SourceSet::default(),
        };
        let admitted = model.admit_approved("a-free", arguments, &approved);
        assert_eq!(admitted.is_ok(), is_admitted, "{arguments}");
    }
    let answers = Answers { token: String::new(), given: BTreeMap::new() };
    let resumed = model.resume("a-free", r#"{"x":"no"}"#, answers).err().expect("it is refused");
    assert_eq!(resumed.code(), HostCode::PolicyRefused);
}

#[test]
fn a_call_is_sorted_as_it_is_decided() {
    for (is_narrowed, name, arguments, expected) in [
        (false, "a-free", r#"{"x":"ask"}"#, Some(false)),
        (false, "a-asked", "{}", Some(true)),
        (true, "a-free", "{}", Some(false)),
        (true, "a-free", r#"{"x":"ask"}"#, Some(true)),
        (true, "a-asked", r#"{"x":"no"}"#, None),
    ] {
        let model = if is_narrowed { narrowed(Origin::Model) } else { caller(Origin::Model, None) };
        let parsed = Arguments::parse(name, arguments).expect("an object");
        let found = model.call_needs_approval(name, &parsed).ok();
        assert_eq!(found, expected, "{name} {arguments}");
        let admitted = model.admit(name, arguments);
        assert_eq!(admitted.is_ok(), expected == Some(false), "{name} {arguments}");
    }
}

#[test]
fn the_program_itself_sees_every_tool_and_approves_none() {
    let program = caller(Origin::Program, None);
    assert_eq!(program.list().count(), 2);
    assert!(program.admit("a-free", "{}").is_ok());
    assert!(program.admit("a-asked", "{}").is_err_and(|error| error.is_unapproved()));
}
