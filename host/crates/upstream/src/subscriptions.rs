//! State of relaying that outlives the connections of a server: the subscriptions of all MCP clients to
//! the changes of its resources.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::limits::{MAX_SUBSCRIPTIONS, MAX_TENANT_SUBSCRIPTIONS};
use airlock_core::{
    door::{Mailbox, RelayError, Subscription},
    tenant::Tenant,
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

#[derive(Default)]
struct RelayState {
    by_uri: BTreeMap<Arc<str>, BTreeMap<u64, Subscriber>>,
    of_tenant: HashMap<Tenant, usize>,
    total: usize,
    next: u64,
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
    /// Adds a subscription. Fails if the tenant has as many as it may, or if all are in use.
    pub(crate) fn subscribe(
        &self,
        uri: &str,
        tenant: &Tenant,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        let mut state = self.0.state();
        if state.total >= MAX_SUBSCRIPTIONS {
            return Err(RelayError::Busy);
        }
        let own = state.of_tenant.entry(tenant.clone()).or_default();
        if *own >= MAX_TENANT_SUBSCRIPTIONS {
            return Err(RelayError::TooManySubscriptions { limit: MAX_TENANT_SUBSCRIPTIONS });
        }
        *own += 1;
        state.total += 1;
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
            state.total -= 1;
            if let Some(own) = state.of_tenant.get_mut(&tenant) {
                *own -= 1;
                if *own == 0 {
                    state.of_tenant.remove(&tenant);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

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
        assert!(hub.uris().is_empty() && hub.0.state().of_tenant.is_empty());
        assert_eq!(hub.0.state().total, 0);
    }

    #[test]
    fn a_tenant_and_all_together_have_a_bound() {
        let hub = Hub::default();
        let mailbox = Arc::default();
        let subscribe =
            |tenant: &Tenant, n: usize| hub.subscribe(&format!("a://{n}"), tenant, &mailbox, "x");
        let mut held = Vec::new();
        for n in 0..MAX_TENANT_SUBSCRIPTIONS {
            held.push(subscribe(&tenant(0), n).expect("room"));
        }
        let beyond = subscribe(&tenant(0), 0);
        assert!(matches!(beyond, Err(RelayError::TooManySubscriptions { .. })));
        for n in MAX_TENANT_SUBSCRIPTIONS..MAX_SUBSCRIPTIONS {
            let tenant = tenant(1 + n / MAX_TENANT_SUBSCRIPTIONS);
            held.push(subscribe(&tenant, n).expect("room"));
        }
        assert!(matches!(subscribe(&tenant(200), 0), Err(RelayError::Busy)));
        held.pop();
        assert!(subscribe(&tenant(200), 0).is_ok());
    }

    fn tenant(n: usize) -> Tenant {
        Tenant::of_key([u8::try_from(n).expect("few"); 32], "t")
    }
}
