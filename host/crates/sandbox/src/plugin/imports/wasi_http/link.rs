//! Links outgoing HTTP for the store of a call.

use std::any::Any;

use airlock_core::tool::CallError;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::{
    FieldMap, WasiHttpCtxView, WasiHttpView,
    p2::{
        bindings::http::types::{self, HostFields, HostOutgoingRequest as _, Method},
        types::{HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse},
    },
};

use super::{CHUNK_BYTES, MAX_FIELD_BYTES};
use crate::{
    plugin::side::PluginSide,
    run::state::{State, Store},
};

/// Interface of the functions that are replaced, under the name that wasmtime's implementation links.
const TYPES: &str = "wasi:http/types@0.2.12";
/// Bytes of each text of a request that a guest builds: as many as the egress takes of a whole URL.
/// wasmtime's implementation bounds neither a method nor an authority, and the host holds them,
/// outside of the memory of guests, as long as the guest has the request.
const MAX_TEXT_BYTES: usize = 8 << 10;
/// Memory of the headers or the trailers of one message, at most: short ones take three times the
/// bytes that the engine counts. The egress limits the headers of responses to less.
pub(super) const FIELDS_BYTES: usize = 3 * MAX_FIELD_BYTES;
/// Memory of one message that a guest builds, at most: headers and trailers, three texts, and the chunks of
/// its body that wait, as many as wasmtime's implementation has by default.
const MESSAGE_BYTES: usize = 2 * FIELDS_BYTES + 3 * MAX_TEXT_BYTES + 2 * CHUNK_BYTES;

type FieldsResource = Resource<FieldMap>;
type RequestResource = Resource<HostOutgoingRequest>;

/// Links outgoing HTTP, on top of the other interfaces of WASI.
pub(crate) fn link(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    link_fields(linker)?;
    link_messages(linker)?;
    link_texts(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links the functions that make headers, which take guest memory from here on.
fn link_fields(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(TYPES)?;
    interface.func_wrap("[constructor]fields", |mut store: Store<'_, PluginSide>, (): ()| {
        reserve(store.data_mut(), FIELDS_BYTES)?;
        Ok((HostFields::new(&mut store.data_mut().http())?,))
    })?;
    interface.func_wrap(
        "[static]fields.from-list",
        |mut store: Store<'_, PluginSide>, (entries,): (Vec<(String, Vec<u8>)>,)| {
            reserve(store.data_mut(), FIELDS_BYTES)?;
            let made = store.data_mut().http().from_list(entries);
            Ok((match made {
                Ok(fields) => Ok(fields),
                Err(error) => Err(error.downcast()?),
            },))
        },
    )?;
    interface.func_wrap(
        "[method]fields.clone",
        |mut store: Store<'_, PluginSide>, (fields,): (FieldsResource,)| {
            reserve(store.data_mut(), FIELDS_BYTES)?;
            Ok((HostFields::clone(&mut store.data_mut().http(), fields)?,))
        },
    )
}

/// Links the functions that make a message of headers. What it may hold beside them, its body for
/// example, takes guest memory from here on.
fn link_messages(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(TYPES)?;
    interface.func_wrap(
        "[constructor]outgoing-request",
        |mut store: Store<'_, PluginSide>, (headers,): (FieldsResource,)| {
            reserve(store.data_mut(), MESSAGE_BYTES)?;
            Ok((types::HostOutgoingRequest::new(&mut store.data_mut().http(), headers)?,))
        },
    )?;
    interface.func_wrap(
        "[constructor]outgoing-response",
        |mut store: Store<'_, PluginSide>, (headers,): (FieldsResource,)| {
            reserve(store.data_mut(), MESSAGE_BYTES)?;
            Ok((types::HostOutgoingResponse::new(&mut store.data_mut().http(), headers)?,))
        },
    )
}

/// Reserves guest memory for the messages that the guest has a handle of, and for `more` bytes. Stops
/// the guest if the process has no more for its tenant. Memory of messages that are gone is returned here.
fn reserve(state: &mut State<PluginSide>, more: usize) -> wasmtime::Result<()> {
    let running = &mut state.running;
    let held: usize = running.table.iter_mut().map(|entry| most_bytes(entry)).sum();
    if running.wasi_http.hold(held.saturating_add(more)) {
        return Ok(());
    }
    Err(state.stop(CallError::busy()))
}

/// Returns the most memory that the host holds for an entry of the table of a store, as far as it is a
/// message.
fn most_bytes(entry: &(dyn Any + Send)) -> usize {
    if entry.is::<HostOutgoingRequest>() || entry.is::<HostOutgoingResponse>() {
        MESSAGE_BYTES
    } else if entry.is::<FieldMap>() || entry.is::<HostIncomingResponse>() {
        FIELDS_BYTES
    } else {
        0
    }
}

/// Links the functions that take a text of a request. One that is too long is refused as an invalid
/// one is. The scheme is bounded already.
fn link_texts(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(TYPES)?;
    interface.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: Store<'_, PluginSide>, (request, method): (RequestResource, Method)| {
            if let Method::Other(name) = &method
                && name.len() > MAX_TEXT_BYTES
            {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_method(request, method)?,))
        },
    )?;
    interface.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: Store<'_, PluginSide>,
         (request, authority): (RequestResource, Option<String>)| {
            if is_long(authority.as_ref()) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_authority(request, authority)?,))
        },
    )?;
    interface.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: Store<'_, PluginSide>, (request, path): (RequestResource, Option<String>)| {
            if is_long(path.as_ref()) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_path_with_query(request, path)?,))
        },
    )
}

fn is_long(text: Option<&String>) -> bool {
    text.is_some_and(|text| text.len() > MAX_TEXT_BYTES)
}

impl WasiHttpView for State<PluginSide> {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.running.wasi_http.view(&mut self.running.table)
    }
}
