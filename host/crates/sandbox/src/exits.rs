//! Charges fuel for every exit of a guest to the host, whatever it is for: a host function, or one
//! of the engine's own, such as growing memory or dropping a handle.
//!
//! A call of the host takes a guest a few units of its own fuel, and takes the host a thousand
//! times as long as those units. Without an extra charge, a guest that does nothing else would cost
//! next to nothing, and would keep its worker for milliseconds before its own fuel makes it yield.
//! The work that one exit causes in the host is not the same for all exits, and the engine charges
//! nothing for its own, such as passing a string from one inner component to another. So a guest
//! also yields after every [`SLICE`]; its deadline and its CPU time are checked then. The fuel that
//! it burns does not depend on that.

use std::{
    future::{Future, ready},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use wasmtime::{CallHook, CallHookHandler, Store, StoreContextMut, Trap};

use super::{engine::YIELD_INTERVAL, instance::State};

/// Cost of an exit, in fuel.
const EXIT_FUEL: u64 = 1_000;
/// Time after which a guest yields at its next exit.
const SLICE: Duration = Duration::from_millis(1);

/// Charges fuel for every exit from `store`.
pub(super) fn charge(store: &mut Store<State>) {
    store.call_hook_async(Exits);
}

struct Exits;

type Charged<'a> = Pin<Box<dyn Future<Output = wasmtime::Result<()>> + Send + 'a>>;

impl CallHookHandler<State> for Exits {
    /// Charges an exit, and yields if the guest has to. Written by hand and not with the trait's
    /// macro, so that the path of nearly every exit allocates nothing.
    fn handle_call_event<'this, 'store, 'charged>(
        &'this self,
        mut store: StoreContextMut<'store, State>,
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
        match take(&mut store) {
            Ok(false) => Box::pin(AtOnce),
            Ok(true) => Box::pin(async move {
                tokio::task::yield_now().await;
                store.data_mut().gave_way = Instant::now();
                Ok(())
            }),
            Err(spent) => Box::pin(ready(Err(spent))),
        }
    }
}

/// Charges an exit. Returns whether the guest has to yield, which is the case if its debt has grown
/// by as much as it may burn at once, or if its slice is over. Fails if the debt exceeds the fuel
/// left.
fn take(store: &mut StoreContextMut<'_, State>) -> wasmtime::Result<bool> {
    let left = store.get_fuel()?;
    let state = store.data_mut();
    let owed = EXIT_FUEL + state.wasi_http.take_fuel_debt() + state.wasi.take_fuel_debt();
    state.fuel_debt = state.fuel_debt.saturating_add(owed);
    if state.fuel_debt > left {
        return Err(Trap::OutOfFuel.into());
    }
    if state.fuel_debt - state.debt_at_yield < YIELD_INTERVAL && state.gave_way.elapsed() < SLICE {
        return Ok(false);
    }
    state.debt_at_yield = state.fuel_debt;
    Ok(true)
}

/// Future that is ready at once. It has no size, so boxing it allocates nothing.
struct AtOnce;

impl Future for AtOnce {
    type Output = wasmtime::Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc, time::Duration};

    use airlock_core::{
        door::Origin,
        tool::{CallError, ClientName, ToolName},
    };
    use wasmtime::{
        Engine,
        component::{Component, Linker},
    };

    use super::{
        super::{
            Limits,
            engine::engine,
            instance::{self, Speaker, Start},
            memory,
            wasi::{self, Wasi},
        },
        *,
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
        let slow = |_: StoreContextMut<'_, State>, (): ()| {
            let began = Instant::now();
            while began.elapsed() < 2 * SLICE {
                std::hint::spin_loop();
            }
            Ok(())
        };
        linker.root().func_wrap("slow", slow).expect("it links");
        let name = ToolName::new(&ClientName::parse("test").expect("a name"), what);
        let start = Start {
            chain: None,
            origin: Origin::Plugin(Arc::default()),
            speaker: Speaker::Script,
            limits: Limits { fuel, cpu: Duration::from_mins(1), ..Limits::PLUGIN },
            grants: Arc::default(),
            database: None,
            outlet: None,
            wasi: Wasi::denied(),
        };
        let memory = memory::budget(1 << 30);
        let mut running = Box::pin(instance::run(engine, &memory, &name, start, async |store| {
            let instance = linker.instantiate_async(&mut *store, &component).await?;
            let flood = instance.get_typed_func::<(u32,), ()>(&mut *store, what)?;
            let began = std::time::Instant::now();
            flood.call_async(store, (times,)).await?;
            eprintln!("{what}: {:?} an exit", began.elapsed() / times);
            Ok(())
        }));
        let mut gave_way = 0;
        let ended = poll_fn(|context| {
            let polled = running.as_mut().poll(context);
            gave_way += u32::from(polled.is_pending());
            polled
        });
        (ended.await, gave_way)
    }

    #[tokio::test]
    async fn every_exit_costs_a_fixed_amount_of_fuel() {
        let engine = engine(1).expect("an engine");
        for what in ["clock", "grow"] {
            let (ended, _) = run(&engine, what, 1_000, 1_100_000).await;
            ended.expect("a tenth more than the exits cost");
            let (ended, _) = run(&engine, what, 1_000, 1_000_000).await;
            assert!(
                matches!(ended, Err(CallError::Fuel { limit: 1_000_000, .. })),
                "{what}: {ended:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_guest_that_only_calls_the_host_yields() {
        let engine = engine(1).expect("an engine");
        for what in ["clock", "grow"] {
            let (ended, gave_way) = run(&engine, what, 100_000, 1_000_000_000).await;
            ended.expect("it has the fuel");
            // It yields more often on a busy machine, where there are fewer exits in a slice.
            assert!(gave_way >= 100, "{what} gave way {gave_way} times in 100,000 exits");
        }
    }

    #[tokio::test]
    async fn a_guest_whose_host_calls_outlast_a_slice_yields_after_each() {
        let (ended, gave_way) = run(&engine(1).expect("an engine"), "slow", 20, 1_000_000).await;
        ended.expect("it has the fuel");
        assert!(
            gave_way >= 19,
            "gave way {gave_way} times in 20 calls that are longer than a slice"
        );
    }
}
