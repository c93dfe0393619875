//! Settings of one guard.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use super::Scope;
use airlock_core::tool::GuardHook;
use airlock_sandbox::Limits;

/// Settings of one guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its name, which no other guard has.
    pub name: Arc<str>,
    /// The file of its component.
    pub component: PathBuf,
    /// The calls that it is asked about.
    pub scope: Scope,
    /// The hooks that are run.
    pub hooks: Hooks,
    /// Its own settings: the JSON text of an object, which the guard checks.
    pub settings: Arc<str>,
    /// Limits of one hook.
    pub limits: Limits,
    /// Bytes of each text of a streamed response that are held back while the guard looks at a part of it; `None` if it
    /// sees responses whole.
    pub stream_window: Option<usize>,
}

/// Hooks of a guard that are run. The default has all that the guard has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks(Option<BTreeSet<GuardHook>>);

impl Hooks {
    /// Returns whether a hook is run if the guard has it.
    pub fn has(&self, hook: GuardHook) -> bool {
        self.0.as_ref().is_none_or(|hooks| hooks.contains(&hook))
    }

    /// Iterates over the hooks that the guard must have.
    pub fn required(&self) -> impl Iterator<Item = GuardHook> {
        self.0.iter().flatten().copied()
    }
}

impl FromIterator<GuardHook> for Hooks {
    fn from_iter<T: IntoIterator<Item = GuardHook>>(hooks: T) -> Self {
        Self(Some(hooks.into_iter().collect()))
    }
}
