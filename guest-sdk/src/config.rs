//! The plugin's configuration, written by the operator. The host checks it against the schema that
//! the plugin's `plugin.toml` names. It is empty if the operator wrote none.
//!
//! ```
//! use airlock_guest::{Error, config, data, serde_json::json, testing::Host};
//!
//! /// Settings of the operator.
//! #[data]
//! struct Settings {
//!     /// Rows in one result.
//!     #[data(default = 100, range = 1..=1000)]
//!     rows: u32,
//!     /// Language of the texts.
//!     language: Option<String>,
//! }
//!
//! fn rows() -> Result<u32, Error> {
//!     Ok(config::load::<Settings>()?.rows)
//! }
//!
//! assert_eq!(Host::new().run(|_| rows()), Ok(100));
//! assert_eq!(Host::new().config(json!({ "rows": 5 })).run(|_| rows()), Ok(5));
//! ```
//!
//! `airlock plugin build` puts the schema of the type into the component, if the plugin declares it,
//! `plugin!(my_tool; config = Settings)`, and `plugin.toml` leaves the schema to the code:
//!
//! ```toml
//! [config]
//! from_code = true
//! ```

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;

use crate::arguments::{self, ArgumentSubject};
use crate::host::config as host;
use crate::{Error, schema};

/// Reads the whole configuration as a type. Fails with an internal error that names the setting if
/// it does not fit.
pub fn load<T: DeserializeOwned + JsonSchema>() -> Result<T, Error> {
    arguments::read(&host::get_all(), ArgumentSubject::Settings).map_err(|reason| unusable(&reason))
}

/// Returns the JSON Schema of a configuration type, which `plugin!` declares. It admits no settings
/// that the type does not have.
pub fn schema<T: JsonSchema>() -> Schema {
    let mut schema = schema::of_input::<T>();
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}

/// Reads one member; `None` if it is absent.
pub fn get<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    let Some(json) = host::get(key) else { return Ok(None) };
    let member = serde_json::from_str(&json)
        .map_err(|error| unusable(&format!("its member {key:?} is wrong: {error}")))?;
    Ok(Some(member))
}

/// Reads the whole configuration, such as a map or a `serde_json::Value`. [`load`] explains a
/// setting that does not fit better.
pub fn get_all<T: DeserializeOwned>() -> Result<T, Error> {
    serde_json::from_str(&host::get_all())
        .map_err(|error| unusable(&format!("it is wrong: {error}")))
}

/// Returns an internal error, because the plugin's own schema admitted the value.
fn unusable(reason: &str) -> Error {
    Error::internal(format!("the plugin's configuration cannot be used: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::testing::Host;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Settings {
        rows: u8,
        #[serde(default)]
        deep: Option<Vec<u8>>,
    }

    #[test]
    fn a_setting_that_does_not_fit_is_named() {
        let settings = Settings { rows: 1, deep: None };
        assert_eq!(load_from(json!({ "rows": 1, "other": true })), Ok(settings));
        insta::assert_snapshot!(load_from(json!({})).unwrap_err(), @"the plugin's configuration cannot be used: setting `rows` is missing; it must be an integer from 0 to 255");
        insta::assert_snapshot!(load_from(json!({ "rows": 1, "other": 1, "deep": ["x"] })).unwrap_err(), @r#"the plugin's configuration cannot be used: setting `deep[0]` must be an integer from 0 to 255, not the string "x""#);
    }

    fn load_from(config: serde_json::Value) -> Result<Settings, Error> {
        Host::new().config(config).run(|_| load::<Settings>())
    }

    #[test]
    fn a_member_is_read_by_its_name() {
        Host::new().config(json!({ "rows": "x" })).run(|_| {
            assert_eq!(get::<String>("rows").unwrap().as_deref(), Some("x"));
            assert_eq!(get::<u8>("none").unwrap(), None);
            insta::assert_snapshot!(get::<u8>("rows").unwrap_err(), @r#"the plugin's configuration cannot be used: its member "rows" is wrong: invalid type: string "x", expected u8 at line 1 column 3"#);
        });
    }

    #[test]
    fn without_a_configuration_it_is_an_empty_object() {
        assert_eq!(get_all::<serde_json::Value>().unwrap(), json!({}));
    }

    #[test]
    fn the_schema_admits_no_other_settings() {
        let schema = schema::<Settings>();
        assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
        assert_eq!(schema.get("required"), Some(&json!(["rows"])));
    }
}
