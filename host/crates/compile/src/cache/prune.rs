//! Keeps the cache below its size limit: the least recently used code is evicted.
//!
//! The time of modification of a file is that of its last use, to within a day. Another process may use
//! the same directory at the same time. A file that it removes first is no failure, and a file that is
//! removed while it is mapped stays mapped.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tracing::{debug, info};
use uuid::Uuid;

use super::{
    file::{check_metadata, own_user},
    name::CODE_SUFFIX,
};

/// Age from which a use is recorded again, so that most loads write nothing. A file that is still being
/// written at this age was abandoned by its process.
const DAY: Duration = Duration::from_hours(24);

/// A file of compiled code.
struct CodeFile {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

/// Records that a file was used now.
pub(super) fn record_use(file: &File, metadata: &Metadata) {
    if metadata.modified().is_ok_and(is_old)
        && let Err(error) = file.set_modified(SystemTime::now())
    {
        debug!(%error, "the use of compiled code is not recorded");
    }
}

/// Removes files of code other than `kept` until all of them have at most `max_bytes`, and files that
/// were never completed. Files that the cache did not write are not touched.
pub(super) fn prune(directory: &Path, kept: &Path, max_bytes: u64) -> io::Result<()> {
    evict(code_files(directory)?, kept, max_bytes);
    Ok(())
}

/// Removes files of code other than `kept`, and files that were never completed, until the files of code have
/// `bytes` less, or only `kept` is left: the disk may be smaller than the cache's own limit.
pub(super) fn make_room(directory: &Path, kept: &Path, bytes: u64) -> io::Result<()> {
    let files = code_files(directory)?;
    let max_bytes = size(&files).saturating_sub(bytes);
    evict(files, kept, max_bytes);
    Ok(())
}

/// Lists the files of code. Removes files that were never completed.
fn code_files(directory: &Path) -> io::Result<Vec<CodeFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        // A link is not followed. A file that is gone was removed by another process.
        let Ok(metadata) = entry.metadata() else { continue };
        let Ok(used) = metadata.modified() else { continue };
        if is_code(name) && check_metadata(&metadata).is_ok() {
            files.push(CodeFile { used, bytes: metadata.len(), path: entry.path() });
        } else if is_partial(name) && is_own_file(&metadata) && is_old(used) {
            remove(&entry.path());
        }
    }
    Ok(files)
}

/// Removes the least recently used files other than `kept` until all of them have at most `max_bytes`.
fn evict(mut files: Vec<CodeFile>, kept: &Path, max_bytes: u64) {
    let mut bytes = size(&files);
    files.sort_by_key(|file| file.used);
    for file in files.iter().filter(|file| file.path != kept) {
        if bytes <= max_bytes {
            break;
        }
        if remove(&file.path) {
            bytes -= file.bytes;
        }
    }
}

fn size(files: &[CodeFile]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

/// Removes a file. Returns whether it is gone.
fn remove(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => {
            info!(path = %path.display(), "removed a file from the cache of compiled code");
            true
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            debug!(path = %path.display(), %error, "the file cannot be removed");
            false
        }
    }
}

/// Returns whether a time is more than a day ago. A time in the future is not.
fn is_old(time: SystemTime) -> bool {
    time.elapsed().is_ok_and(|age| age > DAY)
}

fn is_own_file(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.uid() == own_user()
}

/// Returns whether a file with this name holds code: a SHA-256 digest in hexadecimal and the suffix.
fn is_code(name: &str) -> bool {
    name.strip_suffix(CODE_SUFFIX).is_some_and(|digest| {
        digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns whether a file with this name is not complete: a dot, the id of a process, and a UUID.
fn is_partial(name: &str) -> bool {
    name.strip_prefix('.').and_then(|name| name.split_once('.')).is_some_and(|(process, uuid)| {
        process.parse::<u32>().is_ok() && Uuid::parse_str(uuid).is_ok()
    })
}
