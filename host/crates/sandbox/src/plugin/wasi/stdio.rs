//! Standard output and error of a plugin. The first bytes go to the operator's log, never to the
//! gateway's own streams.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use airlock_core::{secret::Scrubber, tool::ClientName};
use airlock_strings::one_line;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use tracing::debug;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

/// Bytes that one stream of one call may write; the rest is dropped. They go to the log one line at
/// a time, at the level debug: a thousand lines of ordinary length, and a guest writes in a loop.
const MAX_BYTES: usize = 64 << 10;
/// Bytes that a guest may write at once. Also bounds the allocation that `write-zeroes` causes on
/// the host.
const PERMIT: usize = 64 << 10;

/// One output stream of one call.
#[derive(Clone)]
pub(super) struct Output {
    plugin: ClientName,
    scrubber: Arc<Scrubber>,
    left: Arc<AtomicUsize>,
}

impl Output {
    pub(super) fn new(plugin: &ClientName, scrubber: &Arc<Scrubber>) -> Self {
        Self {
            plugin: plugin.clone(),
            scrubber: scrubber.clone(),
            left: Arc::new(AtomicUsize::new(MAX_BYTES)),
        }
    }

    /// Returns another stream of the same call, which may write as much.
    pub(super) fn beside(&self) -> Self {
        Self::new(&self.plugin, &self.scrubber)
    }

    /// Logs as much as there is room for. The guest gets no error for the rest: its `println!`
    /// would panic.
    fn take(&self, bytes: &[u8]) {
        let Some(text) = self.logged(bytes) else { return };
        for line in text.lines().map(one_line).filter(|line| !line.is_empty()) {
            debug!(plugin = %self.plugin, line, "plugin output");
        }
    }

    /// Returns the part of a text that is logged, without secrets; `None` if there is no room.
    fn logged(&self, bytes: &[u8]) -> Option<String> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(bytes.len()), Ordering::Relaxed);
        // Redacted before the cut, because half a secret would no longer be found. Without room, the mark of the cut is left out
        // too: each write would have one.
        (left > 0).then(|| self.scrubber.cut(&String::from_utf8_lossy(bytes), left))
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 calls this, and WASI 0.3 is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_the_limit_leaves_no_line_in_the_log() {
        let plugin = ClientName::parse("p").expect("a valid name");
        let output = Output::new(&plugin, &Arc::default());
        let most = "x".repeat(MAX_BYTES - 4);
        assert_eq!(output.logged(most.as_bytes()).as_deref(), Some(most.as_str()));
        assert_eq!(output.logged(b"12345").as_deref(), Some("1…"));
        assert_eq!(output.logged(b"more"), None);
        assert_eq!(output.beside().logged(b"more").as_deref(), Some("more"));
    }
}
