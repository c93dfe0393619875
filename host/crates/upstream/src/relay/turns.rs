//! The order in which a legacy server is asked for subscriptions and to end them: one request at a time for
//! each tenant, in turns. The server may answer none of them.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    limits::{MAX_SUBSCRIPTION_BYTES, MAX_SUBSCRIPTIONS, SUBSCRIBING},
    subscriptions::{Hub, uri_bytes},
};
use airlock_core::tenant::Tenant;
use airlock_wire::method;

/// The party whose turn it is: a tenant that subscribes, or `None` for the subscriptions that have ended,
/// which belong to no tenant any more.
type TurnHolder = Option<Tenant>;

/// A request for a subscription, or to end one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SubscriptionChange {
    pub(super) uri: Arc<str>,
    party: TurnHolder,
}

impl SubscriptionChange {
    /// Method of the request.
    pub(super) fn method(&self) -> &'static str {
        match self.party {
            Some(_) => method::RESOURCES_SUBSCRIBE,
            None => method::RESOURCES_UNSUBSCRIBE,
        }
    }
}

/// The requests of one connection that are running and still to be sent.
#[derive(Default)]
pub(super) struct SubscriptionQueue {
    /// URIs that the server was asked to report and not to stop reporting.
    asked: BTreeSet<Arc<str>>,
    /// Parties of the running requests, by their URIs.
    running: HashMap<Arc<str>, TurnHolder>,
    /// URIs of the requests to be sent; the party whose turn is next comes first.
    waiting: VecDeque<(TurnHolder, VecDeque<Arc<str>>)>,
}

impl SubscriptionQueue {
    /// Reads which requests are to be sent. Parties that wait keep their places.
    pub(super) fn read(&mut self, hub: &Hub) {
        let wanted = hub.by_tenant(|uri| self.asked.contains(uri));
        let wanted = wanted.into_iter().map(|(tenant, uris)| (Some(tenant), uris));
        let mut ended: BTreeSet<_> =
            self.asked.iter().filter(|uri| !hub.has(uri)).cloned().collect();
        // A server that does not answer would let them grow without end. Its reports about the rest are ignored.
        let mut ended_bytes: usize = ended.iter().map(|uri| uri_bytes(uri)).sum();
        while (ended.len() > MAX_SUBSCRIPTIONS || ended_bytes > MAX_SUBSCRIPTION_BYTES)
            && let Some(uri) = ended.pop_last()
        {
            ended_bytes -= uri_bytes(&uri);
            self.asked.remove(&uri);
        }
        let mut parties: HashMap<TurnHolder, _> = wanted.chain([(None, ended)]).collect();
        let before = std::mem::take(&mut self.waiting);
        let kept = before.into_iter().filter_map(|(party, _)| parties.remove_entry(&party));
        let kept: Vec<_> = kept.collect();
        let all = kept.into_iter().chain(parties).filter(|(_, uris)| !uris.is_empty());
        self.waiting = all.map(|(party, uris)| (party, uris.into_iter().collect())).collect();
    }

    /// Returns the next request; `None` if there is none, or as many are running as may.
    pub(super) fn begin(&mut self, hub: &Hub) -> Option<SubscriptionChange> {
        if self.running.len() >= SUBSCRIBING {
            return None;
        }
        for _ in 0..self.waiting.len() {
            let (party, mut uris) = self.waiting.pop_front()?;
            let is_busy = self.running.values().any(|running| *running == party);
            let uri = if is_busy { None } else { self.first_due(&party, &mut uris, hub) };
            if !uris.is_empty() {
                self.waiting.push_back((party.clone(), uris));
            }
            if let Some(uri) = uri {
                match party {
                    Some(_) => self.asked.insert(uri.clone()),
                    None => self.asked.remove(&uri),
                };
                self.running.insert(uri.clone(), party.clone());
                return Some(SubscriptionChange { uri, party });
            }
        }
        None
    }

    /// Takes the first URI of a party that is still to be asked for. Those of running requests stay.
    fn first_due(
        &self,
        party: &TurnHolder,
        uris: &mut VecDeque<Arc<str>>,
        hub: &Hub,
    ) -> Option<Arc<str>> {
        let is_subscribing = party.is_some();
        let mut running = Vec::new();
        let mut due = None;
        while due.is_none()
            && let Some(uri) = uris.pop_front()
        {
            if self.running.contains_key(&uri) {
                running.push(uri);
            } else if hub.has(&uri) == is_subscribing && self.asked.contains(&uri) != is_subscribing
            {
                due = Some(uri);
            }
        }
        uris.extend(running);
        due
    }

