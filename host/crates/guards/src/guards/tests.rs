use std::{collections::BTreeSet, path::Path};

use futures_util::FutureExt as _;
use prometheus_client::{encoding::prometheus_text, registry::Registry};

use super::*;
use crate::{Hooks, Scope, ToolPattern};
use airlock_core::{
    door::{Budget, Caller, Filter, Origin, VirtualKey},
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
    let settings = "{}".into();
    let name = "absent".into();
    Settings { name, component, scope, hooks, settings, limits, stream_window: None }
}

/// Returns a caller whose calls are guarded by one guard that is not loaded.
fn caller(scope: Scope, hooks: Hooks, key: Option<&VirtualKey>) -> Caller {
    within(fakes::BUDGET.deadline, scope, hooks, key)
}

/// Returns such a caller, whose calls have this time.
fn within(deadline: Duration, scope: Scope, hooks: Hooks, key: Option<&VirtualKey>) -> Caller {
    let (catalog, _) = fakes::catalog();
    catalog.set_guards(Guards::new(&[guard(scope, hooks)]).expect("there is one"));
    let view = catalog.snapshot().view(&Filter::none(), key);
    Caller::new(view, Origin::Model, Budget { deadline, ..fakes::BUDGET })
}

/// Returns the reason for which a guard has failed, as the operator reads it.
fn cause(error: Option<&CallError>) -> String {
    let error = error.expect("it is refused");
    assert_eq!(error.code(), HostCode::GuardFailed, "{error}");
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
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
        let caller = caller(scope, Hooks::default(), None);
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
        assert_eq!(
            code(&caller(scope, Hooks::from_iter([GuardHook::Before]), Some(&key)), "desk-echo"),
            expected
        );
    }
    let scope = Scope { keys, ..Scope::default() };
    assert_eq!(
        code(&caller(scope, Hooks::from_iter([GuardHook::Before]), None), "desk-echo"),
        None
    );
}

#[tokio::test]
async fn the_outcome_of_a_call_is_withheld_by_a_guard_that_is_not_loaded() {
    let caller = caller(Scope::default(), Hooks::from_iter([GuardHook::After]), None);
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
async fn a_call_waits_for_a_turn_of_its_tenant_before_a_guard_is_asked() {
    let rows = [(client("desk"), Allowlist::All)];
    let key = VirtualKey::new("busy", "busy", rows.into());
    let held = threads::occupy_turns(key.tenant()).await;
    let guarded = caller(Scope::default(), Hooks::from_iter([GuardHook::Before]), Some(&key));
    let mut asked = Box::pin(threads::arguments(&guarded, "desk-echo", "{}"));
    assert!(asked.as_mut().now_or_never().is_none());
    let after = caller(Scope::default(), Hooks::from_iter([GuardHook::After]), Some(&key));
    let unasked = threads::arguments(&after, "desk-echo", "{}").now_or_never();
    assert!(unasked.is_some_and(|arguments| arguments.is_ok()), "it needs no turn");
    // The door itself waits for none.
    assert_eq!(code(&guarded, "desk-echo"), Some(HostCode::GuardFailed));
    let call = after.admit("desk-echo", "{}").expect("no guard is asked before");
    let mut running = Box::pin(call.run());
    assert!(running.as_mut().now_or_never().is_none());
    drop(held);
    let failed = [asked.await.err(), running.await.err()];
    let codes = failed.map(|error| error.map(|error| error.code()));
    assert_eq!(codes, [Some(HostCode::GuardFailed); 2]);
}

#[test]
fn the_hooks_of_a_call_share_a_time_that_ends_with_the_call() {
    let now = Instant::now();
    let last = now + Duration::from_millis(5);
    let until = last + Duration::from_nanos(1);
    let short = HookTime::begin(until);
    assert_eq!(short.left(last), Some(Duration::from_nanos(1)));
    for over in [until, until + Duration::from_nanos(1)] {
        assert_eq!(short.left(over), None);
    }
    // However long the call may take.
    let long = HookTime::begin(now + Duration::from_hours(1));
    let most = long.left(Instant::now()).expect("time is left");
    assert!(most <= MAX_TIME, "{most:?}");
    assert_eq!(long.left(Instant::now() + MAX_TIME), None);
}

#[tokio::test]
async fn a_call_whose_time_is_over_is_refused_before_a_guard_is_asked() {
    let over = "no time is left for its hook";
    let absent = "it is not loaded";
    for (time, expected) in [(Duration::ZERO, over), (Duration::from_mins(1), absent)] {
        let caller = within(time, Scope::default(), Hooks::from_iter([GuardHook::Before]), None);
        assert_eq!(cause(caller.admit("desk-echo", "{}").err().as_ref()), expected);
        let caller = within(time, Scope::default(), Hooks::from_iter([GuardHook::After]), None);
        let call = caller.admit("desk-echo", "{}").expect("no guard is asked before");
        assert_eq!(cause(call.run().await.err().as_ref()), expected);
    }
}

#[tokio::test]
async fn a_component_that_cannot_be_read_is_an_error_with_the_name_of_the_guard() {
    let guards = Guards::new(&[guard(Scope::default(), Hooks::default())]).expect("there is one");
    let settings =
        sandbox::Settings { instances_per_depth: 1, depths: 1, ..sandbox::Settings::new(None) };
    let sandbox = Sandbox::new(&settings).expect("a sandbox");
    let refused = guards.load(&sandbox, None).await.expect_err("there is no such file");
    assert_eq!(refused.to_string(), r#"guards[0].component: the guard "absent" cannot be loaded"#);
}

#[tokio::test]
async fn hooks_are_counted_by_guard_hook_and_verdict() {
    let guards = Guards::new(&[guard(Scope::default(), Hooks::default())]).expect("there is one");
    let metrics = &guards.0[0].metrics;
    metrics.count(GuardHook::Before, None, Duration::from_micros(15));
    metrics.count(GuardHook::Before, Some(GuardDecision::Rewrite), Duration::from_micros(15));
    let (catalog, _) = fakes::catalog();
    catalog.set_guards(guards.clone());
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Model, fakes::BUDGET);
    assert_eq!(code(&caller, "desk-echo"), Some(HostCode::GuardFailed));
    let shown = shown(&guards);
    for (hook, verdict, count) in [
        ("before", "allow", 1),
        ("before", "rewrite", 1),
        ("before", "fail", 1),
        ("before", "deny", 0),
        ("after", "fail", 0),
    ] {
        let line = format!(
            "airlock_guard_hooks_total{{guard=\"absent\",hook=\"{hook}\",verdict=\"{verdict}\"}} {count}\n"
        );
        assert!(shown.contains(&line), "{line}{shown}");
    }
    let times = "airlock_guard_hook_duration_seconds_count{guard=\"absent\",hook=\"before\"} 3\n";
    assert!(shown.contains(times), "{shown}");
    // Of a hook that is not run there is nothing to show.
    let before = Guards::new(&[guard(Scope::default(), Hooks::from_iter([GuardHook::Before]))])
        .expect("there is one");
    assert!(!self::shown(&before).contains("after"));
}

/// Returns the metrics of guards as Prometheus reads them.
fn shown(guards: &Guards) -> String {
    let mut registry = Registry::default();
    guards.register_metrics(&mut registry);
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("text");
    text
}

#[test]
fn without_guards_there_is_nothing_to_ask() {
    assert!(Guards::new(&[]).is_none());
}
