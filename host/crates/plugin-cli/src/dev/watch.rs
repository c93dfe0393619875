//! Detects changes of a plugin's sources by polling, which works on every filesystem. Only the files
//! that a build reads are sources: a log in the same directory would be built for ever.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::Context as _;

/// Interval between looks. A change counts when two looks in a row see the same files, so that a
/// half-saved change is not built.
const PERIOD: Duration = Duration::from_millis(300);
/// Directories that builds, package managers and `install` write to. Hidden ones are left out too.
const WRITTEN: [&str; 6] = ["__pycache__", "dist", "node_modules", "plugins", "target", "venv"];
/// Directory of which every file is a source: a program can include any file.
const SOURCES: &str = "src";
/// Extensions of sources, manifests and worlds anywhere else.
const EXTENSIONS: [&str; 9] = ["cjs", "js", "mjs", "mts", "py", "rs", "toml", "ts", "wit"];
/// Other files of the languages' package managers and compilers.
const PACKAGE_FILES: [&str; 6] = [
    "Cargo.lock",
    "package-lock.json",
    "package.json",
    "requirements.txt",
    "rust-toolchain",
    "tsconfig.json",
];
/// Most files that are watched: every look asks the system about each of them.
const MAX_FILES: usize = 10_000;

/// Version of each source file.
type Versions = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// The sources of a plugin, as they were last built.
pub(super) struct PluginSources {
    directory: PathBuf,
    built: Versions,
}

impl PluginSources {
    /// Looks at the sources in a directory.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let built = versions(directory)
            .with_context(|| format!("{} cannot be read", directory.display()))?;
        Ok(Self { directory: directory.to_owned(), built })
    }

    /// Waits until the sources differ from those that were built, and until they have stopped
    /// changing. A change during a build counts too.
    pub(super) async fn changed(&mut self) {
        let mut before = None;
        loop {
            tokio::time::sleep(PERIOD).await;
            if let Some(versions) = self.settled(&mut before) {
                self.built = versions;
                return;
            }
        }
    }

    /// Returns the sources if they have changed and are the same as `before`.
    fn settled(&self, before: &mut Option<Versions>) -> Option<Versions> {
        // A directory that is being replaced cannot be read for a moment.
        let now = versions(&self.directory).ok()?;
        let is_settled = before.replace(now.clone()).is_some_and(|before| before == now);
        (is_settled && now != self.built).then_some(now)
    }
}

/// Returns whether a command writes the directory of this name, so that it holds no sources.
fn is_written(name: &str) -> bool {
    name.starts_with('.') || WRITTEN.contains(&name)
}

/// Returns whether a build reads a file of this name outside of [`SOURCES`].
fn is_source(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let has_extension = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    !name.starts_with('.') && (has_extension || PACKAGE_FILES.contains(&name))
}

fn versions(directory: &Path) -> io::Result<Versions> {
    let mut versions = Versions::new();
    add(directory, false, &mut versions)?;
    Ok(versions)
}

/// Adds the sources in a directory; `in_sources` is true below [`SOURCES`].
fn add(directory: &Path, in_sources: bool, versions: &mut Versions) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A file that was removed meanwhile is a change that the next look sees.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && !is_written(&name) {
            add(&entry.path(), in_sources || name == SOURCES, versions)?;
        } else if metadata.is_file()
            && (in_sources || is_source(&name))
            && versions.len() < MAX_FILES
        {
            versions.insert(entry.path(), (metadata.len(), metadata.modified().ok()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_when_two_looks_see_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), "src/lib.rs", "1");
        let sources = PluginSources::read(directory.path()).expect("it is read");
        let mut before = None;
        let mut is_settled = || sources.settled(&mut before).is_some();
        assert!(!is_settled() && !is_settled(), "nothing has changed");
        write(directory.path(), "src/lib.rs", "12");
        assert!(!is_settled(), "it may still change");
        write(directory.path(), "plugin.toml", "id");
        assert!(!is_settled(), "it has changed again");
        assert!(is_settled());
    }

    fn write(directory: &Path, name: &str, text: &str) {
        let file = directory.join(name);
        fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        fs::write(file, text).expect("a file");
    }

    #[test]
    fn only_the_files_that_a_build_reads_are_watched() {
        let directory = tempfile::tempdir().expect("a directory");
        let others = [
            "a.wasm",
            "dev.log",
            "out.json",
            "airlock.json",
            "airlock.lock",
            "airlock.db-wal",
            "plugins/a.rs",
            "target/a.rs",
            "dist/plugin.js",
            "node_modules/b/c.js",
            ".venv/d.py",
            "__pycache__/e.py",
            "README.md",
        ];
        let others = written(directory.path(), &others);
        assert!(others.is_empty(), "{others:?}");
        let read = [
            "Cargo.lock",
            "Cargo.toml",
            "airlock-plugin/index.js",
            "app.py",
            "build.rs",
            "package-lock.json",
            "package.json",
            "plugin.js",
            "plugin.toml",
            "plugin.ts",
            "requirements.txt",
            "sdk/guest-sdk/src/lib.rs",
            "src/words/list.txt",
            "wit/host/0.1.0/host.wit",
        ];
        let files = written(directory.path(), &read);
        let files: Vec<_> = files.keys().map(|file| file.strip_prefix(directory.path())).collect();
        let read: Vec<_> = read.iter().map(|file| Ok(Path::new(*file))).collect();
        assert_eq!(files, read);
    }

    fn written(directory: &Path, files: &[&str]) -> Versions {
        for file in files {
            write(directory, file, "x");
        }
        versions(directory).expect("it is read")
    }
}
