use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;
use crate::{
    list::PAGE_ITEMS,
    tests::{Unused, client},
};
use airlock_core::{
    door::{CallerHeaders, Membership, ToolGroup},
    tool::{Allowlist, Policy},
};

fn publish(catalog: &Catalog, name: &str, tools: Value) {
    let policy = Policy { execute: Allowlist::All, ..Policy::default() };
    catalog.add_client(&client(name), airlock_catalog::SourceKind::Server("stdio"), policy);
    let tools = serde_json::from_value(tools).expect("definitions");
    let dropped = catalog.blocking_publish(&client(name), tools, Arc::new(Unused));
    assert!(dropped.is_empty(), "{dropped:?}");
}

fn everything(scope: ToolboxScope) -> Selection {
    Selection { key: None, filter: Filter::none(), scope }
}

fn listed(toolbox: &Toolbox) -> Vec<Value> {
    let page = toolbox.page(None).expect("the first page");
    serde_json::from_str(&format!("[{}]", page.items)).expect("JSON")
}

#[test]
fn a_tool_keeps_all_members_and_of_those_of_tasks_only_that_it_supports_them() {
    let catalog = Catalog::new();
    let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}});
    let tool = json!({
        "name": "a/b", "title": "T\"", "description": "D", "inputSchema": schema, "outputSchema": schema,
        "annotations": {"readOnlyHint": true, "x": 1}, "_meta": {"k": [1]},
        "icons": [{"src": "data:"}], "execution": {"taskSupport": "optional", "x": 1}, "q\"": null,
    });
    publish(&catalog, "fs", json!([tool]));
    let mut expected = tool;
    expected["execution"] = json!({"taskSupport": "optional"});
    let boxes = Toolboxes::new(catalog);
    assert_eq!(
        listed(&boxes.open(&everything(ToolboxScope::Client(client("fs"))))),
        [expected.clone()]
    );
    expected["name"] = ToolName::new(&client("fs"), "a/b").as_str().into();
    assert_eq!(listed(&boxes.open(&everything(ToolboxScope::All))), [expected]);
}

#[test]
fn one_client_is_listed_and_called_with_its_own_names() {
    let catalog = Catalog::new();
    publish(
        &catalog,
        "fs",
        json!([{"name": "a b", "inputSchema": {}}, {"name": "fs-x", "inputSchema": {}}]),
    );
    publish(&catalog, "db", json!([{"name": "q", "inputSchema": {}}]));
    let boxes = Toolboxes::new(catalog);
    let one = boxes.open(&everything(ToolboxScope::Client(client("fs"))));
    let names: Vec<_> = listed(&one).iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["a b", "fs-x"]);
    assert!(one.find("a b").is_some() && one.find("fs-x").is_some());
    assert!(one.find("q").is_none() && one.find("db-q").is_none() && one.find("fs-fs-x").is_none());
    let all = boxes.open(&everything(ToolboxScope::All));
    assert!(all.find("db-q").is_some() && all.find("q").is_none() && all.find("a b").is_none());
}

#[test]
fn a_group_is_listed_and_called_by_names_on_the_wire_until_it_is_gone() {
    let catalog = Catalog::new();
    publish(&catalog, "fs", tools(0..2));
    publish(&catalog, "db", tools(0..2));
    let slug = GroupSlug::parse("g").expect("a slug");
    let list = Allowlist::parse(&["t0001"]).expect("a good list");
    let group = ToolGroup {
        name: "G".to_owned(),
        slug: slug.clone(),
        tools: [(client("fs"), list)].into(),
        keys: None,
    };
    let boxes = Toolboxes::new(catalog.clone());
    let selection = everything(ToolboxScope::Group(slug));
    assert!(listed(&boxes.open(&selection)).is_empty(), "not there yet");
    catalog.set_groups([group.clone()]);
    let present = boxes.open(&selection);
    let names: Vec<_> = listed(&present).iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["fs-t0001"]);
    assert!(present.find("fs-t0001").is_some());
    assert!(present.find("fs-t0000").is_none() && present.find("db-t0001").is_none());
    assert!(Arc::ptr_eq(&present, &boxes.open(&selection)), "it is kept");
    let of_others = ToolGroup { keys: Some(["ann".to_owned()].into()), ..group };
    catalog.set_groups([of_others]);
    assert!(listed(&boxes.open(&selection)).is_empty(), "it does not exist for this caller");
    catalog.switch_off(true);
    assert!(listed(&boxes.open(&everything(ToolboxScope::All))).is_empty());
}

