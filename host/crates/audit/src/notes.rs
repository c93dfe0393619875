//! Reading of files of checkpoints, one at a time: the file of a log that is years old has millions.
//!
//! Each checkpoint ends with an empty line after its signatures, which the last one need not have. The first empty
//! line in it is between its text and its signatures. Lines of signatures alone begin with a dash, so that one that
//! lacks its text or its signatures, because its writer was stopped or its disk was full, does not take a part of
//! those after it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    mem,
    path::Path,
};

use airlock_core::regular_file;

use crate::checkpoint::{BadCheckpoint, Checkpoint, DASH, MAX_BYTES};

/// Reads the checkpoints of a file.
pub(crate) struct NoteReader<R> {
    reader: R,
    /// First line of the next checkpoint, if it was read already.
    next_line: Vec<u8>,
    /// Bytes of the checkpoints so far.
    bytes: u64,
}

/// A checkpoint as it is in a file.
pub(crate) struct CheckpointNote {
    pub(crate) checkpoint: Result<Checkpoint, BadCheckpoint>,
    /// Position after the empty line that ends it.
    pub(crate) end: u64,
    /// True if the empty line is there. The last one has none if its writer was stopped.
    pub(crate) is_whole: bool,
}

impl NoteReader<BufReader<File>> {
    /// Opens a file. Fails if it is not a regular one, which may have no end.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufReader::with_capacity(1 << 18, regular_file::open(path)?)))
    }
}

impl<R: BufRead> NoteReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, next_line: Vec::new(), bytes: 0 }
    }

    /// Reads the next checkpoint, which need not be valid; `None` at the end.
    pub(crate) fn next_note(&mut self) -> io::Result<Option<CheckpointNote>> {
        loop {
            let (note, is_whole) = self.read()?;
            if !note.trim_ascii().is_empty() {
                return Ok(Some(CheckpointNote {
                    checkpoint: parse(&note),
                    end: self.bytes,
                    is_whole,
                }));
            }
            if !is_whole {
                return Ok(None);
            }
        }
    }

    /// Reads up to the empty line that ends a checkpoint, and returns what is before it, and whether the line is
    /// there. Of one that is longer than any, the rest is left out.
    fn read(&mut self) -> io::Result<(Vec<u8>, bool)> {
        let mut note = Vec::new();
        let mut has_text = false;
        // Bytes of the text, or of the signatures, so far.
        let mut part_bytes = 0;
        let mut is_line_start = true;
        loop {
            let mut piece = self.next_piece()?;
            if piece.is_empty() {
                return Ok((note, false));
            }
            if part_bytes == 0 && is_signature(&piece) != has_text {
                if has_text {
                    self.next_line = piece;
                    return Ok((note, true));
                }
                // Signatures without a text.
                has_text = true;
            }
            self.bytes += piece.len() as u64;
            let is_end = is_line_start && piece == b"\n" && part_bytes > 0;
            if is_end && has_text {
                return Ok((note, true));
            }
            has_text |= is_end;
            part_bytes = if is_end { 0 } else { part_bytes + piece.len() };
            is_line_start = piece.ends_with(b"\n");
            if note.len() <= MAX_BYTES {
                note.append(&mut piece);
            }
        }
    }

    /// Reads a line, or a part of one that is long; nothing at the end.
    fn next_piece(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = mem::take(&mut self.next_line);
        if piece.is_empty() {
            self.reader.by_ref().take(MAX_BYTES as u64).read_until(b'\n', &mut piece)?;
        }
        Ok(piece)
    }
}

/// Returns whether a line is one of a signature, which may be incomplete.
fn is_signature(line: &[u8]) -> bool {
    line.starts_with(DASH.as_bytes()) || DASH.as_bytes().starts_with(line)
}

fn parse(note: &[u8]) -> Result<Checkpoint, BadCheckpoint> {
    match str::from_utf8(note) {
        Ok(text) => Checkpoint::parse(text),
        // Its end is missing, and may be in the middle of a character.
        Err(error) if error.error_len().is_none() => Err(BadCheckpoint::Note),
        Err(_) => Err(BadCheckpoint::Encoding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        key::SigningKey,
        tree::{Tree, leaf_hash},
    };

    fn checkpoint() -> Checkpoint {
        let (key, _) = SigningKey::generate().expect("random bytes");
        let mut tree = Tree::default();
        tree.push(leaf_hash(b"a"));
        Checkpoint::sign("gateway/one", &tree, &key)
    }

    fn notes(file: &[u8]) -> Vec<CheckpointNote> {
        let mut reader = NoteReader::new(file);
        std::iter::from_fn(|| reader.next_note().expect("it is read")).collect()
    }

    #[test]
    fn a_file_is_split_where_checkpoints_end() {
        let checkpoint = checkpoint();
        let note = checkpoint.to_string();
        let found = notes(format!("{note}\n{note}\n").as_bytes());
        let bytes = note.len() as u64 + 1;
        assert_eq!(found.iter().map(|note| note.end).collect::<Vec<_>>(), [bytes, 2 * bytes]);
        assert!(found.iter().all(|note| note.is_whole));
        assert_eq!(found[1].checkpoint, Ok(checkpoint.clone()));
        let found = notes(note.as_bytes());
        assert_eq!((found.len(), found[0].is_whole), (1, false));
        assert_eq!(found[0].checkpoint, Ok(checkpoint));
        assert!(notes(b" \n\n").is_empty());
        let found = notes(format!("{note}\n{}", "\n".repeat(9)).as_bytes());
        assert_eq!(found.len(), 1, "empty lines at the end are nothing");
    }

    #[test]
    fn one_that_is_cut_anywhere_is_not_whole_and_other_bytes_are_no_text() {
        let note = checkpoint().to_string();
        for length in 1..note.len() {
            let cut = [note.as_bytes(), b"\n", &note.as_bytes()[..length]].concat();
            let found = notes(&cut);
            assert_eq!((found.len(), found[1].is_whole), (2, false), "{length}");
            assert_eq!(found[1].checkpoint, Err(BadCheckpoint::Note), "{length}");
        }
        assert_eq!(notes(b"\xff\n\n")[0].checkpoint, Err(BadCheckpoint::Encoding));
    }

    #[test]
    fn one_that_is_cut_in_the_middle_of_a_file_takes_at_most_the_next_one_with_it() {
        let checkpoint = checkpoint();
        let note = checkpoint.to_string();
        let whole = format!("{note}\n{note}\n");
        for length in 1..note.len() {
            let file = [&note.as_bytes()[..length], whole.as_bytes()].concat();
            let found = notes(&file);
            let last = found.last().expect("a note");
            assert_eq!(last.checkpoint, Ok(checkpoint.clone()), "{length}");
        }
    }

    #[test]
    fn of_one_that_is_too_long_the_rest_is_left_out_and_the_next_one_is_read() {
        let note = checkpoint().to_string();
        for long in ["x".repeat(5 * MAX_BYTES), "x\n".repeat(2 * MAX_BYTES)] {
            let long = long.trim_end();
            let found = notes(format!("{long}\n\n{long}\n\n{note}\n").as_bytes());
            assert_eq!(found[0].checkpoint, Err(BadCheckpoint::Note));
            assert!(found[2].checkpoint.is_ok());
        }
        let long = vec![b'x'; 5 * MAX_BYTES];
        let mut reader = NoteReader::new(long.as_slice());
        assert!(reader.read().expect("it is read").0.len() <= 2 * MAX_BYTES);
    }
}
