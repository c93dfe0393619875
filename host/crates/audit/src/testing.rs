//! Logs for tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    AuditLog, AuditSettings, Checkpoint, files,
    verify::{Evidence, Finding, Report, verify},
};

/// Settings of a log in this directory.
pub(crate) fn settings(directory: &Path) -> AuditSettings {
    AuditSettings { replica: Some("one".to_owned()), ..AuditSettings::new(directory, "gateway") }
}

/// Opens the log of a directory.
pub(crate) fn open(directory: &Path) -> AuditLog {
    AuditLog::open(settings(directory)).expect("it opens")
}

/// Returns an event.
pub(crate) fn event(number: u64) -> String {
    let members = [
        ("time_ms", json!(1_764_290_000_000_u64 + number)),
        ("tool", json!("files-read")),
        ("call", json!(format!("call-{number}"))),
        ("run", json!(format!("run-{}", number % 3))),
        ("text", json!("ä\u{2028}<>&\u{7}\"\\")),
    ];
    crate::line("call_admitted", members)
}

/// Returns events with these numbers.
pub(crate) fn events(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(event).collect()
}

/// A log on disk that no process has open.
pub(crate) struct StoredLog {
    _directory: TempDir,
    pub(crate) path: PathBuf,
}

impl StoredLog {
    /// Writes a log with a batch of events for each of these numbers, and a checkpoint after each batch.
    pub(crate) fn new(batches: &[u64]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit");
        let mut log = open(&path);
        let mut next = 0;
        for batch in batches {
            log.append(&events(next..next + batch)).expect("written");
            next += batch;
            log.checkpoint().expect("signed");
        }
        drop(log);
        Self { _directory: directory, path }
    }

    /// Copies the files of a log that is open, as a process that is killed leaves them.
    pub(crate) fn copy(from: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit");
        fs::create_dir(&path).expect("a directory");
        for entry in fs::read_dir(from).expect("a directory") {
            let entry = entry.expect("an entry");
            fs::copy(entry.path(), path.join(entry.file_name())).expect("copied");
        }
        Self { _directory: directory, path }
    }

    pub(crate) fn current(&self) -> PathBuf {
        self.path.join(files::CURRENT)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.current()).expect("a file")
    }

    pub(crate) fn write(&self, bytes: impl AsRef<[u8]>) {
        fs::write(self.current(), bytes).expect("written");
    }

    /// Returns the lines, without their line ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.bytes()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn write_lines(&self, lines: &[String]) {
        self.write([lines.join("\n").as_str(), "\n"].concat().trim_start_matches('\n'));
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        crate::read::newest_checkpoint(&self.path).expect("read").expect("a checkpoint")
    }

    /// Writes the newest checkpoint to a file outside.
    pub(crate) fn publish(&self) -> PathBuf {
        let path = self.path.with_extension("published");
        fs::write(&path, self.checkpoint().to_string()).expect("written");
        path
    }

    pub(crate) fn verify(&self) -> Report {
        verify(&self.path, &Evidence::default()).expect("it is read")
    }

    pub(crate) fn verify_against(&self, outside: &Path) -> Vec<Finding> {
        let evidence = Evidence { checkpoints: vec![outside.to_owned()], ..Evidence::default() };
        verify(&self.path, &evidence).expect("it is read").findings
    }

    /// Returns the codes and lines of what is found.
    pub(crate) fn found(&self) -> Vec<(&'static str, Option<u64>)> {
        self.verify().findings.iter().map(|finding| (finding.code(), finding.line())).collect()
    }
}
