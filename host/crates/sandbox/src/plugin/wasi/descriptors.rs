//! File descriptors that all guests hold together. The process has a limit on descriptors, and
//! needs some itself for connections, databases and child processes.

use std::sync::LazyLock;

use airlock_core::tenant::{Pool, Reservation, Tenant};
use rustix::process::{Resource, getrlimit};

/// Limit assumed if the system has none.
const ASSUMED_LIMIT: u64 = 1 << 20;
/// Weight that divides the permits among tenants: a single tenant gets at most three quarters.
const TENANT_WEIGHT: usize = 3;

/// Half of the descriptors that the process may have.
static PERMITS: LazyLock<Pool> = LazyLock::new(|| {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(ASSUMED_LIMIT) / 2;
    Pool::new(usize::try_from(most).unwrap_or(usize::MAX), TENANT_WEIGHT)
});

/// Permits its owner to hold one descriptor; released when dropped.
#[derive(Debug)]
pub(super) struct DescriptorPermit {
    _held: Reservation,
}

impl DescriptorPermit {
    /// Takes a permit; `None` if all guests together, or this tenant's guests, hold as many as they
    /// may.
    pub(super) fn take(tenant: &Tenant) -> Option<Self> {
        PERMITS.take(tenant, 1).map(|held| Self { _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_cannot_hold_all_descriptors() {
        let mut greedy = take_all(1);
        let other = take_all(2);
        assert!(
            greedy.len() > other.len() && !other.is_empty(),
            "{} and {}",
            greedy.len(),
            other.len()
        );
        greedy.clear();
        assert!(!take_all(1).is_empty(), "released permits are there again");
    }

    fn take_all(number: u8) -> Vec<DescriptorPermit> {
        let tenant = Tenant::of_key([number; 32], number.to_string());
        std::iter::from_fn(|| DescriptorPermit::take(&tenant)).collect::<Vec<_>>()
    }
}
