//! Memory of requests: one budget for all requests in flight, from the first byte of a body until
//! the last byte of the response is sent.
//!
//! A limit on each body is no bound if thousands of requests wait for a model at the same time. A
//! request is charged for: a base amount, its head, the buffer of its body, the parsed tree, the
//! bytes that a model and tools add, and then its response. One caller (a virtual key, or all
//! callers without a key) gets at most half of the budget, so that other callers are still served.
//!
//! [`Memory`] is the budget and [`RequestCharge`] all that one request is charged for. The agent loop
//! and the sessions of MCP clients charge their parts of it, each a
//! [`Charge`](crate::memory::Charge), through [`RequestMemory`].

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use crate::{memory::RequestMemory, tenant::Tenant};

/// Base charge of a request without head and body: its task, its stream, its view of the tools.
pub const REQUEST_BYTES: usize = 16 * 1024;
/// One caller gets one part in this many of the budget.
const SHARES: usize = 2;

/// Memory budget of all requests in flight.
pub struct Memory {
    limit_bytes: AtomicUsize,
    used: Mutex<MemoryUse>,
}

#[derive(Default)]
struct MemoryUse {
    bytes: usize,
    /// Each caller with a charge.
    by_caller: HashMap<Tenant, Arc<CallerUse>>,
}

/// Use of memory by one caller, shared by all its charges. It changes under the lock of [`Memory`] alone.
#[derive(Default)]
struct CallerUse {
    bytes: AtomicUsize,
    charges: AtomicUsize,
}

/// Reason that a charge is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChargeRefused {
    /// All requests together use the whole budget.
    #[error(
        "this request does not fit into the {limit_bytes} bytes of `max_request_memory` with the other requests \
         in flight; try again later"
    )]
    Budget {
        /// The budget.
        limit_bytes: usize,
    },
    /// The requests of this caller use its whole share.
    #[error(
        "this request does not fit into the {limit_bytes} bytes that one caller may take, half of `max_request_memory`; try \
         again when another request of this caller has ended"
    )]
    Share {
        /// The share.
        limit_bytes: usize,
    },
}

impl Memory {
    /// Creates a budget of so many bytes.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes: limit_bytes.into(), used: Mutex::default() })
    }

    /// Changes the limit. Charges above a lower one stay until they are released; further ones are refused.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that are charged, and the limit on them.
    pub fn usage(&self) -> (usize, usize) {
        (self.used().bytes, self.limit_bytes.load(Ordering::Relaxed))
    }

    /// Returns the bytes of a budget that one caller gets.
    pub const fn share_of(limit_bytes: usize) -> usize {
        limit_bytes / SHARES
    }

    /// Returns the smallest budget in which one caller's request of `bytes` fits.
    pub const fn least_for(bytes: usize) -> usize {
        bytes.saturating_mul(SHARES)
    }

    /// Charges the base of a request, and its head of so many bytes.
    pub fn open(
        self: &Arc<Self>,
        tenant: Tenant,
        head_bytes: usize,
    ) -> Result<RequestCharge, ChargeRefused> {
        let bytes = REQUEST_BYTES.saturating_add(head_bytes);
        let mine = self.begin(&tenant, bytes)?;
        Ok(RequestCharge(Arc::new(ChargedBytes {
            memory: self.clone(),
            mine,
            tenant,
            bytes: Mutex::new(bytes),
            held: OnceLock::new(),
        })))
    }

    /// Counts a charge of `bytes` for a caller. Fails without a change if there is no room.
    fn begin(&self, tenant: &Tenant, bytes: usize) -> Result<Arc<CallerUse>, ChargeRefused> {
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        let mut used = self.used();
        let known = used.by_caller.get(tenant).cloned();
        let is_new = known.is_none();
        let mine = known.unwrap_or_default();
        used.add(&mine, bytes, limit_bytes)?;
        mine.add_charge();
        if is_new {
            used.by_caller.insert(tenant.clone(), mine.clone());
        }
        Ok(mine)
    }

    /// Counts a charge of `bytes` for the caller of another charge, even if there is no room.
    fn begin_beside(&self, mine: &CallerUse, bytes: usize) {
        let mut used = self.used();
        mine.add_charge();
        used.replace(mine, 0, bytes);
    }

    fn add(&self, mine: &CallerUse, bytes: usize) -> Result<(), ChargeRefused> {
        let limit_bytes = self.limit_bytes.load(Ordering::Relaxed);
        self.used().add(mine, bytes, limit_bytes)
    }

    /// Replaces a charge, even if there is no room for the new one.
    fn replace(&self, mine: &CallerUse, old: usize, new: usize) {
        self.used().replace(mine, old, new);
    }

    /// Releases a charge. The last one of a caller removes the caller.
    fn release(&self, charged: &ChargedBytes) {
        let bytes = *charged.bytes();
        let mut used = self.used();
        used.replace(&charged.mine, bytes, 0);
        if charged.mine.remove_charge() == 0 {
            used.by_caller.remove(&charged.tenant);
        }
    }

    fn used(&self) -> MutexGuard<'_, MemoryUse> {
        self.used.lock()
    }
}

