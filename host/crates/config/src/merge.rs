//! Merges the entries of the store, which operators change while gateways run, into the elements of the
//! configuration file.
//!
//! An element of the file and an entry of the store belong together if they have the same kind and
//! name. The entry has effect as long as the element is the one that it was made for, which the digest
//! in the entry tells; if the file was edited since, the file has effect, and the entry is reported.
//!
//! An entry that is not valid, or that cannot be opened, is left out. The element that it stands in place
//! of stays out too: it might open what the operator meant to close. For the same reason a virtual key is
//! refused as long as a role or the environment that it names in the file is taken away by an entry.
//!
//! A setting of the store that is not valid is an exception: the file decides, except for the switch of all
//! tools, which is off then.
//!
//! An element of the file that is not valid beside the entries, such as a client with a fallback that an
//! operator has disabled, is left out too: it must not keep the other entries from having effect.
//!
//! A virtual key of the file without a credential gets the digest of the one that the gateway has made for
//! it, an entry of [`EntryKind::KeyValue`]. It stays valid when the rest of the key is edited.

mod kinds;
mod layout;
mod plan;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use airlock_store::{
    SealError,
    entries::{Entries, EntryKind},
};
use parking_lot::Mutex;
use serde_json::Value;

pub use self::kinds::{SETTINGS, check_setting};
use self::plan::Plan;
use super::{
    config::Config,
    load,
    place::Place,
    vault::{VaultReads, Vaults},
};
use airlock_config_file::{
    environment::{Env, environment},
    error::{ConfigError, Problem},
};

/// Maximum attempts to resolve the rest without entries that are not valid. The first one finds
/// all of them, unless one is valid only beside another that is not: a key needs its team, and that its
/// customer.
const MAX_ATTEMPTS: usize = 8;

/// A configuration that was merged.
#[derive(Debug, Clone)]
pub struct Merged {
    /// The settings.
    pub config: Config,
    /// Every element that has effect, and those of the file that are removed.
    pub elements: Vec<Element>,
    /// Entries that have no effect, and elements of the file that do not fit to the entries.
    pub left_out: Vec<LeftOut>,
}

/// An element of the merged configuration, or a value of [`EntryKind::Setting`]. It may have secrets in it.
#[derive(Clone, PartialEq)]
pub struct Element {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name.
    pub name: String,
    /// Digest of the element of the file with this kind and name; `None` if the file has none.
    pub in_file: Option<[u8; 32]>,
    /// True if an entry of the store has effect, or keeps the element of the file from having one.
    pub in_store: bool,
    /// The element; `None` if an entry removes that of the file, or stands in its place and is not valid.
    /// With secrets.
    pub value: Option<Value>,
}

airlock_strings::debug_fields!(Element { kind, name });

/// An entry of the store that has no effect, or an element of the file that does not fit to the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name.
    pub name: String,
    /// Reason for it.
    pub reason: LeftOutReason,
}

/// Reason that an entry or an element has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOutReason {
    /// The element of the file was changed after the entry was made.
    FileChanged,
    /// The entry is not valid, or does not fit the rest of the configuration. The keys are relative to the
    /// entry. The element of the file that it stands in place of has no effect either. Also the reason of an
    /// element of the file that does not fit to the entries.
    Invalid(Vec<Problem>),
    /// The entry cannot be opened: the gateway does not have the key that it is sealed with, or it was
    /// altered. The element of the file that it stands in place of has no effect either.
    Unreadable(SealError),
}

/// A configuration file that is read again and again. While it is not valid, its last valid content
/// stands in for it, so that what operators change has effect all the same: a key must be refused when it
/// is revoked, whatever is wrong with the file.
pub struct ConfigSource {
    path: PathBuf,
    last_valid: Mutex<Option<Arc<Value>>>,
    /// Content that was read last and cannot be used, although it is valid.
    refused: Mutex<Option<RefusedContent>>,
    /// Vaults of the embedding program.
    vaults: Vaults,
}

/// A content of which nothing can be made.
struct RefusedContent {
    json: Value,
    problems: Vec<Problem>,
}

// Leaves the content out, which may have secrets.
airlock_strings::debug_fields!(ConfigSource { path });

/// A configuration of a file and of entries.
#[derive(Debug)]
pub struct Loaded<T = ()> {
    /// The merged configuration.
    pub merged: Merged,
    /// Its settings as they are made for use; `None` if that fails for the last valid content, for example
    /// because a file is gone, or was not tried.
    pub made: Option<T>,
    /// Reason that the present content of the file is not used; `None` if it is.
    pub problem: Option<ConfigError>,
}

