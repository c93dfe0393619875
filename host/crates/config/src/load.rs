//! From the text of a configuration file to its settings.

use std::{
    fs::File as OpenedFile,
    io::{self, Read as _},
    path::Path,
};

use serde_json::Value;

use super::{
    config::Config,
    environment::{Env, environment},
    error::{ConfigError, Problem},
    file::File,
    fingerprint::Fingerprint,
    json::{self, MAX_FILE_BYTES},
    read::{self, Reading},
    resolve::{self, AbsentNames, NamedPart},
};
use airlock_core::regular_file;
use airlock_lock::FILE_NAME as LOCK_FILE;

/// Place of a configuration.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Directory that its paths are relative to.
    pub(super) directory: &'a Path,
    /// The file; `None` for a text.
    pub(super) file: Option<&'a Path>,
}

impl<'a> Place<'a> {
    pub(super) fn of_file(path: &'a Path) -> Self {
        Self { file: Some(path), ..Self::of_text(path) }
    }

    /// Returns the place of a text that is named `origin`.
    fn of_text(origin: &'a Path) -> Self {
        Self { directory: origin.parent().unwrap_or(Path::new("")), file: None }
    }
}

impl Config {
    /// Loads a configuration file; `env.NAME` refers to the process's environment.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        whole(Self::load_valid_parts(path)?, path.display().to_string())
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
    if let Some(file) = place.file {
        config.lock = Some(file.with_file_name(LOCK_FILE));
        config.file = Some(file.to_owned());
        config.sandbox.off_limits = config.own_files(file);
    }
    config
}

/// Returns the configuration if it has no problems.
pub(super) fn whole(
    (config, problems): (Option<Config>, Vec<Problem>),
    file: String,
) -> Result<Config, ConfigError> {
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(ConfigError::Invalid { file, problems }),
    }
}
