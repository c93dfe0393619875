//! The results of all clients, within one bound on their memory. If a rule is full, or all are, the tenant
//! with most bytes loses the result that it used least recently. So no tenant can displace the results of
//! those that have less.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::time::Instant;

use airlock_core::tool::ToolOutput;

/// Memory for the results of all clients together, in bytes.
const MAX_BYTES: usize = 256 << 20;
/// The rules of a client.
const ALL_RULES: RangeInclusive<usize> = 0..=usize::MAX;
/// Memory of one entry besides its result, in bytes: its keys in the two maps, its times, and the maps if it
/// is the only one of its group.
const ENTRY_BYTES: usize = 1024;

/// A rule of one client, for one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Group {
    pub(super) client: u64,
    pub(super) rule: usize,
    /// Scope of the tenant; zeros if the rule is shared.
    pub(super) tenant: [u8; 32],
}

/// Key of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ResultKey {
    pub(super) group: Group,
    pub(super) digest: [u8; 32],
}

/// A result that is kept.
#[derive(Clone)]
pub(super) struct KeptResult {
    pub(super) output: Arc<ToolOutput>,
    pub(super) kept: Instant,
    pub(super) until: Instant,
}

/// A result to be kept.
pub(super) struct Insertion {
    pub(super) key: ResultKey,
    pub(super) result: KeptResult,
    /// Memory of the result.
    pub(super) bytes: usize,
    /// Memory for all results of its rule.
    pub(super) max_bytes: usize,
}

/// The results of all clients.
pub(crate) struct ResultStore {
    results: Mutex<CachedResults>,
    max_bytes: usize,
    clients: AtomicU64,
}

#[derive(Default)]
struct CachedResults {
    groups: BTreeMap<Group, GroupResults>,
    bytes: usize,
    /// Number of the last use.
    uses: u64,
}

struct CacheEntry {
    result: KeptResult,
    bytes: usize,
    used: u64,
}

/// The results of one rule and tenant. They are apart from those of others, so that all of them can be
/// dropped at once.
#[derive(Default)]
struct GroupResults {
    entries: HashMap<[u8; 32], CacheEntry>,
    /// Digests by their last use.
    order: BTreeMap<u64, [u8; 32]>,
    bytes: usize,
}

impl Default for ResultStore {
    fn default() -> Self {
        Self::new(MAX_BYTES)
    }
}

impl ResultStore {
    /// Creates a store for results of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { results: Mutex::default(), max_bytes, clients: AtomicU64::new(0) }
    }

    /// Returns a number that no other client of the store has.
    pub(super) fn next_client(&self) -> u64 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a result, and counts this as its last use. Drops it if its time has passed.
    pub(super) fn get(&self, key: &ResultKey, now: Instant) -> Option<KeptResult> {
        let mut results = self.results.lock();
        let entry = results.groups.get(&key.group)?.entries.get(&key.digest)?;
        if entry.result.until <= now {
            results.remove(key);
            return None;
        }
        results.touch(key)
    }

    /// Keeps a result in the place of an earlier one. Drops others until it fits. Does nothing if it is too
    /// large.
    pub(super) fn insert(&self, insertion: Insertion) {
        let Insertion { key, result, bytes, max_bytes } = insertion;
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        if bytes > max_bytes.min(self.max_bytes) {
            return;
        }
        let mut results = self.results.lock();
        results.remove(&key);
        let Group { client, rule, .. } = key.group;
        while results.rule_bytes(client, rule) + bytes > max_bytes {
            let Some(first) = first_to_drop(results.groups_of(client, rule..=rule)) else { break };
            results.remove(&first);
        }
        while results.bytes + bytes > self.max_bytes {
            let Some(first) = first_to_drop(results.groups.iter()) else { break };
            results.remove(&first);
        }
        results.add(key, result, bytes);
    }

    /// Drops all results of a client.
    pub(super) fn remove_client(&self, client: u64) {
        let dropped = self.results.lock().take_client(client);
        // There may be many, and calls wait for the lock.
        drop(dropped);
    }

    /// Returns the number of results of a client, and their memory in bytes.
    pub(super) fn usage(&self, client: u64) -> (usize, usize) {
        let results = self.results.lock();
        let groups = results.groups_of(client, ALL_RULES);
        groups.fold((0, 0), |(count, bytes), (_, group)| {
            (count + group.order.len(), bytes + group.bytes)
        })
    }
}

impl CachedResults {
    fn groups_of(
        &self,
        client: u64,
        rules: RangeInclusive<usize>,
    ) -> impl Iterator<Item = (&Group, &GroupResults)> {
        let first = Group { client, rule: *rules.start(), tenant: [0; 32] };
        let last = Group { client, rule: *rules.end(), tenant: [u8::MAX; 32] };
        self.groups.range(first..=last)
    }

    fn rule_bytes(&self, client: u64, rule: usize) -> usize {
        self.groups_of(client, rule..=rule).map(|(_, results)| results.bytes).sum()
    }

    fn take_client(&mut self, client: u64) -> Vec<GroupResults> {
        let groups: Vec<_> = self.groups_of(client, ALL_RULES).map(|(group, _)| *group).collect();
        let taken: Vec<_> = groups.iter().filter_map(|group| self.groups.remove(group)).collect();
        self.bytes -= taken.iter().map(|results| results.bytes).sum::<usize>();
        taken
    }

    fn add(&mut self, key: ResultKey, result: KeptResult, bytes: usize) {
        self.uses += 1;
        let used = self.uses;
        let group = self.groups.entry(key.group).or_default();
        group.order.insert(used, key.digest);
        group.entries.insert(key.digest, CacheEntry { result, bytes, used });
        group.bytes += bytes;
        self.bytes += bytes;
    }

