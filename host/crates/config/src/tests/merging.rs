//! Entries of the store in a configuration.

mod kinds;

use std::time::UNIX_EPOCH;

use airlock_store::{
    SealError,
    entries::{Entries, Entry, EntryKind, UnreadableEntry},
};
use proptest::prelude::*;

use super::*;
use crate::{merge::merge, place::Place};
use airlock_core::tool::ClientName;

const FILE: &str = "/etc/airlock/gateway.json";

fn merged(file: &Value, entries: &[Entry]) -> Merged {
    merge(file, Place::of_file(Path::new(FILE)), &env, &all(entries)).expect("a good file")
}

fn all(entries: &[Entry]) -> Entries {
    Entries { entries: entries.to_vec(), ..Entries::default() }
}

fn client(name: &str, replaces: Option<[u8; 32]>, document: Option<Value>) -> Entry {
    entry(EntryKind::Client, name, replaces, document)
}

fn key(name: &str, replaces: Option<[u8; 32]>, document: Option<Value>) -> Entry {
    entry(EntryKind::VirtualKey, name, replaces, document)
}

fn entry(
    kind: EntryKind,
    name: &str,
    replaces: Option<[u8; 32]>,
    document: Option<Value>,
) -> Entry {
    let document = document.map(|document| document.to_string());
    Entry { kind, name: name.to_owned(), replaces, document, changed_ms: 0 }
}

fn unreadable(kind: EntryKind, name: &str, replaces: Option<[u8; 32]>) -> UnreadableEntry {
    UnreadableEntry { kind, name: name.to_owned(), replaces, reason: SealError::UnknownFormat }
}

/// A file with a client `fs` and a virtual key `ann` that opens it.
fn file() -> Value {
    let ann = json!({
        "name": "ann",
        "value": SECRET,
        "mcp_configs": [{"mcp_client_name": "fs", "tools_to_execute": ["*"]}],
    });
    with(clients(json!([stdio("fs")])), "governance", json!({"virtual_keys": [ann]}))
}

/// Returns the digest of an element of the file.
fn digest(file: &Value, kind: EntryKind, name: &str) -> [u8; 32] {
    let merged = merged(file, &[]);
    element(&merged, kind, name).in_file.expect("it is in the file")
}

fn digest_of_fs(file: &Value) -> [u8; 32] {
    digest(file, EntryKind::Client, "fs")
}

fn element<'m>(merged: &'m Merged, kind: EntryKind, name: &str) -> &'m Element {
    let found = merged.elements.iter().find(|element| element.kind == kind && element.name == name);
    found.expect("an element")
}

fn names(config: &Config) -> Vec<&str> {
    config.clients.iter().map(|client| client.name.as_str()).collect()
}

/// Returns the entries that have no effect, one problem per line.
fn left_out(merged: &Merged) -> String {
    let lines = merged.left_out.iter().map(|left_out| {
        let LeftOut { kind, name, reason } = left_out;
        match reason {
            LeftOutReason::FileChanged => format!("{kind:?} {name}: the file was changed\n"),
            LeftOutReason::Unreadable(reason) => format!("{kind:?} {name}: {reason}\n"),
            LeftOutReason::Invalid(problems) => {
                let lines: Vec<_> = problems
                    .iter()
                    .map(|problem| format!("{kind:?} {name}: {problem}\n"))
                    .collect();
                lines.concat()
            }
        }
    });
    let text: String = lines.collect();
    assert!(!text.contains("hunter2"), "a secret is shown: {text}");
    text
}

#[test]
fn without_entries_the_file_has_effect_as_it_is() {
    let merged = merged(&file(), &[]);
    let alone = good(&file());
    assert_eq!(merged.config.fingerprint, alone.fingerprint);
    assert_eq!(names(&merged.config), ["fs"]);
    assert_eq!(merged.left_out, []);
    let elements: Vec<_> = merged
        .elements
        .iter()
        .map(|element| (element.kind, &*element.name, element.in_store, &element.value))
        .collect();
    let ann = Some(file()["governance"]["virtual_keys"][0].clone());
    assert_eq!(
        elements,
        [
            (EntryKind::Client, "fs", false, &Some(stdio("fs"))),
            (EntryKind::VirtualKey, "ann", false, &ann),
        ]
    );
}

