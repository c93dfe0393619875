//! Replaces the process of a connected server while its calls go on.
//!
//! ```text
//! old   serves ───────────── due ───────────────┬─ its calls end, at most RETIREMENT ─┬─ stopped
//! new                         starts ─ lists ───┴─ serves ────────────────────────────┴──────────►
//!                                  └─ failed: the old one serves on, and a later attempt follows
//! ```
//!
//! At most one process of a server runs beside those that serve: a process is not replaced while one that was
//! replaced before still has calls, also if the server was reconnected meanwhile. A call that waits for an
//! answer of its caller counts: the process lives until the answer has come, or the time for it has passed.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, interval, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{entry::ClientEntry, serve::ServedConnection};
use crate::{limits::RETIREMENT, server::Instance};
use airlock_core::tool::ClientName;
use airlock_mcp_client::{
    Attempt, Backoff, Connection, ConnectionError, Credentials, Renewal, Settings, ToolList,
    resident_memory,
};

/// A connection that takes the place of another one of its server.
pub(super) struct Replacement {
    pub(super) connection: Connection,
    pub(super) list: ToolList,
    /// Held by the connection that is replaced, until it is closed.
    pub(super) place: OwnedSemaphorePermit,
}

/// Replaces the processes of one server, one after the other.
pub(super) struct Renewals {
    settings: Settings,
    credentials: Arc<Credentials>,
    instance: Arc<Instance>,
    entry: Arc<ClientEntry>,
    attempt: Attempt,
    /// Delays before attempts: after failures, and after a process that was soon replaced.
    pace: Backoff,
    /// The place of a connection that is replaced and still has calls.
    place: Arc<Semaphore>,
    /// Failure of the last attempt, which was logged; `None` if it had none.
    logged: Option<String>,
}

impl Renewals {
    pub(super) fn new(
        settings: &Settings,
        credentials: &Arc<Credentials>,
        instance: &Arc<Instance>,
        entry: &Arc<ClientEntry>,
        attempt: Attempt,
        place: Arc<Semaphore>,
    ) -> Self {
        Self {
            settings: settings.clone(),
            credentials: credentials.clone(),
            instance: instance.clone(),
            entry: entry.clone(),
            attempt,
            pace: Backoff::new(settings.restart, 0),
            place,
            logged: None,
        }
    }

    /// Waits until `process` is to be replaced, and until another one is ready in its place. Never returns
    /// if there is no process, or no bound on it. If the future is dropped, the new process is killed.
    pub(super) async fn replacement(&mut self, process: Option<u32>) -> Box<Replacement> {
        let Some(process) = process else { return std::future::pending().await };
        let began = Instant::now();
        let reason = due(process, &self.settings.renewal).await;
        let client = &self.settings.name;
        let status = self.instance.status();
        let mut delay = self.pace.after(began.elapsed());
        loop {
            sleep(delay).await;
            match self.open().await {
                Ok(replacement) => {
                    info!(%client, reason, "process of an upstream server is replaced");
                    status.record_replacement(&reason, None);
                    self.logged = None;
                    return Box::new(replacement);
                }
                Err(failure) => {
                    if self.logged.as_ref() == Some(&failure) {
                        debug!(%client, reason, failure, "process of an upstream server is still not replaced");
                    } else {
                        warn!(
                            %client,
                            reason,
                            failure,
                            "process of an upstream server is not replaced; the old one goes on"
                        );
                    }
                    status.record_replacement(&reason, Some(&failure));
                    self.logged = Some(failure);
                    delay = self.pace.after(Duration::ZERO);
                }
            }
        }
    }

    /// Starts another process, and reads its lists. Returns the reason if it cannot take the place of the
    /// present one.
    async fn open(&self) -> Result<Replacement, String> {
        let place = self.place.clone().acquire_owned().await;
        // The semaphore is never closed.
        let place = place.map_err(|error| error.to_string())?;
        let Self { settings, credentials, instance, attempt, .. } = self;
        let opening = Connection::open(settings, credentials, instance.logs(), *attempt);
        let connection = match Box::pin(opening).await {
            Ok(connection) => connection,
            Err(failure) => return Err(failure.reason(settings, &credentials.scrubber())),
        };
        let listed = timeout_at(connection.deadline, connection.list()).await;
        let listed = listed
            .unwrap_or_else(|_| Err(ConnectionError::StartupTimeout(settings.timeouts.startup)));
        match listed {
            Ok(list) => {
                let tools = self.published();
                let is_short = list.is_cut || list.tools.is_empty();
                if is_short && list.tools.len() < tools {
                    let listed = list.tools.len();
                    connection.shut_down().await;
                    return Err(format!("it listed {listed} tools, of {tools} before"));
                }
                Ok(Replacement { connection, list, place })
            }
            Err(error) => {
                let failure = connection.close(error).await;
                Err(failure.reason(settings, &credentials.scrubber()))
            }
        }
    }

    /// Returns the number of tools of the server in the catalog.
    fn published(&self) -> usize {
        let snapshot = self.entry.writer().snapshot();
        let mut clients = snapshot.clients();
        let own = clients.find(|client| client.name == self.settings.name);
        own.map_or(0, |client| client.tools.len())
    }
}

/// Waits until a process is to be replaced. Returns the reason.
async fn due(process: u32, renewal: &Renewal) -> String {
    let aged = async {
        match renewal.max_age {
            Some(age) => {
                sleep(age).await;
                age
            }
            None => std::future::pending().await,
        }
    };
    let grown = async {
        match renewal.max_memory_bytes {
            Some(limit) => (grown_beyond(process, limit, renewal.memory_check).await, limit),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        age = aged => format!("it ran for its `max_age` of {age:?}"),
        (bytes, limit) = grown => format!(
            "it uses {} MiB, and its `max_memory` is {} MiB", bytes.div_ceil(1 << 20), limit >> 20
        ),
    }
}

/// Waits until a process uses more memory than `limit`. Returns its memory.
async fn grown_beyond(process: u32, limit: u64, check: Duration) -> u64 {
    let mut ticks = interval(check);
    loop {
        ticks.tick().await;
        if let Some(bytes) = resident_memory(process).await.filter(|bytes| *bytes > limit) {
            return bytes;
        }
    }
}

/// Closes a replaced connection once its calls have ended, after [`RETIREMENT`], or at `stop`.
pub(super) async fn retire(
    client: ClientName,
    old: ServedConnection,
    place: OwnedSemaphorePermit,
    stop: CancellationToken,
) {
    let ServedConnection { mut connection, upkeep, .. } = old;
    let users = connection.link.users().clone();
    users.close();
    tokio::select! {
        () = users.wait() => {}
        // Its remaining calls fail.
        _ = upkeep => {}
        _ = &mut connection.receiver => {}
        () = stop.cancelled() => {}
        () = sleep(RETIREMENT) => warn!(
            %client,
            "a replaced process of an upstream server is stopped, although calls still run on it"
        ),
    }
    connection.shut_down().await;
    drop(place);
}
