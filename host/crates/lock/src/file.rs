//! Versions of files that are watched by polling.

use std::{path::Path, time::Duration};

use airlock_core::file_version::FileVersion;

/// Interval between checks. A file must look the same in two checks before it is read, so that no
/// half-written file is read.
pub const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Returns the version of a file; `None` if it cannot be examined.
pub async fn file_version(path: &Path) -> Option<FileVersion> {
    tokio::fs::metadata(path).await.ok().map(|metadata| FileVersion::from(&metadata))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{Permissions, set_permissions},
        os::unix::fs::PermissionsExt as _,
        time::Instant,
    };

    use super::*;

    #[tokio::test]
    async fn other_permissions_are_another_version() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let before = file_version(file.path()).await;
        assert!(before.is_some());
        assert_eq!(file_version(file.path()).await, before);
        assert_eq!(FileVersion::read(file.path()), before);
        // The clock of the file system advances every few milliseconds.
        let begin = Instant::now();
        let mut now = before.clone();
        while now == before && begin.elapsed() < Duration::from_secs(10) {
            set_permissions(file.path(), Permissions::from_mode(0o600)).expect("it is its own");
            now = file_version(file.path()).await;
        }
        assert_ne!(now, before);
    }
}
