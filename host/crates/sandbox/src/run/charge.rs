//! Charges fuel for the work that a call causes in the host, and counts its host calls. Fuel is
//! charged by size and never by time, so that it stays deterministic.
//!
//! Every exit of a guest to the host is charged, whatever it is for: a host function, or one of the
//! engine's own, such as growing memory or dropping a handle. An exit costs the guest a few units of
//! its own fuel, and takes the host a thousand times as long as those units. Without an extra
//! charge, a guest that does nothing else would use almost no fuel, and would occupy its worker for
//! milliseconds before its own fuel makes it yield. Host functions charge for their input and output
//! in addition ([`charge_call`], [`charge`]).
//!
//! The work that one exit causes in the host is not the same for all exits, and the engine charges
//! nothing for its own, such as passing a string from one inner component to another. So a guest
//! also yields after every [slice](super::meter::SLICE); its deadline and its CPU time are checked
//! then. The fuel that it burns does not depend on that.

use std::{
    future::{Future, ready},
    pin::Pin,
    task::{Context, Poll},
};

use airlock_core::tool::CallError;
use wasmtime::{CallHook, CallHookHandler, Trap};

use super::state::{GuestSide, State, Store};

/// Fuel that every host call costs.
pub(crate) const BASE_FUEL: u64 = 1_000;
/// Cost of an exit, in fuel.
const EXIT_FUEL: u64 = 1_000;

/// Counts a host call, and charges `base` fuel and one unit for each of its `bytes`. Stops the guest
/// if it may make no more host calls; fails if it has no fuel left.
pub(crate) fn charge_call<G: GuestSide>(
    store: &mut Store<'_, G>,
    base: u64,
    bytes: usize,
) -> wasmtime::Result<()> {
    store.data_mut().count_host_call()?;
    charge(store, base + bytes as u64)
}

/// Charges fuel for the input or output of a host call. Fails if the guest has no fuel left.
pub(crate) fn charge<G: GuestSide>(store: &mut Store<'_, G>, fuel: u64) -> wasmtime::Result<()> {
    let left = store.get_fuel()?;
    let meter = &mut store.data_mut().meter;
    meter.add(fuel);
    if meter.debt() > left { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}

/// Charges fuel for every exit from `store`.
pub(crate) fn charge_exits<G: GuestSide>(store: &mut wasmtime::Store<State<G>>) {
    store.call_hook_async(Exits);
}

impl<G: GuestSide> State<G> {
    /// Counts a host call, for this guest and for the whole chain. Stops the guest if a limit is
    /// reached.
    fn count_host_call(&mut self) -> wasmtime::Result<()> {
        let limit = self.call.limits.host_calls.into();
        if !self.meter.take_host_call() {
            return Err(self.stop(CallError::budget("host calls", limit)));
        }
        match &self.call.chain {
            Some(chain) if !chain.meter().take_host_call() => {
                Err(self.stop(CallError::budget("host calls of the whole chain", limit)))
            }
            _ => Ok(()),
        }
    }

    /// Moves the late fuel to the meter.
    pub(crate) fn collect_late_fuel(&mut self) {
        let fuel = G::take_late_fuel(self);
        self.meter.add(fuel);
    }
}

struct Exits;

type Charged<'a> = Pin<Box<dyn Future<Output = wasmtime::Result<()>> + Send + 'a>>;

impl<G: GuestSide> CallHookHandler<State<G>> for Exits {
    /// Charges an exit, and yields if the guest has to. Written by hand and not with the trait's
    /// macro, so that the path of nearly every exit allocates nothing.
    fn handle_call_event<'this, 'store, 'charged>(
        &'this self,
        mut store: Store<'store, G>,
        event: CallHook,
    ) -> Charged<'charged>
    where
        'this: 'charged,
        'store: 'charged,
        Self: 'charged,
    {
        if !matches!(event, CallHook::CallingHost) {
            return Box::pin(AtOnce);
        }
        match charge_exit(&mut store) {
            Ok(false) => Box::pin(AtOnce),
            Ok(true) => Box::pin(async move {
                tokio::task::yield_now().await;
                store.data_mut().meter.yielded();
                Ok(())
            }),
            Err(spent) => Box::pin(ready(Err(spent))),
        }
    }
}

/// Charges an exit. Returns whether the guest has to yield. Fails if the debt exceeds the fuel
/// left.
fn charge_exit<G: GuestSide>(store: &mut Store<'_, G>) -> wasmtime::Result<bool> {
    store.data_mut().collect_late_fuel();
    charge(store, EXIT_FUEL)?;
    Ok(store.data_mut().meter.must_yield())
}

/// Future that is ready at once. It has no size, so boxing it allocates nothing.
struct AtOnce;

impl Future for AtOnce {
    type Output = wasmtime::Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(all(test, feature = "plugins"))]
