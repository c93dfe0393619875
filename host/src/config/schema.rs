//! Published JSON Schema of the configuration file.

use serde_json::Value;

/// Returns the JSON Schema of a configuration file, identical to `host/config.schema.json`.
pub fn schema() -> Value {
    schemars::schema_for!(super::file::File).to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_published_schema_equals_the_schema_of_the_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.schema.json");
        let current = format!("{:#}\n", super::schema());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &current).expect("the schema can be written");
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == current,
            "{} is out of date: run `airlock schema > {0}`",
            path.display()
        );
    }
}
