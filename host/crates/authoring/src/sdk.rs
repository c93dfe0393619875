//! The copy of the SDK that a plugin carries as directories of its own, and `airlock plugin upgrade`,
//! which replaces them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use super::{
    build,
    language::Language,
    vendored::{SDK, WIT},
};
use crate::cli::{Done, output};

/// A file's name and its text.
pub(super) type File = (&'static str, &'static str);

macro_rules! package {
    ($source:literal to $directory:literal: $($file:literal)*) => {
        &[$((
            concat!($directory, "/", $file),
            include_str!(concat!("../../../../guest-sdk/", $source, "/", $file)),
        )),*]
    };
}

/// The npm package `airlock-plugin`, as it is published.
const JAVASCRIPT_PACKAGE: &[File] = package!(
    "javascript" to "airlock-plugin":
    "README.md" "config.d.ts" "config.js" "content.d.ts" "content.js" "context.d.ts" "context.js"
    "errors.d.ts" "errors.js" "host/config.js" "host/failed.js" "host/http.js" "host/kv.js"
    "host/log.js" "host/manifest.js" "host/resolve.js" "host/running.js" "host/secrets-reveal.js" "host/secrets.js"
    "host/store.js" "host/tools.js" "http.d.ts" "http.js" "index.d.ts" "index.js" "kv.d.ts" "kv.js"
    "log.d.ts" "log.js" "package.json" "plugin.d.ts" "plugin.js" "register.d.ts" "register.js"
    "schema.d.ts" "schema.js" "secrets-reveal.d.ts" "secrets-reveal.js"
    "secrets.d.ts" "secrets.js" "testing.d.ts" "testing.js" "tools.d.ts" "tools.js" "wire.js"
    "words.js"
);
/// The Python package `airlock_plugin`, as it is published.
const PYTHON_PACKAGE: &[File] = package!(
    "python/airlock_plugin" to "airlock_plugin":
    "__init__.py" "_content.py" "_context.py" "_errors.py" "_field.py" "_host.py" "_json.py"
    "_native.py" "_plugin.py" "_prose.py" "_shape.py" "_tool.py" "_wire.py" "_words.py" "config.py" "http.py" "kv.py" "log.py"
    "py.typed" "secrets.py" "secrets_reveal.py" "testing.py" "tools.py"
);

/// Replace the SDK that a plugin carries by that of this airlock
///
/// `airlock plugin new` writes the SDK into a plugin's directory: `sdk` for Rust, `airlock-plugin` for
/// JavaScript and TypeScript, `airlock_plugin` for Python, with the contract in `wit`. These directories
/// are replaced as a whole, with what was changed in them. Nothing else is touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock plugin upgrade weather")]
pub(super) struct Args {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    directory: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Done> {
    let directory = &args.directory;
    let language = build::language(directory)?;
    let own: Vec<_> =
        directories(language).iter().filter(|name| directory.join(name).is_dir()).collect();
    if own.is_empty() {
        bail!(
            "{} has no copy of the SDK ({}); if it takes the SDK from a registry, change the version there",
            directory.display(),
            directories(language).join(", ")
        );
    }
    for name in own {
        let state = if is_carried(directory, language, name) {
            "is that of this airlock already"
        } else {
            replace(directory, language, name)
                .with_context(|| format!("{}/{name} cannot be replaced", directory.display()))?;
            "replaced"
        };
        output::line(&format!("{name}/: {state}"))?;
    }
    Ok(Done::Yes)
}

/// Returns every file of the SDK for a language, by its path in a plugin's directory.
pub(super) fn files(language: Language) -> impl Iterator<Item = File> {
    let parts: &'static [&'static [File]] = match language {
        Language::Rust => &[SDK],
        Language::JavaScript => &[JAVASCRIPT_PACKAGE, WIT],
        Language::Python => &[PYTHON_PACKAGE, WIT],
    };
    parts.iter().copied().flatten().copied()
}

/// Returns a warning if a plugin carries another SDK than this program, which is the usual reason that a
/// build fails after an upgrade.
pub(super) fn warning(directory: &Path, language: Language) -> Option<String> {
    let name = directories(language)[0];
    let is_other = directory.join(name).is_dir() && !is_carried(directory, language, name);
    is_other.then(|| {
        format!(
            "warning: {name}/ is not the SDK of this airlock ({}); `airlock plugin upgrade` replaces it",
            env!("CARGO_PKG_VERSION")
        )
    })
}

/// Returns the directories of the SDK in a plugin's directory, that with the code first.
fn directories(language: Language) -> &'static [&'static str] {
    match language {
        Language::Rust => &["sdk"],
        Language::JavaScript => &["airlock-plugin", "wit"],
        Language::Python => &["airlock_plugin", "wit"],
    }
}

fn files_in(language: Language, name: &str) -> impl Iterator<Item = (&'static Path, &'static str)> {
    files(language)
        .filter_map(move |(file, text)| Some((Path::new(file).strip_prefix(name).ok()?, text)))
}

/// Returns whether each file of a directory is as this program carries it.
fn is_carried(directory: &Path, language: Language, name: &str) -> bool {
    let own = directory.join(name);
    files_in(language, name)
        .all(|(file, text)| fs::read(own.join(file)).is_ok_and(|found| found == text.as_bytes()))
}

/// Writes the new directory beside the old one, and puts it in its place.
fn replace(directory: &Path, language: Language, name: &str) -> anyhow::Result<()> {
    let new = tempfile::Builder::new().prefix(".airlock-sdk-").tempdir_in(directory)?;
    for (file, text) in files_in(language, name) {
        let file = new.path().join(file);
        fs::create_dir_all(file.parent().unwrap_or(directory))?;
        fs::write(file, text)?;
    }
    fs::set_permissions(new.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let old = directory.join(name);
    fs::remove_dir_all(&old)?;
    fs::rename(new.keep(), &old)?;
    Ok(())
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
            let args = Args { directory: path.to_owned() };
            assert_eq!(warning(path, language), None, "{language}");
            run(&args).expect_err("there is no copy");
            let name = directories(language)[0];
            write_text(&path.join(name).join("of-another-version.txt"), "x");
            let warning_text = warning(path, language).expect("it differs");
            assert!(warning_text.contains("`airlock plugin upgrade`"), "{warning_text}");
            run(&args).expect("it is replaced");
            assert_eq!(warning(path, language), None, "{language}");
            assert!(!path.join(name).join("of-another-version.txt").exists());
            let left: Vec<_> = fs::read_dir(path).expect("it is read").collect();
            assert_eq!(left.len(), language.marks().len() + 1, "{left:?}");
        }
    }

    fn write_text(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        fs::write(file, text).expect("a file");
    }
}
