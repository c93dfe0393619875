//! Entries in memory, kept by tenant until they expire: large results, and unchanged ones for
//! programs, by their handles.
//!
//! They end with the process. A handle is a random number, and opens a result for the tenant alone
//! that the result was kept for.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::provenance::Provenance;
use airlock_core::{replica::ReplicaId, tenant::Tenant};

/// Maximum number of kept entries. One tenant gets at most half of them. Each removal looks at the
/// keys of its tenant, so the removal of all takes at most 260,000 steps.
const MAX_COUNT: usize = 1_024;
/// Memory of a kept entry beside its text, in bytes.
const FRAME_BYTES: usize = 512;
/// Prefix of a handle.
const PREFIX: &str = "content_";

/// Entries of all tenants in memory, by default large results, each until it expires.
pub(crate) struct ResultStore<K = ResultHandle, E = StoredResult> {
    state: Mutex<StoreState<K, E>>,
}

/// Identifier of a kept result. It cannot be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ResultHandle(Uuid);

/// A kept result.
#[derive(Debug, Clone)]
pub(crate) enum StoredResult {
    /// The text of a result, for models.
    Text {
        /// The server that sent it.
        provenance: Provenance,
        /// The whole text.
        text: Arc<str>,
    },
    /// A result as JSON text, for programs.
    Raw(Arc<str>),
}

struct StoreState<K, E> {
    expire_after: Duration,
    /// Maximum size of all entries, in bytes.
    total_bytes: usize,
    entries: HashMap<K, StoreSlot<E>>,
    /// Keys of each tenant with entries, the oldest first. All entries live equally long.
    tenants: HashMap<Tenant, TenantShare<K>>,
    bytes: usize,
}

struct StoreSlot<E> {
    tenant: Tenant,
    entry: E,
    bytes: usize,
}

struct TenantShare<K> {
    keys: VecDeque<(K, Instant)>,
    bytes: usize,
}

impl ResultStore {
    /// Keeps a result and evicts what has no room beside it. `None` if it is larger than a tenant's
    /// share.
    pub(super) fn put(&self, tenant: &Tenant, entry: StoredResult) -> Option<ResultHandle> {
        let handle = ResultHandle(ReplicaId::handle());
        let bytes = entry.bytes();
        self.insert(tenant, handle, entry, bytes).then_some(handle)
    }

    /// Returns a result; `None` if there is none with this handle, or if it expired or is another
    /// tenant's. All three look the same.
    pub(super) fn get(&self, tenant: &Tenant, handle: &str) -> Option<StoredResult> {
        self.find(tenant, &handle.parse().ok()?)
    }
}

impl StoredResult {
    /// Length of the text, in bytes.
    fn bytes(&self) -> usize {
        let (Self::Text { text, .. } | Self::Raw(text)) = self;
        text.len()
    }
}

impl<K: Copy + Eq + Hash, E: Clone> ResultStore<K, E> {
    /// Creates the place for entries of at most `total_bytes` together.
    pub(crate) fn new(expire_after: Duration, total_bytes: usize) -> Self {
        Self {
            state: Mutex::new(StoreState {
                expire_after,
                total_bytes,
                entries: HashMap::new(),
                tenants: HashMap::new(),
                bytes: 0,
            }),
        }
    }

    /// Changes the bounds. Entries that live longer than a new one would expire with it, so that the
    /// oldest of a tenant stays the first that expires. What has no room any more is evicted.
    pub(crate) fn set_bounds(&self, expire_after: Duration, total_bytes: usize) {
        let mut state = self.state.lock();
        state.expire_after = expire_after;
        state.total_bytes = total_bytes;
        let now = Instant::now();
        let latest = now + expire_after;
        for share in state.tenants.values_mut() {
            for (_, end) in &mut share.keys {
                *end = latest.min(*end);
            }
        }
        state.expire(now);
        while let Some(tenant) = state.over_bounds() {
            state.evict_oldest(&tenant);
        }
    }

    /// Keeps an entry of `bytes`, in the place of one with the same key, and evicts what has no room
    /// beside it: the tenant's own oldest entries, then those of the tenant that has the most.
    /// Returns false if it is larger than a tenant's share.
    pub(crate) fn insert(&self, tenant: &Tenant, key: K, entry: E, bytes: usize) -> bool {
        let bytes = bytes + FRAME_BYTES;
        let now = Instant::now();
        let mut state = self.state.lock();
        let total_bytes = state.total_bytes;
        if bytes > total_bytes / 2 {
            return false;
        }
        state.expire(now);
        state.remove(&key);
        while state.has_over(tenant, total_bytes / 2 - bytes, MAX_COUNT / 2 - 1) {
            state.evict_oldest(tenant);
        }
        while state.bytes > total_bytes - bytes || state.entries.len() >= MAX_COUNT {
            let Some(largest) = state.largest() else { break };
            state.evict_oldest(&largest);
        }
        state.entries.insert(key, StoreSlot { tenant: tenant.clone(), entry, bytes });
        state.bytes += bytes;
        let end = now + state.expire_after;
        let share = state.tenants.entry(tenant.clone());
        let share = share.or_insert_with(|| TenantShare { keys: VecDeque::new(), bytes: 0 });
        share.bytes += bytes;
        share.keys.push_back((key, end));
        true
    }

