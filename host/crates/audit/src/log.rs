//! The log of one gateway: lines are added to its end, and the state is signed from time to time.
//!
//! Everything here blocks on the disk. A line is durable when [`AuditLog::append`] returns, and is never
//! changed afterwards. A log that is not as it was signed is not opened.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use airlock_strings::{hex, with_causes};
use serde_json::Value;
use tracing::{error, info, warn};

use crate::{
    checkpoint::Checkpoint,
    error::AuditError,
    event::{EventLine, GENESIS, LOG_CONTINUED, LOG_CREATED, LOG_RECOVERED, line, now_ms},
    files::{self, MAX_EVENT_BYTES},
    key::{PublicKey, SigningKey, is_name},
    publish::{Publication, Publishers},
    rotation,
    tree::{Hash, Tree, leaf_hash},
};

mod opening;
mod own_key;
mod signed_states;
mod thinning;

/// Size at which a file of lines is full, unless the settings have another, in bytes. At a start only the
/// newest file is read.
const SEGMENT_BYTES: u64 = 256 << 20;
/// Time between two messages about checkpoints that cannot be written.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// Settings of a log.
#[derive(Debug)]
pub struct AuditSettings {
    /// Directory of the log. It is made if there is none.
    pub directory: PathBuf,
    /// Name of the gateway: the first part of the log's origin. Must have no space and no plus sign.
    pub name: String,
    /// Name of this replica: the second part. With `None` it is the one that the log has, and twelve random
    /// digits for a new log.
    pub replica: Option<String>,
    /// The key that signs. With `None` it is the file `key.pem` of the directory, which is made if there is
    /// none.
    pub key: Option<SigningKey>,
    /// The key that has signed so far, if another one shall sign from now on.
    pub old_key: Option<SigningKey>,
    /// Size at which a file of lines is full, in bytes.
    pub segment_bytes: u64,
    /// Number of the newest checkpoints that all stay. Of the older ones of the newest file of lines, one for each
    /// 1,024 lines does.
    pub newest_checkpoints: usize,
    /// Places where checkpoints are published.
    pub publications: Vec<Publication>,
}

impl AuditSettings {
    /// Creates the settings of the log in a directory, of the gateway with this name.
    pub fn new(directory: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self {
            directory: directory.into(),
            name: name.into(),
            replica: None,
            key: None,
            old_key: None,
            segment_bytes: SEGMENT_BYTES,
            newest_checkpoints: thinning::NEWEST,
            publications: Vec::new(),
        }
    }
}

/// The log of one gateway. Dropping it writes a last checkpoint.
pub struct AuditLog {
    directory: PathBuf,
    origin: String,
    key: SigningKey,
    segment_bytes: u64,
    publishers: Publishers,
    /// The file that lines are added to.
    file: LogFile,
    /// Number of its first line.
    first: u64,
    checkpoints: LogFile,
    last_checkpoint: Option<Checkpoint>,
    newest_checkpoints: usize,
    /// Number of checkpoints of the present file that were not thinned yet.
    added_checkpoints: usize,
    /// Time of the last message that no checkpoint can be written; `None` if the last one could. Lines are durable
    /// without it, and the next one covers them.
    checkpoint_reported: Option<Instant>,
    tree: Tree,
    /// Hash of the last line.
    last: Hash,
    /// True if the state of the file is unknown, because the system failed to store it.
    has_failed: bool,
    /// Held for as long as the log is open.
    _lock: File,
}

/// A file that is added to, and its length so far.
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// True if a write that has failed may have left a part of its text after these.
    is_torn: bool,
}

/// Error of a write, and whether the end of the file is still where it was.
struct WriteFailure {
    cause: io::Error,
    is_undone: bool,
}

impl LogFile {
    fn open(path: PathBuf, bytes: u64) -> io::Result<Self> {
        let file = files::open_to_append(&path)?;
        Ok(Self { path, file, bytes, is_torn: false })
    }

