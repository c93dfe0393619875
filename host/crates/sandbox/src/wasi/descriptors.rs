//! Descriptors that guests hold of the process, all calls together: it has a limit on them, and
//! needs some for itself, for connections, databases and child processes.

use std::sync::LazyLock;

use airlock_core::tenant::{Held, Pool, Tenant};
use rustix::process::{Resource, getrlimit};

/// Where the system tells no limit.
const UNLIMITED: u64 = 1 << 20;
/// Divides the places among tenants: one alone gets three quarters.
const TENANT_WEIGHT: usize = 3;

/// Half of what the process may have.
static PLACES: LazyLock<Pool> = LazyLock::new(|| {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED) / 2;
    Pool::new(usize::try_from(most).unwrap_or(usize::MAX), TENANT_WEIGHT)
});

/// The right to hold one descriptor, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    _held: Held,
}

impl Place {
    /// Takes one; `None` if guests, or those of this tenant, hold all that they may.
    pub(super) fn take(tenant: &Tenant) -> Option<Self> {
        PLACES.take(tenant, 1).map(|held| Self { _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_gets_some_of_the_descriptors_and_leaves_some_to_others() {
        let take_all = |number: u8| {
            let tenant = Tenant::of_key([number; 32], number.to_string());
            std::iter::from_fn(|| Place::take(&tenant)).collect::<Vec<_>>()
        };
        let mut greedy = take_all(1);
        let other = take_all(2);
        assert!(
            greedy.len() > other.len() && !other.is_empty(),
            "{} and {}",
            greedy.len(),
            other.len()
        );
        greedy.clear();
        assert!(!take_all(1).is_empty(), "what was given back is there again");
    }
}
