//! Key-value stores of a plugin, which outlive its calls.

use std::{sync::Arc, time::Duration};

use airlock_store::{Unavailable, kv};
use tracing::warn;
use wasmtime::component::Resource;

use crate::{
    Effect, Use,
    plugin::side::PluginSide,
    run::{
        charge::{BASE_FUEL, charge, charge_call},
        state::Store,
    },
};

/// Fuel that a store call costs in addition to [`BASE_FUEL`]: it waits for a disk.
const KV_FUEL: u64 = 9_000;
/// Fuel that each key of a read of several entries costs in addition.
const KEY_FUEL: u64 = 1_000;

/// An open store; guests hold it as a resource.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, and are not seen outside either"
)]
pub struct OpenStore {
    store: kv::PluginStore,
    name: Arc<str>,
    /// True if it needs no effect.
    is_cache: bool,
}

/// Reasons for which a store operation fails.
#[derive(Debug)]
pub(crate) enum KvFailure {
    /// The plugin does not request a store of this name.
    NoSuchStore,
    /// The operator did not grant the store, or the tool does not declare the effect.
    Denied,
    /// The database failed, so that trying again does not help. The text is for the guest.
    Other(String),
    /// The store returned another error.
    Store(kv::KvError),
}

impl From<kv::KvError> for KvFailure {
    fn from(error: kv::KvError) -> Self {
        let kv::KvError::Unavailable(cause) = &error else { return Self::Store(error) };
        warn!(%cause, "a plugin's store cannot be reached");
        // The cause of the failure is for the operator only.
        match cause {
            Unavailable::Failed(_) | Unavailable::Gone => Self::Other(cause.to_string()),
            _ => Self::Store(error),
        }
    }
}

type Handle = Resource<OpenStore>;
type KvResult<T> = wasmtime::Result<Result<T, KvFailure>>;

/// Opens a store: that of the caller's tenant, or the one of all tenants if the operator shares it.
/// Fails if it was not requested or not granted, or if the tool declares no effect on it and it is
/// no cache.
pub(crate) fn open(store: &mut Store<'_, PluginSide>, name: &str) -> KvResult<Handle> {
    charge_call(store, BASE_FUEL, name.len())?;
    let state = store.data_mut();
    let mut stores = state.call.guest.rights.grants.stores.iter();
    let is_cache = stores.find(|grant| grant.name == name).is_some_and(|grant| grant.is_cache);
    if !is_cache && state.lacks(Effect::ReadKv, Some(name)).is_some() {
        return Ok(Err(KvFailure::Denied));
    }
    let mut stores = state.call.guest.rights.grants.stores.iter();
    let Some(grant) = stores.find(|grant| grant.name == name) else {
        let is_asked_for = state.call.guest.rights.grants.denied.stores.contains(name);
        return Ok(Err(if is_asked_for { KvFailure::Denied } else { KvFailure::NoSuchStore }));
    };
    let Some(database) = &state.call.guest.rights.plugin.database else {
        return Ok(Err(KvFailure::Denied));
    };
    state.record(|| Use::ReadKv(name.to_owned()));
    let tenant = state.call.tenant().scope();
    let opener = if grant.is_shared { kv::Opener::Shared(tenant) } else { kv::Opener::Own(tenant) };
    let store = database.kv(
        state.call.guest.rights.plugin.client.as_str(),
        &grant.name,
        opener,
        grant.max_bytes,
    );
    Ok(Ok(state.running.table.push(OpenStore { store, name: name.into(), is_cache })?))
}

/// Closes a handle.
pub(crate) fn close(store: &mut Store<'_, PluginSide>, handle: Handle) -> wasmtime::Result<()> {
    store.data_mut().running.table.delete(handle)?;
    Ok(())
}

