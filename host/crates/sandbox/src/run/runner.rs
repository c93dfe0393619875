//! Runs the calls of one guest: each gets a slot of the guest's share, and a fresh store.

use std::time::Instant;

use airlock_core::{
    tenant::{Pool, Tenant},
    tool::CallError,
};
use wasmtime::{Engine, Store};

use super::{
    admission::{Full, Share, Slot},
    instance,
    state::{Call, State},
};

/// Resources with which the calls of one guest run.
pub(crate) struct GuestRunner {
    engine: Engine,
    /// Memory budget of all guests.
    memory: Pool,
    share: Share,
}

impl GuestRunner {
    pub(crate) fn new(engine: Engine, memory: Pool, share: Share) -> Self {
        Self { engine, memory, share }
    }

    /// Returns the memory budget of all guests, which also covers what the host holds for them.
    pub(crate) fn memory(&self) -> &Pool {
        &self.memory
    }

    /// Waits for a slot, as [`Share::wait_for_slot`].
    pub(crate) async fn wait_for_slot(
        &self,
        tenant: &Tenant,
        depth: u32,
        deadline: Option<Instant>,
    ) -> Result<Slot, Full> {
        self.share.wait_for_slot(tenant, depth, deadline).await
    }

    /// Runs `body` in a fresh store. The `slot` is released after the store is dropped.
    pub(crate) async fn run<T>(
        &self,
        slot: Slot,
        call: Call,
        body: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, CallError> {
        let ended = instance::run(&self.engine, &self.memory, call, body).await;
        drop(slot);
        ended
    }
}
