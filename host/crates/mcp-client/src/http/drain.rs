//! Reads what follows a response, so that its connection can be used for the next request. A body
//! that is dropped before its end closes its connection.

use std::{sync::Arc, time::Duration};

use reqwest::Response;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::{inbox::Inbox, limits::MAX_REQUESTS_IN_FLIGHT},
    body,
    events::Events,
};
use airlock_wire::sse::Item;

/// Time limit for the rest of a body. Nearly always it is already there.
const TIME: Duration = Duration::from_secs(1);
/// Maximum rest of a body that is not a stream, in bytes. To read more takes longer than to
/// connect once more: the certificates of a server over TLS alone have as many.
const MAX_BYTES: usize = 4 << 10;

/// Rests of bodies that are being read, at most [`MAX_REQUESTS_IN_FLIGHT`].
pub(crate) struct Drains {
    inbox: Arc<Inbox>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl Drains {
    /// Creates the drains of one connection. They end when it is `closed`.
    pub(crate) fn new(inbox: Arc<Inbox>, closed: CancellationToken) -> Self {
        Self { inbox, tasks: TaskTracker::new(), closed }
    }

    /// Reads the rest of a stream. Messages in it are received as usual.
    pub(crate) fn events(&self, mut events: Events) {
        let inbox = self.inbox.clone();
        self.run(async move {
            // What follows is charged to the server as any other part of a stream.
            loop {
                match events.next().await {
                    Ok(Some(Item::Event(event))) => {
                        if let Some(text) = event.message() {
                            inbox.receive(text);
                        }
                    }
                    Ok(Some(Item::TooLong { .. })) => {}
                    Ok(None) | Err(_) => return,
                }
            }
        });
    }

    /// Reads a body that has no use.
    pub(crate) fn body(&self, response: Response) {
        if response.content_length() == Some(0) {
            return;
        }
        let inbox = self.inbox.clone();
        self.run(async move { drop(body::read(response, MAX_BYTES, &inbox).await) });
    }

    fn run(&self, reading: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() < MAX_REQUESTS_IN_FLIGHT {
            let closed = self.closed.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = closed.cancelled() => {}
                    // The connection is closed after that.
                    _ = timeout(TIME, reading) => {}
                }
            });
        }
    }
}
