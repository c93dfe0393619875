//! Runs one call of one guest: a store is made for it, runs within its limits, and is dropped
//! afterwards, whatever the outcome.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
#[cfg(feature = "plugins")]
use std::{future::poll_fn, pin::pin};

use airlock_core::{
    admission::Share,
    door::Chain,
    tenant::{Pool, Tenant},
    tool::CallError,
};
use pin_project_lite::pin_project;
use tokio::{
    task::coop::{Unconstrained, unconstrained},
    time::{Sleep, sleep_until},
};
use wasmtime::{Engine, Store};

use super::{
    beside::GuestWithCalls,
    charge,
    meter::YIELD_INTERVAL,
    outcome::{self, GuestEnd},
    state::{Call, GuestSide, State},
    totals::GuestTotals,
};
use crate::Limits;

/// Resources with which the calls of one guest run.
pub(crate) struct GuestRunner {
    pub(crate) engine: Engine,
    /// Memory budget of all guests, which also covers what the host holds for them.
    pub(crate) memory: Pool,
    /// The guest's share of the slots.
    pub(crate) share: Share,
    pub(crate) totals: Arc<GuestTotals>,
}

impl GuestRunner {
    /// Waits for a slot, makes the `call`, and runs `body` in a fresh store. The slot is that of the
    /// `chain`; without one, the gateway itself calls. Fails with `busy` if no slot becomes free in time.
    pub(crate) async fn run<G: GuestSide, T>(
        &self,
        chain: Option<&Chain>,
        call: impl FnOnce() -> Result<Call<G>, CallError>,
        body: impl AsyncFnOnce(&mut Store<State<G>>) -> wasmtime::Result<T>,
    ) -> Result<T, CallError> {
        let (tenant, depth, deadline) = match chain {
            Some(chain) => (chain.tenant(), chain.depth(), Some(chain.deadline())),
            None => (&Tenant::GATEWAY, 1, None),
        };
        let slot = self.share.wait_for_slot(tenant, depth, deadline).await;
        let slot = slot.map_err(|_| CallError::busy().not_begun())?;
        let store = new_store(&self.engine, &self.memory, call()?)?;
        let ended = run_counted(Some(&self.totals), store, body).await;
        // The store is gone.
        drop(slot);
        ended
    }
}

