//! Transport over the two pipes of a child process: one JSON-RPC message per line.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Empty, empty};

use super::{inbox::Inbox, limits::MAX_MESSAGE_BYTES};

/// Maximum buffer that is kept after a line, in bytes. A larger one is freed after the line that
/// needed it.
const KEPT_LINE_BYTES: usize = 64 << 10;

/// Reads bounded lines and passes on the messages that the inbox accepts. Writes as `rmcp` does.
pub(super) struct Stdio<R, W: AsyncWrite> {
    lines: Lines<R>,
    writer: AsyncRwTransport<RoleClient, Empty, W>,
    inbox: Arc<Inbox>,
}

impl<R, W> Stdio<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(read: R, write: W, inbox: Arc<Inbox>) -> Self {
        Self { lines: Lines::new(read), writer: AsyncRwTransport::new(empty(), write), inbox }
    }
}

impl<R, W> Transport<RoleClient> for Stdio<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.writer.send(message)
    }

    /// Returns the next message that `rmcp` has to handle; `None` at the end of the stream, or
    /// earlier if the server floods the gateway. Dropping the future loses nothing: a line is taken
    /// and read between two waits.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.inbox.ready().await.ok()?;
            match self.lines.next().await {
                Line::Whole => {
                    let message = self.inbox.receive(self.lines.text());
                    self.lines.clear();
                    if message.is_some() {
                        return message;
                    }
                }
                Line::TooLong(bytes) => self.inbox.charge(bytes),
                Line::End => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.writer.close().await
    }
}

/// Outcome of reading one line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A complete line, available as [`Lines::text`] until it is cleared.
    Whole,
    /// Number of dropped bytes of a line that is too long.
    TooLong(usize),
    /// The end of the stream. Text after the last line end is not a line.
    End,
}

/// Splits a stream into lines of at most [`MAX_MESSAGE_BYTES`].
struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// True while the rest of a line that is too long is dropped.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(read: R) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), skipping: false }
    }

    /// Returns the line without its end.
    fn text(&self) -> &[u8] {
        self.line.trim_ascii_end()
    }

    fn clear(&mut self) {
        self.line.clear();
        self.line.shrink_to(KEPT_LINE_BYTES);
    }

    /// Reads until the next line, dropped part or end. Dropping the future keeps the part of a line
    /// that was read.
    async fn next(&mut self) -> Line {
        loop {
            let Ok(found) = self.read.fill_buf().await else { return Line::End };
            if found.is_empty() {
                return Line::End;
            }
            let end = found.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(found.len(), |at| at + 1);
            let is_whole = end.is_some();
            let was_skipping = self.skipping;
            let is_too_long = was_skipping || self.line.len() + taken > MAX_MESSAGE_BYTES + 1;
            if !is_too_long {
                self.line.extend_from_slice(&found[..taken]);
            }
            self.read.consume(taken);
            if is_too_long {
                let dropped = taken + self.line.len();
                self.clear();
                self.skipping = !is_whole;
                return Line::TooLong(dropped);
            }
            if is_whole {
                return Line::Whole;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<Result<String, usize>> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Line::Whole => found.push(Ok(String::from_utf8_lossy(lines.text()).into_owned())),
                Line::TooLong(bytes) => found.push(Err(bytes)),
                Line::End => return found,
            }
            lines.clear();
        }
    }

    #[tokio::test]
    async fn a_line_ends_at_its_line_end_and_unterminated_text_is_not_a_line() {
        let whole = |text: &str| Ok(text.to_owned());
        assert_eq!(lines(b"a\r\n\nb\nc").await, [whole("a"), whole(""), whole("b")]);
        assert_eq!(lines(b"").await, []);
    }

    #[tokio::test]
    async fn a_line_is_bounded_to_the_byte_and_the_next_one_is_read() {
        let text = |bytes: usize| [vec![b'x'; bytes], b"\nnext\n".to_vec()].concat();
        let fits = lines(&text(MAX_MESSAGE_BYTES)).await;
        assert_eq!(
            fits.iter().map(|line| line.as_ref().map(String::len)).collect::<Vec<_>>(),
            [Ok(MAX_MESSAGE_BYTES), Ok(4)]
        );
        let beyond = lines(&text(MAX_MESSAGE_BYTES + 1)).await;
        assert_eq!(
            beyond.iter().filter_map(|line| line.as_ref().err()).sum::<usize>(),
            MAX_MESSAGE_BYTES + 2
        );
        assert_eq!(beyond.last(), Some(&Ok("next".to_owned())));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_counted_and_not_kept() {
        let endless = vec![b'x'; 3 * MAX_MESSAGE_BYTES];
        let mut lines = Lines::new(&endless[..]);
        let mut dropped = 0;
        while let Line::TooLong(bytes) = lines.next().await {
            dropped += bytes;
            assert!(lines.line.capacity() <= KEPT_LINE_BYTES, "{}", lines.line.capacity());
        }
        assert_eq!(dropped, endless.len());
    }
}
