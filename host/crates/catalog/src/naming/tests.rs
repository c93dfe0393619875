use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Catalog, EntryWriter,
    tests::{Unused, client},
};
use airlock_core::{
    door::{Filter, Origin, OwnTools, View},
    tool::{Allowlist, OWN_TOOLS, Trust},
};

fn open(prefix: Prefix) -> Policy {
    Policy { execute: Allowlist::All, prefix, ..Policy::default() }
}

fn add(catalog: &Catalog, name: &str, policy: Policy) {
    catalog.add_client(&client(name), crate::SourceKind::Server("stdio"), policy);
}

fn publish(catalog: &Catalog, name: &str, tools: &[&str]) -> Vec<String> {
    let definitions = tools.iter().map(|tool| json!({"name": tool, "inputSchema": {}}));
    let definitions = serde_json::from_value(definitions.collect()).expect("definitions");
    catalog.blocking_publish(&client(name), definitions, Arc::new(Unused))
}

fn view(catalog: &Catalog) -> View {
    catalog.snapshot().view(&Filter::none(), None)
}

/// Returns `name=client/original` of all tools, in the order of the view.
fn listed(catalog: &Catalog) -> String {
    view(catalog)
        .list(&Origin::Caller)
        .map(|entry| {
            let tool = &entry.tool;
            let client = tool.client.as_ref().expect("a client");
            format!("{}={client}/{}", tool.name, tool.original)
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_first_of_two_tools_with_one_name_is_kept_and_the_other_reported() {
    let catalog = Catalog::new();
    add(&catalog, "fs", open(Prefix::Client));
    let dropped = publish(&catalog, "fs", &["b", "a", "b", "B"]);
    assert_eq!(dropped, ["a second tool named \"b\""]);
    assert_eq!(listed(&catalog), "fs-B=fs/B fs-a=fs/a fs-b=fs/b");
    let snapshot = catalog.snapshot();
    let fs = snapshot.clients().next().expect("a client");
    assert_eq!(*fs.left_out, [LeftOut::second("b")]);
    let changes: Vec<_> = fs.tools.iter().map(|tool| tool.changes().count()).collect();
    // `properties` was added to each schema, and `type`; two have a twin.
    assert_eq!(changes, [3, 2, 3]);
}

#[test]
fn an_allowlist_entry_opens_only_the_tool_with_its_case_if_there_are_two() {
    let execute = Allowlist::parse(&["getuser", "READ"]).expect("a list");
    let policy = Policy { execute, ..open(Prefix::Client) };
    let catalog = Catalog::new();
    add(&catalog, "fs", policy);
    publish(&catalog, "fs", &["GetUser", "getuser", "read"]);
    assert_eq!(listed(&catalog), "fs-getuser=fs/getuser fs-read=fs/read");
    publish(&catalog, "fs", &["GetUser", "read", "Read"]);
    assert_eq!(listed(&catalog), "fs-GetUser=fs/GetUser");
}

#[test]
fn a_prefix_replaces_the_clients_name_and_the_full_name_stays_callable() {
    let catalog = Catalog::new();
    add(&catalog, "fs", open(Prefix::Other(client("files"))));
    publish(&catalog, "fs", &["read", "a/b"]);
    let view = view(&catalog);
    assert_eq!(found(&view, "files-read").as_deref(), Some("read"));
    assert_eq!(found(&view, "fs-read").as_deref(), Some("read"));
    assert_eq!(found(&view, ToolName::new(&client("fs"), "a/b").as_str()).as_deref(), Some("a/b"));
    assert_eq!((found(&view, "read"), found(&view, "x-read")), (None, None));
    let names: Vec<_> =
        view.list(&Origin::Model).map(|entry| entry.tool.name.to_string()).collect();
    assert!(names.iter().all(|name| name.starts_with("files-")), "{names:?}");
    // A grant of a plugin has the full name, so that a name on the wire that moves opens nothing.
    assert!(view.find(&granted("fs-read"), "fs-read").is_some());
    assert!(view.find(&granted("files-read"), "files-read").is_none());
}

/// Returns the original name of the tool with a name.
fn found(view: &View, name: &str) -> Option<String> {
    view.find(&Origin::Caller, name).map(|entry| entry.tool.original.clone())
}

/// Returns the origin of a plugin that may use one tool.
fn granted(name: &str) -> Origin {
    Origin::Plugin(Arc::new([name.to_owned()].into()))
}

#[test]
fn a_bare_name_never_takes_the_name_of_another_tool() {
    let catalog = Catalog::new();
    for name in ["b", "a"] {
        add(&catalog, name, open(Prefix::Off));
    }
    add(&catalog, "fs", open(Prefix::Client));
    add(&catalog, "db", open(Prefix::Other(client("sql"))));
    publish(
        &catalog,
        "b",
        &["search", "fs-read", "sql-q", "db-q", "ExecuteToolCode", "x/y", "own"],
    );
    publish(&catalog, "fs", &["read"]);
    publish(&catalog, "db", &["q"]);
    let hash = ToolName::new(&client("b"), "x/y");
    let others = format!(
        "b-ExecuteToolCode=b/ExecuteToolCode b-db-q=b/db-q b-fs-read=b/fs-read b-sql-q=b/sql-q {hash}=b/x/y fs-read=fs/read own=b/own"
    );
    assert_eq!(listed(&catalog), format!("{others} search=b/search sql-q=db/q"));
    // A client whose name is before the other's takes the name, whenever it connects.
    publish(&catalog, "a", &["search"]);
    assert_eq!(
        listed(&catalog),
        format!(
            "{} search=a/search sql-q=db/q",
            others.replace("b-sql-q", "b-search=b/search b-sql-q")
        )
    );
    let snapshot = catalog.snapshot();
    let b = snapshot.clients().find(|client| client.name.as_str() == "b").expect("it is there");
    let search = b.tools.iter().find(|tool| tool.original == "search").expect("it is there");
    assert!(
        search.changes().any(|change| change == "has a prefix, because a tool of a has its name"),
        "{search:?}"
    );
    // The name is free again once the other tool is gone.
    publish(&catalog, "a", &[]);
    assert_eq!(listed(&catalog), format!("{others} search=b/search sql-q=db/q"));
}

#[tokio::test]
async fn a_tool_that_is_not_accepted_or_not_permitted_takes_no_name_of_another_one() {
    let catalog = Catalog::new();
    for name in ["a", "b"] {
        add(&catalog, name, open(Prefix::Off));
    }
    publish(&catalog, "b", &["send"]);
    let writer = EntryWriter::new(catalog.clone(), client("a"));
    writer.take(crate::SourceKind::Server("stdio"));
    let send = json!([{"name": "send", "inputSchema": {}}]);
    let send: Vec<ToolDefinition> = serde_json::from_value(send).expect("definitions");
    let unaccepted = BTreeSet::from(["send".to_owned()]);
    writer.publish(send.clone(), unaccepted, Arc::new(Unused)).await;
    assert_eq!(listed(&catalog), "a-send=a/send send=b/send");
    writer.publish(send, BTreeSet::new(), Arc::new(Unused)).await;
    assert_eq!(listed(&catalog), "b-send=b/send send=a/send", "the operator has accepted it");
    catalog.set_policy(&client("a"), Policy { prefix: Prefix::Off, ..Policy::default() });
    assert_eq!(listed(&catalog), "send=b/send");
}

#[test]
fn no_tool_of_a_client_has_the_name_of_one_of_the_gateways_own() {
    let catalog = Catalog::new();
    add(&catalog, "a", Policy { code_mode: true, ..open(Prefix::Off) });
    publish(&catalog, "a", &OWN_TOOLS);
    let own = Tool::own("executeToolCode", "", json!({"type": "object"}));
    let own = OwnTools { tools: vec![Arc::new(own)], provider: Arc::new(Unused) };
    catalog.set_meta_tools(own);
    let view = view(&catalog);
    let names: Vec<_> =
        view.list(&Origin::Model).map(|entry| entry.tool.name.to_string()).collect();
    assert_eq!(names, ["executeToolCode"]);
    assert!(view.list(&Origin::Script).all(|entry| entry.tool.name.as_str().starts_with("a-")));
}

#[test]
fn the_clients_trust_decides_the_mark_of_descriptions() {
    let catalog = Catalog::new();
    for (name, trust) in [("a", Trust::Trusted), ("b", Trust::Untrusted)] {
        add(&catalog, name, Policy { trust, ..open(Prefix::Client) });
        publish(&catalog, name, &["t"]);
    }
    let view = view(&catalog);
    let described: Vec<String> =
        view.list(&Origin::Model).map(|entry| entry.tool.described().into_owned()).collect();
    assert_eq!(described, ["", "[MCP Service: b (external)] t"]);
}

fn prefix() -> impl Strategy<Value = u8> {
    0_u8..3
}

proptest! {
    #[test]
    fn names_of_all_clients_are_distinct_callable_and_independent_of_order(
        lists in prop::collection::vec((prefix(), prop::collection::vec("[aAb]{0,2}|c[012]-[ab]|p[012]-[ab]|[ab]/[ab]|查|readToolFile|a{60,70}", 0..8)), 1..4),
        is_reversed in any::<bool>(),
    ) {
        let catalog = catalog_of(&lists, is_reversed);
        prop_assert_eq!(listed(&catalog), listed(&catalog_of(&lists, !is_reversed)));
        let view = view(&catalog);
        let tools: BTreeSet<(String, String)> = view.list(&Origin::Caller).map(|entry| {
            (entry.tool.client.as_ref().expect("a client").to_string(), entry.tool.original.clone())
        }).collect();
        let expected: BTreeSet<_> = lists.iter().enumerate().flat_map(|(index, (_, tools))| {
            tools.iter().map(move |tool| (format!("c{index}"), tool.clone()))
        }).collect();
        prop_assert_eq!(tools, expected, "every tool is callable");
        for entry in view.list(&Origin::Caller) {
            let tool = &entry.tool;
            prop_assert!(ToolName::is_valid(tool.name.as_str()));
            for name in [&tool.name, &tool.full_name] {
                let found = view.find(&Origin::Caller, name.as_str()).expect("it is callable");
                prop_assert_eq!((&found.tool.client, &found.tool.original), (&tool.client, &tool.original));
            }
        }
    }
}

/// Returns a catalog with a client for each list. A kind is that of [`prefix`].
fn catalog_of(lists: &[(u8, Vec<String>)], is_reversed: bool) -> Arc<Catalog> {
    let catalog = Catalog::new();
    let mut order: Vec<_> = lists.iter().enumerate().collect();
    if is_reversed {
        order.reverse();
    }
    for (index, (kind, tools)) in order {
        let name = format!("c{index}");
        let mut tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        if is_reversed {
            tools.reverse();
        }
        let prefix = match kind {
            0 => Prefix::Client,
            1 => Prefix::Other(client(&format!("p{index}"))),
            _ => Prefix::Off,
        };
        add(&catalog, &name, open(prefix));
        publish(&catalog, &name, &tools);
    }
    catalog
}

#[test]
fn the_list_is_the_same_whatever_the_order_of_the_server() {
    let tools = json!([
        {"name": "b", "inputSchema": {"type": "object", "properties": {"z": {}, "a": {}}, "$defs": {}}},
        {"name": "a", "inputSchema": {"$defs": {"x": {}}, "type": "object", "additionalProperties": false}},
        {"name": "查询", "inputSchema": {"type": "object"}},
    ]);
    let Value::Array(tools) = tools else { panic!("a list") };
    let forward = adopted(tools.clone());
    assert_eq!(forward, adopted(tools.into_iter().rev().collect()));
    let b = forward.0.iter().find(|tool| tool.original == "b").expect("it is listed");
    assert_eq!(
        b.input_schema.as_str(),
        r#"{"type":"object","properties":{"z":{},"a":{}},"$defs":{}}"#,
        "members keep their order"
    );
}

fn adopted(tools: Vec<Value>) -> (Vec<Arc<Tool>>, Vec<LeftOut>) {
    let definitions = serde_json::from_value(Value::Array(tools)).expect("definitions");
    adopt_all(&client("fs"), &open(Prefix::Client), definitions)
}

#[test]
fn a_changed_prefix_or_trust_is_in_force_for_the_tools_that_are_listed() {
    let catalog = Catalog::new();
    add(&catalog, "fs", open(Prefix::Client));
    publish(&catalog, "fs", &["read", "Read"]);
    let changes = changes_of_first(&catalog);
    for (prefix, expected) in [
        (Prefix::Off, "Read=fs/Read read=fs/read"),
        (Prefix::Other(client("disk")), "disk-Read=fs/Read disk-read=fs/read"),
        (Prefix::Client, "fs-Read=fs/Read fs-read=fs/read"),
    ] {
        catalog.set_policy(&client("fs"), open(prefix));
        assert_eq!(listed(&catalog), expected);
        assert_eq!(changes_of_first(&catalog), changes, "nothing is reported twice");
    }
    catalog.set_policy(&client("fs"), Policy { trust: Trust::Trusted, ..open(Prefix::Client) });
    let snapshot = catalog.snapshot();
    let fs = snapshot.clients().next().expect("a client");
    assert!(fs.tools.iter().all(|tool| tool.trust == Trust::Trusted));
}

fn changes_of_first(catalog: &Catalog) -> usize {
    let snapshot = catalog.snapshot();
    let client = snapshot.clients().next().expect("a client");
    client.tools[0].changes().count()
}
