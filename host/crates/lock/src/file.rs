//! Versions of files that are watched by polling.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

/// Interval between checks. A file must look the same in two checks before it is read, so that no
/// half-written file is read.
pub const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Version of one file. Another version is another content, or other rights to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change of the content, the owner or the permissions.
    changed: [i64; 2],
}

/// Returns the version of a file; `None` if it cannot be examined.
pub async fn file_version(path: &Path) -> Option<FileVersion> {
    tokio::fs::metadata(path).await.ok().map(|metadata| FileVersion::from(&metadata))
}

/// Does the same as [`file_version`] on the calling thread, which it blocks.
pub fn blocking_file_version(path: &Path) -> Option<FileVersion> {
    std::fs::metadata(path).ok().map(|metadata| FileVersion::from(&metadata))
}

impl From<&Metadata> for FileVersion {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            changed: [metadata.ctime(), metadata.ctime_nsec()],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{Permissions, set_permissions},
        os::unix::fs::PermissionsExt as _,
        time::Instant,
    };

    use super::*;

    #[tokio::test]
    async fn other_permissions_are_another_version() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let before = file_version(file.path()).await;
        assert!(before.is_some());
        assert_eq!(file_version(file.path()).await, before);
        assert_eq!(blocking_file_version(file.path()), before);
        // The clock of the file system advances every few milliseconds.
        let begin = Instant::now();
        let mut now = before.clone();
        while now == before && begin.elapsed() < Duration::from_secs(10) {
            set_permissions(file.path(), Permissions::from_mode(0o600)).expect("it is its own");
            now = file_version(file.path()).await;
        }
        assert_ne!(now, before);
    }
}
