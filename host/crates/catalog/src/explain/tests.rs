mod agreement;

use futures_util::future::BoxFuture;
use serde_json::Map;

use super::*;
use crate::{Catalog, EntryWriter, SourceKind, tests::client};
use airlock_core::{
    door::{Admitted, Environment, GroupSlug, Provider, ToolGroup},
    tool::{Allowlist, CallError, Exclusions, Policy, Prefix, ToolOutput},
};

/// Runs nothing, and reports these names as in quarantine.
struct Quarantine(&'static [&'static str]);

impl Provider for Quarantine {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { Err(CallError::cancelled()) })
    }

    fn status(&self) -> Map<String, Value> {
        Map::from_iter([(QUARANTINE.to_owned(), json!(self.0))])
    }
}

fn list(names: &[&str]) -> Allowlist {
    Allowlist::parse(names).expect("a good list")
}

fn open() -> Policy {
    Policy { execute: Allowlist::All, auto_execute: Allowlist::All, ..Policy::default() }
}

fn key(rows: &[(&str, &[&str])]) -> VirtualKey {
    let rows = rows.iter().map(|(name, tools)| (client(name), list(tools)));
    VirtualKey::new("ann", "sk-bf-ann", rows.collect())
}

fn definitions(tools: &[&str]) -> Vec<ToolDefinition> {
    let tools = tools.iter().map(|name| json!({"name": name, "inputSchema": {}}));
    serde_json::from_value(tools.collect()).expect("definitions")
}

/// Adds an MCP server with these tools.
fn add(catalog: &Catalog, name: &str, policy: Policy, tools: &[&str]) {
    add_held(catalog, name, policy, tools, &[]);
}

fn add_held(
    catalog: &Catalog,
    name: &str,
    policy: Policy,
    tools: &[&str],
    held: &'static [&'static str],
) {
    let provider = Arc::new(Quarantine(held));
    catalog.add_client(&client(name), SourceKind::Server("stdio"), policy);
    catalog.blocking_publish(&client(name), definitions(tools), provider);
}

/// Returns the visibility of a tool, with the codes of the rules that hide it.
fn explained(explanation: &Explanation<'_>, name: &str) -> (&'static str, Vec<&'static str>) {
    let mut found = Vec::new();
    for client in explanation.clients() {
        for tool in client.tools().filter(|tool| tool.name() == name) {
            let rules = tool.reasons().into_iter().map(|reason| reason.rule).collect();
            found.push((tool.visibility().code(), rules));
        }
    }
    found.pop().unwrap_or_else(|| panic!("{name} is explained"))
}

#[test]
fn a_tool_that_no_rule_hides_is_visible_to_models_or_to_scripts() {
    let catalog = Catalog::new();
    add(&catalog, "fs", open(), &["read"]);
    add(&catalog, "code", Policy { code_mode: true, ..open() }, &["run"]);
    let snapshot = catalog.snapshot();
    let filter = Filter::none();
    let explanation = snapshot.explain(&filter, None);
    assert_eq!(explained(&explanation, "fs-read"), ("models", vec![]));
    assert_eq!(explained(&explanation, "code-run"), ("scripts", vec![]));
    assert!(explanation.clients().all(|client| client.state_reason().is_none()));
}

#[test]
fn each_rule_of_the_door_can_be_the_deciding_one() {
    let catalog = Catalog::new();
    add(&catalog, "fs", Policy { execute: list(&["read"]), ..open() }, &["read", "write"]);
    let snapshot = catalog.snapshot();
    let row: &[&str] = &["write"];
    for (filter, key, name, expected) in [
        (Filter::parse(Some("web"), None), None, "fs-read", vec!["include_clients"]),
        (Filter::none(), None, "fs-write", vec!["tools_to_execute"]),
        (Filter::none(), Some(key(&[])), "fs-read", vec!["key_without_row"]),
        (Filter::none(), Some(key(&[("fs", row)])), "fs-read", vec!["key_row"]),
        (Filter::parse(None, Some("fs-write")), None, "fs-read", vec!["include_tools"]),
        (
            Filter::parse(Some("web"), Some("")),
            Some(key(&[])),
            "fs-write",
            vec!["include_clients", "tools_to_execute", "key_without_row", "include_tools"],
        ),
    ] {
        let explanation = snapshot.explain(&filter, key.as_ref());
        assert_eq!(explained(&explanation, name), ("no", expected), "{filter:?}");
    }
}

