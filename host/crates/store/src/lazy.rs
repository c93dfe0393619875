//! The database of a process, which is opened when it is first needed.

use std::{sync::Arc, time::SystemTime};

use airlock_strings::with_causes;
use tokio::{sync::OnceCell, time::timeout};
use tracing::error;

use crate::{
    database::Database,
    error::{OpenError, Unavailable},
    lane::MAX_WAIT,
    location::Location,
    settings::Settings,
};

/// The database of a process. Clones share it, so that all its users wait in the same two lanes. The
/// first of them opens it.
#[derive(Debug, Clone)]
pub struct LazyDatabase(Arc<Opening>);

#[derive(Debug)]
struct Opening {
    settings: Settings,
    database: OnceCell<Database>,
}

impl LazyDatabase {
    /// Creates a database that is not open yet.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Opening { settings, database: OnceCell::new() }))
    }

    /// Place of the database.
    pub fn location(&self) -> &Location {
        &self.0.settings.location
    }

    /// Returns the time by which entries expire.
    pub fn now(&self) -> SystemTime {
        (self.0.settings.clock)()
    }

    /// Returns the open database. Opens it if it is not; fails if it cannot be opened, and the next
    /// call tries again. If the future is dropped, the next call opens it.
    pub async fn open(&self) -> Result<&Database, OpenError> {
        self.0.database.get_or_try_init(|| Database::open(self.0.settings.clone())).await
    }

    /// Returns the open database, as [`Self::open`], and waits at most as long as for a lane: those who
    /// find another process holding the file try one after the other. Logs the reason if it cannot be
    /// opened, and fails with [`Unavailable::Lost`], or with [`Unavailable::Unreachable`] for a server.
    pub async fn available(&self) -> Result<&Database, Unavailable> {
        let opened = timeout(MAX_WAIT, self.open()).await.map_err(|_| Unavailable::Busy)?;
        opened.map_err(|cause| {
            error!(error = with_causes(&cause), "the database cannot be opened");
            match self.location() {
                Location::File(_) => Unavailable::Lost,
                Location::Server(_) => Unavailable::Unreachable,
            }
        })
    }
}

impl From<Settings> for LazyDatabase {
    fn from(settings: Settings) -> Self {
        Self::new(settings)
    }
}
