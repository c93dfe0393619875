//! Identifiers of calls.

use std::fmt;

use serde::Serialize;
use uuid::{ContextV7, Timestamp, Uuid};

thread_local! {
    /// The last identifier of this thread. One for the process has a lock, which all calls would take.
    static LAST: ContextV7 = ContextV7::new().with_additional_precision();
}

/// Identifier of one call: a UUID of version 7, which sorts by time. Those of one thread sort in the order in which they
/// were made, those of several threads by their time in quarters of a microsecond, unless the clock is set back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    pub(super) fn next() -> Self {
        Self(LAST.with(|last| Uuid::new_v7(Timestamp::now(last))))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn identifiers_sort_in_their_order_also_if_threads_make_them_in_turn() {
        let mut made = Vec::new();
        for _ in 0..4 {
            let ids = thread::spawn(|| [(); 100].map(|()| CallId::next().0));
            made.extend(ids.join().expect("no panic in it"));
            made.push(CallId::next().0);
        }
        assert!(made.is_sorted_by(|one, next| one < next), "{made:?}");
        assert!(made.iter().all(|id| id.get_version_num() == 7));
    }
}
