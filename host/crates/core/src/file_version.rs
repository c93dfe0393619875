//! Versions of files, by which a change is noticed without reading them.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::SystemTime,
};

/// Version of one file. Another version is another content, or other rights to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change of the content, the owner or the permissions.
    changed: [i64; 2],
}

impl FileVersion {
    /// Returns the version of a file; `None` if it cannot be examined. Blocks.
    pub fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::from(&metadata))
    }
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
