//! The file of checkpoints is thinned: with one each minute it would have half a million a year.
//!
//! A checkpoint covers all lines before it, so a log is equally protected without its older checkpoints. Older
//! checkpoints narrow down which lines were changed, and prove that a log continues an earlier state. Thinning keeps all
//! of the newest checkpoints. Among the older ones of the newest file of lines, it keeps the last one of each block of
//! lines. It does not change the checkpoints of older files: the checkpoint before the first line of a file is needed to
//! verify the file without the files before it.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::Path,
};

use tracing::{info, warn};

use super::{AuditLog, File, LogFile, files};
use crate::notes::NoteReader;

/// Number of the newest checkpoints that all stay, unless the settings have another: a day with one each minute.
pub(super) const NEWEST: usize = 1_440;
/// Lines of a block.
const BLOCK_LINES: u64 = 1_024;

impl AuditLog {
    /// Thins the checkpoints once as many were added as stay. A failure is logged: the file stays as it is, and is
    /// thinned after as many more.
    pub(super) fn thin_checkpoints(&mut self) {
        if self.added_checkpoints < self.newest_checkpoints.saturating_mul(2) {
            return;
        }
        self.added_checkpoints = self.newest_checkpoints;
        match self.checkpoints.check().and_then(|()| self.thinned()) {
            Ok(Some(thinned)) => {
                let bytes = self.checkpoints.bytes - thinned.bytes;
                info!(
                    origin = self.origin,
                    bytes, "older checkpoints of the audit log were thinned"
                );
                self.checkpoints = thinned;
            }
            Ok(None) => {}
            Err(error) => {
                warn!(origin = self.origin, %error, "the checkpoints of the audit log cannot be thinned");
            }
        }
    }

    /// Replaces the file of checkpoints by one without those that do not stay. `None` if all stay.
    fn thinned(&self) -> io::Result<Option<LogFile>> {
        let path = &self.checkpoints.path;
        let sizes = sizes(path)?;
        let stay = stay(&sizes, self.first, self.newest_checkpoints);
        if stay.iter().all(|stays| *stays) {
            return Ok(None);
        }
        let new = self.directory.join(files::THINNED_CHECKPOINTS);
        let (file, bytes) = copied(path, &new, &stay)?;
        fs::rename(&new, path)?;
        let thinned = LogFile { path: path.clone(), file, bytes, is_torn: false };
        // If that fails, the former file may be there after a power failure. It is valid too.
        if let Err(error) = files::sync_directory(&self.directory) {
            warn!(origin = self.origin, %error, "the thinned checkpoints may not be durable");
        }
        Ok(Some(thinned))
    }
}

/// Returns the numbers of lines of the checkpoints of a file.
fn sizes(path: &Path) -> io::Result<Vec<u64>> {
    let mut notes = NoteReader::open(path)?;
    let mut sizes = Vec::new();
    while let Some(note) = notes.next_note()? {
        sizes.push(note.checkpoint.map_err(io::Error::other)?.size);
    }
    Ok(sizes)
}

/// Returns for each checkpoint whether it stays, by their numbers of lines, which grow. `first` is the number of the
/// first line of the newest file.
fn stay(sizes: &[u64], first: u64, newest: usize) -> Vec<bool> {
    let older = sizes.len().saturating_sub(newest);
    let stay = sizes.iter().enumerate().map(|(at, size)| {
        let is_last_of_block =
            sizes.get(at + 1).is_none_or(|next| next / BLOCK_LINES > size / BLOCK_LINES);
        at >= older || *size <= first || is_last_of_block
    });
    stay.collect()
}

