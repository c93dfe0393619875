//! The custom section `package-docs`: the comments of a WIT package, which the author's tools put
//! into the component.
//!
//! The format is that of `wit-parser`: a byte for the version, 0 or 1, then JSON. The section is
//! not checked against the component; entries for functions that do not exist are never read.

use std::collections::BTreeMap;

use airlock_compile::{CompileError, section};
use serde::Deserialize;

/// Name of the section.
pub(super) const SECTION: &str = "package-docs";
/// Bytes of the documentation of a component; a larger section is not read. The author chooses it, and
/// JSON of empty functions takes many times as much memory while it is read: `"abcd":{},` has 10 bytes,
/// and becomes an allocation, and a key and a value of at least 24 bytes each in a map.
const MAX_BYTES: usize = 1 << 20;

/// Reasons for which a documentation section cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadDocs {
    /// The section is too large.
    #[error("it has {found} bytes; the limit is {MAX_BYTES}")]
    TooLarge {
        /// Its size in bytes.
        found: usize,
    },
    /// The section has an unknown version.
    #[error("it has the version {0:?}, this release reads 0 and 1")]
    Version(Option<u8>),
    /// The section is not JSON, or not documentation.
    #[error("it is not the JSON of a WIT package's documentation: {0}")]
    Json(#[from] serde_json::Error),
    /// The component around the section cannot be read.
    #[error(transparent)]
    Component(#[from] CompileError),
}

/// The documentation of one package.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Docs {
    #[serde(default)]
    worlds: BTreeMap<String, World>,
    #[serde(default)]
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Debug, Deserialize)]
struct World {
    /// Imports; with version 0 also exports.
    #[serde(default)]
    funcs: BTreeMap<String, FunctionDocs>,
    #[serde(default)]
    func_exports: BTreeMap<String, FunctionDocs>,
    /// Imports; with version 0 also exports.
    #[serde(default)]
    interfaces: BTreeMap<String, Interface>,
    #[serde(default)]
    interface_exports: BTreeMap<String, Interface>,
}

#[derive(Debug, Deserialize)]
struct Interface {
    #[serde(default)]
    funcs: BTreeMap<String, FunctionDocs>,
}

/// Documentation of one function. Version 0 has only the text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FunctionDocs {
    Text(Option<String>),
    Item {
        #[serde(default)]
        docs: Option<String>,
    },
}

impl Docs {
    /// Reads the section of the component itself, not those of modules inside it. Returns empty
    /// documentation if there is none.
    pub(super) fn read(wasm: &[u8]) -> Result<Self, BadDocs> {
        let Some(section) = section(wasm, SECTION)? else { return Ok(Self::default()) };
        if section.len() > MAX_BYTES {
            return Err(BadDocs::TooLarge { found: section.len() });
        }
        match section.split_first() {
            Some((0 | 1, json)) => Ok(serde_json::from_slice(json)?),
            other => Err(BadDocs::Version(other.map(|(version, _)| *version))),
        }
    }

    /// Returns the documentation of a function; `None` if there is none. `interface` is `None` for
    /// a function that the component exports directly. Otherwise it is the name of an interface of
    /// the package (`weather:station/api@1.0.0`), or of an interface that the world defines inline
    /// (`api`).
    pub(super) fn function(&self, interface: Option<&str>, name: &str) -> Option<&str> {
        let text = match interface {
            None => self
                .worlds
                .values()
                .find_map(|world| world.func_exports.get(name).or_else(|| world.funcs.get(name))),
            Some(path) => self.interface(path).and_then(|interface| interface.funcs.get(name)),
        };
        let (FunctionDocs::Text(docs) | FunctionDocs::Item { docs }) = text?;
        docs.as_deref().map(str::trim).filter(|docs| !docs.is_empty())
    }

