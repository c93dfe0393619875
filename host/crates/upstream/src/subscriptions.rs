//! State of relaying that outlives the connections of a server: the subscriptions of all MCP clients to
//! the changes of its resources.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::limits::{
    MAX_SUBSCRIPTION_BYTES, MAX_SUBSCRIPTIONS, MAX_TENANT_SUBSCRIPTIONS, SUBSCRIPTIONS_WEIGHT,
};
use airlock_core::{
    door::{Mailbox, RelayError, Subscription},
    tenant::{Shares, Tenant},
};

/// State of relaying that outlives the connections of a server.
#[derive(Default)]
pub(crate) struct Relaying {
    /// Subscribers to the changes of resources.
    pub(crate) hub: Hub,
    /// Notified when a list of resources or prompts may have changed.
    pub(crate) lists_changed: Notify,
}

impl Relaying {
    /// Has the connection of a successor look at everything again: the connection of a server that has
    /// stopped may have taken its notifications.
    pub(crate) fn wake_successor(&self) {
        self.lists_changed.notify_one();
        self.hub.0.changed.notify_one();
    }
}

/// Subscriptions of all MCP clients at one server.
#[derive(Default)]
pub(crate) struct Hub(Arc<HubTable>);

#[derive(Default)]
struct HubTable {
    state: Mutex<RelayState>,
    /// Notified when the set of subscribed URIs has changed.
    changed: Notify,
}

struct RelayState {
    by_uri: BTreeMap<Arc<str>, BTreeMap<u64, Subscriber>>,
    /// Subscriptions of each tenant.
    shares: Shares,
    /// [Bytes](uri_bytes) of the URIs of each tenant's subscriptions. A URI counts once for each of them.
    bytes: Shares,
    next: u64,
}

impl Default for RelayState {
    fn default() -> Self {
        let shares = Shares::new(MAX_SUBSCRIPTIONS, SUBSCRIPTIONS_WEIGHT);
        let bytes = Shares::new(MAX_SUBSCRIPTION_BYTES, SUBSCRIPTIONS_WEIGHT);
        Self { by_uri: BTreeMap::new(), shares, bytes, next: 0 }
    }
}

struct Subscriber {
    tenant: Tenant,
    mailbox: Arc<Mailbox>,
    label: Arc<str>,
}

/// One subscription. Dropping it ends the subscription.
struct HubSubscription {
    inner: Arc<HubTable>,
    uri: Arc<str>,
    number: u64,
}

impl Hub {
    /// Adds a subscription. Fails if the tenant has [`MAX_TENANT_SUBSCRIPTIONS`], or as many, or as many bytes of
    /// URIs, as are free. A tenant that has none is refused only if all are in use, or there is no room for its URI.
    pub(crate) fn subscribe(
        &self,
        uri: &str,
        tenant: &Tenant,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        let mut state = self.0.state();
        let own = state.shares.held_by(tenant);
        let has_room = own < MAX_TENANT_SUBSCRIPTIONS
            && state.shares.admits(tenant, 1)
            && state.bytes.take(tenant, uri_bytes(uri))
            && state.shares.take(tenant, 1);
        if !has_room {
            return Err(match own {
                0 => RelayError::Busy,
                limit => RelayError::TooManySubscriptions { limit },
            });
        }
        state.next += 1;
        let uri: Arc<str> = uri.into();
        let number = state.next;
        let subscriber =
            Subscriber { tenant: tenant.clone(), mailbox: mailbox.clone(), label: label.into() };
        let subscribers = state.by_uri.entry(uri.clone()).or_default();
        subscribers.insert(number, subscriber);
        if subscribers.len() == 1 {
            self.0.changed.notify_one();
        }
        drop(state);
        Ok(Subscription::new(HubSubscription { inner: self.0.clone(), uri, number }))
    }

    /// Notifies the subscribers of a URI that the resource has changed.
    pub(crate) fn updated(&self, uri: &str) {
        if let Some(subscribers) = self.0.state().by_uri.get(uri) {
            for Subscriber { mailbox, label, .. } in subscribers.values() {
                mailbox.put(label);
            }
        }
    }

    /// Returns the subscribed URIs.
    pub(crate) fn uris(&self) -> BTreeSet<Arc<str>> {
        self.0.state().by_uri.keys().cloned().collect()
    }

    /// Returns whether a URI is subscribed to.
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.0.state().by_uri.contains_key(uri)
    }

    /// Returns the subscribed URIs of each tenant, without those for which `is_left_out` holds.
    pub(crate) fn by_tenant(
        &self,
        is_left_out: impl Fn(&str) -> bool,
    ) -> HashMap<Tenant, BTreeSet<Arc<str>>> {
        let mut by_tenant = HashMap::<_, BTreeSet<_>>::new();
        for (uri, subscribers) in &self.0.state().by_uri {
            if !is_left_out(uri) {
                for Subscriber { tenant, .. } in subscribers.values() {
                    by_tenant.entry(tenant.clone()).or_default().insert(uri.clone());
                }
            }
        }
        by_tenant
    }

    /// Waits until the set of subscribed URIs has changed.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

impl HubTable {
    fn state(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock()
    }
}

impl Drop for HubSubscription {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        let Some(subscribers) = state.by_uri.get_mut(&self.uri) else { return };
        let ended = subscribers.remove(&self.number);
        if subscribers.is_empty() {
            state.by_uri.remove(&self.uri);
            self.inner.changed.notify_one();
        }
        if let Some(Subscriber { tenant, .. }) = ended {
            state.shares.give_back(&tenant, 1);
            state.bytes.give_back(&tenant, uri_bytes(&self.uri));
        }
    }
}

