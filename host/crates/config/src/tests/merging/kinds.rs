//! Kinds of entries beside clients and keys: sets, groups, the switch of all tools, and values of keys.

use super::*;

/// Returns an entry with the digest of a credential that was made for a key.
fn made_value(name: &str, credential: &str) -> Entry {
    let digest = airlock_core::door::credential_digest(credential);
    let document = json!({"id": "7", "value_sha256": airlock_strings::hex(&digest)});
    entry(EntryKind::KeyValue, name, None, Some(document))
}

#[test]
fn a_key_of_the_file_without_a_credential_has_the_one_that_was_made_for_it() {
    let mut file = file();
    let keys = json!([{"name": "ann", "mcp_configs": [{"mcp_client_name": "fs"}]}, {"name": "off", "is_active": false}]);
    file["governance"]["virtual_keys"] = keys;
    // The key may be named before it has a credential.
    file["mcp_server"]["approval_rules"] = json!([{"virtual_key": "ann", "approval": "never"}]);
    let without = merged(&file, &[]).config;
    assert_eq!(without.keys_without_value, ["ann".to_owned()].into());
    assert!(without.keys.is_empty() && without.server.require_virtual_key);
    let value = made_value("ann", SECRET);
    let with_value = merged(&file, std::slice::from_ref(&value)).config;
    assert!(with_value.keys_without_value.is_empty());
    assert!(with_value.keys.find(SECRET, None, UNIX_EPOCH).is_some());
    // It stays when the key is edited in the file, and when an entry changes the key.
    file["governance"]["virtual_keys"][0]["description"] = json!("edited");
    let changed = json!({"name": "ann", "description": "changed", "id": "own"});
    let changed = key("ann", Some(digest(&file, EntryKind::VirtualKey, "ann")), Some(changed));
    for entries in [vec![value.clone()], vec![value.clone(), changed]] {
        let config = merged(&file, &entries).config;
        assert!(config.keys.find(SECRET, None, UNIX_EPOCH).is_some());
    }
    // A credential in the file takes precedence.
    file["governance"]["virtual_keys"][0]["value"] = json!("sk-bf-hunter2-in-the-file");
    assert!(merged(&file, &[value]).config.keys.find(SECRET, None, UNIX_EPOCH).is_none());
    let bad =
        entry(EntryKind::KeyValue, "ann", None, Some(json!({"id": "7", "value_sha256": "x"})));
    assert!(left_out(&merged(&file, &[bad])).contains("64 hexadecimal digits"));
}

#[test]
fn each_kind_of_elements_is_added_replaced_and_removed() {
    let mut file = file();
    file["governance"]["teams"] = json!([{"name": "desk", "id": "t-1"}]);
    file["governance"]["customers"] = json!([{"name": "acme"}]);
    file["governance"]["roles"] = json!([{"name": "reader"}]);
    file["governance"]["environments"] = json!([{"name": "eu", "clients": ["fs"]}]);
    file["mcp"]["virtual_mcps"] = json!([{"name": "docs", "tools": []}]);
    for (kind, name, other) in [
        (EntryKind::Team, "desk", json!({"name": "new", "customer_id": "acme"})),
        (EntryKind::Customer, "acme", json!({"name": "new"})),
        (
            EntryKind::Role,
            "reader",
            json!({"name": "new", "mcp_configs": [{"mcp_client_name": "fs"}]}),
        ),
        (EntryKind::Environment, "eu", json!({"name": "new", "clients": []})),
        (
            EntryKind::VirtualMcp,
            "docs",
            json!({"name": "new", "tools": [], "virtual_keys": ["gone"]}),
        ),
    ] {
        let removed = entry(kind, name, Some(digest(&file, kind, name)), None);
        let merged = merged(&file, &[removed, entry(kind, "new", None, Some(other))]);
        assert_eq!(left_out(&merged), "", "{kind:?}");
        assert_eq!(element(&merged, kind, name).value, None);
        assert!(element(&merged, kind, "new").in_store);
    }
    let clash = json!({"name": "fs", "tools": []});
    let merged = merged(&file, &[entry(EntryKind::VirtualMcp, "fs", None, Some(clash))]);
    assert_snapshot!(left_out(&merged), @"VirtualMcp fs: name: the client fs is at `/mcp/fs`; set another `endpoint_slug`");
}

#[test]
fn a_key_is_refused_while_its_role_or_environment_is_taken_away() {
    let mut file = file();
    file["governance"]["roles"] = json!([{"name": "reader"}]);
    file["governance"]["environments"] = json!([{"name": "eu", "clients": ["fs"]}]);
    file["mcp_server"]["approval_rules"] = json!([{"virtual_key": "ann", "approval": "never"}]);
    for (kind, name, member, value) in [
        (EntryKind::Role, "reader", "roles", json!(["reader"])),
        (EntryKind::Environment, "eu", "environment", json!("eu")),
    ] {
        let mut file = file.clone();
        file["governance"]["virtual_keys"][0][member] = value;
        assert!(merged(&file, &[]).config.keys.named("ann").is_some());
        let digest = Some(digest(&file, kind, name));
        let invalid = json!({"name": name, "clients": ["gone"], "mcp_configs": 7});
        for document in [None, Some(invalid)] {
            let merged = merged(&file, &[entry(kind, name, digest, document)]);
            assert!(merged.config.keys.named("ann").is_none(), "{kind:?}");
            assert_eq!(merged.config.keys_withheld, ["ann".to_owned()].into(), "{kind:?}");
            assert!(merged.config.server.require_virtual_key);
        }
    }
}

