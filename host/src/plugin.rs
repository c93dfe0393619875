//! What a plugin asks for, what its operator answers, and what it is therefore lent.
//!
//! Three documents with three owners: the [`Manifest`] is the author's and comes embedded in the
//! component; the [`Answer`] is the operator's and stands in the gateway's configuration; the
//! [`Profile`] is the ceiling that the operator chose by name. What is lent is request ∩ grant ∩
//! ceiling ([`settle`]). The [`Lock`] remembers what was accepted. None of it can be changed by a
//! model, a guest or a client: nothing here is reachable but through files of the operator's.

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
