//! `create_directory`.

use std::{fs, io};

use airlock_guest::{Error, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::grants::{GrantedDirectories, not_a};

/// A directory that is there.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Directory {
    /// The directory.
    pub path: String,
    /// Whether the directory is new.
    pub created: bool,
}

/// Creates a directory, and those on the way to it. A directory that exists stays as it is.
#[tool(
    read_only = false,
    destructive = false,
    idempotent,
    open_world = false,
    title = "Create directory"
)]
pub fn create_directory(
    /// The directory, starting with the name of a granted one: `docs/notes/2026`.
    path: String,
) -> Result<Directory, Error> {
    create(&GrantedDirectories::of_host(), &path)
}

fn create(grants: &GrantedDirectories, path: &str) -> Result<Directory, Error> {
    let place = grants.resolve(path)?.ok_or_else(|| {
        Error::invalid_input(format!(
            "`{path}` does not name a directory; a path starts with the name of a granted directory"
        ))
    })?;
    let created = !place.path.is_dir();
    if created {
        fs::create_dir_all(&place.path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => not_a("directory", &place),
            _ => place.refuse(error),
        })?;
    }
    Ok(Directory { path: place.shown, created })
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

    #[test]
    fn a_directory_is_created_with_those_on_the_way_and_only_once() {
        let (base, grants) = directory();
        for created in [true, false] {
            let expected = Directory { path: "docs/a/b".into(), created };
            assert_eq!(create(&grants, "/docs/a/b/"), Ok(expected));
            assert!(base.path().join("docs/a/b").is_dir());
        }
    }

    #[test]
    fn a_granted_directory_exists() {
        let (_base, grants) = directory();
        let expected = Directory { path: "docs".into(), created: false };
        assert_eq!(create(&grants, "docs"), Ok(expected));
    }

    #[test]
    fn a_path_that_can_be_no_directory_is_refused() {
        let (base, grants) = directory();
        insta::assert_snapshot!(refused(&grants, "/"), @"`/` does not name a directory; a path starts with the name of a granted directory");
        insta::assert_snapshot!(refused(&grants, "docs/old.txt"), @"`docs/old.txt` is not a directory");
        insta::assert_snapshot!(refused(&grants, "docs/old.txt/a"), @"`docs/old.txt/a`, or something on the way to it, is not a directory");
        insta::assert_snapshot!(refused(&grants, "other/a"), @"`other/a`: a path starts with the name of a granted directory, one of `docs`");
        assert_eq!(fs::read_to_string(base.path().join("docs/old.txt")).unwrap(), "old");
    }

    fn refused(grants: &GrantedDirectories, path: &str) -> String {
        create(grants, path).unwrap_err().to_string()
    }
}
