//! A few connections to the database and their queues: one for each party.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync;
use tracing::{error, warn};

use crate::{
    connection::Connection,
    error::Unavailable,
    location::Location,
    metrics::LaneMetrics,
    sql::{FaultKind, SqlError, SqlResult},
};

/// Most operations that run or wait. One party has at most half of them. They have no bound in bytes of their own:
/// while a value of a guest waits, of up to 1 MiB, it is in the memory of the guest too, which is bounded for all
/// guests together, and the memory of a request is charged for its texts.
pub const MAX_PLACES: usize = 512;
/// Places that are reserved for the gateway's own operations. Ten tenants with as many operations as they may
/// have take all other places, and without pins and logins the gateway cannot use an MCP server.
pub const GATEWAY_PLACES: usize = 32;
/// Maximum number of connections of a lane that one party uses or waits for. If its operations wait for a lock
/// of the database, at least one connection to a server remains for other parties. All parties together leave one
/// connection to the gateway itself, which needs its pins and logins to use MCP servers.
pub const PARTY_CONNECTIONS: usize = 2;
/// Longest time that an operation waits for its turn. A full lane is served in time if
/// an operation takes ten milliseconds.
pub const MAX_WAIT: Duration = Duration::from_secs(5);

/// A party whose operations share a queue, so that it cannot delay others: the calls of one tenant, of one
/// plugin, or of the gateway itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Party(u64);

impl Party {
    /// The gateway itself.
    pub const GATEWAY: Self = Self(0);

    /// Returns the party with this identity. Two with the same hash share their places.
    pub fn new(identity: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Connections that are used only on blocking threads, each by one operation at a time. The parties
/// whose operations wait take turns; the operations of one party begin in order of arrival.
pub struct Lane {
    location: Location,
    free: Arc<FreeConnections>,
    places: Mutex<Places>,
    /// Connections that one party may take; those of the gateway are [`PARTY_CONNECTIONS`].
    of_party: usize,
    metrics: LaneMetrics,
}

/// Connections that no operation is using.
struct FreeConnections {
    /// One for each free connection. Of each party, at most one operation waits here, so that the
    /// order of arrival is that of turns.
    turns: Arc<sync::Semaphore>,
    /// One for each connection that parties other than the gateway may take together.
    others: Arc<sync::Semaphore>,
    connections: Mutex<Vec<Connection>>,
}

/// A connection in use. Dropping the value frees it, also during a panic.
struct TakenConnection {
    /// `None` only while it is dropped.
    connection: Option<Connection>,
    free: Arc<FreeConnections>,
    _permits: [Option<sync::OwnedSemaphorePermit>; 3],
}

#[derive(Default)]
struct Places {
    used: usize,
    queues: HashMap<Party, PartyQueue>,
}

/// The operations of one party.
struct PartyQueue {
    used: usize,
    turn: Arc<sync::Mutex<()>>,
    connections: Arc<sync::Semaphore>,
}

impl PartyQueue {
    fn new(connections: usize) -> Self {
        let connections = Arc::new(sync::Semaphore::new(connections));
        Self { used: 0, turn: Arc::default(), connections }
    }
}

/// The place of one operation.
struct QueuePlace<'l> {
    lane: &'l Lane,
    party: Party,
    turn: Arc<sync::Mutex<()>>,
    connections: Arc<sync::Semaphore>,
}

impl Lane {
    /// Creates a lane of these connections to a database.
    pub fn new(location: &Location, connections: Vec<Connection>, metrics: LaneMetrics) -> Self {
        // If there is only one, the gateway is next after the operation that has it.
        let of_others = connections.len().saturating_sub(1).max(1);
        // A party that could take all of them would leave none to the others. One that may wait for a second connection
        // keeps its turn, where there is only one.
        let of_party = if of_others == PARTY_CONNECTIONS { 1 } else { PARTY_CONNECTIONS };
        let free = FreeConnections {
            turns: Arc::new(sync::Semaphore::new(connections.len())),
            others: Arc::new(sync::Semaphore::new(of_others)),
            connections: Mutex::new(connections),
        };
        let places = Mutex::default();
        Self { location: location.clone(), free: Arc::new(free), places, of_party, metrics }
    }