    fn touch(&mut self, key: &ResultKey) -> Option<KeptResult> {
        self.uses += 1;
        let group = self.groups.get_mut(&key.group)?;
        let entry = group.entries.get_mut(&key.digest)?;
        let before = std::mem::replace(&mut entry.used, self.uses);
        group.order.remove(&before);
        group.order.insert(self.uses, key.digest);
        Some(entry.result.clone())
    }

    fn remove(&mut self, key: &ResultKey) {
        let Some(group) = self.groups.get_mut(&key.group) else { return };
        let Some(entry) = group.entries.remove(&key.digest) else { return };
        group.order.remove(&entry.used);
        group.bytes -= entry.bytes;
        self.bytes -= entry.bytes;
        if group.entries.is_empty() {
            self.groups.remove(&key.group);
        }
    }
}

/// Returns the result that is dropped first: of the group with most bytes, the one that was used least
/// recently. Of groups with as many bytes, it is the one whose result was used before.
fn first_to_drop<'g>(
    groups: impl Iterator<Item = (&'g Group, &'g GroupResults)>,
) -> Option<ResultKey> {
    let (group, results) = groups.max_by_key(|(_, results)| {
        (results.bytes, Reverse(results.order.keys().next().copied()))
    })?;
    let digest = *results.order.values().next()?;
    Some(ResultKey { group: *group, digest })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FIRST: Group = Group { client: 1, rule: 0, tenant: [1; 32] };
    const SECOND: Group = Group { client: 1, rule: 1, tenant: [1; 32] };
    const OTHER: Group = Group { client: 2, rule: 0, tenant: [1; 32] };
    /// Memory of a result in these tests, with its entry.
    const SIZE: usize = 100 + ENTRY_BYTES;

    fn key(group: Group, number: u8) -> ResultKey {
        ResultKey { group, digest: [number; 32] }
    }

    fn insert(store: &ResultStore, group: Group, number: u8, max_bytes: usize) {
        let kept = Instant::now();
        let output = Arc::new(ToolOutput::text(number.to_string()));
        let result = KeptResult { output, kept, until: kept + Duration::from_mins(1) };
        store.insert(Insertion { key: key(group, number), result, bytes: 100, max_bytes });
    }

    /// Returns which of the results of a rule are kept, without using them.
    fn kept(store: &ResultStore, group: Group) -> Vec<u8> {
        let results = store.results.lock();
        let Some(group) = results.groups.get(&group) else { return Vec::new() };
        (0..10).filter(|number| group.entries.contains_key(&[*number; 32])).collect()
    }

    #[tokio::test]
    async fn the_result_that_was_used_least_recently_is_dropped_from_a_full_rule() {
        let store = ResultStore::new(usize::MAX);
        for number in 0..3 {
            insert(&store, FIRST, number, 3 * SIZE);
            insert(&store, OTHER, number, 3 * SIZE);
        }
        assert!(store.get(&key(FIRST, 0), Instant::now()).is_some());
        insert(&store, FIRST, 3, 3 * SIZE);
        assert_eq!(kept(&store, FIRST), [0, 2, 3]);
        assert_eq!(kept(&store, OTHER), [0, 1, 2], "another client has its own bound");
        insert(&store, FIRST, 4, SIZE - 1);
        assert_eq!(kept(&store, FIRST), [0, 2, 3], "it alone is too large");
        insert(&store, FIRST, 4, SIZE);
        assert_eq!(kept(&store, FIRST), [4]);
    }

    #[tokio::test]
    async fn a_tenant_displaces_its_own_results_before_those_of_a_tenant_with_less() {
        for (max_bytes, max_of_rule) in [(usize::MAX, 3 * SIZE), (3 * SIZE, usize::MAX)] {
            let store = ResultStore::new(max_bytes);
            let second = Group { tenant: [2; 32], ..FIRST };
            insert(&store, second, 0, max_of_rule);
            for number in 0..6 {
                insert(&store, FIRST, number, max_of_rule);
            }
            assert_eq!((kept(&store, FIRST), kept(&store, second)), (vec![4, 5], vec![0]));
        }
    }

    #[tokio::test]
    async fn all_results_together_are_bounded_whatever_their_clients() {
        let store = ResultStore::new(3 * SIZE);
        insert(&store, FIRST, 0, usize::MAX);
        insert(&store, SECOND, 1, usize::MAX);
        insert(&store, OTHER, 2, usize::MAX);
        assert!(store.get(&key(FIRST, 0), Instant::now()).is_some());
        insert(&store, OTHER, 3, usize::MAX);
        assert_eq!(kept(&store, FIRST), [0]);
        assert_eq!((kept(&store, SECOND), kept(&store, OTHER)), (vec![], vec![2, 3]));
        assert_eq!((store.usage(1), store.usage(2)), ((1, SIZE), (2, 2 * SIZE)));
        store.remove_client(2);
        assert_eq!((store.usage(1), store.usage(2)), ((1, SIZE), (0, 0)));
        store.remove_client(1);
        let results = store.results.lock();
        assert!(results.groups.is_empty() && results.bytes == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_used_until_its_time_has_passed() {
        let store = ResultStore::new(usize::MAX);
        insert(&store, FIRST, 0, usize::MAX);
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert!(
            store.get(&key(FIRST, 0), Instant::now()).is_some(),
            "using it does not prolong it"
        );
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(store.get(&key(FIRST, 0), Instant::now()).is_none());
        assert_eq!(store.usage(1), (0, 0));
    }
}
