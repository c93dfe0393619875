//! `store`: the database of the state that survives a restart.

use airlock_store::Location;

use super::{file_env::FileEnv, refused::InvalidValue};
use crate::env_text::EnvText;

/// Name of the database without the key, beside the file.
const FILE: &str = "airlock.db";

/// Returns the place of the database. Errors do not quote a URL, because it may have a password.
pub(super) fn resolve(store: Option<EnvText>, env: FileEnv<'_>) -> Result<Location, InvalidValue> {
    let Some(store) = store else { return Ok(beside(env)) };
    let text = env.text(store)?;
    let location: Location =
        text.expose().parse().map_err(|error: airlock_store::LocationError| error.to_string())?;
    Ok(match location {
        Location::File(path) => Location::File(env.directory.join(path)),
        server @ Location::Server(_) => server,
    })
}

/// Returns the database beside the file.
pub(super) fn beside(env: FileEnv<'_>) -> Location {
    Location::File(env.directory.join(FILE))
}
