//! Operations of guests on files and on the names in a directory. Every function runs on a thread
//! that may block; functions that change a mount hold its lock.

use std::os::unix::fs::FileExt as _;

use wasmtime_wasi::{
    filesystem::{Descriptor, Dir, File},
    p2::{
        FsResult,
        bindings::filesystem::types::{
            DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
        },
    },
};

use super::{
    blocking::{self, BlockingDir},
    measure::Amount,
    mount::{MountGuard, OpenFile},
};

/// Opens a file or directory of a read-only grant, and changes nothing.
pub(super) fn open(
    directory: &Dir,
    follow: PathFlags,
    path: &str,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Descriptor> {
    let mut directory = BlockingDir::new(directory)?;
    if let Some((stat, _)) = directory.stat(follow, path)? {
        is_plain(&stat)?;
    }
    directory.open(follow, path, open, flags)
}

/// Opens a file or directory of a mount. Creates it or truncates it if `open` requests that. A file
/// comes with its count as an open file.
pub(super) fn open_in_mount(
    guard: &MountGuard,
    directory: &Dir,
    follow: PathFlags,
    path: &str,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<(Descriptor, Option<OpenFile>)> {
    let mut directory = BlockingDir::new(directory)?;
    let found = directory.stat(follow, path)?;
    if let Some((stat, _)) = &found {
        is_plain(stat)?;
    }
    // Truncated afterwards, so that the freed bytes are counted.
    let truncate = open.contains(OpenFlags::TRUNCATE);
    let flags = if truncate && !flags.contains(DescriptorFlags::WRITE) {
        flags | DescriptorFlags::READ | DescriptorFlags::WRITE
    } else {
        flags
    };
    let open = open & !OpenFlags::TRUNCATE;
    let creates = found.is_none() && open.contains(OpenFlags::CREATE);
    let opened = if creates {
        guard.add_entry(|| directory.open(follow, path, open, flags))?
    } else {
        directory.open(follow, path, open, flags)?
    };
    let open_file = match &opened {
        Descriptor::File(file) => {
            if truncate {
                set_size(guard, file, 0)?;
            }
            Some(guard.open_file(blocking::identity(&file.file)?, &file.file))
        }
        Descriptor::Dir(_) => None,
    };
    Ok((opened, open_file))
}

/// Refuses pipes, sockets and devices: opening one may wait for ever or have side effects.
fn is_plain(stat: &DescriptorStat) -> FsResult<()> {
    match stat.type_ {
        DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink => {
            Ok(())
        }
        _ => Err(ErrorCode::NoSuchDevice.into()),
    }
}

pub(super) fn create_directory(guard: &MountGuard, directory: &Dir, path: &str) -> FsResult<()> {
    let mut directory = BlockingDir::new(directory)?;
    guard.add_entry(|| directory.create_directory(path))
}

pub(super) fn remove_directory(guard: &MountGuard, directory: &Dir, path: &str) -> FsResult<()> {
    remove(guard, directory, path, BlockingDir::remove_directory)
}

pub(super) fn unlink(guard: &MountGuard, directory: &Dir, path: &str) -> FsResult<()> {
    remove(guard, directory, path, BlockingDir::unlink)
}

fn remove(
    guard: &MountGuard,
    directory: &Dir,
    path: &str,
    remove: impl FnOnce(&mut BlockingDir, &str) -> FsResult<()>,
) -> FsResult<()> {
    let mut directory = BlockingDir::new(directory)?;
    let found = directory.stat(PathFlags::empty(), path)?;
    remove(&mut directory, path)?;
    if let Some((stat, identity)) = found {
        guard.removed(identity, amount(&stat), stat.link_count);
    }
    Ok(())
}

/// Renames within a mount. An entry that had the new name is removed.
pub(super) fn rename(
    guard: &MountGuard,
    directory: &Dir,
    path: &str,
    to: &Dir,
    new_path: &str,
) -> FsResult<()> {
    let mut directory = BlockingDir::new(directory)?;
    let moved = directory.stat(PathFlags::empty(), path)?;
    let replaced = BlockingDir::new(to)?.stat(PathFlags::empty(), new_path)?;
    directory.rename(path, to, new_path)?;
    // POSIX: renaming one name of a file to another name of the same file does nothing.
    if let Some((stat, identity)) = replaced
        && moved.is_none_or(|(_, moved)| moved != identity)
    {
        guard.removed(identity, amount(&stat), stat.link_count);
    }
    Ok(())
}

/// Returns the share of its mount's quota that a name takes.
fn amount(stat: &DescriptorStat) -> Amount {
    let bytes = if stat.type_ == DescriptorType::RegularFile { stat.size } else { 0 };
    Amount { bytes, files: 1 }
}

pub(super) fn set_size(guard: &MountGuard, file: &File, size: u64) -> FsResult<()> {
    guard.resize(&file.file, |_| size, || Ok(file.file.set_len(size)?))
}

/// Writes as much as the file system takes at once and returns the number of bytes.
pub(super) fn write(guard: &MountGuard, file: &File, bytes: &[u8], offset: u64) -> FsResult<u64> {
    let end = offset.saturating_add(bytes.len() as u64);
    guard.resize(&file.file, |_| end, || Ok(file.file.write_at(bytes, offset)? as u64))
}
