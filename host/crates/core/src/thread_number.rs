//! Numbers of threads, by which counters and tables are divided so that threads on different cores rarely change the same
//! memory: memory that several cores change moves between their caches with each change.

use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of the running thread: 0 for the first one that asks, 1 for the second. No other thread has it.
pub fn thread_number() -> usize {
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_number_and_another_one_has_another() {
        let own = thread_number();
        assert_eq!(thread_number(), own);
        let other = std::thread::spawn(thread_number).join().expect("no panic in it");
        assert_ne!(own, other);
    }
}
