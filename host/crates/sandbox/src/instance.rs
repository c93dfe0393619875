//! One call of one guest: a store made for it, run within its limits, thrown away afterwards
//! whatever happened.

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

/// What a guest's `call-context` handle stands for: the store's own call.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, and are not seen outside either"
)]
pub struct CallHandle;

/// Who writes to the log.
pub(super) enum Speaker {
    /// A plugin, to the operator's log, as fast as it may.
    Plugin(ClientName, Arc<LogRate>),
    /// A script, whose lines are its printed output.
    Script,
}

impl Speaker {
    /// The plugin's name; none that a plugin could have for a script.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Plugin(client, _) => client.as_str(),
            Self::Script => "",
        }
    }
}

/// Unwinds a guest that [`State::stop`] ended; the reason stands in the state.
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host")]
pub(super) struct Stop;

/// Everything that one store holds.
pub(super) struct State {
    /// What is running, for errors.
    pub(super) tool: ToolName,
    /// The running call; none while a guest only describes itself.
    pub(super) chain: Option<Chain>,
    /// Where the guest's own calls come from.
    pub(super) origin: Origin,
    pub(super) speaker: Speaker,
    pub(super) limits: Limits,
    /// What the guest was lent.
    pub(super) grants: Arc<Grants>,
    /// Where the guest's stores are.
    pub(super) database: Option<Database>,
    /// What may be sent over HTTP, and what was sent so far.
    pub(super) wasi_http: WasiHttp,
    pub(super) limiter: Limiter,
    pub(super) deadline: Instant,
    pub(super) host_calls_left: u32,
    /// Fuel that host calls cost, beside what the store has burnt itself.
    pub(super) fuel_debt: u64,
    /// What it was when the guest last gave way because of it.
    pub(super) debt_at_yield: u64,
    /// When it last gave way because of a call to the host.
    pub(super) gave_way: Instant,
    /// Bytes of answers that the guest may still be given by the tools it calls.
    pub(super) answer_bytes_left: usize,
    pub(super) log_lines_left: u32,
    pub(super) emit_bytes_left: usize,
    /// Why the host ended the guest, if it did.
    pub(super) stopped: Option<CallError>,
    /// What the guest's panic hook said.
    pub(super) last_words: Option<String>,
    pub(super) table: ResourceTable,
    pub(super) wasi: Wasi,
}

/// What a call needs beside its guest.
pub(super) struct Start {
    pub(super) chain: Option<Chain>,
    pub(super) origin: Origin,
    pub(super) speaker: Speaker,
    pub(super) limits: Limits,
    pub(super) grants: Arc<Grants>,
    /// Where its stores are.
    pub(super) database: Option<Database>,
    /// Where its requests leave.
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

/// Runs `body` in a fresh store. The future may be dropped at any point; the guest ends with it.
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
    // As configured where the call had all of it; to the millisecond where its chain had less left.
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
    // A guest may compute on after its last host call without looking at what that cost.
    if spent > limits.fuel && matches!(ended, Ended::Returned(Ok(_))) {
        return Err(CallError::Fuel { tool: tool.clone(), limit: limits.fuel });
    }
    outcome::classify(tool, ended, state)
}

/// To the millisecond above.
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

/// How a call ended, before anyone asked why.
pub(super) enum Ended<T> {
    /// The guest returned or trapped.
    Returned(wasmtime::Result<T>),
    /// It computed for too long.
    Cpu,
    /// It took too long; the time that it had.
    Deadline(Duration),
}

/// The guest has used its CPU time.
struct CpuSpent;

pin_project! {
    /// Times every poll of a call, so that only computing counts and neither waiting nor queueing
    /// does. The guest gives way after [`YIELD_INTERVAL`], which bounds how late this notices.
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
