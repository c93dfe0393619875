//! Every open connection: how many there may be, of one peer and in all, and which gives way to new
//! ones.

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

/// How long room is waited for before connections to evict are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Where there is no room, one connection in so many is evicted at a time, so that those who hold
/// many and open them again do not keep the others waiting for each.
const EVICTED_PART: usize = 16;
/// One connection of a peer's maximum in so many may be evicted and not closed yet. Evicted
/// connections hold their room until they are closed, so a peer that opens connections faster than
/// its evicted ones end would take the room of all.
const CLOSING_PART: usize = 4;

/// The open connections.
pub(super) struct Connections {
    max: usize,
    max_per_peer: usize,
    /// Connections of one peer, those that are evicted and not closed yet included.
    max_held_per_peer: usize,
    room: Arc<Semaphore>,
    table: Mutex<Table>,
    next: AtomicU64,
}

#[derive(Default)]
struct Table {
    /// Connections that are not evicted, by their number.
    open: HashMap<u64, Open>,
    /// How many connections of each peer hold room: those that are open, and those that are evicted
    /// and not closed yet.
    held: HashMap<Peer, usize>,
}

struct Open {
    peer: Peer,
    activity: Arc<Activity>,
}

impl Connections {
    pub(super) fn new(max: usize, max_per_peer: usize) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(max));
        let max_held_per_peer = max_per_peer.saturating_add((max_per_peer / CLOSING_PART).max(1));
        Arc::new(Self {
            max,
            max_per_peer,
            max_held_per_peer,
            room,
            table: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Makes room for a connection of `peer`. A peer that has as many as it may loses the one of
    /// the least rank; `None` if each of them has a request running, or if too many that it lost
    /// are not closed yet. Where all room is taken, those of the least rank are evicted, and the
    /// end of one is waited for.
    pub(super) async fn admit(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        if !self.has_share(peer) {
            return None;
        }
        let permit = self.permit().await;
        let (number, activity) = (self.next.fetch_add(1, Ordering::Relaxed), Activity::new());
        self.table().insert(number, Open { peer, activity: activity.clone() });
        Some(Place { activity, connections: self.clone(), number, peer, _permit: permit })
    }

    /// Whether `peer` may have one more connection, for which it may lose another.
    fn has_share(&self, peer: Peer) -> bool {
        let (open, held) = self.table().count(peer);
        if held >= self.max_held_per_peer {
            warn!(%peer, limit = self.max_held_per_peer, "connection refused, too many that the peer lost are not closed yet");
            return false;
        }
        let fits = open < self.max_per_peer || self.evict(1, |open| open.peer == peer) > 0;
        if !fits {
            warn!(%peer, limit = self.max_per_peer, "connection refused, the peer has as many in use as it may have");
        }
        fits
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = self.room.clone().try_acquire_owned() {
                return permit;
            }
            let evicted = self.evict((self.max / EVICTED_PART).max(1), |_| true);
            debug!(limit = self.max, evicted, "all room for connections is taken");
            if let Ok(permit) = timeout(LOOK_AGAIN, self.room.clone().acquire_owned()).await {
                return permit.expect("the semaphore is never closed");
            }
        }
    }

    /// Evicts up to `most` connections without a running request, by rank: those that are idle for
    /// longest first, and once none is idle, those whose answers are unsent for longest. Returns
    /// how many. They are not open any more, and hold their room until they have ended.
    fn evict(&self, most: usize, of: impl Fn(&Open) -> bool) -> usize {
        let mut table = self.table();
        let ranked = table.open.iter().filter(|(_, open)| of(open));
        let mut ranked: Vec<_> =
            ranked.filter_map(|(number, open)| Some((open.activity.rank()?, *number))).collect();
        ranked.sort_unstable();
        // A request may have come in between.
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
    /// Connections of a peer: those that are open, and those that hold room.
    fn count(&self, peer: Peer) -> (usize, usize) {
        let open = self.open.values().filter(|open| open.peer == peer).count();
        (open, self.held.get(&peer).copied().unwrap_or_default())
    }

    fn insert(&mut self, number: u64, open: Open) {
        *self.held.entry(open.peer).or_default() += 1;
        self.open.insert(number, open);
    }

    /// Forgets a connection that has ended.
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

/// Room for one connection, given back when it is dropped.
pub(super) struct Place {
    /// Current activity of the connection.
    pub(super) activity: Arc<Activity>,
    connections: Arc<Connections>,
    number: u64,
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
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

    async fn admit(connections: &Arc<Connections>, last: u8) -> Place {
        connections.admit(peer(last)).await.expect("there is room")
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_beyond_its_cap_loses_its_idle_connections_and_then_is_refused() {
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
            let mut places = Vec::new();
            for _ in 0..max_held {
                places.push(admit(&connections, 1).await);
            }
            assert!(connections.admit(peer(1)).await.is_none(), "{max_held} are not closed");
            let _other = admit(&connections, 2).await;
            // The end of an evicted one makes room for exactly one.
            drop(places.remove(0));
            places.push(admit(&connections, 1).await);
            assert!(connections.admit(peer(1)).await.is_none(), "{max_held} are not closed again");
            drop(places);
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
        let mut places = vec![admit(&connections, 1).await, admit(&connections, 2).await];
        let _unsent: Vec<_> = places.iter().map(|place| place.activity.begin().answer()).collect();
        let mut third = Box::pin(connections.admit(peer(3)));
        assert!(third.as_mut().now_or_never().is_none(), "the evicted one has not ended yet");
        assert!(places[0].activity.rank().is_none() && places[1].activity.rank().is_some());
        drop(places.remove(0));
        assert!(third.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_room_is_taken_those_that_are_idle_for_longest_are_closed() {
        let connections = Connections::new(3, 3);
        let mut places = Vec::new();
        for last in 1..=3 {
            places.push(admit(&connections, last).await);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let _running = places[0].activity.begin();
        let mut fourth = Box::pin(connections.admit(peer(4)));
        assert!(fourth.as_mut().now_or_never().is_none(), "it has not ended yet");
        assert!(places[0].activity.rank().is_none() && places[2].activity.rank().is_some());
        assert!(places[1].activity.rank().is_none(), "it is closed");
        places.remove(1);
        assert!(fourth.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_becomes_idle_later_is_closed_too() {
        let connections = Connections::new(1, 1);
        let place = admit(&connections, 1).await;
        let running = place.activity.begin();
        let mut other = Box::pin(connections.admit(peer(2)));
        assert!(tokio::time::timeout(LOOK_AGAIN * 3, &mut other).await.is_err());
        drop(running.answer());
        assert!(
            tokio::time::timeout(LOOK_AGAIN * 3, &mut other).await.is_err(),
            "it still has its room"
        );
        assert!(place.activity.rank().is_none(), "it is closed");
        drop(place);
        assert!(other.await.is_some());
    }
}