#[test]
fn pages_hold_every_tool_once_even_if_the_list_changes_between_them() {
    let catalog = Catalog::new();
    publish(&catalog, "a", tools(0..PAGE_ITEMS + 2));
    let boxes = Toolboxes::new(catalog.clone());
    let first = boxes.open(&everything(ToolboxScope::All));
    let page = first.page(None).expect("a page");
    assert_eq!(page.items.matches("\"name\"").count(), PAGE_ITEMS);
    publish(&catalog, "a", tools(1..PAGE_ITEMS + 2));
    let second = boxes.open(&everything(ToolboxScope::All));
    let rest = second.page(page.next.as_deref()).expect("a page");
    assert_eq!(rest.items.matches("\"name\"").count(), 2);
    assert!(rest.items.starts_with("{\"name\":\"a-t1000\"") && rest.next.is_none());
    let end = second.page(Some(&BASE64_URL_SAFE_NO_PAD.encode("zzz"))).expect("a page");
    assert_eq!(end, ItemPage { items: "", next: None });
    for bad in ["", "!", "YSBi"] {
        assert_eq!(first.page(Some(bad)).expect_err("refused").code, -32602, "{bad}");
    }
}

fn tools(numbers: std::ops::Range<usize>) -> Value {
    numbers.map(|n| json!({"name": format!("t{n:04}"), "inputSchema": {}})).collect()
}

#[test]
fn a_toolbox_of_the_time_before_a_source_connected_may_be_incomplete_afterwards() {
    let catalog = Catalog::new();
    let stdio = airlock_catalog::SourceKind::Server("stdio");
    catalog.add_client(&client("fs"), stdio, Policy::default());
    let boxes = Toolboxes::new(catalog.clone());
    let selection = everything(ToolboxScope::All);
    let early = boxes.open(&selection);
    assert!(early.find("fs-a").is_none() && early.may_be_incomplete(&selection));
    publish(&catalog, "fs", json!([{"name": "a", "inputSchema": {}}]));
    assert!(early.may_be_incomplete(&selection), "its list lacks the tool");
    let later = boxes.open(&selection);
    assert!(later.find("fs-a").is_some() && !later.may_be_incomplete(&selection));
    assert!(early.may_be_incomplete(&selection), "its catalog is gone");
}

#[test]
fn a_toolbox_is_kept_until_the_catalog_changes_and_for_its_selection_only() {
    let catalog = Catalog::new();
    publish(&catalog, "fs", json!([{"name": "a", "inputSchema": {}}]));
    let boxes = Toolboxes::new(catalog.clone());
    let first = boxes.open(&everything(ToolboxScope::All));
    assert!(Arc::ptr_eq(&first, &boxes.open(&everything(ToolboxScope::All))));
    assert!(boxes.changed(&everything(ToolboxScope::All), &first).is_none());
    let filtered =
        Selection { filter: Filter::parse(Some("none"), None), ..everything(ToolboxScope::All) };
    assert!(listed(&boxes.open(&filtered)).is_empty());
    let key = VirtualKey::new("k", "sk-bf-k", std::collections::BTreeMap::new());
    let keyed = Selection { key: Some(Arc::new(key)), ..everything(ToolboxScope::All) };
    assert!(listed(&boxes.open(&keyed)).is_empty());
    publish(&catalog, "fs", json!([{"name": "b", "inputSchema": {}}]));
    let second = boxes.open(&everything(ToolboxScope::All));
    assert!(first.digests() != second.digests() && second.find("fs-b").is_some());
    let changed = boxes.changed(&everything(ToolboxScope::All), &first).expect("another catalog");
    assert!(Arc::ptr_eq(&changed, &second));
    assert_eq!(boxes.kept.lock().len(), 1);
    for n in 0..KEPT + 5 {
        boxes.open(&Selection {
            key: Some(Arc::new(account(&n.to_string()))),
            ..everything(ToolboxScope::All)
        });
    }
    assert_eq!(boxes.kept.lock().len(), KEPT);
    for n in 0..KEPT_OF_TENANT + 5 {
        boxes.open(&everything(ToolboxScope::Client(client(&format!("c{n}")))));
    }
    let kept = boxes.kept.lock();
    let own = kept.iter().filter(|kept| kept.tenant == Tenant::ANONYMOUS).count();
    assert_eq!((kept.len(), own), (KEPT, KEPT_OF_TENANT));
}

