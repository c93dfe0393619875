//! Bounds the logins that each peer begins. Anyone can begin one: it is kept in the store, where each peer has
//! room for a few.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use airlock_ingress::Peer;

/// Time after which the counts begin again.
const WINDOW: Duration = Duration::from_secs(10);
/// Maximum requests of a peer in this time: each stores a login, and the address may be that of a
/// whole office.
const MAX_REQUESTS: u32 = 100;
/// Maximum peers that are counted: an attacker may have any number of addresses. Further ones share
/// one count.
const MAX_PEERS: usize = 4_096;

/// Counts the requests of logins.
#[derive(Default)]
pub(crate) struct LoginRate(Mutex<LoginCounts>);

#[derive(Default)]
struct LoginCounts {
    began: Option<Instant>,
    requests: HashMap<Peer, u32>,
    /// Requests of the peers that have no count of their own.
    others: u32,
}

impl LoginRate {
    /// Counts a request of a peer. Returns whether it is permitted.
    pub(super) fn admit(&self, peer: Peer) -> bool {
        let mut counts = self.0.lock();
        let now = Instant::now();
        if counts.began.is_none_or(|began| now >= began + WINDOW) {
            counts.began = Some(now);
            counts.requests.clear();
            counts.others = 0;
        }
        let is_counted = counts.requests.len() < MAX_PEERS || counts.requests.contains_key(&peer);
        let LoginCounts { requests, others, .. } = &mut *counts;
        let requests = if is_counted { requests.entry(peer).or_default() } else { others };
        *requests = requests.saturating_add(1);
        *requests <= MAX_REQUESTS
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_begins_a_bounded_number_of_logins_in_each_window() {
        let rate = LoginRate::default();
        let peer = Peer::new(Some([10, 0, 0, 1].into()));
        for _ in 0..MAX_REQUESTS {
            assert!(rate.admit(peer));
        }
        assert!(!rate.admit(peer));
        assert!(rate.admit(Peer::new(Some([10, 0, 0, 2].into()))));
        tokio::time::advance(WINDOW).await;
        assert!(rate.admit(peer));
    }

    fn peer(number: u32) -> Peer {
        Peer::new(Some(Ipv4Addr::from(0x0a00_0000 + number).into()))
    }

    #[tokio::test(start_paused = true)]
    async fn peers_beyond_those_that_are_counted_share_one_count() {
        let rate = LoginRate::default();
        for number in 1..=4_096 {
            assert!(rate.admit(peer(number)));
        }
        for number in 0..MAX_REQUESTS {
            assert!(rate.admit(peer(5_000 + number)), "{number}");
        }
        assert!(!rate.admit(peer(6_000)));
        assert!(rate.admit(peer(1)), "it has a count of its own");
        tokio::time::advance(WINDOW).await;
        assert!(rate.admit(peer(6_000)));
    }
}
