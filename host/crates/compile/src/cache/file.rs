//! The files of the cache: written whole, and read only if nothing but this user could have written
//! them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use tracing::{debug, warn};

/// Mode of every file of code: its owner may read it, nothing else is allowed.
pub(super) const CODE_MODE: u32 = 0o400;

/// Reason that a file of the cache is not loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheFileError {
    #[error("it is a {0}")]
    Kind(&'static str),
    #[error("it belongs to user {found}, not to {own}")]
    Owner { found: u32, own: u32 },
    #[error("its mode is {found:o}, not {CODE_MODE:o}")]
    Mode { found: u32 },
    #[error("it has {found} hard links, not one")]
    Links { found: u64 },
    #[error("its digest is not the one that it was written with")]
    Digest,
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the engine does not accept it: {0:#}")]
    Engine(wasmtime::Error),
}

/// Removes a file that is not loaded, and logs the reason. A file that is not there is no failure, and one
/// that cannot be read because the process or the machine is short of something is kept.
pub(super) fn discard(path: &Path, reason: &CacheFileError) {
    if let CacheFileError::Read(error) = reason {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => return,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO) => {
                warn!(path = %path.display(), %error, "a file of compiled code cannot be read");
                return;
            }
            _ => {}
        }
    }
    warn!(path = %path.display(), %reason, "a file of compiled code is not trusted and is removed");
    if let Err(error) = fs::remove_file(path) {
        debug!(path = %path.display(), %error, "the file cannot be removed");
    }
}

pub(super) fn check_metadata(metadata: &fs::Metadata) -> Result<(), CacheFileError> {
    if !metadata.is_file() {
        return Err(CacheFileError::Kind(if metadata.is_dir() {
            "directory"
        } else {
            "special file"
        }));
    }
    let found = metadata.uid();
    let own = own_user();
    if found != own {
        return Err(CacheFileError::Owner { found, own });
    }
    let found = metadata.mode() & 0o7777;
    if found != CODE_MODE {
        return Err(CacheFileError::Mode { found });
    }
    // A second hard link is a path to the file that this directory does not protect.
    match metadata.nlink() {
        1 => Ok(()),
        found => Err(CacheFileError::Links { found }),
    }
}

/// Opens a file for reading. Fails on a symbolic link, and does not block on a pipe.
pub(super) fn open_without_following(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Writes a file that is not visible at `path` before it is complete.
pub(super) fn write_whole(
    directory: &Path,
    path: &Path,
    parts: &[&[u8]],
    mode: u32,
) -> io::Result<()> {
    let partial = directory.join(format!(".{}.{}", std::process::id(), uuid::Uuid::new_v4()));
    let written = write(&partial, parts, mode).and_then(|()| fs::rename(&partial, path));
    written.inspect_err(|_| {
        // Only the first error is reported.
        let _ = fs::remove_file(&partial);
    })
}

fn write(path: &Path, parts: &[&[u8]], mode: u32) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
