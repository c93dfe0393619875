//! Secrets: whether one exists and, for plugins that were granted it, its value.

use crate::{
    Effect, Use,
    plugin::side::PluginSide,
    run::{
        charge::{BASE_FUEL, charge_call},
        state::Store,
    },
};

/// Reasons for which a secret's value is not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretError {
    /// The plugin does not request a secret of this name.
    NoSuchSecret,
    /// The operator did not grant the value, or the tool does not declare the effect.
    Denied,
}

/// Returns whether a granted secret of this name has a value. False for a tool that does not declare
/// the effect.
pub(crate) fn exists(store: &mut Store<'_, PluginSide>, name: &str) -> wasmtime::Result<bool> {
    charge_call(store, BASE_FUEL, name.len())?;
    let state = store.data_mut();
    let is_declared = state.lacks(Effect::Secret, Some(name)).is_none();
    let exists = is_declared && state.call.guest.rights.grants.secrets.contains(name);
    if exists {
        state.record(|| Use::KnownSecret(name.to_owned()));
    }
    Ok(exists)
}

/// Returns the secret's value. Fails if it was not requested, or not granted.
pub(crate) fn reveal(
    store: &mut Store<'_, PluginSide>,
    name: &str,
) -> wasmtime::Result<Result<Vec<u8>, SecretError>> {
    charge_call(store, BASE_FUEL, name.len())?;
    if store.data_mut().lacks(Effect::Secret, Some(name)).is_some() {
        return Ok(Err(SecretError::Denied));
    }
    let grants = &store.data().call.guest.rights.grants;
    Ok(match grants.revealed.get(name) {
        Some(secret) => {
            store.data().record(|| Use::RevealedSecret(name.to_owned()));
            Ok(secret.expose().as_bytes().to_vec())
        }
        None if grants.secrets.contains(name) || grants.denied.secrets.contains(name) => {
            Err(SecretError::Denied)
        }
        None => Err(SecretError::NoSuchSecret),
    })
}
