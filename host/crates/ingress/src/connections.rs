//! Open connections: their maximum number per peer and in total, the share of one tenant, and the
//! eviction of old connections for new ones.
//!
//! A place is free at once or not at all: nothing here waits. If every place is in use, a new
//! connection gets one of a few reserved places, which serve only the state of the gateway. A tenant
//! is known once a request of it has come; then it may have requests running on three quarters of the
//! places, in all and of one peer.

mod claim;

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::{debug, warn};

use self::claim::{Claim, TenantCounts};
use super::{
    activity::{Activity, ParkedRequest, Parking},
    peer::Peer,
};
use airlock_core::tenant::Tenant;

/// If there is no room, one in this many of all connections is evicted at a time. A client that
/// holds many connections and reopens them would otherwise cause an eviction for each of them.
const EVICTED_PART: usize = 16;
/// One in this many of a maximum may be evicted but not closed yet. Evicted connections hold
/// their room until they are closed, so without this limit a peer that opens connections faster
/// than its evicted ones end would take all room.
const CLOSING_PART: usize = 4;
/// Places beyond the maximum, for connections that only ask for the state of the gateway. One peer
/// gets half of them.
const RESERVED: usize = 8;
/// Reserved places that may be evicted but not closed yet, for each one that is open.
const RESERVED_CLOSING: usize = 3;

/// Maximum number of connections through the Unix socket. The command line opens one at a time, and
/// a script may run several of them; more are most likely leaked, and idle ones are evicted for new
/// ones. Requests of one tenant run on three quarters of them, as elsewhere.
pub const SOCKET_CONNECTIONS: usize = 16;

/// Minimum time between two log lines about refused connections. A peer without a credential can
/// cause any number of refusals.
const REFUSAL_LOG_PAUSE: Duration = Duration::from_secs(1);

/// The open connections, and the limits on them.
pub struct Connections {
    max: AtomicUsize,
    max_per_peer: AtomicUsize,
    table: Mutex<ConnectionTable>,
    next: AtomicU64,
}

#[derive(Default)]
struct ConnectionTable {
    /// Connections that hold room, by number: open ones, and evicted ones that are not closed yet.
    places: HashMap<u64, ConnectionPlace>,
    counts: TenantCounts,
    /// Connections that were refused since the last log line about them.
    refused: u64,
    /// Time of that line.
    refusal_logged: Option<Instant>,
}

struct ConnectionPlace {
    peer: Peer,
    activity: Arc<Activity>,
    is_reserved: bool,
    is_evicted: bool,
    /// The tenant of the first of the requests that run, or of the last one that ran.
    claim: Option<Claim>,
}

impl ConnectionPlace {
    fn is_usual(&self) -> bool {
        !self.is_reserved
    }

    fn is_usual_at(&self, peer: Peer) -> bool {
        self.is_usual() && self.peer == peer
    }

    fn is_of(&self, tenant: &Tenant, peer: Peer) -> bool {
        self.running().is_some_and(|claim| claim.is_of(tenant)) && self.peer == peer
    }

    /// Returns the claim of the requests that run.
    fn running(&self) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.is_running())
    }
}

/// Number of connections of one kind.
#[derive(Default)]
struct ConnectionCount {
    open: usize,
    held: usize,
}

impl Connections {
    /// Creates an empty table with these limits.
    pub fn new(max: usize, max_per_peer: usize) -> Arc<Self> {
        let table = Mutex::default();
        let next = AtomicU64::new(0);
        Arc::new(Self { max: max.into(), max_per_peer: max_per_peer.into(), table, next })
    }