    /// Adds text, and returns when it is durable.
    fn append(&mut self, text: &str) -> Result<(), WriteFailure> {
        if let Err(cause) = self.file.write_all(text.as_bytes()) {
            // A full disk takes a part. What was stored before is as it was.
            self.is_torn = self.file.set_len(self.bytes).is_err();
            return Err(WriteFailure { cause, is_undone: !self.is_torn });
        }
        if let Err(cause) = self.file.sync_data() {
            // The system may have dropped the pages, and a second call would succeed. The text could still be read,
            // and would be taken for stored when the log is opened again.
            self.is_torn = self.file.set_len(self.bytes).is_err();
            return Err(WriteFailure { cause, is_undone: false });
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Adds text as [`Self::append`] does, after what is durable: what an earlier failure has left is removed first.
    fn append_durable(&mut self, text: &str) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.bytes)?;
            self.is_torn = false;
        }
        self.check()?;
        self.append(text).map_err(|failure| failure.cause)
    }

    /// Fails if another program has deleted the file, cut it or added to it: what is added now would be lost, or not
    /// follow what is there.
    fn check(&self) -> io::Result<()> {
        let found = self.file.metadata()?;
        if found.nlink() == 0 {
            return Err(io::Error::other("another program has deleted it"));
        }
        if found.len() != self.bytes {
            return Err(io::Error::other("another program has changed its length"));
        }
        Ok(())
    }
}

impl AuditLog {
    /// Opens the log of a directory, or makes one. Fails if another process has it open, if it is not what
    /// its checkpoints say, or if its key is another. What the end of a process or of the machine in the middle of
    /// a write leaves after the lines that were signed is removed, and the log says so.
    pub fn open(settings: AuditSettings) -> Result<Self, AuditError> {
        opening::open(settings)
    }

    /// Adds events, which [`line()`] has written. All are durable when it returns: they are one write and one
    /// flush. After an error none of them is in the log, or, if the disk has failed, no more can be added.
    pub fn append(&mut self, lines: &[String]) -> Result<(), AuditError> {
        if let Some(refused) = lines.iter().position(|event| !is_event(event)) {
            return Err(AuditError::Event { position: refused });
        }
        if lines.is_empty() {
            return Ok(());
        }
        // After a failure, the file has to stay as it is until the log is opened again.
        if !self.has_failed {
            self.check_file()?;
            if self.file.bytes >= self.segment_bytes && self.checkpoint_reported.is_none() {
                self.start_segment()?;
            }
        }
        self.write(lines)
    }

    /// Fails if another program has changed the file. The lines that were acknowledged are signed before, so that the
    /// log is not opened again without them.
    fn check_file(&mut self) -> Result<(), AuditError> {
        let checked = self.file.check().map_err(AuditError::io("written to", &self.file.path));
        if checked.is_err() {
            let _ = self.checkpoint();
            self.has_failed = true;
        }
        checked
    }

    fn write(&mut self, events: &[String]) -> Result<(), AuditError> {
        if self.has_failed {
            return Err(AuditError::Failed { path: self.file.path.clone() });
        }
        let mut text = String::new();
        let mut tree = self.tree.clone();
        let mut last = self.last;
        for event in events {
            let begin = text.len();
            EventLine::write(&mut text, event, tree.size(), &last);
            last = leaf_hash(text[begin..].trim_end_matches('\n').as_bytes());
            tree.push(last);
        }
        if let Err(failure) = self.file.append(&text) {
            self.has_failed = !failure.is_undone;
            return Err(AuditError::io("written to", &self.file.path)(failure.cause));
        }
        self.tree = tree;
        self.last = last;
        Ok(())
    }

