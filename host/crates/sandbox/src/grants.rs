//! What one plugin may use: what it asks for, as far as its operator grants it and its profile
//! allows. Absent is denied.

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
    /// A directory of its own for each call, seen as `/tmp` and removed afterwards.
    pub scratch: Option<Quota>,
    /// Stores that outlive its calls.
    pub stores: Vec<Store>,
    /// Tools that it may call, by full name `<client>-<tool>`.
    pub tools: Vec<String>,
    /// Whether it sees the real time. Without it, clocks start at the same moment in every call and
    /// advance as they are read.
    pub clocks: bool,
    /// Whether it is given real randomness. Without it, every call draws the same numbers.
    pub random: bool,
    /// What it may send over HTTP.
    pub http: Option<Arc<Policy>>,
    /// Secrets that are attached to its requests.
    pub credentials: Arc<Credentials>,
    /// What it asks for and is not granted, by name, so that a guest can tell a refusal from a
    /// slip.
    pub denied: Arc<Denied>,
    /// The names of the secrets that it has.
    pub secrets: Arc<BTreeSet<String>>,
    /// The secrets whose value it may see.
    pub revealed: Arc<BTreeMap<String, Secret>>,
    /// Finds any of its secrets in what it says.
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

/// What the host lends from, the same for all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub struct Lender {
    /// Where stores are kept.
    pub database: Option<Database>,
    /// The way out.
    pub egress: Option<Egress>,
}

/// One granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The directory on the host.
    pub path: PathBuf,
    /// Whether the guest may change what is in it.
    pub access: Access,
    /// What may be in it, where the guest may change that.
    pub quota: Quota,
}

/// How a directory is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading alone.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// What a directory may hold, with all below it, before a guest may add no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// A store of keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Its name in the guest: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// Bytes of keys and values that it may hold.
    pub max_bytes: u64,
}
