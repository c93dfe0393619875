//! Limits on what a store allocates: one for all its memories together, one for all its tables
//! together, and one memory budget for the process.

use airlock_compile::{CORE_INSTANCES_PER_COMPONENT, MEMORIES_PER_COMPONENT, TABLES_PER_COMPONENT};
use airlock_core::tenant::{Pool, Reservation, Tenant};
use wasmtime::ResourceLimiter;

use crate::Limits;

/// Weight that divides the budget of the process: one tenant alone gets at most seven eighths.
const TENANT_WEIGHT: usize = 7;

/// Creates the budget of memory that all guests of the process may hold together, in bytes: linear
/// memory, and what the host holds for them until they read it.
pub(crate) fn budget(bytes: usize) -> Pool {
    Pool::new(bytes, TENANT_WEIGHT)
}

/// Resource limiter of one store. Growth beyond a limit fails inside the guest, which may continue
/// without it.
pub(crate) struct MemoryLimiter {
    /// Part of the process's budget that the store holds: the size of all its memories together.
    held: Reservation,
    memory_limit: usize,
    last_growth: usize,
    table_elements: usize,
    table_limit: usize,
    /// True if growth was refused because of the guest's own limit.
    pub(crate) denied: bool,
    /// True if growth was refused because the process's budget has no more for the tenant, which is
    /// not the guest's fault.
    pub(crate) starved: bool,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits, budget: &Pool, tenant: &Tenant) -> Self {
        Self {
            held: budget.reservation(tenant.clone()),
            memory_limit: limits.memory_bytes,
            last_growth: 0,
            table_elements: 0,
            table_limit: limits.table_elements,
            denied: false,
            starved: false,
        }
    }

    /// Returns the size of all memories together, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held.amount()
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let is_within = self.held.amount().saturating_add(more) <= self.memory_limit;
        let has_grown = is_within && self.held.grow(more);
        self.denied |= !is_within;
        self.starved |= is_within && !has_grown;
        self.last_growth = if has_grown { more } else { 0 };
        Ok(has_grown)
    }

    /// Releases the memory of growth that was allowed and then failed.
    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.held.shrink(std::mem::take(&mut self.last_growth));
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        let is_within = elements <= self.table_limit;
        if is_within {
            self.table_elements = elements;
        }
        self.denied |= !is_within;
        Ok(is_within)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_PER_COMPONENT as usize
    }

    fn tables(&self) -> usize {
        TABLES_PER_COMPONENT as usize
    }

    fn memories(&self) -> usize {
        MEMORIES_PER_COMPONENT as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 1 << 16;

    /// Returns whether a new memory of this size may be created.
    fn grows(limiter: &mut MemoryLimiter, bytes: usize) -> bool {
        limiter.memory_growing(0, bytes, None).expect("it is decided")
    }

    #[test]
    fn memories_of_a_store_share_one_limit_and_all_stores_one_budget() {
        let budget = budget(3 * PAGE);
        let limits = Limits { memory_bytes: 2 * PAGE, ..Limits::PLUGIN };
        let mut one = MemoryLimiter::new(&limits, &budget, &Tenant::ANONYMOUS);
        assert!(grows(&mut one, PAGE));
        assert!(grows(&mut one, PAGE), "a second memory counts on");
        assert!(!grows(&mut one, 1), "beyond the edge");
        assert!(one.denied && !one.starved);
        let mut other = MemoryLimiter::new(&limits, &budget, &Tenant::ANONYMOUS);
        assert!(!grows(&mut other, 2 * PAGE), "the process has no more");
        assert!(other.starved && !other.denied);
        drop(one);
        assert!(grows(&mut other, 2 * PAGE), "what a store held comes back");
    }

    #[test]
    fn tables_of_a_store_share_one_limit() {
        let limits = Limits { table_elements: 10, ..Limits::PLUGIN };
        let mut limiter = MemoryLimiter::new(&limits, &budget(PAGE), &Tenant::ANONYMOUS);
        let mut grows = |elements| limiter.table_growing(0, elements, None).expect("it is decided");
        assert_eq!([grows(6), grows(5), grows(4), grows(1)], [true, false, true, false]);
        assert!(limiter.denied && !limiter.starved);
    }

    #[test]
    fn growth_that_failed_is_returned_to_the_budget() {
        let budget = budget(2 * PAGE);
        let mut limiter = MemoryLimiter::new(&Limits::PLUGIN, &budget, &Tenant::ANONYMOUS);
        for _ in 0..3 {
            assert!(grows(&mut limiter, PAGE));
            limiter.memory_grow_failed(wasmtime::Error::msg("no mapping")).expect("it is released");
        }
        assert!(grows(&mut limiter, PAGE) && !limiter.starved);
        assert!(!grows(&mut limiter, PAGE), "a tenant does not get all of it");
        assert!(limiter.starved);
    }

    #[test]
    fn one_tenant_does_not_get_the_whole_budget() {
        let budget = budget(64 * PAGE);
        let (greedy, pages) = grown(&budget, &Tenant::ANONYMOUS);
        assert_eq!(pages, 56);
        let other = Tenant::of_key([1; 32], "other");
        assert_eq!(grown(&budget, &other).1, 7);
        drop(greedy);
        assert_eq!(grown(&budget, &other).1, 56);
    }

    fn grown(budget: &Pool, tenant: &Tenant) -> (Vec<MemoryLimiter>, usize) {
        let mut limiters: Vec<_> =
            (0..64).map(|_| MemoryLimiter::new(&Limits::PLUGIN, budget, tenant)).collect();
        let grown = limiters.iter_mut().map(|limiter| usize::from(grows(limiter, PAGE))).sum();
        (limiters, grown)
    }
}