    /// Signs the present state, adds it to the file of checkpoints, and publishes it. Returns the newest
    /// checkpoint if no line was added since. After a failure, which is logged once a minute, lines can still be
    /// added, and a later checkpoint covers them all.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, AuditError> {
        if let Some(last) = &self.last_checkpoint
            && last.size == self.tree.size()
        {
            return Ok(last.clone());
        }
        let checkpoint = Checkpoint::sign(&self.origin, &self.tree, &self.key);
        if let Err(cause) = self.checkpoints.append_durable(&format!("{checkpoint}\n")) {
            let error = AuditError::io("written to", &self.checkpoints.path)(cause);
            self.report_unsigned(&error);
            return Err(error);
        }
        if self.checkpoint_reported.take().is_some() {
            info!(origin = self.origin, "the audit log has checkpoints again");
        }
        self.publishers.publish(&checkpoint);
        self.last_checkpoint = Some(checkpoint.clone());
        self.added_checkpoints += 1;
        self.thin_checkpoints();
        Ok(checkpoint)
    }

    /// Reports that no checkpoint can be written, once a minute: lines without one are not protected.
    fn report_unsigned(&mut self, error: &AuditError) {
        let is_due = self.checkpoint_reported.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL);
        if is_due {
            self.checkpoint_reported = Some(Instant::now());
            let unsigned_lines = self.unsigned_lines();
            let error = with_causes(error);
            error!(
                origin = self.origin,
                unsigned_lines, error, "the audit log has no new checkpoint"
            );
        }
    }

    /// Returns the number of lines that no checkpoint covers.
    pub fn unsigned_lines(&self) -> u64 {
        let signed = self.last_checkpoint.as_ref().map_or(0, |last| last.size);
        self.tree.size().saturating_sub(signed)
    }

    /// Returns whether a write has failed in a way that leaves the state of the file unknown. Such a log takes no
    /// more lines until it is opened again; after any other failure, a write can be tried again.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns the key that checks the checkpoints of this log.
    pub fn public_key(&self) -> PublicKey {
        self.key.public(&self.origin)
    }

    /// Sets the present file aside and begins another one. Its first line has the tree so far, so that it
    /// can be opened and checked without the others. Without a checkpoint of this tree, the present file stays.
    fn start_segment(&mut self) -> Result<(), AuditError> {
        if self.checkpoint().is_err() {
            return Ok(());
        }
        let full = files::full_path(&self.directory, self.first);
        fs::rename(&self.file.path, &full).map_err(AuditError::io("renamed", &self.file.path))?;
        // From here on, lines must not go to the file that was set aside.
        self.has_failed = true;
        self.file = self.new_file()?;
        self.has_failed = false;
        self.first = self.tree.size();
        self.added_checkpoints = 0;
        let event = self.continued();
        let written = self.write(&[event]);
        // Without its first line the file could not be opened again.
        self.has_failed = written.is_err();
        written
    }

    fn new_file(&self) -> Result<LogFile, AuditError> {
        let path = self.directory.join(files::CURRENT);
        let file = LogFile::open(path.clone(), 0).and_then(|file| {
            files::sync_directory(&self.directory)?;
            Ok(file)
        });
        file.map_err(AuditError::io("made", &path))
    }

    fn continued(&self) -> String {
        let tree: String = self.tree.subtrees().iter().map(|hash| hex(hash)).collect();
        self.own_event(LOG_CONTINUED, [("tree", tree.into())])
    }

    fn created(&self) -> String {
        self.own_event(LOG_CREATED, [("version", 1.into())])
    }

    fn own_event<const N: usize>(&self, kind: &str, members: [(&str, Value); N]) -> String {
        let common = [
            ("log", self.origin.clone().into()),
            ("public_key", self.public_key().to_string().into()),
            ("time_ms", now_ms().into()),
        ];
        line(kind, common.into_iter().chain(members))
    }

    /// Lets another key sign from now on. Both sign that it does.
    fn rotate(&mut self, new: SigningKey) -> Result<(), AuditError> {
        let event = rotation::event(&self.origin, self.tree.size(), &self.key, &new);
        self.write(&[event])?;
        self.key = new;
        info!(origin = self.origin, key = %self.public_key(), "the audit log has another key");
        Ok(())
    }

    /// Writes into the log that an incomplete line was removed from its end.
    fn recovered(&mut self, cut_bytes: u64) -> Result<(), AuditError> {
        warn!(origin = self.origin, cut_bytes, "an incomplete line was removed from the audit log");
        let event =
            line(LOG_RECOVERED, [("cut_bytes", cut_bytes.into()), ("time_ms", now_ms().into())]);
        self.write(&[event])
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        // Without its first line there is nothing to sign, and the log could not be opened again.
        if self.has_failed || self.tree.size() == 0 {
            return;
        }
        if let Err(error) = self.checkpoint() {
            let error = with_causes(&error);
            error!(origin = self.origin, error, "the last checkpoint of the audit log is missing");
        }
    }
}

/// Returns whether a text can be the event of a line. It is written by [`line()`]; this keeps a mistake from
/// making a log that cannot be read.
fn is_event(text: &str) -> bool {
    text.len() <= MAX_EVENT_BYTES
        && text.starts_with('{')
        && text.ends_with('}')
        && !text.bytes().any(|byte| byte < b' ')
}

#[cfg(test)]
mod tests;
