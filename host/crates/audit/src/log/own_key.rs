//! The private key that the gateway makes, in the directory of the log.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{AuditError, PublicKey, SigningKey};
use crate::key::BadKeyFile;

/// Reads the key that the gateway has made, or makes it for a new log. An existing log was signed by the key
/// `found`.
pub(super) fn own_key(path: &Path, found: Option<&PublicKey>) -> Result<SigningKey, AuditError> {
    match (SigningKey::read(path), found) {
        (Err(BadKeyFile::Unreadable { cause, .. }), None)
            if cause.kind() == io::ErrorKind::NotFound =>
        {
            make_key(path)
        }
        (Err(BadKeyFile::Unreadable { cause, .. }), Some(found))
            if cause.kind() == io::ErrorKind::NotFound =>
        {
            Err(AuditError::NoKey { path: path.to_owned(), found: found.clone() })
        }
        (read, _) => Ok(read?),
    }
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
