//! Requests that wait for the answers of their callers.
//!
//! A caller names its request with a random token, which is valid once. The token alone is no
//! authority: the tenant and the request must be the same.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use crate::limits::MAX_TENANT_PARKED;
use airlock_core::{replica::ReplicaId, tenant::Tenant};
use airlock_mcp_client::{MAX_PARKED, Refused, ResumedRequest};

/// Sender and contents of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    tenant: Tenant,
    request: blake3::Hash,
}

impl Bound {
    /// Creates the binding to a request, all of whose `parts` must be the same later.
    pub(crate) fn new(tenant: &Tenant, parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&part.len().to_be_bytes()).update(part.as_bytes());
        }
        Self { tenant: tenant.clone(), request: hasher.finalize() }
    }
}

/// A request that waits for answers.
pub(crate) enum ParkedRequest<C, A> {
    /// A running call.
    Running(C),
    /// A request that is sent once more.
    Retry {
        again: ResumedRequest,
        /// The instance that has asked; `None` if it does not matter which one gets the answers.
        asker: Option<A>,
    },
    /// A call that was not sent, because its user has to log in.
    Login {
        /// Session of the login that is of no use; `None` if the user has none.
        refused: Option<String>,
    },
}

/// Requests of one server that wait for answers. `C` is a running call, and `A` an instance that has asked.
pub(crate) struct Parked<C, A> {
    entries: Arc<Mutex<ParkedEntries<C, A>>>,
    runtime: Handle,
}

/// Requests by their tokens.
type ParkedEntries<C, A> = HashMap<String, ParkedEntry<C, A>>;

struct ParkedEntry<C, A> {
    bound: Bound,
    request: ParkedRequest<C, A>,
    until: Instant,
    /// Removes the entry when its time has passed.
    _expiry: AbortOnDropHandle<()>,
}

