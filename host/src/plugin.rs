//! Plugins: their rights, their accepted state, and loading them while the gateway runs.
//!
//! Three documents have three owners. The [`Manifest`] is the author's and is embedded in the
//! component. The [`Answer`] is the operator's grant and is part of the gateway's configuration.
//! The [`Profile`] is the ceiling that the operator chose by name. A plugin is granted request ∩
//! grant ∩ ceiling ([`settle`]). The [`Lock`] records the accepted state. No model, guest or client
//! can change any of these documents: they are read only from files of the operator's.

mod answer;
mod component;
mod drift;
mod facts;
mod load;
mod lock;
mod lock_policy;
mod manifest;
mod plugins;
mod profile;
mod progress;
mod rights;
mod watch;

use std::path::PathBuf;

pub use self::{
    answer::{
        Answer, DirectoryAnswer, HttpAnswer, LimitsAnswer, QuotaAnswer, SecretAnswer, StoreAnswer,
    },
    drift::{Change, Drift},
    facts::{Facts, FactsError},
    lock::{FILE_NAME as LOCK_FILE, Lock, LockError, Pin},
    manifest::{
        Asked, BadManifest, Effect, FilesAccess, InjectRequest, Manifest, Request,
        SCHEMA as MANIFEST_SCHEMA, SECTION as MANIFEST_SECTION,
    },
    plugins::{Configured, Host, PluginError, Plugins, Reloaded},
    profile::Profile,
    rights::{ReadSecret, Refusal, Settled, settle},
};
pub(crate) use self::{component::read_component, progress::compiling};

/// Settings of one plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Path of the component.
    pub component: PathBuf,
    /// The operator's grant.
    pub answer: Answer,
}
