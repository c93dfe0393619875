//! Key-value stores of a plugin, which outlive its calls.

use std::time::Duration;

use airlock_store::kv;
use tracing::warn;
use wasmtime::component::Resource;

use super::{BASE_FUEL, Store, charge, charge_call};
use crate::Effect;

/// Fuel that a store call costs in addition to [`BASE_FUEL`]: it waits for a disk.
const KV_FUEL: u64 = 9_000;

/// An open store; guests hold it as a resource.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, and are not seen outside either"
)]
pub struct OpenStore(kv::Store);

/// Reasons for which a store operation fails.
#[derive(Debug)]
pub(crate) enum KvError {
    /// The plugin does not request a store of this name.
    NoSuchStore,
    /// The operator did not grant the store, or the tool does not declare the effect.
    Denied,
    /// The store returned an error.
    Store(kv::KvError),
}

impl From<kv::KvError> for KvError {
    fn from(error: kv::KvError) -> Self {
        if let kv::KvError::Unavailable(cause) = &error {
            warn!(%cause, "a plugin's store cannot be reached");
        }
        Self::Store(error)
    }
}

type Handle = Resource<OpenStore>;
type Answer<T> = wasmtime::Result<Result<T, KvError>>;

/// Opens a store. Fails if it was not requested or not granted, or if the tool declares no effect
/// on stores.
pub(crate) fn open(store: &mut Store<'_>, name: &str) -> Answer<Handle> {
    charge_call(store, BASE_FUEL, name.len())?;
    let state = store.data_mut();
    if state.lacks(Effect::ReadStore) {
        return Ok(Err(KvError::Denied));
    }
    let Some(grant) = state.call.grants.stores.iter().find(|grant| grant.name == name) else {
        let is_asked_for = state.call.grants.denied.stores.contains(name);
        return Ok(Err(if is_asked_for { KvError::Denied } else { KvError::NoSuchStore }));
    };
    let Some(database) = &state.call.database else { return Ok(Err(KvError::Denied)) };
    let open = database.kv(state.call.guest.name(), &grant.name, grant.max_bytes);
    Ok(Ok(state.table.push(OpenStore(open))?))
}

/// Closes a handle.
pub(crate) fn close(store: &mut Store<'_>, handle: Handle) -> wasmtime::Result<()> {
    store.data_mut().table.delete(handle)?;
    Ok(())
}

/// Reads an entry.
pub(crate) async fn get(
    mut store: Store<'_>,
    handle: Handle,
    key: String,
) -> Answer<Option<kv::Entry>> {
    let open = begin(&mut store, &handle, key.len())?;
    let found = open.get(&key).await;
    if let Ok(Some(entry)) = &found {
        charge(&mut store, entry.value.len() as u64)?;
    }
    Ok(found.map_err(KvError::from))
}

/// Writes an entry and returns its new version. Fails if the tool only reads stores.
pub(crate) async fn set(
    mut store: Store<'_>,
    handle: Handle,
    key: String,
    value: Vec<u8>,
    expect: Option<u64>,
    ttl: Option<Duration>,
) -> Answer<u64> {
    let open = begin(&mut store, &handle, key.len() + value.len())?;
    if store.data_mut().lacks(Effect::Store) {
        return Ok(Err(KvError::Denied));
    }
    Ok(open.set(&key, value, expect, ttl).await.map_err(KvError::from))
}

/// Deletes an entry. Returns whether it existed. Fails if the tool only reads stores.
pub(crate) async fn delete(mut store: Store<'_>, handle: Handle, key: String) -> Answer<bool> {
    let open = begin(&mut store, &handle, key.len())?;
    if store.data_mut().lacks(Effect::Store) {
        return Ok(Err(KvError::Denied));
    }
    Ok(open.delete(&key).await.map_err(KvError::from))
}

/// Lists keys.
pub(crate) async fn keys(
    mut store: Store<'_>,
    handle: Handle,
    prefix: String,
    cursor: Option<String>,
    limit: u32,
) -> Answer<kv::Page> {
    let open = begin(&mut store, &handle, prefix.len())?;
    let page = open.keys(&prefix, cursor.as_deref(), limit).await;
    if let Ok(page) = &page {
        charge(&mut store, page.keys.iter().map(String::len).sum::<usize>() as u64)?;
    }
    Ok(page.map_err(KvError::from))
}

fn begin(store: &mut Store<'_>, handle: &Handle, bytes: usize) -> wasmtime::Result<kv::Store> {
    charge_call(store, BASE_FUEL + KV_FUEL, bytes)?;
    Ok(store.data().table.get(handle)?.0.clone())
}
