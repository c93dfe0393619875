//! One call of one guest: a store that is made for it, run within its limits, and dropped
//! afterwards, whatever the outcome.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use airlock_core::{
    door::{Chain, Origin},
    tenant::{Pool, Reservation, Tenant},
    tool::{CallError, ClientName, Content, ToolName},
};
use airlock_egress::Outlet;
use airlock_store::Database;
use pin_project_lite::pin_project;
use wasmtime::{Engine, Store, component::ResourceTable};

use super::{
    beside::Beside,
    memory::Limiter,
    meter::{self, Meter},
    outcome,
};
use crate::{
    Bindings, DeclaredEffect, Effect, Grants, Limits, ScriptCalls,
    engine::YIELD_INTERVAL,
    imports::{log::LogRate, wasi_http::WasiHttp},
    uses::{CallRecorder, Use},
    wasi::Wasi,
};

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
    fn new(call: Call, memory: &Pool) -> Self {
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
    fn may_have_acted(&self) -> bool {
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

/// Runs `body` in a fresh store. The future may be dropped at any point, which ends the guest.
pub(crate) async fn run<T>(
    engine: &Engine,
    memory: &Pool,
    mut call: Call,
    body: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    if let Some(chain) = &call.chain {
        call.limits.fuel = chain.meter().share_fuel(call.limits.fuel, call.limits.host_calls)?;
    }
    let limits = call.limits;
    let mut store = Store::new(engine, State::new(call, memory));
    let deadline = store.data().deadline;
    let left = deadline.saturating_duration_since(Instant::now());
    // The configured deadline if the call had all of it. Otherwise the time that its chain had
    // left, rounded up to the millisecond.
    let allowed = if left + Duration::from_millis(1) >= limits.deadline {
        limits.deadline
    } else {
        round(left)
    };
    let prepared = prepare(&mut store, &limits);
    let ended = match prepared {
        Ok(()) => {
            let metered =
                Metered { inner: body(&mut store), active: Duration::ZERO, budget: limits.cpu };
            match tokio::time::timeout_at(deadline.into(), Beside::new(metered)).await {
                Ok(Ok(result)) => Ended::Returned(result),
                Ok(Err(CpuSpent)) => Ended::Cpu,
                Err(_) => Ended::Deadline(allowed),
            }
        }
        Err(error) => Ended::Returned(Err(error)),
    };
    let burnt = limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0));
    // A store is never used after its call, so its state can be taken apart.
    let mut state = store.into_data();
    state.collect_late_fuel();
    state.log_refused_effects();
    let spent = burnt.saturating_add(state.meter.debt());
    if let Some(chain) = &state.call.chain {
        chain.meter().spend_fuel(spent.min(limits.fuel));
        if state.may_have_acted() {
            chain.reporter().act();
        }
    }
    // Debt is compared with the fuel left only at exits and in host calls. A guest that computes on
    // after its last exit may end with less fuel than debt.
    if spent > limits.fuel && matches!(ended, Ended::Returned(Ok(_))) {
        return Err(outcome::Overrun::Fuel.error(&state.call));
    }
    outcome::classify(ended, state)
}

/// Rounds up to whole milliseconds.
fn round(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

fn prepare(store: &mut Store<State>, limits: &Limits) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.limiter);
    meter::charge_exits(store);
    store.set_hostcall_fuel(limits.copied_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_fuel(limits.fuel)?;
    store.fuel_async_yield_interval(Some(YIELD_INTERVAL))
}

/// End of a call, before its cause is classified.
pub(crate) enum Ended<T> {
    /// The guest returned or trapped.
    Returned(wasmtime::Result<T>),
    /// The call used up its CPU time.
    Cpu,
    /// The call passed its deadline. Holds the time that it had.
    Deadline(Duration),
}

/// Error: the guest has used up its CPU time.
struct CpuSpent;

pin_project! {
    /// Measures the time of every poll of a call, so that only computing counts, not waiting or
    /// queueing. The guest yields after every [`YIELD_INTERVAL`], which bounds how late an overrun
    /// is noticed.
    struct Metered<F> {
        #[pin]
        inner: F,
        active: Duration,
        budget: Duration,
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = Result<F::Output, CpuSpent>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let started = Instant::now();
        let polled = this.inner.poll(context).map(Ok);
        *this.active += started.elapsed();
        if polled.is_pending() && *this.active > *this.budget {
            Poll::Ready(Err(CpuSpent))
        } else {
            polled
        }
    }
}
