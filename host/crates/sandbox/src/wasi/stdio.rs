//! A plugin's standard output and error: to the operator's log, the first of it, and never to the
//! gateway's own streams.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use airlock_core::{secret::Scrubber, tool::ClientName};
use bytes::Bytes;
use tokio::io::AsyncWrite;
use tracing::debug;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

/// What one call may write before the rest is dropped.
const MAX_BYTES: usize = 64 << 10;
/// What a guest may write at once. It also sizes what `write-zeroes` makes the host allocate.
const PERMIT: usize = 64 << 10;

/// One stream of one call.
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

    /// Keeps what there is room for. A guest is never told that the rest is gone: its `println!`
    /// would panic.
    fn take(&self, bytes: &[u8]) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(bytes.len()), Ordering::Relaxed);
        // Cut when no secret is left in it: half of one is not found any more.
        let text = self.scrubber.cut(&String::from_utf8_lossy(bytes), left);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: String =
                line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            debug!(plugin = %self.plugin, line, "plugin output");
        }
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for this one, and it is not linked.
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