#[test]
fn entries_add_replace_and_remove_elements() {
    let file = file();
    let other = with(stdio("fs"), "is_code_mode_client", json!(true));
    let bob = json!({"name": "bob", "value": format!("{SECRET}-bob"), "mcp_configs": [{"mcp_client_name": "web"}]});
    let entries = [
        client("fs", Some(digest_of_fs(&file)), Some(other.clone())),
        client("web", None, Some(stdio("web"))),
        key("ann", Some(digest(&file, EntryKind::VirtualKey, "ann")), None),
        key("bob", None, Some(bob)),
    ];
    let merged = merged(&file, &entries);
    assert_eq!(left_out(&merged), "");
    assert_eq!(names(&merged.config), ["fs", "web"]);
    assert!(merged.config.clients[0].policy.code_mode);
    assert!(merged.config.keys.named("ann").is_none() && merged.config.keys.named("bob").is_some());
    assert_eq!(element(&merged, EntryKind::Client, "fs").value, Some(other));
    let web = element(&merged, EntryKind::Client, "web");
    assert_eq!((web.in_file, web.in_store), (None, true));
    let ann = element(&merged, EntryKind::VirtualKey, "ann");
    assert_eq!((ann.in_file.is_some(), ann.in_store, &ann.value), (true, true, &None));
    // It says what has changed, as for a file that was edited.
    assert_ne!(merged.config.fingerprint, good(&file).fingerprint);
    assert_eq!(merged.config.file.as_deref(), Some(Path::new(FILE)));
}