impl<C: Send + 'static, A: Send + 'static> Parked<C, A> {
    /// Creates the table. Its timers run on `runtime`.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { entries: Arc::default(), runtime }
    }

    /// Keeps what waits until an instant, and returns its token. The oldest one of a tenant that has
    /// too many ends; if all tenants together have too many, that of the tenant with most. Fails, and
    /// returns what waits, if no tenant has more than this one would.
    pub(crate) fn park(
        &self,
        bound: Bound,
        request: ParkedRequest<C, A>,
        until: Instant,
    ) -> Result<String, (Refused, ParkedRequest<C, A>)> {
        let token = ReplicaId::handle().simple().to_string();
        let mut entries = self.entries.lock();
        let mut counts = HashMap::<&Tenant, usize>::new();
        for entry in entries.values() {
            *counts.entry(&entry.bound.tenant).or_default() += 1;
        }
        let own = counts.get(&bound.tenant).copied().unwrap_or_default();
        let largest = counts.into_iter().max_by_key(|(_, count)| *count);
        let loser = match largest {
            _ if own >= MAX_TENANT_PARKED => Some(bound.tenant.clone()),
            _ if entries.len() < MAX_PARKED => None,
            Some((tenant, count)) if count > own + 1 => Some(tenant.clone()),
            _ => return Err((Refused::Full, request)),
        };
        let ended = loser.and_then(|loser| {
            let of_loser = entries.iter().filter(|(_, entry)| entry.bound.tenant == loser);
            let oldest = of_loser.min_by_key(|(_, entry)| entry.until)?.0.clone();
            entries.remove(&oldest)
        });
        let table = Arc::downgrade(&self.entries);
        let own = token.clone();
        let expiry = AbortOnDropHandle::new(self.runtime.spawn(async move {
            sleep_until(until).await;
            if let Some(table) = table.upgrade() {
                let expired = table.lock().remove(&own);
                drop(expired);
            }
        }));
        entries.insert(token.clone(), ParkedEntry { bound, request, until, _expiry: expiry });
        drop(entries);
        drop(ended);
        Ok(token)
    }

    /// Ends what waits under a token, because its caller has left.
    pub(crate) fn forget(&self, token: &str) {
        let forgotten = self.entries.lock().remove(token);
        drop(forgotten);
    }

    /// Takes what waits under a token; `None` if nothing does, or if it belongs to another request.
    pub(crate) fn take(&self, token: &str, bound: &Bound) -> Option<ParkedRequest<C, A>> {
        let mut entries = self.entries.lock();
        if entries.get(token)?.bound != *bound {
            return None;
        }
        entries.remove(token).map(|entry| entry.request)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LATER: Duration = Duration::from_mins(1);

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "name")
    }

    fn bound(number: u8) -> Bound {
        Bound::new(&tenant(number), &["tool", "{}"])
    }

    #[tokio::test]
    async fn a_token_is_valid_once_and_for_its_own_request_alone() {
        let parked = Parked::<_, ()>::new(Handle::current());
        let park = || {
            parked
                .park(bound(1), ParkedRequest::Running(7), Instant::now() + LATER)
                .ok()
                .expect("room")
        };
        let token = park();
        for other in [
            bound(2),
            Bound::new(&tenant(1), &["tool", "{ }"]),
            Bound::new(&tenant(1), &["tool{", "}"]),
        ] {
            assert!(parked.take(&token, &other).is_none());
        }
        assert!(parked.take(&park(), &bound(1)).is_some());
        assert!(matches!(parked.take(&token, &bound(1)), Some(ParkedRequest::Running(7))));
        assert!(parked.take(&token, &bound(1)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_a_tenant_ends_for_a_new_one_and_tenants_share_what_there_is() {
        let parked = Parked::<_, ()>::new(Handle::current());
        let mut number = 0;
        let mut park = |tenant: u8| {
            number += 1;
            let until = Instant::now() + LATER + Duration::from_millis(number);
            parked.park(bound(tenant), ParkedRequest::Running(()), until).ok()
        };
        let tokens: Vec<_> = (0..=MAX_TENANT_PARKED).map(|_| park(0).expect("room")).collect();
        assert!(parked.take(&tokens[0], &bound(0)).is_none(), "the oldest has ended");
        assert!(tokens[1..].iter().all(|token| parked.take(token, &bound(0)).is_some()));
        let tenants = u8::try_from(MAX_PARKED / MAX_TENANT_PARKED).expect("few");
        for tenant in 0..tenants {
            assert!((0..MAX_TENANT_PARKED).all(|_| park(tenant).is_some()));
        }
        let count = |tenant: u8| {
            let entries = parked.entries.lock();
            entries.values().filter(|entry| entry.bound.tenant == self::tenant(tenant)).count()
        };
        let new = tenants;
        for number in 1..MAX_TENANT_PARKED {
            assert!(park(new).is_some(), "others have more");
            let all = parked.entries.lock().len();
            assert_eq!((all, count(new)), (MAX_PARKED, number));
        }
        assert!(park(new).is_none(), "no other tenant would have more than it");
        let full = (0..tenants).find(|tenant| count(*tenant) == MAX_TENANT_PARKED);
        assert!(park(full.expect("one lost none")).is_some(), "it replaces one of its own");
        assert!((0..tenants).all(|tenant| count(tenant) >= MAX_TENANT_PARKED - 1));
    }

    #[tokio::test]
    async fn what_is_forgotten_ends() {
        let parked = Parked::<_, ()>::new(Handle::current());
        let kept = Arc::new(());
        let request = ParkedRequest::Running(kept.clone());
        let token = parked.park(bound(1), request, Instant::now() + LATER).ok().expect("room");
        parked.forget("another");
        assert_eq!(Arc::strong_count(&kept), 2);
        parked.forget(&token);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_answers_expires() {
        let parked = Parked::<_, ()>::new(Handle::current());
        let kept = Arc::new(());
        let request = ParkedRequest::Running(kept.clone());
        let token = parked.park(bound(1), request, Instant::now() + LATER).ok().expect("room");
        tokio::time::sleep(LATER / 2).await;
        assert_eq!(Arc::strong_count(&kept), 2);
        tokio::time::sleep(LATER).await;
        assert_eq!(Arc::strong_count(&kept), 1, "it was dropped");
        assert!(parked.take(&token, &bound(1)).is_none());
    }
}
