//! Measures how much a directory holds, by walking it. Independent of guests.

use std::{
    fs::{self, Metadata},
    io,
    path::Path,
};

use tracing::warn;

use crate::Quota;

/// Bytes and files, held or requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    /// Lengths of files. The holes of sparse files count too, because a guest may fill them.
    pub(super) bytes: u64,
    /// Files, directories and everything else that has a name.
    pub(super) files: u64,
}

impl Amount {
    pub(super) const ONE_FILE: Self = Self { bytes: 0, files: 1 };

    pub(super) fn bytes(bytes: u64) -> Self {
        Self { bytes, files: 0 }
    }

    /// Returns the share of a quota that one entry takes.
    fn of_entry(metadata: &Metadata) -> Self {
        Self { bytes: if metadata.is_file() { metadata.len() } else { 0 }, files: 1 }
    }

    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            files: self.files.saturating_add(more.files),
        }
    }

    pub(super) fn minus(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            files: self.files.saturating_sub(less.files),
        }
    }

    pub(super) fn is_within(self, quota: Quota) -> bool {
        self.bytes <= quota.bytes && self.files <= quota.files
    }
}

/// Returns the amount that `directory` and everything below it hold; `None` if that is more than
/// `quota`, in which case the walk stops early, or if it cannot be read. Symlinks are counted and
/// not followed; a file with several names counts once for each name.
pub(super) fn measure(directory: &Path, quota: Quota) -> Option<Amount> {
    let mut held = Amount::default();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if may_be_left_out(&error) => continue,
            Err(error) => {
                warn!(directory = %directory.display(), %error, "cannot measure a directory; its mount counts as full");
                return None;
            }
        };
        for entry in entries {
            let Ok(entry) = entry else { return None };
            let Ok(metadata) = entry.metadata() else { continue };
            held = held.plus(Amount::of_entry(&metadata));
            if !held.is_within(quota) {
                return None;
            }
            if metadata.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Some(held)
}

/// Returns whether an unreadable directory may be left out: it was removed in the meantime, or the
/// gateway has no permission (`lost+found`), in which case no guest can write into it, because
/// guests cannot change permissions. Any other error counts as a full directory: a guest may have
/// nested directories too deeply for a path.
fn may_be_left_out(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ROOM: Quota = Quota { bytes: 1 << 40, files: 1_000 };

    #[test]
    fn everything_below_is_counted_and_symlinks_are_not_followed() {
        let inside = tempfile::tempdir().expect("a directory");
        let outside = tempfile::tempdir().expect("a directory");
        fs::write(outside.path().join("large"), vec![0; 1_000]).expect("a file");
        fs::create_dir_all(inside.path().join("a/b")).expect("directories");
        fs::write(inside.path().join("a/b/c"), "12345").expect("a file");
        fs::File::create(inside.path().join("sparse"))
            .and_then(|file| file.set_len(1 << 30))
            .expect("a file");
        symlink(outside.path(), inside.path().join("to_directory")).expect("a link");
        symlink(outside.path().join("large"), inside.path().join("a/to_file")).expect("a link");
        assert_eq!(measure(inside.path(), ROOM), Some(Amount { bytes: 5 + (1 << 30), files: 6 }));
    }

    #[test]
    fn a_directory_beyond_its_quota_measures_as_none() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["a", "b", "c"] {
            fs::write(directory.path().join(name), "1234").expect("a file");
        }
        assert_eq!(measured(directory.path(), 12, 3), Some(Amount { bytes: 12, files: 3 }));
        assert_eq!(measured(directory.path(), 11, 3), None);
        assert_eq!(measured(directory.path(), 12, 2), None);
    }

    fn measured(directory: &Path, bytes: u64, files: u64) -> Option<Amount> {
        measure(directory, Quota { bytes, files })
    }

    #[test]
    fn a_missing_directory_measures_as_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(measure(&directory.path().join("gone"), ROOM), Some(Amount::default()));
    }
}
