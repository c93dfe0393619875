//! `read_file`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use airlock_guest::{Content, Error, Structured, tool, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grants::{GrantedDirectories, Location, not_a};

/// Largest number of bytes of a file in one result. It is below the host's usual limit on a result,
/// which contains the text twice.
const BYTES_MAX: u64 = 256 * 1024;

/// Lines to read if no limit is given.
const LINES_DEFAULT: u64 = 2_000;

/// Few large reads rather than many small ones, because each is a host call.
const BUFFER_BYTES: usize = 64 * 1024;

/// In what `offset` and `limit` count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Lines.
    #[default]
    Lines,
    /// Bytes; for files with very long lines.
    Bytes,
}

/// A piece of a file.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Piece {
    /// The file.
    pub path: String,
    /// The text.
    pub text: String,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Pass this as `offset` to read on; absent at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// Reads a text file, or a piece of it.
///
/// Answers at most 256 KiB at once, and 2000 lines where `limit` is absent; `next_offset` in the
/// answer says where to read on. A file that is not UTF-8 text, an image for one, is refused.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "Read file")]
pub fn read_file(
    /// The file, starting with the name of a granted directory: `docs/notes/a.txt`.
    path: String,
    /// Number of lines or bytes to skip.
    #[serde(default)]
    offset: u64,
    /// Number of lines or bytes to read.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// In what `offset` and `limit` count.
    #[serde(default)]
    unit: Unit,
) -> Result<Structured<Piece>, Error> {
    let piece = read(&GrantedDirectories::of_host(), &path, offset, limit, unit)?;
    let text = Content::text(piece.text.clone());
    let more = piece
        .next_offset
        .map(|offset| Content::text(format!("[The file goes on; read it with offset {offset}.]")));
    let answer = Structured::new(piece).with(text);
    Ok(match more {
        Some(more) => answer.with(more),
        None => answer,
    })
}

fn read(
    grants: &GrantedDirectories,
    path: &str,
    offset: u64,
    limit: Option<u64>,
    unit: Unit,
) -> Result<Piece, Error> {
    let limit = limit.map(|limit| within("limit", limit, &(1..=u64::MAX))).transpose()?;
    let place = grants.resolve_file(path)?;
    // Opening a directory for reading succeeds on some systems and has an unclear error on others.
    let metadata = std::fs::metadata(&place.path).map_err(|error| place.refuse(error))?;
    if !metadata.is_file() {
        return Err(not_a("file", &place));
    }
    let file = File::open(&place.path).map_err(|error| place.refuse(error))?;
    let (bytes, next_offset) = match unit {
        Unit::Lines => lines(file, &place, offset, limit.unwrap_or(LINES_DEFAULT))?,
        Unit::Bytes => bytes(file, &place, offset, limit.unwrap_or(BYTES_MAX).min(BYTES_MAX))?,
    };
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::invalid_input(format!(
            "`{}` is not UTF-8 text, and this tool reads nothing else",
            place.shown
        ))
        .with_code("not_text")
    })?;
    Ok(Piece { path: place.shown, text, size: metadata.len(), next_offset })
}

/// Reads whole lines. Returns them and the number of the next line, if there is one.
fn lines(
    file: File,
    place: &Location,
    offset: u64,
    limit: u64,
) -> Result<(Vec<u8>, Option<u64>), Error> {
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut at_byte = 0;
    for _ in 0..offset {
        match file.skip_until(b'\n').map_err(|error| place.refuse(error))? {
            0 => break,
            skipped => at_byte += skipped as u64,
        }
    }
    let mut text = Vec::new();
    for line in 0..limit {
        let before = text.len();
        let room = BYTES_MAX - before as u64;
        // Reading one byte more than there is room for detects a line that does not fit.
        let read = (&mut file)
            .take(room + 1)
            .read_until(b'\n', &mut text)
            .map_err(|error| place.refuse(error))?;
        if read as u64 > room {
            if line == 0 {
                return Err(long_line(place, offset, at_byte));
            }
            text.truncate(before);
            return Ok((text, Some(offset + line)));
        }
        if read == 0 {
            return Ok((text, None));
        }
    }
    let more = !file.fill_buf().map_err(|error| place.refuse(error))?.is_empty();
    Ok((text, more.then_some(offset + limit)))
}

fn long_line(place: &Location, offset: u64, at_byte: u64) -> Error {
    Error::too_large(format!(
        "line {} of `{}` is longer than {BYTES_MAX} bytes; read it in pieces with unit \"bytes\" and offset {at_byte}",
        offset + 1,
        place.shown
    ))
    .with_code("long_line")
}

