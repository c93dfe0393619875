//! Permits for work that may run a few times at once for each key.

use std::{collections::HashMap, hash::Hash};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Work that runs now, counted by its key. It has an entry for each running key only.
pub(crate) struct KeyedPermits<K> {
    /// Maximum permits of one key at the same time.
    limit: usize,
    running: Mutex<HashMap<K, usize>>,
    ended: Notify,
}

/// One permit, until it is dropped.
pub(crate) struct KeyedPermit<'t, K: Hash + Eq> {
    permits: &'t KeyedPermits<K>,
    key: K,
}

impl<K: Hash + Eq + Clone> KeyedPermits<K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, running: Mutex::default(), ended: Notify::new() }
    }

    /// Waits for a permit of a key. Permits of other keys do not delay it. The caller bounds the wait;
    /// dropping the future gives up the place.
    pub(crate) async fn take(&self, key: &K) -> KeyedPermit<'_, K> {
        loop {
            // Before the look: a permit that is dropped between the two wakes this one.
            let ended = self.ended.notified();
            if let Some(permit) = self.try_take(key) {
                return permit;
            }
            ended.await;
        }
    }

    fn try_take(&self, key: &K) -> Option<KeyedPermit<'_, K>> {
        let mut running = self.running.lock();
        let count = running.get(key).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        running.insert(key.clone(), count + 1);
        Some(KeyedPermit { permits: self, key: key.clone() })
    }
}

impl<K: Hash + Eq> Drop for KeyedPermit<'_, K> {
    fn drop(&mut self) {
        let mut running = self.permits.running.lock();
        if let Some(count) = running.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.key);
            }
        }
        drop(running);
        self.permits.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_key_has_as_many_permits_as_its_limit_and_delays_no_other_key() {
        let permits = KeyedPermits::new(2);
        let first = permits.take(&"a").now_or_never().expect("free");
        let second = permits.take(&"a").now_or_never().expect("free");
        let mut third = Box::pin(permits.take(&"a"));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(permits.take(&"b").now_or_never().is_some());
        drop(first);
        let third = third.now_or_never().expect("one has ended");
        drop((second, third));
        assert!(permits.running.lock().is_empty());
    }
}
