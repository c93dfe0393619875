//! Every open connection: how many there may be, of one peer and in all, and which gives way to new ones.

use std::{
    collections::HashMap,
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

/// How long room is waited for before idle connections are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Where there is no room, one idle connection in so many is closed at a time, so that those who hold many and open them again
/// do not keep the others waiting for each.
const EVICTED_PART: usize = 16;

/// The open connections.
pub(super) struct Connections {
    max: usize,
    max_per_peer: usize,
    room: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
}

struct Open {
    peer: Peer,
    activity: Arc<Activity>,
}

impl Connections {
    pub(super) fn new(max: usize, max_per_peer: usize) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(max));
        Arc::new(Self { max, max_per_peer, room, open: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// Makes room for a connection of `peer`. A peer that has as many as it may loses the one that is idle for longest;
    /// `None` if none of them is idle. Where all room is taken, those are closed that are idle for longest, and one that
    /// ends is waited for.
    pub(super) async fn admit(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        if self.count(peer) >= self.max_per_peer && self.evict(1, |open| open.peer == peer) == 0 {
            warn!(%peer, limit = self.max_per_peer, "connection refused, the peer has as many in use as it may have");
            return None;
        }
        let permit = self.permit().await;
        let (number, activity) = (self.next.fetch_add(1, Ordering::Relaxed), Activity::new());
        self.open().insert(number, Open { peer, activity: activity.clone() });
        Some(Place { activity, connections: self.clone(), number, _permit: permit })
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

    /// Connections of a peer, without those that are about to end.
    fn count(&self, peer: Peer) -> usize {
        self.open().values().filter(|open| open.peer == peer).count()
    }

    /// Has up to `most` idle connections closed, those that are idle for longest first; returns how many. They are forgotten
    /// here at once, and hold their room until they have ended.
    fn evict(&self, most: usize, of: impl Fn(&Open) -> bool) -> usize {
        let mut connections = self.open();
        let idle = connections.iter().filter(|(_, open)| of(open));
        let mut idle: Vec<_> = idle.filter_map(|(number, open)| Some((open.activity.idle_since()?, *number))).collect();
        idle.sort_unstable();
        // A request may have come in between.
        let evicted = idle.into_iter().map(|(_, number)| number);
        let evicted = evicted.filter(|number| connections.get(number).is_some_and(|open| open.activity.evict())).take(most);
        let evicted: Vec<u64> = evicted.collect();
        for number in &evicted {
            connections.remove(number);
        }
        evicted.len()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for one connection, given back when it is dropped.
pub(super) struct Place {
    /// What the connection does.
    pub(super) activity: Arc<Activity>,
    connections: Arc<Connections>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
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
        let (first, second, other) = (admit(&connections, 1).await, admit(&connections, 1).await, admit(&connections, 2).await);
        let _running = second.activity.begin();
        let third = admit(&connections, 1).await;
        assert!(first.activity.evict() && other.activity.idle_since().is_some(), "the first is closed, the other's is not");
        let _also_running = third.activity.begin();
        assert!(connections.admit(peer(1)).await.is_none());
        drop(second);
        admit(&connections, 1).await;
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
        assert!(places[0].activity.idle_since().is_none() && places[2].activity.idle_since().is_some());
        assert!(places[1].activity.idle_since().is_none(), "it is closed");
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
        assert!(tokio::time::timeout(LOOK_AGAIN * 3, &mut other).await.is_err(), "it still has its room");
        assert!(place.activity.idle_since().is_none(), "it is closed");
        drop(place);
        assert!(other.await.is_some());
    }
}
