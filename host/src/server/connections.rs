//! Open connections: their maximum number per peer and in total, and the eviction of old ones for
//! new ones.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tracing::{debug, warn};

use super::{activity::Activity, peer::Peer};

/// Time to wait for room before the next attempt to evict.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// If there is no room, one in this many of all connections is evicted at a time. A client that
/// holds many connections and reopens them would otherwise make other clients wait for each single
/// eviction.
const EVICTED_PART: usize = 16;
/// One in this many of a peer's maximum may be evicted but not closed yet. Evicted connections hold
/// their room until they are closed, so without this limit a peer that opens connections faster
/// than its evicted ones end would take all room.
const CLOSING_PART: usize = 4;

/// The open connections, and the limits on them.
pub(super) struct Connections {
    max: usize,
    max_per_peer: usize,
    /// Maximum number of connections of one peer, including those that are evicted but not closed
    /// yet.
    max_held_per_peer: usize,
    slots: Arc<Semaphore>,
    table: Mutex<Table>,
    next: AtomicU64,
}

#[derive(Default)]
struct Table {
    /// Connections that are not evicted, by number.
    open: HashMap<u64, Open>,
    /// Number of connections of each peer that hold room: open ones, and evicted ones that are not
    /// closed yet.
    held: HashMap<Peer, usize>,
}

struct Open {
    peer: Peer,
    activity: Arc<Activity>,
}

