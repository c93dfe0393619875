//! A cgroup (version 2) for each child, where the gateway may create one below its own.
//!
//! No process can leave a cgroup unless it may write into another one, so this also holds
//! processes that hide from every other search. No controller is needed.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::tag::Tag;

/// Begin of the names of all cgroups of gateways.
const PREFIX: &str = "airlock-";
/// Attempts to remove a cgroup whose processes were killed and are about to end.
const REMOVALS: u32 = 50;
/// Delay between two attempts.
const REMOVAL_DELAY: Duration = Duration::from_millis(10);

/// A cgroup of a child.
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a cgroup below that of the gateway. Returns `None` if the system has no cgroups of
    /// version 2, if the gateway may not create any, or if they cannot be killed (before Linux
    /// 5.14).
    pub(super) fn create(tag: &Tag) -> Option<Self> {
        let path = own()?.join(format!("{PREFIX}{tag}"));
        fs::create_dir(&path).ok()?;
        let this = Self(path);
        if this.0.join("cgroup.kill").exists() && this.entrance().is_some() {
            return Some(this);
        }
        let _ = fs::remove_dir(&this.0);
        None
    }

    /// Returns the file into which a process writes to enter.
    pub(super) fn entrance(&self) -> Option<OwnedFd> {
        write_only(&self.0.join("cgroup.procs")).map(OwnedFd::from)
    }

    /// Kills all processes in the cgroup.
    pub(super) fn kill(&self) {
        if let Some(mut file) = write_only(&self.0.join("cgroup.kill")) {
            let _ = file.write_all(b"1");
        }
    }

    /// Removes the cgroup, whose processes were killed. Leaves it to a later gateway if one of them
    /// does not end.
    pub(super) fn remove(self) {
        for _ in 0..REMOVALS {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            thread::sleep(REMOVAL_DELAY);
        }
    }
}

/// Kills the processes in the cgroups that gateways have left behind below that of this one.
pub(super) fn kill_abandoned() {
    let siblings = own().and_then(|own| fs::read_dir(own).ok()).into_iter().flatten().flatten();
    for entry in siblings {
        let name = entry.file_name();
        let tag = name.to_str().and_then(|name| Tag::parse(name.strip_prefix(PREFIX)?));
        if tag.is_some_and(|tag| tag.gateway.has_ended()) {
            let cgroup = Cgroup(entry.path());
            cgroup.kill();
            cgroup.remove();
        }
    }
}

fn write_only(path: &Path) -> Option<File> {
    OpenOptions::new().write(true).open(path).ok()
}

/// Returns the directory of the gateway's own cgroup.
pub(crate) fn own() -> Option<PathBuf> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    directory(&cgroups, &mounts).filter(|directory| directory.is_dir())
}

/// Finds the directory of a cgroup in the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn directory(cgroups: &str, mounts: &str) -> Option<PathBuf> {
    let path = Path::new(cgroups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let root = place.next()?;
        let point = place.next()?;
        // The kernel escapes spaces; such a mount point is not used.
        let is_usable = kind.starts_with("cgroup2 ") && !point.contains('\\');
        let below = path.strip_prefix(root).ok().filter(|_| is_usable)?;
        Some(Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found_below_the_mount_of_version_2() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            31 23 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            directory("4:memory:/x\n0::/user.slice/a.scope\n", mounts),
            Some("/sys/fs/cgroup/unified/user.slice/a.scope".into())
        );
        assert_eq!(directory("0::/\n", mounts), Some("/sys/fs/cgroup/unified/".into()));
        assert_eq!(directory("4:memory:/x\n", mounts), None);
        let inner = "31 23 0:27 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(directory("0::/docker/1/a\n", inner), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(directory("0::/docker/2\n", inner), None);
    }
}
