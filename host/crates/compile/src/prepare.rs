//! Prepares a script executor: runs its `prepare` once before it is compiled, and makes the
//! resulting memory the initial memory of every run.
//!
//! Building the globals of Starlark takes 3 ms, a hundred times as long as a small script. The
//! guest runs here with fuel, a memory limit and no working import but its log, from which the
//! message of a panic is read.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use wasmtime::{
    Config, Engine, OptLevel, Result, Store, StoreLimits, StoreLimitsBuilder, bail,
    component::{Component, ComponentNamedList, Instance, Lift, Linker, Val, WasmList},
    error::Context as _,
};
use wasmtime_wizer::{ComponentInstanceState, Wizer};

/// Function that is run. It stays an export, because the executor's world requires it.
const PREPARE: &str = "prepare";
/// Fuel for `prepare`. Building the globals of Starlark takes 30 million units.
const FUEL: u64 = 2_000_000_000;
const MEMORY_BYTES: usize = 256 << 20;

/// Returns the component as it is after `prepare`. The result depends on the component alone.
pub(crate) fn prepare(component: &[u8]) -> Result<Vec<u8>> {
    let mut wizer = Wizer::new();
    wizer.init_func(PREPARE).keep_init_func(true);
    let (context, instrumented) = wizer.instrument_component(component)?;
    let mut guest = Guest::new(&instrumented)?;
    guest.prepare()?;
    now(wizer.snapshot_component(&context, &mut guest))?
}

/// Returns the output of a future that never waits; fails if it is pending. Wizer is async for
/// embedders whose guests are.
fn now<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Ok(outcome),
        Poll::Pending => bail!("the snapshot waits for something"),
    }
}

/// An executor that wizer has instrumented, instantiated with every import but its log denied.
struct Guest {
    store: Store<StoreLimits>,
    instance: Instance,
    /// Its last log message, which is the message of its panic.
    said: Arc<Mutex<String>>,
}

impl Guest {
    fn new(component: &[u8]) -> Result<Self> {
        // The code runs once and for milliseconds, so it is compiled as fast as possible. The
        // compiler's process may write to no file, and the image of a memory is one (memfd).
        let mut config = Config::new();
        config.consume_fuel(true).cranelift_opt_level(OptLevel::None).memory_init_cow(false);
        let engine = Engine::new(&config)?;
        let component = Component::new(&engine, component)?;
        let mut store =
            Store::new(&engine, StoreLimitsBuilder::new().memory_size(MEMORY_BYTES).build());
        store.limiter(|limits| limits);
        store.set_fuel(FUEL)?;
        let said = Arc::default();
        let mut linker = Linker::new(&engine);
        let imports = component.component_type();
        let log =
            imports.imports(&engine).find(|(import, _)| import.starts_with("airlock:host/log@"));
        if let Some((log, _)) = log {
            let said: Arc<Mutex<String>> = Arc::clone(&said);
            linker.instance(log)?.func_new("write", move |_, _, arguments, _| {
                if let Some(Val::String(message)) = arguments.get(1) {
                    message.clone_into(&mut said.lock());
                }
                Ok(())
            })?;
        }
        linker.define_unknown_imports_as_traps(&component)?;
        let instance = linker.instantiate(&mut store, &component)?;
        Ok(Self { store, instance, said })
    }

    fn prepare(&mut self) -> Result<()> {
        let prepare = self.instance.get_typed_func::<(), ()>(&mut self.store, PREPARE);
        let prepare = prepare.with_context(|| {
            format!("the executor exports no function `{PREPARE}` without parameters and results")
        })?;
        let called = prepare.call(&mut self.store, ());
        called.with_context(|| {
            format!("`{PREPARE}` failed; its last log message is {:?}", self.said.lock())
        })
    }

    /// Calls a function that wizer added to read a global or a memory. Wizer asks for no others,
    /// and its trait has no way to report a failure.
    fn read<R: Lift + 'static>(&mut self, interface: &str, function: &str) -> R
    where
        (R,): ComponentNamedList,
    {
        let Self { store, instance, .. } = self;
        let interface = instance
            .get_export_index(&mut *store, None, interface)
            .expect("wizer exports what it reads");
        let index = instance
            .get_export_index(&mut *store, Some(&interface), function)
            .expect("wizer exports what it reads");
        let function = instance
            .get_typed_func::<(), (R,)>(&mut *store, index)
            .expect("wizer knows the types that it gave");
        function.call(&mut *store, ()).expect("a function of wizer returns one global or memory").0
    }
}

impl ComponentInstanceState for Guest {
    async fn call_func_ret_list_u8(
        &mut self,
        interface: &str,
        function: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        let list: WasmList<u8> = self.read(interface, function);
        contents(list.as_le_slice(&self.store));
    }

    async fn call_func_ret_s32(&mut self, interface: &str, function: &str) -> i32 {
        self.read(interface, function)
    }

    async fn call_func_ret_s64(&mut self, interface: &str, function: &str) -> i64 {
        self.read(interface, function)
    }

    async fn call_func_ret_f32(&mut self, interface: &str, function: &str) -> u32 {
        self.read::<f32>(interface, function).to_bits()
    }

    async fn call_func_ret_f64(&mut self, interface: &str, function: &str) -> u64 {
        self.read::<f64>(interface, function).to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An executor whose `prepare` counts in memory and in a global, and whose `run` returns the
    /// sum of both.
    fn executor(prepare: &str) -> Vec<u8> {
        let text = format!(
            r#"(component
                (core module $m
                    (memory (export "memory") 1)
                    (global $g (mut i32) (i32.const 0))
                    (func (export "prepare") {prepare})
                    (func (export "run") (result i32) (i32.add (global.get $g) (i32.load (i32.const 8)))))
                (core instance $i (instantiate $m))
                (func (export "prepare") (canon lift (core func $i "prepare")))
                (func (export "run") (result s32) (canon lift (core func $i "run"))))"#
        );
        wat::parse_str(text).expect("a component")
    }

    fn run(component: &[u8]) -> i32 {
        let engine = Engine::default();
        let component = Component::new(&engine, component).expect("it compiles");
        let mut store = Store::new(&engine, ());
        let instance =
            Linker::new(&engine).instantiate(&mut store, &component).expect("no imports");
        let run = instance.get_typed_func::<(), (i32,)>(&mut store, "run").expect("it is exported");
        run.call(&mut store, ()).expect("it runs").0
    }

    #[test]
    fn a_prepared_component_starts_with_the_memory_and_globals_of_prepare() {
        let unprepared =
            executor("(global.set $g (i32.const 40)) (i32.store (i32.const 8) (i32.const 2))");
        let prepared = prepare(&unprepared).expect("it is prepared");
        assert_eq!((run(&unprepared), run(&prepared)), (0, 42));
        assert_eq!(prepare(&unprepared).expect("it is prepared again"), prepared);
    }

    #[test]
    fn a_prepare_that_does_not_end_or_traps_is_refused() {
        for body in ["unreachable", "(loop $l (br $l))"] {
            let error = prepare(&executor(body)).expect_err("it does not return");
            assert!(error.to_string().starts_with("`prepare` failed"), "{error:?}");
        }
    }

    #[test]
    fn a_component_without_prepare_is_refused() {
        assert!(prepare(&wat::parse_str("(component)").expect("a component")).is_err());
        assert!(prepare(b"no component").is_err());
    }
}
