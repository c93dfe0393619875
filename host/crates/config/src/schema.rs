//! Published JSON Schema of the configuration file.

use serde_json::{Map, Value};

use airlock_config_file::file::{File, RANGE};

/// Returns the JSON Schema of a configuration file, identical to `host/config.schema.json`.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(File).to_value();
    describe_keys(&mut schema);
    for object in schema["$defs"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        describe_keys(object);
    }
    schema
}

/// Adds the range and the default of each key to its description, which editors show.
fn describe_keys(object: &mut Value) {
    let keys = object.get_mut("properties").and_then(Value::as_object_mut);
    for key in keys.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        let range = key.shift_remove(RANGE);
        if key.get("default").is_some_and(Value::is_null) {
            key.shift_remove("default");
        }
        let default = key.get("default").and_then(show);
        let Some(Value::String(description)) = key.get_mut("description") else { continue };
        if let Some(Value::String(range)) = range {
            description.extend([" ", &range, "."]);
        }
        if let Some(default) = default.filter(|_| !description.contains("Default:")) {
            description.extend([" Default: ", &default, "."]);
        }
    }
}

/// Returns a default as people write it; `None` for an object and an empty text.
fn show(default: &Value) -> Option<String> {
    match default {
        Value::String(text) if text.starts_with(|c: char| c.is_ascii_digit()) => Some(text.clone()),
        Value::String(name) if !name.is_empty() => Some(format!("`{name}`")),
        Value::Array(elements) if elements.is_empty() => Some("none".to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(default.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use airlock_core::limit::GuestLimit;
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
        let path = documentation("configuration.md");
        let rows: Vec<_> = GuestLimit::ALL
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

    #[test]
    fn the_documented_defaults_equal_those_of_the_schema() {
        let pages =
            ["configuration.md", "mcp.md", "providers.md", "runs.md", "upstream-reference.md"];
        let compared: usize = pages.map(|page| compare_defaults(&documentation(page))).iter().sum();
        assert!(compared >= 80, "{compared} defaults");
    }

    /// Compares the tables of a page that have a column of defaults. Returns the number of defaults.
    fn compare_defaults(page: &Path) -> usize {
        let documented = std::fs::read_to_string(page).expect("the page");
        let lines: Vec<_> = documented.lines().collect();
        let schema = super::schema();
        let types = schema["$defs"].as_object().expect("types");
        let mut column = None;
        let mut compared = 0;
        for rows in lines.windows(2).filter(|rows| rows[0].starts_with("| ")) {
            let cells: Vec<_> = rows[0].split('|').map(str::trim).collect();
            if rows[1].starts_with("|---") {
                column = cells.iter().position(|cell| *cell == "Default");
            }
            let Some(written) = column.and_then(|column| cells.get(column)) else { continue };
            let keys = cells[1].split('`').skip(1).step_by(2);
            for (key, written) in keys.zip(written.split(", ")) {
                let key = key.rsplit('.').next().expect("a key");
                let defaults = types.values().map(|object| &object["properties"][key]["default"]);
                let defaults: Vec<_> = defaults.filter_map(super::show).collect();
                let written = written.split(';').next().expect("a default").replace([' ', ','], "");
                // Other defaults depend on other keys.
                let is_value = written.starts_with(|c: char| c == '`' || c.is_ascii_digit())
                    || matches!(written.as_str(), "none" | "true" | "false");
                if is_value && !defaults.is_empty() {
                    assert!(defaults.contains(&written), "{key}: {written} is not {defaults:?}");
                    compared += 1;
                }
            }
        }
        compared
    }

    fn documentation(page: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(page)
    }
}
