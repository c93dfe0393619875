//! Manifests of the released schemas, and the section that the gateway accepts for each.
//!
//! The files never change once a schema is released: components in use embed such sections, and a
//! gateway that refuses one of them, or reads it in another way, breaks its plugin. What a later
//! version adds goes into new files. `UPDATE_GOLDEN=1` writes the sections of new manifests alone.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use super::*;

/// Versions of the schema of the section. The manifests of each use the keys that it has added.
const VERSIONS: [&str; 2] = ["0.1.0", "0.1.1"];
const SCHEMA_FILE: &str = "config.schema.json";

/// Returns the manifests of a version, sorted by path.
fn manifests(version: &str) -> BTreeSet<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden");
    let entries = fs::read_dir(golden.join(version).join("manifests")).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

/// Reads a manifest as the build of a plugin does. The code of each plugin declares the schema that is beside the
/// manifests.
fn read(path: &Path) -> (ManifestSource, Manifest) {
    let schema = path.with_file_name(SCHEMA_FILE);
    let plugin = tempfile::tempdir().expect("a directory");
    fs::copy(path, plugin.path().join(airlock_manifest::FILE)).expect("a manifest");
    fs::copy(&schema, plugin.path().join(SCHEMA_FILE)).expect("a schema");
    let read = Manifest::of_directory(plugin.path());
    let read = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut source, manifest) = read.expect("there is one");
    if !source.is_schema_in_code() {
        return (source, manifest);
    }
    let schema = fs::read_to_string(schema).expect("a schema");
    source.set_schema(&serde_json::from_str(&schema).expect("JSON"));
    let manifest = Manifest::of_source(&source);
    let manifest = manifest.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (source, manifest)
}

#[test]
fn every_released_manifest_is_accepted_and_becomes_the_same_section() {
    for path in VERSIONS.into_iter().flat_map(manifests) {
        let (source, manifest) = read(&path);
        let section = path.with_extension("json");
        if env::var_os("UPDATE_GOLDEN").is_some() && !section.exists() {
            let document: Value = serde_json::from_str(&source.json()).expect("JSON");
            let text = serde_json::to_string_pretty(&document).expect("JSON");
            fs::write(&section, text + "\n").expect("it is written");
        }
        let expected = fs::read_to_string(&section)
            .unwrap_or_else(|error| panic!("{}: {error}", section.display()));
        let made: Value = serde_json::from_str(&source.json()).expect("JSON");
        let document: Value = serde_json::from_str(&expected).expect("JSON");
        assert_eq!(made, document, "{}", path.display());
        let accepted = Manifest::parse(expected.as_bytes());
        assert_eq!(accepted, Ok(manifest), "{}", section.display());
        assert_eq!(schema::disagreement(&schema::schema(), &document), None, "{}", path.display());
    }
}

#[test]
fn the_released_manifests_have_every_key_effect_and_unit() {
    let mut keys = HashSet::new();
    let mut texts = String::new();
    for path in VERSIONS.into_iter().flat_map(manifests) {
        let (source, _) = read(&path);
        collect("", &source.document, &mut keys);
        texts += &source.document.to_string();
    }
    let expected: HashSet<_> = airlock_manifest::key_paths().into_iter().collect();
    // The build replaces both by `config.schema`.
    let missing: HashSet<_> = expected.difference(&keys).map(String::as_str).collect();
    assert_eq!(missing, ["config.schema_file", "config.from_code"].into());
    assert!(keys.is_subset(&expected), "{keys:?}");
    for effect in airlock_sandbox::Effect::ALL {
        let name = effect.name();
        for form in [format!("\"{name}\""), format!("\"{name}.")] {
            assert!(texts.contains(&form), "{form}");
        }
    }
    for unit in ["B", "KiB", "MiB", "GiB", "ms", "s", "m", "h"] {
        let mut numbers = texts.split('"').filter_map(|text| text.strip_suffix(unit));
        let is_used = numbers.any(|number| number.parse::<u64>().is_ok());
        assert!(is_used, "no amount has the unit {unit}");
    }
}
