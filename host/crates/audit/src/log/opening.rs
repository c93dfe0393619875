//! Opening a log: its lock, its key, and its state, which is read from its newest file and compared with
//! its checkpoints.

use std::{
    fs::{self, TryLockError},
    io::{self, Seek as _, SeekFrom},
    path::Path,
};

use ring::rand::{SecureRandom as _, SystemRandom};

use super::{
    AuditError, AuditLog, AuditSettings, File, GENESIS, Hash, LogFile, PublicKey, Publishers,
    SigningKey, Tree, files, hex, is_name, own_key::own_key, signed_states::SignedStates,
};
use crate::{
    event::{EventLine, KEY_ROTATED},
    files::{LineReader, RawLine},
    rotation::KeyHistory,
    start::LogStart,
};

/// The state of a log, as its newest file has it.
struct LogReplay {
    keys: KeyHistory,
    /// Number of the first line in the file.
    first: u64,
    tree: Tree,
    last: Hash,
    /// Length of the whole lines.
    bytes: u64,
}

pub(super) fn open(settings: AuditSettings) -> Result<AuditLog, AuditError> {
    let directory = settings.directory.clone();
    files::make_directory(&directory).map_err(AuditError::io("made", &directory))?;
    let lock = lock(&directory)?;
    let signed = SignedStates::read(&directory.join(files::CHECKPOINTS))?;
    let current = directory.join(files::CURRENT);
    let ReadFile { replay, cut_bytes, has_damage } = replay(&current, &signed)?;
    let (replay, is_current) = match replay {
        Some(replay) => (Some(replay), true),
        // The process was stopped between two files, or the log is new.
        None => (replay_full(&directory, &signed)?, false),
    };
    let lines = replay.as_ref().map(|replay| (replay.tree.size(), &replay.keys));
    signed.check_end(&directory, lines)?;
    let found = replay.as_ref().map(|replay| replay.keys.current());
    let configured = match settings.key {
        Some(key) => key,
        None => own_key(&directory.join(files::KEY), found)?,
    };
    let origin = origin(&directory, &settings.name, settings.replica.as_deref(), found)?;
    let (key, next_key) = match found {
        Some(found) => signing_keys(found, configured, settings.old_key)?,
        None => (configured, None),
    };

    let current_state = replay.as_ref().filter(|_| is_current);
    let bytes = current_state.map_or(0, |replay| replay.bytes);
    let first = current_state.map_or(0, |replay| replay.first);
    if has_damage {
        let size = replay.as_ref().map_or(0, |replay| replay.tree.size());
        keep_damage(&directory, &current, bytes, size)?;
    }
    let file = open_at(&current, bytes)?;
    let checkpoints = open_at(&directory.join(files::CHECKPOINTS), signed.bytes)?;
    files::sync_directory(&directory).map_err(AuditError::io("written to", &directory))?;
    let publishers = Publishers::start(settings.publications);
    let mut log = AuditLog {
        origin,
        key,
        segment_bytes: settings.segment_bytes,
        publishers: publishers.map_err(AuditError::io("published", &directory))?,
        file,
        first,
        checkpoints,
        newest_checkpoints: settings.newest_checkpoints,
        added_checkpoints: signed.count_after(first),
        last_checkpoint: signed.newest,
        checkpoint_reported: None,
        tree: replay.as_ref().map_or_else(Tree::default, |replay| replay.tree.clone()),
        last: replay.as_ref().map_or(GENESIS, |replay| replay.last),
        has_failed: false,
        directory,
        _lock: lock,
    };
    begin(&mut log, replay.is_some(), is_current, cut_bytes, next_key)?;
    Ok(log)
}

/// Writes the lines of a start, and a checkpoint.
fn begin(
    log: &mut AuditLog,
    exists: bool,
    is_current: bool,
    cut_bytes: u64,
    next_key: Option<SigningKey>,
) -> Result<(), AuditError> {
    // Its publication may have failed before the last process ended.
    if let Some(last) = &log.last_checkpoint {
        log.publishers.publish(last);
    }
    if !exists {
        let event = log.created();
        log.write(&[event])?;
    } else if !is_current {
        log.checkpoint()?;
        log.first = log.tree.size();
        let event = log.continued();
        log.write(&[event])?;
    }
    if cut_bytes > 0 {
        log.recovered(cut_bytes)?;
    }
    if let Some(next) = next_key {
        // The last one by the former key.
        let _ = log.checkpoint();
        log.rotate(next)?;
    }
    // A log of several lines is not opened if it has no checkpoint at all.
    let is_unsigned = log.last_checkpoint.is_none();
    log.checkpoint().map(drop).or_else(|error| if is_unsigned { Err(error) } else { Ok(()) })
}

