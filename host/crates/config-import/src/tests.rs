mod agents;
mod clouds;

use serde_json::json;

use airlock_config::Config;

use super::*;

fn imported(source: &Value) -> Imported {
    import(&source.to_string(), Path::new("/nowhere")).expect("a configuration")
}

/// Returns one line for each outcome.
fn lines(imported: &Imported) -> String {
    let lines = imported
        .lines
        .iter()
        .map(|line| format!("{} {}: {}", line.outcome.name(), line.key, line.message));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_is_translated_up_to_a_number_of_values() {
    // Each server is three values, and has a name that is replaced by the nearest free one.
    let servers = (0..3_000).map(|n| (format!("é{}", "é".repeat(n % 40)), n));
    let servers =
        servers.map(|(name, n)| (format!("{name}{n}"), json!({"command": "x", "args": []})));
    let servers: serde_json::Map<_, _> = servers.collect();
    let count = 2 + servers.len() * 3;
    let file = |left: usize| {
        json!({"mcpServers": servers, "rest": vec![0; MAX_VALUES - count - 1 - left]}).to_string()
    };
    let directory = Path::new("/nowhere");
    assert_eq!(values(&serde_json::from_str(&file(0)).expect("JSON")), MAX_VALUES);
    let imported = import(&file(0), directory).expect("a configuration");
    let clients = imported.file["mcp"]["client_configs"].as_array().expect("clients");
    let names: std::collections::BTreeSet<_> =
        clients.iter().filter_map(|client| client["name"].as_str()).collect();
    assert_eq!((clients.len(), names.len()), (3_000, 3_000));
    let mut larger: Value = serde_json::from_str(&file(0)).expect("JSON");
    larger["one_more"] = json!(1);
    let refused = import(&larger.to_string(), directory).expect_err("one value too much");
    assert!(refused.message.contains("10001 values"), "{}", refused.message);
}

#[test]
fn any_origin_is_refused_and_named_ones_are_taken() {
    for (origins, kept, outcome) in [
        (json!(["*"]), json!(null), "refused client.allowed_origins: with `*`, any web page"),
        (
            json!(["https://a.example"]),
            json!(["https://a.example"]),
            "changed client.allowed_origins",
        ),
        (
            json!(["*", "https://a.example"]),
            json!(["https://a.example"]),
            "refused client.allowed_origins",
        ),
        (json!([]), json!([]), "changed client.allowed_origins"),
    ] {
        let imported = imported(&json!({"client": {"allowed_origins": origins}}));
        assert_eq!(imported.file["server"]["allowed_origins"], kept);
        assert!(lines(&imported).contains(outcome), "{}", lines(&imported));
    }
}

#[test]
fn a_file_of_bifrost_is_taken_moved_or_refused_line_by_line() {
    let imported = imported(&json!({
        "$schema": "https://www.getbifrost.ai/schema",
        "version": 2,
        "encryption_key": "env.BIFROST_KEY",
        "config_store": {"enabled": true, "type": "sqlite"},
        "client": {
            "mcp_agent_depth": 4, "mcp_tool_execution_timeout": 20, "drop_excess_requests": false,
            "enforce_auth_on_inference": true, "allow_direct_keys": true, "max_request_body_size_mb": 20,
        },
        "providers": {"openai": {"keys": [{"name": "k", "value": "sk-1", "models": ["*"], "weight": 1}], "custom_provider_config": {"x": 1}}},
        "mcp": {
            "tool_sync_interval": "10m",
            "client_configs": [
                {"name": "web/search", "connection_type": "http", "connection_string": "https://mcp.example.com/mcp",
                 "state": "connected", "auth_type": "", "tools_to_execute": ["*"], "tool_sync_interval": 60_000_000_000_i64},
                {"name": "own", "connection_type": "inprocess"},
                {"name": "files", "connection_type": "stdio", "stdio_config": {"command": "npx", "args": ["-y", "server"]},
                 "tool_mode": "code", "allow_by_default": true, "is_ping_available": "yes"},
                {"name": "socket", "connection_type": "websocket", "connection_string": "wss://x"},
            ],
        },
        "governance": {
            "virtual_keys": [
                {"id": "vk1", "name": "team", "value": "sk-bf-0123456789abcdef", "team_id": "t",
                 "mcp_configs": [{"id": 3, "mcp_client_name": "web/search", "tools_to_execute": ["*"]}]},
            ],
            "teams": [{"id": "t", "name": "platform", "budget_id": "b"}],
        },
    }));
    insta::assert_snapshot!(lines(&imported), @r#"
    no meaning $schema: `airlock schema` prints the schema of the gateway
    no meaning version: the gateway's file has no versions; an empty list permits nothing
    no meaning config_store: the gateway reads its configuration from the file alone
    changed client.mcp_agent_depth: is `mcp.tool_manager_config.max_agent_depth`
    changed client.mcp_tool_execution_timeout: is `mcp.tool_manager_config.tool_execution_timeout`
    no meaning client.drop_excess_requests: the gateway has no such setting
    changed client.enforce_auth_on_inference: is `server.require_virtual_key`
    refused client.allow_direct_keys: the gateway has no such setting, and callers may get other rights without it
    changed client.max_request_body_size_mb: is `server.max_body`
    no meaning mcp.client_configs[0].state: "web/search": it is the state of the other gateway
    changed mcp.client_configs[0].name: the client is named "web_search": names have no other characters than letters, digits and `_`
    refused mcp.client_configs[1]: "own": its tools are part of a program that embeds the gateway; see `Gateway::builder`, or write a plugin
    changed mcp.tool_sync_interval: 10m is `tool_sync_interval` of each client
    refused encryption_key: this build does not act on it: use `store_key`, which names a variable of the environment or a file that has the key
    refused providers.openai.custom_provider_config: this build does not act on it: use `kind` and `base_url`
    refused mcp.client_configs[1].is_ping_available: "files": expected true or false, found a string
    refused mcp.client_configs[2].connection_type: "socket": "websocket" is not built yet: use "stdio", "docker", "http", "sse" or "wasm"
    refused governance.teams[0].budget_id: "platform": this build does not act on it: write the budget itself into `budgets`
    taken providers.openai: 
    taken mcp.client_configs[0]: web_search
    taken mcp.client_configs[1]: files
    taken mcp.tool_manager_config.max_agent_depth: 
    taken mcp.tool_manager_config.tool_execution_timeout: 
    taken governance.virtual_keys[0]: team
    taken governance.teams[0]: platform
    taken server.require_virtual_key: 
    taken server.max_body: 
    "#);
    let expected = json!({
        "providers": {"openai": {"keys": [{"name": "k", "value": "sk-1", "models": ["*"], "weight": 1}]}},
        "mcp": {
            "client_configs": [
                {"name": "web_search", "connection_type": "http", "connection_string": "https://mcp.example.com/mcp",
                 "tools_to_execute": ["*"], "tool_sync_interval": "60000ms"},
                {"name": "files", "connection_type": "stdio", "stdio_config": {"command": "npx", "args": ["-y", "server"]},
                 "is_code_mode_client": true, "allow_on_all_virtual_keys": true, "tool_sync_interval": "10m"},
            ],
            "tool_manager_config": {"max_agent_depth": 4, "tool_execution_timeout": "20s"},
        },
        "governance": {
            "virtual_keys": [
                {"id": "vk1", "name": "team", "value": "sk-bf-0123456789abcdef", "team_id": "t",
                 "mcp_configs": [{"mcp_client_name": "web_search", "tools_to_execute": ["*"]}]},
            ],
            "teams": [{"id": "t", "name": "platform"}],
        },
        "server": {"require_virtual_key": true, "max_body": "20MiB"},
    });
    assert_eq!(imported.file, expected, "{:#}", imported.file);
    let text = imported.file.to_string();
    Config::parse(&text, "airlock.json", &|_| None).expect("a good configuration");
}

#[test]
fn limits_that_stand_apart_are_moved_to_their_owners() {
    let imported = imported(&json!({
        "governance": {
            "budgets": [
                {"id": "b", "max_limit": 5, "reset_duration": "1M", "current_usage": 2},
                {"id": "c", "max_limit": 9, "reset_duration": "1d", "virtual_key_id": "vk1", "team_id": null},
                {"id": "unused", "max_limit": 1, "reset_duration": "1d"},
            ],
            "rate_limits": [{"id": "r", "token_max_limit": 9, "token_reset_duration": "1h", "token_current_usage": 1, "request_max_limit": null}],
            "virtual_keys": [{"id": "vk1", "name": "ann", "value": "sk-bf-0123456789abcdef", "budget_id": "b", "rate_limit_id": "r"}],
            "customers": [{"id": "c", "name": "acme", "budget_id": "gone"}],
        },
    }));
    insta::assert_snapshot!(lines(&imported), @r#"
    changed governance.budgets[0]: is `budgets` of its owner
    changed governance.budgets[1]: is `budgets` of its owner
    refused governance.budgets[2]: belongs to no virtual key, team or customer of the file
    changed governance.rate_limits[0]: is `rate_limit` of its owner
    refused governance.customers[0].budget_id: "acme": this build does not act on it: write the budget itself into `budgets`
    taken governance.virtual_keys[0]: ann
    taken governance.customers[0]: acme
    "#);
    let key = &imported.file["governance"]["virtual_keys"][0];
    let budgets = json!([
        {"max_limit": 5, "reset_duration": "1M"},
        {"max_limit": 9, "reset_duration": "1d"},
    ]);
    assert_eq!(key["budgets"], budgets);
    assert_eq!(key["rate_limit"], json!({"token_max_limit": 9, "token_reset_duration": "1h"}));
    assert_eq!(imported.file["governance"].get("budgets"), None);
}

#[test]
fn an_interval_of_bifrost_is_nanoseconds_or_minutes_and_zero_is_the_default() {
    let clients = json!([
        client("a", &json!(10)),
        client("b", &json!(600_000_000_000_i64)),
        client("c", &json!(0)),
        client("d", &json!("0s")),
        client("e", &json!(-1)),
        client("f", &json!("5m")),
    ]);
    let (of_each, lines) = intervals(&json!(15), &clients);
    assert_eq!(of_each, json!(["10m", "600000ms", "15m", "15m", "0ms", "5m"]));
    let read = "is read as minutes: as nanoseconds it would be less than a millisecond";
    for line in [
        format!("changed mcp.client_configs[0].tool_sync_interval: \"a\": 10 {read}"),
        format!(
            "changed mcp.tool_sync_interval: 15 {read}, and 15m is `tool_sync_interval` of each client"
        ),
    ] {
        assert!(lines.contains(&line), "{line}\n{lines}");
    }
    let (of_each, lines) = intervals(&json!(0), &clients);
    assert_eq!(of_each, json!(["10m", "600000ms", null, null, "0ms", "5m"]));
    let default = "no meaning mcp.tool_sync_interval: it stands for the default";
    assert!(lines.contains(default), "{lines}");
}

fn client(name: &str, interval: &Value) -> Value {
    json!({"name": name, "connection_type": "stdio", "stdio_config": {"command": "x"}, "tool_sync_interval": interval})
}

/// Returns the intervals of the imported clients, and the lines about the import.
fn intervals(all: &Value, clients: &Value) -> (Value, String) {
    let imported =
        imported(&json!({"mcp": {"tool_sync_interval": all, "client_configs": clients}}));
    let clients = imported.file["mcp"]["client_configs"].as_array().cloned();
    let clients = clients.unwrap_or_default().into_iter();
    let intervals = clients.map(|client| client["tool_sync_interval"].clone()).collect();
    (Value::Array(intervals), lines(&imported))
}

#[test]
fn an_interval_in_client_is_used_if_mcp_has_none() {
    let minutes = "is read as minutes: as nanoseconds it would be less than a millisecond, and 15m \
                   is `tool_sync_interval` of each client";
    let moved = format!("changed client.mcp_tool_sync_interval: 15 {minutes}");
    let both = "`mcp.tool_sync_interval` is set too, and is used";
    let different = format!("refused client.mcp_tool_sync_interval: {both}");
    let same = format!("no meaning client.mcp_tool_sync_interval: {both}");
    for (mcp, expected, line) in [
        (json!(null), json!("15m"), &moved),
        (json!(0), json!("15m"), &moved),
        (json!("10m"), json!("10m"), &different),
        (json!("15m"), json!("15m"), &same),
    ] {
        let (found, lines) = interval(&mcp, &json!(15));
        assert_eq!(found, expected);
        assert!(lines.contains(line), "{line}\n{lines}");
    }
    let (found, lines) = interval(&json!(null), &json!(0));
    assert_eq!(found, Value::Null);
    assert!(
        lines.contains("no meaning client.mcp_tool_sync_interval: it stands for the default"),
        "{lines}"
    );
}

/// Returns the interval of the imported client, and the lines about the import.
fn interval(mcp: &Value, in_client: &Value) -> (Value, String) {
    let client = json!({"name": "a", "connection_type": "stdio", "stdio_config": {"command": "x"}});
    let imported = imported(&json!({
        "client": {"mcp_tool_sync_interval": in_client},
        "mcp": {"tool_sync_interval": mcp, "client_configs": [client]},
    }));
    let interval = imported.file["mcp"]["client_configs"][0]["tool_sync_interval"].clone();
    (interval, lines(&imported))
}

#[test]
fn a_setting_in_client_that_mcp_has_too_is_reported_with_the_one_that_is_used() {
    for (of_mcp, line) in [
        (
            json!(null),
            "changed client.mcp_agent_depth: is `mcp.tool_manager_config.max_agent_depth`",
        ),
        (json!(4), "changed client.mcp_agent_depth: is `mcp.tool_manager_config.max_agent_depth`"),
        (
            json!(7),
            "refused client.mcp_agent_depth: `mcp.tool_manager_config.max_agent_depth` is set too, and is used",
        ),
    ] {
        let imported = imported(&json!({
            "client": {"mcp_agent_depth": 4},
            "mcp": {"tool_manager_config": {"max_agent_depth": of_mcp}},
        }));
        let used = if of_mcp.is_null() { json!(4) } else { of_mcp };
        assert_eq!(imported.file["mcp"]["tool_manager_config"]["max_agent_depth"], used);
        let lines = lines(&imported);
        assert!(lines.contains(line), "{line}\n{lines}");
    }
}

#[test]
fn a_custom_provider_of_bifrost_gets_its_kind() {
    let file = json!({"providers": {
        "own": custom("openai"), "other": custom("anthropic"), "google": custom("gemini"),
        "cloud": custom("cohere")
    }});
    let imported = imported(&file);
    let providers = &imported.file["providers"];
    assert_eq!(providers["own"]["kind"], "openai");
    assert_eq!(providers["other"]["kind"], "anthropic");
    assert_eq!(providers["google"]["kind"], "gemini");
    let lines = lines(&imported);
    for line in [
        "changed providers.own.custom_provider_config.base_provider_type: is `kind`",
        "refused providers.cloud.custom_provider_config: ",
        "taken providers.own: ",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
}

fn custom(kind: &str) -> Value {
    json!({
        "keys": [{"name": "k", "value": "sk-1", "models": ["*"], "weight": 1}],
        "network_config": {"base_url": "https://llm.example.com/v1"},
        "custom_provider_config": {"base_provider_type": kind, "is_key_less": false, "allowed_requests": null},
    })
}

#[test]
fn the_program_is_named_by_what_the_file_has() {
    for (source, program) in [
        (json!({"mcpServers": {}}), "a desktop agent (`mcpServers`)"),
        (json!({"servers": {}, "inputs": []}), "VS Code (`servers`)"),
        (json!({"mcp": {"servers": {}}, "editor.tabSize": 4}), "VS Code (`mcp.servers`)"),
        (json!({"context_servers": {}}), "Zed (`context_servers`)"),
        (json!({"mcp": {"client_configs": []}}), "Bifrost"),
        (json!({"providers": {}}), "Bifrost"),
    ] {
        let imported = imported(&source);
        assert_eq!((imported.program, imported.is_empty()), (program, true), "{source}");
    }
}

#[test]
fn a_file_of_no_known_program_is_an_error() {
    let of_others = [
        r#"{"openapi": "3.1.0", "servers": [{"url": "/"}]}"#,
        r#"{"mcp": {"git": {"type": "local"}}}"#,
    ];
    for source in ["{}", "[]", "{\"name\": 1}", ""].into_iter().chain(of_others) {
        import(source, Path::new("")).expect_err(source);
    }
    let toml = "# Codex\n[mcp_servers.git]\ncommand = \"npx\"\n";
    let yaml = "extensions:\n  git:\n    cmd: npx\n";
    for (source, has_form) in [(toml, true), (yaml, true), ("{\"mcpServers\": {]}", false)] {
        let problem = import(source, Path::new("")).expect_err(source);
        assert!(problem.message.starts_with("line "), "{}", problem.message);
        assert_eq!(problem.message.contains("only JSON can be read"), has_form, "{source}");
    }
}

#[test]
fn a_virtual_mcp_names_its_clients_by_their_present_names_and_grants_nothing() {
    let client = json!({
        "name": "my docs", "connection_type": "http", "connection_string": "http://127.0.0.1:1/mcp",
        "tools_to_execute": ["*"],
    });
    let group = json!({
        "id": "7", "name": "Desk", "endpoint_slug": "desk", "virtual_key_ids": ["k"],
        "tools": [{"mcp_client_name": "my docs", "tool_names": ["search"]}],
    });
    let source = json!({"mcp": {"client_configs": [client], "virtual_mcps": [group]}});
    let imported = imported(&source);
    insta::assert_snapshot!(lines(&imported), @r##"
    changed mcp.client_configs[0].name: the client is named "my_docs": names have no other characters than letters, digits and `_`
    changed mcp.virtual_mcps[0]: "Desk": it grants nothing here: keys need a row or a role for its tools
    refused mcp.virtual_mcps[0].virtual_key_ids: "Desk": use `virtual_keys`, with the names of keys
    taken mcp.client_configs[0]: my_docs
    taken mcp.virtual_mcps[0]: Desk
    "##);
    assert_eq!(
        imported.file["mcp"]["virtual_mcps"],
        json!([{
            "name": "Desk", "endpoint_slug": "desk",
            "tools": [{"mcp_client_name": imported.file["mcp"]["client_configs"][0]["name"], "tool_names": ["search"]}],
        }])
    );
}
