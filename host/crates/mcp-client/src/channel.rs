//! A stream of bytes to a server, and the process or container behind it.
//!
//! This is all that the layers above know of a server on this machine. How its messages are framed
//! is not known here.

use std::{process::ExitStatus, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use super::stderr::StderrTail;

/// The reading half of a channel.
pub(super) type Read = Box<dyn AsyncRead + Send + Unpin>;
/// The writing half of a channel. Dropping it closes the server's stdin.
pub(super) type Write = Box<dyn AsyncWrite + Send + Unpin>;

/// A duplex of bytes to a server, and the process or container behind it.
pub(super) struct Channel {
    /// The server's stdout.
    pub(super) read: Read,
    /// The server's stdin.
    pub(super) write: Write,
    /// The owner of the process.
    pub(super) owner: Box<dyn Owner>,
}

/// The owner of a server's process. Dropping it kills the server, without waiting for it.
pub(super) trait Owner: Send {
    /// Stops the server, whose stdin is closed already: waits for it to exit, then sends SIGTERM,
    /// then kills it with all that it has started.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ProcessExit>;

    /// Returns the end of the server's stderr, which grows while the server runs.
    fn stderr(&self) -> Arc<StderrTail>;

    /// Returns the number of the process; `None` if it is no process of this machine.
    fn process_id(&self) -> Option<u32> {
        None
    }
}

/// Exit of a server's process.
#[derive(Debug)]
pub struct ProcessExit {
    /// Its exit status, if known.
    pub(super) status: Option<ExitStatus>,
    /// True if it exited before the gateway sent a signal.
    pub(super) before_signal: bool,
    /// The last lines of its stderr, redacted and without control characters.
    pub(super) stderr: Vec<String>,
}
