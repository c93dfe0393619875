//! Finds the framing of messages that a process reads.
//!
//! A process that reads `Content-Length` framing alone takes lines for an unfinished header and stays
//! silent, like one that is slow to start. So that a slow one is not disturbed, each attempt has one
//! framing.

use airlock_mcp_client::Framing;

/// Silent attempts with lines before one with headers.
const SILENT_ATTEMPTS: u32 = 2;

/// The framing of the next attempt to connect.
#[derive(Debug)]
pub(super) struct FramingSearch {
    configured: Framing,
    /// Attempts in a row on which the process wrote nothing to stdout.
    silent: u32,
    /// True once headers have led to a connection.
    is_found: bool,
}

impl FramingSearch {
    pub(super) fn new(configured: Framing) -> Self {
        Self { configured, silent: 0, is_found: false }
    }

    /// Returns true if messages are framed with `Content-Length`.
    pub(super) fn has_headers(&self) -> bool {
        match self.configured {
            Framing::Lines => false,
            Framing::ContentLength => true,
            Framing::Auto => self.is_found || self.silent >= SILENT_ATTEMPTS,
        }
    }

    /// Records that an attempt led to a connection.
    pub(super) fn record_connected(&mut self) {
        self.is_found = self.has_headers();
        self.silent = 0;
    }

    /// Records that an attempt failed. One with headers is followed by attempts with lines.
    pub(super) fn record_failed(&mut self, was_silent: bool) {
        let had_headers = self.has_headers();
        self.is_found = false;
        self.silent = if was_silent && !had_headers { self.silent + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_follow_two_silent_attempts_and_stay_if_they_connect() {
        let mut search = FramingSearch::new(Framing::Auto);
        for _ in 0..2 {
            let mut tried = Vec::new();
            for was_silent in [true, true, true] {
                tried.push(search.has_headers());
                search.record_failed(was_silent);
            }
            assert_eq!(tried, [false, false, true]);
        }
        search.record_failed(true);
        search.record_failed(false);
        search.record_failed(true);
        assert!(!search.has_headers(), "it wrote something meanwhile");
        search.record_failed(true);
        search.record_connected();
        assert!(search.has_headers());
        search.record_failed(false);
        assert!(!search.has_headers(), "the process may be another one");
    }

    #[test]
    fn a_configured_framing_is_always_taken() {
        for (configured, has_headers) in [(Framing::Lines, false), (Framing::ContentLength, true)] {
            let mut search = FramingSearch::new(configured);
            for _ in 0..5 {
                assert_eq!(search.has_headers(), has_headers);
                search.record_failed(true);
            }
        }
    }
}
