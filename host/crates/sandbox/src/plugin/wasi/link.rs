//! Links WASI for the store of a call.

use wasmtime::component::Linker;
use wasmtime_wasi::{WasiCtxView, WasiView, clocks::WasiClocksCtxView};

use super::{
    clocks::{self, Clocks},
    files::{self, FilesystemHost},
    random::{self, RandomSource},
};
use crate::{plugin::side::PluginSide, run::state::State};

/// Links all of WASI except HTTP, with the host's own files, clocks and randomness.
pub(crate) fn link(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    files::link(linker, filesystem)?;
    clocks::link(linker, clocks)?;
    random::link(linker, randomness)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl WasiView for State<PluginSide> {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: self.call.guest.wasi.context.get(), table: &mut self.running.table }
    }
}

fn filesystem(state: &mut State<PluginSide>) -> FilesystemHost<'_> {
    FilesystemHost::new(&mut state.call.guest.wasi, &mut state.running.table, &mut state.meter)
}

fn clocks(state: &mut State<PluginSide>) -> Clocks<'_> {
    let guest = &mut state.call.guest;
    let context = guest.wasi.context.get();
    let real = WasiClocksCtxView { ctx: context.clocks(), table: &mut state.running.table };
    let virtual_clock = guest.wasi.clock.as_ref();
    Clocks { real, virtual_clock, recorder: guest.recorder.as_ref() }
}

fn randomness(state: &mut State<PluginSide>) -> RandomSource<'_> {
    let wasi = &mut state.call.guest.wasi;
    RandomSource { real: wasi.context.get().random(), seeded: wasi.random.as_mut() }
}
