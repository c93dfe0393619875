//! Secrets: whether they are there, and for the few plugins that may see them, what they are.

use super::{BASE_FUEL, Store, charge};

/// Why a secret's value is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretError {
    /// The plugin does not ask for a secret of this name.
    NotFound,
    /// Its operator did not grant the value.
    Denied,
}

/// Whether a granted secret of this name has a value.
pub(crate) fn exists(store: &mut Store<'_>, name: &str) -> wasmtime::Result<bool> {
    charge(store, BASE_FUEL, name.len())?;
    Ok(store.data().grants.secrets.contains(name))
}

/// The value.
pub(crate) fn reveal(
    store: &mut Store<'_>,
    name: &str,
) -> wasmtime::Result<Result<Vec<u8>, SecretError>> {
    charge(store, BASE_FUEL, name.len())?;
    let grants = &store.data().grants;
    Ok(match grants.revealed.get(name) {
        Some(secret) => Ok(secret.expose().as_bytes().to_vec()),
        None if grants.secrets.contains(name) || grants.denied.secrets.contains(name) => {
            Err(SecretError::Denied)
        }
        None => Err(SecretError::NotFound),
    })
}
