//! From the text of a configuration file to its settings.

use std::{
    fs::File as OpenedFile,
    io::{self, Read as _},
    path::Path,
};

use serde_json::Value;

use super::{
    config::Config,
    fingerprint::Fingerprint,
    place::Place,
    resolve::{self, AbsentNames},
    vault::{VaultReads, Vaults},
};
use airlock_config_file::{
    environment::{Env, environment},
    error::{ConfigError, Problem},
    file::File,
    json::{self, MAX_FILE_BYTES},
    read::{self, Reading},
    refused::{NamedPart, RefusedValue},
};
use airlock_core::regular_file;
use airlock_lock::FILE_NAME as LOCK_FILE;

impl Config {
    /// Loads a configuration file; `env.NAME` refers to the process's environment.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        whole(Self::load_valid_parts(path)?, path.display().to_string())
    }

    /// Loads a configuration file like [`Self::load`]; `vault.NAME/REFERENCE` refers to these vaults. Fails, with the
    /// reference and never with a secret, if a vault is not registered or does not return a secret in time. A gateway of
    /// the result asks the vaults again at each reload.
    pub async fn load_with_vaults(path: &Path, vaults: &Vaults) -> Result<Self, ConfigError> {
        let origin = path.display().to_string();
        let json = match read_json(path)? {
            Ok(json) => json,
            Err(problem) => return whole((None, vec![problem]), origin),
        };
        let vaults = vaults.unread();
        let loaded = vaults.resolve(VaultReads::All, |secrets| {
            valid_parts(&json, Place::of_file(path).with_vaults(secrets), &environment)
        });
        whole(loaded.await, origin)
    }

    /// Parses the text of a configuration file like [`Self::parse`]; `vault.NAME/REFERENCE` refers to these vaults, as
    /// in [`Self::load_with_vaults`].
    pub async fn parse_with_vaults(
        text: &str,
        origin: &str,
        env: &(dyn Fn(&str) -> Option<String> + Sync),
        vaults: &Vaults,
    ) -> Result<Self, ConfigError> {
        let json = match json::parse(text) {
            Ok(json) => json,
            Err(problem) => return whole((None, vec![problem]), origin.to_owned()),
        };
        let vaults = vaults.unread();
        let parsed = vaults.resolve(VaultReads::All, |secrets| {
            valid_parts(&json, Place::of_text(Path::new(origin)).with_vaults(secrets), env)
        });
        whole(parsed.await, origin.to_owned())
    }

    /// Loads a configuration file and leaves out what is not valid. Returns all problems, and the
    /// rest; `None` if nothing of it can be used. With a problem, the result is good for further
    /// checks and not for a gateway. Fails if the file cannot be read.
    pub fn load_valid_parts(path: &Path) -> Result<(Option<Self>, Vec<Problem>), ConfigError> {
        Ok(match read_json(path)? {
            Ok(json) => valid_parts(&json, Place::of_file(path), &environment),
            Err(problem) => (None, vec![problem]),
        })
    }

    /// Parses the text of a configuration file. `origin` names the file in errors; paths are
    /// relative to its directory.
    pub fn parse(
        text: &str,
        origin: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        whole(Self::parse_valid_parts(text, origin, env), origin.to_owned())
    }

    /// Parses the text of a configuration file, and leaves out what is not valid. Returns all
    /// problems, and the rest; `None` if nothing of it can be used. With a problem, the result is
    /// good for further checks and not for a gateway.
    pub fn parse_valid_parts(
        text: &str,
        origin: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> (Option<Self>, Vec<Problem>) {
        match json::parse(text) {
            Ok(json) => valid_parts(&json, Place::of_text(Path::new(origin)), env),
            Err(problem) => (None, vec![problem]),
        }
    }
}

/// Reads a configuration file as JSON. The inner error is the problem of a file that is none.
pub(super) fn read_json(path: &Path) -> Result<Result<Value, Problem>, ConfigError> {
    read_opened(path, OpenedFile::open(path))
}

/// Reads a configuration file again, like [`read_json`]. Fails if it is not a regular file: reading another
/// one may never end.
pub(super) fn read_json_again(path: &Path) -> Result<Result<Value, Problem>, ConfigError> {
    read_opened(path, regular_file::open(path))
}

fn read_opened(
    path: &Path,
    opened: io::Result<OpenedFile>,
) -> Result<Result<Value, Problem>, ConfigError> {
    let mut bytes = Vec::new();
    // Reads one byte more than the limit, so that a file above the limit is detected without reading
    // all of it.
    let limit = MAX_FILE_BYTES as u64 + 1;
    opened
        .and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
        .map_err(|source| ConfigError::Unreadable { file: path.display().to_string(), source })?;
    let text = String::from_utf8(bytes).map_err(|_| Problem::of_file("is not UTF-8 text"));
    Ok(text.and_then(|text| json::parse(&text)))
}

/// Reads a configuration file as JSON, without resolving anything. Fails if it cannot be read, or is not
/// JSON without repeated keys.
pub fn read_file(path: &Path) -> Result<Value, ConfigError> {
    read_json(path)?.map_err(|problem| ConfigError::Invalid {
        file: path.display().to_string(),
        problems: vec![problem],
    })
}

/// Reads and resolves a configuration, and leaves out what is not valid.
pub(super) fn valid_parts(
    json: &Value,
    place: Place<'_>,
    env: Env<'_>,
) -> (Option<Config>, Vec<Problem>) {
    let Reading { value, mut problems, skipped } = read::read(json);
    let Some(file) = value else { return (None, problems) };
    problems.extend(stored_components(&file));
    let (config, refused) = resolve::resolve(file, place, env, &AbsentNames::default());
    problems.extend(skipped.correct(refused));
    (Some(located(config, json, place)), problems)
}

/// Returns the values of a file in the making that are refused, with the process's environment. `directory` is where it
/// will be.
pub fn refused_values(file: File, directory: &Path) -> Vec<RefusedValue> {
    // It will be a file, which may leave out the values of keys.
    let place = Place { directory, file: Some(directory), vaults: None };
    resolve::resolve(file, place, &environment, &AbsentNames::default()).1
}

/// Refuses components in the store: a file that names one would not keep the store from removing it.
fn stored_components(file: &File) -> impl Iterator<Item = Problem> {
    let clients = file.mcp.client_configs.iter();
    let stored = clients
        .filter(|client| client.wasm_config.as_ref().is_some_and(|plugin| plugin.stored.is_some()));
    stored.map(|client| Problem {
        key: NamedPart::Clients.key().named(&client.name).member("wasm_config").member("stored"),
        message: "is set by the management API and cannot be in a file: name the file of the component in `component`".to_owned(),
    })
}

/// Completes a configuration with what depends on its text and its place.
pub(super) fn located(mut config: Config, json: &Value, place: Place<'_>) -> Config {
    config.fingerprint = Fingerprint::new(json);
    if let Some(secrets) = place.vaults {
        config.vaults = secrets.vaults().clone();
    }
    if let Some(file) = place.file {
        config.lock = Some(file.with_file_name(LOCK_FILE));
        config.file = Some(file.to_owned());
        config.sandbox.off_limits = config.own_files(file);
    }
    config
}

/// Returns what was made from a file if it has no problems.
pub(super) fn whole<T>(
    (made, problems): (Option<T>, Vec<Problem>),
    file: String,
) -> Result<T, ConfigError> {
    match made {
        Some(made) if problems.is_empty() => Ok(made),
        _ => Err(ConfigError::Invalid { file, problems }),
    }
}
