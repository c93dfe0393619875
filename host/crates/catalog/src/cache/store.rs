//! The results of all clients, within one bound on their memory. Of the results that were used least
//! recently, the first is dropped: in its rule if that is full, else in all.

use std::{
    collections::{BTreeMap, HashMap},
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
/// Memory of one entry besides its result, in bytes: its keys in the three maps, and its times.
const ENTRY_BYTES: usize = 512;

/// A rule of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Group {
    pub(super) client: u64,
    pub(super) rule: usize,
}

/// Key of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
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
    pub(super) key: Key,
    pub(super) result: KeptResult,
    /// Memory of the result.
    pub(super) bytes: usize,
    /// Memory for all results of its rule.
    pub(super) max_bytes: usize,
}

/// The results of all clients.
pub(crate) struct ResultStore {
    results: Mutex<Results>,
    max_bytes: usize,
    clients: AtomicU64,
}

#[derive(Default)]
struct Results {
    entries: HashMap<Key, Entry>,
    /// Keys by their last use.
    order: BTreeMap<u64, Key>,
    groups: BTreeMap<Group, GroupResults>,
    bytes: usize,
    /// Number of the last use.
    uses: u64,
}

struct Entry {
    result: KeptResult,
    bytes: usize,
    used: u64,
}

#[derive(Default)]
struct GroupResults {
    order: BTreeMap<u64, Key>,
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
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<KeptResult> {
        let mut results = self.results.lock();
        let entry = results.entries.get(key)?;
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
        while results.group_bytes(key.group) + bytes > max_bytes {
            let Some(oldest) = results.oldest_of(key.group) else { break };
            results.remove(&oldest);
        }
        while results.bytes + bytes > self.max_bytes {
            let Some(oldest) = results.order.values().next().copied() else { break };
            results.remove(&oldest);
        }
        results.add(key, result, bytes);
    }

    /// Drops all results of a client.
    pub(super) fn remove_client(&self, client: u64) {
        let mut results = self.results.lock();
        let groups: Vec<_> = results.groups_of(client).map(|(group, _)| *group).collect();
        for group in groups {
            while let Some(key) = results.oldest_of(group) {
                results.remove(&key);
            }
        }
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

impl Results {
    fn groups_of(&self, client: u64) -> impl Iterator<Item = (&Group, &GroupResults)> {
        let first = Group { client, rule: 0 };
        self.groups.range(first..=Group { client, rule: usize::MAX })
    }

    fn group_bytes(&self, group: Group) -> usize {
        self.groups.get(&group).map_or(0, |group| group.bytes)
    }

    fn oldest_of(&self, group: Group) -> Option<Key> {
        self.groups.get(&group)?.order.values().next().copied()
    }

    fn add(&mut self, key: Key, result: KeptResult, bytes: usize) {
        self.uses += 1;
        let used = self.uses;
        self.order.insert(used, key);
        let group = self.groups.entry(key.group).or_default();
        group.order.insert(used, key);
        group.bytes += bytes;
        self.bytes += bytes;
        self.entries.insert(key, Entry { result, bytes, used });
    }

    fn touch(&mut self, key: &Key) -> Option<KeptResult> {
        self.uses += 1;
        let used = self.uses;
        let entry = self.entries.get_mut(key)?;
        let before = std::mem::replace(&mut entry.used, used);
        let result = entry.result.clone();
        self.order.remove(&before);
        self.order.insert(used, *key);
        let group = self.groups.entry(key.group).or_default();
        group.order.remove(&before);
        group.order.insert(used, *key);
        Some(result)
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.order.remove(&entry.used);
        self.bytes -= entry.bytes;
        if let Some(group) = self.groups.get_mut(&key.group) {
            group.order.remove(&entry.used);
            group.bytes -= entry.bytes;
            if group.order.is_empty() {
                self.groups.remove(&key.group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FIRST: Group = Group { client: 1, rule: 0 };
    const SECOND: Group = Group { client: 1, rule: 1 };
    const OTHER: Group = Group { client: 2, rule: 0 };
    /// Memory of a result in these tests, with its entry.
    const SIZE: usize = 100 + ENTRY_BYTES;

    fn key(group: Group, number: u8) -> Key {
        Key { group, digest: [number; 32] }
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
        (0..10).filter(|number| results.entries.contains_key(&key(group, *number))).collect()
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
        assert!(results.entries.is_empty() && results.order.is_empty());
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
