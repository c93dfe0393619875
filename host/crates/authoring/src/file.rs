//! Replaces files atomically.

use std::{
    fs::{self, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// Replaces a file: a reader sees the old one or the new one. A symbolic link is kept, and its target is
/// replaced. The mode stays too.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // The mode that ordinary programs create files with; temporary files are closed to other users by
    // default.
    let created = Permissions::from_mode(0o666);
    let mut file =
        tempfile::Builder::new().permissions(created).tempfile_in(directory_of(&target))?;
    file.write_all(bytes)?;
    if let Ok(old) = fs::metadata(&target) {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target)?;
    Ok(())
}

/// Returns the directory of a file, which is the working directory for a bare name.
pub(crate) fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
