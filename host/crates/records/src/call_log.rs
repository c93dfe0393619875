//! The call log in the store, as its writer sees it.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

use crate::{queue::QueuedEvent, rows, writer::LogSink};
use airlock_core::tool::Cause;
use airlock_store::{LazyDatabase, call_log::LogBatch};

/// Longest time for one batch of rows. A store has limits of its own, which are shorter.
const STORE_TIME: Duration = Duration::from_secs(30);

/// The rows of a gateway in the store.
pub(crate) struct StoredRows {
    /// Its own: the last rows are written although the runtime of the gateway has ended.
    runtime: Runtime,
    database: LazyDatabase,
    /// Identifier of the gateway.
    writer: String,
    keeps_contents: bool,
}

impl StoredRows {
    /// Creates the rows of the gateway `writer`. Fails if the system starts no runtime.
    pub(crate) fn new(
        database: LazyDatabase,
        writer: String,
        keeps_contents: bool,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, database, writer, keeps_contents })
    }
}

impl LogSink for StoredRows {
    type Rendered = Arc<LogBatch>;

    const NAME: &'static str = "call_log";

    fn render(&self, events: &[QueuedEvent]) -> Option<Self::Rendered> {
        let rows = rows::render(events, self.keeps_contents);
        (!rows.is_empty()).then(|| Arc::new(rows))
    }

    fn write(&mut self, rows: &Self::Rendered) -> Result<(), Cause> {
        let Self { runtime, database, writer, .. } = self;
        let writing = async {
            let database = database.available().await?;
            database.write_call_log(writer, rows.clone()).await
        };
        let written = runtime.block_on(async { timeout(STORE_TIME, writing).await });
        Ok(written.map_err(|_| "the store does not respond")??)
    }
}
