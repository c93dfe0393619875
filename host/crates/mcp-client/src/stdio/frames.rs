//! Splits a stream into messages of bounded length: lines, or parts with a `Content-Length`.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::super::{limits::MAX_MESSAGE_BYTES, scan::IdScanner};

/// Maximum buffer that is kept after a message, in bytes. A larger one is freed after the message
/// that needed it.
const KEPT_BYTES: usize = 64 << 10;
const HEADER: &[u8] = b"content-length:";
/// Longest block of headers before a message, in lines.
const MAX_HEADERS: usize = 8;

/// Outcome of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole message, available as [`Frames::text`] until it is cleared.
    Message,
    /// A part of a message that is too long was dropped.
    TooLong {
        /// Bytes of the part.
        bytes: usize,
        /// Request that the message answers, if its identifier was read already.
        answered: Option<i64>,
    },
    /// The end of the stream. Text after the last line end is not a message.
    End,
}

/// Splits a stream into messages of at most [`MAX_MESSAGE_BYTES`].
pub(super) struct Frames<R> {
    read: BufReader<R>,
    message: Vec<u8>,
    /// Looks for the identifier while the rest of a message that is too long is dropped.
    skipping: Option<IdScanner>,
    /// Bytes of the message that are still to be read, if its length was announced.
    announced: Option<u64>,
    /// Headers that were read before the message.
    headers: usize,
    /// Length in the headers.
    length: Option<u64>,
    /// Called for each part of the stream that is read.
    touch: Box<dyn Fn() + Send>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(read: R, touch: impl Fn() + Send + 'static) -> Self {
        Self {
            read: BufReader::new(read),
            message: Vec::new(),
            skipping: None,
            announced: None,
            headers: 0,
            length: None,
            touch: Box::new(touch),
        }
    }

    /// Returns the message without its line end.
    pub(super) fn text(&self) -> &[u8] {
        self.message.trim_ascii_end()
    }

    /// Forgets the message.
    pub(super) fn clear(&mut self) {
        self.message.clear();
        self.message.shrink_to(KEPT_BYTES);
    }

    /// Reads until the next message, dropped part or end. Dropping the future keeps the part of a
    /// message that was read.
    pub(super) async fn next(&mut self) -> Frame {
        loop {
            let Ok(found) = self.read.fill_buf().await else { return Frame::End };
            if found.is_empty() {
                return Frame::End;
            }
            (self.touch)();
            let (taken, is_whole) = if let Some(left) = self.announced {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(found.len());
                (taken, taken as u64 == left)
            } else {
                let end = found.iter().position(|byte| *byte == b'\n');
                (end.map_or(found.len(), |at| at + 1), end.is_some())
            };
            let is_too_long =
                self.skipping.is_some() || self.message.len() + taken > MAX_MESSAGE_BYTES + 1;
            if is_too_long {
                let scanner = self.skipping.get_or_insert_default();
                scanner.push(&self.message);
                scanner.push(&found[..taken]);
            } else {
                self.message.extend_from_slice(&found[..taken]);
            }
            self.read.consume(taken);
            if let Some(left) = &mut self.announced {
                *left -= taken as u64;
            }
            if is_whole {
                self.announced = None;
            }
            if is_too_long {
                return self.dropped(taken, is_whole);
            }
            if is_whole && !self.is_header() {
                return Frame::Message;
            }
        }
    }

    fn dropped(&mut self, taken: usize, is_whole: bool) -> Frame {
        let bytes = taken + self.message.len();
        self.clear();
        let answered = self.skipping.as_ref().and_then(IdScanner::answered);
        if is_whole {
            self.skipping = None;
        }
        Frame::TooLong { bytes, answered }
    }

