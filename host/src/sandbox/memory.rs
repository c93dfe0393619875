//! What a store may allocate: all memories together, all tables together, and one budget for the process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use wasmtime::ResourceLimiter;

use super::Limits;

/// Linear memory that all guests of the process may hold together, in bytes.
pub(super) struct MemoryBudget {
    left: AtomicUsize,
}

impl MemoryBudget {
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes) })
    }

    fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The limiter of one store. Growth beyond a limit fails inside the guest, which may go on without.
pub(super) struct Limiter {
    memory_bytes: usize,
    memory_limit: usize,
    last_growth: usize,
    table_elements: usize,
    table_limit: usize,
    budget: Arc<MemoryBudget>,
    /// Growth was refused because of the guest's own limit.
    pub(super) denied: bool,
    /// Growth was refused because the process has no more to give, which is not the guest's fault.
    pub(super) starved: bool,
}

impl Limiter {
    pub(super) fn new(limits: &Limits, budget: &Arc<MemoryBudget>) -> Self {
        Self {
            memory_bytes: 0,
            memory_limit: limits.memory_bytes,
            last_growth: 0,
            table_elements: 0,
            table_limit: limits.table_elements,
            budget: budget.clone(),
            denied: false,
            starved: false,
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        if self.memory_bytes.saturating_add(more) > self.memory_limit {
            self.denied = true;
            self.last_growth = 0;
            return Ok(false);
        }
        if !self.budget.take(more) {
            self.starved = true;
            self.last_growth = 0;
            return Ok(false);
        }
        self.memory_bytes += more;
        self.last_growth = more;
        Ok(true)
    }

    /// Growth that was allowed and then failed is taken back.
    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        let failed = std::mem::take(&mut self.last_growth);
        self.memory_bytes -= failed;
        self.budget.give_back(failed);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        if self.table_elements.saturating_add(more) > self.table_limit {
            self.denied = true;
            return Ok(false);
        }
        self.table_elements += more;
        Ok(true)
    }

    fn instances(&self) -> usize {
        32
    }

    fn tables(&self) -> usize {
        8
    }

    fn memories(&self) -> usize {
        8
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.budget.give_back(self.memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_share_one_limit_and_stores_one_budget() {
        let budget = MemoryBudget::new(3 << 16);
        let limits = Limits { memory_bytes: 2 << 16, ..Limits::PLUGIN };
        let mut one = Limiter::new(&limits, &budget);
        assert!(one.memory_growing(0, 1 << 16, None).expect("answers"));
        assert!(one.memory_growing(0, 1 << 16, None).expect("answers"), "a second memory counts on");
        assert!(!one.memory_growing(0, 1, None).expect("answers"), "beyond the edge");
        assert!(one.denied && !one.starved);
        let mut other = Limiter::new(&limits, &budget);
        assert!(!other.memory_growing(0, 2 << 16, None).expect("answers"), "the process has no more");
        assert!(other.starved && !other.denied);
        drop(one);
        assert!(other.memory_growing(0, 2 << 16, None).expect("answers"), "what a store held comes back");
    }
}
