//! Loads the components of guards, once, at the start.

use std::{collections::BTreeSet, sync::Arc};

use tracing::info;

use super::{Guards, Settings, guards::LoadedGuard};
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
    let hooks = checked_hooks(settings, guard.check_settings()?)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hooks, Scope};
    use airlock_sandbox::Limits;

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
            let hooks = named.map(|named| named.iter().copied().collect::<Hooks>());
            let settings = Settings {
                name: "g".into(),
                component: "g.wasm".into(),
                scope: Scope::default(),
                hooks: hooks.unwrap_or_default(),
                settings: "{}".into(),
                limits: Limits::PLUGIN,
            };
            let refused = checked_hooks(&settings, present).err();
            assert_eq!(refused.as_ref().map(LoadError::to_string).as_deref(), problem);
            assert!(refused.iter().all(|error| faulty_key(error) == "hooks"));
        }
    }
}
