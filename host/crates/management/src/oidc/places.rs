//! Places of logins that wait for the provider. Anyone can begin a login and send redirects, so the two steps
//! have places of their own, and of those that complete logins, each peer has a few.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::timeout,
};

/// Maximum logins of each step that wait for the provider at the same time. It may be slow.
const MAX_WAITING: usize = 16;
/// Maximum of them that one peer completes, so that no peer takes all places.
const MAX_WAITING_OF_PEER: usize = 2;
/// Time that a login waits for its turn: a browser waits meanwhile, and holds a connection.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Places of logins, for each step.
pub(super) struct LoginPlaces {
    beginning: Semaphore,
    completing: Semaphore,
    /// Those of each peer that completes a login.
    of_peers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl LoginPlaces {
    pub(super) fn new() -> Self {
        Self {
            beginning: Semaphore::new(MAX_WAITING),
            completing: Semaphore::new(MAX_WAITING),
            of_peers: Mutex::default(),
        }
    }

    /// Waits for a place to fetch the metadata of the provider. `None` if there is none in time.
    pub(super) async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        timeout(MAX_WAIT, self.beginning.acquire()).await.ok()?.ok()
    }

    /// Waits for a place to complete a login of a peer. `None` if there is none in time. While a peer waits
    /// for one of its own, it has none of the others.
    pub(super) async fn complete(
        &self,
        peer: &str,
    ) -> Option<(OwnedSemaphorePermit, SemaphorePermit<'_>)> {
        let of_peer = self.of_peer(peer);
        let waiting = async {
            let own = of_peer.acquire_owned().await.ok()?;
            Some((own, self.completing.acquire().await.ok()?))
        };
        timeout(MAX_WAIT, waiting).await.ok()?
    }

    /// Returns the places of a peer. Forgets the peers that neither have nor wait for one.
    fn of_peer(&self, peer: &str) -> Arc<Semaphore> {
        let mut of_peers = self.of_peers.lock();
        of_peers.retain(|_, places| Arc::strong_count(places) > 1);
        let places = of_peers.entry(peer.to_owned());
        places.or_insert_with(|| Arc::new(Semaphore::new(MAX_WAITING_OF_PEER))).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_completes_two_logins_at_once_and_takes_no_places_of_others() {
        let places = LoginPlaces::new();
        let first = places.complete("a").await.expect("a place");
        let _second = places.complete("a").await.expect("another place");
        let refused = join_all((0..20).map(|_| places.complete("a"))).await;
        assert!(refused.iter().all(Option::is_none));
        assert!(places.complete("b").await.is_some());
        drop(first);
        assert!(places.complete("a").await.is_some());
        let known: Vec<_> = places.of_peers.lock().keys().cloned().collect();
        assert_eq!(known, ["a"], "the other one has no place any more");
    }

    #[tokio::test(start_paused = true)]
    async fn logins_that_begin_take_no_places_of_those_that_are_completed() {
        let places = LoginPlaces::new();
        let began = join_all((0..MAX_WAITING).map(|_| places.begin())).await;
        assert!(began.iter().all(Option::is_some) && places.begin().await.is_none());
        assert!(places.complete("a").await.is_some());
    }
}
