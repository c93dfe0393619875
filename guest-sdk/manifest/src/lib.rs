//! Reads `plugin.toml` and converts it to the form that a component embeds: JSON, with the schema
//! of the configuration in place of the name of its file.
//!
//! The macros of the SDK embed it at compile time; `airlock plugin build` embeds it in every
//! component that it writes. The host validates its content. The table `[build]` is for the builder
//! alone and is not embedded.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Name of the custom section that holds the manifest.
pub const SECTION: &str = "airlock:manifest";
/// Name of the file next to a plugin's sources.
const FILE: &str = "plugin.toml";

/// Requests that only WASI can fulfil, by their keys in `request`.
const OF_WASI: [&str; 4] = ["clocks", "files", "random", "scratch"];

/// A manifest in its embedded form.
#[derive(Debug)]
pub struct Manifest {
    /// The JSON.
    pub json: String,
    /// True if the plugin is built with WASI: it requests what only WASI provides, or says
    /// `[build] wasi = true`.
    pub needs_wasi: bool,
    /// The files that it was made from.
    pub files: Vec<PathBuf>,
}

/// Reads `plugin.toml` in a directory; `None` if there is no such file. The error names the file
/// and the reason in one sentence.
pub fn read(directory: &Path) -> Result<Option<Manifest>, String> {
    let file = directory.join(FILE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{FILE} cannot be read: {error}")),
    };
    let mut manifest: Value = toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?;
    let needs_wasi = takes_wasi(&mut manifest)? || requests_wasi(&manifest);
    let mut files = vec![file];
    if let Some(config) = manifest.get_mut("config").and_then(Value::as_object_mut)
        && let Some(name) = config.remove("schema_file")
    {
        let name = name
            .as_str()
            .ok_or_else(|| format!("{FILE}: config.schema_file is the name of a file"))?;
        config.insert("schema".to_owned(), schema(&directory.join(name), name)?);
        files.push(directory.join(name));
    }
    Ok(Some(Manifest { json: manifest.to_string(), needs_wasi, files }))
}

/// Removes the table `[build]`. Returns its `wasi`.
fn takes_wasi(manifest: &mut Value) -> Result<bool, String> {
    let Some(build) = manifest.as_object_mut().and_then(|manifest| manifest.remove("build")) else {
        return Ok(false);
    };
    let expected = "expected `wasi = true` or `wasi = false`";
    let Value::Object(build) = build else {
        return Err(format!("{FILE}: build: found {build}, {expected}"));
    };
    if let Some(unknown) = build.keys().find(|key| *key != "wasi") {
        return Err(format!("{FILE}: build: found the key {unknown:?}, {expected}"));
    }
    match build.get("wasi") {
        None => Ok(false),
        Some(Value::Bool(wasi)) => Ok(*wasi),
        Some(other) => Err(format!("{FILE}: build.wasi: found {other}, expected true or false")),
    }
}

fn requests_wasi(manifest: &Value) -> bool {
    let request = manifest.get("request");
    OF_WASI.iter().any(|kind| request.is_some_and(|request| request.get(*kind).is_some()))
}

fn schema(file: &Path, name: &str) -> Result<Value, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("{name}, which {FILE} names, cannot be read: {error}"))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{name}, which {FILE} names, is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the manifest of a directory with these files.
    fn manifest(test: &str, files: &[(&str, &str)]) -> Result<Option<Manifest>, String> {
        let directory =
            std::env::temp_dir().join(format!("airlock-manifest-{}-{test}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        for (name, text) in files {
            fs::write(directory.join(name), text).expect("a file");
        }
        let read = read(&directory);
        fs::remove_dir_all(&directory).expect("it is ours");
        read
    }

    /// Returns the embedded form for a directory with these files.
    fn of(test: &str, files: &[(&str, &str)]) -> Result<Option<String>, String> {
        Ok(manifest(test, files)?.map(|manifest| {
            assert_eq!(manifest.files.len(), files.len());
            manifest.json
        }))
    }

    #[test]
    fn a_manifest_becomes_json_in_its_own_order_with_the_schema_inside() {
        let manifest = "id = 'a'\nversion = '1.0.0'\n[[tool]]\nname = 'b'\neffects = []\n[config]\nschema_file = 'c.json'\n";
        let json = of("whole", &[("plugin.toml", manifest), ("c.json", "{\"type\": \"object\"}")]);
        let expected = r#"{"id":"a","version":"1.0.0","tool":[{"name":"b","effects":[]}],"config":{"schema":{"type":"object"}}}"#;
        assert_eq!(json, Ok(Some(expected.to_owned())));
    }

    #[test]
    fn without_a_plugin_toml_there_is_no_manifest() {
        assert_eq!(of("none", &[]), Ok(None));
    }

    #[test]
    fn an_error_names_the_file_that_cannot_be_embedded() {
        let missing = of("missing", &[("plugin.toml", "[config]\nschema_file = 'c.json'")])
            .expect_err("no such file");
        assert!(
            missing.starts_with("c.json, which plugin.toml names, cannot be read: "),
            "{missing}"
        );
        let broken = of("broken", &[("plugin.toml", "id = ")]).expect_err("no TOML");
        assert!(broken.starts_with("plugin.toml: TOML parse error at line 1"), "{broken}");
        let files = [("plugin.toml", "[config]\nschema_file = 'c.json'"), ("c.json", "{")];
        let schema = of("schema", &files).expect_err("no JSON");
        assert!(schema.starts_with("c.json, which plugin.toml names, is not JSON: "), "{schema}");
        assert!(of("number", &[("plugin.toml", "[config]\nschema_file = 1")]).is_err());
    }

    #[test]
    fn a_plugin_needs_wasi_if_it_requests_a_part_of_it_or_says_so() {
        let needs = |text: &str| {
            let manifest = manifest("wasi", &[(FILE, text)])?.expect("a manifest");
            assert!(!manifest.json.contains("build"), "{}", manifest.json);
            Ok(manifest.needs_wasi)
        };
        for without in
            ["", "[build]", "[build]\nwasi = false", "[request.http.a]", "[request.kv.a]"]
        {
            assert_eq!(needs(without), Ok(false), "{without}");
        }
        for with in ["[build]\nwasi = true", "[request.files.a]", "[request.clocks]"] {
            assert_eq!(needs(with), Ok(true), "{with}");
        }
        let unknown = "plugin.toml: build: found the key \"target\", expected `wasi = true` or `wasi = false`";
        assert_eq!(needs("[build]\ntarget = 'a'"), Err(unknown.to_owned()));
        let other = "plugin.toml: build.wasi: found 1, expected true or false";
        assert_eq!(needs("[build]\nwasi = 1"), Err(other.to_owned()));
    }
}
