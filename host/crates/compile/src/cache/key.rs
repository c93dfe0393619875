//! Key of the digests of a cache's files: 32 random bytes in a file that only this user can read.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use tracing::warn;

use super::{
    file::{open_without_following, own_user, write_whole},
    name::{CodeName, GENERATION},
};

const FILE: &str = "key";
const MODE: u32 = 0o600;

/// Key of one cache. It has no `Debug` or `Display`, so that it is never shown.
pub(super) struct DigestKey([u8; blake3::KEY_LEN]);

impl DigestKey {
    /// Reads the key of a directory, or makes one. A key that other users could have read or
    /// written is replaced. Every file that was digested with the old key is then refused.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        // The lock admits one process at a time, so that two that start together do not each make a
        // key. It is held only while the key is read or written.
        let lock = File::open(directory)?;
        lock.lock()?;
        let path = directory.join(FILE);
        match read(&path) {
            Ok(key) => return Ok(Self(key)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                warn!(path = %path.display(), %error, "the key of the compiled code is replaced; all components are compiled again");
                remove(&path)?;
            }
        }
        let mut key = [0; blake3::KEY_LEN];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        write_whole(directory, &path, &[&key], MODE)?;
        Ok(Self(key))
    }

    /// Returns the digest of code under a name. All names have the same length, so the boundary
    /// between name and code is unambiguous.
    pub(super) fn digest(&self, name: &CodeName, code: impl Read) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(GENERATION).update(name.0.as_bytes()).update_reader(code)?;
        Ok(hasher.finalize())
    }
}

fn read(path: &Path) -> io::Result<[u8; blake3::KEY_LEN]> {
    let mut file = open_without_following(path)?;
    let metadata = file.metadata()?;
    let is_ours = metadata.is_file() && metadata.uid() == own_user() && metadata.nlink() == 1;
    if !is_ours || metadata.mode() & 0o7777 != MODE || metadata.len() != blake3::KEY_LEN as u64 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a key that only this user can read",
        ));
    }
    let mut key = [0; blake3::KEY_LEN];
    file.read_exact(&mut key)?;
    Ok(key)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
