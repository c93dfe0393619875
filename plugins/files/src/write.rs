//! `write_file`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use airlock_guest::{Error, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grants::{GrantedDirectories, Location, not_a};

/// Treatment of a file that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Leave it alone and fail.
    #[default]
    Create,
    /// Replace what is in it.
    Overwrite,
    /// Add to its end.
    Append,
}

/// A file that was written.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Written {
    /// The file.
    pub path: String,
    /// Whether the file is new.
    pub created: bool,
    /// Bytes that were written.
    pub bytes: usize,
}

/// Writes a text file. A file that does not exist is created in every mode; one that exists is
/// touched only with mode "overwrite" or "append".
#[tool(
    read_only = false,
    destructive,
    idempotent = false,
    open_world = false,
    title = "Write file"
)]
pub fn write_file(
    /// The file, starting with the name of a granted directory: `docs/notes/a.txt`.
    path: String,
    /// The text to write.
    text: String,
    /// Treatment of a file that exists.
    #[serde(default)]
    mode: Mode,
    /// Create the directories on the way to the file where they do not exist.
    #[serde(default)]
    create_directories: bool,
) -> Result<Written, Error> {
    write(&GrantedDirectories::of_host(), &path, &text, mode, create_directories)
}

fn write(
    grants: &GrantedDirectories,
    path: &str,
    text: &str,
    mode: Mode,
    create_directories: bool,
) -> Result<Written, Error> {
    let place = grants.resolve_file(path)?;
    if create_directories && let Some(parent) = place.path.parent() {
        fs::create_dir_all(parent).map_err(|error| match error.kind() {
            // The existing entry is a file in place of a directory.
            io::ErrorKind::AlreadyExists => place.refuse(io::ErrorKind::NotADirectory.into()),
            _ => place.refuse(error),
        })?;
    }
    let created = match fs::metadata(&place.path) {
        Ok(metadata) if metadata.is_dir() => return Err(not_a("file", &place)),
        found => found.is_err(),
    };
    let mut file = options(mode).open(&place.path).map_err(|error| refuse(&place, error))?;
    file.write_all(text.as_bytes()).map_err(|error| place.refuse(error))?;
    Ok(Written { path: place.shown, created, bytes: text.len() })
}

fn options(mode: Mode) -> OpenOptions {
    let mut options = OpenOptions::new();
    match mode {
        Mode::Create => options.write(true).create_new(true),
        Mode::Overwrite => options.write(true).create(true).truncate(true),
        Mode::Append => options.append(true).create(true),
    };
    options
}

fn refuse(place: &Location, error: io::Error) -> Error {
    let shown = &place.shown;
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::invalid_input(format!(
            "`{shown}` exists already; use mode \"overwrite\" to replace it or \"append\" to add to it"
        ))
        .with_code("exists"),
        io::ErrorKind::NotFound => {
            Error::not_found(format!("the directory of `{shown}` does not exist; pass `create_directories: true` to create it"))
                .with_code("no_directory")
        }
        _ => place.refuse(error),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn directory() -> (TempDir, GrantedDirectories) {
        let base = TempDir::new().unwrap();
        fs::create_dir(base.path().join("docs")).unwrap();
        fs::write(base.path().join("docs/old.txt"), "old").unwrap();
        let grants = GrantedDirectories::below(base.path());
        (base, grants)
    }

    fn after(path: &str, mode: Mode) -> (bool, String) {
        let (base, grants) = directory();
        let written = write(&grants, path, "new", mode, false).unwrap();
        assert_eq!(written.bytes, 3);
        (written.created, fs::read_to_string(base.path().join(path)).unwrap())
    }

    #[test]
    fn a_new_file_is_created_in_every_mode() {
        for mode in [Mode::Create, Mode::Overwrite, Mode::Append] {
            assert_eq!(after("docs/new.txt", mode), (true, "new".into()));
        }
    }

    #[test]
    fn an_existing_file_is_replaced_or_appended_to() {
        assert_eq!(after("docs/old.txt", Mode::Overwrite), (false, "new".into()));
        assert_eq!(after("docs/old.txt", Mode::Append), (false, "oldnew".into()));
    }

    #[test]
    fn an_existing_file_is_kept_in_mode_create() {
        let (base, grants) = directory();
        let error = write(&grants, "docs/old.txt", "new", Mode::Create, false).unwrap_err();
        insta::assert_snapshot!(error, @r#"`docs/old.txt` exists already; use mode "overwrite" to replace it or "append" to add to it"#);
        assert_eq!(fs::read_to_string(base.path().join("docs/old.txt")).unwrap(), "old");
    }

    #[test]
    fn directories_are_created_only_if_asked() {
        let (base, grants) = directory();
        let path = "docs/a/b/c.txt";
        let error = write(&grants, path, "new", Mode::Create, false).unwrap_err();
        insta::assert_snapshot!(error, @"the directory of `docs/a/b/c.txt` does not exist; pass `create_directories: true` to create it");
        assert!(!base.path().join("docs/a").exists());
        write(&grants, path, "new", Mode::Create, true).unwrap();
        assert!(base.path().join(path).exists());
    }

    #[test]
    fn a_path_that_is_no_file_is_refused() {
        let (_base, grants) = directory();
        insta::assert_snapshot!(refused(&grants, "docs"), @"`docs` is not a file");
        insta::assert_snapshot!(refused(&grants, "/"), @"`/` does not name a file");
        insta::assert_snapshot!(refused(&grants, "docs/old.txt/a"), @"`docs/old.txt/a`, or something on the way to it, is not a directory");
    }

    fn refused(grants: &GrantedDirectories, path: &str) -> String {
        write(grants, path, "", Mode::Overwrite, true).unwrap_err().to_string()
    }
}