/// Returns the bytes that a URI counts: those of it in a request. JSON writes a control character, which a template
/// permits too, in six.
pub(crate) fn uri_bytes(uri: &str) -> usize {
    airlock_json::text_len(uri)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::limits::MAX_OFFER_KEY_BYTES;

    #[tokio::test]
    async fn subscribers_are_notified_under_their_own_names_until_they_leave() {
        let hub = Hub::default();
        let one = Arc::default();
        let two = Arc::default();
        let first = hub.subscribe("a://b", &Tenant::ANONYMOUS, &one, "x").expect("room");
        let second = hub.subscribe("a://b", &Tenant::ANONYMOUS, &two, "y").expect("room");
        hub.changed().await;
        hub.updated("a://b");
        hub.updated("a://other");
        assert_eq!((&*one.next().await, &*two.next().await), ("x", "y"));
        drop(first);
        assert_eq!(hub.uris().len(), 1);
        hub.updated("a://b");
        assert!(one.next().now_or_never().is_none() && two.next().now_or_never().is_some());
        drop(second);
        hub.changed().await;
        assert!(hub.uris().is_empty());
        assert_eq!(hub.0.state().shares.taken(), 0);
        assert_eq!(hub.0.state().bytes.taken(), 0);
    }

    #[test]
    fn tenants_that_take_all_they_may_leave_subscriptions_to_the_next_ones() {
        let hub = Hub::default();
        let mut held: Vec<_> = (0..12).map(|number| take_all(&hub, number)).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts[..9], [MAX_TENANT_SUBSCRIPTIONS; 9]);
        assert_eq!(counts[9..], [250, 125, 63], "half of what is free, rounded up");
        for (number, limit) in [(0, MAX_TENANT_SUBSCRIPTIONS), (10, 125)] {
            let refused = subscribe(&hub, number, 0).err();
            assert!(
                matches!(refused, Some(RelayError::TooManySubscriptions { limit: own }) if own == limit),
                "{refused:?}"
            );
        }
        held[0].pop();
        assert!(subscribe(&hub, 0, 0).is_err(), "its share is smaller now");
        held[0].clear();
        assert_eq!(take_all(&hub, 11).len(), 250, "its share is larger now");
    }

    #[test]
    fn long_uris_of_a_tenant_are_bounded_and_leave_bytes_to_others() {
        let hub = Hub::default();
        let mut held: Vec<_> = (0..4).map(|number| take_all_long(&hub, number)).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [255, 128, 64, 32], "half of the bytes that are free");
        let refused = subscribe_to(&hub, 0, &long(999)).err();
        assert!(
            matches!(refused, Some(RelayError::TooManySubscriptions { limit: 255 })),
            "{refused:?}"
        );
        assert!(subscribe(&hub, 9, 0).is_ok(), "a short one has room");
        held.clear();
        assert_eq!(hub.0.state().bytes.taken(), 0);
        assert_eq!(take_all_long(&hub, 4).len(), 255);
        let _held = subscribe_to(&hub, 5, &"\u{1}".repeat(4 << 10)).expect("room");
        assert_eq!(hub.0.state().bytes.taken(), 6 * (4 << 10) + 2, "as it is sent");
    }

    #[test]
    fn the_longest_uris_of_listed_resources_have_room_up_to_the_number_of_a_tenant() {
        let hub = Hub::default();
        let uris = (0..=MAX_TENANT_SUBSCRIPTIONS).map(|n| format!("{n:0>MAX_OFFER_KEY_BYTES$}"));
        let held: Vec<_> = uris.map_while(|uri| subscribe_to(&hub, 0, &uri).ok()).collect();
        assert_eq!(held.len(), MAX_TENANT_SUBSCRIPTIONS);
    }

    #[test]
    fn a_tenant_without_a_subscription_is_refused_only_if_all_are_in_use() {
        let hub = Hub::default();
        let mut held = Vec::new();
        for number in 0..u8::MAX {
            let taken = take_all(&hub, number);
            assert_eq!(taken.is_empty(), held.len() == MAX_SUBSCRIPTIONS, "{number}");
            held.extend(taken);
        }
        assert_eq!(held.len(), MAX_SUBSCRIPTIONS);
        assert!(matches!(subscribe(&hub, u8::MAX, 0), Err(RelayError::Busy)));
        held.pop();
        assert!(subscribe(&hub, u8::MAX, 0).is_ok());
    }

    fn subscribe(hub: &Hub, number: u8, resource: usize) -> Result<Subscription, RelayError> {
        subscribe_to(hub, number, &format!("a://{resource}"))
    }

    fn subscribe_to(hub: &Hub, number: u8, uri: &str) -> Result<Subscription, RelayError> {
        hub.subscribe(uri, &Tenant::of_key([number; 32], "t"), &Arc::default(), "x")
    }

    /// Returns a URI of 4 KiB.
    fn long(resource: usize) -> String {
        format!("{resource:04096}")
    }

    /// Subscribes a tenant to resources with long URIs until that is refused.
    fn take_all_long(hub: &Hub, number: u8) -> Vec<Subscription> {
        (0..).map_while(|resource| subscribe_to(hub, number, &long(resource)).ok()).collect()
    }

    /// Subscribes for a tenant until that is refused.
    fn take_all(hub: &Hub, number: u8) -> Vec<Subscription> {
        (0..).map_while(|resource| subscribe(hub, number, resource).ok()).collect()
    }
}