    /// Runs an operation of a party. Fails as busy if the party has as many places as are free, or if
    /// its turn does not come in time. If the future is dropped while the operation waits, it never
    /// starts. If it is dropped later, the operation runs to its end and its result is discarded.
    pub async fn run<T, F>(&self, party: Party, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> SqlResult<T> + Send + 'static,
    {
        let observed = self.metrics.begin();
        let done = self.run_in_turn(party, job).await;
        observed.end(done.as_ref().err());
        done
    }

    async fn run_in_turn<T, F>(&self, party: Party, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> SqlResult<T> + Send + 'static,
    {
        let place = self.place(party).ok_or(Unavailable::Busy)?;
        let turn = tokio::time::timeout(MAX_WAIT, place.turn()).await;
        let mut taken = turn.ok().flatten().ok_or(Unavailable::Busy)?;
        // The connection moves into the thread, because the operation continues after its caller has
        // gone.
        let work = tokio::task::spawn_blocking(move || taken.run(job));
        match work.await {
            Ok(Some(done)) => done.map_err(|error| self.failed(error)),
            Ok(None) => {
                error!(store = %self.location, "the database was deleted or replaced; restart the gateway");
                Err(Unavailable::Gone)
            }
            Err(lost) => {
                error!(store = %self.location, error = %lost, "an operation on the database was interrupted");
                Err(Unavailable::Lost)
            }
        }
    }

    /// Takes a place for an operation; `None` if the party has as many places as are free. So a party
    /// that is alone gets half of all, a second one a quarter, and the gateway always some.
    fn place(&self, party: Party) -> Option<QueuePlace<'_>> {
        let mut places = self.places.lock();
        let kept = if party == Party::GATEWAY { 0 } else { GATEWAY_PLACES };
        let free = (MAX_PLACES - places.used).saturating_sub(kept);
        let own = places.queues.get(&party).map_or(0, |queue| queue.used);
        if own >= free {
            return None;
        }
        places.used += 1;
        let of_party = if party == Party::GATEWAY { PARTY_CONNECTIONS } else { self.of_party };
        let queue = places.queues.entry(party).or_insert_with(|| PartyQueue::new(of_party));
        queue.used += 1;
        let PartyQueue { turn, connections, .. } = queue;
        let connections = connections.clone();
        Some(QueuePlace { lane: self, party, turn: turn.clone(), connections })
    }

    /// Logs a failure for the operator, and returns the error that the caller may see.
    fn failed(&self, error: SqlError) -> Unavailable {
        let store = &self.location;
        match error.kind() {
            FaultKind::Locked => {
                warn!(%store, "another process has locked the database");
                Unavailable::Locked
            }
            FaultKind::DiskFull => {
                error!(%store, "the disk is full; the database cannot grow");
                Unavailable::DiskFull
            }
            FaultKind::Unreachable => {
                warn!(%store, %error, "the database server did not carry out an operation");
                Unavailable::Unreachable
            }
            FaultKind::Sealed(cause) => {
                error!(%store, error = %cause, "a secret of the database cannot be used");
                Unavailable::Sealed(cause)
            }
            FaultKind::Damaged | FaultKind::Other => {
                error!(%store, %error, "the database failed");
                Unavailable::Failed(error)
            }
        }
    }
}

impl QueuePlace<'_> {
    /// Waits for the turn of the operation: in its party, then among the parties.
    async fn turn(&self) -> Option<TakenConnection> {
        let _first_of_party = self.turn.lock().await;
        let of_party = self.connections.clone().acquire_owned().await.ok()?;
        let free = self.lane.free.clone();
        let of_others = match self.party {
            Party::GATEWAY => None,
            _ => Some(free.others.clone().acquire_owned().await.ok()?),
        };
        let of_lane = free.turns.clone().acquire_owned().await.ok()?;
        let connection = free.connections.lock().pop();
        let permits = [Some(of_party), of_others, Some(of_lane)];
        Some(TakenConnection { connection, free, _permits: permits })
    }
}

impl TakenConnection {
    /// Runs an operation; `None` if the database was deleted or replaced.
    fn run<T>(
        &mut self,
        job: impl FnOnce(&mut Connection) -> SqlResult<T>,
    ) -> Option<SqlResult<T>> {
        let connection = self.connection.as_mut().filter(|connection| !connection.is_gone())?;
        Some(job(connection))
    }
}

impl Drop for TakenConnection {
    fn drop(&mut self) {
        self.free.connections.lock().extend(self.connection.take());
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut places = self.lane.places.lock();
        places.used -= 1;
        let Some(queue) = places.queues.get_mut(&self.party) else { return };
        queue.used -= 1;
        if queue.used == 0 {
            places.queues.remove(&self.party);
        }
    }
}
