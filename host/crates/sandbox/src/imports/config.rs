//! The plugin's configuration, as the operator wrote it.

use serde_json::Value;

use super::{BASE_FUEL, Store, burn, charge};

/// Returns one member as JSON text; `None` if there is no such member.
pub(crate) fn get(store: &mut Store<'_>, key: &str) -> wasmtime::Result<Option<String>> {
    charge(store, BASE_FUEL, key.len())?;
    let found = store.data().grants.config.get(key).map(Value::to_string);
    burn(store, found.as_ref().map_or(0, String::len) as u64)?;
    Ok(found)
}

/// Returns the whole configuration as the JSON text of an object.
pub(crate) fn all(store: &mut Store<'_>) -> wasmtime::Result<String> {
    charge(store, BASE_FUEL, 0)?;
    let all =
        serde_json::to_string(&*store.data().grants.config).unwrap_or_else(|_| "{}".to_owned());
    burn(store, all.len() as u64)?;
    Ok(all)
}
