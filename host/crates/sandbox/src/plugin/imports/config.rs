//! The plugin's configuration, as the operator wrote it.

use serde_json::Value;

use crate::{
    Use,
    plugin::side::PluginSide,
    run::{
        charge::{BASE_FUEL, charge, charge_call},
        state::Store,
    },
};

/// Returns one member as JSON text; `None` if there is no such member.
pub(crate) fn get(
    store: &mut Store<'_, PluginSide>,
    key: &str,
) -> wasmtime::Result<Option<String>> {
    charge_call(store, BASE_FUEL, key.len())?;
    store.data().record(|| Use::Config);
    let found = store.data().call.guest.rights.grants.config.get(key).map(Value::to_string);
    charge(store, found.as_ref().map_or(0, String::len) as u64)?;
    Ok(found)
}

/// Returns the whole configuration as the JSON text of an object.
pub(crate) fn get_all(store: &mut Store<'_, PluginSide>) -> wasmtime::Result<String> {
    charge_call(store, BASE_FUEL, 0)?;
    store.data().record(|| Use::Config);
    let all = serde_json::to_string(&*store.data().call.guest.rights.grants.config)
        .unwrap_or_else(|_| "{}".to_owned());
    charge(store, all.len() as u64)?;
    Ok(all)
}
