//! `records`.

use std::path::Path;

use url::Url;

use super::{
    file_env::FileEnv,
    name::{MAX_NAME_BYTES, is_plain},
    resolved::Resolved,
    tls,
};
use airlock_config_file::{
    env_text::EnvText,
    file::{self, StoreKey},
    refused::InvalidValue,
};
use airlock_records::{
    AuditPlace, CallLogSettings, CheckpointPlace, OnFailure, RecordSettings, SigningKeySource,
};

/// Directory of the audit log without the key, beside the file.
const DIRECTORY: &str = "audit";
/// Name of a gateway without the key.
const NAME: &str = "airlock";
/// Maximum files that checkpoints are added to: caps `publish`. Each checkpoint is written to all of them.
const MAX_PUBLISHED: usize = 8;

/// Resolves the records. `has_store` is true if the file has `store`.
pub(super) fn resolve(
    file: file::Records,
    has_store: bool,
    env: FileEnv<'_>,
) -> Resolved<RecordSettings> {
    Resolved::new(|problems| {
        let file::Records { call_log, audit, on_failure } = file;
        let call_log = call_log.enabled.unwrap_or(has_store).then(|| CallLogSettings {
            retention: call_log.retention.get().0,
            contents: call_log.contents,
        });
        let is_audited = audit.enabled;
        let audit = problems.take("audit", self::audit(audit, env)).filter(|_| is_audited);
        let by_default = if is_audited { OnFailure::Refuse } else { OnFailure::Count };
        let on_failure = on_failure.map_or(by_default, |written| match written {
            file::OnFailure::Refuse => OnFailure::Refuse,
            file::OnFailure::Count => OnFailure::Count,
        });
        if on_failure == OnFailure::Refuse && call_log.is_none() && audit.is_none() {
            problems.refuse(
                "on_failure",
                "is \"refuse\", and there is no log: enable `call_log` or `audit`",
            );
        }
        RecordSettings { call_log, audit, on_failure }
    })
}

/// Resolves the audit log, enabled or not.
fn audit(file: file::Audit, env: FileEnv<'_>) -> Resolved<Option<AuditPlace>> {
    Resolved::new(|problems| {
        let name = file.name.unwrap_or_else(|| NAME.to_owned());
        if !is_plain(&name, MAX_NAME_BYTES, ".-_/") {
            problems.refuse(
                "name",
                format_args!(
                    "expected 1 to {MAX_NAME_BYTES} letters, digits, dots, hyphens, underscores and slashes"
                ),
            );
        }
        if file.publish.len() > MAX_PUBLISHED {
            problems.refuse("publish", format_args!("has more than {MAX_PUBLISHED} entries"));
        }
        if file.old_key.is_some() && file.key.is_none() {
            problems.refuse("old_key", "needs the new `key` beside it");
        }
        let publish = Resolved::elements(file.publish, |problems, place| {
            problems.accept_whole(checkpoint_place(place, env))
        });
        let directory = file.dir.as_deref().unwrap_or_else(|| Path::new(DIRECTORY));
        Some(AuditPlace {
            directory: problems.take("dir", env.path(directory)),
            name,
            key: file.key.and_then(|key| problems.take("key", audit_key(key, env))),
            old_key: file.old_key.and_then(|key| problems.take("old_key", audit_key(key, env))),
            publish: problems.take("publish", publish),
            checkpoint_interval: file.checkpoint_interval.get().0,
        })
    })
}

/// Returns the place that a text names. Errors do not quote a URL, because it may have a secret.
fn checkpoint_place(text: EnvText, env: FileEnv<'_>) -> Result<CheckpointPlace, InvalidValue> {
    let text = env.text(text)?;
    if !text.expose().contains("://") {
        return Ok(CheckpointPlace::File(env.directory.join(text.expose())));
    }
    let url = Url::parse(text.expose()).ok().filter(|url| url.scheme() == "https");
    let host = url.as_ref().and_then(Url::host_str).map(str::to_owned);
    let host = host.ok_or("expected a path, or a URL that begins with https://")?;
    Ok(CheckpointPlace::Url { url: text, host })
}

fn audit_key(key: StoreKey, env: FileEnv<'_>) -> Resolved<Option<SigningKeySource>> {
    Resolved::new(|problems| match key {
        StoreKey::Variable(name) => {
            problems.accept_whole(env.variable(&name)).map(SigningKeySource::Text)
        }
        StoreKey::File(path) => {
            Some(SigningKeySource::File(problems.take("file", tls::path(&path, env))))
        }
    })
}
