//! The plugin's configuration, written by the operator. The host checks it against the schema that
//! the plugin's `plugin.toml` names. It is empty if the operator wrote none, and in native builds.
//!
//! ```
//! use airlock_guest::{Error, config, serde::Deserialize};
//!
//! /// What the operator may set.
//! #[derive(Deserialize)]
//! #[serde(crate = "airlock_guest::serde", default)]
//! struct Config {
//!     /// Rows in one answer.
//!     rows: usize,
//! }
//!
//! impl Default for Config {
//!     fn default() -> Self {
//!         Self { rows: 100 }
//!     }
//! }
//!
//! # fn main() -> Result<(), Error> {
//! let config: Config = config::get_all()?;
//! assert_eq!(config.rows, 100);
//!
//! let rows: Option<usize> = config::get("rows")?;
//! assert_eq!(rows, None);
//! # Ok(())
//! # }
//! ```

use serde::de::DeserializeOwned;

use crate::Error;
use crate::bindings::airlock::host::config as host;

/// Reads one member; `None` if it is absent.
pub fn get<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let found = if cfg!(target_family = "wasm") { host::get(key) } else { None };
    found.map(|json| read(&json, &format!("its member {key:?}"))).transpose()
}

/// Reads the whole configuration: a JSON object, `{}` if the operator wrote none.
pub fn get_all<T: DeserializeOwned>() -> Result<T, Error> {
    let json = if cfg!(target_family = "wasm") { host::get_all() } else { "{}".to_owned() };
    read(&json, "it")
}

/// Parses a value. A mismatch is an internal error, because the plugin's own schema admitted the
/// value.
fn read<T: DeserializeOwned>(json: &str, what: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| {
        Error::internal(format!(
            "the plugin's configuration cannot be used: {what} is wrong: {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_fit_is_named() {
        assert_eq!(read::<Vec<u8>>("[1,2]", "it").unwrap(), [1, 2]);
        insta::assert_snapshot!(read::<u8>("\"x\"", "its member \"rows\"").unwrap_err(), @r#"the plugin's configuration cannot be used: its member "rows" is wrong: invalid type: string "x", expected u8 at line 1 column 3"#);
    }

    #[test]
    fn in_native_builds_it_is_empty() {
        assert_eq!(get::<u8>("rows").unwrap(), None);
        assert_eq!(get_all::<serde_json::Value>().unwrap(), serde_json::json!({}));
    }
}
