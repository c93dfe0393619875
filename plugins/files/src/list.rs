//! `list_directory`.

use std::fs::{self, DirEntry, FileType};
use std::ops::RangeInclusive;

use airlock_guest::{Error, tool, within};
use schemars::JsonSchema;
use serde::Serialize;

use crate::grants::{GrantedDirectories, Location};

/// Limits of `max_entries`.
const ENTRIES: RangeInclusive<usize> = 1..=5_000;

/// Largest number of names of a directory that are read: they are sorted, in memory, and 100,000 names of 255 bytes already
/// take 25 MB.
const NAMES_MAX: usize = 100_000;

/// Contents of a directory.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listing {
    /// The directory; empty for the root.
    pub path: String,
    /// Its entries, sorted by name.
    pub entries: Vec<Entry>,
    /// Whether the directory has more entries than were listed.
    pub truncated: bool,
}

/// One entry of a directory.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    /// Name within the directory.
    pub name: String,
    /// Kind of the entry.
    pub kind: FileKind,
    /// Size in bytes, of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Symlink,
    /// Something else, a socket for one.
    Other,
}

fn default_max_entries() -> usize {
    500
}

/// Lists a directory: names, kinds and sizes, sorted by name. Without a path it lists the
/// directories that are granted, with which every other path starts.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "List directory")]
pub fn list_directory(
    /// The directory, starting with the name of a granted one: `docs/notes`. Empty or `/` for the
    /// granted directories.
    #[serde(default)]
    path: String,
    /// List at most this many entries.
    #[serde(default = "default_max_entries")]
    #[schemars(range(min = 1, max = 5000))]
    max_entries: usize,
) -> Result<Listing, Error> {
    list(&GrantedDirectories::of_host(), &path, max_entries)
}

fn list(grants: &GrantedDirectories, path: &str, max_entries: usize) -> Result<Listing, Error> {
    let max_entries = within("max_entries", max_entries, &ENTRIES)?;
    let Some(place) = grants.resolve(path)? else {
        return root(grants);
    };
    let (mut entries, mut truncated) = entries(&place)?;
    truncated |= entries.len() > max_entries;
    entries.truncate(max_entries);
    Ok(Listing { path: place.shown, entries: entries.iter().map(describe).collect(), truncated })
}

fn root(grants: &GrantedDirectories) -> Result<Listing, Error> {
    let names = grants.names()?.iter().cloned();
    let entries = names.map(|name| Entry { name, kind: FileKind::Directory, size: None }).collect();
    Ok(Listing { path: String::new(), entries, truncated: false })
}

/// Returns the entries of a directory, sorted by name, and whether there are more. An entry that is
/// removed in the meantime is left out.
pub(crate) fn entries(place: &Location) -> Result<(Vec<DirEntry>, bool), Error> {
    let directory = fs::read_dir(&place.path).map_err(|error| place.refuse(error))?;
    let mut entries: Vec<DirEntry> = directory.filter_map(Result::ok).take(NAMES_MAX + 1).collect();
    let more = entries.len() > NAMES_MAX;
    entries.truncate(NAMES_MAX);
    entries.sort_by_cached_key(DirEntry::file_name);
    Ok((entries, more))
}

fn describe(entry: &DirEntry) -> Entry {
    // Neither call follows a symlink.
    let kind = entry.file_type().map_or(FileKind::Other, FileKind::from);
    let size = match kind {
        FileKind::File => entry.metadata().ok().map(|metadata| metadata.len()),
        _ => None,
    };
    Entry { name: entry.file_name().to_string_lossy().into_owned(), kind, size }
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Directory
        } else if kind.is_symlink() {
            Self::Symlink
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn directory() -> (TempDir, GrantedDirectories) {
        let base = TempDir::new().unwrap();
        fs::create_dir_all(base.path().join("docs/b")).unwrap();
        fs::create_dir(base.path().join("archive")).unwrap();
        fs::write(base.path().join("docs/c.txt"), "12345").unwrap();
        fs::write(base.path().join("docs/a.txt"), "").unwrap();
        let grants = GrantedDirectories::below(base.path());
        (base, grants)
    }

    #[test]
    fn a_directory_is_listed_by_name_with_kind_and_size() {
        let (_base, grants) = directory();
        let listing = list(&grants, "/docs", 100).unwrap();
        insta::assert_snapshot!(airlock_guest::serde_json::to_string(&listing).unwrap(), @r#"{"path":"docs","entries":[{"name":"a.txt","kind":"file","size":0},{"name":"b","kind":"directory"},{"name":"c.txt","kind":"file","size":5}],"truncated":false}"#);
    }

    #[test]
    fn the_root_lists_the_grants() {
        let (_base, grants) = directory();
        for path in ["", "/"] {
            let entries = list(&grants, path, 100).unwrap().entries;
            assert!(entries.iter().map(|entry| &entry.name).eq(["archive", "docs"]), "{path:?}");
        }
    }

    #[test]
    fn the_limit_on_entries_is_enforced_and_reported() {
        let (_base, grants) = directory();
        assert!(!list(&grants, "docs", 3).unwrap().truncated);
        let cut = list(&grants, "docs", 2).unwrap();
        assert_eq!((cut.entries.len(), cut.truncated), (2, true));
    }

    #[cfg(unix)]
    #[test]
    fn a_symlink_is_listed_as_one() {
        let (base, grants) = directory();
        std::os::unix::fs::symlink("/etc", base.path().join("docs/d")).unwrap();
        assert_eq!(list(&grants, "docs", 100).unwrap().entries[3].kind, FileKind::Symlink);
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused() {
        let (_base, grants) = directory();
        let file = list(&grants, "docs/a.txt", 100).unwrap_err();
        insta::assert_snapshot!(file, @"`docs/a.txt`, or something on the way to it, is not a directory");
        let none = list(&grants, "docs/none", 100).unwrap_err();
        insta::assert_snapshot!(none, @"`docs/none` does not exist");
    }
}