impl MemoryUse {
    /// Charges a caller for `bytes` more. Fails without a change if its share of the limit, or the limit, has no room.
    fn add(
        &mut self,
        mine: &CallerUse,
        bytes: usize,
        limit_bytes: usize,
    ) -> Result<(), ChargeRefused> {
        let share = Memory::share_of(limit_bytes);
        let more = mine.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if more > share {
            return Err(ChargeRefused::Share { limit_bytes: share });
        }
        if self.bytes.saturating_add(bytes) > limit_bytes {
            return Err(ChargeRefused::Budget { limit_bytes });
        }
        self.bytes += bytes;
        mine.bytes.store(more, Ordering::Relaxed);
        Ok(())
    }

    fn replace(&mut self, mine: &CallerUse, old: usize, new: usize) {
        self.bytes = self.bytes.saturating_sub(old).saturating_add(new);
        let replaced = mine.bytes.load(Ordering::Relaxed).saturating_sub(old).saturating_add(new);
        mine.bytes.store(replaced, Ordering::Relaxed);
    }
}

impl CallerUse {
    fn add_charge(&self) {
        self.charges.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a charge, and returns the number of those that are left.
    fn remove_charge(&self) -> usize {
        self.charges.fetch_sub(1, Ordering::Relaxed).saturating_sub(1)
    }
}

/// All that one request is charged for. Released when the last clone is dropped.
#[derive(Clone)]
pub struct RequestCharge(Arc<ChargedBytes>);

struct ChargedBytes {
    memory: Arc<Memory>,
    tenant: Tenant,
    /// Use of all charges of the tenant.
    mine: Arc<CallerUse>,
    bytes: Mutex<usize>,
    /// A value that ends with the request, such as its access token.
    held: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl RequestCharge {
    /// Holds a value, the access token of the request, until the last clone of the charge is dropped, which is
    /// when the response is sent. Holds the first value only: a further one is dropped at once.
    pub fn hold(&self, value: impl Any + Send + Sync) {
        // A request has one token.
        let _ = self.0.held.set(Box::new(value));
    }

    /// Charges `bytes` more. Fails without a charge if the caller's share or the budget has no
    /// room.
    pub fn grow(&self, bytes: usize) -> Result<(), ChargeRefused> {
        // Most chunks of a stream need nothing, and each asks several times.
        if bytes == 0 {
            return Ok(());
        }
        let mut charged = self.0.bytes();
        self.0.memory.add(&self.0.mine, bytes)?;
        *charged += bytes;
        Ok(())
    }

    /// Returns a function that charges as [`RequestCharge::grow`] does, for work on another thread.
    pub fn grower(
        &self,
    ) -> impl Fn(usize) -> Result<(), ChargeRefused> + Clone + Send + 'static + use<> {
        let charge = self.clone();
        move |bytes| charge.grow(bytes)
    }

    /// Appends parts to a text of a response. Charges the memory that it grows by first; fails without
    /// a change if there is no room.
    pub fn append(&self, text: &mut String, parts: &[&str]) -> Result<(), ChargeRefused> {
        let more: usize = parts.iter().map(|part| part.len()).sum();
        if text.capacity() - text.len() < more {
            let grown = more.max(text.capacity());
            self.grow(grown)?;
            text.reserve_exact(text.capacity() - text.len() + grown);
        }
        text.extend(parts.iter().copied());
        Ok(())
    }