    /// Reads a line as a header, or as the blank line after the headers. Returns false if it is a
    /// message.
    fn is_header(&mut self) -> bool {
        let line = self.message.trim_ascii();
        let length = line
            .get(..HEADER.len())
            .filter(|name| name.eq_ignore_ascii_case(HEADER))
            .and_then(|_| std::str::from_utf8(&line[HEADER.len()..]).ok()?.trim().parse().ok());
        if length.is_none() && self.length.is_none() {
            return false;
        }
        if line.is_empty() {
            self.announced = self.length.take().filter(|length| *length > 0);
            self.headers = 0;
        } else if line.starts_with(b"{") || self.headers == MAX_HEADERS {
            // No header: the server announced a length and sends lines.
            self.length = None;
            self.headers = 0;
            return false;
        } else {
            self.length = length.or(self.length);
            self.headers += 1;
        }
        self.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(text: &[u8]) -> Vec<Result<String, usize>> {
        let mut frames = Frames::new(text, || {});
        let mut found = Vec::new();
        loop {
            match frames.next().await {
                Frame::Message => found.push(Ok(String::from_utf8_lossy(frames.text()).into())),
                Frame::TooLong { bytes, .. } => found.push(Err(bytes)),
                Frame::End => return found,
            }
            frames.clear();
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "compared with what was read")]
    fn whole(text: &str) -> Result<String, usize> {
        Ok(text.to_owned())
    }

    #[tokio::test]
    async fn a_message_ends_at_its_line_end_and_unterminated_text_is_not_a_message() {
        assert_eq!(frames(b"a\r\n\nb\nc").await, [whole("a"), whole(""), whole("b")]);
        assert_eq!(frames(b"").await, []);
    }

    #[tokio::test]
    async fn messages_with_an_announced_length_are_read_and_lines_after_them() {
        let text =
            b"Content-Length: 3\r\n\r\na\nbcontent-length:1\nContent-Type: x\n\nc{\"d\":1}\n";
        assert_eq!(frames(text).await, [whole("a\nb"), whole("c"), whole("{\"d\":1}")]);
        assert_eq!(frames(b"Content-Length: 3\n{}\n").await, [whole("{}")]);
        assert_eq!(frames(b"Content-Length: x\n").await, [whole("Content-Length: x")]);
        assert_eq!(frames(b"Content-Length: 0\n\na\n").await, [whole("a")]);
    }

    #[tokio::test]
    async fn a_message_is_bounded_to_the_byte_and_the_next_one_is_read() {
        let fits = frames(&text(MAX_MESSAGE_BYTES)).await;
        assert_eq!(
            fits.iter().map(|line| line.as_ref().map(String::len)).collect::<Vec<_>>(),
            [Ok(MAX_MESSAGE_BYTES), Ok(4)]
        );
        let beyond = frames(&text(MAX_MESSAGE_BYTES + 1)).await;
        assert_eq!(
            beyond.iter().filter_map(|line| line.as_ref().err()).sum::<usize>(),
            MAX_MESSAGE_BYTES + 2
        );
        assert_eq!(beyond.last(), Some(&Ok("next".to_owned())));
    }

    /// Returns a line of so many bytes, and another one.
    fn text(bytes: usize) -> Vec<u8> {
        [vec![b'x'; bytes], b"\nnext\n".to_vec()].concat()
    }

    #[tokio::test]
    async fn an_endless_message_is_counted_and_not_kept_and_its_request_is_known() {
        let endless =
            [br#"{"id":7,"result":""#.to_vec(), vec![b'x'; 3 * MAX_MESSAGE_BYTES]].concat();
        let mut frames = Frames::new(&endless[..], || {});
        let mut dropped = 0;
        while let Frame::TooLong { bytes, answered } = frames.next().await {
            dropped += bytes;
            assert_eq!(answered, Some(7));
            assert!(frames.message.capacity() <= KEPT_BYTES, "{}", frames.message.capacity());
        }
        assert_eq!(dropped, endless.len());
    }

    #[tokio::test]
    async fn an_announced_length_beyond_the_bound_is_dropped_without_being_kept() {
        let text = format!("Content-Length: {}\n\n{}\nnext\n", 6 << 20, "x".repeat(6 << 20));
        let found = frames(text.as_bytes()).await;
        assert_eq!(found.iter().filter_map(|frame| frame.as_ref().err()).sum::<usize>(), 6 << 20);
        assert_eq!(found[found.len() - 2..], [whole(""), whole("next")]);
    }
}
