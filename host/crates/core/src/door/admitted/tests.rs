use std::{collections::BTreeSet, future::pending, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{
    door::{Budget, Caller, Filter, Outcome, OwnTools, Provider, Source, View},
    tool::{Allowlist, Answers, HostCode, Policy, Tool, ToolDefinition, client},
};

const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 8,
    depth: 3,
    in_flight: 8,
};

/// The control and the provider of a test, with what they were told.
#[derive(Clone, Default)]
struct Recorder {
    told: Arc<Mutex<Vec<String>>>,
    /// Tool whose calls the control refuses.
    refused: Option<&'static str>,
}

impl Recorder {
    fn tell(&self, told: String) {
        self.told.lock().push(told);
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock())
    }

    /// Returns a caller of the tools `a-read`, `a-hang` and `executeToolCode`.
    fn caller(&self, origin: Origin) -> Caller {
        let provider: Arc<dyn Provider> = Arc::new(self.clone());
        let tools = ["read", "hang"].map(|name| {
            let definition = json!({"name": name, "inputSchema": {}});
            let definition: ToolDefinition = serde_json::from_value(definition).expect("a tool");
            Arc::new(Tool::adopt(&client("a"), definition).expect("a good tool"))
        });
        let policy = Policy {
            execute: Allowlist::All,
            auto_execute: Allowlist::parse(&["read"]).expect("no duplicates"),
            code_mode: true,
            ..Policy::default()
        };
        let owner = client("a");
        let unaccepted = BTreeSet::new();
        let source = Source {
            client: &owner,
            policy: &policy,
            tools: &tools,
            unaccepted: &unaccepted,
            provider: &provider,
            is_server: false,
            is_switched_off: false,
        };
        let run = Tool::own("executeToolCode", "", json!({"type": "object"}));
        let meta_tools = OwnTools { tools: vec![Arc::new(run)], provider: provider.clone() };
        let view = View::new([source], Some(&meta_tools), &Filter::none(), None);
        let control: Arc<dyn CallControl> = Arc::new(self.clone());
        Caller::new(view.with_control(Some(control)), origin, BUDGET)
    }
}

impl Provider for Recorder {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        async move {
            self.tell(format!("call {}", call.tool().name));
            match call.tool().name.as_str() {
                "a-hang" => pending().await,
                "executeToolCode" => {
                    call.chain().admit(&Origin::Script, "a-read", "{}")?.run().await
                }
                name => Ok(ToolOutput::text(name)),
            }
        }
        .boxed()
    }
}

impl CallControl for Recorder {
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        let name = call.tool().name.as_str();
        if self.refused == Some(name) {
            return future::ready(Err(CallError::limit_reached("calls of a test", None))).boxed();
        }
        let place = if call.is_substitute() { "substitute" } else { "begin" };
        self.tell(format!("{place} {name}"));
        let recorder = self.clone();
        let controlled: Box<dyn ControlledCall> =
            Box::new(RecordedCall { recorder, name: name.to_owned(), has_ended: false });
        future::ready(Ok(controlled)).boxed()
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        let Refusal { name, error, parent, .. } = refusal;
        let nested = if parent.is_some() { " nested" } else { "" };
        self.tell(format!("refused {name} {}{nested}", error.code().as_str()));
    }
}

struct RecordedCall {
    recorder: Recorder,
    name: String,
    has_ended: bool,
}

impl ControlledCall for RecordedCall {
    fn end(mut self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        self.has_ended = true;
        let end = result.as_ref().map_or_else(|error| error.code().as_str(), |_| "ok");
        self.recorder.tell(format!("end {} {end}", self.name));
    }
}

impl Drop for RecordedCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.recorder.tell(format!("drop {}", self.name));
        }
    }
}

#[test]
fn the_tree_of_the_arguments_is_kept_until_it_is_taken_or_they_change() {
    let caller = Recorder::default().caller(Origin::Caller);
    let arguments = json!({"a": 1, "b": null});
    let mut call = caller.admit("a-read", &arguments.to_string()).expect("it is admitted");
    assert_eq!(call.take_members(), None);
    assert_eq!(*call.members(), arguments);
    assert_eq!(call.take_members().map(Value::from), Some(arguments.clone()));
    assert_eq!(call.take_members(), None);
    assert_eq!(*call.members(), arguments);
    let mut call = call.without_nulls();
    assert_eq!((call.take_members(), call.arguments().as_str()), (None, r#"{"a":1}"#));
}

#[tokio::test]
async fn the_control_is_told_of_a_call_before_it_runs_and_once_of_its_end() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Caller);
    caller.admit("a-read", "{}").expect("it is listed").run().await.expect("it is run");
    assert_eq!(recorder.told(), ["begin a-read", "call a-read", "end a-read ok"]);
    drop(caller.admit("a-read", "{}").expect("it is listed").run());
    assert!(recorder.told().is_empty(), "a call that was never polled never ran");
}