#[test]
fn an_entry_that_cannot_be_opened_has_no_effect_and_neither_has_what_it_stands_in_place_of() {
    let file = file();
    let entries = Entries {
        entries: vec![client("web", None, Some(stdio("web")))],
        unreadable: vec![
            unreadable(EntryKind::Client, "fs", Some([1; 32])),
            unreadable(EntryKind::Client, "other", None),
            unreadable(
                EntryKind::VirtualKey,
                "ann",
                Some(digest(&file, EntryKind::VirtualKey, "ann")),
            ),
        ],
        ..Entries::default()
    };
    let merged = merge(&file, Place::of_file(Path::new(FILE)), &env, &entries).expect("good");
    insta::assert_snapshot!(left_out(&merged), @r"
    Client fs: the file was changed
    Client other: a secret is sealed in a format that this version of Airlock does not know
    VirtualKey ann: a secret is sealed in a format that this version of Airlock does not know
    ");
    assert_eq!(names(&merged.config), ["fs", "web"]);
    assert!(merged.config.keys.named("ann").is_none(), "its value may be one that leaked");
    assert_eq!(element(&merged, EntryKind::VirtualKey, "ann").value, None);
}

#[test]
fn the_file_has_effect_if_it_was_changed_after_the_entry() {
    let edited = clients(json!([with(stdio("fs"), "disabled", json!(true)), stdio("new")]));
    let before = Some(digest_of_fs(&file()));
    for document in [Some(stdio("fs")), None] {
        let entries = [client("fs", before, document.clone()), client("new", None, document)];
        let merged = merged(&edited, &entries);
        assert_eq!(names(&merged.config), ["new"]);
        let expected = "Client fs: the file was changed\nClient new: the file was changed\n";
        assert_eq!(left_out(&merged), expected);
        assert!(!element(&merged, EntryKind::Client, "fs").in_store);
    }
}

#[test]
fn an_entry_whose_element_is_gone_has_effect_unless_it_removes_it() {
    let gone = Some(digest_of_fs(&file()));
    let with_document = merged(&json!({}), &[client("fs", gone, Some(stdio("fs")))]);
    assert_eq!(
        (names(&with_document.config), left_out(&with_document)),
        (vec!["fs"], String::new())
    );
    for replaces in [gone, None] {
        let moot = merged(&json!({}), &[client("fs", replaces, None)]);
        assert_eq!((moot.elements, moot.left_out), (vec![], vec![]));
    }
}

#[test]
fn the_order_of_members_is_no_change_of_an_element() {
    let element = r#"{"name": "fs", "connection_type": "stdio", "stdio_config": {"command": "a", "args": ["b", "c"]}}"#;
    let same = r#"{"stdio_config": {"args": ["b", "c"], "command": "a"}, "connection_type": "stdio", "name": "fs"}"#;
    let other = r#"{"stdio_config": {"args": ["c", "b"], "command": "a"}, "connection_type": "stdio", "name": "fs"}"#;
    assert_eq!(digest_of_text(element), digest_of_text(same));
    assert_ne!(digest_of_text(element), digest_of_text(other));
}

fn digest_of_text(client: &str) -> [u8; 32] {
    let client: Value = serde_json::from_str(client).expect("JSON");
    digest_of_fs(&clients(json!([client])))
}

#[test]
fn an_entry_that_is_not_valid_is_left_out_with_its_problems() {
    let file = file();
    let entries = [
        client("a", None, Some(with(stdio("a"), "lifecycle", json!("often")))),
        client(
            "b",
            None,
            Some(with(
                with(stdio("b"), "headers", json!({"x": "y"})),
                "stdio_config",
                json!({"command": ""}),
            )),
        ),
        client("c", None, Some(stdio("other"))),
        Entry { document: Some("{".to_owned()), ..client("d", None, None) },
        client("e", None, Some(json!([SECRET]))),
        Entry {
            document: Some(r#"{"name": "f", "name": "f"}"#.to_owned()),
            ..client("f", None, None)
        },
        client("good", None, Some(stdio("good"))),
        key("a", None, Some(json!({"name": "a", "value": "env.UNSET"}))),
        key(
            "b",
            None,
            Some(
                json!({"name": "b", "value": format!("{SECRET}-b"), "mcp_configs": [{"mcp_client_name": "nobody"}]}),
            ),
        ),
        key(
            "c",
            None,
            Some(
                json!({"name": "c", "value": format!("{SECRET}-c"), "mcp_configs": [{"mcp_client_name": "a"}]}),
            ),
        ),
    ];
    let merged = merged(&file, &entries);
    assert_snapshot!(left_out(&merged), @r#"
    Client a: lifecycle: found "often", expected "persistent", "idle" or "per_call"
    Client b: headers: belongs to a client whose `connection_type` is "http" or "sse"
    Client b: stdio_config.command: is empty
    Client c: name: must be "c", the name of the entry
    Client d: line 1, column 1: EOF while parsing an object
    Client e: expected an object, found an array
    Client f: line 1, column 20: the key "name" is written twice in one object
    VirtualKey a: value: the environment variable UNSET is not set
    VirtualKey b: mcp_configs[0].mcp_client_name: no client is named "nobody"
    "#);
    assert_eq!(names(&merged.config), ["fs", "good"]);
    // A key with a row for a client that was left out keeps its other rows.
    assert!(merged.config.keys.named("c").is_some());
    assert_eq!(merged.elements.len(), 4);
}

#[test]
fn an_element_does_not_come_back_when_the_entry_in_its_place_is_not_valid() {
    let file = file();
    let restricted = json!({"name": "ann", "value": "env.UNSET"});
    let replaces = Some(digest(&file, EntryKind::VirtualKey, "ann"));
    let merged = merged(&file, &[key("ann", replaces, Some(restricted))]);
    assert!(merged.config.keys.is_empty());
    assert!(merged.config.server.require_virtual_key);
    let ann = element(&merged, EntryKind::VirtualKey, "ann");
    assert_eq!((ann.in_file, ann.in_store, &ann.value), (replaces, true, &None));
    assert_snapshot!(left_out(&merged), @r#"
    VirtualKey ann: value: the environment variable UNSET is not set
    "#);
}

#[test]
fn of_two_elements_that_exclude_each_other_an_entry_is_left_out_and_of_entries_the_later_one() {
    let two = clients(json!([stdio("z"), stdio("a"), with(stdio("p"), "prefix", json!("taken"))]));
    let [of_a, of_z] = ["a", "z"].map(|name| Some(digest(&two, EntryKind::Client, name)));
    let entries = [
        // They stand in the places of elements in another order.
        client("a", of_a, Some(with_prefix("a", "same"))),
        client("z", of_z, Some(with_prefix("z", "same"))),
        client("taken", None, Some(stdio("taken"))),
        client("named", None, Some(with_prefix("named", "p"))),
        key("b", None, Some(credential("b"))),
        key("c", None, Some(credential("c"))),
    ];
    let merged = merged(&two, &entries);
    assert_snapshot!(left_out(&merged), @r#"
    Client named: prefix: "p" is the name of another client
    Client taken: name: "taken" is the prefix of another client
    Client z: prefix: another client has this prefix already
    VirtualKey c: value: is the same as that of the key "b"
    "#);
    assert_eq!(names(&merged.config), ["p", "a"]);
    assert!(merged.config.keys.named("b").is_some());
}

fn with_prefix(name: &str, prefix: &str) -> Value {
    with(stdio(name), "prefix", json!(prefix))
}

fn credential(name: &str) -> Value {
    json!({"name": name, "value": SECRET})
}

#[test]
fn rows_rules_and_grants_for_what_an_entry_removes_are_kept() {
    let plugin = json!({"component": "p.wasm", "grants": {"tools": ["fs-read"]}});
    let plugin = json!({"name": "p", "connection_type": "wasm", "wasm_config": plugin});
    let bob = json!({"name": "bob", "value": format!("{SECRET}-bob")});
    let mut file = file();
    file["mcp"]["client_configs"] = json!([stdio("fs"), plugin]);
    file["mcp_server"]["approval_rules"] = json!([{"virtual_key": "bob", "approval": "never"}]);
    file["governance"]["virtual_keys"] = json!([file["governance"]["virtual_keys"][0], bob]);
    let entries = [
        client("fs", Some(digest_of_fs(&file)), None),
        key("bob", Some(digest(&file, EntryKind::VirtualKey, "bob")), None),
    ];
    let merged = merged(&file, &entries);
    assert_eq!(left_out(&merged), "");
    assert_eq!(names(&merged.config), ["p"]);
    let ann = merged.config.keys.named("ann").expect("it is kept");
    assert!(ann.grants.rows.contains_key(&ClientName::parse("fs").expect("a name")));
    assert!(merged.config.keys.named("bob").is_none());
}

#[test]
fn owners_of_a_client_may_be_inactive_withheld_or_removed() {
    let off = json!({"name": "off", "value": format!("{SECRET}-off"), "is_active": false});
    let mut file = file();
    file["mcp"]["client_configs"] = json!([with(stdio("fs"), "virtual_keys", json!(["off"]))]);
    file["mcp"]["virtual_mcps"] = json!([{"name": "g", "tools": [], "virtual_keys": ["off"]}]);
    file["governance"]["virtual_keys"].as_array_mut().expect("a list").push(off.clone());
    let replaces = Some(digest(&file, EntryKind::VirtualKey, "off"));
    let withheld = key("off", replaces, Some(with(off, "roles", json!(["gone"]))));
    for entry in [withheld, key("off", replaces, None)] {
        // Fails if the file is not valid any more.
        let merged = merged(&file, &[entry]);
        assert!(merged.config.keys.named("off").is_none());
        assert!(merged.config.clients[0].policy.is_owned);
    }
    let own = with(stdio("own"), "virtual_keys", json!(["bob"]));
    let merged = merged(&file, &[client("own", None, Some(own))]);
    assert_eq!(left_out(&merged), "", "its key can be removed");
    assert!(merged.config.clients[1].policy.is_owned);
    let nobody = with(stdio("own"), "virtual_keys", json!([]));
    let merged = self::merged(&file, &[client("own", None, Some(nobody))]);
    assert!(left_out(&merged).contains("names no key"));
}

#[test]
fn the_last_key_of_a_file_can_be_removed_without_opening_the_gateway() {
    for listen in ["127.0.0.1:8080", "0.0.0.0:8080"] {
        let file = with(file(), "server", json!({"listen": listen}));
        let ann = digest(&file, EntryKind::VirtualKey, "ann");
        let merged = merged(&file, &[key("ann", Some(ann), None)]);
        assert!(merged.config.keys.is_empty() && merged.left_out.is_empty());
        assert!(merged.config.server.require_virtual_key, "{listen}");
    }
    let bob = json!({"name": "bob", "value": SECRET});
    let merged = merged(&json!({}), &[key("bob", None, Some(bob))]);
    assert!(merged.config.server.require_virtual_key, "an entry is a key as one of the file");
    assert!(merged.config.keys.find(SECRET, None, UNIX_EPOCH).is_some());
}

#[test]
fn a_file_that_is_not_valid_by_itself_fails_with_its_own_keys() {
    let file = clients(json!([stdio("fs"), with(stdio("b"), "name", json!("b b"))]));
    let place = Place::of_file(Path::new(FILE));
    let entries = [client("a", None, Some(stdio("a")))];
    let problems = merge(&file, place, &env, &all(&entries)).expect_err("a bad file");
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.to_string()).collect();
    assert_eq!(keys, ["mcp.client_configs[1].name"]);
}

#[test]
fn a_file_is_loaded_with_its_entries() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    std::fs::write(&path, file().to_string()).expect("a file");
    let entries = [client("web", None, Some(stdio("web")))];
    let source = ConfigSource::new(path.clone());
    let Loaded { merged, problem, .. } = source.load(&all(&entries)).expect("a good file");
    assert!(problem.is_none());
    assert_eq!(names(&merged.config), ["fs", "web"]);
    assert!(merged.config.lock.is_some() && merged.config.server.management.socket.is_some());
    let printed = format!("{merged:?}");
    assert!(!printed.contains("hunter2"), "{printed}");
    std::fs::write(&path, "[").expect("a file");
    let error = ConfigSource::new(path).load(&all(&entries)).expect_err("no JSON");
    assert!(matches!(error, ConfigError::Invalid { .. }), "{error}");
    let missing = ConfigSource::new(directory.path().join("x")).load(&all(&entries));
    assert!(matches!(missing, Err(ConfigError::Unreadable { .. })));
}

#[test]
fn while_a_file_is_not_valid_its_last_valid_content_takes_the_entries() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    std::fs::write(&path, file().to_string()).expect("a file");
    let source = ConfigSource::new(path.clone());
    let loaded = source.load_made(&all(&[]), |_| Ok(())).expect("a good file");
    assert_eq!(loaded.merged.config.keys.iter().count(), 1);
    let ann = digest(&file(), EntryKind::VirtualKey, "ann");
    let revoked = all(&[key("ann", Some(ann), None)]);
    let broken = with(file(), "server", json!({"listne": "127.0.0.1:1"}));
    for text in ["{".to_owned(), broken.to_string()] {
        std::fs::write(&path, text).expect("a file");
        let Loaded { merged, problem, .. } = source.load(&revoked).expect("the last valid content");
        assert!(merged.config.keys.is_empty(), "the key is revoked");
        assert!(problem.is_some_and(|problem| matches!(problem, ConfigError::Invalid { .. })));
    }
    let without_keys = json!({"providers": {}});
    std::fs::write(&path, without_keys.to_string()).expect("a file");
    let unusable = |_: &Config| Err::<(), _>(vec![Problem::at("providers", "cannot be made")]);
    let loaded = source.load_made(&all(&[]), unusable).expect("the last valid content");
    assert_eq!(loaded.merged.config.keys.iter().count(), 1, "nothing of the file is taken");
    let problem = loaded.problem.expect("it cannot be made").to_string();
    assert!(problem.ends_with("gateway.json: providers: cannot be made"), "{problem}");
    let loaded = source.load(&all(&[])).expect("the last valid content");
    assert_eq!(loaded.merged.config.keys.iter().count(), 1, "what the gateway has is changed");
    assert_eq!(loaded.problem.map(|problem| problem.to_string()).as_deref(), Some(&*problem));
    let Loaded { merged, made, problem } =
        source.load_unread::<()>(&revoked).expect("the last valid content");
    assert!(merged.config.keys.is_empty() && made.is_none());
    assert!(matches!(problem, Some(ConfigError::Unreadable { .. })), "{problem:?}");
    let loaded = source.load_made(&all(&[]), |_| Ok(())).expect("it can be made");
    assert!(loaded.merged.config.keys.is_empty() && loaded.problem.is_none());
    let loaded = source.load(&all(&[])).expect("it is not refused any more");
    assert!(loaded.merged.config.keys.is_empty() && loaded.problem.is_none());
    std::fs::write(&path, file().to_string()).expect("a file");
    source.load_made(&all(&[]), |_| Ok(())).expect("a good file");
    std::fs::remove_file(&path).expect("it is there");
    let loaded = source.load(&revoked).expect("the last valid content");
    assert!(matches!(loaded.problem, Some(ConfigError::Unreadable { .. })));
    assert!(!format!("{source:?}").contains("hunter2"));
}

#[test]
fn a_key_that_was_ever_changed_keeps_the_gateway_closed() {
    let entries = Entries { keys_changed: true, ..Entries::default() };
    let place = Place::of_file(Path::new(FILE));
    let merged = merge(&json!({}), place, &env, &entries).expect("a good file");
    assert!(merged.config.server.require_virtual_key);
    let open = json!({"server": {"require_virtual_key": false}});
    let merged = merge(&open, place, &env, &entries).expect("a good file");
    assert!(!merged.config.server.require_virtual_key, "the operator says so");
}

proptest! {
    #[test]
    fn any_document_is_taken_or_left_out(text in "\\PC{0,40}", name in "[a-c]{0,2}", is_key: bool) {
        let kind = if is_key { EntryKind::VirtualKey } else { EntryKind::Client };
        let entry = Entry { kind, name, replaces: None, document: Some(text), changed_ms: 0 };
        let merged = merged(&file(), &[entry]);
        prop_assert_eq!(merged.left_out.len(), 1);
    }
}
