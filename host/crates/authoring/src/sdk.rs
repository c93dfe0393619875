//! The copy of the SDK that a plugin carries as directories of its own. `airlock plugin upgrade`
//! replaces them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    Language, LanguageError,
    vendored::{SDK, WIT},
};

/// A file's name and its text.
pub(crate) type SdkFile = (&'static str, &'static str);

macro_rules! package {
    ($source:literal to $directory:literal: $($file:literal)*) => {
        &[$((
            concat!($directory, "/", $file),
            include_str!(concat!("../../../../guest-sdk/", $source, "/", $file)),
        )),*]
    };
}

/// The npm package `airlock-plugin`, as it is published.
const JAVASCRIPT_PACKAGE: &[SdkFile] = package!(
    "javascript" to "airlock-plugin":
    "README.md" "config.d.ts" "config.js" "content.d.ts" "content.js" "context.d.ts" "context.js"
    "errors.d.ts" "errors.js" "guard-testing.d.ts" "guard-testing.js" "guard.d.ts" "guard.js" "host/config.js" "host/failed.js" "host/http.js" "host/kv.js"
    "host/log.js" "host/manifest.js" "host/resolve.js" "host/running.js" "host/secrets-reveal.js" "host/secrets.js"
    "host/store.js" "host/tools.js" "http.d.ts" "http.js" "index.d.ts" "index.js" "kv.d.ts" "kv.js"
    "log.d.ts" "log.js" "package.json" "plugin.d.ts" "plugin.js" "register.d.ts" "register.js"
    "schema.d.ts" "schema.js" "secrets-reveal.d.ts" "secrets-reveal.js"
    "secrets.d.ts" "secrets.js" "testing.d.ts" "testing.js" "tools.d.ts" "tools.js" "wire.js"
    "words.js"
);
/// The Python package `airlock_plugin`, as it is published.
const PYTHON_PACKAGE: &[SdkFile] = package!(
    "python/airlock_plugin" to "airlock_plugin":
    "__init__.py" "_content.py" "_context.py" "_errors.py" "_field.py" "_host.py" "_json.py"
    "_native.py" "_plugin.py" "_prose.py" "_shape.py" "_tool.py" "_wire.py" "_words.py" "config.py" "http.py" "kv.py" "log.py"
    "py.typed" "secrets.py" "secrets_reveal.py" "testing.py" "tools.py"
);
/// The Python package `airlock_guard`, for guards.
const PYTHON_GUARD_PACKAGE: &[SdkFile] = package!(
    "python/airlock_guard" to "airlock_guard":
    "__init__.py" "_guard.py" "_host.py" "_native.py" "_settings.py" "_types.py" "py.typed" "testing.py"
);

/// Directory of the Python package for plugins, in a plugin's directory.
pub(crate) const PYTHON_PLUGINS: &str = "airlock_plugin";
/// Directory of the Python package for guards, in a guard's directory.
pub(crate) const PYTHON_GUARDS: &str = "airlock_guard";
/// Directory of the contract, in the directory of a plugin in JavaScript or Python.
const CONTRACT: &str = "wit";

/// Returns every file of the SDK for a language, by its path in a plugin's directory. In Python, it has a package for
/// plugins and one for guards.
pub(crate) fn files(language: Language) -> impl Iterator<Item = SdkFile> {
    let parts: &'static [&'static [SdkFile]] = match language {
        Language::Rust => &[SDK],
        Language::JavaScript => &[JAVASCRIPT_PACKAGE, WIT],
        Language::Python => &[PYTHON_PACKAGE, PYTHON_GUARD_PACKAGE, WIT],
    };
    parts.iter().copied().flatten().copied()
}

/// Returns the directories of the SDK in a plugin's directory, that with the contract last. In Python, a plugin has the
/// first, and a guard the second.
fn directories(language: Language) -> &'static [&'static str] {
    match language {
        Language::Rust => &["sdk"],
        Language::JavaScript => &["airlock-plugin", CONTRACT],
        Language::Python => &[PYTHON_PLUGINS, PYTHON_GUARDS, CONTRACT],
    }
}

/// Returns a warning if a plugin carries another SDK than this crate, which is the usual reason that a
/// build fails after an upgrade.
pub(crate) fn warning(directory: &Path, language: Language) -> Option<String> {
    let other = possible_copies(directory, language)
        .find(|copy| copy.name != CONTRACT && copy.path.is_dir() && !copy.is_current())?;
    Some(format!(
        "warning: {}/ is not the SDK of this airlock ({}); `airlock plugin upgrade` replaces it",
        other.name,
        env!("CARGO_PKG_VERSION")
    ))
}

