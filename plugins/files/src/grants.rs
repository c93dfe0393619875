//! The granted directories, and paths in them as callers write them: `docs/notes/a.txt` or
//! `/docs/notes/a.txt`, where `docs` is the name of a grant. A grant is preopened at `/` and its
//! name.

use std::io;
use std::path::PathBuf;

use airlock_guest::{Error, ErrorKind};

/// The directories that this plugin may see.
pub(crate) struct GrantedDirectories {
    base: PathBuf,
    names: Vec<String>,
}

/// A place in a granted directory.
#[derive(Debug)]
pub(crate) struct Location {
    /// Path for results and errors: without a leading `/`, without `.` segments.
    pub(crate) shown: String,
    /// Path for the file system.
    pub(crate) path: PathBuf,
}

impl GrantedDirectories {
    /// Reads the directories that the host granted for this call.
    pub(crate) fn of_host() -> Self {
        Self::new(PathBuf::from("/"), preopened())
    }

    fn new(base: PathBuf, mut names: Vec<String>) -> Self {
        names.sort();
        Self { base, names }
    }

    /// Treats every directory in a directory as granted, for tests.
    #[cfg(test)]
    pub(crate) fn below(base: &std::path::Path) -> Self {
        let entries = std::fs::read_dir(base).expect("a test's directory can be read");
        let names = entries
            .map(|entry| entry.expect("and listed").file_name().into_string().expect("ASCII"));
        Self::new(base.to_owned(), names.collect())
    }

    /// Returns the names of the grants, sorted. Fails if there are none, because no operation is
    /// possible then.
    pub(crate) fn names(&self) -> Result<&[String], Error> {
        if self.names.is_empty() {
            return Err(Error::denied(
                "no directory is granted to this plugin; the operator of the gateway can grant directories by name",
            )
            .with_code("no_grant"));
        }
        Ok(&self.names)
    }

    /// Resolves a path; `None` for the root, which only holds the grants.
    pub(crate) fn resolve(&self, path: &str) -> Result<Option<Location>, Error> {
        let names = self.names()?;
        if path.contains('\0') {
            return Err(Error::invalid_input("a path has no NUL character"));
        }
        let segments: Vec<&str> =
            path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
        let Some(grant) = segments.first() else {
            return Ok(None);
        };
        if segments.contains(&"..") {
            return Err(Error::invalid_input(format!("`{path}`: write the path without `..`")));
        }
        if !names.iter().any(|name| name == grant) {
            let granted =
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::not_found(format!(
                "`{path}`: a path starts with the name of a granted directory, one of {granted}"
            ))
            .with_code("unknown_grant"));
        }
        let shown = segments.join("/");
        let path = self.base.join(&shown);
        Ok(Some(Location { shown, path }))
    }

    /// Resolves the path of a file, which cannot be the root.
    pub(crate) fn resolve_file(&self, path: &str) -> Result<Location, Error> {
        self.resolve(path)?
            .ok_or_else(|| Error::invalid_input(format!("`{path}` does not name a file")))
    }
}

impl Location {
    /// Converts an I/O error to a tool error that names the path as the caller wrote it.
    pub(crate) fn refuse(&self, error: io::Error) -> Error {
        let shown = &self.shown;
        let message = match error.kind() {
            io::ErrorKind::NotFound => format!("`{shown}` does not exist"),
            io::ErrorKind::PermissionDenied => {
                format!(
                    "`{shown}` may not be used like this: the grant may be for reading only, or a symlink leads out of it"
                )
            }
            io::ErrorKind::ReadOnlyFilesystem => format!("`{shown}` is granted for reading only"),
            io::ErrorKind::IsADirectory => format!("`{shown}` is a directory"),
            io::ErrorKind::NotADirectory => {
                format!("`{shown}`, or something on the way to it, is not a directory")
            }
            io::ErrorKind::AlreadyExists => format!("`{shown}` exists already"),
            _ => format!("`{shown}`: {error}"),
        };
        let kind = Error::from(error).kind();
        Error::new(kind, message)
    }
}

/// Returns the names of the preopened directories.
#[cfg(target_os = "wasi")]
fn preopened() -> Vec<String> {
    let directories = wasip2::filesystem::preopens::get_directories();
    directories.into_iter().map(|(_, path)| path.trim_matches('/').to_owned()).collect()
}

/// Returns no names in native builds, where nothing is granted; tests use `GrantedDirectories::below`.
#[cfg(not(target_os = "wasi"))]
fn preopened() -> Vec<String> {
    Vec::new()
}

/// Returns an error: the entry at a place is not of the expected kind.
pub(crate) fn not_a(what: &str, place: &Location) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("`{}` is not a {what}", place.shown))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn grants() -> GrantedDirectories {
        GrantedDirectories::new(PathBuf::from("/"), vec!["notes".into(), "docs".into()])
    }

    fn refused(path: &str) -> String {
        grants().resolve(path).unwrap_err().to_string()
    }

    #[test]
    fn a_path_may_start_with_a_slash_or_not() {
        for path in ["docs/a/b.txt", "/docs/a/b.txt", "./docs//a/./b.txt", "docs/a/b.txt/"] {
            let place = grants().resolve(path).unwrap().unwrap();
            assert_eq!(
                (place.shown.as_str(), place.path.as_path()),
                ("docs/a/b.txt", Path::new("/docs/a/b.txt"))
            );
        }
    }

    #[test]
    fn the_root_resolves_to_no_place() {
        for path in ["", "/", ".", "//"] {
            assert!(grants().resolve(path).unwrap().is_none());
            assert!(grants().resolve_file(path).is_err());
        }
    }

    #[test]
    fn an_ungranted_path_is_refused_with_the_granted_names() {
        insta::assert_snapshot!(refused("etc/passwd"), @"`etc/passwd`: a path starts with the name of a granted directory, one of `docs`, `notes`");
        insta::assert_snapshot!(refused("/docs/../../etc/passwd"), @"`/docs/../../etc/passwd`: write the path without `..`");
        insta::assert_snapshot!(refused("docs/a\0b"), @"a path has no NUL character");
    }

    #[test]
    fn without_grants_the_error_code_is_no_grant() {
        let error =
            GrantedDirectories::new(PathBuf::from("/"), Vec::new()).resolve("docs").unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, Some("no_grant")));
    }

    #[test]
    fn an_error_keeps_its_kind_and_names_the_path() {
        let place = grants().resolve("/docs/x").unwrap().unwrap();
        for (kind, expected) in [
            (io::ErrorKind::NotFound, Error::not_found("`docs/x` does not exist")),
            (io::ErrorKind::IsADirectory, Error::invalid_input("`docs/x` is a directory")),
        ] {
            assert_eq!(place.refuse(kind.into()), expected);
        }
        let denied = place.refuse(io::ErrorKind::PermissionDenied.into());
        assert_eq!(denied.kind(), ErrorKind::Denied);
    }
}
