//! The audit log, as its writer sees it: opened when it is needed, and again after a failure, and signed at intervals.
//!
//! If the disk fails, so that the log is opened again, a line of the batch that is tried again may be there twice.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwapOption;

use crate::{
    lines,
    metrics::CheckpointMetrics,
    queue::QueuedEvent,
    settings::{AuditPlace, CheckpointPlace, SigningKeySource},
    writer::LogSink,
};
use airlock_audit::{AuditLog, AuditSettings, Publication, SigningKey};
use airlock_core::tool::Cause;

/// Posts a checkpoint, the second text, to a URL. Waits for the response, for a bounded time.
pub type PostCheckpoint = Arc<dyn Fn(&str, &str) -> Result<(), Cause> + Send + Sync>;

/// An audit log that is open.
pub(crate) trait LineSink: Send {
    /// Adds lines. All are durable when it returns.
    fn append(&mut self, lines: &[String]) -> Result<(), Cause>;

    /// Writes a signed checkpoint, if there are lines without one. After a failure, which it logs once, lines can
    /// still be added.
    fn checkpoint(&mut self) -> Result<(), Cause>;

    /// Returns the number of lines that no checkpoint covers.
    fn unsigned_lines(&self) -> u64;

    /// Returns whether the log takes no more lines until it is opened again.
    fn has_failed(&self) -> bool;

    /// Returns the public key of the log as text.
    fn public_key(&self) -> String;
}

/// Opens the audit log, again after a failure.
pub(crate) type OpenAudit = Box<dyn FnMut() -> Result<Box<dyn LineSink>, Cause> + Send>;

/// The audit log of a gateway. Dropping it writes the last checkpoint.
pub(crate) struct SignedLines {
    opener: OpenAudit,
    /// `None` until it is open, and after a failure.
    log: Option<Box<dyn LineSink>>,
    checkpoint_interval: Duration,
    /// `None` if no line is without a checkpoint.
    checkpoint_at: Option<Instant>,
    checkpoints: CheckpointMetrics,
    /// Public key of the log, set when it is opened.
    public_key: Arc<ArcSwapOption<String>>,
}

impl SignedLines {
    /// Creates the log. It is opened by its first line.
    pub(crate) fn new(
        opener: OpenAudit,
        checkpoint_interval: Duration,
        checkpoints: CheckpointMetrics,
        public_key: Arc<ArcSwapOption<String>>,
    ) -> Self {
        Self {
            opener,
            log: None,
            checkpoint_interval,
            checkpoint_at: None,
            checkpoints,
            public_key,
        }
    }

    fn open(&mut self) -> Result<Box<dyn LineSink>, Cause> {
        let log = (self.opener)()?;
        self.public_key.store(Some(Arc::new(log.public_key())));
        Ok(log)
    }
}

impl LogSink for SignedLines {
    type Rendered = Vec<String>;

    const NAME: &'static str = "audit";

    fn render(&self, events: &[QueuedEvent]) -> Option<Self::Rendered> {
        Some(events.iter().map(|event| lines::render(&event.event)).collect())
    }

    fn write(&mut self, lines: &Self::Rendered) -> Result<(), Cause> {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => self.open()?,
        };
        let appended = log.append(lines);
        self.checkpoints.note_unsigned(log.unsigned_lines());
        // One that was only full stays open: to open it, its newest file is read.
        if appended.is_ok() || !log.has_failed() {
            self.log = Some(log);
        }
        if appended.is_ok() && self.checkpoint_at.is_none() {
            self.checkpoint_at = Some(Instant::now() + self.checkpoint_interval);
        }
        appended
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.checkpoint_at
    }

    /// Signs the lines. They are durable, so that a failure refuses no call: the next checkpoint covers them too.
    fn wake(&mut self) {
        self.checkpoint_at = None;
        let Some(log) = &mut self.log else { return };
        let signed = log.checkpoint();
        self.checkpoints.note_unsigned(log.unsigned_lines());
        if signed.is_ok() {
            self.checkpoints.note_signed(SystemTime::now());
        } else {
            self.checkpoints.failed.inc();
            self.checkpoint_at = Some(Instant::now() + self.checkpoint_interval);
        }
    }
}

impl LineSink for AuditLog {
    fn append(&mut self, lines: &[String]) -> Result<(), Cause> {
        Ok(Self::append(self, lines)?)
    }

    fn checkpoint(&mut self) -> Result<(), Cause> {
        Ok(Self::checkpoint(self).map(drop)?)
    }

    fn unsigned_lines(&self) -> u64 {
        Self::unsigned_lines(self)
    }

    fn has_failed(&self) -> bool {
        Self::has_failed(self)
    }

    fn public_key(&self) -> String {
        Self::public_key(self).to_string()
    }
}

/// Opens the audit log of a place.
pub(crate) fn open(place: &AuditPlace, post: &PostCheckpoint) -> Result<Box<dyn LineSink>, Cause> {
    let mut settings = AuditSettings::new(&place.directory, &place.name);
    settings.key = place.key.as_ref().map(signing_key).transpose()?;
    settings.old_key = place.old_key.as_ref().map(signing_key).transpose()?;
    settings.publications = place.publish.iter().map(|place| publication(place, post)).collect();
    Ok(Box::new(AuditLog::open(settings)?))
}

fn publication(place: &CheckpointPlace, post: &PostCheckpoint) -> Publication {
    match place {
        CheckpointPlace::File(path) => Publication::file(path.clone()),
        CheckpointPlace::Url { url, host } => {
            let url = url.clone();
            let post = post.clone();
            Publication::new(host.clone(), move |checkpoint: &str| post(url.expose(), checkpoint))
        }
    }
}

fn signing_key(source: &SigningKeySource) -> Result<SigningKey, Cause> {
    Ok(match source {
        SigningKeySource::Text(text) => SigningKey::parse(text.expose())?,
        SigningKeySource::File(path) => SigningKey::read(path)?,
    })
}
