//! Rights of a plugin: the author's request, the operator's grant, and the result of both.
//!
//! Three documents have three owners. The [`Manifest`] is the author's and is embedded in the
//! component. The [`Answer`] is the operator's grant and is part of the gateway's configuration.
//! The [`Profile`] is the ceiling that the operator chose by name. A plugin is granted request ∩
//! grant ∩ ceiling ([`settle`]). The [`Lock`] records the accepted state. No model, guest or client
//! can change any of these documents: they are read only from files of the operator's.

mod answer;
mod drift;
mod facts;
mod lock;
mod manifest;
mod profile;
mod rights;

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
    profile::Profile,
    rights::{ReadSecret, Refusal, Settled, settle},
};
