//! Signals by which an operator controls a command.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, caught from the moment of construction.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to catch the signals.
    pub fn catch() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("signals cannot be caught")?,
            terminate: signal(SignalKind::terminate()).context("signals cannot be caught")?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// SIGHUP, caught from the moment of construction. It asks the gateway to check the plugin files
/// again.
pub struct Hangups(Signal);

impl Hangups {
    /// Begins to catch the signal.
    pub fn catch() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::hangup()).context("signals cannot be caught")?))
    }

    /// Waits for the next SIGHUP. Several that arrive while no task waits count as one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}