fn lock(directory: &Path) -> Result<File, AuditError> {
    let path = directory.join(files::LOCK);
    let file = files::open_to_append(&path).map_err(AuditError::io("opened", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AuditError::InUse { directory: directory.to_owned() }),
        Err(TryLockError::Error(cause)) => Err(AuditError::io("locked", &path)(cause)),
    }
}

/// Opens a file to add to it, after its first `bytes`. Removes the rest. These are durable when it returns: a process
/// that was killed may have written lines without a flush, and a checkpoint must not sign what can still be lost.
fn open_at(path: &Path, bytes: u64) -> Result<LogFile, AuditError> {
    let opened = LogFile::open(path.to_owned(), bytes).and_then(|opened| {
        if opened.file.metadata()?.len() != bytes {
            opened.file.set_len(bytes)?;
        }
        opened.file.sync_all()?;
        Ok(opened)
    });
    opened.map_err(AuditError::io("opened", path))
}

/// Reads the newest of the files that were set aside.
fn replay_full(directory: &Path, signed: &SignedStates) -> Result<Option<LogReplay>, AuditError> {
    let full = files::full_files(directory).map_err(AuditError::io("read", directory))?;
    let Some(newest) = full.last() else { return Ok(None) };
    match replay(newest, signed)? {
        ReadFile { replay: Some(replay), cut_bytes: 0, .. } => Ok(Some(replay)),
        _ => Err(AuditError::Line {
            path: newest.clone(),
            row: 1,
            number: 0,
            reason: "is in a full file and has no line end",
        }),
    }
}

/// A file that was read, and compared with the checkpoints.
#[derive(Default)]
struct ReadFile {
    /// State after its lines; `None` if it has none.
    replay: Option<LogReplay>,
    /// Length of what is after them.
    cut_bytes: u64,
    /// True if that is more than an incomplete line.
    has_damage: bool,
}

/// Reads a file, and compares it with the checkpoints. The lines end before one that is incomplete, or that is
/// damaged and not signed: if the machine has lost power, parts of a write are stored in any order.
fn replay(path: &Path, signed: &SignedStates) -> Result<ReadFile, AuditError> {
    let mut reader = match LineReader::open(path) {
        Ok(reader) => reader,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadFile::default()),
        Err(error) => return Err(AuditError::io("read", path)(error)),
    };
    let mut replay: Option<LogReplay> = None;
    let mut next_signed = 0;
    let mut row = 0;
    while let Some(raw) = reader.next_line().map_err(AuditError::io("read", path))? {
        if !raw.is_whole {
            return Ok(ReadFile { replay, cut_bytes: raw.file_bytes(), has_damage: false });
        }
        row += 1;
        let number = replay.as_ref().map_or(0, |replay| replay.tree.size());
        let taken = match replay.as_mut() {
            Some(replay) => replay.take(&raw).map_err(|reason| AuditError::Line {
                path: path.to_owned(),
                row,
                number,
                reason,
            }),
            None => first(&raw, path, signed).map(|first| replay = Some(first)),
        };
        match taken {
            Ok(()) => {}
            Err(AuditError::Line { .. })
                if number >= signed.size() || (row == 1 && has_full_files(path)) =>
            {
                let whole = replay.as_ref().map_or(0, |replay| replay.bytes);
                let length = fs::metadata(path).map_err(AuditError::io("read", path))?.len();
                let cut_bytes = length.saturating_sub(whole);
                return Ok(ReadFile { replay, cut_bytes, has_damage: true });
            }
            Err(error) => return Err(error),
        }
        if let Some(replay) = &replay {
            signed.check(&replay.tree, &mut next_signed)?;
        }
    }
    Ok(ReadFile { replay, ..ReadFile::default() })
}

