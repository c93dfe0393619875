//! Settings of the database.

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::{Duration, SystemTime},
};

use crate::{location::Location, seal::Seals};

/// Source of the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The clock of [`Settings::new`].
pub(crate) static SYSTEM: LazyLock<Clock> = LazyLock::new(|| Arc::new(SystemTime::now));

/// Settings of the database.
#[derive(Clone)]
pub struct Settings {
    /// Place of the database. A file is made if it is missing, and so are the directories above it.
    pub location: Location,
    /// Longest time that an operation waits for another process that is writing.
    pub busy_timeout: Duration,
    /// Clock by which entries expire. On a server, the clock of [`Self::new`] stands for the server's
    /// own, so that all gateways have the same one.
    pub clock: Clock,
    /// Keys of the secrets at rest; `None` if they are stored as they are. A database that has sealed
    /// ones cannot be read without their keys.
    pub seal: Option<Seals>,
}

impl Settings {
    /// Returns settings for a gateway with a file: the system's clock, and at most 2 s of waiting for
    /// other processes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::at(Location::File(path.into()))
    }

    /// Returns settings for a gateway, as [`Self::new`], for any location.
    pub fn at(location: Location) -> Self {
        Self { location, busy_timeout: Duration::from_secs(2), clock: SYSTEM.clone(), seal: None }
    }
}

airlock_strings::debug_fields!(Settings { location, busy_timeout, seal });
