//! The two logs, as the writer sees them.

use std::{
    io::{self, Read as _},
    sync::Arc,
    time::Duration,
};

use tokio::runtime::{Builder, Runtime};

use crate::settings::{AuditKey, AuditPlace, CheckpointPlace};
use airlock_audit::{AuditLog, AuditSettings, CheckpointFile, Publication, SigningKey};
use airlock_core::{regular_file, tool::Cause};
use airlock_store::{LazyDatabase, call_log::LogBatch};

/// Longest time for one batch of rows. A store has limits of its own, which are shorter.
const STORE_TIME: Duration = Duration::from_secs(30);

/// Posts a checkpoint, the second text, to a URL. Waits for the response, for a bounded time.
pub type PostCheckpoint = Arc<dyn Fn(&str, &str) -> Result<(), Cause> + Send + Sync>;

/// The audit log.
pub(crate) trait AuditSink: Send {
    /// Adds lines. All are durable when it returns.
    fn append(&mut self, lines: &[String]) -> Result<(), Cause>;

    /// Writes a signed checkpoint.
    fn checkpoint(&mut self) -> Result<(), Cause>;

    /// Returns whether the log takes no more lines until it is opened again.
    fn has_failed(&self) -> bool;

    /// Returns the public key of the log as text.
    fn public_key(&self) -> String;
}

/// Opens the audit log, again after a failure.
pub(crate) type OpenAudit = Box<dyn FnMut() -> Result<Box<dyn AuditSink>, Cause> + Send>;

/// The call log.
pub(crate) trait RowSink: Send {
    /// Writes rows in one transaction.
    fn write(&mut self, batch: Arc<LogBatch>) -> Result<(), Cause>;
}

impl AuditSink for AuditLog {
    fn append(&mut self, lines: &[String]) -> Result<(), Cause> {
        Ok(Self::append(self, lines)?)
    }

    fn checkpoint(&mut self) -> Result<(), Cause> {
        Ok(Self::checkpoint(self).map(drop)?)
    }

    fn has_failed(&self) -> bool {
        Self::has_failed(self)
    }

    fn public_key(&self) -> String {
        Self::public_key(self).to_string()
    }
}

/// Opens the audit log of a place.
pub(crate) fn open_audit(
    place: &AuditPlace,
    post: &PostCheckpoint,
) -> Result<Box<dyn AuditSink>, Cause> {
    let mut settings = AuditSettings::new(&place.directory, &place.name);
    settings.key = place.key.as_ref().map(signing_key).transpose()?;
    settings.old_key = place.old_key.as_ref().map(signing_key).transpose()?;
    settings.publications = place.publish.iter().map(|place| publication(place, post)).collect();
    Ok(Box::new(AuditLog::open(settings)?))
}

fn publication(place: &CheckpointPlace, post: &PostCheckpoint) -> Publication {
    match place {
        CheckpointPlace::File(path) => {
            Publication::new(path.display().to_string(), CheckpointFile(path.clone()))
        }
        CheckpointPlace::Url { url, host } => {
            let url = url.clone();
            let post = post.clone();
            Publication::new(host.clone(), move |checkpoint: &str| post(url.expose(), checkpoint))
        }
    }
}

fn signing_key(key: &AuditKey) -> Result<SigningKey, Cause> {
    Ok(match key {
        AuditKey::Text(text) => SigningKey::parse(text.expose())?,
        AuditKey::File(path) => {
            let mut text = String::new();
            regular_file::open(path)?.take(MAX_KEY_BYTES).read_to_string(&mut text)?;
            SigningKey::parse(&text)?
        }
    })
}

/// Longest file of a private key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The call log in the store. Its runtime is the writer's own: the last rows are written although that of the
/// gateway has ended.
pub(crate) struct StoredRows {
    runtime: Runtime,
    database: LazyDatabase,
    writer: String,
}

impl StoredRows {
    /// Creates the call log of the gateway `writer`. Fails if the system starts no runtime.
    pub(crate) fn new(database: LazyDatabase, writer: String) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, database, writer })
    }
}

impl RowSink for StoredRows {
    fn write(&mut self, batch: Arc<LogBatch>) -> Result<(), Cause> {
        let Self { runtime, database, writer } = self;
        let writing = async {
            let database = database.available().await?;
            database.write_call_log(writer, batch).await
        };
        let written = runtime.block_on(async { tokio::time::timeout(STORE_TIME, writing).await });
        Ok(written.map_err(|_| "the store does not respond")??)
    }
}
