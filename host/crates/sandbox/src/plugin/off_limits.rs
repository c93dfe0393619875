//! Files and directories of the gateway that are granted to no plugin.

use std::path::{Path, PathBuf};

use crate::{Access, Directory, LoadError};

/// Files and directories that control the gateway, or hold data that plugins must not see. A
/// granted directory must not overlap with one of them; only a read-only one may overlap with an
/// unwritable one. The cache of compiled code is always unreadable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffLimits {
    /// Plugins may not write to these: the configuration, `airlock.lock`, components.
    pub unwritable: Vec<PathBuf>,
    /// Plugins may not even read these: the store that plugins share, secrets.
    pub unreadable: Vec<PathBuf>,
}

impl OffLimits {
    /// Adds a directory that plugins may not read, if there is one.
    pub(crate) fn and_unreadable(mut self, directory: Option<&Path>) -> Self {
        self.unreadable.extend(directory.map(Path::to_owned));
        self
    }

    /// Adds the files and directories of `other`.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (own, others) in
            [(&mut self.unwritable, &other.unwritable), (&mut self.unreadable, &other.unreadable)]
        {
            for path in others {
                if !own.contains(path) {
                    own.push(path.clone());
                }
            }
        }
        self
    }

    /// Checks granted directories at load and not at the first call. Fails if one does not exist or
    /// must not be granted. A plugin that can write to the gateway's own files can run any code in
    /// this process, or grant itself anything.
    pub(crate) fn check(&self, granted: &[Directory]) -> Result<(), LoadError> {
        granted.iter().try_for_each(|directory| self.check_directory(directory))
    }

    fn check_directory(&self, directory: &Directory) -> Result<(), LoadError> {
        let path = directory
            .path
            .canonicalize()
            .map_err(|error| refused_directory(directory, error.to_string()))?;
        if !path.is_dir() {
            return Err(refused_directory(directory, "it is not a directory".into()));
        }
        if let Some(own) = self.unreadable.iter().find(|own| overlaps(own, &path)) {
            return Err(refused_directory(
                directory,
                format!("{} belongs to the gateway; no plugin may read it", own.display()),
            ));
        }
        match self.unwritable.iter().find(|own| overlaps(own, &path)) {
            Some(own) if directory.access == Access::ReadWrite => Err(refused_directory(
                directory,
                format!("{} belongs to the gateway; no plugin may write to it", own.display()),
            )),
            _ => Ok(()),
        }
    }
}

fn refused_directory(directory: &Directory, reason: String) -> LoadError {
    LoadError::Directory { path: directory.path.clone(), reason }
}

/// Returns the path of a file with links resolved. The file itself need not exist.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.canonicalize()
        .ok()
        .or_else(|| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
}

/// Returns the directory entries of a path with the links in their parents resolved. A link among them could
/// be replaced.
fn entries(path: &Path) -> Vec<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_default();
    let entries = path
        .ancestors()
        .filter_map(|entry| Some(entry.parent()?.canonicalize().ok()?.join(entry.file_name()?)));
    entries.collect()
}

fn overlaps(own: &Path, path: &Path) -> bool {
    resolved(own).is_some_and(|own| own.starts_with(path) || path.starts_with(&own))
        || entries(own).iter().any(|entry| entry.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    #[test]
    fn the_gateways_own_files_are_not_granted_to_plugins() {
        let home = tempfile::tempdir().expect("a directory");
        for directory in ["cache/below", "config", "data", "other"] {
            std::fs::create_dir_all(home.path().join(directory)).expect("a directory");
        }
        // Neither file exists yet.
        let off_limits = OffLimits {
            unwritable: vec![home.path().join("config/airlock.lock")],
            unreadable: vec![home.path().join("cache"), home.path().join("data/airlock.db")],
        };
        for hidden in [
            home.path().to_owned(),
            home.path().join("cache"),
            home.path().join("cache/below"),
            home.path().join("data"),
        ] {
            assert!(
                !is_granted(&off_limits, hidden.clone(), Access::ReadOnly)
                    && !is_granted(&off_limits, hidden.clone(), Access::ReadWrite),
                "{}",
                hidden.display()
            );
        }
        assert!(
            is_granted(&off_limits, home.path().join("config"), Access::ReadOnly)
                && !is_granted(&off_limits, home.path().join("config"), Access::ReadWrite)
        );
        assert!(is_granted(&off_limits, home.path().join("other"), Access::ReadWrite));
        std::os::unix::fs::symlink(home.path().join("config"), home.path().join("other/link"))
            .expect("a link");
        assert!(
            !is_granted(&off_limits, home.path().join("other/link"), Access::ReadWrite),
            "links are followed"
        );
        assert!(!is_granted(&off_limits, home.path().join("missing"), Access::ReadOnly));
    }

    #[test]
    fn the_links_to_the_gateways_own_files_are_not_granted_to_plugins() {
        let home = tempfile::tempdir().expect("a directory");
        for directory in ["files", "links", "below/directory", "other"] {
            std::fs::create_dir_all(home.path().join(directory)).expect("a directory");
        }
        std::fs::write(home.path().join("files/key.pem"), "").expect("a file");
        for (target, link) in
            [("files/key.pem", "links/key.pem"), ("files", "below/directory/link")]
        {
            let link = home.path().join(link);
            std::os::unix::fs::symlink(home.path().join(target), link).expect("a link");
        }
        for own in ["links/key.pem", "below/directory/link/key.pem"] {
            let unwritable = vec![home.path().join(own)];
            let off_limits = OffLimits { unwritable, unreadable: Vec::new() };
            let directory = home.path().join(own.split_once('/').expect("a directory").0);
            assert!(!is_granted(&off_limits, directory, Access::ReadWrite), "{own}");
            assert!(!is_granted(&off_limits, home.path().join("files"), Access::ReadWrite));
            assert!(is_granted(&off_limits, home.path().join("other"), Access::ReadWrite));
        }
    }

    #[test]
    fn a_union_has_the_files_of_both_once() {
        let [first, second] = ["a", "b"].map(|name| OffLimits {
            unwritable: vec!["both".into(), name.into()],
            unreadable: vec![name.into()],
        });
        let union = first.union(&second);
        assert_eq!(union.unwritable, ["both", "a", "b"].map(PathBuf::from));
        assert_eq!(union.unreadable, ["a", "b"].map(PathBuf::from));
        assert_eq!(union.clone().union(&second), union);
    }

    fn is_granted(off_limits: &OffLimits, path: PathBuf, access: Access) -> bool {
        let quota = Quota { bytes: 1, files: 1 };
        let directory = Directory { name: "d".into(), request: "d".into(), path, access, quota };
        off_limits.check(&[directory]).is_ok()
    }
}