/// Reads an entry.
pub(crate) async fn get(
    mut store: Store<'_, PluginSide>,
    handle: Handle,
    key: String,
) -> KvResult<Option<kv::Entry>> {
    let open = begin(&mut store, &handle, key.len())?;
    let found = open.get(&key).await;
    if let Ok(Some(entry)) = &found {
        charge(&mut store, entry.value.len() as u64)?;
    }
    Ok(found.map_err(KvFailure::from))
}

/// Reads several entries, in the order of `keys`: one host call, which costs by its keys and bytes.
/// Fails if the values together have more bytes than may be copied at once.
pub(crate) async fn get_many(
    mut store: Store<'_, PluginSide>,
    handle: Handle,
    keys: Vec<String>,
) -> KvResult<Vec<Option<kv::Entry>>> {
    let open = begin(&mut store, &handle, keys.iter().map(String::len).sum())?;
    charge(&mut store, KEY_FUEL.saturating_mul(keys.len() as u64))?;
    let max_bytes = store.data().call.limits.copied_bytes;
    let found = open.get_many(keys, max_bytes).await;
    if let Ok(entries) = &found {
        let bytes: usize = entries.iter().flatten().map(|entry| entry.value.len()).sum();
        charge(&mut store, bytes as u64)?;
    }
    Ok(found.map_err(KvFailure::from))
}

/// Writes an entry and returns its new version. Fails if the tool only reads stores.
pub(crate) async fn set(
    mut store: Store<'_, PluginSide>,
    handle: Handle,
    key: String,
    value: Vec<u8>,
    if_version: Option<u64>,
    ttl: Option<Duration>,
) -> KvResult<u64> {
    let open = begin(&mut store, &handle, key.len() + value.len())?;
    if !may_write(&mut store, &handle)? {
        return Ok(Err(KvFailure::Denied));
    }
    Ok(open.set(&key, value, if_version, ttl).await.map_err(KvFailure::from))
}

/// Deletes an entry. Returns whether it existed. Fails if the tool only reads stores.
pub(crate) async fn delete(
    mut store: Store<'_, PluginSide>,
    handle: Handle,
    key: String,
    if_version: Option<u64>,
) -> KvResult<bool> {
    let open = begin(&mut store, &handle, key.len())?;
    if !may_write(&mut store, &handle)? {
        return Ok(Err(KvFailure::Denied));
    }
    Ok(open.delete(&key, if_version).await.map_err(KvFailure::from))
}

/// Lists keys.
pub(crate) async fn keys(
    mut store: Store<'_, PluginSide>,
    handle: Handle,
    prefix: String,
    cursor: Option<String>,
    limit: u32,
) -> KvResult<kv::Page> {
    let bytes = prefix.len() + cursor.as_ref().map_or(0, String::len);
    let open = begin(&mut store, &handle, bytes)?;
    let page = open.keys(&prefix, cursor.as_deref(), limit).await;
    if let Ok(page) = &page {
        charge(&mut store, page.keys.iter().map(String::len).sum::<usize>() as u64)?;
    }
    Ok(page.map_err(KvFailure::from))
}

fn begin(
    store: &mut Store<'_, PluginSide>,
    handle: &Handle,
    bytes: usize,
) -> wasmtime::Result<kv::PluginStore> {
    charge_call(store, BASE_FUEL + KV_FUEL, bytes)?;
    Ok(store.data().running.table.get(handle)?.store.clone())
}

/// Returns whether the running tool declares that it writes to an open store, which it is about to do.
fn may_write(store: &mut Store<'_, PluginSide>, handle: &Handle) -> wasmtime::Result<bool> {
    let open = store.data().running.table.get(handle)?;
    let name = open.name.clone();
    let is_cache = open.is_cache;
    if !is_cache && store.data_mut().lacks(Effect::WriteKv, Some(&name)).is_some() {
        return Ok(false);
    }
    let state = store.data_mut();
    state.record(|| Use::WriteKv(name.to_string()));
    // Writing to a cache changes nothing that the caller would have to know of.
    state.running.has_acted |= !is_cache;
    Ok(true)
}

#[cfg(test)]
mod tests;
