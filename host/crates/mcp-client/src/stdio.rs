//! Transport over a duplex of bytes, such as the pipes of a child process: one JSON-RPC message per
//! line, or with a header `Content-Length`. Messages of the server are read in either framing.

mod frames;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{Mutex, mpsc, oneshot},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::frames::Frames;
use super::{
    channel::Channel,
    connector::{Opened, Opening},
    inbox::Inbox,
    limits::{MAX_ABANDONED, MAX_REQUESTS_IN_FLIGHT, MAX_UNANSWERED},
    transport::{Outgoing, OutgoingKind, ReceiveError, SendError, Transport},
};
use airlock_core::tool::Cause;
use airlock_wire::{frames::Frame, version::Version};

/// Makes a transport of the streams of a process. Must be called within a tokio runtime.
pub(super) fn over(channel: Channel, opening: Opening<'_>) -> Opened {
    let Channel { read, write, owner } = channel;
    let stdio = Stdio::new(read, write, opening.inbox, opening.has_headers);
    Opened { transport: Arc::new(stdio), process: Some(owner) }
}

/// Reads and writes messages. A server that reads nothing fills the two queues; further messages
/// fail. Notifications and responses have a queue of their own: abandoned calls can fill the one for
/// requests, and their cancellations must still be sent.
pub struct Stdio<R> {
    /// Taken by the one receiver.
    frames: Mutex<Frames<R>>,
    requests: mpsc::Sender<QueuedLine>,
    control: mpsc::Sender<QueuedLine>,
    closed: CancellationToken,
    writer: Mutex<Option<AbortOnDropHandle<()>>>,
    inbox: Arc<Inbox>,
}

/// A message that waits to be written.
struct QueuedLine {
    text: String,
    written: oneshot::Sender<std::io::Result<()>>,
    /// True if the message is left out when its sender no longer waits.
    is_request: bool,
}

impl<R: AsyncRead + Send + Unpin + 'static> Stdio<R> {
    /// Creates the transport. Messages are written with a header if it `has_headers`. Must be called inside a runtime, on which the messages are written.
    pub fn new(
        read: R,
        write: impl AsyncWrite + Send + Unpin + 'static,
        inbox: Arc<Inbox>,
        has_headers: bool,
    ) -> Self {
        let (requests, queue) = mpsc::channel(MAX_REQUESTS_IN_FLIGHT);
        let (control, control_queue) = mpsc::channel(MAX_ABANDONED + MAX_UNANSWERED);
        let closed = CancellationToken::new();
        let writing = write_all(write, has_headers, queue, control_queue, closed.clone());
        Self {
            frames: Mutex::new(Frames::new(read, inbox.clone())),
            requests,
            control,
            closed,
            writer: Mutex::new(Some(AbortOnDropHandle::new(tokio::spawn(writing)))),
            inbox,
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport for Stdio<R> {
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let is_request = matches!(message.kind, OutgoingKind::Request(_));
        let queue = if is_request { &self.requests } else { &self.control };
        let (written, done) = oneshot::channel();
        let queued = queue.try_send(QueuedLine { text: message.text, written, is_request });
        Box::pin(async move {
            match queued {
                Err(mpsc::error::TrySendError::Full(_)) => return Err(SendError::Full),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(SendError::Closed),
                Ok(()) => {}
            }
            match done.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(SendError::Failed(Cause::from(error))),
                Err(_) => Err(SendError::Closed),
            }
        })
    }

    fn receive(&self) -> BoxFuture<'_, ReceiveError> {
        Box::pin(async {
            let mut frames = self.frames.lock().await;
            loop {
                match frames.next().await {
                    Ok(Some(Frame::Message)) => {
                        self.inbox.receive(frames.text());
                        frames.clear();
                    }
                    Ok(Some(Frame::TooLong { bytes, answered, .. })) => {
                        self.inbox.touch();
                        self.inbox.charge(bytes);
                        if let Some(id) = answered {
                            self.inbox.refuse_too_long(id);
                        }
                    }
                    Ok(None) => return ReceiveError::Closed,
                    Err(flood) => return ReceiveError::Flood(flood),
                }
            }
        })
    }

    fn negotiated(&self, _: Version) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closed.cancel();
            // The writer ends at once, and closes the pipe by dropping it.
            if let Some(writer) = self.writer.lock().await.take() {
                let _ = writer.await;
            }
        })
    }
}

fn framed(text: &str, has_headers: bool) -> Vec<u8> {
    if has_headers {
        format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    } else {
        [text.as_bytes(), b"\n"].concat()
    }
}

/// Writes messages until the connection is closed or the pipe breaks.
async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    has_headers: bool,
    mut requests: mpsc::Receiver<QueuedLine>,
    mut control: mpsc::Receiver<QueuedLine>,
    closed: CancellationToken,
) {
    let writing = async {
        loop {
            let line = tokio::select! {
                biased;
                Some(line) = control.recv() => line,
                Some(line) = requests.recv() => line,
                else => return,
            };
            if line.is_request && line.written.is_closed() {
                continue;
            }
            let text = framed(&line.text, has_headers);
            let outcome = async {
                write.write_all(&text).await?;
                write.flush().await
            };
            let outcome = outcome.await;
            let has_failed = outcome.is_err();
            // The sender may no longer wait.
            let _ = line.written.send(outcome);
            if has_failed {
                return;
            }
        }
    };
    // A server that does not read would hold the message, and with it the pipe, for as long as the
    // server lives.
    tokio::select! {
        () = closed.cancelled() => {}
        () = writing => {}
    }
}

#[cfg(test)]
mod tests;
