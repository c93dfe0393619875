//! Versions of files that are watched by polling.

use std::{
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

/// Interval between checks. A file must look the same in two checks before it is read, so that no
/// half-written file is read.
pub const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Version of one file. Another version is another content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Returns the version of a file; `None` if it cannot be examined.
pub async fn file_version(path: &Path) -> Option<FileVersion> {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    Some(FileVersion {
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified: metadata.modified().ok(),
    })
}