mod tests {
    use std::{
        future::poll_fn,
        sync::Arc,
        time::{Duration, Instant},
    };

    use airlock_compile::pooled_engine;
    use airlock_core::tool::{CallError, ClientName, ReachedLimit, ToolName};
    use wasmtime::{
        Engine,
        component::{Component, Linker},
    };

    use super::*;
    use crate::{
        Limits,
        plugin::{side::PluginSide, wasi},
        run::{instance, memory, meter::SLICE},
    };

    /// Component that reads the clock, calls a slow host function, or grows its memory, as many
    /// times as its argument.
    const GUEST: &str = r#"
        (component
          (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
            (export "now" (func (result u64)))))
          (import "slow" (func $slow))
          (core func $now (canon lower (func $clock "now")))
          (core func $slow_core (canon lower (func $slow)))
          (core module $module
            (import "" "now" (func $now (result i64)))
            (import "" "slow" (func $slow))
            (memory 1 2)
            (func (export "clock") (param $times i32)
              (loop $again
                (drop (call $now))
                (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
            (func (export "slow") (param $times i32)
              (loop $again
                (call $slow)
                (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
            (func (export "grow") (param $times i32)
              (loop $again
                (drop (memory.grow (i32.const 0)))
                (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))))
          (core instance $instance (instantiate $module (with "" (instance
            (export "now" (func $now)) (export "slow" (func $slow_core))))))
          (func (export "clock") (param "times" u32) (canon lift (core func $instance "clock")))
          (func (export "slow") (param "times" u32) (canon lift (core func $instance "slow")))
          (func (export "grow") (param "times" u32) (canon lift (core func $instance "grow"))))"#;

    /// Runs the guest. Returns how it ended, and the number of times that it yielded before.
    async fn run(
        engine: &Engine,
        what: &str,
        times: u32,
        fuel: u64,
    ) -> (Result<(), CallError>, u32) {
        let component = Component::new(engine, wat::parse_str(GUEST).expect("a component"))
            .expect("it compiles");
        let mut linker = Linker::new(engine);
        wasi::link(&mut linker).expect("it links");
        linker
            .root()
            .func_wrap("slow", |_: Store<'_, PluginSide>, (): ()| {
                let began = Instant::now();
                while began.elapsed() < 2 * SLICE {
                    std::hint::spin_loop();
                }
                Ok(())
            })
            .expect("it links");
        let client = ClientName::parse("test").expect("a name");
        let name = ToolName::new(&client, what);
        let limits = Limits { fuel, cpu: Duration::from_mins(1), ..Limits::PLUGIN };
        let call = PluginSide::denied(client, Arc::default()).call(name, limits);
        let memory = memory::budget(1 << 30);
        let mut running = Box::pin(instance::run(engine, &memory, call, async |store| {
            let instance = linker.instantiate_async(&mut *store, &component).await?;
            let flood = instance.get_typed_func::<(u32,), ()>(&mut *store, what)?;
            let began = std::time::Instant::now();
            flood.call_async(store, (times,)).await?;
            eprintln!("{what}: {:?} an exit", began.elapsed() / times);
            Ok(())
        }));
        let mut yields = 0;
        let ended = poll_fn(|context| {
            let polled = running.as_mut().poll(context);
            yields += u32::from(polled.is_pending());
            polled
        });
        (ended.await, yields)
    }

    #[tokio::test]
    async fn every_exit_costs_a_fixed_amount_of_fuel() {
        let engine = pooled_engine(1, None).expect("an engine");
        for what in ["clock", "grow"] {
            let (ended, _) = run(&engine, what, 1_000, 1_100_000).await;
            ended.expect("a tenth more than the exits cost");
            let (ended, _) = run(&engine, what, 1_000, 1_000_000).await;
            let limit = ended.expect_err("it is too little").limit();
            assert_eq!(limit, Some(ReachedLimit::Amount(1_000_000)), "{what}");
        }
    }

    #[tokio::test]
    async fn a_guest_that_only_calls_the_host_yields() {
        let engine = pooled_engine(1, None).expect("an engine");
        for what in ["clock", "grow"] {
            let (ended, yields) = run(&engine, what, 100_000, 1_000_000_000).await;
            ended.expect("it has the fuel");
            // It yields more often on a busy machine, where there are fewer exits in a slice.
            assert!(yields >= 100, "{what} yielded {yields} times in 100,000 exits");
        }
    }

    #[tokio::test]
    async fn a_guest_whose_host_calls_outlast_a_slice_yields_after_each() {
        let (ended, yields) =
            run(&pooled_engine(1, None).expect("an engine"), "slow", 20, 1_000_000).await;
        ended.expect("it has the fuel");
        assert!(yields >= 19, "yielded {yields} times in 20 calls that are longer than a slice");
    }
}
