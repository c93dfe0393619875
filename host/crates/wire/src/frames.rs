//! Splits bytes into messages of bounded length: lines, or parts with a `Content-Length`.

use super::scan::IdScanner;

/// Maximum buffer that is kept after a message, in bytes. A larger one is freed after the message
/// that needed it.
const KEPT_BYTES: usize = 64 << 10;
const HEADER: &[u8] = b"content-length:";
/// Maximum number of header lines before a message. The Language Server Protocol, where the framing is
/// from, has two.
const MAX_HEADERS: usize = 8;

/// Outcome of decoding.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message, available as [`FrameDecoder::text`] until it is cleared or taken.
    Message,
    /// A part of a message that is too long was dropped.
    TooLong {
        /// Bytes of the part.
        bytes: usize,
        /// Request of the gateway that the message answers, if its identifier was read already.
        answered: Option<i64>,
        /// True for the last part of the message.
        is_last: bool,
    },
}

/// Splits bytes into messages.
#[derive(Debug)]
pub struct FrameDecoder {
    limit_bytes: usize,
    /// True if a message may have headers before it.
    has_headers: bool,
    message: Vec<u8>,
    /// Looks for the identifier while the rest of a message that is too long is dropped.
    skipping: Option<IdScanner>,
    /// Bytes of the message that are still to be read, if its length was announced.
    announced: Option<u64>,
    /// Headers that were read before the message.
    headers: usize,
    /// Length in the headers.
    length: Option<u64>,
    dropped_bytes: usize,
}

