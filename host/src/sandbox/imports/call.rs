//! `airlock:host/call`: the running call, seen from inside.

use std::time::Instant;

use wasmtime::{Trap, component::Resource};

use super::BASE_FUEL;
use crate::{
    catalog::CallError,
    sandbox::{
        bindings::{call, types::Content},
        convert,
        instance::{CallHandle, State},
    },
};

impl call::Host for &mut State {}

impl call::HostCallContext for &mut State {
    fn id(&mut self, _: Resource<CallHandle>) -> wasmtime::Result<String> {
        self.pay(0)?;
        Ok(self.chain.as_ref().map(|chain| chain.id().to_string()).unwrap_or_default())
    }

    fn remaining_ms(&mut self, _: Resource<CallHandle>) -> wasmtime::Result<Option<u64>> {
        self.pay(0)?;
        let left = self.deadline.saturating_duration_since(Instant::now());
        Ok(Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Whoever cancels a call drops its future, which ends the guest: one that can still ask has not been cancelled.
    fn is_cancelled(&mut self, _: Resource<CallHandle>) -> wasmtime::Result<bool> {
        self.pay(0)?;
        Ok(false)
    }

    fn progress(
        &mut self,
        _: Resource<CallHandle>,
        done: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        self.pay(message.as_ref().map_or(0, String::len))?;
        tracing::trace!(done, total, has_message = message.is_some(), "progress");
        Ok(())
    }

    fn emit(&mut self, _: Resource<CallHandle>, part: Content) -> wasmtime::Result<()> {
        let part = convert::content_from_guest(part);
        let size = part.size();
        self.pay(size)?;
        let Some(left) = self.emit_bytes_left.checked_sub(size) else {
            let limit = self.limits.result_bytes as u64;
            return Err(self.stop(CallError::Budget { what: "bytes sent ahead of the result", limit }));
        };
        self.emit_bytes_left = left;
        if let Some(chain) = &self.chain {
            chain.emit(part);
        }
        Ok(())
    }

    fn drop(&mut self, handle: Resource<CallHandle>) -> wasmtime::Result<()> {
        self.table.delete(handle)?;
        Ok(())
    }
}

impl State {
    /// Counts and charges a host call. Whether the fuel sufficed is seen at the next call that looks, or at the end.
    fn pay(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.fuel_debt = self.fuel_debt.saturating_add(BASE_FUEL + bytes as u64);
        if self.fuel_debt > self.limits.fuel {
            return Err(Trap::OutOfFuel.into());
        }
        self.count()
    }
}
