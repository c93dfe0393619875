//! The plugin's configuration: what the operator wrote for it, checked by the host against the
//! schema that the plugin's `plugin.toml` names. Empty where nothing was written, and natively
//! always.
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
//! let config: Config = config::all()?;
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

/// Reads one member; none where it is absent.
pub fn get<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let found = if cfg!(target_family = "wasm") { host::get(key) } else { None };
    found.map(|json| read(&json, &format!("its member {key:?}"))).transpose()
}

/// Reads everything: a JSON object, `{}` where nothing was written.
pub fn all<T: DeserializeOwned>() -> Result<T, Error> {
    let json = if cfg!(target_family = "wasm") { host::all() } else { "{}".to_owned() };
    read(&json, "it")
}

/// A value that does not fit is the plugin's own fault, whose schema let it pass.
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
    fn natively_it_is_empty() {
        assert_eq!(get::<u8>("rows").unwrap(), None);
        assert_eq!(all::<serde_json::Value>().unwrap(), serde_json::json!({}));
    }
}