/// Runs `body` in a fresh store, for tests. Nothing counts the call.
#[cfg(all(test, feature = "plugins"))]
pub(crate) async fn run<G: GuestSide, T>(
    engine: &Engine,
    memory: &Pool,
    call: Call<G>,
    body: impl AsyncFnOnce(&mut Store<State<G>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    run_counted(None, new_store(engine, memory, call)?, body).await
}

/// Makes the store of a call that begins now. Fails if the chain of the call has no fuel left.
fn new_store<G: GuestSide>(
    engine: &Engine,
    memory: &Pool,
    mut call: Call<G>,
) -> Result<Store<State<G>>, CallError> {
    if let Some(chain) = &call.chain {
        call.limits.fuel = chain.meter().share_fuel(call.limits.fuel, call.limits.host_calls)?;
    }
    Ok(Store::new(engine, State::new(call, memory)))
}

/// Runs `body` in a fresh store, and counts the call in `totals` once it has ended. The future may be dropped at any
/// point, which ends the guest.
async fn run_counted<G: GuestSide, T>(
    totals: Option<&GuestTotals>,
    mut store: Store<State<G>>,
    body: impl AsyncFnOnce(&mut Store<State<G>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let limits = store.data().call.limits;
    let State { started, deadline, .. } = *store.data();
    let prepared = prepare(&mut store, &limits);
    let ended = match prepared {
        Ok(()) => {
            let metered =
                Metered { inner: body(&mut store), active: Duration::ZERO, budget: limits.cpu };
            let timed = Timed { guest: GuestWithCalls::new(metered), deadline, timer: None };
            match timed.await {
                Ok(Ok(result)) => GuestEnd::Returned(result),
                Ok(Err(CpuSpent)) => GuestEnd::Cpu,
                Err(DeadlinePassed) => {
                    let left = deadline.saturating_duration_since(started);
                    GuestEnd::Deadline(allowed(&limits, left))
                }
            }
        }
        Err(error) => GuestEnd::Returned(Err(error)),
    };
    finish(totals, limits, store, ended)
}

/// Runs `body` in a fresh store, to its end or its limits. For guests that wait for nothing, whose calls belong to no
/// chain and are not counted. The future yields after every [`YIELD_INTERVAL`], and has woken its task then: other tasks
/// run meanwhile, and a thread that has nothing else to do may poll it to its end.
#[cfg(feature = "plugins")]
pub(crate) async fn run_alone<G: GuestSide, T>(
    engine: &Engine,
    memory: &Pool,
    call: Call<G>,
    body: impl AsyncFnOnce(&mut Store<State<G>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let mut store = new_store(engine, memory, call)?;
    let limits = store.data().call.limits;
    let deadline = store.data().deadline;
    let ended = match prepare(&mut store, &limits) {
        Ok(()) => {
            let metered =
                Metered { inner: body(&mut store), active: Duration::ZERO, budget: limits.cpu };
            let mut guest = pin!(metered);
            // Without a timer: the guest is polled again after each slice.
            poll_fn(|context| {
                let polled = guest.as_mut().poll(context);
                if polled.is_pending() && Instant::now() >= deadline {
                    return Poll::Ready(GuestEnd::Deadline(round(limits.deadline)));
                }
                polled.map(|ended| ended.map_or(GuestEnd::Cpu, GuestEnd::Returned))
            })
            .await
        }
        Err(error) => GuestEnd::Returned(Err(error)),
    };
    finish(None, limits, store, ended)
}

/// Drops the store of a call that has ended, and counts the call in `totals`.
fn finish<G: GuestSide, T>(
    totals: Option<&GuestTotals>,
    limits: Limits,
    mut store: Store<State<G>>,
    ended: GuestEnd<T>,
) -> Result<T, CallError> {
    let burnt = limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0));
    let state = store.data_mut();
    state.collect_late_fuel();
    G::end(state);
    let spent = burnt.saturating_add(state.meter.debt());
    let memory_bytes = state.limiter.memory_bytes() as u64;
    if let Some(chain) = &state.call.chain {
        chain.meter().spend_fuel(spent.min(limits.fuel));
        chain.meter().record_memory(memory_bytes);
        if G::may_have_acted(state) {
            chain.reporter().act();
        }
    }
    // Debt is compared with the fuel left only at exits and in host calls. A guest that computes on
    // after its last exit may end with less fuel than debt.
    let result = if spent > limits.fuel && matches!(ended, GuestEnd::Returned(Ok(_))) {
        Err(outcome::Overrun::Fuel.error(&state.call))
    } else {
        outcome::classify(ended, state)
    };
    drop(store);
    if let Some(totals) = totals {
        totals.add(G::IS_SCRIPT, &result, spent, memory_bytes);
    }
    result
}

/// Returns the time that a call is said to have had: the configured one if it had all of it. Otherwise what its chain had
/// left, rounded up to the millisecond.
fn allowed(limits: &Limits, left: Duration) -> Duration {
    if left + Duration::from_millis(1) >= limits.deadline { limits.deadline } else { round(left) }
}

/// Rounds up to whole milliseconds.
fn round(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

fn prepare<G: GuestSide>(store: &mut Store<State<G>>, limits: &Limits) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.limiter);
    charge::charge_exits(store);
    store.set_hostcall_fuel(limits.copied_bytes);
    store.set_max_component_handles(limits.handles);
    store.set_fuel(limits.fuel)?;
    store.fuel_async_yield_interval(Some(YIELD_INTERVAL))
}

/// Error: the deadline has passed.
struct DeadlinePassed;

pin_project! {
    /// A guest with a deadline. Its timer is made when the guest first waits or yields, which most calls never do: making
    /// one counts a reference to the runtime, which all threads share.
    struct Timed<F> {
        #[pin]
        guest: F,
        deadline: Instant,
        // A guest that uses up what its task may do at once is stopped at its deadline all the same.
        #[pin]
        timer: Option<Unconstrained<Sleep>>,
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = Result<F::Output, DeadlinePassed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(ended) = this.guest.poll(context) {
            return Poll::Ready(Ok(ended));
        }
        if this.timer.is_none() {
            this.timer.set(Some(unconstrained(sleep_until((*this.deadline).into()))));
        }
        match this.timer.as_pin_mut() {
            Some(timer) => timer.poll(context).map(|()| Err(DeadlinePassed)),
            None => Poll::Pending,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt as _;

    use super::*;

    fn timed<F>(guest: F, deadline: Instant) -> Timed<F> {
        Timed { guest, deadline, timer: None }
    }

    #[test]
    fn a_guest_that_never_waits_needs_no_timer() {
        // Outside of a runtime, which a timer would need.
        let ended = timed(ready(7), Instant::now()).now_or_never();
        assert!(matches!(ended, Some(Ok(7))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_waits_is_stopped_at_its_deadline_and_not_before() {
        let began = tokio::time::Instant::now();
        let time = Duration::from_secs(30);
        let ended = timed(pending::<()>(), began.into_std() + time).await;
        assert!(matches!(ended, Err(DeadlinePassed)));
        let waited = began.elapsed();
        assert!(waited >= time && waited < time + Duration::from_millis(10), "{waited:?}");
    }

    #[test]
    fn a_call_is_said_to_have_had_its_own_time_or_what_its_chain_had_left() {
        let limits = Limits { deadline: Duration::from_secs(1), ..Limits::PLUGIN };
        for (left_us, expected_ms) in [(1_000_000, 1_000), (999_500, 1_000), (20_100, 21), (0, 0)] {
            let found = allowed(&limits, Duration::from_micros(left_us));
            assert_eq!(found, Duration::from_millis(expected_ms), "{left_us} µs");
        }
    }
}