fn switch(replaces: Option<[u8; 32]>, value: Value) -> Entry {
    entry(EntryKind::Setting, "mcp.disabled", replaces, Some(value))
}

#[test]
fn the_switch_of_the_store_has_effect_until_the_switch_of_the_file_is_edited() {
    assert!(merged(&file(), &[switch(None, json!(true))]).config.tools_off);
    let off = with(file(), "mcp", json!({"disabled": true, "client_configs": [stdio("fs")]}));
    let replaces = Some(digest(&off, EntryKind::Setting, "mcp.disabled"));
    let on = switch(replaces, json!(false));
    assert!(!merged(&off, std::slice::from_ref(&on)).config.tools_off);
    let edited = with(file(), "mcp", json!({"disabled": false, "client_configs": [stdio("fs")]}));
    assert_eq!(left_out(&merged(&edited, &[on])), "Setting mcp.disabled: the file was changed\n");
    // An entry that cannot be read closes.
    let broken = merged(&file(), &[switch(None, json!("no"))]);
    assert!(broken.config.tools_off && left_out(&broken).contains("true or false"));
    let other = entry(EntryKind::Setting, "server.listen", None, Some(json!("0.0.0.0:1")));
    let other = merged(&file(), &[other]);
    assert!(!other.config.tools_off && left_out(&other).contains("mcp.disabled"));
}

/// Returns a file in which the tool manager has this depth.
fn with_depth(depth: u64) -> Value {
    let tool_manager = json!({"max_agent_depth": depth});
    with(
        file(),
        "mcp",
        json!({"client_configs": [stdio("fs")], "tool_manager_config": tool_manager}),
    )
}

fn depth(replaces: Option<[u8; 32]>, value: Value) -> Entry {
    entry(EntryKind::Setting, "mcp.tool_manager_config.max_agent_depth", replaces, Some(value))
}

#[test]
fn a_setting_of_the_store_has_effect_until_that_of_the_file_is_edited() {
    let alone = merged(&file(), &[depth(None, json!(3))]);
    assert_eq!((alone.config.agent.max_depth, left_out(&alone).as_str()), (3, ""));
    let key = "mcp.tool_manager_config.max_agent_depth";
    let replaces = Some(digest(&with_depth(5), EntryKind::Setting, key));
    assert_eq!(merged(&with_depth(5), &[depth(replaces, json!(3))]).config.agent.max_depth, 3);
    let edited = merged(&with_depth(6), &[depth(replaces, json!(3))]);
    assert_eq!(edited.config.agent.max_depth, 6);
    assert_eq!(left_out(&edited), format!("Setting {key}: the file was changed\n"));
    for value in [json!(1_000), json!("3"), Value::Null] {
        let broken = merged(&with_depth(5), &[depth(replaces, value)]);
        assert_eq!(broken.config.agent.max_depth, 5);
        assert!(left_out(&broken).contains("max_agent_depth"), "{}", left_out(&broken));
    }
}

#[test]
fn settings_of_the_store_are_taken_by_running_gateways_and_are_keys_of_the_file() {
    for key in crate::SETTINGS {
        assert_eq!(crate::effect(key), Some(crate::Effect::Live), "{key}");
        let problems = crate::check_setting(key, &json!([])).expect_err("it is one value");
        assert!(problems[0].to_string().starts_with(key), "{problems:?}");
    }
}

