//! The results of all clients, within one bound on their memory. If a rule is full, or all are, the tenant
//! with most bytes loses the result that it used least recently. So no tenant can displace the results of
//! those that have less.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, hash_map},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::time::Instant;

use airlock_core::tool::ToolOutput;

/// Memory for the results of all clients together, in bytes. A rule has 16 MiB unless its `max_bytes` says otherwise, and
/// a configuration may have any number of rules.
const MAX_BYTES: usize = 256 << 20;
/// Memory of one entry besides its result, in bytes: its keys in the two maps, its times, and the maps and the
/// ranks if it is the only one of its group.
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
    /// All groups, in the order in which they lose results.
    ranks: BTreeSet<Rank>,
    /// By client and number of the rule.
    rules: HashMap<(u64, usize), RuleResults>,
    bytes: usize,
    /// Number of the last use.
    uses: u64,
}

/// Place of a group among those that lose results; the greatest loses the next one. It is the group with
/// most bytes, and of groups with as many, the one whose result was used least recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    bytes: usize,
    /// Number of the use of the result that the group used least recently.
    oldest: Reverse<u64>,
    group: Group,
}

/// The results of one rule, of all tenants.
#[derive(Default)]
struct RuleResults {
    ranks: BTreeSet<Rank>,
    bytes: usize,
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
        while let Some(own) = results.rules.get(&(client, rule))
            && own.bytes + bytes > max_bytes
        {
            let Some(first) = results.first_to_drop(&own.ranks) else { break };
            results.remove(&first);
        }
        while results.bytes + bytes > self.max_bytes {
            let Some(first) = results.first_to_drop(&results.ranks) else { break };
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
        let groups = results.groups_of(client);
        groups.fold((0, 0), |(count, bytes), (_, group)| {
            (count + group.order.len(), bytes + group.bytes)
        })
    }
}

impl CachedResults {
    fn groups_of(&self, client: u64) -> impl Iterator<Item = (&Group, &GroupResults)> {
        let first = Group { client, rule: 0, tenant: [0; 32] };
        let last = Group { client, rule: usize::MAX, tenant: [u8::MAX; 32] };
        self.groups.range(first..=last)
    }

    /// Returns the result that is dropped first of the groups with these ranks.
    fn first_to_drop(&self, ranks: &BTreeSet<Rank>) -> Option<ResultKey> {
        let group = ranks.last()?.group;
        let digest = *self.groups.get(&group)?.order.values().next()?;
        Some(ResultKey { group, digest })
    }

    fn take_client(&mut self, client: u64) -> Vec<GroupResults> {
        let groups: Vec<_> = self.groups_of(client).map(|(group, _)| *group).collect();
        groups.iter().filter_map(|group| self.take(group)).collect()
    }

    /// Takes a group out, with its rank; `None` if there is none.
    fn take(&mut self, group: &Group) -> Option<GroupResults> {
        let taken = self.groups.remove(group)?;
        self.bytes -= taken.bytes;
        let Some(rank) = taken.rank(group) else { return Some(taken) };
        self.ranks.remove(&rank);
        if let hash_map::Entry::Occupied(mut rule) = self.rules.entry((group.client, group.rule)) {
            rule.get_mut().ranks.remove(&rank);
            rule.get_mut().bytes -= taken.bytes;
            if rule.get().ranks.is_empty() {
                rule.remove();
            }
        }
        Some(taken)
    }

    /// Puts a group back, with its new rank. An empty one is dropped.
    fn put(&mut self, group: Group, results: GroupResults) {
        let Some(rank) = results.rank(&group) else { return };
        self.bytes += results.bytes;
        self.ranks.insert(rank);
        let rule = self.rules.entry((group.client, group.rule)).or_default();
        rule.ranks.insert(rank);
        rule.bytes += results.bytes;
        self.groups.insert(group, results);
    }

    fn add(&mut self, key: ResultKey, result: KeptResult, bytes: usize) {
        self.uses += 1;
        let used = self.uses;
        let mut group = self.take(&key.group).unwrap_or_default();
        group.order.insert(used, key.digest);
        group.entries.insert(key.digest, CacheEntry { result, bytes, used });
        group.bytes += bytes;
        self.put(key.group, group);
    }

    fn touch(&mut self, key: &ResultKey) -> Option<KeptResult> {
        self.uses += 1;
        let mut group = self.take(&key.group)?;
        let found = group.touch(&key.digest, self.uses);
        self.put(key.group, group);
        found
    }

    fn remove(&mut self, key: &ResultKey) {
        let Some(mut group) = self.take(&key.group) else { return };
        if let Some(entry) = group.entries.remove(&key.digest) {
            group.order.remove(&entry.used);
            group.bytes -= entry.bytes;
        }
        self.put(key.group, group);
    }
}

impl GroupResults {
    /// Returns the place of the group; `None` if it is empty.
    fn rank(&self, group: &Group) -> Option<Rank> {
        let oldest = Reverse(*self.order.keys().next()?);
        Some(Rank { bytes: self.bytes, oldest, group: *group })
    }

    /// Returns a result, and makes `used` the number of its last use.
    fn touch(&mut self, digest: &[u8; 32], used: u64) -> Option<KeptResult> {
        let entry = self.entries.get_mut(digest)?;
        let before = std::mem::replace(&mut entry.used, used);
        self.order.remove(&before);
        self.order.insert(used, *digest);
        Some(entry.result.clone())
    }
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

    #[tokio::test]
    async fn the_ranks_of_the_groups_follow_each_use_and_each_end_of_a_result() {
        let store = ResultStore::new(40 * SIZE);
        let tenants = (0..5).map(|number| Group { tenant: [number; 32], ..FIRST });
        let groups: Vec<_> = tenants.chain([SECOND, OTHER]).collect();
        for step in 0..200_usize {
            let group = groups[step * 5 / 3 % groups.len()];
            let number = u8::try_from(step * 7 % 13).expect("small");
            if step % 3 == 0 {
                store.get(&key(group, number), Instant::now());
            } else {
                insert(&store, group, number, 20 * SIZE);
            }
            if step % 61 == 60 {
                store.remove_client(group.client);
            }
            check_ranks(&store);
        }
    }

    /// Checks that the ranks and the sums are those of the groups.
    fn check_ranks(store: &ResultStore) {
        let results = store.results.lock();
        let mut ranks = BTreeSet::new();
        let mut rules = HashMap::<_, RuleResults>::new();
        for (group, own) in &results.groups {
            let rank = own.rank(group).expect("no group is empty");
            assert_eq!(own.bytes, own.entries.values().map(|entry| entry.bytes).sum::<usize>());
            ranks.insert(rank);
            let rule = rules.entry((group.client, group.rule)).or_default();
            rule.ranks.insert(rank);
            rule.bytes += rank.bytes;
        }
        assert_eq!(results.ranks, ranks);
        assert_eq!(results.bytes, ranks.iter().map(|rank| rank.bytes).sum::<usize>());
        assert_eq!(results.rules.len(), rules.len());
        for (rule, own) in &rules {
            let kept = &results.rules[rule];
            assert_eq!((&kept.ranks, kept.bytes), (&own.ranks, own.bytes));
        }
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
