//! The checkpoints that a log has when it is opened, and whether its lines are those that they sign.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{AuditError, Checkpoint, Hash, PublicKey, Tree};
use crate::{
    checkpoint::BadCheckpoint, notes::NoteReader, read::checkpoint_of_size, rotation::KeyHistory,
    start::LogStart,
};

/// The checkpoints of a directory. Of those before the newest, the sizes and roots alone are kept.
pub(super) struct SignedStates {
    path: PathBuf,
    /// With growing sizes.
    states: Vec<SignedState>,
    pub(super) newest: Option<Checkpoint>,
    /// Length of the whole ones in the file.
    pub(super) bytes: u64,
}

struct SignedState {
    size: u64,
    root: Hash,
}

impl SignedStates {
    pub(super) fn read(path: &Path) -> Result<Self, AuditError> {
        let mut signed = Self { path: path.to_owned(), states: Vec::new(), newest: None, bytes: 0 };
        let mut notes = match NoteReader::open(path) {
            Ok(notes) => notes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(signed),
            Err(error) => return Err(AuditError::io("read", path)(error)),
        };
        while let Some(note) = notes.next_note().map_err(AuditError::io("read", path))? {
            let is_encoded = note.checkpoint != Err(BadCheckpoint::Encoding);
            if !note.is_whole && is_encoded {
                // Its writer was stopped. It was not published then.
                break;
            }
            let added = note.checkpoint.and_then(|checkpoint| signed.add(checkpoint));
            added.map_err(|cause| AuditError::Checkpoint {
                path: path.to_owned(),
                number: signed.states.len() + 1,
                cause,
            })?;
            signed.bytes = note.end;
        }
        Ok(signed)
    }

    fn add(&mut self, checkpoint: Checkpoint) -> Result<(), BadCheckpoint> {
        let Checkpoint { size, root, .. } = checkpoint;
        if size <= self.size() {
            return Err(BadCheckpoint::Order);
        }
        self.states.push(SignedState { size, root });
        self.newest = Some(checkpoint);
        Ok(())
    }

    /// Returns the number of lines that are signed.
    pub(super) fn size(&self) -> u64 {
        self.states.last().map_or(0, |newest| newest.size)
    }

    /// Returns the number of checkpoints of more lines than these.
    pub(super) fn count_after(&self, size: u64) -> usize {
        self.states.len() - self.states.partition_point(|state| state.size <= size)
    }

    /// Fails unless the tree has the root that was signed for its size, if any was.
    pub(super) fn check(&self, tree: &Tree, next: &mut usize) -> Result<(), AuditError> {
        while let Some(signed) = self.states.get(*next)
            && signed.size <= tree.size()
        {
            if signed.size == tree.size() && signed.root != tree.root() {
                let directory = self.directory().to_owned();
                return Err(AuditError::Changed { directory, size: signed.size });
            }
            *next += 1;
        }
        Ok(())
    }

    /// Fails unless the tree before a file was signed, by the key that the file has.
    pub(super) fn check_start(&self, start: &LogStart) -> Result<(), AuditError> {
        let size = start.tree.size();
        if size == 0 {
            return Ok(());
        }
        let signed = if self.states.is_empty() {
            None
        } else {
            let found = checkpoint_of_size(self.directory(), size);
            found.map_err(|error| AuditError::io("read", &self.path)(io::Error::other(error)))?
        };
        let is_signed = signed.is_some_and(|signed| {
            signed.root == start.tree.root() && signed.is_signed_by(&start.key)
        });
        if is_signed { Ok(()) } else { Err(self.forged(size, &start.key)) }
    }

    /// Fails unless the newest checkpoint is signed, and the log has its lines. A log of more than its first
    /// line has a checkpoint.
    pub(super) fn check_end(
        &self,
        directory: &Path,
        lines: Option<(u64, &KeyHistory)>,
    ) -> Result<(), AuditError> {
        let found = lines.map_or(0, |(size, _)| size);
        let Some(newest) = &self.newest else {
            return match lines {
                Some((_, keys)) if found > 1 => Err(self.forged(found, keys.current())),
                _ => Ok(()),
            };
        };
        let Some((_, keys)) = lines.filter(|_| newest.size <= found) else {
            let directory = directory.to_owned();
            return Err(AuditError::Cut { directory, found, signed: newest.size });
        };
        let key = keys.of_size(newest.size);
        if newest.is_signed_by(key) { Ok(()) } else { Err(self.forged(newest.size, key)) }
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn forged(&self, size: u64, key: &PublicKey) -> AuditError {
        AuditError::Forged { path: self.path.clone(), size, key: key.clone() }
    }
}
