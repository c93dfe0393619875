//! Loads the components of guards, once, at the start.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use tracing::{info, warn};

use super::{Guards, Hooks, Settings, guards::LoadedGuard};
use airlock_compile::{CompileHook, compiling};
use airlock_core::tool::GuardHook;
use airlock_lock::digest;
use airlock_plugin::read_component;
use airlock_sandbox::{LoadError, Sandbox};

/// Error: the component of a guard cannot be used, or refuses its settings.
#[derive(Debug, thiserror::Error)]
#[error("guards[{index}].{}: the guard {name:?} cannot be loaded", faulty_key(cause))]
pub struct GuardLoadError {
    /// Its place in the configuration.
    index: usize,
    name: Arc<str>,
    #[source]
    cause: LoadError,
}

impl Guards {
    /// Loads the components of all guards that are not loaded yet, and checks their settings. Fails at the first that
    /// cannot be used; the calls that it is to be asked about are refused.
    pub async fn load(
        &self,
        sandbox: &Sandbox,
        on_compile: Option<&CompileHook>,
    ) -> Result<(), GuardLoadError> {
        let missing = self.iter().enumerate().filter(|(_, guard)| guard.loaded.get().is_none());
        for (index, guard) in missing {
            let loaded = load(&guard.settings, sandbox, on_compile).await;
            let name = guard.settings.name.clone();
            let loaded = loaded.map_err(|cause| GuardLoadError { index, name, cause })?;
            info!(guard = %guard.settings.name, digest = %loaded.digest, "guard loaded");
            if let Some(others) = hooks_that_keep_streams(&guard.settings, &loaded.hooks) {
                let key = format!("guards[{index}].hooks");
                warn!(
                    key,
                    guard = %guard.settings.name,
                    write = json!(others).to_string(),
                    "responses of models are not streamed, because this guard has the hook after_model and no hooks are \
                     named; name the others to keep streams, or all of them to keep it so"
                );
            }
            // Only this function sets it.
            let _ = guard.loaded.set(loaded);
        }
        Ok(())
    }
}

/// Loads a guard and checks its settings, as a gateway does at its start. Fails if the gateway could not use it.
pub async fn check(settings: &Settings, sandbox: &Sandbox) -> Result<(), LoadError> {
    load(settings, sandbox, None).await.map(drop)
}

/// Returns the key of a guard in the configuration that an error is about.
pub fn faulty_key(error: &LoadError) -> &'static str {
    match error {
        LoadError::GuardSettings { .. } | LoadError::GuardSettingsCheck(_) => "settings",
        LoadError::GuardHooks { .. } => "hooks",
        _ => "component",
    }
}

async fn load(
    settings: &Settings,
    sandbox: &Sandbox,
    on_compile: Option<&CompileHook>,
) -> Result<LoadedGuard, LoadError> {
    let wasm: Arc<[u8]> = read_component(&settings.component).await?.into();
    let digest = digest(&wasm).into();
    let load = sandbox.guard(wasm.clone(), settings.limits, settings.settings.clone());
    let guard = compiling(on_compile, &settings.name, &wasm, load).await?;
    let hooks = checked_hooks(settings, guard.check_settings().await?)?;
    Ok(LoadedGuard { guard, digest, hooks })
}

/// Returns the hooks of a guard. Fails if it has none, or does not have those that the configuration names.
fn checked_hooks(
    settings: &Settings,
    present: Vec<GuardHook>,
) -> Result<BTreeSet<GuardHook>, LoadError> {
    let present: BTreeSet<_> = present.into_iter().collect();
    let missing = settings.hooks.required().filter(|hook| !present.contains(hook));
    let missing: Vec<_> = missing.map(GuardHook::name).collect();
    if present.is_empty() || !missing.is_empty() {
        let present = present.into_iter().map(GuardHook::name).collect();
        return Err(LoadError::GuardHooks { missing, present });
    }
    Ok(present)
}

/// Returns the names of the other hooks of a guard that ends the streaming of responses without being told to: it has
/// `after_model` besides others and no window of streams, no hooks are named, and its scope has requests to models. `None` for any other guard.
fn hooks_that_keep_streams(
    settings: &Settings,
    present: &BTreeSet<GuardHook>,
) -> Option<Vec<&'static str>> {
    let scope = &settings.scope;
    let decides = present.contains(&GuardHook::AfterModel)
        && settings.hooks == Hooks::default()
        && settings.stream_window.is_none()
        && scope.tools.is_none()
        && scope.clients.is_none();
    let others = present.iter().filter(|hook| match hook {
        GuardHook::AfterModel => false,
        // A definition has no key.
        GuardHook::Definition => !scope.is_of_keys(),
        GuardHook::Before | GuardHook::After | GuardHook::BeforeModel => true,
    });
    let others: Vec<_> = others.map(|hook| hook.name()).collect();
    Some(others).filter(|others| decides && !others.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;
    use airlock_sandbox::Limits;

    fn settings(named: Option<&[GuardHook]>) -> Settings {
        let hooks = named.map(|named| named.iter().copied().collect::<Hooks>());
        Settings {
            name: "g".into(),
            component: "g.wasm".into(),
            scope: Scope::default(),
            hooks: hooks.unwrap_or_default(),
            settings: "{}".into(),
            limits: Limits::PLUGIN,
            stream_window: None,
        }
    }

    #[test]
    fn a_guard_has_the_hooks_that_its_configuration_names() {
        use GuardHook::{After, Before, Definition};
        let named: &[GuardHook] = &[Before, Definition];
        for (named, present, problem) in [
            (None, vec![After], None),
            (Some(named), vec![After, Before, Definition], None),
            (
                Some(named),
                vec![After, Before, Before],
                Some("the guard has no hook definition; it has before, after"),
            ),
            (None, vec![], Some("the guard has no hooks, so that it is never asked")),
        ] {
            let refused = checked_hooks(&settings(named), present).err();
            assert_eq!(refused.as_ref().map(LoadError::to_string).as_deref(), problem);
            assert!(refused.iter().all(|error| faulty_key(error) == "hooks"));
        }
    }

    #[test]
    fn a_guard_that_ends_streams_although_no_hooks_are_named_is_found() {
        use GuardHook::{After, AfterModel, Before, Definition};
        let all = BTreeSet::from([Before, After, Definition, AfterModel]);
        let unnamed = settings(None);
        let found = hooks_that_keep_streams(&unnamed, &all);
        assert_eq!(found, Some(vec!["before", "after", "definition"]));
        let of_keys = Scope { keys: Some(["ann".to_owned()].into()), ..Scope::default() };
        let of_keys = Settings { scope: of_keys, ..unnamed.clone() };
        let found = hooks_that_keep_streams(&of_keys, &all);
        assert_eq!(found, Some(vec!["before", "after"]), "a definition has no key");
        let of_tools = Scope { tools: Some(Vec::new()), ..Scope::default() };
        let of_tools = Settings { scope: of_tools, ..unnamed.clone() };
        assert_eq!(hooks_that_keep_streams(&of_tools, &all), None, "it is about no model");
        let in_windows = Settings { stream_window: Some(1024), ..unnamed.clone() };
        assert_eq!(hooks_that_keep_streams(&in_windows, &all), None);
        assert_eq!(hooks_that_keep_streams(&settings(Some(&[AfterModel])), &all), None);
        assert_eq!(hooks_that_keep_streams(&unnamed, &[Before, After].into()), None);
        assert_eq!(hooks_that_keep_streams(&unnamed, &[AfterModel].into()), None);
    }
}
