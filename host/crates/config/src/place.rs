//! The place of a configuration: where its paths begin, and whether it has a file and vaults.

use std::path::Path;

use super::vault::VaultSecrets;

/// Place of a configuration.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Directory that its paths are relative to.
    pub(super) directory: &'a Path,
    /// The file; `None` for a text.
    pub(super) file: Option<&'a Path>,
    /// The secrets of vaults; `None` if there are no vaults.
    pub(super) vaults: Option<&'a VaultSecrets<'a>>,
}

impl<'a> Place<'a> {
    pub(super) fn of_file(path: &'a Path) -> Self {
        Self { file: Some(path), ..Self::of_text(path) }
    }

    /// Returns the place of a text that is named `origin`.
    pub(super) fn of_text(origin: &'a Path) -> Self {
        let directory = origin.parent().unwrap_or(Path::new(""));
        Self { directory, file: None, vaults: None }
    }

    /// Returns the same place with the secrets of vaults.
    pub(super) fn with_vaults(self, vaults: &'a VaultSecrets<'a>) -> Self {
        Self { vaults: Some(vaults), ..self }
    }
}
