//! The directory of the file and the environment of the gateway, to which values of the file refer.

use std::path::{Path, PathBuf};

use super::resolved::Resolved;
use crate::{
    env_text::{EnvText, has_reference},
    environment::Env,
    error::Problem,
};
use airlock_core::secret::Secret;

/// The directory of the file and the gateway's environment.
#[derive(Clone, Copy)]
pub(super) struct FileEnv<'a> {
    pub(super) directory: &'a Path,
    pub(super) variables: Env<'a>,
}

/// Reason that a text has no value. The text is not quoted: it may be a credential.
#[derive(Debug, thiserror::Error)]
pub(super) enum TextError {
    /// It has nothing in it.
    #[error("is empty")]
    Empty,
    /// It has a reference that would be used as it is written.
    #[error(
        "the gateway does not expand `${{…}}`: put the whole value into a variable of its environment and write \"env.NAME\", or \
         write {{\"value\": \"…\"}} for a text that has `${{…}}` on purpose"
    )]
    NotExpanded,
    /// Its variable is not set.
    #[error("{VARIABLE}{0} is not set")]
    Unset(String),
    /// Its variable is empty.
    #[error("{VARIABLE}{0} is empty")]
    EmptyVariable(String),
}

/// Beginning of the message about a variable without a value; its name follows.
const VARIABLE: &str = "the environment variable ";

/// Returns the variable if the problem is that it has no value.
pub(crate) fn unset_variable(problem: &Problem) -> Option<&str> {
    problem.message.strip_prefix(VARIABLE)?.split_once(' ').map(|(name, _)| name)
}

impl FileEnv<'_> {
    /// Returns text as written or from the environment.
    pub(super) fn text(&self, text: EnvText) -> Result<Secret, TextError> {
        match text {
            EnvText::Written(text) if text.expose().is_empty() => Err(TextError::Empty),
            EnvText::Written(text) if has_reference(text.expose()) => Err(TextError::NotExpanded),
            EnvText::Written(text) | EnvText::Literal(text) => Ok(text),
            EnvText::Variable(name) => self.variable(&name),
        }
    }

    /// Returns the value of a variable that must have one.
    pub(super) fn variable(&self, name: &str) -> Result<Secret, TextError> {
        match (self.variables)(name) {
            None => Err(TextError::Unset(name.to_owned())),
            Some(value) if value.is_empty() => Err(TextError::EmptyVariable(name.to_owned())),
            Some(value) => Ok(Secret::new(value)),
        }
    }

    /// Returns the value of a variable that need not have one.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        (self.variables)(name).filter(|value| !value.is_empty())
    }

    /// Returns the path that a path of the file means.
    pub(super) fn path(&self, path: &Path) -> Resolved<PathBuf> {
        Resolved::new(|problems| {
            if path.as_os_str().is_empty() {
                problems.refuse_whole("is empty");
            }
            self.directory.join(path)
        })
    }

    /// Returns the paths that the paths of a list mean.
    pub(super) fn paths(&self, paths: &[PathBuf]) -> Resolved<Vec<PathBuf>> {
        Resolved::elements(paths, |problems, path| Some(problems.merge(self.path(path))))
    }
}
