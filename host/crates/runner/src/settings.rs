//! Settings of a runner, and the reasons that it cannot run a script.

use std::{path::PathBuf, sync::Arc};

/// Most scripts that run at the same time. Each is an instance of a sandbox, of 64 MiB by default and of 1 GiB at most, so
/// that all may take 62 GiB by default.
const MAX_CONCURRENT: u32 = 1_000;

/// Called with a message for people.
pub type MessageHook = dyn Fn(&str) + Send + Sync;

/// Settings of a [`Runner`](crate::Runner).
#[derive(Clone)]
pub struct RunnerSettings {
    /// Directory for compiled code, which only this user may write to. `None` for the default: `code` below
    /// `$AIRLOCK_CACHE_DIR`, else below `airlock` in the user's cache directory. If it cannot be used, this is logged, and
    /// executors are compiled by each process.
    pub cache_dir: Option<PathBuf>,
    /// Scripts that run at the same time, from 1 to 1,000; others wait. 64 by default. With the memory of each run, it bounds
    /// the memory of all.
    pub concurrent: u32,
    /// Called with a message for people when an executor begins to be compiled, which takes up to a minute once.
    pub on_compile: Option<Arc<MessageHook>>,
}

impl Default for RunnerSettings {
    fn default() -> Self {
        Self { cache_dir: None, concurrent: 64, on_compile: None }
    }
}

impl RunnerSettings {
    /// Fails if a setting is outside of its range.
    pub(crate) fn check(&self) -> Result<(), RunnerError> {
        if (1..=MAX_CONCURRENT).contains(&self.concurrent) {
            return Ok(());
        }
        Err(RunnerError::Concurrent { found: self.concurrent, most: MAX_CONCURRENT })
    }
}

/// Reason that a runner cannot be made, or cannot run a script whatever it does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The number of scripts at the same time is outside of its range.
    #[error("`concurrent` must be from 1 to {most}, found {found}")]
    Concurrent {
        /// The setting.
        found: u32,
        /// Its maximum.
        most: u32,
    },
    /// The sandbox cannot be made.
    #[error("the sandbox cannot be made")]
    Sandbox(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The program was built without the feature of the language.
    #[error(
        "this program was built without the language {language}: enable the Cargo feature of this name"
    )]
    Language {
        /// Name of the language, and of the feature.
        language: &'static str,
    },
    /// The executor of the language cannot be loaded. The next run tries again.
    #[error("the executor of {language} cannot be loaded")]
    Load {
        /// Name of the language.
        language: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The executor did not run the script, for a reason that is neither the script's nor a limit of it.
    #[error("the executor has failed")]
    Executor(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_scripts_at_the_same_time_has_a_range() {
        for (concurrent, is_good) in
            [(0, false), (1, true), (MAX_CONCURRENT, true), (MAX_CONCURRENT + 1, false)]
        {
            let settings = RunnerSettings { concurrent, ..RunnerSettings::default() };
            assert_eq!(settings.check().is_ok(), is_good, "{concurrent}");
        }
    }
}
