//! `guards`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{
    file_env::FileEnv,
    name::{MAX_NAME_BYTES, is_plain},
    resolved::{Problems, Resolved},
    same_variants::{SameVariants as _, same_variants},
};
use airlock_config_file::file;
use airlock_core::tool::{ClientName, GuardHook};
use airlock_guards::{Hooks, Scope, Settings, ToolPattern};
use airlock_sandbox::Limits;

/// Maximum number of guards. Each is a call into a sandbox before and after a call of a tool, and the record of the call
/// has a decision of each.
const MAX_GUARDS: usize = 16;
/// Maximum size of the settings of a guard, in bytes of JSON: the contract of guards (`check-settings` in `guard.wit`).
/// Each hook gets a copy.
const MAX_SETTINGS_BYTES: usize = 64 << 10;
/// Bytes that a guard may return besides what it writes: its verdict, whose reason has at most 1 KiB.
const FRAME_BYTES: usize = 64 << 10;

/// Resolves the guards, in their order.
pub(super) fn resolve(guards: Vec<file::GuardEntry>, env: FileEnv<'_>) -> Resolved<Vec<Settings>> {
    let mut names = BTreeSet::new();
    let count = guards.len();
    let resolved = Resolved::elements(guards, |problems, guard| {
        let file::GuardEntry { name, component, on, hooks, settings, limits, stream_window } =
            guard;
        if !is_plain(&name, MAX_NAME_BYTES, "._-") {
            problems.refuse(
                "name",
                format_args!(
                    "expected 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` or `-`, found {name:?}"
                ),
            );
        }
        if !names.insert(name.clone()) {
            problems.refuse("name", format_args!("another guard is named {name:?} already"));
        }
        let scope = problems.take("on", scope(on));
        let hooks = problems.take("hooks", hooks_of(hooks, &scope));
        let looks_at_replies = hooks.has(GuardHook::AfterModel) && !is_of_tools(&scope);
        if stream_window.is_some() && !looks_at_replies {
            problems.refuse(
                "stream_window",
                "belongs to a guard with the hook `after_model`, which this guard does not have",
            );
        }
        Some(Settings {
            name: name.into(),
            component: problems.take("component", env.path(&component)),
            hooks,
            scope,
            settings: problems.take("settings", written(settings)),
            limits: limits_of(&limits),
            stream_window: stream_window.map(|window| window.get().bytes()),
        })
    });
    let reason = format!("{count} guards; the limit is {MAX_GUARDS}");
    resolved.refused_if(count > MAX_GUARDS, reason)
}

/// Returns the settings of a guard as JSON text.
fn written(settings: Map<String, Value>) -> Resolved<Arc<str>> {
    let text = Value::Object(settings).to_string();
    Resolved::new(|problems| {
        if text.len() > MAX_SETTINGS_BYTES {
            problems.refuse_whole(format_args!(
                "{} bytes of JSON; the limit is {MAX_SETTINGS_BYTES}",
                text.len()
            ));
        }
        text.into()
    })
}

fn scope(on: file::GuardScope) -> Resolved<Scope> {
    Resolved::new(|problems| {
        let tools = problems.take("tools", patterns(on.tools));
        let clients = problems.take("clients", clients(on.clients));
        let keys = on.keys.map(|keys| checked(problems, "keys", keys).into_iter().collect());
        let environments = on.environments;
        let environments = environments
            .map(|names| checked(problems, "environments", names).into_iter().collect());
        Scope { tools, clients, keys, environments }
    })
}

/// Returns the hooks that are run. One that the scope leaves nothing to decide about is a problem.
fn hooks_of(named: Option<Vec<file::NamedHook>>, scope: &Scope) -> Resolved<Hooks> {
    let Some(named) = named else { return Resolved::new(|_| Hooks::default()) };
    let is_empty = named.is_empty();
    let named = Resolved::elements(named, |problems, named| {
        let hook = named.same();
        match hook {
            GuardHook::Definition if scope.is_of_keys() => {
                problems.refuse_whole(
                    "a definition has no key; leave `on.keys` and `on.environments` out",
                );
            }
            GuardHook::BeforeModel | GuardHook::AfterModel if is_of_tools(scope) => {
                problems.refuse_whole(
                    "a request to a model has no tool; leave `on.tools` and `on.clients` out",
                );
            }
            _ => {}
        }
        Some(hook)
    });
    listed(is_empty, named).map(Hooks::from_iter)
}

/// Returns whether a scope has calls of some tools alone, and so no requests to models.
fn is_of_tools(scope: &Scope) -> bool {
    scope.tools.is_some() || scope.clients.is_some()
}

fn patterns(tools: Option<Vec<String>>) -> Resolved<Option<Vec<ToolPattern>>> {
    let Some(tools) = tools else { return Resolved::new(|_| None) };
    let is_empty = tools.is_empty();
    let patterns = Resolved::elements(tools, |problems, text| {
        problems.accept_whole(ToolPattern::parse(&text))
    });
    listed(is_empty, patterns).map(Some)
}

fn clients(names: Option<Vec<String>>) -> Resolved<Option<BTreeSet<ClientName>>> {
    let Some(names) = names else { return Resolved::new(|_| None) };
    let is_empty = names.is_empty();
    let names =
        Resolved::elements(names, |problems, name| problems.accept_whole(ClientName::parse(&name)));
    listed(is_empty, names).map(|names| Some(names.into_iter().collect()))
}

/// Notes a list without elements: its guard would be asked about no call.
fn listed<T>(is_empty: bool, list: Resolved<Vec<T>>) -> Resolved<Vec<T>> {
    let reason = "is empty, so that the guard is never asked; leave it out for all";
    list.refused_if(is_empty, reason)
}

fn checked(problems: &mut Problems, key: &'static str, list: Vec<String>) -> Vec<String> {
    let is_empty = list.is_empty();
    problems.take(key, listed(is_empty, Resolved::new(|_| list)))
}

fn limits_of(limits: &file::GuardLimits) -> Limits {
    let time: Duration = limits.time.get().0;
    let result_bytes = limits.result.get().bytes();
    Limits {
        fuel: limits.fuel.get(),
        cpu: time,
        deadline: time,
        memory_bytes: limits.memory.get().bytes(),
        copied_bytes: result_bytes.saturating_add(FRAME_BYTES),
        result_bytes,
        host_calls: 0,
        log_lines: 0,
        ..Limits::PLUGIN
    }
}

same_variants!(file::NamedHook => GuardHook { Before, After, Definition, BeforeModel, AfterModel });
