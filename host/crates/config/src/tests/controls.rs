//! Controls over the tools of a request: exclusions, roles, environments, groups of tools and owners.

use std::{collections::BTreeMap, path::Path, time::UNIX_EPOCH};

use airlock_core::{
    door::{Grants, VirtualKey},
    tool::{Allowlist, ClientName},
};

use super::*;
use crate::merge::merge;
use airlock_store::entries::{Entries, Entry, EntryKind};

fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a name")
}

/// A file with the clients `fs`, `web` and `mail`, and one virtual key, `ann`, with these members.
fn file(key: Value) -> Value {
    let mut ann = key;
    ann["name"] = json!("ann");
    ann["value"] = json!(SECRET);
    json!({
        "mcp": {"client_configs": [stdio("fs"), stdio("web"), stdio("mail")]},
        "governance": {
            "virtual_keys": [ann],
            "roles": [
                {"name": "reader", "description": "reads", "mcp_configs": [
                    {"mcp_client_name": "fs", "tools_to_execute": ["read"], "resources_to_read": ["x:1"]},
                ]},
                {"name": "writer", "mcp_configs": [
                    {"mcp_client_name": "fs", "tools_to_execute": ["write"], "tools_to_exclude": ["drop"]},
                    {"mcp_client_name": "web", "tools_to_execute": ["*"]},
                ]},
            ],
            "environments": [
                {"name": "eu", "clients": ["fs", "mail"], "tools_to_exclude": ["fs-Write", "mail-*"]},
                {"name": "none", "clients": []},
            ],
        },
    })
}

fn grants(file: &Value) -> Grants {
    let found = good(file).keys.find(SECRET, None, UNIX_EPOCH).expect("the key");
    Grants::clone(&found.grants)
}

fn list(names: &[&str]) -> Allowlist {
    Allowlist::parse(names).expect("a good list")
}

#[test]
fn a_key_has_its_own_rows_and_those_of_its_roles_within_its_environment() {
    let own = json!([{"mcp_client_name": "fs", "tools_to_execute": ["list"]}]);
    let key = json!({"mcp_configs": own, "roles": ["reader", "writer"], "environment": "eu"});
    let found = grants(&file(key));
    let rows = [(client("fs"), list(&["list", "read", "write"])), (client("web"), list(&["*"]))];
    assert_eq!(found.rows, BTreeMap::from(rows));
    assert!(found.excluded[&client("fs")].covers_name("drop"));
    assert!(found.relayed[&client("fs")].resources.allows("x:1"));
    let environment = found.environment.expect("it is bound");
    assert_eq!(environment.clients.keys().collect::<Vec<_>>(), [&client("fs"), &client("mail")]);
    assert!(environment.clients[&client("fs")].covers_name("write"));
    assert!(environment.clients[&client("mail")].covers_all());
    let plain = grants(&file(json!({})));
    assert_eq!(plain, Grants::default());
}