#[test]
fn an_entry_for_single_users_is_left_out_where_the_file_lacks_what_it_needs() {
    let file = with(file(), "server", json!({"listen": "0.0.0.0:1"}));
    let ann = digest(&file, EntryKind::VirtualKey, "ann");
    let server = json!({"connection_type": "http", "connection_string": "https://example.com/mcp"});
    let login =
        with(with(server.clone(), "name", json!("web")), "auth_type", json!("per_user_oauth"));
    let exchange = json!({"token_url": "https://as.example.com/token", "client_id": "gateway", "audience": "up"});
    let swap = with(with(server, "name", json!("swap")), "auth_type", json!("token_exchange"));
    let swap = with(swap, "token_exchange", exchange);
    let off = with(with(login.clone(), "name", json!("off")), "disabled", json!(true));
    let entries = [
        client("off", None, Some(off)),
        client("swap", None, Some(swap)),
        client("web", None, Some(login)),
        key("ann", Some(ann), None),
    ];
    let merged = merged(&file, &entries);
    assert_snapshot!(left_out(&merged), @r#"
    Client swap: auth_type: "token_exchange" requires `mcp_server.oauth` in the configuration file: it exchanges the access tokens of callers
    Client web: auth_type: "per_user_oauth" requires `server.external_url` in the configuration file: users log in there with a browser
    "#);
    assert_eq!(names(&merged.config), ["fs"]);
    assert!(merged.config.keys.named("ann").is_none(), "the key is revoked");
}

#[test]
fn a_client_of_the_file_is_left_out_if_an_entry_disables_its_fallback() {
    let tools = json!(["read"]);
    let other = with(
        with(stdio("other"), "tools_to_execute", tools.clone()),
        "tools_to_auto_execute",
        tools.clone(),
    );
    let fallback = json!({"read": "other-read"});
    let fs = with(with(stdio("fs"), "tools_to_execute", tools), "tool_fallbacks", fallback);
    let mut file = file();
    file["mcp"]["client_configs"] = json!([fs, other]);
    let bob = json!({"name": "bob", "value": format!("{SECRET}-bob"), "mcp_configs": [{"mcp_client_name": "fs"}]});
    file["governance"]["virtual_keys"].as_array_mut().expect("a list").push(bob);
    let ann = digest(&file, EntryKind::VirtualKey, "ann");
    let replaces = Some(digest(&file, EntryKind::Client, "other"));
    let disabled = with(other, "disabled", json!(true));
    let entries = [client("other", replaces, Some(disabled)), key("ann", Some(ann), None)];
    let merged = merged(&file, &entries);
    assert_snapshot!(left_out(&merged), @r#"
    Client fs: tool_fallbacks.read: client "other" is disabled, so its tools take no calls; enable it, or name a tool of another client
    "#);
    assert!(merged.config.clients.is_empty());
    assert_eq!(element(&merged, EntryKind::Client, "fs").value, None);
    assert!(merged.config.keys.named("ann").is_none(), "the key is revoked");
    assert!(merged.config.keys.named("bob").is_some(), "its row is kept");
}

#[test]
fn a_key_is_refused_while_its_team_or_customer_is_taken_away_because_their_limits_are_too() {
    let mut file = file();
    file["governance"]["customers"] =
        json!([{"name": "acme", "rate_limit": {"max_concurrent": 1}}]);
    file["governance"]["teams"] = json!([{"name": "desk", "customer_id": "acme"}]);
    file["governance"]["virtual_keys"][0]["team_id"] = json!("desk");
    assert!(merged(&file, &[]).config.keys.named("ann").is_some());
    for (kind, name) in [(EntryKind::Team, "desk"), (EntryKind::Customer, "acme")] {
        let digest = Some(digest(&file, kind, name));
        let invalid = json!({"name": name, "rate_limit": {"max_concurrent": 0}});
        let merged = merged(&file, &[entry(kind, name, digest, Some(invalid))]);
        assert!(merged.config.keys.named("ann").is_none(), "{kind:?}");
        assert_eq!(merged.config.keys_withheld, ["ann".to_owned()].into(), "{kind:?}");
    }
}

#[test]
fn limits_and_prices_of_models_are_named_by_their_identifiers() {
    let mut file = file();
    let requests = json!({"request_max_limit": 1, "request_reset_duration": "1m"});
    file["governance"]["model_configs"] =
        json!([{"id": "m-1", "model_name": "*", "rate_limit": requests}]);
    let replaces = Some(digest(&file, EntryKind::ModelConfig, "m-1"));
    let of_ann = json!({"id": "m-2", "model_name": "*", "scope": "virtual_key", "scope_id": "ann", "rate_limit": requests});
    let patch = json!({"input_cost_per_token": 1, "output_cost_per_token": 1});
    let price = json!({"id": "p-1", "pattern": "a", "patch": patch});
    let entries = [
        entry(EntryKind::ModelConfig, "m-1", replaces, None),
        entry(EntryKind::ModelConfig, "m-2", None, Some(of_ann.clone())),
        entry(EntryKind::PricingOverride, "p-1", None, Some(price)),
    ];
    let changed = merged(&file, &entries);
    assert_eq!(left_out(&changed), "");
    assert_eq!(changed.config.limits.len(), 1);
    assert!(changed.config.prices.model(None, "a").is_some());
    // Removing a key ends its limits, and is never refused because of them.
    let removed = key("ann", Some(digest(&file, EntryKind::VirtualKey, "ann")), None);
    let without =
        merged(&file, &[removed, entry(EntryKind::ModelConfig, "m-2", None, Some(of_ann))]);
    assert_eq!(left_out(&without), "");
    assert_eq!(without.config.limits.len(), 1);
    let renamed = json!({"id": "m-3", "model_name": "*"});
    let renamed = merged(&file, &[entry(EntryKind::ModelConfig, "m-2", None, Some(renamed))]);
    assert!(left_out(&renamed).contains("id: must be \"m-2\""));
}