    /// Returns an entry; `None` if there is none with this key, or if it expired or is another
    /// tenant's.
    pub(crate) fn find(&self, tenant: &Tenant, key: &K) -> Option<E> {
        let mut state = self.state.lock();
        state.expire(Instant::now());
        let slot = state.entries.get(key)?;
        (slot.tenant == *tenant).then(|| slot.entry.clone())
    }
}

impl<K: Copy + Eq + Hash, E> StoreState<K, E> {
    /// Removes the entries that expired.
    fn expire(&mut self, now: Instant) {
        let expired: Vec<Tenant> = self
            .tenants
            .iter()
            .filter(|(_, share)| share.has_expired(now))
            .map(|(tenant, _)| tenant.clone())
            .collect();
        for tenant in expired {
            while self.tenants.get(&tenant).is_some_and(|share| share.has_expired(now)) {
                self.evict_oldest(&tenant);
            }
        }
    }

    fn has_over(&self, tenant: &Tenant, bytes: usize, count: usize) -> bool {
        let share = self.tenants.get(tenant);
        share.is_some_and(|share| share.bytes > bytes || share.keys.len() > count)
    }

    /// Returns the tenant with the most bytes; `None` if nothing is kept.
    fn largest(&self) -> Option<Tenant> {
        let largest = self.tenants.iter().max_by_key(|(_, share)| share.bytes);
        largest.map(|(tenant, _)| tenant.clone())
    }

    /// Returns a tenant that has more than its share, or the one that has the most of too many bytes;
    /// `None` if all is within the bounds.
    fn over_bounds(&self) -> Option<Tenant> {
        let most = self.total_bytes / 2;
        let tenant = self.largest()?;
        let has_too_much = self.tenants.get(&tenant).is_some_and(|share| share.bytes > most);
        (has_too_much || self.bytes > self.total_bytes).then_some(tenant)
    }

    /// Removes the oldest entry of a tenant.
    fn evict_oldest(&mut self, tenant: &Tenant) {
        let oldest = self.tenants.get(tenant).and_then(|share| share.keys.front());
        match oldest.map(|(key, _)| *key) {
            Some(key) => self.remove(&key),
            None => drop(self.tenants.remove(tenant)),
        }
    }

    /// Removes an entry, and its tenant after its last one.
    fn remove(&mut self, key: &K) {
        let Some(StoreSlot { tenant, bytes, .. }) = self.entries.remove(key) else { return };
        self.bytes -= bytes;
        let Some(share) = self.tenants.get_mut(&tenant) else { return };
        share.bytes -= bytes;
        share.keys.retain(|(own, _)| own != key);
        if share.keys.is_empty() {
            self.tenants.remove(&tenant);
        }
    }
}

impl<K> TenantShare<K> {
    /// Returns whether the oldest entry has expired.
    fn has_expired(&self, now: Instant) -> bool {
        self.keys.front().is_some_and(|(_, end)| *end <= now)
    }
}

impl<K, E> fmt::Debug for ResultStore<K, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultStore")
            .field("total_bytes", &self.state.lock().total_bytes)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ResultHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0.simple())
    }
}

/// Error: a text is no handle.
#[derive(Debug)]
pub(crate) struct NoHandle;

impl FromStr for ResultHandle {
    type Err = NoHandle;

