//! Manifests of contract 0.1.0, and the section that the gateway accepts for each.
//!
//! The files never change once 0.1.0 is released: components in use embed such sections, and a
//! gateway that refuses one of them, or reads it in another way, breaks its plugin. What a later
//! version adds goes into new files. `UPDATE_GOLDEN=1` writes the sections of new manifests alone.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use super::*;

const SCHEMA_FILE: &str = "config.schema.json";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/0.1.0/manifests")
}

/// Returns the manifests, sorted by path.
fn manifests() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory()).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

/// Reads a manifest as the build of a plugin does.
fn read(path: &Path) -> (Source, Manifest) {
    let plugin = tempfile::tempdir().expect("a directory");
    fs::copy(path, plugin.path().join(airlock_manifest::FILE)).expect("a manifest");
    fs::copy(directory().join(SCHEMA_FILE), plugin.path().join(SCHEMA_FILE)).expect("a schema");
    let read = Manifest::of_directory(plugin.path());
    read.unwrap_or_else(|error| panic!("{}: {error}", path.display())).expect("there is one")
}

#[test]
fn every_manifest_of_0_1_0_is_accepted_and_becomes_the_same_section() {
    for path in manifests() {
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
fn the_manifests_of_0_1_0_have_every_key_effect_and_unit() {
    let mut keys = HashSet::new();
    let mut texts = String::new();
    for path in manifests() {
        let (source, _) = read(&path);
        collect("", &source.document, &mut keys);
        texts += &source.document.to_string();
    }
    let expected: HashSet<_> = airlock_manifest::key_paths().into_iter().collect();
    // The build replaces the first two by `config.schema`; the last two are later.
    let missing: HashSet<_> = expected.difference(&keys).map(String::as_str).collect();
    assert_eq!(missing, ["config.schema_file", "config.from_code", "request.kv.NAME.cache"].into());
    assert!(keys.is_subset(&expected), "{keys:?}");
    for effect in crate::Effect::ALL {
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