impl FrameDecoder {
    /// Creates a decoder for messages of at most `limit_bytes`, in either framing.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            has_headers: true,
            message: Vec::new(),
            skipping: None,
            announced: None,
            headers: 0,
            length: None,
            dropped_bytes: 0,
        }
    }

    /// Creates a decoder for lines of at most `limit_bytes`.
    pub fn lines(limit_bytes: usize) -> Self {
        Self { has_headers: false, ..Self::new(limit_bytes) }
    }

    /// Returns the message without its line end.
    pub fn text(&self) -> &[u8] {
        self.message.trim_ascii_end()
    }

    /// Takes the message without its line end.
    pub fn take(&mut self) -> Vec<u8> {
        let length = self.text().len();
        let mut message = std::mem::take(&mut self.message);
        message.truncate(length);
        message
    }

    /// Forgets the message.
    pub fn clear(&mut self) {
        self.message.clear();
        self.message.shrink_to(KEPT_BYTES);
    }

    /// Takes the number of bytes that were read since the last call and belong to no [`Frame`]: the
    /// headers of messages.
    pub fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped_bytes)
    }

    /// Reads bytes up to the end of the next message or dropped part, and removes them from `bytes`.
    /// Returns `None` and removes all bytes if they complete no message.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Frame> {
        while !bytes.is_empty() {
            let (part, is_whole) = self.part(bytes);
            *bytes = &bytes[part.len()..];
            let length = self.message.len() + part.len();
            if self.skipping.is_some() || length > self.limit_bytes.saturating_add(1) {
                return Some(self.skip(part, is_whole));
            }
            self.message.extend_from_slice(part);
            if is_whole && !(self.has_headers && self.is_header()) {
                return Some(Frame::Message);
            }
        }
        None
    }

    /// Returns the bytes that belong to the message, and whether they complete it.
    fn part<'b>(&mut self, bytes: &'b [u8]) -> (&'b [u8], bool) {
        let Some(left) = &mut self.announced else {
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            return (&bytes[..end.unwrap_or(bytes.len())], end.is_some());
        };
        let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
        *left -= taken as u64;
        let is_whole = *left == 0;
        if is_whole {
            self.announced = None;
        }
        (&bytes[..taken], is_whole)
    }

    fn skip(&mut self, part: &[u8], is_last: bool) -> Frame {
        let bytes = self.message.len() + part.len();
        let scanner = self.skipping.get_or_insert_default();
        scanner.push(&self.message);
        scanner.push(part);
        let answered = scanner.answered();
        self.clear();
        if is_last {
            self.skipping = None;
        }
        Frame::TooLong { bytes, answered, is_last }
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
            // No header: the other end announced a length and sends lines.
            self.length = None;
            self.headers = 0;
            return false;
        } else {
            self.length = length.or(self.length);
            self.headers += 1;
        }
        self.dropped_bytes += self.message.len();
        self.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100;

    fn frames(bytes: &[u8]) -> Vec<Result<String, usize>> {
        decoded(FrameDecoder::new(LIMIT), bytes.chunks(7))
    }

    fn decoded<'a>(
        mut decoder: FrameDecoder,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<Result<String, usize>> {
        let mut found = Vec::new();
        for mut part in parts {
            while let Some(frame) = decoder.next(&mut part) {
                match frame {
                    Frame::Message => {
                        found.push(Ok(String::from_utf8_lossy(decoder.text()).into()));
                    }
                    Frame::TooLong { bytes, .. } => found.push(Err(bytes)),
                }
                decoder.clear();
            }
        }
        found
    }

    #[allow(clippy::unnecessary_wraps, reason = "compared with what was read")]
    fn whole(text: &str) -> Result<String, usize> {
        Ok(text.to_owned())
    }

    #[test]
    fn a_message_ends_at_its_line_end_and_unterminated_text_is_not_a_message() {
        assert_eq!(frames(b"a\r\n\nb\nc"), [whole("a"), whole(""), whole("b")]);
        assert_eq!(frames(b""), []);
    }

    #[test]
    fn messages_with_an_announced_length_are_read_and_lines_after_them() {
        let text =
            b"Content-Length: 3\r\n\r\na\nbcontent-length:1\nContent-Type: x\n\nc{\"d\":1}\n";
        assert_eq!(frames(text), [whole("a\nb"), whole("c"), whole("{\"d\":1}")]);
        assert_eq!(frames(b"Content-Length: 3\n{}\n"), [whole("{}")]);
        assert_eq!(frames(b"Content-Length: x\n"), [whole("Content-Length: x")]);
        assert_eq!(frames(b"Content-Length: 0\n\na\n"), [whole("a")]);
        let lines =
            decoded(FrameDecoder::lines(LIMIT), [&b"Content-Length: 1\n\na\n"[..]].into_iter());
        assert_eq!(lines, [whole("Content-Length: 1"), whole(""), whole("a")]);
    }

    #[test]
    fn headers_are_counted_with_and_without_a_message_after_them() {
        let mut decoder = FrameDecoder::new(LIMIT);
        let empty = b"Content-Length: 0\r\n\r\n".repeat(3);
        assert_eq!(decoder.next(&mut &empty[..]), None);
        assert_eq!(decoder.take_dropped(), empty.len());
        let mut message = &b"Content-Length: 2\nx: y\n\n{}{}\n"[..];
        assert_eq!(decoder.next(&mut message), Some(Frame::Message));
        assert_eq!(decoder.take_dropped(), b"Content-Length: 2\nx: y\n\n".len());
        decoder.clear();
        assert_eq!(decoder.next(&mut message), Some(Frame::Message));
        assert_eq!(decoder.take_dropped(), 0);
    }

    #[test]
    fn a_message_is_bounded_to_the_byte_and_the_next_one_is_read() {
        let line = "x".repeat(LIMIT);
        assert_eq!(frames(format!("{line}\nnext\n").as_bytes()), [whole(&line), whole("next")]);
        let beyond = frames(format!("{line}x\nnext\n").as_bytes());
        assert_eq!(beyond.iter().filter_map(|line| line.as_ref().err()).sum::<usize>(), LIMIT + 2);
        assert_eq!(beyond.last(), Some(&whole("next")));
    }

    #[test]
    fn an_endless_message_is_counted_and_not_kept_and_its_request_is_known() {
        let endless = [br#"{"id":7,"result":""#.to_vec(), vec![b'x'; 3 * KEPT_BYTES]].concat();
        let mut decoder = FrameDecoder::new(LIMIT);
        let mut dropped = 0;
        for mut part in endless.chunks(KEPT_BYTES) {
            let frame = decoder.next(&mut part);
            let Some(Frame::TooLong { bytes, answered: Some(7), is_last: false }) = frame else {
                panic!("{frame:?}")
            };
            dropped += bytes;
            assert!(decoder.message.capacity() <= KEPT_BYTES, "{}", decoder.message.capacity());
        }
        assert_eq!(dropped, endless.len());
        let end = decoder.next(&mut &b"\"}\n"[..]);
        assert_eq!(end, Some(Frame::TooLong { bytes: 3, answered: Some(7), is_last: true }));
    }

    #[test]
    fn an_announced_length_beyond_the_bound_is_dropped_without_being_kept() {
        let bytes = 2 * LIMIT;
        let text = format!("Content-Length: {bytes}\n\n{}\nnext\n", "x".repeat(bytes));
        let found = frames(text.as_bytes());
        assert_eq!(found.iter().filter_map(|frame| frame.as_ref().err()).sum::<usize>(), bytes);
        assert_eq!(found[found.len() - 2..], [whole(""), whole("next")]);
    }
}