/// Returns the directories of the SDK that a plugin's directory may have.
fn possible_copies(directory: &Path, language: Language) -> impl Iterator<Item = SdkCopy> {
    let names = directories(language).iter().copied();
    names.map(move |name| SdkCopy { path: directory.join(name), language, name })
}

/// Reason that the SDK of a plugin is not replaced.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The directory has no sources of a plugin.
    #[error(transparent)]
    Language(#[from] LanguageError),
    /// The plugin carries no copy of the SDK.
    #[error(
        "{directory} has no copy of the SDK ({names}); if it takes the SDK from a registry, change the version there"
    )]
    NoCopy {
        /// The plugin's directory.
        directory: PathBuf,
        /// Names that the directories of the SDK have.
        names: String,
    },
    /// A directory of the SDK cannot be replaced.
    #[error("{path} cannot be replaced")]
    Replace {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A directory of the SDK that a plugin carries.
#[derive(Debug)]
pub struct SdkCopy {
    path: PathBuf,
    language: Language,
    /// Its name in the plugin's directory.
    name: &'static str,
}

impl SdkCopy {
    /// Finds the directories of the SDK in a plugin's directory. Fails if there are none.
    pub fn find(directory: &Path) -> Result<Vec<Self>, UpgradeError> {
        let language = Language::detect(directory)?;
        let copies: Vec<_> =
            possible_copies(directory, language).filter(|copy| copy.path.is_dir()).collect();
        if copies.is_empty() {
            let names = directories(language).join(", ");
            return Err(UpgradeError::NoCopy { directory: directory.to_owned(), names });
        }
        Ok(copies)
    }

    /// Returns the name of the directory.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Replaces the directory as a whole, with what was changed in it, unless each of its files is as
    /// this crate carries it. Returns whether it was replaced.
    pub fn upgrade(&self) -> Result<bool, UpgradeError> {
        if self.is_current() {
            return Ok(false);
        }
        self.replace()
            .map_err(|source| UpgradeError::Replace { path: self.path.clone(), source })?;
        Ok(true)
    }

    fn files(&self) -> impl Iterator<Item = (&'static Path, &'static str)> {
        files(self.language)
            .filter_map(|(file, text)| Some((Path::new(file).strip_prefix(self.name).ok()?, text)))
    }

    fn is_current(&self) -> bool {
        self.files().all(|(file, text)| {
            fs::read(self.path.join(file)).is_ok_and(|found| found == text.as_bytes())
        })
    }

    /// Writes the new directory beside the old one, and puts it in its place.
    fn replace(&self) -> io::Result<()> {
        let parent = self.path.parent().unwrap_or(Path::new("."));
        let new = tempfile::Builder::new().prefix(".airlock-sdk-").tempdir_in(parent)?;
        for (file, text) in self.files() {
            let file = new.path().join(file);
            fs::create_dir_all(file.parent().unwrap_or(parent))?;
            fs::write(file, text)?;
        }
        fs::set_permissions(new.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        fs::remove_dir_all(&self.path)?;
        fs::rename(new.keep(), &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_differs_is_reported_and_replaced_as_a_whole() {
        for language in Language::ALL {
            let home = tempfile::tempdir().expect("a directory");
            let path = home.path();
            for mark in language.marks() {
                write_text(&path.join(mark), "");
            }
            assert_eq!(warning(path, language), None, "{language}");
            let none = SdkCopy::find(path).expect_err("there is no copy");
            assert!(matches!(none, UpgradeError::NoCopy { .. }), "{none}");
            let name = directories(language)[0];
            write_text(&path.join(name).join("of-another-version.txt"), "x");
            let warning_text = warning(path, language).expect("it differs");
            assert!(warning_text.contains("`airlock plugin upgrade`"), "{warning_text}");
            let copies = SdkCopy::find(path).expect("a copy");
            let is_replaced = |copy: &SdkCopy| copy.upgrade().expect("it is replaced");
            assert!(copies.iter().all(is_replaced), "{language}");
            assert!(!copies.iter().any(is_replaced), "{language}: it is current");
            assert_eq!(warning(path, language), None, "{language}");
            assert!(!path.join(name).join("of-another-version.txt").exists());
            let left: Vec<_> = fs::read_dir(path).expect("it is read").collect();
            assert_eq!(left.len(), language.marks().len() + 1, "{left:?}");
        }
    }

    #[test]
    fn the_copy_that_a_guard_in_python_carries_is_reported_by_its_own_name() {
        let home = tempfile::tempdir().expect("a directory");
        write_text(&home.path().join(PYTHON_GUARDS).join("__init__.py"), "of another version");
        let warning_text = warning(home.path(), Language::Python).expect("it differs");
        assert!(warning_text.contains("airlock_guard/ is not the SDK"), "{warning_text}");
    }

    fn write_text(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        fs::write(file, text).expect("a file");
    }
}
