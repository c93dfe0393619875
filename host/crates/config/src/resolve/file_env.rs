//! The directory of the file and the environment of the gateway, to which values of the file refer.

use std::path::{Path, PathBuf};

use super::resolved::Resolved;
use crate::vault::VaultSecrets;
use airlock_config_file::{
    env_text::{EnvText, has_reference},
    environment::Env,
    refused::{InvalidValue, Referent},
    vault_reference::VaultReference,
};
use airlock_core::secret::Secret;

/// The directory of the file and the gateway's environment.
#[derive(Clone, Copy)]
pub(super) struct FileEnv<'a> {
    pub(super) directory: &'a Path,
    pub(super) variables: Env<'a>,
    /// The secrets of vaults; `None` if there are no vaults.
    pub(super) vaults: Option<&'a VaultSecrets<'a>>,
    /// True if the configuration was loaded from a file.
    pub(super) is_file: bool,
}

/// Message about a text with a reference that would be used as it is written.
const NOT_EXPANDED: &str = "the gateway does not expand `${…}`: put the whole value into a variable of its environment and write \"env.NAME\", or \
     write {\"value\": \"…\"} for a text that has `${…}` on purpose";

/// Message about a secret of a vault where there can be none.
const NO_VAULTS: &str =
    "is a secret of a vault, and only a program that embeds the gateway can register vaults";

impl FileEnv<'_> {
    /// Returns text as written or from the environment.
    pub(super) fn text(&self, text: EnvText) -> Result<Secret, InvalidValue> {
        match text {
            EnvText::Written(text) if text.expose().is_empty() => Err("is empty".into()),
            EnvText::Written(text) if has_reference(text.expose()) => Err(NOT_EXPANDED.into()),
            EnvText::Written(text) | EnvText::Literal(text) => Ok(text),
            EnvText::Variable(name) => self.variable(&name),
            EnvText::Vaulted(reference) => self.vaulted(&reference),
        }
    }

    /// Returns a secret of a vault.
    pub(super) fn vaulted(&self, reference: &VaultReference) -> Result<Secret, InvalidValue> {
        let secrets = self.vaults.ok_or(NO_VAULTS)?;
        secrets.find(reference).map_err(InvalidValue::from)
    }

    /// Returns the value of a variable that must have one.
    pub(super) fn variable(&self, name: &str) -> Result<Secret, InvalidValue> {
        match (self.variables)(name) {
            None => Err(without_value(name, "is not set")),
            Some(value) if value.is_empty() => Err(without_value(name, "is empty")),
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

fn without_value(name: &str, state: &str) -> InvalidValue {
    let message = format_args!("the environment variable {name} {state}");
    InvalidValue::absent(Referent::Variable(name.to_owned()), message)
}
