//! From the text of a configuration file to its settings.

use std::{io::Read as _, path::Path};

use super::{
    config::Config,
    environment::environment,
    error::{ConfigError, Problem},
    fingerprint::Fingerprint,
    json::{self, MAX_FILE_BYTES},
    read::{self, Reading},
    resolve,
};
use airlock_lock::FILE_NAME as LOCK_FILE;

impl Config {
    /// Loads a configuration file; `env.NAME` refers to the process's environment.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        whole(Self::load_valid_parts(path)?, path.display().to_string())
    }

    /// Loads a configuration file and leaves out what is not valid. Returns all problems, and the
    /// rest; `None` if nothing of it can be used. With a problem, the result is good for further
    /// checks and not for a gateway. Fails if the file cannot be read.
    pub fn load_valid_parts(path: &Path) -> Result<(Option<Self>, Vec<Problem>), ConfigError> {
        let file = path.display().to_string();
        let mut bytes = Vec::new();
        // Reads one byte more than the limit, so that a file above the limit is detected without
        // reading all of it.
        let limit = MAX_FILE_BYTES as u64 + 1;
        std::fs::File::open(path)
            .and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
            .map_err(|source| ConfigError::Unreadable { file: file.clone(), source })?;
        let Ok(text) = String::from_utf8(bytes) else {
            return Ok((None, vec![Problem::of_file("is not UTF-8 text")]));
        };
        let (mut config, problems) = Self::parse_valid_parts(&text, &file, &environment);
        if let Some(config) = &mut config {
            config.lock = Some(path.with_file_name(LOCK_FILE));
            config.file = Some(path.to_owned());
            config.sandbox.off_limits = config.own_files(path);
        }
        Ok((config, problems))
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
        let json = match json::parse(text) {
            Ok(json) => json,
            Err(problem) => return (None, vec![problem]),
        };
        let Reading { value, mut problems, skipped } = read::read(&json);
        let Some(file) = value else { return (None, problems) };
        let base = Path::new(origin).parent().unwrap_or(Path::new(""));
        let (config, more) = resolve::resolve(file, base, env);
        problems.extend(skipped.correct(more));
        (Some(Self { fingerprint: Fingerprint::new(&json), ..config }), problems)
    }
}

/// Returns the configuration if it has no problems.
fn whole(
    (config, problems): (Option<Config>, Vec<Problem>),
    file: String,
) -> Result<Config, ConfigError> {
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(ConfigError::Invalid { file, problems }),
    }
}
