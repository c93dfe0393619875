//! Grants of one plugin: what it asks for, as far as its operator grants it and its profile allows
//! it. What is absent is denied.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use airlock_core::secret::{Scrubber, Secret};
use airlock_egress::{Credentials, Egress, Policy};
use airlock_store::Database;
use serde_json::{Map, Value};

/// Everything that a plugin may use besides its log and its own call.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// Its configuration.
    pub config: Arc<Map<String, Value>>,
    /// Directories, each seen by the guest as `/<name>`.
    pub directories: Vec<Directory>,
    /// Quota of a scratch directory, which each call gets for itself as `/tmp` and which is removed
    /// afterwards; `None` for no such directory.
    pub scratch: Option<Quota>,
    /// Key-value stores, which outlive its calls.
    pub stores: Vec<Store>,
    /// Tools that it may call, by full name `<client>-<tool>`.
    pub tools: Vec<String>,
    /// True if it sees the real time. Otherwise clocks start at the same moment in every call and
    /// advance as they are read.
    pub clocks: bool,
    /// True if it gets real randomness. Otherwise every call draws the same numbers.
    pub random: bool,
    /// Policy on its HTTP requests; `None` denies all of them.
    pub http: Option<Arc<Policy>>,
    /// Secrets that are attached to its requests.
    pub credentials: Arc<Credentials>,
    /// Names that it asks for and is not granted, so that a guest can distinguish a denial from a
    /// typing error.
    pub denied: Arc<Denied>,
    /// Names of the secrets that it has.
    pub secrets: Arc<BTreeSet<String>>,
    /// Secrets whose value it may see.
    pub revealed: Arc<BTreeMap<String, Secret>>,
    /// Redacts any of its secrets from its output.
    pub scrubber: Arc<Scrubber>,
}

/// Names that are asked for and not granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    /// Stores.
    pub stores: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
}

/// Host resources behind the grants, the same for all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub struct HostResources {
    /// Database of the stores.
    pub database: Option<Database>,
    /// Client for outbound HTTP.
    pub egress: Option<Egress>,
}

/// One granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The directory on the host.
    pub path: PathBuf,
    /// Access that the guest has to it.
    pub access: Access,
    /// Limit on its contents, if the guest may change them.
    pub quota: Quota,
}

/// Access to a granted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read access only.
    ReadOnly,
    /// Read and write access.
    ReadWrite,
}

/// Limit on the contents of a directory, everything below it included. At the limit, a guest may
/// add no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// A key-value store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// Most bytes that it may hold: its keys and values, and an overhead for each entry.
    pub max_bytes: u64,
}