    fn interface(&self, path: &str) -> Option<&Interface> {
        match path.rsplit_once('/') {
            Some((_, versioned)) => {
                self.interfaces.get(versioned.split('@').next().unwrap_or(versioned))
            }
            None => self.worlds.values().find_map(|world| {
                world.interface_exports.get(path).or_else(|| world.interfaces.get(path))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with a section of these bytes each, and one in an inner module that must not be
    /// read.
    fn component(sections: &[&[u8]]) -> Vec<u8> {
        let mut wasm =
            wat::parse_str("(component (core module (@custom \"package-docs\" \"\\01{\")))")
                .expect("a component");
        for section in sections {
            wasm.extend(super::super::tests::custom_section(SECTION, section));
        }
        wasm
    }

    fn docs(json: &str) -> Result<Docs, BadDocs> {
        Docs::read(&component(&[&[&[1], json.as_bytes()].concat()]))
    }

    #[test]
    fn functions_are_found_by_world_and_by_interface() {
        let docs = docs(
            r#"{"docs": "the package",
                "worlds": {
                    "imports": {"funcs": {"log": {"docs": "an import"}}, "stability": "unknown"},
                    "w": {"func_exports": {"now": {"docs": " Tells the time. "}},
                          "interface_exports": {"inline": {"funcs": {"f": {"docs": "inside"}}}},
                          "funcs": {"now": {"docs": "the import of the same name"}}}},
                "interfaces": {"api": {"docs": "interface", "funcs": {"get": {"docs": "Gets."}, "blank": {"docs": " "}},
                               "types": {"t": {"docs": "d", "items": {"a": "b"}}}}}}"#,
        )
        .expect("good documentation");
        assert_eq!(docs.function(None, "now"), Some("Tells the time."));
        assert_eq!(docs.function(Some("inline"), "f"), Some("inside"));
        assert_eq!(docs.function(Some("weather:station/api@1.0.0"), "get"), Some("Gets."));
        assert_eq!(docs.function(Some("weather:station/api"), "get"), Some("Gets."));
        for (interface, name) in [
            (None, "get"),
            (Some("api"), "get"),
            (Some("a:b/api"), "blank"),
            (Some("a:b/other"), "get"),
        ] {
            assert_eq!(docs.function(interface, name), None, "{interface:?} {name}");
        }
    }

    #[test]
    fn version_0_has_texts_alone_and_exports_among_the_imports() {
        let section =
            [&[0], br#"{"worlds":{"w":{"funcs":{"f":"one","g":null},"interfaces":{"i":{"funcs":{"h":"two"}}}}}}"#.as_slice()];
        let docs = Docs::read(&component(&[&section.concat()])).expect("good documentation");
        assert_eq!(docs.function(None, "f"), Some("one"));
        assert_eq!(docs.function(None, "g"), None);
        assert_eq!(docs.function(Some("i"), "h"), Some("two"));
    }

    #[test]
    fn a_missing_section_is_no_documentation_and_a_bad_one_is_an_error() {
        assert!(
            Docs::read(&component(&[])).expect("nothing to read").function(None, "f").is_none()
        );
        let deep = format!("{{\"worlds\":{}", "{\"a\":".repeat(100_000));
        let wrong_type = r#"{"interfaces": {"api": {"funcs": {"f": 7}}}}"#;
        for bad in ["", "{", "7", "null", "\u{0}", r#"{"worlds": []}"#, wrong_type, &deep] {
            assert!(matches!(docs(bad), Err(BadDocs::Json(_))), "{}", &bad[..bad.len().min(50)]);
        }
        assert!(
            matches!(Docs::read(&component(&[&[1, b'{', 0xff, b'}']])), Err(BadDocs::Json(_))),
            "not UTF-8"
        );
        assert!(matches!(Docs::read(&component(&[b"{}"])), Err(BadDocs::Version(Some(b'{')))));
        assert!(matches!(Docs::read(&component(&[b""])), Err(BadDocs::Version(None))));
        assert!(matches!(Docs::read(b"\0asm"), Err(BadDocs::Component(_))));
    }

    #[test]
    fn documentation_beyond_its_limit_is_refused() {
        assert!(padded(MAX_BYTES).is_ok());
        assert!(matches!(padded(MAX_BYTES + 1), Err(BadDocs::TooLarge { .. })));
    }

    fn padded(bytes: usize) -> Result<Docs, BadDocs> {
        let json = format!("{{}}{}", " ".repeat(bytes - 3));
        Docs::read(&component(&[&[&[1], json.as_bytes()].concat()]))
    }
}