/// Returns whether there are older files, so that the number of the first line in this one is not known. If it was
/// signed, the older files have fewer lines than were signed, and the log is not opened.
fn has_full_files(path: &Path) -> bool {
    let full = path.parent().and_then(|directory| files::full_files(directory).ok());
    full.is_some_and(|full| !full.is_empty())
}

/// Keeps a copy of what is cut from the end of a file, for people: it is not a part of the log.
fn keep_damage(directory: &Path, path: &Path, from: u64, size: u64) -> Result<(), AuditError> {
    let kept = files::damage_path(directory, size);
    let copied = File::open(path).and_then(|mut source| {
        source.seek(SeekFrom::Start(from))?;
        let mut copy = files::open_to_append(&kept)?;
        io::copy(&mut source, &mut copy)?;
        copy.sync_all()?;
        // Before what it has is cut.
        files::sync_directory(directory)
    });
    copied.map_err(AuditError::io("written", &kept))
}

/// Takes the first line of a file.
fn first(raw: &RawLine<'_>, path: &Path, signed: &SignedStates) -> Result<LogReplay, AuditError> {
    let parsed = EventLine::parse(raw.bytes).ok_or(NO_LINE);
    let parsed = parsed.and_then(|line| LogStart::read(&line).map(|start| (line, start)));
    let (line, start) = parsed.map_err(|reason| AuditError::Line {
        path: path.to_owned(),
        row: 1,
        number: 0,
        reason,
    })?;
    signed.check_start(&start)?;
    let LogStart { mut tree, key } = start;
    let last = line.hash();
    let first = tree.size();
    tree.push(last);
    Ok(LogReplay { keys: KeyHistory::new(key), first, tree, last, bytes: raw.file_bytes() })
}

const NO_LINE: &str = "does not have the form of a line";

impl LogReplay {
    /// Takes the next line. The error says what it does, as the end of a sentence.
    fn take(&mut self, raw: &RawLine<'_>) -> Result<(), &'static str> {
        let line = EventLine::parse(raw.bytes).ok_or(NO_LINE)?;
        if line.number != self.tree.size() {
            return Err("has the number of another line");
        }
        if line.previous != hex(&self.last) {
            return Err("does not have the hash of the line before it");
        }
        if let Some(members) = line.members_of_kind(KEY_ROTATED)
            && !self.keys.rotate(&members, line.number)
        {
            return Err("changes the key without the signatures of both keys");
        }
        self.last = line.hash();
        self.tree.push(self.last);
        self.bytes += raw.file_bytes();
        Ok(())
    }
}

/// Returns the key that signs first, and the one that signs then if the key is to change.
fn signing_keys(
    found: &PublicKey,
    configured: SigningKey,
    old: Option<SigningKey>,
) -> Result<(SigningKey, Option<SigningKey>), AuditError> {
    if configured.public_bytes() == *found.bytes() {
        return Ok((configured, None));
    }
    match old.filter(|old| old.public_bytes() == *found.bytes()) {
        Some(old) => Ok((old, Some(configured))),
        None => Err(AuditError::OtherKey {
            found: found.clone(),
            configured: configured.public(found.name()),
        }),
    }
}

/// Returns the name of the log. Fails if the log has another.
fn origin(
    directory: &Path,
    name: &str,
    replica: Option<&str>,
    found: Option<&PublicKey>,
) -> Result<String, AuditError> {
    let expected = match (replica, found) {
        (Some(replica), _) => format!("{name}/{replica}"),
        (None, Some(found))
            if found.name().rsplit_once('/').is_some_and(|parts| parts.0 == name) =>
        {
            found.name().to_owned()
        }
        (None, _) => format!("{name}/{}", random_replica()?),
    };
    if !is_name(&expected) {
        return Err(AuditError::Name { name: expected });
    }
    match found.map(PublicKey::name).filter(|found| *found != expected) {
        Some(found) => Err(AuditError::Origin {
            directory: directory.to_owned(),
            found: found.to_owned(),
            expected,
        }),
        None => Ok(expected),
    }
}

fn random_replica() -> Result<String, AuditError> {
    let mut bytes = [0; 6];
    SystemRandom::new().fill(&mut bytes).map_err(|_| AuditError::Random)?;
    Ok(hex(&bytes))
}
