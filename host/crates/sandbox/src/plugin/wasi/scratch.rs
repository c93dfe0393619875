//! Scratch directories: one for each call that uses it, below a directory that only the gateway's
//! user can enter. A scratch directory is removed with its call, no matter how the call ends.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tempfile::TempDir;
use tokio::runtime::Handle;
use tracing::warn;

/// Directory that holds the scratch directories of one plugin. It is removed with the plugin. After
/// a crash it may be left in the system's directory for temporary files.
pub(super) struct ScratchRoot {
    directory: TempDir,
    created: AtomicU64,
}

impl ScratchRoot {
    pub(super) fn new() -> io::Result<Self> {
        let mut named = tempfile::Builder::new();
        let directory = named
            .prefix("airlock-scratch-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        Ok(Self { directory, created: AtomicU64::new(0) })
    }

    /// Makes an empty directory.
    pub(super) fn create(self: &Arc<Self>) -> io::Result<ScratchDirectory> {
        let path =
            self.directory.path().join(self.created.fetch_add(1, Ordering::Relaxed).to_string());
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(ScratchDirectory { path, root: self.clone() })
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A directory that is removed with this value, including its contents.
pub(super) struct ScratchDirectory {
    path: PathBuf,
    root: Arc<ScratchRoot>,
}

impl ScratchDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    /// Removes the directory, on a thread that may block if there is a runtime: a guest may have
    /// left many files.
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        let root = self.root.clone();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || remove_or_warn(&path, root))),
            Err(_) => remove_or_warn(&path, root),
        }
    }
}

/// Removes a directory, and afterwards its root if it was the last one there.
fn remove_or_warn(path: &Path, root: Arc<ScratchRoot>) {
    if let Err(error) = remove(path) {
        warn!(%error, "a scratch directory is left behind");
    }
    drop(root);
}

/// Removes a directory with everything below it, at any depth. Every directory is moved to the top
/// level before it is emptied, so paths stay short and nothing recurses. `fs::remove_dir_all` holds
/// one descriptor for each level, and the guest decides on the number of levels.
fn remove(top: &Path) -> io::Result<()> {
    let staging = top.with_extension("removed");
    fs::create_dir(&staging)?;
    fs::rename(top, staging.join("0"))?;
    let mut emptied = 0_u64;
    let mut staged = 1_u64;
    while emptied < staged {
        let directory = staging.join(emptied.to_string());
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::rename(entry.path(), staging.join(staged.to_string()))?;
                staged += 1;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_dir(&directory)?;
        emptied += 1;
    }
    fs::remove_dir(&staging)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Arc<ScratchRoot> {
        Arc::new(ScratchRoot::new().expect("a place for temporary files"))
    }

    fn is_empty(directory: &Path) -> bool {
        fs::read_dir(directory).expect("it is there").next().is_none()
    }

    #[test]
    fn a_scratch_directory_is_new_private_and_removed_with_its_value() {
        let root = root();
        let one = root.create().expect("a directory");
        let other = root.create().expect("a directory");
        assert_ne!(one.path(), other.path());
        assert!(is_empty(one.path()));
        for private in [one.path(), root.path()] {
            assert_eq!(
                fs::metadata(private).expect("it is there").permissions().mode() & 0o777,
                0o700
            );
        }
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
        drop(other);
        assert!(is_empty(root.path()));
    }

    #[test]
    fn a_scratch_directory_is_removed_at_any_depth_and_with_any_names() {
        let root = root();
        let scratch = root.create().expect("a directory");
        // Names that the removal uses itself.
        for name in ["0", "1", "0.removed", "\u{1f4a5}"] {
            fs::create_dir_all(scratch.path().join(name).join("0/1/2")).expect("directories");
            fs::write(scratch.path().join(name).join("0/1/file"), "text").expect("a file");
        }
        std::os::unix::fs::symlink("/", scratch.path().join("1/root")).expect("a link");
        // Deeper than a path can name. The tree is built from the bottom: each step moves it into a
        // new directory.
        let deep = scratch.path().join("deep");
        let new = scratch.path().join("new");
        fs::create_dir(&deep).expect("a directory");
        for _ in 0..1_500 {
            fs::create_dir(&new).expect("a directory");
            fs::rename(&deep, new.join("deep")).expect("it moves");
            fs::rename(&new, &deep).expect("it moves");
        }
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists() && is_empty(root.path()));
    }

    #[tokio::test]
    async fn in_a_runtime_a_scratch_directory_is_removed_in_the_background() {
        let root = root();
        let scratch = root.create().expect("a directory");
        fs::write(scratch.path().join("file"), "text").expect("a file");
        let directory = root.path().to_owned();
        drop(scratch);
        while !is_empty(&directory) {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn the_root_is_removed_after_its_last_scratch_directory() {
        let root = root();
        let scratch = root.create().expect("a directory");
        let directory = root.path().to_owned();
        drop(root);
        assert!(scratch.path().exists());
        drop(scratch);
        assert!(!directory.exists());
    }
}
