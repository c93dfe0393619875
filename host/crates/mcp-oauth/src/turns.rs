//! Turns of work that may run a few times at once for each key.

use std::{collections::HashMap, hash::Hash};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Work that runs now, counted by its key. It has an entry for each running key only.
pub(crate) struct Turns<K> {
    /// Maximum turns of one key at the same time.
    limit: usize,
    running: Mutex<HashMap<K, usize>>,
    ended: Notify,
}

/// One turn, until it is dropped.
pub(crate) struct Turn<'t, K: Hash + Eq> {
    turns: &'t Turns<K>,
    key: K,
}

impl<K: Hash + Eq + Clone> Turns<K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, running: Mutex::default(), ended: Notify::new() }
    }

    /// Waits for a turn of a key. Turns of other keys do not delay it. The caller bounds the wait;
    /// dropping the future gives up the place.
    pub(crate) async fn take(&self, key: &K) -> Turn<'_, K> {
        loop {
            // Before the look: a turn that ends between the two wakes this one.
            let ended = self.ended.notified();
            if let Some(turn) = self.try_take(key) {
                return turn;
            }
            ended.await;
        }
    }

    fn try_take(&self, key: &K) -> Option<Turn<'_, K>> {
        let mut running = self.running.lock();
        let count = running.get(key).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        running.insert(key.clone(), count + 1);
        Some(Turn { turns: self, key: key.clone() })
    }
}

impl<K: Hash + Eq> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        let mut running = self.turns.running.lock();
        if let Some(count) = running.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.key);
            }
        }
        drop(running);
        self.turns.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_key_has_as_many_turns_as_permitted_and_delays_no_other_key() {
        let turns = Turns::new(2);
        let first = turns.take(&"a").now_or_never().expect("free");
        let second = turns.take(&"a").now_or_never().expect("free");
        let mut third = Box::pin(turns.take(&"a"));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(turns.take(&"b").now_or_never().is_some());
        drop(first);
        let third = third.now_or_never().expect("one has ended");
        drop((second, third));
        assert!(turns.running.lock().is_empty());
    }
}
