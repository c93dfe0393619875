//! The end of a server's stderr, for diagnostics. It is never read as part of the protocol.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::sleep,
};

use super::{
    limits::{
        KEPT_STDERR_BYTES, MAX_STDERR_LINE_BYTES, REPORTED_STDERR_BYTES, REPORTED_STDERR_LINES,
        STDERR_BURST_BYTES, STDERR_PAUSE,
    },
    logs::Stderr,
};
use airlock_core::secret::Scrubber;
use airlock_strings::{cut, one_line};

/// Bytes that are kept before the first shown byte. The beginning of what is kept may be the rest
/// of a secret, which is not recognized; it is not shown.
const MARGIN_BYTES: usize = 16 << 10;

/// The last bytes of a stream, at most [`KEPT_STDERR_BYTES`] and a margin. They are redacted when
/// they are shown.
pub(super) struct StderrTail {
    scrubber: Arc<Scrubber>,
    kept: Mutex<KeptLines>,
}

#[derive(Default)]
struct KeptLines {
    bytes: VecDeque<u8>,
    /// True if earlier bytes were dropped.
    is_cut: bool,
    /// Bytes since the last pause.
    burst: usize,
}

impl StderrTail {
    pub(super) fn new(scrubber: Arc<Scrubber>) -> Arc<Self> {
        Arc::new(Self { scrubber, kept: Mutex::default() })
    }

    /// Adds bytes. Returns the time to wait before more is read, which slows down a server that
    /// never pauses.
    pub(super) fn push(&self, bytes: &[u8]) -> Option<Duration> {
        const MAX: usize = KEPT_STDERR_BYTES + MARGIN_BYTES;
        let mut kept = self.kept.lock();
        let last = &bytes[bytes.len().saturating_sub(MAX)..];
        let excess = (kept.bytes.len() + last.len()).saturating_sub(MAX).min(kept.bytes.len());
        kept.is_cut |= excess > 0 || last.len() < bytes.len();
        kept.bytes.drain(..excess);
        kept.bytes.extend(last);
        kept.burst += bytes.len();
        if kept.burst < STDERR_BURST_BYTES {
            return None;
        }
        kept.burst = 0;
        Some(STDERR_PAUSE)
    }

    /// Reads a stream to its end, so that a server with much output does not block.
    pub(super) async fn read(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            if let Some(pause) = self.push(&buffer[..count]) {
                sleep(pause).await;
            }
        }
    }

    /// Returns the last lines, at most [`REPORTED_STDERR_LINES`] with [`REPORTED_STDERR_BYTES`]
    /// together. The last line is there in any case, cut to that length.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let mut lines = self.lines();
        let mut room = REPORTED_STDERR_BYTES;
        let mut first = lines.len();
        while first > lines.len().saturating_sub(REPORTED_STDERR_LINES)
            && lines[first - 1].len() <= room
        {
            first -= 1;
            room -= lines[first].len();
        }
        let mut last = lines.split_off(first.min(lines.len().saturating_sub(1)));
        if let [only] = &mut last[..] {
            *only = cut(std::mem::take(only), REPORTED_STDERR_BYTES);
        }
        last
    }
}

impl Stderr for StderrTail {
    /// Returns the lines that are not empty, oldest first: redacted, without control characters,
    /// and each at most [`MAX_STDERR_LINE_BYTES`] long. A line whose beginning was dropped is left
    /// out.
    fn lines(&self) -> Vec<String> {
        let (bytes, is_cut) = {
            let mut kept = self.kept.lock();
            (kept.bytes.make_contiguous().to_vec(), kept.is_cut)
        };
        let text = String::from_utf8_lossy(&bytes);
        let redacted = self.scrubber.text(&text);
        let shown = if is_cut { after_margin(&redacted) } else { &redacted };
        let lines = shown.lines().map(one_line).filter(|line| !line.is_empty());
        lines.map(|line| cut(line, MAX_STDERR_LINE_BYTES)).collect()
    }
}

/// Returns the text behind the margin, from the first beginning of a line.
fn after_margin(text: &str) -> &str {
    let behind = &text[text.ceil_char_boundary(MARGIN_BYTES)..];
    behind.split_once('\n').map_or(behind, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::secret::Secret;

    fn tail(text: &str) -> Arc<StderrTail> {
        let secret = Secret::new("hunter2hunter2");
        let scrubber = Scrubber::new([("TOKEN", &secret)]).expect("a good secret");
        let tail = StderrTail::new(Arc::new(scrubber));
        tail.push(text.as_bytes());
        tail
    }

    #[test]
    fn lines_are_redacted_visible_and_bounded() {
        let long = "x".repeat(2 * MAX_STDERR_LINE_BYTES);
        let tail = tail(&format!("one\u{1b}[31m\r\n\n  at hunter2hunter2\n{long}\nlast"));
        let lines = tail.lines();
        assert_eq!(lines[..2], ["one\u{fffd}[31m", "at [secret TOKEN]"]);
        assert_eq!(lines[2].len(), MAX_STDERR_LINE_BYTES);
        assert_eq!(lines[3..], ["last"]);
    }

    #[test]
    fn the_end_is_kept_to_the_byte_and_the_rest_of_a_cut_secret_is_not_shown() {
        let whole = KEPT_STDERR_BYTES + MARGIN_BYTES;
        let full = tail(&format!("a\n{}", "b\n".repeat(whole / 2 - 1)));
        assert_eq!((full.lines().len(), full.lines()[0].as_str()), (whole / 2, "a"));
        full.push(b"c\n");
        assert_eq!(full.lines().last().map(String::as_str), Some("c"));
        assert!(full.lines().len() <= KEPT_STDERR_BYTES / 2 && full.lines()[0] == "b");

        let cut = tail(&format!("hunter2hunter2{}", "y".repeat(whole - 4)));
        let shown = cut.lines().concat();
        assert!(!shown.contains("ter2") && shown.starts_with('y'), "{shown}");
    }

    #[test]
    fn only_the_last_lines_are_reported() {
        let last = tail(&lines(100)).last_lines();
        assert_eq!(last.len(), REPORTED_STDERR_LINES);
        assert_eq!(last.last().map(String::as_str), Some("line 99"));
        assert_eq!(tail(&lines(2)).last_lines(), ["line 0", "line 1"]);
        assert_eq!(tail("").last_lines(), [""; 0]);
        let wide = tail(&format!("{}\nend", "z".repeat(REPORTED_STDERR_BYTES)));
        assert_eq!(wide.last_lines(), ["end"]);
        let endless = tail(&"z".repeat(2 * REPORTED_STDERR_BYTES)).last_lines();
        assert_eq!((endless.len(), endless[0].len()), (1, REPORTED_STDERR_BYTES));
    }

    fn lines(count: usize) -> String {
        (0..count).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_pause_is_due_after_each_burst() {
        let tail = tail("");
        assert_eq!(tail.push(&vec![0; STDERR_BURST_BYTES - 1]), None);
        assert_eq!(tail.push(&[0]), Some(STDERR_PAUSE));
        assert_eq!(tail.push(&[0]), None);
    }
}
