//! Descriptors that guests hold of the process, all calls together: it has a limit on them, and needs some for itself, for
//! connections, databases and child processes.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use rustix::process::{Resource, getrlimit};

/// Where the system tells no limit.
const UNLIMITED: u64 = 1 << 20;

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Half of what the process may have.
static MOST: LazyLock<u64> = LazyLock::new(|| getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED) / 2);

/// The right to hold one descriptor, given back when dropped.
#[derive(Debug)]
pub(super) struct Place(());

impl Place {
    /// Takes one; none if guests hold all that they may.
    pub(super) fn take() -> Option<Self> {
        let take = |taken: u64| (taken < *MOST).then_some(taken + 1);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| Self(()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_get_half_of_the_descriptors_and_what_they_give_back() {
        let mut places: Vec<_> = std::iter::from_fn(Place::take).collect();
        assert!(places.len() as u64 <= *MOST && !places.is_empty());
        assert!(Place::take().is_none());
        places.pop();
        assert!(Place::take().is_some());
    }
}
