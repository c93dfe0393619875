//! The private key that the gateway makes, in the directory of the log.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use super::{AuditError, PublicKey, SigningKey};

/// Reads the key that the gateway has made, or makes it for a new log. An existing log was signed by the key
/// `found`.
pub(super) fn own_key(path: &Path, found: Option<&PublicKey>) -> Result<SigningKey, AuditError> {
    let metadata = match (fs::metadata(path), found) {
        (Ok(metadata), _) => metadata,
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => return make_key(path),
        (Err(error), Some(found)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(AuditError::NoKey { path: path.to_owned(), found: found.clone() });
        }
        (Err(error), _) => return Err(AuditError::io("read", path)(error)),
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(AuditError::KeyMode { path: path.to_owned(), mode });
    }
    let text = fs::read_to_string(path).map_err(AuditError::io("read", path))?;
    SigningKey::parse(&text).map_err(|cause| AuditError::Key { path: path.to_owned(), cause })
}

fn make_key(path: &Path) -> Result<SigningKey, AuditError> {
    let (key, text) = SigningKey::generate().ok_or(AuditError::Random)?;
    // A process that is stopped here leaves no half of a key.
    let unfinished = path.with_extension("pem.new");
    let written = write_key(&unfinished, &text).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(AuditError::io("written", path))?;
    Ok(key)
}

fn write_key(path: &Path, text: &str) -> io::Result<()> {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
