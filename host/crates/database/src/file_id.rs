//! Identities of files.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

/// Identity of a file: two paths, or one path at two times, name the same file if it is equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the identity of the file at `path`; `None` if there is none, or if it cannot be read.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}