#[test]
fn each_new_bound_is_explained_by_its_code_with_its_place() {
    let catalog = Catalog::new();
    let exclude = Exclusions::parse(&["drop"]).expect("a good list");
    add(&catalog, "fs", Policy { exclude, ..open() }, &["read", "write", "drop", "list"]);
    add(&catalog, "web", open(), &["find"]);
    add(&catalog, "mail", Policy { is_owned: true, ..open() }, &["send"]);
    let any: &[&str] = &["*"];
    let mut key = key(&[("fs", any), ("web", any), ("mail", any)]);
    let grants = Arc::make_mut(&mut key.grants);
    let excluded = Exclusions::parse(&["write"]).expect("a good list");
    grants.excluded.insert(client("fs"), excluded);
    let taken_away = Exclusions::parse(&["list"]).expect("a good list");
    let clients = [(client("fs"), taken_away), (client("mail"), Exclusions::default())];
    let environment = Environment { name: "eu".to_owned(), clients: clients.into() };
    grants.environment = Some(Arc::new(environment));
    let slug = GroupSlug::parse("g").expect("a slug");
    let tools = [(client("fs"), list(&["write", "drop", "list"]))].into();
    let group = Arc::new(ToolGroup { name: "G".to_owned(), slug, tools, keys: None });
    let mut filter = Filter::none().excluding(Some("fs-read,web-*"));
    filter.narrow_to_group(Some(&group));
    let snapshot = catalog.snapshot();
    insta::assert_snapshot!(snapshot.explain(&filter, Some(&key)).lines().join("\n"), @r##"
    fs-drop: hidden
      tools_to_exclude: The client fs lists drop in `tools_to_exclude`, which counts more than `tools_to_execute`. Remove it from `tools_to_exclude` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`).
    fs-list: hidden
      environment_exclude: The environment "eu" of the virtual key "ann" excludes list of fs. Remove it from `tools_to_exclude` of the environment (`governance.environments` of the file or `/api/governance/environments`).
    fs-read: hidden
      virtual_mcp: The virtual MCP "G" does not list read of fs. Add it to `tools` of the virtual MCP (`mcp.virtual_mcps` of the file or `/api/mcp/virtual-mcps`), or use another path.
      exclude_tools: The header `x-bf-mcp-exclude-tools` of the request names the tool. Remove `fs-read` or `fs-*` from the header, or send no such header.
    fs-write: hidden
      key_exclude: A row of the virtual key "ann" for fs, or of one of its roles, lists write in `tools_to_exclude`, which counts more than `tools_to_execute` of every row. Remove it from `tools_to_exclude` of that row.
    web: environment: The virtual key "ann" is bound to the environment "eu", which does not have the client web. Add it to `clients` of the environment (`governance.environments` of the file or `/api/governance/environments`).
    web: virtual_mcp: The virtual MCP "G" has no tools of the client web. Add them to `tools` of the virtual MCP (`mcp.virtual_mcps` of the file or `/api/mcp/virtual-mcps`), or use another path.
    web: exclude_tools: The header `x-bf-mcp-exclude-tools` of the request excludes all tools of web. Remove `web-*` or `*` from the header, or send no such header.
    web-find: hidden
      environment
      virtual_mcp
      exclude_tools
    owner: 1 client is not listed for the virtual key "ann". It belongs to other keys: see `virtual_keys` and `teams` of the clients (`mcp.client_configs` of the file or `/api/mcp/clients`).
    "##);
    catalog.switch_off(true);
    let snapshot = catalog.snapshot();
    let filter = Filter::of_operator();
    let explanation = snapshot.explain(&filter, None);
    for tool in ["fs-read", "web-find", "mail-send"] {
        assert_eq!(explained(&explanation, tool).1[0], "switched_off");
    }
    assert!(explanation.concealed().is_none());
}

#[test]
fn a_tool_that_is_not_in_the_catalog_is_explained_after_the_rules_that_hide_its_name() {
    let catalog = Catalog::new();
    let policy = Policy { execute: list(&["ok", "held", "bad"]), ..open() };
    let long = "x".repeat(129);
    add_held(&catalog, "fs", policy, &["ok", "ok", &long], &["held", "ok", "other"]);
    let snapshot = catalog.snapshot();
    let filter = Filter::none();
    let explanation = snapshot.explain(&filter, None);
    let clients: Vec<_> = explanation.clients().collect();
    let tools = clients[0].tools().map(|tool| {
        let rules: Vec<_> = tool.reasons().iter().map(|reason| reason.rule).collect();
        (tool.name().into_owned(), tool.visibility(), rules.join(" "))
    });
    let tools: Vec<_> = tools.collect();
    let hidden = Visibility::Hidden;
    // A name that is too long is cut in the reason.
    let long = ToolName::new(&client("fs"), &long[..128]).as_str().to_owned();
    assert_eq!(
        tools,
        [
            ("fs-ok".to_owned(), Visibility::Models, String::new()),
            ("fs-ok".to_owned(), hidden, "name_taken".to_owned()),
            (long, hidden, "tools_to_execute name_not_valid".to_owned()),
            ("fs-held".to_owned(), hidden, "quarantine".to_owned()),
            ("fs-other".to_owned(), hidden, "tools_to_execute quarantine".to_owned()),
        ]
    );
    let row: &[&str] = &["ok"];
    let key = key(&[("fs", row)]);
    let explanation = snapshot.explain(&filter, Some(&key));
    assert_eq!(explained(&explanation, "fs-held"), ("no", vec!["key_row", "quarantine"]));
}

#[test]
fn a_bad_definition_is_left_out_and_tools_beyond_the_limit_are_a_reason_of_the_client() {
    let catalog = Catalog::new();
    let names: Vec<_> = (0..=MAX_TOOLS_PER_CLIENT).map(|n| format!("t{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    add(&catalog, "many", open(), &names);
    let bad = json!([{"name": "bad", "inputSchema": 7}]);
    catalog.add_client(&client("fs"), SourceKind::Server("stdio"), open());
    let bad = serde_json::from_value(bad).expect("definitions");
    catalog.blocking_publish(&client("fs"), bad, Arc::new(Quarantine(&[])));
    let snapshot = catalog.snapshot();
    let filter = Filter::none();
    let explanation = snapshot.explain(&filter, None);
    assert_eq!(explained(&explanation, "fs-bad"), ("no", vec!["left_out"]));
    let of_clients = explanation.clients().map(|client| {
        let rules: Vec<_> = client.reasons().iter().map(|reason| reason.rule).collect();
        (client.name().as_str().to_owned(), rules, client.tools().count())
    });
    assert_eq!(
        of_clients.collect::<Vec<_>>(),
        [
            ("fs".to_owned(), vec![], 1),
            ("many".to_owned(), vec!["too_many_tools"], MAX_TOOLS_PER_CLIENT)
        ]
    );
}

#[test]
fn of_two_tools_with_one_name_the_one_that_the_view_has_is_visible() {
    let catalog = Catalog::new();
    add(&catalog, "a", Policy { prefix: Prefix::Other(client("b")), ..open() }, &["t"]);
    add(&catalog, "b", open(), &["t"]);
    let snapshot = catalog.snapshot();
    let filter = Filter::none();
    let explanation = snapshot.explain(&filter, None);
    let clients: Vec<_> = explanation.clients().collect();
    let tools = clients.iter().flat_map(ExplainedClient::tools).map(|tool| {
        (tool.visibility(), tool.reasons().into_iter().map(|reason| reason.rule).collect())
    });
    let tools: Vec<(_, Vec<_>)> = tools.collect();
    assert_eq!(tools, [(Visibility::Hidden, vec!["name_taken"]), (Visibility::Models, vec![])]);
}

#[test]
fn a_tool_that_needs_an_approval_is_hidden_if_the_key_or_the_configuration_omits_it() {
    let catalog = Catalog::new();
    add(&catalog, "fs", Policy { auto_execute: list(&["read"]), ..open() }, &["read", "write"]);
    let snapshot = catalog.snapshot();
    let filter = Filter::none();
    let row: &[&str] = &["*"];
    for (of_key, configured, is_omitted) in [
        (None, ApprovalChoice::Return, false),
        (None, ApprovalChoice::Omit, true),
        (Some(ApprovalChoice::Wait), ApprovalChoice::Omit, false),
        (Some(ApprovalChoice::Omit), ApprovalChoice::Return, true),
    ] {
        let key = key(&[("fs", row)]).with_approval(of_key);
        let explanation = snapshot.explain(&filter, Some(&key)).with_approval(configured);
        let write = if is_omitted { ("no", vec!["approval_omit"]) } else { ("models", vec![]) };
        assert_eq!(explained(&explanation, "fs-write"), write, "{of_key:?} {configured:?}");
        assert_eq!(explained(&explanation, "fs-read"), ("models", vec![]));
    }
}

#[tokio::test]
async fn an_approval_is_explained_by_the_list_the_definition_and_the_key() {
    let catalog = Catalog::new();
    let fs = client("fs");
    let policy = Policy { auto_execute: list(&["read", "new"]), ..open() };
    catalog.add_client(&fs, SourceKind::Server("stdio"), policy);
    let unaccepted = ["new".to_owned(), "newer".to_owned()].into();
    let tools = definitions(&["read", "write", "new", "newer"]);
    let writer = EntryWriter::new(catalog.clone(), fs);
    writer.take(SourceKind::Server("stdio"));
    writer.publish(tools, unaccepted, Arc::new(Quarantine(&[]))).await;
    let snapshot = catalog.snapshot();
    let row: &[&str] = &["*"];
    let key = key(&[("fs", row)]).with_approval(Some(ApprovalChoice::Wait));
    let filter = Filter::none();
    let explanation = snapshot.explain(&filter, Some(&key));
    let clients: Vec<_> = explanation.clients().collect();
    let reasons = clients[0].tools().map(|tool| {
        let approval = tool.approval().expect("it is in the catalog");
        let reason = tool.approval_reason().expect("it is in the catalog");
        assert_eq!(approval.is_needed(), tool.name() != "fs-read");
        format!("{}: {reason}", tool.name())
    });
    insta::assert_snapshot!(reasons.collect::<Vec<_>>().join("\n"), @r##"
    fs-new: The operator has not accepted the definition of new yet. Accept it with `airlock upstream accept fs new`. Because `approval` of the virtual key "ann" is `wait`, a model's calls of it wait for a person.
    fs-newer: The client fs does not list newer in `tools_to_auto_execute`. Add it to `tools_to_auto_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`) if it needs no approval. The operator has not accepted the definition of newer yet. Accept it with `airlock upstream accept fs newer`. Because `approval` of the virtual key "ann" is `wait`, a model's calls of it wait for a person.
    fs-read: `tools_to_auto_execute` of the client fs lists read.
    fs-write: The client fs does not list write in `tools_to_auto_execute`. Add it to `tools_to_auto_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`) if it needs no approval. Because `approval` of the virtual key "ann" is `wait`, a model's calls of it wait for a person.
    "##);
}

#[test]
fn the_state_of_a_client_is_explained() {
    let catalog = Catalog::new();
    catalog.add_client(&client("away"), SourceKind::Server("http"), open());
    add(&catalog, "fs", open(), &["read"]);
    add(&catalog, "lost", open(), &["read"]);
    add(&catalog, "old", open(), &["read"]);
    let reason = format!("gone\n\u{202e}{}", "x".repeat(2 * airlock_strings::MAX_REASON_BYTES));
    catalog.set_state(&client("lost"), SourceState::Disconnected { reason });
    catalog.withdraw(&client("old"), "its plugin is not accepted".to_owned());
    let snapshot = catalog.snapshot();
    let filter = Filter::none();
    let explanation = snapshot.explain(&filter, None);
    let states = explanation.clients().map(|client| {
        let reason = client.state_reason().unwrap_or_default().replace(&"x".repeat(400), "…");
        format!("{} {}: {reason}", client.name(), client.state())
    });
    insta::assert_snapshot!(states.collect::<Vec<_>>().join("\n"), @r##"
    away not_listed: The client away has no list of tools: it is connecting. No request sees its tools before it has listed them.
    fs connected: 
    lost disconnected: The client lost is not connected: it is disconnected (gone⟨U+000A⟩⟨U+202E⟩…xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…). The tools of its last list stay, and their calls may fail.
    old not_listed: The client old has no list of tools: it failed (its plugin is not accepted). No request sees its tools before it has listed them.
    "##);
    assert_eq!(explained(&explanation, "lost-read"), ("models", vec![]));
}

#[test]
fn each_message_says_what_to_change_and_where() {
    let catalog = Catalog::new();
    let policy = Policy { execute: list(&["get"]), auto_execute: Allowlist::default(), ..open() };
    let held = &["held", "$(x) a. b"];
    add_held(&catalog, "fs", policy, &["get", "Get", "put", "put"], held);
    add(&catalog, "shut", Policy::default(), &["x"]);
    add(&catalog, "web", open(), &["find", "load"]);
    let snapshot = catalog.snapshot();
    let row: &[&str] = &["put"];
    let any: &[&str] = &["*"];
    let key = key(&[("fs", row), ("web", any)]);
    let filter = Filter::parse(Some("web"), Some("web-find"));
    let explanation = snapshot.explain(&filter, Some(&key)).with_approval(ApprovalChoice::Omit);
    insta::assert_snapshot!(explanation.lines().join("\n"), @r##"
    fs: include_clients: The header `x-bf-mcp-include-clients` of the request does not name the client fs. Add `fs` to the header, or send no such header.
    fs-Get: hidden
      include_clients
      tools_to_execute: The client fs does not list Get in `tools_to_execute`. Add it to `tools_to_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`). The name must be written exactly so, because another tool of the client has the same name but for case.
      key_row: No row of the virtual key "ann" for fs, or of one of its roles, lists Get. Add it to `tools_to_execute` of such a row, in `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`). The name must be written exactly so, because another tool of the client has the same name but for case.
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `fs-Get` or `fs-*` to the header, or send no such header.
      approval_omit: A call of Get needs an approval, and `mcp.tool_manager_config.approval` is `omit`, so models do not see the tool. Add it to `tools_to_auto_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`), or set `mcp.tool_manager_config.approval` to `return` or `wait`.
    fs-get: hidden
      include_clients
      key_row: No row of the virtual key "ann" for fs, or of one of its roles, lists get. Add it to `tools_to_execute` of such a row, in `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`). The name must be written exactly so, because another tool of the client has the same name but for case.
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `fs-get` or `fs-*` to the header, or send no such header.
      approval_omit: A call of get needs an approval, and `mcp.tool_manager_config.approval` is `omit`, so models do not see the tool. Add it to `tools_to_auto_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`), or set `mcp.tool_manager_config.approval` to `return` or `wait`.
    fs-put: hidden
      include_clients
      tools_to_execute: The client fs does not list put in `tools_to_execute`. Add it to `tools_to_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`).
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `fs-put` or `fs-*` to the header, or send no such header.
      approval_omit: A call of put needs an approval, and `mcp.tool_manager_config.approval` is `omit`, so models do not see the tool. Add it to `tools_to_auto_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`), or set `mcp.tool_manager_config.approval` to `return` or `wait`.
    fs-put: hidden
      include_clients
      tools_to_execute: The client fs does not list put in `tools_to_execute`. Add it to `tools_to_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`).
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `fs-put` or `fs-*` to the header, or send no such header.
      name_taken: It is in the last list of the client fs and is left out: a second tool named "put". Correct the list at the source, and read it again.
    fs-held: hidden
      include_clients
      tools_to_execute: The client fs does not list held in `tools_to_execute`. Add it to `tools_to_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`).
      key_row: No row of the virtual key "ann" for fs, or of one of its roles, lists held. Add it to `tools_to_execute` of such a row, in `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`).
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `fs-held` or `fs-*` to the header, or send no such header.
      quarantine: The operator has not accepted the definition of held in the last list of the client fs, so it is held in quarantine. Read it with `airlock upstream diff fs`, and accept it with `airlock upstream accept fs held`.
    fs-__x__a__b_359e5cdc: hidden
      include_clients
      tools_to_execute: The client fs does not list "$(x) a. b" in `tools_to_execute`. Add it to `tools_to_execute` of the client fs (`mcp.client_configs` of the file or `/api/mcp/client/fs`).
      key_row: No row of the virtual key "ann" for fs, or of one of its roles, lists "$(x) a. b". Add it to `tools_to_execute` of such a row, in `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`).
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `fs-__x__a__b_359e5cdc` or `fs-*` to the header, or send no such header.
      quarantine: The operator has not accepted the definition of "$(x) a. b" in the last list of the client fs, so it is held in quarantine. Read it with `airlock upstream diff fs`, and accept it with `airlock upstream accept fs`.
    shut: include_clients: The header `x-bf-mcp-include-clients` of the request does not name the client shut. Add `shut` to the header, or send no such header.
    shut: tools_to_execute: `tools_to_execute` of the client shut is empty, so no tool of it may be called. Add the tools, or `*` for all of them, to `tools_to_execute` of the client shut (`mcp.client_configs` of the file or `/api/mcp/client/shut`).
    shut: key_without_row: There is no row of the virtual key "ann" for the client shut, and the client does not permit all keys. Add a row with `"mcp_client_name": "shut"` to `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`), or set `allow_on_all_virtual_keys` of the client shut (`mcp.client_configs` of the file or `/api/mcp/client/shut`) to true.
    shut-x: hidden
      include_clients
      tools_to_execute
      key_without_row
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `shut-x` or `shut-*` to the header, or send no such header.
      approval_omit: A call of x needs an approval, and `mcp.tool_manager_config.approval` is `omit`, so models do not see the tool. Add it to `tools_to_auto_execute` of the client shut (`mcp.client_configs` of the file or `/api/mcp/client/shut`), or set `mcp.tool_manager_config.approval` to `return` or `wait`.
    web-find: models see it
      `tools_to_auto_execute` of the client web lists find.
    web-load: hidden
      include_tools: The header `x-bf-mcp-include-tools` of the request does not name the tool. Add `web-load` or `web-*` to the header, or send no such header.
    "##);
}