impl Connections {
    pub(super) fn new(max: usize, max_per_peer: usize) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(max));
        let max_held_per_peer = max_per_peer.saturating_add((max_per_peer / CLOSING_PART).max(1));
        Arc::new(Self {
            max,
            max_per_peer,
            max_held_per_peer,
            slots,
            table: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Waits until there is room for a connection of `peer`. If the peer is at its maximum, its
    /// connection of the lowest rank is evicted. `None` if each of the peer's connections has a
    /// running request, or if too many of its evicted connections are not closed yet. If all room
    /// is taken, the connections of the lowest rank are evicted, and the call waits until one of
    /// them ends.
    pub(super) async fn admit(self: &Arc<Self>, peer: Peer) -> Option<ConnectionSlot> {
        if !self.has_share(peer) {
            return None;
        }
        let permit = self.permit().await;
        let (number, activity) = (self.next.fetch_add(1, Ordering::Relaxed), Activity::new());
        self.table().insert(number, Open { peer, activity: activity.clone() });
        Some(ConnectionSlot { activity, connections: self.clone(), number, peer, _permit: permit })
    }

    /// Returns whether `peer` may have one more connection. May evict another connection of the
    /// peer.
    fn has_share(&self, peer: Peer) -> bool {
        let (open, held) = self.table().count(peer);
        if held >= self.max_held_per_peer {
            warn!(%peer, limit = self.max_held_per_peer, "connection refused: too many evicted connections of this address are not closed yet");
            return false;
        }
        let fits = open < self.max_per_peer || self.evict(1, |open| open.peer == peer) > 0;
        if !fits {
            warn!(%peer, limit = self.max_per_peer, "connection refused: all connections of this address have a request running");
        }
        fits
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = self.slots.clone().try_acquire_owned() {
                return permit;
            }
            let evicted = self.evict((self.max / EVICTED_PART).max(1), |_| true);
            debug!(limit = self.max, evicted, "the limit of connections is reached");
            if let Ok(permit) = timeout(LOOK_AGAIN, self.slots.clone().acquire_owned()).await {
                return permit.expect("the semaphore is never closed");
            }
        }
    }

    /// Evicts up to `most` connections without a running request and returns their number. Order:
    /// those that are idle for longest, then those whose responses are unsent for longest. Evicted
    /// connections no longer count as open, but hold their room until they end.
    fn evict(&self, most: usize, of: impl Fn(&Open) -> bool) -> usize {
        let mut table = self.table();
        let ranked = table.open.iter().filter(|(_, open)| of(open));
        let mut ranked: Vec<_> =
            ranked.filter_map(|(number, open)| Some((open.activity.rank()?, *number))).collect();
        ranked.sort_unstable();
        // `evict` checks again, because a request may have begun since the ranking.
        let evicted = ranked.into_iter().map(|(_, number)| number);
        let evicted = evicted
            .filter(|number| table.open.get(number).is_some_and(|open| open.activity.evict()))
            .take(most);
        let evicted: Vec<u64> = evicted.collect();
        for number in &evicted {
            table.open.remove(number);
        }
        evicted.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the number of open connections of a peer, and the number of those that hold room.
    fn count(&self, peer: Peer) -> (usize, usize) {
        let open = self.open.values().filter(|open| open.peer == peer).count();
        (open, self.held.get(&peer).copied().unwrap_or_default())
    }

    fn insert(&mut self, number: u64, open: Open) {
        *self.held.entry(open.peer).or_default() += 1;
        self.open.insert(number, open);
    }

    /// Removes a connection that has ended.
    fn remove(&mut self, number: u64, peer: Peer) {
        self.open.remove(&number);
        if let Entry::Occupied(mut held) = self.held.entry(peer) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

/// Slot for one connection. Released on drop.
pub(super) struct ConnectionSlot {
    /// Current activity of the connection.
    pub(super) activity: Arc<Activity>,
    connections: Arc<Connections>,
    number: u64,
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.table().remove(self.number, self.peer);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::of(Some([10, 0, 0, last].into()))
    }

    async fn admit(connections: &Arc<Connections>, last: u8) -> ConnectionSlot {
        connections.admit(peer(last)).await.expect("there is room")
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_at_its_cap_loses_an_idle_connection_and_is_refused_if_all_are_in_use() {
        let connections = Connections::new(10, 2);
        let (first, second, other) = (
            admit(&connections, 1).await,
            admit(&connections, 1).await,
            admit(&connections, 2).await,
        );
        let _running = second.activity.begin();
        let third = admit(&connections, 1).await;
        assert!(
            first.activity.rank().is_none() && other.activity.rank().is_some(),
            "the first is closed, the other's is not"
        );
        drop(first);
        let _also_running = third.activity.begin();
        assert!(connections.admit(peer(1)).await.is_none());
        drop(second);
        admit(&connections, 1).await;
    }

    #[tokio::test]
    async fn a_peer_is_refused_while_a_quarter_of_its_cap_is_evicted_and_not_closed() {
        for (max_per_peer, max_held) in [(1, 2), (3, 4), (8, 10)] {
            let connections = Connections::new(100, max_per_peer);
            let mut slots = Vec::new();
            for _ in 0..max_held {
                slots.push(admit(&connections, 1).await);
            }
            assert!(connections.admit(peer(1)).await.is_none(), "{max_held} are not closed");
            let _other = admit(&connections, 2).await;
            // When an evicted connection ends, exactly one new one fits.
            drop(slots.remove(0));
            slots.push(admit(&connections, 1).await);
            assert!(connections.admit(peer(1)).await.is_none(), "{max_held} are not closed again");
            drop(slots);
            assert_eq!(connections.table().count(peer(1)), (0, 0));
            assert_eq!(
                connections.table().held.len(),
                1,
                "a peer without connections is forgotten"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_answer_is_unsent_is_evicted_after_all_idle_ones() {
        let connections = Connections::new(4, 4);
        let (new, old) = (admit(&connections, 1).await, admit(&connections, 2).await);
        let (idle, in_use) = (admit(&connections, 3).await, admit(&connections, 4).await);
        let _running = in_use.activity.begin();
        let _unsent = old.activity.begin().answer();
        tokio::time::advance(Duration::from_secs(1)).await;
        let _also_unsent = new.activity.begin().answer();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(idle.activity.begin().answer());
        for next in [&idle, &old, &new] {
            assert!(next.activity.rank().is_some());
            assert_eq!(connections.evict(1, |_| true), 1);
            assert!(next.activity.rank().is_none(), "it is evicted");
        }
        assert_eq!(connections.evict(1, |_| true), 0, "a request is running on the last");
    }

    #[tokio::test(start_paused = true)]
    async fn peers_that_do_not_read_their_answers_do_not_shut_out_others() {
        let connections = Connections::new(2, 1);
        let mut slots = vec![admit(&connections, 1).await, admit(&connections, 2).await];
        let _unsent: Vec<_> = slots.iter().map(|slot| slot.activity.begin().answer()).collect();
        let mut third = Box::pin(connections.admit(peer(3)));
        assert!(third.as_mut().now_or_never().is_none(), "the evicted one has not ended yet");
        assert!(slots[0].activity.rank().is_none() && slots[1].activity.rank().is_some());
        drop(slots.remove(0));
        assert!(third.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_for_longest_is_evicted_if_all_room_is_taken() {
        let connections = Connections::new(3, 3);
        let mut slots = Vec::new();
        for last in 1..=3 {
            slots.push(admit(&connections, last).await);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let _running = slots[0].activity.begin();
        let mut fourth = Box::pin(connections.admit(peer(4)));
        assert!(fourth.as_mut().now_or_never().is_none(), "it has not ended yet");
        assert!(slots[0].activity.rank().is_none() && slots[2].activity.rank().is_some());
        assert!(slots[1].activity.rank().is_none(), "it is closed");
        slots.remove(1);
        assert!(fourth.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sixteenth_of_all_connections_is_evicted_at_a_time() {
        let connections = Connections::new(2 * EVICTED_PART, 2 * EVICTED_PART);
        let mut places = Vec::new();
        for _ in 0..2 * EVICTED_PART {
            places.push(admit(&connections, 1).await);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let mut other = Box::pin(connections.admit(peer(2)));
        assert!(other.as_mut().now_or_never().is_none(), "the evicted ones have not ended yet");
        let is_evicted: Vec<_> =
            places.iter().map(|place| place.activity.rank().is_none()).collect();
        assert_eq!(is_evicted, [vec![true; 2], vec![false; 2 * EVICTED_PART - 2]].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_becomes_idle_while_another_waits_is_evicted() {
        let connections = Connections::new(1, 1);
        let slot = admit(&connections, 1).await;
        let running = slot.activity.begin();
        let mut other = Box::pin(connections.admit(peer(2)));
        assert!(tokio::time::timeout(LOOK_AGAIN * 3, &mut other).await.is_err());
        drop(running.answer());
        assert!(
            tokio::time::timeout(LOOK_AGAIN * 3, &mut other).await.is_err(),
            "it still has its room"
        );
        assert!(slot.activity.rank().is_none(), "it is closed");
        drop(slot);
        assert!(other.await.is_some());
    }
}
