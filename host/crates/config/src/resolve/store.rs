//! `store`: the database of the state that survives a restart. `store_key`, `store_old_keys`: the keys
//! that secrets in it are sealed with.

use airlock_store::{Location, LocationError, ServerUrl};

use super::{file_env::FileEnv, resolved::Resolved};
use crate::config::{SealKeySource, StoreSeal};
use airlock_config_file::{env_text::EnvText, file::StoreKey, refused::InvalidValue};

/// Name of the database without the key, beside the file.
const FILE: &str = "airlock.db";
/// Maximum keys before the current one: caps `store_old_keys`. The key of each sealed value is looked up among them,
/// and `airlock store rekey` makes them unnecessary.
const MAX_OLD_KEYS: usize = 8;

/// Returns the place of the database: beside the file if none is given, or none that is valid. Errors do not quote a
/// URL, because it may have a password.
pub(super) fn resolve(
    store: Option<EnvText>,
    listen_url: Option<EnvText>,
    env: FileEnv<'_>,
) -> Resolved<Location> {
    let resolved = Resolved::new(|problems| {
        let location = match store {
            Some(store) => problems.accept("store", location(store, env)),
            None => Some(beside(env)),
        };
        let Some(listen_url) = listen_url else { return location };
        let direct = problems.accept("store_listen_url", location_of_server(listen_url, env))?;
        match location? {
            Location::Server(url) => Some(Location::Server(url.pooled(direct))),
            Location::File(_) => {
                problems.refuse("store_listen_url", "needs a `store` that begins with postgres://");
                None
            }
        }
    });
    resolved.map(|location| location.unwrap_or_else(|| beside(env)))
}

fn location(text: EnvText, env: FileEnv<'_>) -> Result<Location, InvalidValue> {
    let text = env.text(text)?;
    let location: Location =
        text.expose().parse().map_err(|error: LocationError| error.to_string())?;
    Ok(match location {
        Location::File(path) => Location::File(env.directory.join(path)),
        server @ Location::Server(_) => server,
    })
}

fn location_of_server(text: EnvText, env: FileEnv<'_>) -> Result<ServerUrl, InvalidValue> {
    match location(text, env)? {
        Location::Server(url) => Ok(url),
        Location::File(_) => Err("expected a URL that begins with postgres://".into()),
    }
}

/// Returns the database beside the file.
fn beside(env: FileEnv<'_>) -> Location {
    Location::File(env.directory.join(FILE))
}

/// Returns the keys that secrets are sealed with; `None` if they are stored as they are.
pub(super) fn seal(
    key: Option<StoreKey>,
    old_keys: Vec<StoreKey>,
    env: FileEnv<'_>,
) -> Resolved<Option<StoreSeal>> {
    Resolved::new(|problems| {
        if key.is_none() && !old_keys.is_empty() {
            problems.refuse("store_old_keys", "needs `store_key` beside it");
        }
        if old_keys.len() > MAX_OLD_KEYS {
            problems.refuse("store_old_keys", format_args!("has more than {MAX_OLD_KEYS} entries"));
        }
        let old_keys =
            Resolved::elements(old_keys, |problems, key| problems.merge(seal_key(key, env)));
        let old_keys = problems.take("store_old_keys", old_keys);
        let key = problems.take("store_key", seal_key(key?, env))?;
        Some(StoreSeal { key, old_keys })
    })
}

fn seal_key(key: StoreKey, env: FileEnv<'_>) -> Resolved<Option<SealKeySource>> {
    Resolved::new(|problems| match key {
        StoreKey::Variable(name) => {
            problems.accept_whole(env.variable(&name)).map(SealKeySource::Text)
        }
        StoreKey::File(path) => Some(SealKeySource::File(problems.take("file", env.path(&path)))),
    })
}
