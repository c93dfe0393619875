//! Merges the entries of the store, which operators change while gateways run, into the elements of the
//! configuration file.
//!
//! An element of the file and an entry of the store belong together if they have the same kind and
//! name. The entry has effect as long as the element is the one that it was made for, which the digest
//! in the entry tells; if the file was edited since, the file has effect, and the entry is reported.
//!
//! An entry that is not valid is left out. The element that it stands in place of stays out too: it
//! might open what the operator meant to close.

mod layout;
mod plan;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use airlock_store::entries::{Entries, EntryKind};
use parking_lot::Mutex;
use serde_json::Value;

use self::plan::Plan;
use super::{
    config::Config,
    environment::{Env, environment},
    error::{ConfigError, Problem},
    load::{self, Place},
    resolve::NamedPart,
};

/// Maximum attempts to resolve the rest without entries that are not valid. The first one finds
/// all of them, unless one is valid only beside another that is not.
const MAX_ATTEMPTS: usize = 4;

/// A configuration that was merged.
#[derive(Debug, Clone)]
pub struct Merged {
    /// The settings.
    pub config: Config,
    /// Every element that has effect, and those of the file that are removed.
    pub elements: Vec<Element>,
    /// Entries that have no effect.
    pub left_out: Vec<LeftOut>,
}

/// An element of the merged configuration. It may have secrets in it.
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

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Element")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// An entry of the store that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name.
    pub name: String,
    /// Reason for it.
    pub reason: LeftOutReason,
}

/// Reason that an entry has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOutReason {
    /// The element of the file was changed after the entry was made.
    FileChanged,
    /// The entry is not valid, or does not fit the rest of the configuration. The keys are relative to the
    /// entry. The element of the file that it stands in place of has no effect either.
    Invalid(Vec<Problem>),
}

/// A configuration file that is read again and again. While it is not valid, its last valid content
/// stands in for it, so that what operators change has effect all the same: a key must be refused when it
/// is revoked, whatever is wrong with the file.
pub struct ConfigSource {
    path: PathBuf,
    last_valid: Mutex<Option<Arc<Value>>>,
}

impl fmt::Debug for ConfigSource {
    /// Leaves the content out, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSource").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A configuration of a file and of entries.
#[derive(Debug)]
pub struct Loaded {
    /// The merged configuration.
    pub merged: Merged,
    /// Reason that the present content of the file is not used; `None` if it is.
    pub problem: Option<ConfigError>,
}

impl ConfigSource {
    /// Names a file. Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, last_valid: Mutex::default() }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file and merges entries into it. An entry that is not valid is left out. Fails if the
    /// file cannot be read or is not valid by itself, and never was.
    pub fn load(&self, entries: &Entries) -> Result<Loaded, ConfigError> {
        let problem = match self.read(entries) {
            Ok((json, merged)) => {
                *self.last_valid.lock() = Some(Arc::new(json));
                return Ok(Loaded { merged, problem: None });
            }
            Err(problem) => problem,
        };
        let last_valid = self.last_valid.lock().clone();
        match last_valid.map(|json| self.merge(&json, entries)) {
            Some(Ok(merged)) => Ok(Loaded { merged, problem: Some(problem) }),
            Some(Err(_)) | None => Err(problem),
        }
    }

    /// Merges entries into another content of the file. Nothing is kept. Fails if that is not valid.
    pub fn preview(&self, json: &Value, entries: &Entries) -> Result<Merged, Vec<Problem>> {
        self.merge(json, entries)
    }

    fn read(&self, entries: &Entries) -> Result<(Value, Merged), ConfigError> {
        let json = load::read_json(&self.path)?.map_err(|problem| self.invalid(vec![problem]))?;
        let merged = self.merge(&json, entries).map_err(|problems| self.invalid(problems))?;
        Ok((json, merged))
    }

    fn merge(&self, json: &Value, entries: &Entries) -> Result<Merged, Vec<Problem>> {
        merge(json, Place::of_file(&self.path), &environment, entries)
    }

    fn invalid(&self, problems: Vec<Problem>) -> ConfigError {
        ConfigError::Invalid { file: self.path.display().to_string(), problems }
    }
}

/// Merges entries into a configuration. Fails with the problems of the file.
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
        if attempts == MAX_ATTEMPTS || attempt.problems_of_entries.is_empty() {
            return Err(attempt.into_problems());
        }
        plan.leave_out(attempt.problems_of_entries);
        attempts += 1;
    }
}

/// Returns the part of the file that has the elements of a kind.
fn part(kind: EntryKind) -> NamedPart {
    match kind {
        EntryKind::Client => NamedPart::Clients,
        EntryKind::VirtualKey => NamedPart::VirtualKeys,
    }
}
