//! Reading of a log that is taken to be as it was written: for proofs and exports.

use std::{
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use crate::{
    checkpoint::{BadCheckpoint, Checkpoint},
    event::EventLine,
    files,
    notes::NoteReader,
};

/// Reason why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// A line is not one that a gateway wrote.
    #[error("row {row} of {} is not a line of an audit log; check it with `airlock audit verify`", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line in the file, from 1.
        row: u64,
    },
}

impl ReadError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::File { path: path.to_owned(), cause }
    }
}

/// Shows each line of a log, oldest first, until one breaks. An incomplete line at the end is left out.
pub(crate) fn each_line(
    path: &Path,
    mut show: impl FnMut(&EventLine<'_>) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    for mut file in files::line_files(path).map_err(ReadError::file(path))? {
        let mut reader = file.open().map_err(ReadError::file(&file.path))?;
        let mut row = 0;
        while let Some(raw) = reader.next_line().map_err(ReadError::file(&file.path))? {
            row += 1;
            if !raw.is_whole && file.is_newest {
                return Ok(());
            }
            let line = EventLine::parse(raw.bytes).filter(|_| raw.is_whole);
            let line = line.ok_or_else(|| ReadError::Line { path: file.path.clone(), row })?;
            if show(&line).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the path of the checkpoints of a directory.
pub fn checkpoints_path(directory: &Path) -> PathBuf {
    directory.join(files::CHECKPOINTS)
}

/// Returns the path of the private key that a gateway makes in a directory.
pub fn key_path(directory: &Path) -> PathBuf {
    directory.join(files::KEY)
}

/// Shows each checkpoint of a file, oldest first, until one breaks.
pub fn each_checkpoint(
    path: &Path,
    mut show: impl FnMut(Result<Checkpoint, BadCheckpoint>) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut notes = NoteReader::open(path).map_err(ReadError::file(path))?;
    while let Some(note) = notes.next_note().map_err(ReadError::file(path))? {
        if show(note.checkpoint).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the newest checkpoint of a directory that can be read; `None` if it has none.
pub fn newest_checkpoint(directory: &Path) -> Result<Option<Checkpoint>, ReadError> {
    let path = checkpoints_path(directory);
    if !path.try_exists().map_err(ReadError::file(&path))? {
        return Ok(None);
    }
    let mut newest = None;
    each_checkpoint(&path, |checkpoint| {
        if let Ok(checkpoint) = checkpoint {
            newest = Some(checkpoint);
        }
        ControlFlow::Continue(())
    })?;
    Ok(newest)
}

/// Returns the checkpoint of a directory with this number of lines; `None` if it has none.
pub(crate) fn checkpoint_of_size(
    directory: &Path,
    size: u64,
) -> Result<Option<Checkpoint>, ReadError> {
    let mut found = None;
    each_checkpoint(&checkpoints_path(directory), |checkpoint| {
        found = checkpoint.ok().filter(|checkpoint| checkpoint.size == size);
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}
