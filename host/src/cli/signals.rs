//! Signals by which an operator controls a command.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, caught from the moment of construction.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn catch() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("signals cannot be caught")?,
            terminate: signal(SignalKind::terminate()).context("signals cannot be caught")?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// SIGHUP, caught from the moment of construction. It asks the gateway to check the plugin files
/// again.
pub(super) struct Hangups(Signal);

impl Hangups {
    pub(super) fn catch() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::hangup()).context("signals cannot be caught")?))
    }

    /// Waits for the next SIGHUP. Several that arrive while no task waits count as one.
    pub(super) async fn next(&mut self) {
        self.0.recv().await;
    }
}