    /// Changes the limits. Connections beyond lower ones are evicted if they may be interrupted. The others
    /// stay open, and are evicted for new ones as soon as they may be.
    pub(super) fn set_limits(&self, max: usize, max_per_peer: usize) {
        let max_before = self.max.swap(max, Ordering::Relaxed);
        let share_before = self.max_per_peer.swap(max_per_peer, Ordering::Relaxed);
        if max < max_before || max_per_peer < share_before {
            self.table().evict_beyond(max, max_per_peer);
        }
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    fn max_per_peer(&self) -> usize {
        self.max_per_peer.load(Ordering::Relaxed)
    }

    /// Gives a new connection of `peer` a place. If the peer is at its maximum, or if all places are
    /// taken, connections of the lowest rank are evicted. If that makes no room, because each has a
    /// request running or is not closed yet, the connection gets a reserved place; `None` if all of
    /// these are taken too.
    pub fn admit(self: &Arc<Self>, peer: Peer) -> Option<ConnectionSlot> {
        let mut table = self.table();
        let is_reserved = !(self.has_share(&mut table, peer) && self.has_room(&mut table));
        if is_reserved && !has_reserve(&mut table, peer) {
            if let Some(refused) = table.count_refusal(Instant::now()) {
                warn!(last_peer = %peer, refused, "connections refused, of all addresses: all places of their address, or of the gateway, and the reserved ones are taken");
            }
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let activity = Activity::new();
        let place = ConnectionPlace {
            peer,
            activity: activity.clone(),
            is_reserved,
            is_evicted: false,
            claim: None,
        };
        table.places.insert(number, place);
        let connections = self.clone();
        let connection =
            SeatedConnection { connections, activity: activity.clone(), number, peer, is_reserved };
        Some(ConnectionSlot { activity, seats: Seats(Arc::new(connection)) })
    }

    /// Returns whether `peer` may have one more connection. May evict another connection of the
    /// peer.
    fn has_share(&self, table: &mut ConnectionTable, peer: Peer) -> bool {
        // A lower limit may have left more.
        let ConnectionCount { open, held } =
            table.evict_excess(self.max_per_peer(), |place| place.is_usual_at(peer));
        held < with_closing(self.max_per_peer())
            && (open < self.max_per_peer() || table.evict(1, |place| place.is_usual_at(peer)) > 0)
    }

    fn has_room(&self, table: &mut ConnectionTable) -> bool {
        let max = self.max();
        let ConnectionCount { open, held } = table.evict_excess(max, ConnectionPlace::is_usual);
        if held >= with_closing(max) {
            return false;
        }
        open < max || {
            let evicted = table.evict((max / EVICTED_PART).max(1), ConnectionPlace::is_usual);
            debug!(limit = max, evicted, "the limit of connections is reached");
            evicted > 0
        }
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock()
    }
}

/// Returns whether a reserved place is free for `peer`. May evict another connection from one.
fn has_reserve(table: &mut ConnectionTable, peer: Peer) -> bool {
    has_part(table, RESERVED / 2, |place| place.is_reserved && place.peer == peer)
        && has_part(table, RESERVED, |place| place.is_reserved)
}

fn has_part(
    table: &mut ConnectionTable,
    max: usize,
    of: impl Fn(&ConnectionPlace) -> bool,
) -> bool {
    let ConnectionCount { open, held } = table.count(&of);
    held < max * (1 + RESERVED_CLOSING) && (open < max || table.evict(1, of) > 0)
}

/// Returns a maximum with the connections that may be evicted but not closed yet.
fn with_closing(max: usize) -> usize {
    max.saturating_add((max / CLOSING_PART).max(1))
}

impl ConnectionTable {
    fn count(&self, of: impl Fn(&ConnectionPlace) -> bool) -> ConnectionCount {
        self.places.values().filter(|place| of(place)).fold(
            ConnectionCount::default(),
            |count, place| ConnectionCount {
                open: count.open + usize::from(!place.is_evicted),
                held: count.held + 1,
            },
        )
    }

    /// Counts a refused connection. Returns the number of those since the last log line if the next
    /// line is due.
    fn count_refusal(&mut self, now: Instant) -> Option<u64> {
        self.refused += 1;
        if self.refusal_logged.is_some_and(|logged| now < logged + REFUSAL_LOG_PAUSE) {
            return None;
        }
        self.refusal_logged = Some(now);
        Some(std::mem::take(&mut self.refused))
    }

    /// Evicts the connections beyond these limits, as far as they may be interrupted.
    fn evict_beyond(&mut self, max: usize, max_per_peer: usize) {
        // In one pass: there may be as many peers as connections, and everything waits for the table.
        let mut open: HashMap<Peer, usize> = HashMap::new();
        for place in self.places.values().filter(|place| !place.is_reserved && !place.is_evicted) {
            *open.entry(place.peer).or_default() += 1;
        }
        for number in self.ranked(|place| !place.is_reserved) {
            let peer = self.places.get(&number).map(|place| place.peer);
            if let Some(open) = peer.and_then(|peer| open.get_mut(&peer))
                && *open > max_per_peer
                && self.evict_one(number)
            {
                *open -= 1;
            }
        }
        self.evict_excess(max, |place| !place.is_reserved);
    }

    /// Evicts the connections beyond `max`, as far as they may be interrupted. Returns the number of the rest.
    fn evict_excess(
        &mut self,
        max: usize,
        of: impl Fn(&ConnectionPlace) -> bool,
    ) -> ConnectionCount {
        let ConnectionCount { open, held } = self.count(&of);
        let evicted = if open > max { self.evict(open - max, of) } else { 0 };
        ConnectionCount { open: open - evicted, held }
    }

    /// Evicts up to `most` connections that may be interrupted and returns their number. Order: by
    /// their [`EvictionRank`](super::activity::EvictionRank), except that of those whose bodies arrive or whose
    /// streams wait the connections of the tenant that has most come first. Evicted connections no
    /// longer count as open, but hold their room until they end.
    fn evict(&mut self, most: usize, of: impl Fn(&ConnectionPlace) -> bool) -> usize {
        let mut evicted = 0;
        for number in self.ranked(of) {
            if evicted == most {
                break;
            }
            evicted += usize::from(self.evict_one(number));
        }
        evicted
    }

    /// Returns the numbers of the connections that may be interrupted, in the order of [`Self::evict`].
    fn ranked(&self, of: impl Fn(&ConnectionPlace) -> bool) -> Vec<u64> {
        let ranked = self.places.iter().filter(|(_, place)| !place.is_evicted && of(place));
        let mut ranked: Vec<_> = ranked
            .filter_map(|(number, place)| {
                let rank = place.activity.rank()?;
                let held = place.running().map_or(0, Claim::connections);
                Some(((rank.class(), Reverse(held), rank), *number))
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, number)| number).collect()
    }

    /// Evicts a connection. Returns false if it may not be interrupted: a request may have begun since the
    /// ranking.
    fn evict_one(&mut self, number: u64) -> bool {
        let Some(place) = self.places.get_mut(&number) else { return false };
        let is_evicted = place.activity.evict();
        if is_evicted {
            place.is_evicted = true;
            if let Some(claim) = &mut place.claim {
                claim.end();
            }
        }
        is_evicted
    }

    /// Counts a request of a tenant. False if the tenant has its share of the connections.
    fn claim(&mut self, limits: &Connections, number: u64, tenant: &Tenant) -> bool {
        let Self { places, counts, .. } = self;
        let Some(ConnectionPlace { peer, claim, .. }) = places.get_mut(&number) else {
            return true;
        };
        if !claim.as_ref().is_some_and(|claim| claim.is_running() || claim.is_of(tenant)) {
            let last = claim.replace(counts.claim(*peer, tenant));
            if let Some(last) = last {
                counts.remove(*peer, last);
            }
        }
        let claim = claim.as_mut();
        claim.is_some_and(|claim| claim.begin(limits.max(), limits.max_per_peer()))
    }

    /// Removes one request from the count.
    fn release(&mut self, number: u64) {
        let place = self.places.get_mut(&number);
        if let Some(claim) = place.and_then(|place| place.claim.as_mut()) {
            claim.release();
        }
    }

    /// Removes a connection.
    fn remove(&mut self, number: u64) {
        let place = self.places.remove(&number);
        if let Some(ConnectionPlace { peer, claim: Some(claim), .. }) = place {
            self.counts.remove(peer, claim);
        }
    }
}

/// Slot for one connection. Released on drop.
pub struct ConnectionSlot {
    /// Current activity of the connection.
    pub activity: Arc<Activity>,
    seats: Seats,
}

/// Makes seats for the requests of one connection.
#[derive(Clone)]
pub struct Seats(Arc<SeatedConnection>);

struct SeatedConnection {
    connections: Arc<Connections>,
    activity: Arc<Activity>,
    number: u64,
    peer: Peer,
    is_reserved: bool,
}

impl ConnectionSlot {
    /// Returns whether the connection may only ask for the state of the gateway.
    pub fn is_reserved(&self) -> bool {
        self.seats.0.is_reserved
    }

    /// Returns the maker of seats.
    pub fn seats(&self) -> Seats {
        self.seats.clone()
    }
}

impl Seats {
    /// Returns the seat of a new request.
    pub fn seat(&self) -> Seat {
        Seat(Arc::new(SeatState { connection: self.0.clone(), is_claimed: OnceLock::new() }))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let SeatedConnection { connections, number, .. } = &*self.seats.0;
        connections.table().remove(*number);
    }
}

/// A tenant has requests running on three quarters of the places of its address, or of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "requests of this caller run on three quarters of the connections of its address, or of the gateway"
)]
pub struct ShareInUse;

