//! Lines of standard input and output: each is one message.

use std::{
    io::{self, BufRead, Write},
    thread,
};

use tokio::sync::{mpsc, oneshot};

use super::{error::RpcError, message::BadMessage};
use airlock_json::Caps;

/// Lines that are read ahead, and messages that wait to be written.
const QUEUE: usize = 16;
/// Factor between the longest line and the memory of its parsed form.
const TREE_FACTOR: usize = 4;

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line of at most the limit.
    Text(Vec<u8>),
    /// A longer line. It was dropped.
    TooLong,
}

/// Reads lines in a thread of its own, which ends with the input or with the process. (Tokio's
/// standard input would keep the process from ending.)
pub fn read_lines(
    input: impl BufRead + Send + 'static,
    limit_bytes: usize,
) -> mpsc::Receiver<Line> {
    let (sender, lines) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        let mut input = input;
        while let Ok(Some(line)) = read_line(&mut input, limit_bytes) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Reads a line; `None` at the end of the input. A last line needs no line end.
fn read_line(input: &mut impl BufRead, limit_bytes: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    let mut has_begun = false;
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            break;
        }
        has_begun = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > limit_bytes {
            is_too_long = true;
            line = Vec::new();
        } else if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(has_begun.then_some(if is_too_long { Line::TooLong } else { Line::Text(line) }))
}

/// Writes messages in a thread of its own, one a line. The receiver completes when the sender is
/// dropped and all messages are written, or when the output is closed.
pub fn write_lines(
    mut output: impl Write + Send + 'static,
) -> (mpsc::Sender<String>, oneshot::Receiver<()>) {
    let (sender, mut texts) = mpsc::channel::<String>(QUEUE);
    let (written, done) = oneshot::channel();
    thread::spawn(move || {
        while let Some(text) = texts.blocking_recv() {
            let line = [text.as_bytes(), b"\n"].concat();
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        drop(written);
    });
    (sender, done)
}

impl Line {
    /// Returns the text of the line; `None` if it is blank. Fails if the line was longer than
    /// `limit_bytes`.
    pub fn into_text(self, limit_bytes: usize) -> Result<Option<Vec<u8>>, BadMessage> {
        match self {
            Self::Text(text) if text.trim_ascii().is_empty() => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::TooLong => {
                let message = format!("the message has more than {limit_bytes} bytes");
                Err(BadMessage { id: None, error: RpcError::parse(message) })
            }
        }
    }
}

/// Returns the bounds on the message in a line.
pub fn caps(limit_bytes: usize) -> Caps {
    Caps::memory(limit_bytes.saturating_mul(TREE_FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_and_without_an_end_and_bounded() {
        let mut input = io::BufReader::with_capacity(3, &b"ab\n\nabcd\nabcde\nx"[..]);
        for expected in [
            Some(Line::Text(b"ab".to_vec())),
            Some(Line::Text(Vec::new())),
            Some(Line::Text(b"abcd".to_vec())),
            Some(Line::TooLong),
            Some(Line::Text(b"x".to_vec())),
            None,
        ] {
            assert_eq!(read_line(&mut input, 4).expect("no error"), expected);
        }
    }
}
