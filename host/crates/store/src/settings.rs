//! Settings of the database.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Source of the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Settings of the database.
#[derive(Clone)]
pub struct Settings {
    /// Path of the file. The file is made if it is missing, and so are the directories above it.
    pub path: PathBuf,
    /// Longest time that an operation waits for another process that is writing.
    pub busy_timeout: Duration,
    /// Clock by which entries expire.
    pub clock: Clock,
}

impl Settings {
    /// Returns settings for a gateway: the system's clock, and at most 2 s of waiting for other
    /// processes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            busy_timeout: Duration::from_secs(2),
            clock: Arc::new(SystemTime::now),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("path", &self.path)
            .field("busy_timeout", &self.busy_timeout)
            .finish_non_exhaustive()
    }
}