    /// Returns the tenant that is charged.
    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    /// Returns the bytes that are charged now.
    pub fn bytes(&self) -> usize {
        *self.0.bytes()
    }

    /// Returns a charge of its own for `bytes`, for the same caller. It is made even if there is no
    /// room, because the bytes exist.
    pub fn beside(&self, bytes: usize) -> Self {
        let ChargedBytes { memory, tenant, mine, .. } = &*self.0;
        memory.begin_beside(mine, bytes);
        Self(Arc::new(ChargedBytes {
            memory: memory.clone(),
            tenant: tenant.clone(),
            mine: mine.clone(),
            bytes: Mutex::new(bytes),
            held: OnceLock::new(),
        }))
    }

    /// Returns a charge of its own for what this one has now, for work that outlives the request.
    pub fn handed_on(&self) -> Self {
        self.beside(self.bytes())
    }

    /// Replaces the whole charge by `bytes`, for a response. Fails if they are more than are charged
    /// and there is no room: clients that do not read their responses would else take the whole
    /// budget.
    pub fn settle(&self, bytes: usize) -> Result<(), ChargeRefused> {
        match self.bytes().checked_sub(bytes) {
            Some(rest) => self.give_back(rest),
            None => self.grow(bytes - self.bytes())?,
        }
        Ok(())
    }
}

impl RequestMemory for RequestCharge {
    fn tenant(&self) -> Tenant {
        self.0.tenant.clone()
    }

    fn take(&self, bytes: usize) -> bool {
        self.grow(bytes).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut charged = self.0.bytes();
        let left = charged.saturating_sub(bytes);
        self.0.memory.replace(&self.0.mine, *charged, left);
        *charged = left;
    }
}

impl ChargedBytes {
    fn bytes(&self) -> MutexGuard<'_, usize> {
        self.bytes.lock()
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.memory.release(self);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    const LIMIT: usize = 10 * REQUEST_BYTES;

    fn account(name: &str) -> Tenant {
        Tenant::of_key([name.as_bytes()[0]; 32], name)
    }

    fn open(memory: &Arc<Memory>, name: &str) -> RequestCharge {
        memory.open(account(name), 0).expect("there is room")
    }

    #[test]
    fn a_caller_gets_its_share_and_all_callers_together_the_budget() {
        let memory = Memory::new(LIMIT);
        let ann = open(&memory, "ann");
        ann.grow(4 * REQUEST_BYTES).expect("half of the budget");
        assert_eq!(ann.grow(1), Err(ChargeRefused::Share { limit_bytes: LIMIT / 2 }));
        let bob = open(&memory, "bob");
        bob.grow(3 * REQUEST_BYTES).expect("less than half of the budget");
        let cid = open(&memory, "cid");
        assert_eq!(cid.grow(1), Err(ChargeRefused::Budget { limit_bytes: LIMIT }));
        drop(bob);
        cid.grow(4 * REQUEST_BYTES).expect("what bob gave back");
        assert_eq!(memory.used().bytes, LIMIT);
    }

    #[test]
    fn a_request_that_is_refused_leaves_nothing_of_its_caller() {
        let memory = Memory::new(LIMIT);
        let refused = memory.open(account("ann"), LIMIT / 2).err();
        assert_eq!(refused, Some(ChargeRefused::Share { limit_bytes: LIMIT / 2 }));
        assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
        let charge = open(&memory, "ann");
        assert!(memory.open(account("ann"), LIMIT / 2).is_err());
        assert_eq!((charge.bytes(), memory.used().bytes), (REQUEST_BYTES, REQUEST_BYTES));
        drop(charge);
        assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
    }

    #[test]
    fn a_charge_is_released_when_its_last_clone_is_dropped() {
        let memory = Memory::new(LIMIT);
        let charge = open(&memory, "ann");
        charge.grow(REQUEST_BYTES).expect("there is room");
        let clone = charge.clone();
        drop(charge);
        assert_eq!(memory.used().bytes, 2 * REQUEST_BYTES);
        drop(clone);
        assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
    }