#[test]
fn a_toolbox_is_not_kept_for_a_key_that_was_changed() {
    let catalog = Catalog::new();
    publish(&catalog, "fs", tools(0..2));
    let boxes = Toolboxes::new(catalog);
    let with_row = |tool: &str| {
        let row = Allowlist::parse(&[tool]).expect("a good list");
        let key = VirtualKey::new("ann", "sk-bf-ann", [(client("fs"), row)].into());
        boxes.open(&Selection { key: Some(Arc::new(key)), ..everything(ToolboxScope::All) })
    };
    let before = with_row("t0000");
    assert!(before.find("fs-t0000").is_some() && before.find("fs-t0001").is_none());
    let after = with_row("t0001");
    assert!(after.find("fs-t0001").is_some() && after.find("fs-t0000").is_none());
    assert!(Arc::ptr_eq(&after, &with_row("t0001")), "an equal key has the same tools");
}

#[test]
fn calls_of_a_key_that_joins_a_team_are_those_of_the_team_at_once() {
    let catalog = Catalog::new();
    publish(&catalog, "fs", tools(0..1));
    let boxes = Toolboxes::new(catalog);
    for team in [None, Some("research"), None] {
        let membership = Membership { team: team.map(str::to_owned), ..Membership::default() };
        let key = account("sk-bf-ann").with_membership(membership);
        let selection = Selection { key: Some(Arc::new(key)), ..everything(ToolboxScope::All) };
        let view = boxes.open(&selection).view_for(&selection);
        assert_eq!(view.membership().team.as_deref(), team);
    }
}

#[test]
fn a_toolbox_of_the_operator_is_not_kept_for_callers() {
    let catalog = Catalog::new();
    let policy = Policy { execute: Allowlist::All, is_owned: true, ..Policy::default() };
    catalog.add_client(&client("mail"), airlock_catalog::SourceKind::Server("stdio"), policy);
    let definitions = serde_json::from_value(tools(0..1)).expect("definitions");
    let dropped = catalog.blocking_publish(&client("mail"), definitions, Arc::new(Unused));
    assert!(dropped.is_empty(), "{dropped:?}");
    let boxes = Toolboxes::new(catalog);
    let own = Selection { filter: Filter::of_operator(), ..everything(ToolboxScope::All) };
    for _ in 0..2 {
        assert!(boxes.open(&own).find("mail-t0000").is_some());
        assert!(boxes.open(&everything(ToolboxScope::All)).find("mail-t0000").is_none());
    }
}

#[test]
fn a_kept_toolbox_has_the_language_of_the_request_and_calls_have_its_headers() {
    let catalog = Catalog::new();
    publish(&catalog, "fs", tools(0..1));
    let boxes = Toolboxes::new(catalog);
    let [of_ann, of_bob] = [b"ann", b"bob"].map(|value| {
        let headers = CallerHeaders::collect([("x-user", value.as_slice())]);
        Selection { filter: Filter::none().with_headers(headers), ..everything(ToolboxScope::All) }
    });
    let kept = boxes.open(&of_ann);
    assert!(Arc::ptr_eq(&kept, &boxes.open(&of_bob)));
    let headers = CallerHeaders::collect([("x-user", b"bob".as_slice())]);
    assert_eq!(kept.view_for(&of_bob).headers(), &headers);
    let filter = Filter::none().with_language(Some(ScriptLanguage::Python));
    let python = Selection { filter, ..everything(ToolboxScope::All) };
    assert!(!Arc::ptr_eq(&kept, &boxes.open(&python)));
}

fn account(name: &str) -> VirtualKey {
    VirtualKey::new(name.to_owned(), name, std::collections::BTreeMap::new())
}