    /// Ends a request.
    pub(super) fn end(&mut self, change: &SubscriptionChange) {
        self.running.remove(&change.uri);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_TENANT_SUBSCRIPTIONS;
    use airlock_core::door::{Mailbox, Subscription};

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "t")
    }

    fn subscribe(hub: &Hub, tenant: &Tenant, uri: &str) -> Subscription {
        hub.subscribe(uri, tenant, &Arc::<Mailbox>::default(), uri).expect("room")
    }

    fn started(turns: &mut SubscriptionQueue, hub: &Hub) -> Vec<SubscriptionChange> {
        std::iter::from_fn(|| turns.begin(hub)).collect()
    }

    fn uris(changes: &[SubscriptionChange]) -> BTreeSet<&str> {
        changes.iter().map(|change| &*change.uri).collect()
    }

    #[test]
    fn a_tenant_whose_requests_are_not_answered_delays_no_other_one() {
        let hub = Hub::default();
        let slow = tenant(1);
        let names = (0..MAX_TENANT_SUBSCRIPTIONS).map(|n| format!("a:{n:03}"));
        let _held: Vec<_> = names.map(|uri| subscribe(&hub, &slow, &uri)).collect();
        let mut turns = SubscriptionQueue::default();
        turns.read(&hub);
        assert_eq!(uris(&started(&mut turns, &hub)), BTreeSet::from(["a:000"]));
        // Two tenants that subscribe to one resource cause one request.
        let others = ["a:499", "b:1", "b:2"].map(|uri| subscribe(&hub, &tenant(2), uri));
        turns.read(&hub);
        for uri in ["a:499", "b:1", "b:2"] {
            let mut begun = started(&mut turns, &hub);
            assert_eq!(uris(&begun), BTreeSet::from([uri]));
            turns.end(&begun.remove(0));
        }
        drop(others);
        turns.read(&hub);
        let ended = started(&mut turns, &hub);
        assert_eq!(uris(&ended), BTreeSet::from(["b:1"]), "one at a time");
        assert_eq!(ended[0].method(), "resources/unsubscribe");
    }

    #[test]
    fn subscriptions_that_a_silent_server_does_not_end_are_bounded_in_bytes() {
        let hub = Hub::default();
        let mut turns = SubscriptionQueue::default();
        for round in 0..3 {
            let uris = (0..200).map(|n| format!("{round}:{n:04094}"));
            let _held: Vec<_> = uris.map(|uri| subscribe(&hub, &tenant(1), &uri)).collect();
            turns.read(&hub);
            while let Some(change) = turns.begin(&hub) {
                // The first request to end one is never answered.
                if change.party.is_some() {
                    turns.end(&change);
                }
            }
        }
        turns.read(&hub);
        let each = uri_bytes(&"0".repeat(4 << 10));
        assert_eq!(turns.asked.len(), MAX_SUBSCRIPTION_BYTES / each);
    }

    #[test]
    fn tenants_take_turns_when_more_of_them_wait_than_may_run() {
        let hub = Hub::default();
        let count = u8::try_from(SUBSCRIBING).expect("small") + 2;
        let mut held = Vec::new();
        for number in 0..count {
            for n in 0..2 {
                held.push(subscribe(&hub, &tenant(number), &format!("{number}:{n}")));
            }
        }
        let mut turns = SubscriptionQueue::default();
        turns.read(&hub);
        let mut running = started(&mut turns, &hub);
        assert_eq!(running.len(), SUBSCRIBING);
        let mut firsts = Vec::new();
        while firsts.len() < usize::from(count) {
            let change = running.remove(0);
            firsts.push(change.party.clone());
            turns.end(&change);
            turns.read(&hub);
            running.extend(started(&mut turns, &hub));
        }
        for number in 0..count {
            assert!(firsts.contains(&Some(tenant(number))), "each had a turn before a second one");
        }
    }

    #[test]
    fn a_subscription_that_is_made_while_its_end_is_asked_for_is_asked_for_after_it() {
        let hub = Hub::default();
        let first = subscribe(&hub, &tenant(1), "a:");
        let mut turns = SubscriptionQueue::default();
        turns.read(&hub);
        let change = turns.begin(&hub).expect("a request");
        turns.end(&change);
        drop(first);
        turns.read(&hub);
        let ending = turns.begin(&hub).expect("a request");
        let _again = subscribe(&hub, &tenant(2), "a:");
        turns.read(&hub);
        assert_eq!(turns.begin(&hub), None, "the end may overtake it");
        turns.end(&ending);
        let change = turns.begin(&hub).expect("a request");
        assert_eq!((&*change.uri, change.method()), ("a:", "resources/subscribe"));
    }
}