#[tokio::test]
async fn a_call_that_the_control_refuses_does_not_run_and_is_recorded_as_failed() {
    let recorder = Recorder { refused: Some("a-read"), ..Recorder::default() };
    let caller = recorder.caller(Origin::Caller);
    let admitted = caller.admit("a-read", "{}").expect("the door permits it");
    let error = admitted.run().await.expect_err("the control does not");
    assert_eq!((error.code(), error.has_not_begun()), (HostCode::LimitReached, true));
    assert!(
        recorder.told().is_empty(),
        "the provider was not reached, and the door refused nothing"
    );
    let records = caller.ledger().records();
    let [record] = records.as_slice() else { panic!("one call: {records:?}") };
    let Outcome::Error { failure, .. } = &record.outcome else { panic!("{:?}", record.outcome) };
    assert_eq!(failure.code, "airlock.limit_reached");
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_runs_has_no_end() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Caller);
    let mut running = caller.admit("a-hang", "{}").expect("it is listed").run().boxed();
    assert!(running.as_mut().now_or_never().is_none());
    drop(running);
    assert_eq!(recorder.told(), ["begin a-hang", "call a-hang", "drop a-hang"]);
}

#[tokio::test]
async fn calls_of_scripts_and_of_plugins_are_controlled_beside_the_call_that_makes_them() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Model);
    let script = caller.admit("executeToolCode", "{}").expect("it is listed");
    script.run().await.expect("it is run");
    let nested = ["begin a-read", "call a-read", "end a-read ok"];
    let mut expected = vec!["begin executeToolCode", "call executeToolCode"];
    expected.extend(nested);
    expected.push("end executeToolCode ok");
    assert_eq!(recorder.told(), expected);

    let root = caller.admit("executeToolCode", "{}").expect("it is listed");
    let plugin = Origin::Plugin(Arc::new(["a-read".to_owned()].into()));
    let call = root.chain().admit(&plugin, "a-read", "{}").expect("it is granted");
    call.run().await.expect("it is run");
    assert_eq!(recorder.told(), nested);
}

#[tokio::test]
async fn a_nested_call_that_the_control_refuses_fails_alone() {
    let recorder = Recorder { refused: Some("a-read"), ..Recorder::default() };
    let caller = recorder.caller(Origin::Model);
    let script = caller.admit("executeToolCode", "{}").expect("it is listed");
    let error = script.run().await.expect_err("its call is refused");
    assert_eq!(error.code(), HostCode::LimitReached);
    let told =
        ["begin executeToolCode", "call executeToolCode", "end executeToolCode limit_reached"];
    assert_eq!(recorder.told(), told);
}

#[test]
fn refusals_of_the_door_are_told_with_a_short_name() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Model);
    assert!(caller.admit("a-missing", "{}").is_err());
    // In code mode its caller is a script.
    let root = caller.admit("executeToolCode", "{}").expect("it is listed");
    assert!(root.chain().admit(&Origin::Script, "a-hang", "{}").is_err(), "it is not approved");
    let told = ["refused a-missing not_found", "refused a-hang needs_approval nested"];
    assert_eq!(recorder.told(), told);
    assert!(caller.admit(&"x".repeat(10_000), "{}").is_err());
    let told = recorder.told().pop().expect("it is told");
    let name = told.split(' ').nth(1).expect("a name");
    assert!(name.len() <= airlock_strings::MAX_NAME_BYTES && name.starts_with("xxx"), "{name}");
}

#[tokio::test]
async fn a_call_in_the_place_of_another_one_is_controlled_as_such() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Model);
    let root = caller.admit("executeToolCode", "{}").expect("it is listed");
    let arguments = root.arguments();
    let substitute = root.chain().admit_in_place(&Origin::Script, "a-read", arguments);
    substitute.expect("it is permitted").run().await.expect("it is run");
    assert_eq!(recorder.told(), ["substitute a-read", "call a-read", "end a-read ok"]);
}

#[tokio::test]
async fn a_continuation_is_controlled_as_a_call_of_its_own() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Caller);
    let answers = Answers { token: String::new(), given: std::collections::BTreeMap::new() };
    let resumed = caller.resume("a-read", "{}", answers).expect("it is listed");
    assert!(resumed.run().await.is_err(), "it does not wait");
    assert_eq!(recorder.told(), ["begin a-read", "end a-read not_waiting"]);
}

#[test]
fn a_continuation_that_is_refused_is_told_and_of_calls_beyond_the_budget_the_first() {
    let recorder = Recorder::default();
    let caller = recorder.caller(Origin::Caller);
    let answers = Answers { token: String::new(), given: std::collections::BTreeMap::new() };
    assert!(caller.resume("a-missing", "{}", answers).is_err());
    assert_eq!(recorder.told(), ["refused a-missing not_found"]);
    let root = caller.admit("executeToolCode", "{}").expect("it is listed");
    for _ in 0..BUDGET.nested_calls {
        root.chain().admit(&Origin::Script, "a-read", "{}").map(drop).expect("it is left");
    }
    for _ in 0..3 {
        root.chain().admit(&Origin::Script, "a-read", "{}").map(drop).expect_err("none is left");
    }
    let code = HostCode::Budget.as_str();
    assert_eq!(recorder.told(), [format!("refused a-read {code} nested")]);
}

#[tokio::test]
async fn a_view_without_a_control_runs_its_calls() {
    let recorder = Recorder::default();
    let view = recorder.caller(Origin::Caller).view().clone().with_control(None);
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    caller.admit("a-read", "{}").expect("it is listed").run().await.expect("it is run");
    assert_eq!(recorder.told(), ["call a-read"]);
}
