use std::{collections::BTreeSet, path::Path};

use super::*;
use crate::{Hooks, Scope, ToolPattern};
use airlock_core::{
    door::{Caller, Filter, Origin, VirtualKey},
    tool::{Allowlist, ClientName, HostCode},
};
use airlock_fakes as fakes;
use airlock_sandbox::{Limits, Sandbox};

fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a good name")
}

fn guard(scope: Scope, hooks: Hooks) -> Settings {
    let component = Path::new("/absent/guard.wasm").to_owned();
    let limits = Limits::PLUGIN;
    Settings { name: "absent".into(), component, scope, hooks, settings: "{}".into(), limits }
}

/// Returns a caller whose calls are guarded by one guard that is not loaded.
fn caller(scope: Scope, hooks: Hooks, key: Option<&VirtualKey>) -> Caller {
    let (catalog, _) = fakes::catalog();
    catalog.set_guards(Guards::new(&[guard(scope, hooks)]).expect("there is one"));
    let view = catalog.snapshot().view(&Filter::none(), key);
    Caller::new(view, Origin::Model, fakes::BUDGET)
}

fn code(caller: &Caller, tool: &str) -> Option<HostCode> {
    caller.admit(tool, "{}").err().map(|error| error.code())
}

#[test]
fn calls_in_the_scope_of_a_guard_that_is_not_loaded_are_refused() {
    let tools = Some(vec![ToolPattern::parse("desk-e*").expect("a good pattern")]);
    let of_tools = Scope { tools, ..Scope::default() };
    let clients = Some(BTreeSet::from([client("files")]));
    let of_clients = Scope { clients, ..Scope::default() };
    for (scope, echo, fail) in [
        (Scope::default(), Some(HostCode::GuardFailed), Some(HostCode::GuardFailed)),
        (of_tools, Some(HostCode::GuardFailed), None),
        (of_clients, None, None),
    ] {
        let caller = caller(scope, Hooks::Both, None);
        assert_eq!([code(&caller, "desk-echo"), code(&caller, "desk-fail")], [echo, fail]);
        // A wrapper of calls is none.
        assert_eq!(code(&caller, "executeToolCode"), None);
    }
}

#[test]
fn a_guard_of_a_key_is_asked_about_calls_of_this_key_alone() {
    let rows = [(client("desk"), Allowlist::All)];
    let keys = Some(BTreeSet::from(["ann".to_owned()]));
    for (name, expected) in [("ann", Some(HostCode::GuardFailed)), ("bob", None)] {
        let key = VirtualKey::new(name, name, rows.clone().into());
        let scope = Scope { keys: keys.clone(), ..Scope::default() };
        assert_eq!(code(&caller(scope, Hooks::Before, Some(&key)), "desk-echo"), expected);
    }
    let scope = Scope { keys, ..Scope::default() };
    assert_eq!(code(&caller(scope, Hooks::Before, None), "desk-echo"), None);
}

#[tokio::test]
async fn the_outcome_of_a_call_is_withheld_by_a_guard_that_is_not_loaded() {
    let caller = caller(Scope::default(), Hooks::After, None);
    for tool in ["desk-echo", "desk-fail"] {
        let call = caller.admit(tool, "{}").expect("no guard is asked before");
        let withheld = call.run().await.expect_err("it is withheld");
        assert_eq!(withheld.code(), HostCode::GuardFailed, "{tool}");
        let act = withheld.guard_act().expect("a guard");
        assert_eq!((act.hook, act.verdict), (GuardHook::After, GuardDecision::Fail));
    }
    // A failure of the gateway is no outcome.
    let call = caller.admit("desk-busy", "{}").expect("no guard is asked before");
    assert_eq!(call.run().await.expect_err("it is busy").code(), HostCode::Busy);
}

#[tokio::test]
async fn a_component_that_cannot_be_read_is_an_error_with_the_name_of_the_guard() {
    let guards = Guards::new(&[guard(Scope::default(), Hooks::Both)]).expect("there is one");
    let settings =
        sandbox::Settings { instances_per_depth: 1, depths: 1, ..sandbox::Settings::new(None) };
    let sandbox = Sandbox::new(&settings).expect("a sandbox");
    let refused = guards.load(&sandbox, None).await.expect_err("there is no such file");
    assert_eq!(refused.to_string(), r#"guards[0].component: the guard "absent" cannot be loaded"#);
}

#[test]
fn without_guards_there_is_nothing_to_ask() {
    assert!(Guards::new(&[]).is_none());
}