/// Reads bytes that do not end within a character. Returns them and the offset of the rest, if
/// there is one.
fn bytes(
    mut file: File,
    place: &Location,
    offset: u64,
    limit: u64,
) -> Result<(Vec<u8>, Option<u64>), Error> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(offset)).map_err(|error| place.refuse(error))?;
    file.take(limit + 1).read_to_end(&mut text).map_err(|error| place.refuse(error))?;
    if text.first().is_some_and(|byte| is_continuation(*byte)) && offset > 0 {
        return Err(Error::invalid_input(format!(
            "byte {offset} of `{}` is within a character",
            place.shown
        )));
    }
    let Some(last) = usize::try_from(limit).ok().filter(|limit| text.len() > *limit) else {
        return Ok((text, None));
    };
    let end = (last.saturating_sub(3)..=last)
        .rev()
        .find(|end| !is_continuation(text[*end]))
        .unwrap_or(last);
    if end == 0 {
        return Err(Error::invalid_input(
            "argument `limit` is too small for the character there; 4 always does",
        ));
    }
    text.truncate(end);
    Ok((text, Some(offset + end as u64)))
}

/// Returns whether a byte is the second to fourth of a character in UTF-8.
fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use std::fs;

    use airlock_guest::ErrorKind;
    use tempfile::TempDir;

    use super::*;

    fn directory(file: &[u8]) -> (TempDir, GrantedDirectories) {
        let base = TempDir::new().unwrap();
        fs::create_dir(base.path().join("docs")).unwrap();
        fs::write(base.path().join("docs/a.txt"), file).unwrap();
        let grants = GrantedDirectories::below(base.path());
        (base, grants)
    }

    fn lines_of(file: &str, offset: u64, limit: u64) -> (String, Option<u64>) {
        let (_base, grants) = directory(file.as_bytes());
        let piece = read(&grants, "docs/a.txt", offset, Some(limit), Unit::Lines).unwrap();
        (piece.text, piece.next_offset)
    }

    fn bytes_of(file: &str, offset: u64, limit: u64) -> Result<(String, Option<u64>), String> {
        let (_base, grants) = directory(file.as_bytes());
        let piece = read(&grants, "docs/a.txt", offset, Some(limit), Unit::Bytes);
        piece.map(|piece| (piece.text, piece.next_offset)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_by_lines() {
        assert_eq!(lines_of("a\nb\r\nc", 0, 2), ("a\nb\r\n".into(), Some(2)));
        assert_eq!(lines_of("a\nb\r\nc", 2, 2), ("c".into(), None));
        assert_eq!(lines_of("a\nb\n", 0, 2), ("a\nb\n".into(), None));
        assert_eq!(lines_of("a\n", 7, 2), (String::new(), None));
        assert_eq!(lines_of("", 0, 1), (String::new(), None));
    }

    #[test]
    fn a_result_by_lines_stays_below_the_limit_on_bytes() {
        let line = "x".repeat(100_000) + "\n";
        let (text, next) = lines_of(&line.repeat(4), 0, 100);
        assert_eq!((text.len(), next), (2 * line.len(), Some(2)));
    }

    #[test]
    fn a_line_at_the_limit_is_read_and_a_longer_one_is_refused_with_an_alternative() {
        let longest = "x".repeat(256 * 1024 - 1) + "\n";
        assert_eq!(lines_of(&longest, 0, 1), (longest.clone(), None));
        let (_base, grants) = directory(format!("a\nx{longest}").as_bytes());
        let error = read(&grants, "docs/a.txt", 1, None, Unit::Lines).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        insta::assert_snapshot!(error, @r#"line 2 of `docs/a.txt` is longer than 262144 bytes; read it in pieces with unit "bytes" and offset 2"#);
    }

    #[test]
    fn a_file_is_read_by_bytes_without_cutting_a_character() {
        assert_eq!(bytes_of("aé€b", 0, 2), Ok(("a".into(), Some(1))));
        assert_eq!(bytes_of("aé€b", 1, 4), Ok(("é".into(), Some(3))));
        assert_eq!(bytes_of("aé€b", 3, 4), Ok(("€b".into(), None)));
        assert_eq!(bytes_of("aé€b", 99, 4), Ok((String::new(), None)));
        insta::assert_snapshot!(bytes_of("aé€b", 2, 4).unwrap_err(), @"byte 2 of `docs/a.txt` is within a character");
        insta::assert_snapshot!(bytes_of("aé€b", 3, 1).unwrap_err(), @"argument `limit` is too small for the character there; 4 always does");
    }

    #[test]
    fn an_unreadable_path_is_refused_with_the_path_of_the_caller() {
        let (_base, grants) = directory(b"\x89PNG");
        insta::assert_snapshot!(refused(&grants, "/docs/a.txt"), @"`docs/a.txt` is not UTF-8 text, and this tool reads nothing else");
        insta::assert_snapshot!(refused(&grants, "docs/b.txt"), @"`docs/b.txt` does not exist");
        insta::assert_snapshot!(refused(&grants, "docs"), @"`docs` is not a file");
        insta::assert_snapshot!(refused(&grants, "docs/a.txt/b"), @"`docs/a.txt/b`, or something on the way to it, is not a directory");
    }

    fn refused(grants: &GrantedDirectories, path: &str) -> String {
        read(grants, path, 0, None, Unit::Lines).unwrap_err().to_string()
    }

    #[test]
    fn without_a_grant_nothing_is_read() {
        let error = read_file("docs/a.txt".into(), 0, None, Unit::Lines).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
    }
}
