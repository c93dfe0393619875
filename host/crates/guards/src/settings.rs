//! Settings of one guard.

use std::{path::PathBuf, sync::Arc};

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
}

/// Hooks of a guard that are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hooks {
    /// The hook before a call.
    Before,
    /// The hook after a call.
    After,
    /// Both hooks.
    #[default]
    Both,
}

impl Hooks {
    /// Returns whether a hook is run.
    pub fn has(self, hook: GuardHook) -> bool {
        match self {
            Self::Both => true,
            Self::Before => hook == GuardHook::Before,
            Self::After => hook == GuardHook::After,
        }
    }
}
