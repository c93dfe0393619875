//! The host's side of a plugin's call: what the call may do, and what it has done so far.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use airlock_core::{
    log_rate::LogRate,
    tenant::{Pool, Reservation, Tenant},
    tool::{CallError, Cause, ClientName, Content, ToolName},
};
use airlock_egress::Outlet;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::I32Exit;

use super::{
    effects::{DeclaredEffect, Effect},
    imports::wasi_http::WasiHttp,
    rights::ToolRights,
    uses::{CallRecorder, Use},
    wasi::{NoScratch, Wasi},
};
use crate::{
    Limits,
    imports::log::Level,
    run::{
        outcome::trap,
        state::{Call, GuestSide, State},
    },
};

/// Host type behind a guest's `call-context` handle, which stands for the store's own call.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, and are not seen outside either"
)]
pub struct CallHandle;

/// The plugin of a call, and the rights that the call has.
pub(crate) struct PluginSide {
    pub(crate) rights: Arc<ToolRights>,
    /// Outlet for its HTTP requests: that of its rights, which may be observed.
    pub(crate) outlet: Option<Outlet>,
    pub(crate) wasi: Wasi,
    /// Records which of the grants it uses; `None` if its uses are not recorded.
    pub(crate) recorder: Option<CallRecorder>,
}

impl PluginSide {
    /// Returns a plugin without any grant.
    pub(crate) fn denied(client: ClientName, log: Arc<LogRate>) -> Self {
        let rights = Arc::new(ToolRights::denied(client, log));
        Self { rights, outlet: None, wasi: Wasi::denied(), recorder: None }
    }

    /// Returns a call of the plugin without a chain.
    pub(crate) fn call(self, tool: ToolName, limits: Limits) -> Call<Self> {
        Call { tool, chain: None, limits, guest: self }
    }
}

/// The acts of a plugin in its call so far, and the memory and handles that the host holds for it.
pub(crate) struct RunningPlugin {
    /// Outbound HTTP: the requests that the guest may send, and those sent so far.
    pub(crate) wasi_http: WasiHttp,
    /// Bytes that are left for the parts of the result that follow those in `emitted`.
    pub(crate) emit_bytes_left: usize,
    /// Parts of the result that the guest has sent ahead of the rest.
    pub(crate) emitted: Vec<Content>,
    /// Part of the process's budget that the parts of the result take.
    pub(crate) result_memory: Reservation,
    /// Effects that the guest tried to have and that its tool does not declare.
    pub(crate) refused: BTreeSet<DeclaredEffect>,
    /// True if the guest has sent a request or has changed a stored value; WASI counts apart.
    pub(crate) has_acted: bool,
    pub(crate) table: ResourceTable,
}

impl GuestSide for PluginSide {
    type Running = RunningPlugin;

    const IS_SCRIPT: bool = false;

    fn begin(
        &self,
        limits: &Limits,
        tenant: &Tenant,
        memory: &Pool,
        deadline: Instant,
    ) -> RunningPlugin {
        let session = self.outlet.as_ref().map(|outlet| outlet.session(tenant, memory, deadline));
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        RunningPlugin {
            wasi_http: WasiHttp::new(session, tenant, memory),
            emit_bytes_left: limits.result_bytes,
            emitted: Vec::new(),
            result_memory: memory.reservation(tenant.clone()),
            refused: BTreeSet::new(),
            has_acted: false,
            table,
        }
    }

    fn log(state: &mut State<Self>, level: Level, message: &str, fields: &[(String, String)]) {
        state.log_line(level, message, fields);
    }

    fn take_late_fuel(state: &State<Self>) -> u64 {
        state.running.wasi_http.late_fuel().take() + state.call.guest.wasi.late_fuel().take()
    }

    fn may_have_acted(state: &State<Self>) -> bool {
        let running = &state.running;
        running.has_acted || running.wasi_http.has_sent() || state.call.guest.wasi.has_changed()
    }

    fn end(state: &mut State<Self>) {
        state.log_refused_effects();
    }

    fn classify(tool: &ToolName, error: wasmtime::Error) -> Result<CallError, wasmtime::Error> {
        if error.is::<NoScratch>() {
            return Ok(CallError::unavailable(tool.clone(), error));
        }
        match error.downcast_ref::<I32Exit>() {
            Some(exit) => Ok(trap(tool.clone(), exited(exit.0))),
            None => Err(error),
        }
    }
}

impl State<PluginSide> {
    /// Returns the effect that the running tool would have to declare for the use of a request, as
    /// [`Grants::undeclared`](super::grants::Grants::undeclared), and records that the guest tried to have it.
    pub(crate) fn lacks(
        &mut self,
        effect: Effect,
        request: Option<&str>,
    ) -> Option<DeclaredEffect> {
        let undeclared = self.call.guest.rights.grants.undeclared(effect, request)?;
        self.running.refused.insert(undeclared.clone());
        Some(undeclared)
    }

    /// Records that the guest uses a grant, if its uses are recorded.
    pub(crate) fn record(&self, used: impl FnOnce() -> Use) {
        if let Some(recorder) = &self.call.guest.recorder {
            recorder.record(used());
        }
    }

    /// Stops the guest if the rest of its result, after the parts that it has emitted, has more
    /// bytes than `result_bytes` leaves.
    pub(crate) fn check_result_bytes(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if bytes <= self.running.emit_bytes_left {
            return Ok(());
        }
        let limit = self.call.limits.result_bytes;
        let tool = self.call.tool.clone();
        Err(self.stop(CallError::result_too_large(tool, limit)))
    }
}

/// Returns the cause for a guest that exited instead of returning a result. This is a crash,
/// whatever the exit status.
fn exited(status: i32) -> Cause {
    format!("the guest exited with status {status} and returned no result").into()
}
