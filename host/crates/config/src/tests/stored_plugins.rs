//! Plugins whose components are in the store.

use airlock_plugin::ComponentSource;
use airlock_store::{
    components::ComponentDigest,
    entries::{Entries, Entry, EntryKind},
};

use super::*;
use crate::{merge::merge, place::Place};

/// Merges a plugin with this `wasm_config` into a file with a key that opens it.
fn merged(wasm: &Value) -> Merged {
    let plugin = json!({
        "name": "p", "connection_type": "wasm", "wasm_config": wasm, "tools_to_execute": ["*"],
    });
    let entry = Entry {
        kind: EntryKind::Client,
        name: "p".to_owned(),
        replaces: None,
        document: Some(plugin.to_string()),
        changed_ms: 0,
    };
    let place = Place::of_file(Path::new("/etc/airlock/gateway.json"));
    let entries = Entries { entries: vec![entry], ..Entries::default() };
    merge(&json!({}), place, &env, &entries).expect("a good file")
}

fn problems(wasm: &Value) -> String {
    let merged = merged(wasm);
    let LeftOutReason::Invalid(problems) = &merged.left_out[0].reason else { panic!("a problem") };
    assert!(merged.config.clients.is_empty());
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn only_the_accepted_component_is_loaded() {
    let one = ComponentDigest::compute(b"one");
    let two = ComponentDigest::compute(b"two");
    let offered = merged(&json!({"stored": {"offered": one.to_string()}}));
    assert!(offered.config.clients.is_empty() && offered.left_out.is_empty());
    let stored = json!({"accepted": one.to_string(), "offered": two.to_string()});
    let accepted = merged(&json!({"stored": stored, "grants": {"clocks": true}}));
    let Source::Plugin(plugin) = &accepted.config.clients[0].source else { panic!("a plugin") };
    assert_eq!(plugin.component, ComponentSource::Stored(one));
    assert!(plugin.grant.clocks);
    assert!(accepted.config.unpinned().is_empty(), "the store pins it");
}

#[test]
fn a_plugin_has_one_source_and_valid_digests_also_before_it_is_accepted() {
    let digest = ComponentDigest::compute(b"one").to_string();
    assert_snapshot!(
        problems(&json!({"component": "p.wasm", "stored": {"accepted": digest}})),
        @"wasm_config.component: cannot be set beside `stored`"
    );
    assert_snapshot!(
        problems(&json!({"stored": {"offered": "sha256:../../etc", "accepted": "one"}})),
        @r#"
    wasm_config.stored.offered: expected "sha256:" and 64 hexadecimal digits
    wasm_config.stored.accepted: expected "sha256:" and 64 hexadecimal digits
    "#
    );
    assert_snapshot!(problems(&json!({"stored": {}})), @"wasm_config.stored: names no component");
    assert_snapshot!(problems(&json!({})), @"wasm_config.component: is required, but missing");
    let grants = json!({"tools": ["q-read"]});
    let ungranted = problems(&json!({"stored": {"offered": digest}, "grants": grants}));
    assert!(ungranted.starts_with("wasm_config.grants.tools[0]: "), "{ungranted}");
}

#[test]
fn a_file_names_no_component_in_the_store() {
    let stored = json!({"accepted": ComponentDigest::compute(b"one").to_string()});
    let file = clients(json!([{
        "name": "p", "connection_type": "wasm", "wasm_config": {"stored": stored},
    }]));
    assert_snapshot!(
        error(&file),
        @r#"mcp.client_configs[name = "p"].wasm_config.stored: is set by the management API and cannot be in a file: name the file of the component in `component`"#
    );
}
