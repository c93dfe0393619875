//! The files of a log's directory, and the reading of lines.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use airlock_core::regular_file;

/// Name of the file that lines are added to.
pub(crate) const CURRENT: &str = "log.jsonl";
/// Name of the file of checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// Name of the file of checkpoints while a shorter one is written.
pub(crate) const THINNED_CHECKPOINTS: &str = "checkpoints.new";
/// Name of the private key that the gateway makes.
pub(crate) const KEY: &str = "key.pem";
/// Name of the file that the process with the log has locked.
pub(crate) const LOCK: &str = "lock";
/// Beginning and end of the names of full files; between them is the number of the first line.
const FULL: (&str, &str) = ("log-", ".jsonl");
/// Digits of that number, so that names sort as numbers do.
const DIGITS: usize = 16;

/// Longest event, in bytes. A line is held whole while it is written, checked or exported.
pub const MAX_EVENT_BYTES: usize = 64 << 10;
/// Longest line: an event, a number and a hash.
const MAX_LINE_BYTES: usize = MAX_EVENT_BYTES + 128;

/// Makes the directory, for its owner alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file to add to its end, and makes it for its owner alone if there is none.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Makes a change of names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns the path of the full file whose first line has this number.
pub(crate) fn full_path(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("{}{first:0DIGITS$}{}", FULL.0, FULL.1))
}

/// Returns the path of a copy of what was cut from the end of a log with this number of lines.
pub(crate) fn damage_path(directory: &Path, size: u64) -> PathBuf {
    directory.join(format!("damaged-{size:0DIGITS$}"))
}

/// Returns the full files of a directory, oldest first.
pub(crate) fn full_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(FULL.0)?.strip_suffix(FULL.1));
        if digits.is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit())
        }) {
            paths.push(directory.join(name));
        }
    }
    paths.sort();
    Ok(paths)
}

/// A file of a log with lines.
pub(crate) struct LineFile {
    pub(crate) path: PathBuf,
    /// True if it is the last one. Others end with a whole line.
    pub(crate) is_newest: bool,
    /// The newest one, which has another name by now if it is full.
    opened: Option<File>,
}

impl LineFile {
    /// Begins to read its lines.
    pub(crate) fn open(&mut self) -> io::Result<LineReader> {
        match self.opened.take() {
            Some(file) => Ok(LineReader::new(file)),
            None => LineReader::open(&self.path),
        }
    }
}

/// Returns all files of a log with lines, oldest first: those of a directory, or the file itself. A gateway may set
/// the newest one aside meanwhile.
pub(crate) fn line_files(path: &Path) -> io::Result<Vec<LineFile>> {
    if !fs::metadata(path)?.is_dir() {
        let opened = Some(File::open(path)?);
        return Ok(vec![LineFile { path: path.to_owned(), is_newest: true, opened }]);
    }
    let current = path.join(CURRENT);
    // Before the others are listed, so that one that is set aside now is not missed.
    let opened = match regular_file::open(&current) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io::Error::new(error.kind(), format!("{CURRENT}: {error}"))),
    };
    let mut full = full_files(path)?;
    let is_listed = match (&opened, full.last()) {
        (Some(file), Some(newest)) => is_same(file, newest)?,
        _ => false,
    };
    if is_listed {
        full.pop();
    }
    let mut files: Vec<_> =
        full.into_iter().map(|path| LineFile { path, is_newest: false, opened: None }).collect();
    if opened.is_some() {
        files.push(LineFile { path: current, is_newest: true, opened });
    }
    let Some(newest) = files.last_mut() else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the directory has no log: there is no {CURRENT}"),
        ));
    };
    newest.is_newest = true;
    Ok(files)
}

/// Returns whether a path leads to a file that is open.
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    let found = fs::metadata(path)?;
    Ok((opened.dev(), opened.ino()) == (found.dev(), found.ino()))
}

/// Reads the lines of a file, one at a time.
pub(crate) struct LineReader {
    reader: BufReader<File>,
    buffer: Vec<u8>,
}

/// A line as it is in the file.
pub(crate) struct RawLine<'b> {
    /// Without its line end.
    pub(crate) bytes: &'b [u8],
    /// True if it has a line end. The last one has none if its writer was stopped.
    pub(crate) is_whole: bool,
}

impl RawLine<'_> {
    /// Returns the bytes that it takes in the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64 + u64::from(self.is_whole)
    }
}

impl LineReader {
    /// Opens a file. Fails if it is not a regular one: a copy of a log may have a pipe or a device, whose lines never
    /// end.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        regular_file::open(path).map(Self::new)
    }

    fn new(file: File) -> Self {
        Self { reader: BufReader::with_capacity(1 << 18, file), buffer: Vec::new() }
    }

    /// Reads the next line; `None` at the end. Of a line that is longer than any that a gateway writes, the
    /// rest follows as another one.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.buffer.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        if self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        let line = self.buffer.strip_suffix(b"\n");
        let is_whole = line.is_some() || self.buffer.len() > MAX_LINE_BYTES;
        Ok(Some(RawLine { bytes: line.unwrap_or(&self.buffer), is_whole }))
    }
}
