//! Text and JSON to the types of the file.

use super::*;
use airlock_config_file::json::MAX_FILE_BYTES;

#[test]
fn syntax_errors_have_line_and_column() {
    assert_snapshot!(syntax_error("{\n  \"server\": {,}\n}"), @"gateway.json: line 2, column 14: key must be a string");
    assert_snapshot!(
        syntax_error("{\"server\": {},\n \"server\": {}}"),
        @r#"gateway.json: line 2, column 9: the key "server" is written twice in one object"#
    );
    assert_snapshot!(syntax_error(""), @"gateway.json: is empty; `{}` is the smallest configuration");
    assert_snapshot!(syntax_error("[]"), @"gateway.json: expected an object, found an array");
    assert_snapshot!(syntax_error(&" ".repeat(MAX_FILE_BYTES + 1)), @"gateway.json: is larger than 4 MiB");
}

fn syntax_error(text: &str) -> String {
    Config::parse(text, "gateway.json", &env).expect_err("a bad file").to_string()
}

#[test]
fn every_unknown_key_is_reported_with_the_nearest_known_one() {
    let file = json!({
        "sever": {},
        "server": {"lisen": ":8080", "colour": "blue"},
        "mcp": {"client_configs": [with(stdio("fs"), "stdio_config", json!({"comand": "x", "command": "y"}))]},
    });
    assert_snapshot!(parse(&file).expect_err("four typing errors"), @r#"
    /etc/airlock/gateway.json has 4 errors:
      sever: unknown key; did you mean "server"?
      server.lisen: unknown key; did you mean "listen"?
      server.colour: unknown key; valid here are listen, require_virtual_key, tls, external_url, allowed_hosts, allowed_origins, max_body, max_request_memory, max_header, read_timeout, write_timeout, idle_timeout, drain_timeout, max_connections, max_connections_per_peer, startup_wait, replica_url, replica_tls, debug_requests, responses
      mcp.client_configs[0].stdio_config.comand: unknown key; did you mean "command"?
    "#);
    let rule = json!({"url": "https://a.example", "metods": ["GET"]});
    let wasm = json!({"component": "p.wasm", "grants": {"http": [rule]}});
    assert_snapshot!(
        error(&clients(json!([{"name": "p", "connection_type": "wasm", "wasm_config": wasm}]))),
        @r#"mcp.client_configs[0].wasm_config.grants.http[0].metods: unknown key; did you mean "methods"?"#
    );
}

#[test]
fn a_wrong_type_names_key_and_types_and_never_quotes_text() {
    assert_snapshot!(
        error(&fs_with("headers", json!(SECRET))),
        @"mcp.client_configs[0].headers: expected an object, found a string"
    );
    assert_snapshot!(
        error(&fs_with("is_code_mode_client", json!("yes"))),
        @"mcp.client_configs[0].is_code_mode_client: expected true or false, found a string"
    );
    assert_snapshot!(
        error(&fs_with("tools_to_execute", json!("*"))),
        @"mcp.client_configs[0].tools_to_execute: expected an array, found a string"
    );
    assert_snapshot!(
        error(&fs_with("stdio_config", json!({}))),
        @"mcp.client_configs[0].stdio_config.command: is required, but missing"
    );
    assert_snapshot!(
        error(&json!({"server": {"max_connections": -1}})),
        @"server.max_connections: expected a whole number from 0, found -1"
    );
    assert_snapshot!(
        error(&json!({"providers": {"a b": {"kind": "openai", "api_key": 7}}})),
        @r#"
    providers["a b"].api_key: expected a string, "env.NAME", or {"env_var": "env.NAME"}, found 7
    providers["a b"]: a provider's name has 1 to 64 letters, digits, `_`, `-` or `.`
    providers["a b"].base_url: is required, because no service of this name is known
    "#
    );
}

#[test]
fn a_missing_name_that_a_skipped_value_may_have_is_not_reported() {
    let rules = json!([{"virtual_key": "ann", "approval": "never"}]);
    let rows = json!([{"mcp_client_name": "files"}]);
    let keys = json!({"virtual_keys": [{"name": "a", "value": "env.GOOD", "mcp_configs": rows}]});
    let nameless = with(stdio("fs"), "name", json!(7));
    let grants = json!({"slot": {"find": "files-find"}, "tools": ["nonsense"]});
    let wasm = json!({"component": "p.wasm", "grants": grants});
    let plugin = json!({"name": "p", "connection_type": "wasm", "wasm_config": wasm});
    for (file, expected) in [
        (
            json!({"governance": 7, "server": {"listen": "0.0.0.0:1"}, "mcp_server": {"approval_rules": rules}}),
            "governance",
        ),
        (json!({"mcp": [], "governance": keys}), "mcp"),
        (with(clients(json!([nameless])), "governance", keys), "mcp.client_configs[0].name"),
        (
            clients(json!([nameless, plugin])),
            "mcp.client_configs[0].name mcp.client_configs[1].wasm_config.grants.tools[0]",
        ),
        (
            json!({"providers": {"a": 7, "openai": {"api_key": "env.GOOD", "fallbacks": ["a/m"]}}}),
            "providers.a",
        ),
    ] {
        let error = parse(&file).expect_err("it has mistakes");
        let found: Vec<_> =
            error.problems().iter().map(|problem| problem.key.to_string()).collect();
        assert_eq!(found.join(" "), expected, "{file}");
    }
}

#[test]
fn settings_that_ask_for_what_the_gateway_does_anyway_are_accepted() {
    let off = json!({"enabled": false, "type": "sqlite"});
    good(&with(
        with(fs_with("tool_pricing", json!({})), "config_store", off.clone()),
        "logs_store",
        off,
    ));
    good(&with(fs_with("needs_session_stickiness", json!(true)), "version", json!(2)));
    error(&fs_with("needs_session_stickiness", json!(false)));
    error(&with(json!({}), "config_store", json!({"enabled": true})));
    good(&json!({"cluster_config": {"enabled": false}}));
    assert_snapshot!(
        error(&json!({"cluster_config": {"enabled": true}})),
        @"cluster_config: this build does not act on it: a gateway is one process"
    );
    let key = json!({"name": "a", "value": "env.GOOD", "provider_configs": [], "budgets": []});
    assert_snapshot!(
        error(&json!({"governance": {"virtual_keys": [key]}})),
        @"governance.virtual_keys[0].provider_configs: this build does not act on it: every key may use every provider"
    );
}

#[test]
fn keys_of_other_programs_are_refused_with_the_keys_to_write() {
    let server = json!({"id": "1", "name": "a", "type": "http", "url": "http://localhost"});
    let file = json!({"mcpServers": {}, "mcp": {"client_configs": [server]}});
    assert_snapshot!(error(&file), @r#"
    mcpServers: is the list of servers of a desktop agent; `airlock import FILE` translates it to `mcp.client_configs`
    mcp.client_configs[0].id: use `client_id`, or leave it out
    mcp.client_configs[0].type: use `connection_type`: "stdio", "docker", "http", "sse" or "wasm"
    mcp.client_configs[0].url: use `connection_string`, with the `connection_type` "http" or "sse"
    mcp.client_configs[0].connection_type: is required, but missing
    "#);
}

#[test]
fn a_server_for_single_users_is_reached_by_browsers_over_streamable_http() {
    let http = json!({"name": "web", "connection_type": "http", "connection_string": "https://example.com/mcp",
                      "auth_type": "per_user_oauth"});
    let open = json!({"listen": "0.0.0.0:8080", "require_virtual_key": true});
    let key = json!({"virtual_keys": [{"name": "a", "value": "env.GOOD"}]});
    let reachable = |url: Value| {
        let server = with(open.clone(), "external_url", url);
        with(with(clients(json!([http])), "server", server), "governance", key.clone())
    };
    good(&reachable(json!("https://airlock.example.com/base")));
    assert_snapshot!(
        error(&reachable(json!("http://airlock.example.com"))),
        @r#"server.external_url: found "http://airlock.example.com", expected a URL without user name, query and fragment that begins with https://, such as "https://airlock.example.com"; http:// is for loopback addresses"#
    );
    let required = "server.external_url: is required";
    for (proxied, value) in [
        ("allowed_hosts", "airlock.example.com"),
        ("allowed_origins", "https://airlock.example.com"),
    ] {
        let server = with(json!({"listen": "127.0.0.1:8080"}), proxied, json!([value]));
        let behind_proxy = with(clients(json!([http])), "server", server);
        assert!(error(&behind_proxy).starts_with(required), "{}", error(&behind_proxy));
    }
    good(&with(clients(json!([http])), "server", json!({"listen": "127.0.0.1:8080"})));
    let without = with(with(clients(json!([http])), "server", open), "governance", key);
    assert_snapshot!(
        error(&without),
        @r#"server.external_url: is required, because the client "web" has the `auth_type` "per_user_oauth": users log in there with a browser"#
    );
    let sse = with(with(http, "connection_type", json!("sse")), "prompts_to_get", json!(["*"]));
    assert_snapshot!(error(&clients(json!([with(sse, "lifecycle", json!("per_call"))]))), @r#"
    mcp.client_configs[0].auth_type: "per_user_oauth" belongs to a client whose `connection_type` is "http"
    mcp.client_configs[0].lifecycle: with the `auth_type` "per_user_oauth", each user has a connection that is kept while it is used
    mcp.client_configs[0].prompts_to_get: only tools are used for single users: with the `auth_type` "per_user_oauth", resources and prompts are not passed on
    "#);
}

#[test]
fn unimplemented_settings_are_refused_and_not_ignored() {
    let http = json!({"name": "web", "connection_type": "http", "connection_string": "https://example.com/mcp"});
    for accepted in ["none", "headers", "oauth", "per_user_oauth"] {
        good(&clients(json!([with(http.clone(), "auth_type", json!(accepted))])));
    }
    assert_snapshot!(
        error(&fs_with("connection_type", json!("stdoi"))),
        @r#"mcp.client_configs[0].connection_type: found "stdoi"; did you mean "stdio"? Valid: "stdio", "docker", "http", "sse", "wasm" or "inprocess""#
    );
    assert_snapshot!(error(&with(fs_with("tool_pricing", json!({"read": 1})), "encryption_key", json!(SECRET))), @"encryption_key: this build does not act on it: use `store_key`, which names a variable of the environment or a file that has the key");
    assert_snapshot!(
        error(&fs_with("wasm_config", json!({"component": "x"}))),
        @r#"mcp.client_configs[0].wasm_config: belongs to a client whose `connection_type` is "wasm""#
    );
    assert_snapshot!(
        error(&fs_with("pin", json!("never"))),
        @r#"mcp.client_configs[0].pin: found "never", expected "off", "trust_on_first_use" or "strict""#
    );
    assert_snapshot!(error(&fs_with("connection_type", json!("http"))), @r#"
    mcp.client_configs[0].stdio_config: belongs to a client whose `connection_type` is "stdio"
    mcp.client_configs[0].connection_string: is required, but missing
    "#);
}

#[test]
fn two_spellings_of_one_key_are_refused_and_each_alone_is_accepted() {
    for keys in [
        json!({"lifecycle": "idle", "idleTimeout": "1m"}),
        json!({"toolSyncInterval": "1m", "maxConcurrentCalls": 1, "maxWaitingCalls": 1}),
        json!({"isPingAvailable": false, "startupTimeout": "1m", "restart": {"stableAfter": "1m"}}),
    ] {
        assert_eq!(problem(&keys), None);
    }
    let twice = problem(&json!({"toolSyncInterval": "1m", "tool_sync_interval": "1m"}));
    insta::assert_snapshot!(twice.expect("both mean one key"), @"test: mcp.client_configs[0].tool_sync_interval: is set twice: by `tool_sync_interval`, and by another spelling of the same key");
    let negative = problem(&json!({"restart": {"max_attempts": -1}}));
    insta::assert_snapshot!(negative.expect("it is negative"), @"test: mcp.client_configs[0].restart.max_attempts: expected a whole number from 0 to 4294967295, found -1");
}

fn problem(keys: &Value) -> Option<String> {
    let mut client =
        json!({"name": "a", "connection_type": "stdio", "stdio_config": {"command": "a"}});
    client.as_object_mut().expect("an object").extend(keys.as_object().expect("one").clone());
    let text = json!({"mcp": {"client_configs": [client]}}).to_string();
    Config::parse(&text, "test", &|_| None).err().map(|error| error.to_string())
}