    fn from_str(text: &str) -> Result<Self, NoHandle> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 32);
        digits.and_then(|digits| Uuid::try_parse(digits).ok()).map(Self).ok_or(NoHandle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::tool::{ClientName, Trust};

    const EXPIRE_AFTER: Duration = Duration::from_mins(1);
    /// Size of the results of these tests with their frame, in bytes.
    const SIZE: usize = 1_024;

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "name")
    }

    fn put(kept: &ResultStore, of: u8, size: usize) -> Option<String> {
        let server = ClientName::parse("s").expect("a good name");
        let provenance = Provenance::new(server, Trust::Untrusted);
        let entry = StoredResult::Text { provenance, text: "x".repeat(size - FRAME_BYTES).into() };
        kept.put(&tenant(of), entry).map(|handle| handle.to_string())
    }

    fn held(kept: &ResultStore, of: u8, handles: &[String]) -> Vec<bool> {
        handles.iter().map(|handle| kept.get(&tenant(of), handle).is_some()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn tighter_bounds_evict_and_expire_what_is_kept_already() {
        let kept = ResultStore::<ResultHandle, StoredResult>::new(EXPIRE_AFTER, 8 * SIZE);
        let of_one = [(); 3].map(|()| put(&kept, 1, SIZE).expect("it fits"));
        let of_two = [(); 2].map(|()| put(&kept, 2, SIZE).expect("it fits"));
        kept.set_bounds(EXPIRE_AFTER, 4 * SIZE);
        assert_eq!(held(&kept, 1, &of_one), [false, true, true]);
        assert_eq!(held(&kept, 2, &of_two), [true, true]);
        kept.set_bounds(Duration::from_secs(1), 4 * SIZE);
        let new = [put(&kept, 3, SIZE).expect("it fits")];
        kept.set_bounds(EXPIRE_AFTER, 4 * SIZE);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(held(&kept, 3, &new), [false], "a longer time is that of later entries");
        assert_eq!(held(&kept, 2, &of_two), [false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_read_by_its_own_tenant_until_it_expires() {
        let kept = ResultStore::<ResultHandle, StoredResult>::new(EXPIRE_AFTER, 8 * SIZE);
        let handle = put(&kept, 1, SIZE).expect("it fits");
        assert_eq!(kept.get(&tenant(1), &handle).expect("kept").bytes(), SIZE - FRAME_BYTES);
        assert!(kept.get(&tenant(2), &handle).is_none());
        assert!(kept.get(&Tenant::ANONYMOUS, &handle).is_none());
        for odd in
            ["", "content_", &handle[1..], &format!("{handle}0"), &handle.replace("content_", "")]
        {
            assert!(kept.get(&tenant(1), odd).is_none(), "{odd}");
        }
        tokio::time::advance(EXPIRE_AFTER.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert!(kept.get(&tenant(1), &handle).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(kept.get(&tenant(1), &handle).is_none());
        assert_eq!(kept.state.lock().bytes, 0);
    }

    #[tokio::test]
    async fn a_tenant_gets_half_of_the_bytes_and_evicts_its_own_oldest_results() {
        let kept = ResultStore::<ResultHandle, StoredResult>::new(EXPIRE_AFTER, 8 * SIZE);
        assert!(put(&kept, 1, 4 * SIZE + 1).is_none(), "more than half");
        let other = [put(&kept, 2, SIZE).expect("it fits")];
        let own: Vec<_> = (0..5).map(|_| put(&kept, 1, SIZE).expect("it fits")).collect();
        assert_eq!(held(&kept, 1, &own), [false, true, true, true, true]);
        assert_eq!(held(&kept, 2, &other), [true]);
        assert!(put(&kept, 1, 4 * SIZE).is_some(), "exactly half");
        assert_eq!(held(&kept, 1, &own), [false; 5]);
    }

    #[tokio::test]
    async fn a_full_store_evicts_the_oldest_result_of_the_tenant_with_the_most() {
        let kept = ResultStore::<ResultHandle, StoredResult>::new(EXPIRE_AFTER, 8 * SIZE);
        let first: Vec<_> = (0..2).map(|_| put(&kept, 1, SIZE).expect("it fits")).collect();
        let most: Vec<_> = (0..4).map(|_| put(&kept, 2, SIZE).expect("it fits")).collect();
        let last: Vec<_> = (0..3).map(|_| put(&kept, 3, SIZE).expect("it fits")).collect();
        assert_eq!(held(&kept, 1, &first), [true; 2]);
        assert_eq!(held(&kept, 2, &most), [false, true, true, true]);
        assert_eq!(held(&kept, 3, &last), [true; 3]);
    }

    #[tokio::test]
    async fn the_number_of_results_is_bounded_for_a_tenant_and_in_all() {
        let kept = ResultStore::<ResultHandle, StoredResult>::new(EXPIRE_AFTER, 1 << 30);
        for of in [1, 2, 3] {
            for _ in 0..=MAX_COUNT / 2 {
                assert!(put(&kept, of, SIZE).is_some());
            }
            let state = kept.state.lock();
            let own = state.tenants[&tenant(of)].keys.len();
            assert!(own <= MAX_COUNT / 2 && state.entries.len() <= MAX_COUNT);
            // The third tenant gets room from the two others until all have the same.
            assert_eq!(own, if of < 3 { MAX_COUNT / 2 } else { MAX_COUNT.div_ceil(3) });
        }
        let state = kept.state.lock();
        assert_eq!(state.bytes, SIZE * state.entries.len());
    }
}
