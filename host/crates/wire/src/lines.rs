//! Lines of standard input and output: each is one message.

use std::{
    io::{BufRead, Write},
    thread,
};

use tokio::sync::{mpsc, oneshot};

use super::{
    error::RpcError,
    frames::{Frame, FrameDecoder},
    message::BadMessage,
};
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
    thread::spawn(move || forward(input, limit_bytes, &sender));
    lines
}

/// Reads lines until the input or their receiver is gone. A last line needs no line end.
fn forward(mut input: impl BufRead, limit_bytes: usize, sender: &mpsc::Sender<Line>) {
    let mut decoder = FrameDecoder::lines(limit_bytes);
    while let Ok(found) = input.fill_buf() {
        let is_end = found.is_empty();
        let mut rest = if is_end { b"\n" } else { found };
        let line = match decoder.next(&mut rest) {
            Some(Frame::Message) => Some(Line::Text(decoder.take())),
            Some(Frame::TooLong { is_last: true, .. }) => Some(Line::TooLong),
            Some(Frame::TooLong { .. }) | None => None,
        };
        let used = found.len() - rest.len();
        input.consume(used);
        if line.is_some_and(|line| sender.blocking_send(line).is_err()) || is_end {
            return;
        }
    }
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
        let input = std::io::BufReader::with_capacity(3, &b"ab\n\nabcd\nabcde\nx"[..]);
        let mut lines = read_lines(input, 4);
        let found: Vec<_> = std::iter::from_fn(|| lines.blocking_recv()).collect();
        let text = |text: &str| Line::Text(text.into());
        assert_eq!(found, [text("ab"), text(""), text("abcd"), Line::TooLong, text("x")]);
    }
}