/// A request on its connection. It travels with the body of the request. Clones are the same request.
#[derive(Clone)]
pub struct Seat(Arc<SeatState>);

struct SeatState {
    connection: Arc<SeatedConnection>,
    is_claimed: OnceLock<()>,
}

impl Seat {
    /// Returns whether only the state of the gateway may be asked for.
    pub fn is_reserved(&self) -> bool {
        self.0.connection.is_reserved
    }

    /// Counts the request for its tenant, until the last clone is dropped. Fails if requests of the
    /// tenant run on three quarters of the places of its address, or of the gateway. A request that
    /// does not wait for notifications itself then evicts one of the tenant whose body arrives or that
    /// waits.
    pub fn claim(&self, tenant: &Tenant, waits: bool) -> Result<(), ShareInUse> {
        let SeatedConnection { connections, number, peer, .. } = &*self.0.connection;
        let mut table = connections.table();
        let claimed = table.claim(connections, *number, tenant)
            || (!waits
                && table.evict(1, |place| place.is_of(tenant, *peer)) > 0
                && table.claim(connections, *number, tenant));
        if !claimed {
            return Err(ShareInUse);
        }
        drop(table);
        let _ = self.0.is_claimed.set(());
        Ok(())
    }

    /// Notes that the connection may be evicted, until the result is dropped.
    pub fn park(&self, parking: Parking) -> ParkedRequest {
        self.0.connection.activity.park(parking)
    }
}

impl Drop for SeatState {
    fn drop(&mut self) {
        if self.is_claimed.get().is_some() {
            let SeatedConnection { connections, number, .. } = &*self.connection;
            connections.table().release(*number);
        }
    }
}

#[cfg(test)]
mod tests;
