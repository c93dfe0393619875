//! Memory of one request: the budget, and what is charged to it.
//!
//! | type | meaning |
//! |---|---|
//! | [`RequestMemory`] | accounts for the bytes of one request; [`RequestCharge`](crate::request_memory::RequestCharge) implements it |
//! | [`MemoryBudget`] | handle to it, for code that does not know the other users of memory |
//! | [`Charge`] | bytes that one holder has taken from the budget, until it is dropped |
//!
//! The agent loop, the clients of providers and the sessions of MCP clients charge bytes before they
//! keep data that a model or a tool sent. A bounded resource that tenants share, such as the memory
//! of all guests, is a [`Pool`](crate::tenant::Pool) instead.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::tenant::Tenant;

/// Accounts for the memory of one request.
pub trait RequestMemory: Send + Sync {
    /// Takes `bytes`. Returns false if there is no room for them, and then takes nothing.
    fn take(&self, bytes: usize) -> bool;

    /// Releases bytes that were taken.
    fn give_back(&self, bytes: usize);

    /// Returns the tenant whose request it is. Long work is shared out by tenant.
    fn tenant(&self) -> Tenant;
}

/// Memory for the data that a model and tools add to one request. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<dyn RequestMemory>);

/// Bytes that are charged to a [`MemoryBudget`]. Dropping it releases them.
pub struct Charge {
    budget: MemoryBudget,
    bytes: AtomicUsize,
}

/// Memory without a limit.
struct Unlimited;

impl MemoryBudget {
    /// Creates a budget that is accounted for by `memory`.
    pub fn new(memory: impl RequestMemory + 'static) -> Self {
        Self(Arc::new(memory))
    }

    /// Creates a budget without a limit, for programs that bound their requests in another way.
    pub fn unlimited() -> Self {
        Self::new(Unlimited)
    }

    /// Opens a charge of no bytes.
    pub fn charge(&self) -> Charge {
        Charge { budget: self.clone(), bytes: AtomicUsize::new(0) }
    }
}

airlock_strings::debug_fields!(MemoryBudget {});

airlock_strings::debug_fields!(Charge { bytes });

impl Charge {
    /// Charges `bytes` more. Returns false if there is no room for them, and then changes nothing.
    #[must_use]
    pub fn grow(&self, bytes: usize) -> bool {
        let has_room = self.budget.0.take(bytes);
        if has_room {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        has_room
    }

    /// Returns whether `bytes` more could be charged now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.beside().grow(bytes)
    }

    /// Returns the tenant whose request it is.
    pub fn tenant(&self) -> Tenant {
        self.budget.0.tenant()
    }

    /// Opens another account in the same budget. It holds no bytes yet, and releases only its own.
    pub fn beside(&self) -> Self {
        self.budget.charge()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes > 0 {
            self.budget.0.give_back(bytes);
        }
    }
}

impl RequestMemory for Unlimited {
    fn tenant(&self) -> Tenant {
        Tenant::GATEWAY
    }

    fn take(&self, _bytes: usize) -> bool {
        true
    }

    fn give_back(&self, _bytes: usize) {}
}

/// Memory with a limit, which counts the bytes that are taken. Clones share the counts.
#[derive(Clone)]
pub struct Limited {
    limit: usize,
    taken: Arc<AtomicUsize>,
    /// Maximum that was taken at the same time.
    most: Arc<AtomicUsize>,
}

impl Limited {
    /// Creates memory of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: Arc::default(), most: Arc::default() }
    }

    /// Returns the bytes that are taken now.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// Returns the maximum that was taken at the same time, in bytes.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl RequestMemory for Limited {
    fn tenant(&self) -> Tenant {
        Tenant::ANONYMOUS
    }

    fn take(&self, bytes: usize) -> bool {
        let sum = self.taken().saturating_add(bytes);
        let has_room = sum <= self.limit;
        if has_room {
            self.taken.store(sum, Ordering::SeqCst);
            self.most.fetch_max(sum, Ordering::SeqCst);
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        let taken = self.taken();
        self.taken.store(
            taken.checked_sub(bytes).expect("no more is given back than was taken"),
            Ordering::SeqCst,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charged_bytes_are_released_once_and_a_refusal_charges_nothing() {
        let memory = Limited::new(100);
        let charge = MemoryBudget::new(memory.clone()).charge();
        assert!(charge.grow(60) && !charge.grow(41));
        assert!(charge.has_room(40) && !charge.has_room(41));
        let other = charge.beside();
        assert!(other.grow(40));
        assert_eq!((memory.taken(), memory.most()), (100, 100));
        drop((charge, other));
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn unlimited_room_never_refuses() {
        let charge = MemoryBudget::unlimited().charge();
        assert!(charge.grow(usize::MAX / 2) && charge.grow(usize::MAX / 2));
    }
}