impl ConfigSource {
    /// Names a file. Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            last_valid: Mutex::default(),
            refused: Mutex::default(),
            vaults: Vaults::default(),
        }
    }

    /// Sets the vaults to which its values may refer. They are asked while the file is read, so that must happen on
    /// a blocking thread.
    #[must_use]
    pub fn with_vaults(self, vaults: Vaults) -> Self {
        Self { vaults, ..self }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file and merges entries into it. An entry that is not valid is left out. Fails if the
    /// file cannot be read or is not valid by itself, and never was. A content of which [`Self::load_made`]
    /// could make nothing is not used here either.
    pub fn load(&self, entries: &Entries) -> Result<Loaded, ConfigError> {
        let read = self.read(entries, VaultReads::Unknown).and_then(|(json, merged)| {
            self.check_refused(&json)?;
            Ok(merged)
        });
        match read {
            Ok(merged) => Ok(Loaded { merged, made: Some(()), problem: None }),
            Err(problem) => self.load_last(entries, problem, |_| Ok(())),
        }
    }

    /// Merges entries into the last valid content, because the file cannot be read in time. Nothing is read
    /// and nothing made. Fails if there is no such content.
    pub fn load_unread<T>(&self, entries: &Entries) -> Result<Loaded<T>, ConfigError> {
        self.load_last(entries, self.unread(), |_| Err(Vec::new()))
    }

    /// Returns the problem of a file that is not read in time.
    pub fn unread(&self) -> ConfigError {
        let source = io::Error::new(
            io::ErrorKind::TimedOut,
            "the file, or one that it names, was not read within a few seconds",
        );
        ConfigError::Unreadable { file: self.path.display().to_string(), source }
    }

    /// Does the same as [`Self::load`], and makes something of the configuration. A content for which `prepare`
    /// fails is not used either. One for which it succeeds is the last valid one from now on.
    pub fn load_made<T>(
        &self,
        entries: &Entries,
        prepare: impl Fn(&Config) -> Result<T, Vec<Problem>>,
    ) -> Result<Loaded<T>, ConfigError> {
        let (json, merged) = match self.read(entries, VaultReads::All) {
            Ok(read) => read,
            Err(problem) => return self.load_last(entries, problem, prepare),
        };
        match prepare(&merged.config) {
            Ok(made) => {
                *self.refused.lock() = None;
                *self.last_valid.lock() = Some(Arc::new(json));
                Ok(Loaded { merged, made: Some(made), problem: None })
            }
            Err(problems) => {
                let problem = self.invalid(problems.clone());
                *self.refused.lock() = Some(RefusedContent { json, problems });
                self.load_last(entries, problem, prepare)
            }
        }
    }

    /// Merges entries into the last valid content. Fails with the problem of the present one if there is none.
    fn load_last<T>(
        &self,
        entries: &Entries,
        problem: ConfigError,
        prepare: impl Fn(&Config) -> Result<T, Vec<Problem>>,
    ) -> Result<Loaded<T>, ConfigError> {
        let last_valid = self.last_valid.lock().clone();
        match last_valid.map(|json| self.merge(&json, entries, VaultReads::Nothing)) {
            Some(Ok(merged)) => {
                let made = prepare(&merged.config).ok();
                Ok(Loaded { merged, made, problem: Some(problem) })
            }
            Some(Err(_)) | None => Err(problem),
        }
    }

    /// Merges entries into another content of the file. Nothing is kept. Fails if that is not valid.
    pub fn preview(&self, json: &Value, entries: &Entries) -> Result<Merged, Vec<Problem>> {
        self.merge(json, entries, VaultReads::Unknown)
    }

    fn read(&self, entries: &Entries, reads: VaultReads) -> Result<(Value, Merged), ConfigError> {
        let json = load::read_json_again(&self.path)?;
        let json = json.map_err(|problem| self.invalid(vec![problem]))?;
        let merged = self.merge(&json, entries, reads);
        let merged = merged.map_err(|problems| self.invalid(problems))?;
        Ok((json, merged))
    }

    /// Fails if nothing could be made of this content.
    fn check_refused(&self, json: &Value) -> Result<(), ConfigError> {
        match &*self.refused.lock() {
            Some(refused) if refused.json == *json => Err(self.invalid(refused.problems.clone())),
            Some(_) | None => Ok(()),
        }
    }

    fn merge(
        &self,
        json: &Value,
        entries: &Entries,
        reads: VaultReads,
    ) -> Result<Merged, Vec<Problem>> {
        self.vaults.resolve_blocking(reads, |secrets| {
            let place = Place::of_file(&self.path).with_vaults(secrets);
            merge(json, place, &environment, entries)
        })
    }

    fn invalid(&self, problems: Vec<Problem>) -> ConfigError {
        ConfigError::Invalid { file: self.path.display().to_string(), problems }
    }
}

/// Merges entries into a configuration. Fails with the problems of the file, and with those that the entries
/// lead to outside every element.
pub(super) fn merge(
    json: &Value,
    place: Place<'_>,
    env: Env<'_>,
    entries: &Entries,
) -> Result<Merged, Vec<Problem>> {
    let (config, problems) = load::valid_parts(json, place, env);
    let alone = config.filter(|_| problems.is_empty()).ok_or(problems)?;
    let mut plan = Plan::new(json, entries);
    if !plan.changes_anything() {
        return Ok(plan.finish(alone));
    }
    let mut attempts = 1;
    loop {
        let attempt = plan.attempt(place, env)?;
        if attempt.is_valid() {
            let config = load::located(attempt.config, &plan.merged_json(), place);
            return Ok(plan.finish(config));
        }
        if attempts == MAX_ATTEMPTS || !attempt.has_invalid_elements() {
            return Err(attempt.into_problems());
        }
        plan.leave_out(attempt);
        attempts += 1;
    }
}
