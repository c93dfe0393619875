//! Reads a component: from a file that may be anything, or from the store.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::PluginError;
use airlock_compile::{CompileError, MAX_COMPONENT_BYTES};
use airlock_core::regular_file;
use airlock_sandbox::LoadError;
use airlock_store::{
    LazyDatabase,
    components::{self, ComponentDigest},
};

// The store takes what can be compiled.
const _: () = assert!(components::MAX_COMPONENT_BYTES == MAX_COMPONENT_BYTES);

/// Source of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentSource {
    /// A file of the operator, which may be replaced while the gateway runs. `airlock.lock` says which
    /// content was accepted.
    File(PathBuf),
    /// The store, which has the component that was accepted under this digest.
    Stored(ComponentDigest),
}

impl ComponentSource {
    /// Returns the path of the file; `None` for a component in the store.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stored(_) => None,
        }
    }

    /// Reads the component. One in the store has its digest.
    pub(super) async fn read(&self, store: &LazyDatabase) -> Result<Vec<u8>, PluginError> {
        match self {
            Self::File(path) => Ok(read_component(path).await?),
            Self::Stored(digest) => {
                let component = store.available().await?.component(*digest).await?;
                component.ok_or(PluginError::Absent(*digest))
            }
        }
    }
}

/// Reads a component. Fails if the path is not a regular file or the file is too large.
pub async fn read_component(path: &Path) -> Result<Vec<u8>, LoadError> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_bounded(&path)).await;
    read.map_err(|panic| LoadError::Compile(panic.into()))?
}

/// Reads a regular file up to the size limit. Pipes would block and devices are endless, so neither
/// is read.
fn read_bounded(path: &Path) -> Result<Vec<u8>, LoadError> {
    let file = regular_file::open(path).map_err(|error| unreadable(path, error))?;
    // Metadata of the opened file, because the path may point elsewhere by now.
    let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
    // Checked before reading.
    check_size(metadata.len())?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut bytes);
    check_size(read.map_err(|error| unreadable(path, error))? as u64)?;
    Ok(bytes)
}

fn unreadable(path: &Path, source: io::Error) -> LoadError {
    LoadError::Read { path: path.to_owned(), source }
}

fn check_size(found: u64) -> Result<(), CompileError> {
    if found > MAX_COMPONENT_BYTES as u64 {
        return Err(CompileError::TooLarge { found: usize::try_from(found).unwrap_or(usize::MAX) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
    use airlock_strings::with_causes;

    /// Longer than any step of this test takes.
    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn pipes_and_devices_are_refused_without_blocking() {
        let home = tempfile::tempdir().expect("a directory");
        let pipe = home.path().join("pipe");
        let made =
            std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
        assert!(made.success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), home.path()] {
            let read =
                tokio::time::timeout(LONG, read_component(path)).await.expect("it does not wait");
            let error = with_causes(&read.expect_err("it is refused"));
            assert!(error.contains("not a regular file"), "{}: {error}", path.display());
        }
    }

    #[tokio::test]
    async fn a_regular_file_is_read_unless_it_is_larger_than_the_limit() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("file");
        fs::write(&path, "a").expect("written");
        assert_eq!(read_component(&path).await.expect("it is read"), b"a");
        let file = fs::File::options().write(true).open(&path).expect("it can be written");
        file.set_len(MAX_COMPONENT_BYTES as u64 + 1).expect("it grows");
        let refused = read_component(&path).await.expect_err("it is too large");
        assert!(matches!(refused, LoadError::Compile(CompileError::TooLarge { .. })));
    }
}
