//! Links WASI for the store of a call.

use wasmtime::component::Linker;
use wasmtime_wasi::{WasiCtxView, WasiView, clocks::WasiClocksCtxView};

use super::{
    clocks::{self, Clocks},
    files::{self, FilesystemHost},
    random::{self, RandomSource},
};
use crate::run::state::State;

/// Links all of WASI except HTTP, with the host's own files, clocks and randomness.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    files::link(linker, filesystem)?;
    clocks::link(linker, clocks)?;
    random::link(linker, randomness)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.call.wasi.context, table: &mut self.table }
    }
}

fn filesystem(state: &mut State) -> FilesystemHost<'_> {
    FilesystemHost::new(&mut state.call.wasi, &mut state.table, &mut state.meter)
}

fn clocks(state: &mut State) -> Clocks<'_> {
    let real = WasiClocksCtxView { ctx: state.call.wasi.context.clocks(), table: &mut state.table };
    let virtual_clock = state.call.wasi.clock.as_ref();
    Clocks { real, virtual_clock, recorder: state.call.recorder.as_ref() }
}

fn randomness(state: &mut State) -> RandomSource<'_> {
    RandomSource { real: state.call.wasi.context.random(), seeded: state.call.wasi.random.as_mut() }
}
