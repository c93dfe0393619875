//! Operations of guests on the names in a directory. Every function runs on a thread that may
//! block; functions that change a mount have its turn.

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
    inside::{self, Inside},
    measure::Amount,
    mount::{Held, Turn},
};

/// An opened descriptor and, for a file in a mount, its entry in the ledger.
type Opened = (Descriptor, Option<Held>);

/// Opens a file or directory of a read-only grant, and changes nothing.
pub(super) fn open(
    directory: &Dir,
    follow: PathFlags,
    path: &str,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Descriptor> {
    let mut inside = Inside::new(directory)?;
    if let Some((stat, _)) = inside.look(follow, path)? {
        is_plain(&stat)?;
    }
    inside.open(follow, path, open, flags)
}

/// Opens a file or directory of a mount. Creates it or truncates it if `open` requests that.
pub(super) fn open_in_mount(
    turn: &Turn,
    directory: &Dir,
    follow: PathFlags,
    path: &str,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Opened> {
    let mut inside = Inside::new(directory)?;
    let found = inside.look(follow, path)?;
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
    let mut open = || inside.open(follow, path, open, flags);
    let opened = if creates { turn.add_entry(open)? } else { open()? };
    let held = match &opened {
        Descriptor::File(file) => {
            if truncate {
                set_size(turn, file, 0)?;
            }
            Some(turn.hold(inside::identity(&file.file)?, &file.file))
        }
        Descriptor::Dir(_) => None,
    };
    Ok((opened, held))
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

pub(super) fn create_directory(turn: &Turn, directory: &Dir, path: &str) -> FsResult<()> {
    let mut inside = Inside::new(directory)?;
    turn.add_entry(|| inside.create_directory(path))
}

pub(super) fn remove_directory(turn: &Turn, directory: &Dir, path: &str) -> FsResult<()> {
    remove(turn, directory, path, Inside::remove_directory)
}

pub(super) fn unlink(turn: &Turn, directory: &Dir, path: &str) -> FsResult<()> {
    remove(turn, directory, path, Inside::unlink)
}

fn remove(
    turn: &Turn,
    directory: &Dir,
    path: &str,
    remove: impl FnOnce(&mut Inside, &str) -> FsResult<()>,
) -> FsResult<()> {
    let mut inside = Inside::new(directory)?;
    let found = inside.look(PathFlags::empty(), path)?;
    remove(&mut inside, path)?;
    if let Some((stat, identity)) = found {
        turn.removed(identity, amount(&stat), stat.link_count);
    }
    Ok(())
}

/// Renames within a mount. An entry that had the new name is removed.
pub(super) fn rename(
    turn: &Turn,
    directory: &Dir,
    path: &str,
    to: &Dir,
    new_path: &str,
) -> FsResult<()> {
    let mut inside = Inside::new(directory)?;
    let moved = inside.look(PathFlags::empty(), path)?;
    let replaced = Inside::new(to)?.look(PathFlags::empty(), new_path)?;
    inside.rename(path, to, new_path)?;
    // POSIX: renaming one name of a file to another name of the same file does nothing.
    if let Some((stat, identity)) = replaced
        && moved.is_none_or(|(_, moved)| moved != identity)
    {
        turn.removed(identity, amount(&stat), stat.link_count);
    }
    Ok(())
}

/// Returns the share of its mount's quota that a name takes.
fn amount(stat: &DescriptorStat) -> Amount {
    let bytes = if stat.type_ == DescriptorType::RegularFile { stat.size } else { 0 };
    Amount { bytes, files: 1 }
}

pub(super) fn set_size(turn: &Turn, file: &File, size: u64) -> FsResult<()> {
    turn.resize(&file.file, |_| size, || Ok(file.file.set_len(size)?))
}

/// Writes as much as the file system takes at once and returns the number of bytes.
pub(super) fn write(turn: &Turn, file: &File, bytes: &[u8], offset: u64) -> FsResult<u64> {
    let end = offset.saturating_add(bytes.len() as u64);
    turn.resize(&file.file, |_| end, || Ok(file.file.write_at(bytes, offset)? as u64))
}
