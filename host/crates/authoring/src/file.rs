//! Replaces files atomically.

use std::{
    fs::{self, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// Mode of a file that did not exist: others may read it, and only its owner may change it, because a
/// configuration decides which programs run.
const NEW_MODE: u32 = 0o644;

/// New content of a file, complete on the disk and not in its place yet. It is removed if it is not put there.
pub(crate) struct StagedFile {
    file: NamedTempFile,
    target: PathBuf,
}

impl StagedFile {
    /// Writes the content beside the file. A symbolic link is kept, and its target will be replaced. The mode stays too;
    /// until all of it is written, only its owner can read the new one.
    pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mode = fs::metadata(&target).map(|old| old.permissions());
        let mut file = NamedTempFile::new_in(directory_of(&target))?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(mode.unwrap_or(Permissions::from_mode(NEW_MODE)))?;
        file.as_file().sync_all()?;
        Ok(Self { file, target })
    }

    /// Returns the file that it will replace.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Replaces the file: a reader sees the old one or the new one.
    pub(crate) fn put(self) -> io::Result<()> {
        self.file.persist(&self.target)?;
        Ok(())
    }
}

/// Replaces a file as [`StagedFile`] does.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    StagedFile::write(path, bytes)?.put()
}

/// Returns the directory of a file, which is the working directory for a bare name.
pub(crate) fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_not_writable_by_others_and_an_existing_one_keeps_its_mode_and_its_link() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("new");
        replace(&path, b"one").expect("written");
        assert_eq!(mode(&path), NEW_MODE);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        replace(&link, b"two").expect("written");
        assert_eq!((mode(&path), fs::read(&path).expect("read")), (0o600, b"two".to_vec()));
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 2);
    }
}