    #[test]
    fn a_response_replaces_the_charge_within_the_share_of_its_caller() {
        let memory = Memory::new(LIMIT);
        let charge = open(&memory, "ann");
        charge.grow(REQUEST_BYTES).expect("there is room");
        charge.settle(10).expect("it is less");
        assert_eq!((charge.bytes(), memory.used().bytes), (10, 10));
        charge.settle(LIMIT / 2).expect("all of the share");
        let refused = charge.settle(LIMIT / 2 + 1).expect_err("a byte more");
        assert_eq!(refused, ChargeRefused::Share { limit_bytes: LIMIT / 2 });
        assert_eq!((charge.bytes(), memory.used().bytes), (LIMIT / 2, LIMIT / 2));
    }

    #[test]
    fn bytes_of_models_and_tools_are_charged_to_the_request_and_released() {
        let memory = Memory::new(LIMIT);
        let charge = open(&memory, "ann");
        assert!(charge.take(4 * REQUEST_BYTES) && !charge.take(1));
        assert_eq!(memory.used().bytes, 5 * REQUEST_BYTES);
        charge.give_back(3 * REQUEST_BYTES);
        assert_eq!(memory.used().bytes, 2 * REQUEST_BYTES);
        memory.set_limit(0);
        charge.give_back(0);
        assert!(charge.take(0) && !charge.take(1));
        assert_eq!(memory.used().bytes, 2 * REQUEST_BYTES);
        drop(charge);
        assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
    }

    #[test]
    fn a_held_value_is_dropped_with_the_last_clone_of_its_charge() {
        let memory = Memory::new(LIMIT);
        let charge = open(&memory, "ann");
        let token = Arc::new(());
        charge.hold(token.clone());
        let part = charge.beside(1);
        let clone = charge.clone();
        drop(charge);
        assert_eq!(Arc::strong_count(&token), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&token), 1);
        drop(part);
    }

    #[test]
    fn a_charge_beside_another_is_made_without_room_and_released_on_its_own() {
        let memory = Memory::new(LIMIT);
        let charge = open(&memory, "ann");
        let part = charge.beside(2 * LIMIT);
        assert_eq!(memory.used().bytes, REQUEST_BYTES + 2 * LIMIT);
        assert!(charge.grow(1).is_err());
        drop(part);
        assert_eq!(memory.used().bytes, REQUEST_BYTES);
        drop(charge);
        assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
    }

    #[test]
    fn a_caller_keeps_its_share_while_one_of_its_charges_is_empty() {
        let memory = Memory::new(LIMIT);
        let empty = open(&memory, "ann");
        empty.settle(0).expect("it is less");
        let ann = open(&memory, "ann");
        ann.grow(4 * REQUEST_BYTES).expect("half of the budget");
        let refused = ChargeRefused::Share { limit_bytes: LIMIT / 2 };
        assert_eq!((empty.grow(1), ann.grow(1)), (Err(refused), Err(refused)));
        drop(ann);
        empty.grow(5 * REQUEST_BYTES).expect("half of the budget");
        drop(empty);
        assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
    }

    #[test]
    fn a_caller_whose_last_charges_end_at_once_is_forgotten() {
        let memory = Memory::new(LIMIT);
        for _ in 0..500 {
            let start = Barrier::new(2);
            thread::scope(|scope| {
                for charge in [open(&memory, "ann"), open(&memory, "ann")] {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        drop(charge);
                    });
                }
            });
            assert!(memory.used().bytes == 0 && memory.used().by_caller.is_empty());
        }
    }

    #[test]
    fn a_lower_limit_refuses_further_charges_and_keeps_those_that_there_are() {
        let memory = Memory::new(LIMIT);
        let charge = open(&memory, "ann");
        charge.grow(4 * REQUEST_BYTES).expect("half of the budget");
        memory.set_limit(LIMIT / 2);
        let refused = charge.grow(1).expect_err("more than half of the new budget");
        assert_eq!(refused, ChargeRefused::Share { limit_bytes: LIMIT / 4 });
        assert_eq!(memory.used().bytes, 5 * REQUEST_BYTES);
        drop(charge);
        open(&memory, "ann");
    }

    #[test]
    fn the_head_of_a_request_is_charged() {
        let memory = Memory::new(LIMIT);
        let charge = memory.open(Tenant::ANONYMOUS, 11).expect("there is room");
        assert_eq!(memory.used().bytes, REQUEST_BYTES + 11);
        drop(charge);
    }
}