/// Copies the checkpoints that stay to a new file. Returns it, open to add to, and its length. It is durable then.
fn copied(from: &Path, to: &Path, stay: &[bool]) -> io::Result<(File, u64)> {
    // One that was begun before a process was killed.
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = files::open_to_append(to)?;
    let mut writer = BufWriter::new(&file);
    let mut notes = NoteReader::open(from)?;
    let mut stay = stay.iter();
    while let Some(note) = notes.next_note()? {
        let checkpoint = note.checkpoint.map_err(io::Error::other)?;
        if stay.next() == Some(&true) {
            writeln!(writer, "{checkpoint}")?;
        }
    }
    writer.flush()?;
    drop(writer);
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{
        AuditSettings,
        read::{checkpoints_path, each_checkpoint},
        testing::{StoredLog, events, open, settings},
    };

    /// Opens a log whose three newest checkpoints all stay.
    fn open_thinning(directory: &Path, segment_bytes: u64) -> AuditLog {
        let settings =
            AuditSettings { newest_checkpoints: 3, segment_bytes, ..settings(directory) };
        AuditLog::open(settings).expect("it opens")
    }

    /// Adds batches of lines, with a checkpoint after each.
    fn add(log: &mut AuditLog, batches: u64, lines: u64) {
        for batch in 0..batches {
            log.append(&events(batch * lines..(batch + 1) * lines)).expect("written");
            log.checkpoint().expect("signed");
        }
    }

    fn stored_sizes(directory: &Path) -> Vec<u64> {
        let mut sizes = Vec::new();
        let read = each_checkpoint(&checkpoints_path(directory), |checkpoint| {
            sizes.push(checkpoint.expect("a checkpoint").size);
            ControlFlow::Continue(())
        });
        read.expect("it is read");
        sizes
    }

    #[test]
    fn of_older_checkpoints_the_last_one_of_each_block_stays_and_of_older_files_all_do() {
        let sizes = [1, 7, 9, 1_023, 1_024, 1_500, 2_047, 2_048, 2_100, 2_101];
        assert_eq!(staying(&sizes, 0, 2), [1_023, 2_047, 2_100, 2_101]);
        assert_eq!(staying(&sizes, 0, 5), [1_023, 1_500, 2_047, 2_048, 2_100, 2_101]);
        assert_eq!(staying(&sizes, 9, 2), [1, 7, 9, 1_023, 2_047, 2_100, 2_101]);
        assert_eq!(staying(&sizes, 0, 20), sizes);
    }

    fn staying(sizes: &[u64], first: u64, newest: usize) -> Vec<u64> {
        let stay = stay(sizes, first, newest);
        sizes.iter().zip(stay).filter(|(_, stays)| *stays).map(|(size, _)| *size).collect()
    }

    #[test]
    fn a_log_whose_checkpoints_were_thinned_is_valid_and_goes_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut log = open_thinning(directory.path(), u64::MAX);
        add(&mut log, 12, 300);
        drop(log);
        let sizes = stored_sizes(directory.path());
        assert!(sizes.ends_with(&[3_001, 3_301, 3_601]), "{sizes:?}");
        assert!(sizes.starts_with(&[901, 1_801]), "{sizes:?}");
        assert!(sizes.len() <= 8, "{sizes:?}");
        drop(open(directory.path()));
        let mut log = open_thinning(directory.path(), u64::MAX);
        add(&mut log, 4, 1);
        drop(log);
        let report = StoredLog::copy(directory.path()).verify();
        assert_eq!((report.size, report.signed, &*report.findings), (3_605, 3_605, &[][..]));
    }

    #[test]
    fn each_file_of_a_thinned_log_has_the_checkpoint_that_it_is_verified_by_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut log = open_thinning(directory.path(), 4_000);
        add(&mut log, 100, 1);
        drop(log);
        let stored = StoredLog::copy(directory.path());
        let full = files::full_files(&stored.path).expect("read");
        assert!(full.len() > 2, "{full:?}");
        assert!(stored_sizes(&stored.path).len() < 100, "they were thinned");
        assert!(stored.verify().findings.is_empty());
        for path in full {
            fs::remove_file(path).expect("removed");
            assert!(stored.verify().findings.is_empty());
        }
    }

    #[test]
    fn a_file_of_checkpoints_that_another_program_has_changed_is_not_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut log = open_thinning(directory.path(), u64::MAX);
        add(&mut log, 4, 1);
        let path = checkpoints_path(directory.path());
        let changed = [fs::read(&path).expect("a file"), b"x".to_vec()].concat();
        fs::write(&path, &changed).expect("written");
        log.added_checkpoints = usize::MAX;
        log.thin_checkpoints();
        assert_eq!(fs::read(&path).expect("a file"), changed);
    }
}
