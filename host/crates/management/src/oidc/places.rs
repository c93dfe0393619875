//! Places of logins that wait for the provider. A peer needs no credential to begin a login and to send
//! redirects, so each of the two steps has places of its own, of which one peer gets a few.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::timeout,
};

/// Maximum logins of each step that wait for the provider at the same time. It may be slow, a
/// peer needs no credential to begin a login, and each that waits holds a connection.
const MAX_WAITING: usize = 16;
/// Maximum of them that one peer has in a step, so that no peer takes all places.
const MAX_WAITING_OF_PEER: usize = 2;
/// Time that a login waits for its turn: a browser waits meanwhile, and holds a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Places of logins, for each step.
pub(super) struct LoginPlaces {
    beginning: StepPlaces,
    completing: StepPlaces,
}

/// Places of one step.
struct StepPlaces {
    all: Semaphore,
    of_peers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place of a step: one of its peer, and one of all. It is free again when this is dropped.
pub(super) type LoginPlace<'p> = (OwnedSemaphorePermit, SemaphorePermit<'p>);

impl LoginPlaces {
    pub(super) fn new() -> Self {
        Self { beginning: StepPlaces::new(), completing: StepPlaces::new() }
    }

    /// Waits for a place to fetch the metadata of the provider for a peer. `None` if there is none in time.
    pub(super) async fn begin(&self, peer: &str) -> Option<LoginPlace<'_>> {
        self.beginning.take(peer).await
    }

    /// Waits for a place to complete a login of a peer. `None` if there is none in time.
    pub(super) async fn complete(&self, peer: &str) -> Option<LoginPlace<'_>> {
        self.completing.take(peer).await
    }
}

impl StepPlaces {
    fn new() -> Self {
        Self { all: Semaphore::new(MAX_WAITING), of_peers: Mutex::default() }
    }

    /// Waits for a place of a peer. `None` if there is none in time. While a peer waits for one of its own,
    /// it has none of the others.
    async fn take(&self, peer: &str) -> Option<LoginPlace<'_>> {
        let of_peer = self.of_peer(peer);
        let waiting = async {
            let own = of_peer.acquire_owned().await.ok()?;
            Some((own, self.all.acquire().await.ok()?))
        };
        timeout(PATIENCE, waiting).await.ok()?
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
    async fn a_peer_has_two_places_of_a_step_and_takes_none_of_others() {
        let places = LoginPlaces::new();
        for step in [&places.beginning, &places.completing] {
            let first = step.take("a").await.expect("a place");
            let _second = step.take("a").await.expect("another place");
            let refused = join_all((0..20).map(|_| step.take("a"))).await;
            assert!(refused.iter().all(Option::is_none));
            assert!(step.take("b").await.is_some());
            drop(first);
            assert!(step.take("a").await.is_some());
            let known: Vec<_> = step.of_peers.lock().keys().cloned().collect();
            assert_eq!(known, ["a"], "the other one has no place any more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn logins_that_begin_take_no_places_of_those_that_are_completed() {
        let places = LoginPlaces::new();
        let peers: Vec<_> = (0..MAX_WAITING).map(|number| number.to_string()).collect();
        let began = join_all(peers.iter().map(|peer| places.begin(peer))).await;
        assert!(began.iter().all(Option::is_some) && places.begin("a").await.is_none());
        assert!(places.complete("a").await.is_some());
    }
}
