//! Detects changes of a plugin's sources by polling, which works on every filesystem. What a build
//! writes is not a source.

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
const WRITTEN: [&str; 5] = ["__pycache__", "node_modules", "plugins", "target", "venv"];
/// Beginning of the names of the gateway's own files: its configuration, lock file and database.
const OF_GATEWAY: &str = "airlock.";
/// Most files that are watched.
const MAX_FILES: usize = 10_000;
/// Most levels of directories that are watched.
const MAX_DEPTH: u32 = 16;

/// Version of each source file.
type Versions = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// The sources of a plugin, as they were last built.
pub(super) struct Sources {
    directory: PathBuf,
    built: Versions,
}

impl Sources {
    /// Looks at the sources in a directory.
    pub(super) fn of(directory: &Path) -> anyhow::Result<Self> {
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

/// Returns whether a file or directory of this name is written by a command and is no source.
fn is_written(name: &str) -> bool {
    let is_component = Path::new(name).extension().is_some_and(|extension| extension == "wasm");
    is_component || name.starts_with('.') || name.starts_with(OF_GATEWAY) || WRITTEN.contains(&name)
}

fn versions(directory: &Path) -> io::Result<Versions> {
    let mut versions = Versions::new();
    add(directory, 0, &mut versions)?;
    Ok(versions)
}

fn add(directory: &Path, depth: u32, versions: &mut Versions) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if is_written(&name) {
            continue;
        }
        // A file that was removed meanwhile is a change that the next look sees.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && depth < MAX_DEPTH {
            add(&entry.path(), depth + 1, versions)?;
        } else if metadata.is_file() && versions.len() < MAX_FILES {
            versions.insert(entry.path(), (metadata.len(), metadata.modified().ok()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_or_an_installation_writes_is_no_source() {
        for name in [
            ".git",
            "weather.wasm",
            "target",
            "airlock.json",
            "airlock.lock",
            "airlock.db-wal",
            "plugins",
        ] {
            assert!(is_written(name), "{name}");
        }
        for name in ["plugin.toml", "src", "airlock_plugin", "airlock-plugin", "package.json"] {
            assert!(!is_written(name), "{name}");
        }
    }

    #[test]
    fn a_change_counts_when_two_looks_see_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let file = directory.path().join(name);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            fs::write(file, text).expect("a file");
        };
        write("src/lib.rs", "1");
        let sources = Sources::of(directory.path()).expect("it is read");
        let mut before = None;
        let mut is_settled = || sources.settled(&mut before).is_some();
        assert!(!is_settled() && !is_settled(), "nothing has changed");
        write("src/lib.rs", "12");
        assert!(!is_settled(), "it may still change");
        write("plugin.toml", "id");
        assert!(!is_settled(), "it has changed again");
        assert!(is_settled());
    }

    #[test]
    fn what_a_build_writes_is_not_a_change() {
        let directory = tempfile::tempdir().expect("a directory");
        let before = versions(directory.path()).expect("it is read");
        for file in ["a.wasm", "target/a", "node_modules/b/c", ".venv/d", "__pycache__/e"] {
            let file = directory.path().join(file);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            fs::write(file, "x").expect("a file");
        }
        assert_eq!(versions(directory.path()).expect("it is read"), before);
    }
}
