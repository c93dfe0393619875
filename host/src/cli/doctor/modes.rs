//! The users of the machine who may read and change the gateway's files.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{Access, access},
    process::geteuid,
};

use super::{
    checkup::Check,
    finding::{DoctorFinding, Status},
};
use airlock_config::Config;
use airlock_records::CheckpointPlace;
use airlock_terminal::{output, session::ConfigFile};

const CODE: &str = "file_mode";

/// Protection that a file needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Protection {
    /// Other users may not change it.
    Change,
    /// Other users may neither change nor read it. Of a directory, the files in it are protected.
    Reading,
}

/// Permission that other users have and should not have.
#[derive(Debug, PartialEq, Eq)]
struct Weakness {
    status: Status,
    found: &'static str,
    /// Arguments of `chmod`.
    mode: &'static str,
}

impl Weakness {
    fn new(status: Status, found: &'static str, mode: &'static str) -> Self {
        Self { status, found, mode }
    }
}

/// Returns the check of all files of the gateway.
pub(super) fn check(config: &Arc<Config>, file: &ConfigFile) -> Check {
    let config = config.clone();
    let file = file.path.clone();
    Check::blocking(CODE, "files of the gateway", move || inspect(&config, &file))
}

fn inspect(config: &Config, file: &Path) -> Vec<DoctorFinding> {
    let files = files(config, file);
    let mut found: Vec<_> = files.iter().flat_map(|(path, needs)| judge(path, *needs)).collect();
    found.extend(unwritable_data(config));
    if found.is_empty() {
        let good = format!("{} files and directories are protected", files.len());
        found.push(DoctorFinding::ok(CODE, "files of the gateway", good));
    }
    found
}

/// Returns the files and directories, with the protection that each needs: a file is as safe as its directory.
fn files(config: &Config, file: &Path) -> BTreeMap<PathBuf, Protection> {
    let own = config.own_files(file);
    let published = published(config);
    let secret = own.unreadable.into_iter().filter(|path| !published.contains(&path.as_path()));
    let mut files: BTreeMap<_, _> =
        own.unwritable.into_iter().map(|path| (path, Protection::Change)).collect();
    files.extend(secret.map(|path| (path, Protection::Reading)));
    let directories: Vec<_> = files.keys().filter_map(|path| directory_of(path)).collect();
    for directory in directories {
        files.entry(directory).or_insert(Protection::Change);
    }
    files
}

/// Returns the files with checkpoints that others are to read.
fn published(config: &Config) -> Vec<&Path> {
    let places = config.records.audit.iter().flat_map(|audit| &audit.publish);
    let files = places.filter_map(|place| match place {
        CheckpointPlace::File(path) => Some(path.as_path()),
        CheckpointPlace::Url { .. } => None,
    });
    files.collect()
}

/// Returns the directory of a path; `None` for the root.
pub(super) fn directory_of(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() })
}

/// Returns the findings about one path. There are none if it does not exist: other checks report that.
fn judge(path: &Path, needs: Protection) -> Vec<DoctorFinding> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let shown = path.display().to_string();
    let mode = metadata.mode() & 0o7777;
    let own = geteuid().as_raw();
    let mut found = Vec::new();
    // Root may check a gateway of another user.
    if own != 0 && metadata.uid() != own && metadata.uid() != 0 {
        let owner = format!("it belongs to the user {}, who may change it", metadata.uid());
        let valid = format!("a file of this user ({own}) or of root");
        found.push(DoctorFinding::warning(CODE, &*shown, owner).valid(valid));
    }
    if let Some(Weakness { status, found: problem, mode: fix }) =
        weakness(needs, metadata.is_dir(), mode)
    {
        let command = format!("chmod {fix} {}", output::quoted(&shown));
        let finding =
            DoctorFinding::new(status, CODE, shown, format!("{problem} (mode {mode:04o})"));
        found.push(finding.valid("access for the user of the gateway alone").fix(command));
    }
    found
}

fn weakness(needs: Protection, is_directory: bool, mode: u32) -> Option<Weakness> {
    let is_sticky = is_directory && mode & 0o1000 != 0;
    let is_secret = needs == Protection::Reading && !is_directory;
    Some(match mode {
        mode if mode & 0o002 != 0 && !is_sticky => {
            Weakness::new(Status::Error, "every user of the machine may change it", "go-w")
        }
        mode if mode & 0o004 != 0 && is_secret => {
            Weakness::new(Status::Error, "every user of the machine may read it", "go-rwx")
        }
        mode if mode & 0o020 != 0 && !is_sticky => {
            Weakness::new(Status::Warning, "its group may change it", "g-w")
        }
        mode if mode & 0o040 != 0 && is_secret => {
            Weakness::new(Status::Warning, "its group may read it", "g-rwx")
        }
        _ => return None,
    })
}

/// Returns the directories of data in which this user may not write.
fn unwritable_data(config: &Config) -> Vec<DoctorFinding> {
    let audit = config.records.audit.as_ref().map(|audit| audit.directory.clone());
    let store = config.store.path().and_then(directory_of);
    let directories = store.into_iter().chain(audit);
    let existing = directories.map(|directory| nearest_existing(&directory));
    let unwritable =
        existing.filter(|directory| access(directory, Access::WRITE_OK | Access::EXEC_OK).is_err());
    let findings = unwritable.map(|directory| {
        let shown = directory.display().to_string();
        DoctorFinding::error("data_directory", shown, "this user may not make files in it")
            .valid("a directory in which the user of the gateway may write")
            .fix("change its owner, or name another place in `store` or `records.audit.dir`")
    });
    findings.collect()
}

/// Returns the directory, or the nearest one above it that exists.
pub(super) fn nearest_existing(directory: &Path) -> PathBuf {
    let existing = directory.ancestors().find(|above| above.is_dir());
    existing.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_judged_by_what_others_may_do_with_it() {
        use Protection::{Change, Reading};
        use Status::{Error, Warning};
        for (needs, is_directory, mode, expected) in [
            (Reading, false, 0o600, None),
            (Reading, false, 0o400, None),
            (Reading, false, 0o644, Some((Error, "go-rwx"))),
            (Reading, false, 0o640, Some((Warning, "g-rwx"))),
            (Reading, false, 0o602, Some((Error, "go-w"))),
            (Reading, true, 0o755, None),
            (Change, false, 0o644, None),
            (Change, false, 0o664, Some((Warning, "g-w"))),
            (Change, false, 0o666, Some((Error, "go-w"))),
            (Change, true, 0o777, Some((Error, "go-w"))),
            (Change, true, 0o1777, None),
            // A sticky file is no sticky directory.
            (Change, false, 0o1666, Some((Error, "go-w"))),
        ] {
            let found = weakness(needs, is_directory, mode);
            let found = found.map(|weakness| (weakness.status, weakness.mode));
            assert_eq!(found, expected, "{needs:?} {is_directory} {mode:o}");
        }
    }
}
