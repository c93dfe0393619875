//! Links outgoing HTTP for the store of a call.

use wasmtime::component::Linker;
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::{plugin::side::PluginSide, run::state::State};

/// Links outgoing HTTP, on top of the other interfaces of WASI.
pub(crate) fn link(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

impl WasiHttpView for State<PluginSide> {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.running.wasi_http.view(&mut self.running.table)
    }
}
