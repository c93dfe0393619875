//! The sources of one plugin.

use std::path::{Path, PathBuf};

use super::error::BuildError;
use crate::Language;
use airlock_manifest::ManifestSource;
use airlock_plugin::Manifest;

/// A directory that holds the sources of a plugin.
pub(super) struct Project {
    /// The directory, absolute.
    pub(super) directory: PathBuf,
    pub(super) language: Language,
    pub(super) manifest: Manifest,
    /// plugin.toml, from which the manifest was read.
    pub(super) source: ManifestSource,
}

impl Project {
    /// Determines the language of the plugin in a directory, and reads `plugin.toml`.
    pub(super) fn find(directory: &Path) -> Result<Self, BuildError> {
        let absolute = directory
            .canonicalize()
            .map_err(BuildError::io(format!("{} cannot be opened", directory.display())))?;
        let language = Language::detect(&absolute)
            .map_err(|source| BuildError::Language { directory: directory.to_owned(), source })?;
        let (source, manifest) = Manifest::of_directory(&absolute)?
            .ok_or_else(|| BuildError::NoManifest { directory: directory.to_owned() })?;
        Ok(Self { directory: absolute, language, manifest, source })
    }

    /// Returns whether the directory contains `file`.
    pub(super) fn has(&self, file: &str) -> bool {
        self.directory.join(file).exists()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use airlock_strings::with_causes;

    const MANIFEST: &str =
        "schema = 'airlock.plugin/1'\nid = 'a'\nversion = '1.0.0'\ncontract = '0.1'\n";

    fn found(files: &[(&str, &str)]) -> Result<Language, String> {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("a file");
        }
        let project = Project::find(directory.path()).map_err(|error| with_causes(&error))?;
        assert_eq!(project.manifest.id, "a");
        Ok(project.language)
    }

    #[test]
    fn the_files_of_a_directory_determine_the_language() {
        let manifest = ("plugin.toml", MANIFEST);
        assert_eq!(found(&[manifest, ("Cargo.toml", "")]), Ok(Language::Rust));
        assert_eq!(found(&[manifest, ("package.json", "")]), Ok(Language::JavaScript));
        assert_eq!(
            found(&[manifest, ("app.py", ""), ("requirements.txt", "")]),
            Ok(Language::Python)
        );
        assert_eq!(
            found(&[manifest, ("guard.py", ""), ("requirements.txt", "")]),
            Ok(Language::Python)
        );
    }

    #[test]
    fn a_directory_that_cannot_be_built_is_refused_with_the_expected_files() {
        let none =
            found(&[("plugin.toml", MANIFEST), ("app.py", "")]).expect_err("half of a plugin");
        let expected = "holds no plugin that can be built: expected Cargo.toml (Rust), or package.json (JavaScript), or app.py and \
                        requirements.txt (Python), or guard.py and requirements.txt (a guard in Python)";
        assert!(none.ends_with(expected), "{none}");
        let both = found(&[("plugin.toml", MANIFEST), ("Cargo.toml", ""), ("package.json", "")])
            .expect_err("two languages");
        assert!(
            both.ends_with("found Cargo.toml (Rust) and package.json (JavaScript); a plugin is written in one language"),
            "{both}"
        );
        let bare = found(&[("Cargo.toml", "")]).expect_err("no manifest");
        assert!(bare.ends_with("has no plugin.toml; `airlock plugin new` writes one"), "{bare}");
        let text = format!("{MANIFEST}[request.kv.notes]\nmax_bytes = '1'\nreason = ''\n");
        let bad = found(&[("Cargo.toml", ""), ("plugin.toml", &text)]).expect_err("two faults");
        insta::assert_snapshot!(bad, @r#"
        plugin.toml has 2 errors:
          plugin.toml:6:13: request.kv.notes.max_bytes: found "1", expected a size with its unit, such as "64MiB" or "512KiB"
          plugin.toml:7:10: request.kv.notes.reason: found "", expected 1 to 300 characters of text for the person who decides
        "#);
        assert!(Project::find(Path::new("/no/such/directory")).is_err());
    }
}
