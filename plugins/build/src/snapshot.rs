//! Runs an executor's `prepare` when it is built, and makes the memory it leaves the one that every run starts with.
//!
//! Building Starlark's globals takes 3 ms, a hundred times what a small script takes.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result, bail};
use wasmtime::component::{ComponentNamedList, Lift, WasmList};
use wasmtime_wizer::{ComponentInstanceState, Wizer};
use wit_component::ComponentEncoder;

use crate::sandbox::Sandbox;

/// The function that is run ahead. It stays an export: the host's world has it.
const PREPARE: &str = "prepare";

/// Turns a core module that exports the world `script-executor` into a component that is already prepared.
pub(crate) fn prepare(module: &[u8]) -> Result<Vec<u8>> {
    let component = ComponentEncoder::default().module(module)?.validate(true).encode()?;
    let mut wizer = Wizer::new();
    wizer.init_func(PREPARE).keep_init_func(true);
    let (context, instrumented) = wizer.instrument_component(&component)?;
    let mut sandbox = Sandbox::new(&instrumented)?;
    let prepare = sandbox.instance.get_typed_func::<(), ()>(&mut sandbox.store, PREPARE)?;
    prepare.call(&mut sandbox.store, ()).map_err(anyhow::Error::from).context("`prepare` failed")?;
    now(wizer.snapshot_component(&context, &mut State(sandbox)))?.map_err(Into::into)
}

/// The outcome of a future that has nothing to wait for: wizer is async for embedders whose guests are.
fn now<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Ok(outcome),
        Poll::Pending => bail!("the snapshot waits for something"),
    }
}

/// How wizer reads the memory and globals of the instance: through functions that it added.
struct State(Sandbox);

impl State {
    /// Wizer asks only for functions that it put there, and has no way to be told that one failed.
    fn call<R: Lift + 'static>(&mut self, instance: &str, function: &str) -> R
    where
        (R,): ComponentNamedList,
    {
        let Sandbox { store, instance: root } = &mut self.0;
        let mut found = || {
            let interface = root.get_export_index(&mut *store, None, instance)?;
            root.get_export_index(&mut *store, Some(&interface), function)
        };
        let index = found().expect("wizer exports what it reads");
        let function = root.get_typed_func::<(), (R,)>(&mut *store, index).expect("wizer knows the types it gave");
        function.call(&mut *store, ()).expect("a function of wizer returns one global or memory").0
    }
}

impl ComponentInstanceState for State {
    async fn call_func_ret_list_u8(&mut self, instance: &str, func: &str, contents: impl FnOnce(&[u8]) + Send) {
        let list: WasmList<u8> = self.call(instance, func);
        contents(list.as_le_slice(&self.0.store));
    }

    async fn call_func_ret_s32(&mut self, instance: &str, func: &str) -> i32 {
        self.call(instance, func)
    }

    async fn call_func_ret_s64(&mut self, instance: &str, func: &str) -> i64 {
        self.call(instance, func)
    }

    async fn call_func_ret_f32(&mut self, instance: &str, func: &str) -> u32 {
        self.call::<f32>(instance, func).to_bits()
    }

    async fn call_func_ret_f64(&mut self, instance: &str, func: &str) -> u64 {
        self.call::<f64>(instance, func).to_bits()
    }
}