#[test]
fn unknown_and_repeated_names_are_refused_with_those_that_exist() {
    let mut bad = file(json!({"roles": ["reeder"], "environment": "us"}));
    let governance = &mut bad["governance"];
    governance["roles"][1]["name"] = json!("reader");
    governance["roles"][1]["mcp_configs"][0]["mcp_client_name"] = json!("gone");
    governance["roles"][1]["mcp_configs"][1]["tools_to_exclude"] = json!(["*", "a"]);
    governance["environments"][1] =
        json!({"name": "eu", "clients": ["gone"], "tools_to_exclude": ["fs-x", "plain", "gone-"]});
    assert_snapshot!(error(&bad), @r##"
    governance.roles[1].mcp_configs[0].mcp_client_name: no client is named "gone"
    governance.roles[1].mcp_configs[1].tools_to_exclude: "*" stands for every tool and must be the only entry
    governance.roles[1].name: another role is named "reader" already
    governance.environments[1].name: another environment is named "eu" already
    governance.environments[1].clients[0]: no client is named "gone"
    governance.environments[1].tools_to_exclude[0]: expected `client-tool` or `client-*`, with a client of `clients`; found "fs-x"
    governance.environments[1].tools_to_exclude[1]: expected `client-tool` or `client-*`, with a client of `clients`; found "plain"
    governance.environments[1].tools_to_exclude[2]: expected `client-tool` or `client-*`, with a client of `clients`; found "gone-"
    governance.virtual_keys[0].roles[0]: no role is named "reeder"; `governance.roles` has "reader"
    governance.virtual_keys[0].environment: no environment is named "us"; `governance.environments` has "eu"
    "##);
    let named = json!([{"name": "a b"}, {"name": ""}, {"name": "x".repeat(49)}]);
    assert_snapshot!(error(&json!({"governance": {"roles": named}})), @r##"
    governance.roles[0].name: expected 1 to 48 letters, digits, `.`, `_` or `-`; found "a b"
    governance.roles[1].name: expected 1 to 48 letters, digits, `.`, `_` or `-`; found ""
    governance.roles[2].name: expected 1 to 48 letters, digits, `.`, `_` or `-`; found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "##);
    let reserved = json!([{"name": "roles:reader", "value": SECRET}]);
    assert_snapshot!(error(&json!({"governance": {"virtual_keys": reserved}})), @r#"governance.virtual_keys[0].name: must not begin with "roles:", as the names of senders with an access token do; found "roles:reader""#);
    let long = json!([{"name": "k".repeat(257), "value": SECRET}]);
    assert_snapshot!(error(&json!({"governance": {"virtual_keys": long}})), @"governance.virtual_keys[0].name: has 257 bytes; expected at most 256");
    let long = "n".repeat(257);
    let named = json!({
        "environments": [{"name": long, "clients": []}],
        "teams": [{"name": long, "id": "t"}],
        "customers": [{"name": "acme", "id": long}],
    });
    assert_snapshot!(error(&json!({"governance": named})), @r"
    governance.environments[0].name: has 257 bytes; expected at most 256
    governance.customers[0].id: has 257 bytes; expected at most 256
    governance.teams[0].name: has 257 bytes; expected at most 256
    ");
    let many: Vec<_> = (0..17).map(|_| "reader").collect();
    assert_snapshot!(error(&file(json!({"roles": many}))), @r#"governance.virtual_keys[0].roles: has 17 roles, expected at most 16"#);
    assert!(parse(&file(json!({"roles": vec!["reader"; 16]}))).is_ok());
}

/// Returns an identity provider with these views.
fn oauth(views: &Value) -> Value {
    let resource = "https://gw.example.com/mcp";
    json!({"issuer": "https://idp.example.com", "resource": resource, "views": views})
}

#[test]
fn a_view_of_tokens_names_either_a_key_or_roles() {
    let mut tokens = file(json!({}));
    tokens["mcp_server"]["oauth"] = oauth(&json!([
        {"claim": "groups", "value": "a", "roles": ["reader", "writer"]},
        {"claim": "groups", "value": "b", "virtual_key": "ann"},
    ]));
    let config = good(&tokens);
    let views = config.oauth.expect("tokens are accepted").views;
    let names: Vec<_> = views.iter().map(|view| view.view.as_str()).collect();
    assert_eq!(names, ["roles:reader,writer", "ann"]);
    let of_roles = config.keys.view(names[0]).expect("the roles exist");
    assert_eq!(of_roles.grants.rows[&client("fs")], list(&["read", "write"]));
    assert_eq!(config.keys.view("ann").as_deref().map(VirtualKey::tenant), {
        let ann = config.keys.named("ann").expect("the key");
        Some(ann.tenant())
    });
    tokens["mcp_server"]["oauth"] = oauth(&json!([
        {"claim": "g", "value": "a"},
        {"claim": "g", "value": "b", "virtual_key": "ann", "roles": ["reader"]},
        {"claim": "g", "value": "c", "roles": []},
        {"claim": "g", "value": "d", "roles": ["gone"]},
    ]));
    assert_snapshot!(error(&tokens), @r##"
    mcp_server.oauth.views[0].virtual_key: is required, unless `roles` is set; exactly one of both is needed
    mcp_server.oauth.views[1].roles: is beside `virtual_key`; exactly one of both is needed
    mcp_server.oauth.views[2].roles: names no role, so the sender would see nothing; name one
    mcp_server.oauth.views[3].roles[0]: no role is named "gone"; `governance.roles` has "reader", "writer"
    "##);
}

#[test]
fn a_client_takes_tools_away_and_belongs_to_keys() {
    let mut owned = file(json!({}));
    let mail = &mut owned["mcp"]["client_configs"][2];
    mail["virtual_keys"] = json!(["ann", "off"]);
    mail["tools_to_exclude"] = json!(["drop"]);
    let off = json!({"name": "off", "value": "env.UNSET", "is_active": false});
    owned["governance"]["virtual_keys"].as_array_mut().expect("a list").push(off);
    let config = good(&owned);
    let policy = &config.clients[2].policy;
    assert!(policy.is_owned && policy.exclude.covers_name("DROP"));
    assert!(!config.clients[0].policy.is_owned && config.clients[0].policy.exclude.is_empty());
    assert_eq!(grants(&owned).owned, [client("mail")].into());
    owned["mcp"]["client_configs"][0]["virtual_keys"] = json!([]);
    owned["mcp"]["client_configs"][2]["virtual_keys"] = json!(["ann", "bob"]);
    assert_snapshot!(error(&owned), @r##"
    mcp.client_configs[0].virtual_keys: names no key, so nobody could use it; leave it out, or name one
    mcp.client_configs[2].virtual_keys[1]: no key is named "bob"; `governance.virtual_keys` has "ann", "off"
    "##);
}

#[test]
fn a_client_belongs_to_the_keys_of_its_teams() {
    let mut owned = file(json!({"team_id": "t-1"}));
    owned["governance"]["teams"] =
        json!([{"id": "t-1", "name": "desk", "customer_id": "acme"}, {"name": "lab"}]);
    owned["governance"]["customers"] = json!([{"name": "acme"}]);
    owned["mcp"]["client_configs"][0]["teams"] = json!(["lab"]);
    owned["mcp"]["client_configs"][1]["teams"] = json!(["lab", "desk"]);
    owned["mcp"]["client_configs"][2]["virtual_keys"] = json!(["ann"]);
    let config = good(&owned);
    assert!(config.clients.iter().all(|client| client.policy.is_owned));
    assert_eq!(grants(&owned).owned, [client("mail"), client("web")].into());
    assert_eq!(config.absent_owners, []);
    owned["governance"]["virtual_keys"][0]["customer_id"] = json!("nix");
    owned["governance"]["virtual_keys"][0]["team_id"] = json!("t-2");
    owned["governance"]["teams"] = json!([
        {"id": "lab", "name": "desk", "customer_id": "gone"}, {"name": "lab"}, {"id": "", "name": " "},
    ]);
    owned["mcp"]["client_configs"][0]["teams"] = json!([]);
    assert_snapshot!(error(&owned), @r##"
    governance.teams[0].customer_id: no customer is named "gone"; `governance.customers` has "acme"
    governance.teams[1].name: another team is named "lab" already
    governance.teams[2].name: is empty
    governance.teams[2].id: is empty; leave it out
    mcp.client_configs[0].teams: names no team; leave it out, or name one
    governance.virtual_keys[0].team_id: no team is named "t-2"; `governance.teams` has " ", "desk", "lab"
    governance.virtual_keys[0].customer_id: no customer is named "nix"; `governance.customers` has "acme"
    governance.virtual_keys[0].customer_id: is beside `team_id`; a key belongs to a team or to a customer
    "##);
}

#[test]
fn groups_have_slugs_of_their_own() {
    let mut groups = file(json!({}));
    let tools = json!([{"mcp_client_name": "fs", "tool_names": ["*"]}]);
    groups["mcp"]["virtual_mcps"] = json!([
        {"name": "On Call (EU)", "description": "d", "tools": tools, "virtual_keys": ["ann"]},
        {"name": "Docs", "endpoint_slug": "manuals", "tools": tools},
        {"name": "Off", "enabled": false, "tools": tools},
    ]);
    groups["mcp"]["disabled"] = json!(true);
    let config = good(&groups);
    let slugs: Vec<_> = config.groups.iter().map(|group| group.slug.as_str()).collect();
    assert_eq!((slugs, config.tools_off), (vec!["on-call-eu", "manuals"], true));
    assert!(config.groups[0].exists_for(config.keys.named("ann").map(|key| &**key)));
    assert!(!config.groups[0].exists_for(None) && config.groups[1].exists_for(None));
    groups["mcp"]["virtual_mcps"] = json!([
        {"name": "Web", "tools": []},
        {"name": "web", "tools": []},
        {"name": "…", "tools": []},
        {"name": "x", "endpoint_slug": "X/y", "tools": []},
        {"name": "internal", "tools": []},
        {"name": "a", "tools": [{"mcp_client_name": "gone", "tool_names": ["*"]}]},
        {"name": "b", "tools": [
            {"mcp_client_name": "fs", "tool_names": ["*", "a"]},
            {"mcp_client_name": "fs", "tool_names": []},
        ]},
        {"name": "c", "tools": [], "virtual_keys": ["bob"]},
    ]);
    assert_snapshot!(error(&groups), @r##"
    mcp.virtual_mcps[1].name: the virtual MCP "Web" is served at `/mcp/web` already; set another `endpoint_slug`
    mcp.virtual_mcps[2].name: has no letter or digit that a slug can be derived from, or derives a reserved one; set `endpoint_slug` beside "…"
    mcp.virtual_mcps[3].endpoint_slug: "X/y" is not a valid slug: use 1 to 64 lower-case letters, digits or `-`, with a letter or digit at both ends
    mcp.virtual_mcps[4].name: has no letter or digit that a slug can be derived from, or derives a reserved one; set `endpoint_slug` beside "internal"
    mcp.virtual_mcps[5].tools[0].mcp_client_name: no client is named "gone"
    mcp.virtual_mcps[6].tools[0].tool_names: "*" stands for every tool and must be the only entry
    mcp.virtual_mcps[6].tools[1].mcp_client_name: there is another element for "fs"
    mcp.virtual_mcps[7].virtual_keys[0]: no key is named "bob"; `governance.virtual_keys` has "ann"
    mcp.client_configs[1].name: is the path of the virtual MCP "Web", `/mcp/web`; choose another name, or set another `endpoint_slug` there
    "##);
}

#[test]
fn an_entry_that_names_what_the_file_does_not_have_is_left_out() {
    let mut groups = file(json!({"roles": ["reader"]}));
    groups["mcp"]["virtual_mcps"] = json!([{"name": "Docs", "tools": []}]);
    let entries = [
        (EntryKind::Client, "docs", stdio("docs")),
        (EntryKind::Client, "notes", with(stdio("notes"), "virtual_keys", json!(["bob"]))),
        (
            EntryKind::VirtualKey,
            "bob",
            json!({"name": "bob", "value": "env.GOOD", "roles": ["gone"]}),
        ),
        (
            EntryKind::VirtualKey,
            "cid",
            json!({"name": "cid", "value": "env.GOOD2", "roles": ["reader"]}),
        ),
    ];
    let entries = entries.map(|(kind, name, document)| Entry {
        kind,
        name: name.to_owned(),
        replaces: None,
        document: Some(document.to_string()),
        changed_ms: 0,
    });
    let entries = Entries { entries: entries.into(), ..Entries::default() };
    let place = crate::place::Place::of_file(Path::new("/etc/airlock/gateway.json"));
    let merged = merge(&groups, place, &env, &entries).expect("the file is good");
    let left_out: Vec<_> = merged.left_out.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(left_out, ["docs", "bob"]);
    // A client of the store may name a key that does not exist, and then it is nobody's. The operator is
    // warned.
    let owners = &merged.config.absent_owners;
    assert_snapshot!(owners[0], @r#"`virtual_keys` of the client notes names the virtual key "bob", which does not exist"#);
    let notes = merged.config.clients.iter().find(|own| own.name == client("notes"));
    assert!(notes.is_some_and(|notes| notes.policy.is_owned));
    let cid = merged.config.keys.named("cid").expect("it is good");
    assert_eq!(cid.grants.rows[&client("fs")], list(&["read"]));
}
