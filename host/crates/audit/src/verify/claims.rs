//! The checkpoints that a log is compared with.
//!
//! Of each, the size and the root are kept, because there may be millions. The files are read a second time for the
//! signatures, when the keys are known. They are only added to meanwhile, and a gateway that thins its own puts another
//! file in its place.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Evidence, Finding};
use crate::{
    checkpoint::{BadCheckpoint, Checkpoint},
    files,
    notes::NoteReader,
    read::ReadError,
    rotation::KeyHistory,
    tree::{Hash, Tree},
};

/// Most bytes of checkpoints that come from a pipe. They are held in memory, because a pipe cannot
/// be read a second time.
const MAX_PIPED_BYTES: u64 = 64 << 20;

/// A checkpoint that the log is compared with.
pub(super) struct CheckpointClaim {
    /// The file that it comes from.
    pub(super) file: Arc<str>,
    /// Number of lines.
    pub(super) size: u64,
    root: Hash,
    /// True if the log had this root at this size; `None` if it never had the size.
    pub(super) matches: Option<bool>,
}

/// The checkpoints of the log's directory, and those from outside.
#[derive(Default)]
pub(super) struct CheckpointClaims {
    files: Vec<ClaimFile>,
    /// In the order of the files.
    all: Vec<CheckpointClaim>,
    /// Their positions, the smallest size first.
    by_size: Vec<usize>,
    /// Number of those that were compared.
    compared: usize,
}

struct ClaimFile {
    path: PathBuf,
    opened: File,
    /// The contents of a file that cannot be read twice.
    contents: Option<Vec<u8>>,
    /// True if it is the one in the log's directory.
    is_own: bool,
    /// Number of the checkpoints that can be read.
    count: usize,
}

impl ClaimFile {
    fn open(path: PathBuf, is_own: bool) -> io::Result<Self> {
        let opened = File::open(&path)?;
        let mut contents = None;
        if !opened.metadata()?.is_file() {
            let mut piped = Vec::new();
            (&opened).take(MAX_PIPED_BYTES + 1).read_to_end(&mut piped)?;
            if piped.len() as u64 > MAX_PIPED_BYTES {
                let text =
                    format!("it is not a regular file and has more than {MAX_PIPED_BYTES} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            contents = Some(piped);
        }
        Ok(Self { path, opened, contents, is_own, count: 0 })
    }

    fn notes(&self) -> io::Result<NoteReader<Box<dyn BufRead + '_>>> {
        let reader: Box<dyn BufRead + '_> = if let Some(contents) = &self.contents {
            Box::new(contents.as_slice())
        } else {
            let mut opened = &self.opened;
            opened.seek(SeekFrom::Start(0))?;
            Box::new(BufReader::with_capacity(1 << 18, opened))
        };
        Ok(NoteReader::new(reader))
    }
}

impl CheckpointClaims {
    /// Reads the checkpoints of the log's directory and those from outside.
    pub(super) fn read(
        path: &Path,
        evidence: &Evidence,
        findings: &mut Vec<Finding>,
    ) -> Result<Self, ReadError> {
        let mut claims = Self::default();
        let own = path.join(files::CHECKPOINTS);
        if own.is_file() {
            claims.add(&own, true, findings).map_err(ReadError::file(&own))?;
        }
        for outside in &evidence.checkpoints {
            claims.add(outside, false, findings).map_err(ReadError::file(outside))?;
        }
        claims.by_size = (0..claims.all.len()).collect();
        claims.by_size.sort_by_key(|position| claims.all[*position].size);
        Ok(claims)
    }

    fn add(&mut self, path: &Path, is_own: bool, findings: &mut Vec<Finding>) -> io::Result<()> {
        let name: Arc<str> = path.display().to_string().into();
        let mut file = ClaimFile::open(path.to_owned(), is_own)?;
        let before = self.all.len();
        let mut notes = file.notes()?;
        let mut number = 0;
        while let Some(note) = notes.next_note()? {
            number += 1;
            match note.checkpoint {
                Ok(Checkpoint { size, root, .. }) => {
                    self.all.push(CheckpointClaim {
                        file: name.clone(),
                        size,
                        root,
                        matches: None,
                    });
                }
                // The gateway was stopped while it wrote.
                Err(BadCheckpoint::Note) if is_own && !note.is_whole => {}
                Err(cause) if findings.len() < airlock_strings::MAX_LISTED => {
                    findings.push(Finding::BadCheckpoint { file: name.to_string(), number, cause });
                }
                Err(_) => {}
            }
        }
        drop(notes);
        file.count = self.all.len() - before;
        self.files.push(file);
        Ok(())
    }

    /// Compares the tree with the checkpoints of its size. Returns whether one has its root.
    pub(super) fn compare(&mut self, tree: &Tree) -> bool {
        let mut is_matched = false;
        while let Some(position) = self.by_size.get(self.compared)
            && let Some(claim) = self.all.get_mut(*position)
            && claim.size <= tree.size()
        {
            if claim.size == tree.size() {
                let matches = claim.root == tree.root();
                claim.matches = Some(matches);
                is_matched |= matches;
            }
            self.compared += 1;
        }
        is_matched
    }

    /// Returns the checkpoints that the log's keys have signed, the smallest first. Those of other logs are left out,
    /// and those with fewer lines than are before the first: the key of their time is in older files.
    pub(super) fn signed(
        self,
        keys: &KeyHistory,
        first: u64,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<CheckpointClaim>, ReadError> {
        let origin = keys.current().name();
        let mut signed = Vec::new();
        let mut forged = Vec::new();
        let mut claims = self.all.into_iter();
        for file in &self.files {
            let mut notes = file.notes().map_err(ReadError::file(&file.path))?;
            let mut has_own = false;
            for claim in claims.by_ref().take(file.count) {
                let checkpoint = again(&mut notes, &claim).map_err(ReadError::file(&file.path))?;
                let is_of_log = checkpoint.origin == origin;
                let is_elsewhere = if is_of_log { claim.size < first } else { !file.is_own };
                if is_elsewhere {
                    continue;
                }
                // Only of lines before the first one, it would show nothing about the lines that are here.
                has_own = true;
                if is_of_log && checkpoint.is_signed_by(keys.of_size(claim.size)) {
                    signed.push(claim);
                } else if forged.len() < airlock_strings::MAX_LISTED {
                    let file = claim.file.to_string();
                    forged.push(Finding::Forged { file, size: claim.size });
                }
            }
            if !file.is_own && !has_own {
                let file = file.path.display().to_string();
                findings.push(Finding::NoCheckpoint { file, origin: origin.to_owned() });
            }
        }
        findings.append(&mut forged);
        signed.sort_by_key(|claim| claim.size);
        Ok(signed)
    }
}

/// Reads a checkpoint for the second time.
fn again<R: BufRead>(notes: &mut NoteReader<R>, claim: &CheckpointClaim) -> io::Result<Checkpoint> {
    while let Some(note) = notes.next_note()? {
        let Ok(checkpoint) = note.checkpoint else { continue };
        if checkpoint.size == claim.size && checkpoint.root == claim.root {
            return Ok(checkpoint);
        }
        break;
    }
    Err(io::Error::other("it was changed while it was read"))
}
