//! One call of one guest, and the state of the store that is made for it.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use airlock_core::{
    door::{Chain, Origin},
    tenant::{Pool, Reservation, Tenant},
    tool::{CallError, ClientName, Content, ToolName},
};
use airlock_egress::Outlet;
use airlock_store::Database;
use wasmtime::{StoreContextMut, component::ResourceTable};

use super::{log_rate::LogRate, memory::Limiter, meter::Meter};
use crate::{
    Bindings, DeclaredEffect, Effect, Grants, Limits, ScriptCalls,
    imports::wasi_http::WasiHttp,
    uses::{CallRecorder, Use},
    wasi::Wasi,
};

/// A guest's store during a host call.
pub(crate) type Store<'a> = StoreContextMut<'a, State>;

/// Host type behind a guest's `call-context` handle, which stands for the store's own call.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, and are not seen outside either"
)]
pub struct CallHandle;

/// Guest of a call, as its log lines and its stores name it.
pub(crate) enum Guest {
    /// A plugin. Its log lines go to the operator's log, at a limited rate.
    Plugin(ClientName, Arc<LogRate>),
    /// A script. Its log lines are its printed output.
    Script(ScriptSide),
}

/// Tools and calls of a running script.
pub(crate) struct ScriptSide {
    /// The tools of the script, by their names in it.
    pub(crate) bindings: Arc<Bindings>,
    /// Makes its tool calls.
    pub(crate) calls: Arc<dyn ScriptCalls>,
}

impl Guest {
    /// Returns the plugin's name; for a script, the empty string, which no plugin can have.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Plugin(client, _) => client.as_str(),
            Self::Script(_) => "",
        }
    }
}

/// Error that unwinds a guest after [`State::stop`]. The reason is in [`State::stopped`].
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host")]
pub(crate) struct Stop;

/// One call of a guest: what it may do, and on whose behalf.
pub(crate) struct Call {
    /// Name of the running tool, for errors.
    pub(crate) tool: ToolName,
    pub(crate) guest: Guest,
    /// Chain of the running call; `None` while a guest only describes itself.
    pub(crate) chain: Option<Chain>,
    /// Origin of the calls that a plugin makes.
    pub(crate) origin: Origin,
    pub(crate) limits: Limits,
    pub(crate) grants: Arc<Grants>,
    /// Database that holds the guest's stores.
    pub(crate) database: Option<Database>,
    /// Outlet for the guest's HTTP requests.
    pub(crate) outlet: Option<Outlet>,
    pub(crate) wasi: Wasi,
    /// Records which of the grants the guest uses; `None` if its uses are not recorded.
    pub(crate) recorder: Option<CallRecorder>,
}

impl Call {
    /// Creates a call without a chain and without any grant.
    pub(crate) fn denied(tool: ToolName, guest: Guest, limits: Limits) -> Self {
        Self {
            tool,
            guest,
            chain: None,
            origin: Origin::Plugin(Arc::default()),
            limits,
            grants: Arc::default(),
            database: None,
            outlet: None,
            wasi: Wasi::denied(),
            recorder: None,
        }
    }

    /// Returns the tenant that the call is charged to.
    pub(crate) fn tenant(&self) -> &Tenant {
        self.chain.as_ref().map_or(&Tenant::GATEWAY, Chain::tenant)
    }
}

/// State of one store: its call, and what the call has used so far.
pub(crate) struct State {
    pub(crate) call: Call,
    pub(crate) meter: Meter,
    pub(crate) limiter: Limiter,
    pub(crate) deadline: Instant,
    /// Outbound HTTP: the requests that the guest may send, and those sent so far.
    pub(crate) wasi_http: WasiHttp,
    /// Bytes that the tools called by the guest may still return to it, all results together.
    pub(crate) result_bytes_left: usize,
    pub(crate) log_lines_left: u32,
    /// Bytes that are left for the parts of the result that follow those in `emitted`.
    pub(crate) emit_bytes_left: usize,
    /// Parts of the result that the guest has sent ahead of the rest.
    pub(crate) emitted: Vec<Content>,
    /// Part of the process's budget that `emitted` takes.
    pub(crate) emitted_memory: Reservation,
    /// Effects that the guest tried to have and that its tool does not declare.
    pub(crate) refused: BTreeSet<DeclaredEffect>,
    /// True if the guest has sent a request or has changed a stored value; WASI counts apart.
    pub(crate) has_acted: bool,
    /// Reason that the host ended the guest, if it did.
    pub(crate) stopped: Option<CallError>,
    /// Last line that a script logged at level error: the message of its panic hook.
    pub(crate) last_error_line: Option<String>,
    pub(crate) table: ResourceTable,
}

impl State {
    pub(super) fn new(call: Call, memory: &Pool) -> Self {
        let limits = &call.limits;
        let own = Instant::now() + limits.deadline;
        let deadline = call.chain.as_ref().map_or(own, |chain| own.min(chain.deadline()));
        let session =
            call.outlet.as_ref().map(|outlet| outlet.session(call.tenant(), memory, deadline));
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            meter: Meter::new(limits.host_calls),
            limiter: Limiter::new(limits, memory, call.tenant()),
            deadline,
            wasi_http: WasiHttp::new(session),
            result_bytes_left: limits.copied_bytes.saturating_mul(8),
            log_lines_left: limits.log_lines,
            emit_bytes_left: limits.result_bytes,
            emitted: Vec::new(),
            emitted_memory: memory.reservation(call.tenant().clone()),
            refused: BTreeSet::new(),
            has_acted: false,
            stopped: None,
            last_error_line: None,
            table,
            call,
        }
    }

    /// Returns the effect that the running tool would have to declare for the use of a request, as
    /// [`Grants::undeclared`], and records that the guest tried to have it.
    pub(crate) fn lacks(
        &mut self,
        effect: Effect,
        request: Option<&str>,
    ) -> Option<DeclaredEffect> {
        let undeclared = self.call.grants.undeclared(effect, request)?;
        self.refused.insert(undeclared.clone());
        Some(undeclared)
    }

    /// Returns whether the guest has changed something outside its call, or has tried to.
    pub(super) fn may_have_acted(&self) -> bool {
        self.has_acted || self.wasi_http.has_sent() || self.call.wasi.has_changed()
    }

    /// Records that the guest uses a grant, if its uses are recorded.
    pub(crate) fn record(&self, used: impl FnOnce() -> Use) {
        if let Some(recorder) = &self.call.recorder {
            recorder.record(used());
        }
    }

    /// Records `reason` as the end of the guest. The returned error only unwinds the guest.
    pub(crate) fn stop(&mut self, reason: CallError) -> wasmtime::Error {
        self.stopped.get_or_insert(reason);
        Stop.into()
    }

    /// Stops the guest if the rest of its result, after the parts that it has emitted, has more
    /// bytes than `result_bytes` leaves.
    pub(crate) fn check_result_bytes(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if bytes <= self.emit_bytes_left {
            return Ok(());
        }
        let limit = self.call.limits.result_bytes;
        let tool = self.call.tool.clone();
        Err(self.stop(CallError::result_too_large(tool, limit)))
    }
}
