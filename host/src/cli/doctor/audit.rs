//! The audit log: the key that signs it, and its last checkpoint.

use std::{fs, path::Path, sync::Arc, time::SystemTime};

use super::{checkup::Check, finding::DoctorFinding};
use airlock_audit::{
    Checkpoint, SigningKey,
    read::{checkpoints_path, key_path, newest_checkpoint},
};
use airlock_config::Config;
use airlock_records::{AuditPlace, SigningKeySource};
use airlock_strings::with_causes;

const KEY: &str = "audit_key";
const CHECKPOINT: &str = "audit_checkpoint";

/// Returns the check of the audit log; none if the configuration has none.
pub(super) fn checks(config: &Arc<Config>) -> Option<Check> {
    let place = config.records.audit.clone()?;
    let shown = place.directory.display().to_string();
    Some(Check::blocking(CHECKPOINT, shown, move || inspect(&place)))
}

fn inspect(place: &AuditPlace) -> Vec<DoctorFinding> {
    let own =
        place.key.clone().unwrap_or_else(|| SigningKeySource::File(key_path(&place.directory)));
    let is_made = place.key.is_none();
    let key = match &own {
        // The gateway makes it at its first start.
        SigningKeySource::File(path) if is_made && !path.exists() => None,
        source => Some(read(source)),
    };
    match key {
        None => {
            vec![DoctorFinding::ok(KEY, shown(&own), "there is none yet, and the gateway makes it")]
        }
        Some(Err(problem)) => vec![
            DoctorFinding::error(KEY, shown(&own), problem)
                .valid("a private key of Ed25519 in PEM form, which its owner alone can use")
                .fix("`records.audit.key`, or `chmod 600` on its file"),
        ],
        Some(Ok(key)) => {
            let old = place.old_key.as_ref().and_then(|source| read(source).ok());
            let keys: Vec<_> = old.into_iter().chain([key]).collect();
            vec![
                DoctorFinding::ok(KEY, shown(&own), "the key can sign"),
                last_checkpoint(&place.directory, &keys),
            ]
        }
    }
}

fn shown(source: &SigningKeySource) -> String {
    match source {
        SigningKeySource::File(path) => path.display().to_string(),
        SigningKeySource::Text(_) => "records.audit.key".to_owned(),
    }
}

/// Reads a key. Fails with a text that has no part of it.
fn read(source: &SigningKeySource) -> Result<SigningKey, String> {
    match source {
        SigningKeySource::File(path) => SigningKey::read(path).map_err(|error| with_causes(&error)),
        SigningKeySource::Text(text) => SigningKey::parse(text.expose())
            .map_err(|error| format!("the key of the audit log {error}")),
    }
}

/// Checks that one of the keys has signed the last checkpoint of a log.
fn last_checkpoint(directory: &Path, keys: &[SigningKey]) -> DoctorFinding {
    let subject = directory.display().to_string();
    let checkpoint = match newest_checkpoint(directory) {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => return DoctorFinding::ok(CHECKPOINT, subject, "there is no checkpoint yet"),
        Err(error) => {
            return DoctorFinding::error(CHECKPOINT, subject, with_causes(&error))
                .valid("checkpoints that the user of the gateway can read")
                .fix("the owner and the mode of the directory");
        }
    };
    let Checkpoint { origin, size, .. } = &checkpoint;
    let age = age(&checkpoints_path(directory)).unwrap_or_default();
    let found = format!("the last checkpoint of {origin} has {size} lines{age}");
    if keys.iter().any(|key| checkpoint.is_signed_by(&key.public(origin))) {
        return DoctorFinding::ok(CHECKPOINT, subject, found);
    }
    DoctorFinding::error(CHECKPOINT, subject, format!("{found}, and another key has signed it"))
        .valid("a checkpoint that the key of the gateway has signed")
        .fix("`records.audit.key` and `records.audit.old_key`; `airlock audit verify` checks the whole log")
}

/// Returns the time since a file was changed, as the end of a sentence.
fn age(path: &Path) -> Option<String> {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    let age = SystemTime::now().duration_since(changed).ok()?;
    let seconds = std::time::Duration::from_secs(age.as_secs());
    Some(format!(" and was written {} ago", humantime::format_duration(seconds)))
}
