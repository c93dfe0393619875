//! One call of one guest, and the state of the store that is made for it.

use std::{sync::Arc, time::Instant};

use airlock_core::{
    door::Chain,
    tenant::{Pool, Tenant},
    tool::{CallError, ToolName},
};
use airlock_strings::cut;
use wasmtime::StoreContextMut;

use super::{memory::MemoryLimiter, meter::Meter};
use crate::{Bindings, Limits, ScriptCalls, imports::log::Level};

/// A guest's store during a host call.
pub(crate) type Store<'a, G> = StoreContextMut<'a, State<G>>;

/// The host's side of the guest of a call, a plugin or a script: what only guests of this kind have.
pub(crate) trait GuestSide: Sized + Send + 'static {
    /// State that the host keeps for the guest while it runs.
    type Running: Send + 'static;

    /// True if the guest runs what its caller has written, who can do more about it than about a tool.
    const IS_SCRIPT: bool;

    /// Prepares a call that begins now, within `limits` and until `deadline`. What the host holds for it
    /// takes its part of `memory`.
    fn begin(
        &self,
        limits: &Limits,
        tenant: &Tenant,
        memory: &Pool,
        deadline: Instant,
    ) -> Self::Running;

    /// Handles a log line.
    fn log(state: &mut State<Self>, level: Level, message: &str, fields: &[(String, String)]);

    /// Takes the fuel that was charged where the store cannot be accessed.
    fn take_late_fuel(_state: &State<Self>) -> u64 {
        0
    }

    /// Returns whether the guest has changed something outside its call, or has tried to.
    fn may_have_acted(_state: &State<Self>) -> bool {
        false
    }

    /// Handles the end of the guest.
    fn end(_state: &mut State<Self>) {}

    /// Turns an error that only the imports of these guests return into that of the call. Fails with
    /// any other error.
    fn classify(_tool: &ToolName, error: wasmtime::Error) -> Result<CallError, wasmtime::Error> {
        Err(error)
    }
}

/// Tools and calls of a running script. Its log lines are its printed output.
pub(crate) struct ScriptSide {
    /// The tools of the script, by their names in it.
    pub(crate) bindings: Arc<Bindings>,
    /// Makes its tool calls.
    pub(crate) calls: Arc<dyn ScriptCalls>,
}

impl GuestSide for ScriptSide {
    type Running = ();

    const IS_SCRIPT: bool = true;

    fn begin(&self, _: &Limits, _: &Tenant, _: &Pool, _: Instant) {}

    fn log(state: &mut State<Self>, level: Level, message: &str, _: &[(String, String)]) {
        let line = cut(message.to_owned(), state.call.limits.log_line_bytes);
        if level == Level::Error {
            state.last_error_line = Some(line);
        } else if let Some(chain) = &state.call.chain {
            state.call.guest.calls.print(chain, line);
        }
    }
}

/// Error that unwinds a guest after [`State::stop`]. The reason is in [`State::stopped`].
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host")]
pub(crate) struct Stop;

/// One call of a guest: what it may do, and on whose behalf.
pub(crate) struct Call<G> {
    /// Name of the running tool, for errors.
    pub(crate) tool: ToolName,
    /// Chain of the running call; `None` while a guest only describes itself.
    pub(crate) chain: Option<Chain>,
    pub(crate) limits: Limits,
    pub(crate) guest: G,
}

impl<G> Call<G> {
    /// Returns the tenant that the call is charged to.
    pub(crate) fn tenant(&self) -> &Tenant {
        self.chain.as_ref().map_or(&Tenant::GATEWAY, Chain::tenant)
    }
}

/// State of one store: its call, and what the call has used so far.
pub(crate) struct State<G: GuestSide> {
    pub(crate) call: Call<G>,
    #[cfg_attr(
        not(feature = "plugins"),
        expect(dead_code, reason = "a script has no state at the host")
    )]
    pub(crate) running: G::Running,
    pub(crate) meter: Meter,
    pub(crate) limiter: MemoryLimiter,
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    /// Bytes that the tools called by the guest may still return to it, all results together.
    pub(crate) result_bytes_left: usize,
    pub(crate) log_lines_left: u32,
    /// Reason that the host ended the guest, if it did.
    pub(crate) stopped: Option<CallError>,
    /// Last line that a script logged at level error: the message of its panic hook.
    pub(crate) last_error_line: Option<String>,
}

impl<G: GuestSide> State<G> {
    pub(super) fn new(call: Call<G>, memory: &Pool) -> Self {
        let limits = &call.limits;
        let started = Instant::now();
        let own = started + limits.deadline;
        let deadline = call.chain.as_ref().map_or(own, |chain| own.min(chain.deadline()));
        Self {
            running: call.guest.begin(limits, call.tenant(), memory, deadline),
            meter: Meter::new(limits.host_calls, started),
            limiter: MemoryLimiter::new(limits, memory, call.tenant()),
            started,
            deadline,
            result_bytes_left: limits.copied_bytes.saturating_mul(8),
            log_lines_left: limits.log_lines,
            stopped: None,
            last_error_line: None,
            call,
        }
    }

    /// Records `reason` as the end of the guest. The returned error only unwinds the guest.
    pub(crate) fn stop(&mut self, reason: CallError) -> wasmtime::Error {
        self.stopped.get_or_insert(reason);
        Stop.into()
    }
}
