//! Listings of directories, read to the end or until they exceed the room for them. A directory may
//! hold more entries than fit into the host's memory, and the guest need not be the cause.

use std::ffi::CStr;

use rustix::fs::{AtFlags, Dir as Entries, FileType, Mode, OFlags, openat, statat};
use wasmtime_wasi::{
    filesystem::Dir,
    p2::{
        FsResult,
        bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode},
    },
};

/// Host memory for one entry in addition to its name, in bytes.
const ENTRY_BYTES: usize = 64;

/// Reads the entries of a directory, sorted by name, and returns them with the bytes that they
/// take. Fails if they take more than `room` bytes, without reading the rest. Names that are not
/// UTF-8 are left out, because a guest cannot express them, but they count.
///
/// Runs on a thread that may block.
pub(super) fn read(directory: &Dir, room: usize) -> FsResult<(Vec<DirectoryEntry>, usize)> {
    // A separate descriptor, because duplicated descriptors share one read position.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor =
        openat(&*directory.dir, ".", flags, Mode::empty()).map_err(std::io::Error::from)?;
    let entries = Entries::new(descriptor).map_err(std::io::Error::from)?;
    let entries = entries.map(|entry| {
        let entry = entry?;
        let file_type = match entry.file_type() {
            // Some file systems do not return the type with the name.
            FileType::Unknown => stat_type(directory, entry.file_name()),
            file_type => file_type,
        };
        Ok((entry.file_name().to_owned(), file_type))
    });
    collect(entries, room)
}

fn stat_type(directory: &Dir, name: &CStr) -> FileType {
    let stat = statat(&*directory.dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn collect<N: AsRef<CStr>>(
    entries: impl Iterator<Item = rustix::io::Result<(N, FileType)>>,
    room: usize,
) -> FsResult<(Vec<DirectoryEntry>, usize)> {
    let mut listed = Vec::new();
    let mut bytes = 0_usize;
    for entry in entries {
        let (name, file_type) = entry.map_err(std::io::Error::from)?;
        let name = name.as_ref();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        bytes = bytes.saturating_add(ENTRY_BYTES + name.count_bytes());
        if bytes > room {
            return Err(ErrorCode::InsufficientMemory.into());
        }
        if let Ok(name) = name.to_str() {
            listed.push(DirectoryEntry { type_: type_of(file_type), name: name.to_owned() });
        }
    }
    listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok((listed, bytes))
}

fn type_of(file_type: FileType) -> DescriptorType {
    match file_type {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::Fifo => DescriptorType::Fifo,
        FileType::Socket => DescriptorType::Socket,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::Unknown => DescriptorType::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::{super::blocking::has_code, *};

    #[test]
    fn an_endless_directory_is_read_up_to_its_bound_and_fails() {
        let mut read = 0_usize;
        let endless = std::iter::from_fn(|| {
            read += 1;
            Some(Ok((
                CString::new(format!("{read:0>36}")).expect("no zero in it"),
                FileType::RegularFile,
            )))
        });
        let error = collect(endless, 100_000).expect_err("there is no room for all of it");
        assert!(has_code(&error, ErrorCode::InsufficientMemory));
        assert_eq!(read, 1_001, "100 bytes each, and the first beyond");
    }

    #[test]
    fn names_that_are_not_utf8_are_left_out_but_counted() {
        let (listed, bytes) = collect(entries().into_iter(), 3 * 65).expect("at the edge");
        assert_eq!(listed.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(bytes, 3 * 65);
        assert!(collect(entries().into_iter(), 3 * 65 - 1).is_err());
    }

    fn entries() -> [rustix::io::Result<(CString, FileType)>; 5] {
        [&b"."[..], b"..", b"b", b"\xff", b"a"]
            .map(|name| Ok((CString::new(name).expect("no zero"), FileType::Directory)))
    }

    #[test]
    fn an_error_while_reading_fails_the_listing() {
        let entries = [Ok((CString::default(), FileType::Directory)), Err(rustix::io::Errno::IO)];
        let error = collect(entries.into_iter(), 1 << 20).expect_err("it breaks off");
        assert!(has_code(&error, ErrorCode::Io));
    }
}
