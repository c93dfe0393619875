//! One call of one guest: a store that is made for it, run within its limits, and dropped
//! afterwards whatever happened.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use airlock_core::{
    door::{Chain, Origin},
    tenant::{Pool, Tenant},
    tool::{CallError, ClientName, ToolName},
};
use airlock_egress::Outlet;
use airlock_store::Database;
use pin_project_lite::pin_project;
use wasmtime::{Engine, Store, component::ResourceTable};

use super::{
    Grants, Limits,
    engine::YIELD_INTERVAL,
    exits,
    imports::{log::LogRate, wasi_http::WasiHttp},
    memory::Limiter,
    outcome,
    wasi::Wasi,
};

/// Host type behind a guest's `call-context` handle, which stands for the store's own call.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, and are not seen outside either"
)]
pub struct CallHandle;

/// Source of a guest's log lines.
pub(super) enum Speaker {
    /// A plugin. Its lines go to the operator's log, at a limited rate.
    Plugin(ClientName, Arc<LogRate>),
    /// A script. Its lines are its printed output.
    Script,
}

impl Speaker {
    /// Returns the plugin's name; for a script, the empty string, which no plugin can have.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Plugin(client, _) => client.as_str(),
            Self::Script => "",
        }
    }
}

/// Error that unwinds a guest after [`State::stop`]. The reason is in [`State::stopped`].
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host")]
pub(super) struct Stop;

/// State of one store.
pub(super) struct State {
    /// Name of the running tool, for errors.
    pub(super) tool: ToolName,
    /// Chain of the running call; `None` while a guest only describes itself.
    pub(super) chain: Option<Chain>,
    /// Origin of the calls that the guest makes.
    pub(super) origin: Origin,
    pub(super) speaker: Speaker,
    pub(super) limits: Limits,
    /// Grants of the guest.
    pub(super) grants: Arc<Grants>,
    /// Database that holds the guest's stores.
    pub(super) database: Option<Database>,
    /// Outbound HTTP: the requests that the guest may send, and those sent so far.
    pub(super) wasi_http: WasiHttp,
    pub(super) limiter: Limiter,
    pub(super) deadline: Instant,
    pub(super) host_calls_left: u32,
    /// Fuel charged for host calls, in addition to the fuel that the store itself has burnt.
    pub(super) fuel_debt: u64,
    /// Value of `fuel_debt` when the guest last yielded at an exit.
    pub(super) debt_at_yield: u64,
    /// Time at which the guest last yielded at an exit; before that, the start of the call.
    pub(super) gave_way: Instant,
    /// Bytes that the tools called by the guest may still return to it, all results together.
    pub(super) answer_bytes_left: usize,
    pub(super) log_lines_left: u32,
    pub(super) emit_bytes_left: usize,
    /// Reason that the host ended the guest, if it did.
    pub(super) stopped: Option<CallError>,
    /// Last line that a script logged at level error: the message of its panic hook.
    pub(super) last_words: Option<String>,
    pub(super) table: ResourceTable,
    pub(super) wasi: Wasi,
}

/// Inputs of a call besides its guest.
pub(super) struct Start {
    pub(super) chain: Option<Chain>,
    pub(super) origin: Origin,
    pub(super) speaker: Speaker,
    pub(super) limits: Limits,
    pub(super) grants: Arc<Grants>,
    /// Database that holds the guest's stores.
    pub(super) database: Option<Database>,
    /// Outlet for the guest's HTTP requests.
    pub(super) outlet: Option<Outlet>,
    pub(super) wasi: Wasi,
}

impl State {
    fn new(tool: &ToolName, start: Start, memory: &Pool) -> Self {
        let limits = start.limits;
        let tenant = start.chain.as_ref().map_or(&Tenant::GATEWAY, Chain::tenant);
        let own = Instant::now() + limits.deadline;
        let deadline = start.chain.as_ref().map_or(own, |chain| own.min(chain.deadline()));
        let wasi_http =
            WasiHttp::new(start.outlet.map(|outlet| outlet.session(tenant, memory, deadline)));
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            limiter: Limiter::new(&limits, memory, tenant),
            tool: tool.clone(),
            grants: start.grants,
            database: start.database,
            wasi_http,
            chain: start.chain,
            origin: start.origin,
            speaker: start.speaker,
            deadline,
            host_calls_left: limits.host_calls,
            fuel_debt: 0,
            debt_at_yield: 0,
            gave_way: Instant::now(),
            answer_bytes_left: limits.copied_bytes.saturating_mul(8),
            log_lines_left: limits.log_lines,
            emit_bytes_left: limits.result_bytes,
            stopped: None,
            last_words: None,
            table,
            wasi: start.wasi,
            limits,
        }
    }
}

/// Runs `body` in a fresh store. The future may be dropped at any point, which ends the guest.
pub(super) async fn run<T>(
    engine: &Engine,
    memory: &Pool,
    tool: &ToolName,
    mut start: Start,
    body: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    if let Some(chain) = &start.chain {
        start.limits.fuel = chain.meter().share_fuel(start.limits.fuel, start.limits.host_calls)?;
    }
    let limits = start.limits;
    let mut store = Store::new(engine, State::new(tool, start, memory));
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
            match tokio::time::timeout_at(deadline.into(), metered).await {
                Ok(Ok(result)) => Ended::Returned(result),
                Ok(Err(CpuSpent)) => Ended::Cpu,
                Err(_) => Ended::Deadline(allowed),
            }
        }
        Err(error) => Ended::Returned(Err(error)),
    };
    let burnt = limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0));
    // A store is never used after its call, so its state can be taken apart.
    let state = store.into_data();
    let late = state.wasi_http.take_fuel_debt() + state.wasi.take_fuel_debt();
    let spent = burnt.saturating_add(state.fuel_debt).saturating_add(late);
    if let Some(chain) = &state.chain {
        chain.meter().spend_fuel(spent.min(limits.fuel));
    }
    // Debt is compared with the fuel left only at exits and in host calls. A guest that computes on
    // after its last exit may end with less fuel than debt.
    if spent > limits.fuel && matches!(ended, Ended::Returned(Ok(_))) {
        return Err(CallError::Fuel { tool: tool.clone(), limit: limits.fuel });
    }
    outcome::classify(tool, ended, state)
}

/// Rounds up to whole milliseconds.
fn round(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

fn prepare(store: &mut Store<State>, limits: &Limits) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.limiter);
    exits::charge(store);
    store.set_hostcall_fuel(limits.copied_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_fuel(limits.fuel)?;
    store.fuel_async_yield_interval(Some(YIELD_INTERVAL))
}

/// End of a call, before its cause is classified.
pub(super) enum Ended<T> {
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
