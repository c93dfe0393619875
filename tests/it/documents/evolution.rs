//! The page about the evolution of the contract: its sketches are valid WIT beside the released
//! packages, and the gateway matches a component as the page says.

use std::{collections::BTreeMap, fs};

use airlock_tests::{Client, Embedded, Setup, root};
use wit_parser::{Resolve, SourceMap};

use super::Document;

/// Returns the released packages.
fn released() -> Resolve {
    let mut resolve = Resolve::default();
    for package in ["types", "host", "plugin"] {
        let directory = root().join("wit").join(package).join("0.1.0");
        resolve.push_path(directory).unwrap_or_else(|error| panic!("{package}: {error:#}"));
    }
    resolve
}

#[test]
fn every_sketch_is_valid_wit_beside_the_released_packages() {
    let mut sketches: BTreeMap<String, SourceMap> = BTreeMap::new();
    for page in ["docs/contract-evolution.md", "docs/plugin-format.md"] {
        let page = Document::read(root().join(page));
        for (number, sketch) in page.blocks_in("wit").enumerate() {
            // Sketches of one package are its files.
            let package = sketch.lines().next().expect("a package").to_owned();
            sketches.entry(package).or_default().push_str(&format!("{number}.wit"), sketch);
        }
    }
    assert!(sketches.len() >= 6, "{:?}", sketches.keys());
    let mut resolve = released();
    for (package, sources) in sketches {
        let group = sources.parse().unwrap_or_else(|(_, error)| panic!("{package} {error}"));
        resolve.push_group(group).unwrap_or_else(|error| panic!("{package} {error:#}"));
    }
}

/// A change of the plugin in WebAssembly text.
struct Change {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    /// Text in the reason that the gateway does not load it; `None` if it does.
    refused: Option<&'static str>,
}

const CHANGES: [Change; 8] = [
    Change { name: "same", from: "@0.1.0", to: "@0.1.0", refused: None },
    Change { name: "later_patch", from: "@0.1.0", to: "@0.1.9", refused: None },
    Change {
        name: "function_more",
        from: r#"(instance $tools (export "describe" (func $describe))"#,
        to: r#"(instance $tools (export "explain" (func $describe)) (export "describe" (func $describe))"#,
        refused: None,
    },
    Change {
        name: "later_version",
        from: "airlock:plugin/tools@0.1.0",
        to: "airlock:plugin/tools@0.2.0",
        refused: Some("0.2.0"),
    },
    Change {
        name: "later_function",
        from: r#"(export "call-context" (type (sub resource)))"#,
        to: r#"(export "call-context" (type $c (sub resource)))
               (export "[method]call-context.session" (func (param "self" (borrow $c)) (result string)))"#,
        refused: Some("session"),
    },
    Change {
        name: "field_more",
        from: r#"(field "size" (option u64))"#,
        to: r#"(field "size" (option u64)) (field "icons" (option string))"#,
        refused: Some("fields"),
    },
    Change {
        name: "case_more",
        from: r#"(case "other" string)"#,
        to: r#"(case "other" string) (case "video" $media)"#,
        refused: Some("cases"),
    },
    Change {
        name: "kind_more",
        from: r#""internal" "other""#,
        to: r#""internal" "other" "unpaid""#,
        refused: Some("names"),
    },
];

#[tokio::test]
async fn additions_to_interfaces_load_and_changes_of_types_are_refused() {
    let text = fs::read_to_string(root().join("docs/plugin-format/echo.wat")).expect("UTF-8");
    let mut setup = Setup::new();
    for Change { name, from, to, .. } in CHANGES {
        assert!(text.contains(from), "{from}");
        let component = wat::parse_str(text.replace(from, to));
        let component = component.unwrap_or_else(|error| panic!("{name}: {error}"));
        let file = setup.file(&format!("{name}.wasm"), component);
        setup = setup.client(Client::wasm(name, file));
    }
    let gateway = Embedded::start(setup).await;
    for Change { name, refused, .. } in CHANGES {
        match (refused, gateway.failure(name)) {
            (None, None) => {
                let called = gateway.call(&format!("{name}-echo"), r#"{"a":1}"#).await;
                assert_eq!(called.text(), r#"{"a":1}"#, "{name}: {called:?}");
            }
            (Some(says), Some(reason)) => assert!(reason.contains(says), "{name}: {reason}"),
            (expected, found) => panic!("{name}: found {found:?}, expected {expected:?}"),
        }
    }
    gateway.stop().await;
}
