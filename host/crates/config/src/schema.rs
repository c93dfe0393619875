//! Published JSON Schema of the configuration file.

use serde_json::Value;

/// Returns the JSON Schema of a configuration file, identical to `host/config.schema.json`.
pub fn schema() -> Value {
    schemars::schema_for!(super::file::File).to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use airlock_core::limit::Limit;
    use airlock_sandbox::Limits;

    #[test]
    fn the_published_schema_equals_the_schema_of_the_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config.schema.json");
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

    #[test]
    fn the_documented_limits_equal_the_table_of_the_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/configuration.md");
        let rows: Vec<_> = Limit::ALL
            .into_iter()
            .map(|limit| {
                let default = limit.show(limit.default_amount());
                let trusted = limit.show(limit.trusted_maximum());
                let key = limit.key();
                let meaning = limit.description();
                format!("| `{key}` | {meaning} | {default} | {trusted} |\n")
            })
            .collect();
        let head = "| Key | Limit | Default; maximum of `untrusted` | Maximum of `trusted` |\n|---|---|---|---|\n";
        let expected = format!("\n{head}{}\n", rows.concat());
        let documented = std::fs::read_to_string(&path).expect("the page");
        assert!(documented.contains(&expected), "{} has not: {expected}", path.display());
        let script = format!("{} units of fuel", Limits::SCRIPT.fuel);
        assert!(documented.contains(&script), "{} has not: {script}", path.display());
    }
}
