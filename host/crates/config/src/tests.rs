mod http_client;
mod processes;
mod providers;

use std::path::PathBuf;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use airlock_core::{
    door::ApprovalChoice,
    limit::{Limit, LimitSet},
    tool::{Prefix, Trust, Whitelist},
};
use airlock_model as model;
use airlock_plugin::{FilesGrant, Grant, PartialQuota};
use airlock_sandbox::Access;
use airlock_server as server;

const SECRET: &str = "sk-bf-hunter2-hunter2-hunter2";

/// Every variable that starts with `GOOD` is set.
fn env(name: &str) -> Option<String> {
    match name {
        "EMPTY" => Some(String::new()),
        "PATH" => Some("/usr/bin".into()),
        _ if name.starts_with("GOOD") => Some(format!("{SECRET}-{name}")),
        _ => None,
    }
}

fn parse(file: &Value) -> Result<Config, ConfigError> {
    Config::parse(&file.to_string(), "/etc/airlock/gateway.json", &env)
}

fn good(file: &Value) -> Config {
    parse(file).expect("a good configuration")
}

/// Returns the error of a file, one problem per line.
fn error(file: &Value) -> String {
    let error = parse(file).expect_err("a bad configuration");
    assert!(!error.to_string().contains("hunter2"), "a secret is shown: {error}");
    error.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn stdio(name: &str) -> Value {
    json!({"name": name, "connection_type": "stdio", "stdio_config": {"command": "server"}})
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

fn clients(clients: Value) -> Value {
    json!({"mcp": with(json!({}), "client_configs", clients)})
}

/// One stdio client named `fs` with one key changed.
fn fs_with(key: &str, value: Value) -> Value {
    clients(json!([with(stdio("fs"), key, value)]))
}

#[test]
fn pins_of_a_server_are_trusted_on_first_use_unless_the_file_says_otherwise() {
    use airlock_mcp_client::Pinning;
    assert_eq!(pin(&clients(json!([stdio("fs")]))), Pinning::TrustOnFirstUse);
    for (name, expected) in [
        ("off", Pinning::Off),
        ("trust_on_first_use", Pinning::TrustOnFirstUse),
        ("strict", Pinning::Strict),
    ] {
        assert_eq!(pin(&fs_with("pin", json!(name))), expected);
    }
    let plugin = json!({"name": "p", "connection_type": "wasm", "wasm_config": {"component": "x"}, "pin": "strict"});
    assert_snapshot!(
        error(&clients(json!([plugin]))),
        @r#"mcp.client_configs[0].pin: belongs to a client whose `connection_type` is that of an MCP server"#
    );
}

fn pin(file: &Value) -> airlock_mcp_client::Pinning {
    match &good(file).clients[0].source {
        Source::Upstream(settings) => settings.pin,
        Source::Plugin(_) => panic!("it is a server"),
    }
}

#[test]
fn an_empty_file_listens_on_loopback_and_grants_nothing() {
    let config = good(&json!({}));
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert!(config.providers.is_empty() && config.clients.is_empty() && config.keys.is_empty());
    assert_eq!(
        (config.agent.max_depth, config.agent.parallel_calls, config.agent.calls_per_answer),
        (10, 8, 128)
    );
    assert_eq!((config.agent.max_tool_bytes, config.agent.timeout.as_secs()), (8 << 20, 30 * 60));
    assert_eq!(
        (config.budget.deadline.as_secs(), config.budget.nested_calls, config.budget.depth),
        (30, 64, 4)
    );
    let client = &good(&clients(json!([stdio("fs")]))).clients[0];
    assert_eq!(client.policy, Policy::default());
}

#[test]
fn a_plugin_gets_its_grants_and_default_limits_unless_overridden() {
    let file = clients(json!([{
        "name": "p",
        "connection_type": "inprocess",
        "wasm_config": {
            "component": "p.wasm",
            "grants": {"files": {"in": {"path": "data", "access": "read_only"}}, "tools": ["p-read-it"]},
            "limits": {"deadline": "250ms", "memory": "1MiB"},
        },
        "tools_to_execute": ["*"],
    }]));
    let client = &good(&file).clients[0];
    assert_eq!(client.policy.execute, Whitelist::All);
    let Source::Plugin(plugin) = &client.source else { panic!("a plugin") };
    assert_eq!(plugin.component, PathBuf::from("/etc/airlock/p.wasm"));
    let files = FilesGrant {
        path: "/etc/airlock/data".into(),
        access: Access::ReadOnly,
        quota: PartialQuota::default(),
    };
    let expected = Grant {
        files: [("in".to_owned(), files)].into(),
        tools: vec!["p-read-it".into()],
        limits: LimitSet::default().with(Limit::Deadline, 250_000_000).with(Limit::Memory, 1 << 20),
        ..Grant::default()
    };
    assert_eq!(plugin.grant, expected);
}

#[test]
fn every_grant_of_a_plugin_is_read() {
    let file = clients(json!([{
        "name": "p",
        "connection_type": "wasm",
        "wasm_config": {
            "component": "p.wasm",
            "profile": "trusted",
            "config": {"units": "metric"},
            "descriptions": {"run": "Runs."},
            "grants": {
                "http": ["api", {"url": "http://localhost:9", "methods": ["POST"], "paths": ["/a/*"], "private": true}],
                "secret": {"token": {"from": "file:token", "audience": ["api"], "inject": {"header": "x-key"}, "reveal": true}},
                "kv": {"notes": {"shared": true}, "cache": {"max_bytes": "1MiB"}},
                "files": {"out": {"path": "out", "access": "read_write", "max_bytes": "2MiB", "max_files": 7}},
                "scratch": {"max_files": 3},
                "slot": {"forecast": "p-today"},
                "clocks": true,
            },
            "limits": {"http_requests": 3, "http_timeout": "2s", "memory": "1GiB"},
        },
    }]));
    let Source::Plugin(plugin) = &good(&file).clients[0].source else { panic!("a plugin") };
    insta::assert_debug_snapshot!(plugin.grant);
}

#[test]
fn providers_keep_their_order() {
    let config = good(&json!({"providers": {
        "z": {"kind": "scripted", "script": "z.json"},
        "a": {"kind": "openai", "base_url": "http://localhost:9/v1/", "api_key": {"env_var": "env.GOOD", "from_env": true}},
    }}));
    let names: Vec<_> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["z", "a"]);
    let api_key = airlock_core::secret::Secret::new(format!("{SECRET}-GOOD"));
    let service = model::Service {
        keys: vec![model::Key::new("api_key", api_key)],
        ..model::Service::new(model::Api::OpenAi, "http://localhost:9/v1")
    };
    assert_eq!(config.providers[1].kind, model::Kind::Service(Box::new(service)));
}

#[test]
fn a_bare_timeout_is_seconds_in_tool_execution_timeout_and_refused_elsewhere() {
    let config = good(&json!({"mcp": {"tool_manager_config": {"tool_execution_timeout": 45}}}));
    assert_eq!(config.budget.deadline.as_secs(), 45);
    assert_snapshot!(
        error(&json!({"server": {"read_timeout": 45}})),
        @r#"server.read_timeout: expected a time with its unit, such as "250ms", "30s" or "10m", found 45"#
    );
    assert_snapshot!(
        error(&json!({"server": {"max_body": "1024"}})),
        @r#"server.max_body: found "1024", expected a size with its unit, such as "64MiB" or "512KiB""#
    );
    let zero = good(
        &json!({"mcp": {"tool_manager_config": {"tool_execution_timeout": "0s", "max_agent_depth": 0}}}),
    );
    assert_eq!(
        (zero.budget.deadline.as_secs(), zero.agent.max_depth),
        (30, 10),
        "zero stands for the default"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"max_tool_calls_per_answer": 0}}})),
        @"mcp.tool_manager_config.max_tool_calls_per_answer: must be from 1 to 1024, found 0"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"max_tool_results": "1KiB"}}})),
        @"mcp.tool_manager_config.max_tool_results: must be from 64KiB to 64MiB, found 1KiB"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"max_inline_result": "1KiB", "max_kept_results": "1MiB", "kept_result_expire_after": "0s"}}})),
        @r"
    mcp.tool_manager_config.max_inline_result: must be from 4KiB to 1MiB, found 1KiB
    mcp.tool_manager_config.max_kept_results: must be from 8MiB to 4GiB, found 1MiB
    mcp.tool_manager_config.kept_result_expire_after: must be from 1s to 1day, found 0s
    "
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"agent_timeout": "25h"}}})),
        @"mcp.tool_manager_config.agent_timeout: must be from 1ms to 1day, found 1day 1h"
    );
    assert_snapshot!(
        error(&json!({"mcp": {"tool_manager_config": {"tool_execution_timeout": "2h"}}})),
        @"mcp.tool_manager_config.tool_execution_timeout: must be from 1ms to 1h, found 2h"
    );
}

#[test]
fn a_disabled_client_or_key_needs_no_environment_but_keeps_its_name() {
    let process = json!({"command": "x", "envs": ["UNSET"]});
    let file = json!({
        "mcp": {"client_configs": [with(with(stdio("fs"), "disabled", json!(true)), "stdio_config", process)]},
        "governance": {"virtual_keys": [
            {"name": "old", "value": "env.UNSET", "is_active": false, "mcp_configs": [{"mcp_client_name": "fs"}]},
        ]},
    });
    let config = good(&file);
    assert!(config.clients.is_empty() && config.keys.is_empty());
}

#[test]
fn syntax_errors_have_line_and_column() {
    assert_snapshot!(syntax_error("{\n  \"server\": {,}\n}"), @"gateway.json: line 2, column 14: key must be a string");
    assert_snapshot!(
        syntax_error("{\"server\": {},\n \"server\": {}}"),
        @r#"gateway.json: line 2, column 9: the key "server" is written twice in one object"#
    );
    assert_snapshot!(syntax_error(""), @"gateway.json: is empty; `{}` is the smallest configuration");
    assert_snapshot!(syntax_error("[]"), @"gateway.json: expected an object, found an array");
    assert_snapshot!(syntax_error(&" ".repeat(json::MAX_FILE_BYTES + 1)), @"gateway.json: is larger than 4 MiB");
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
      server.colour: unknown key; valid here are listen, require_virtual_key, allowed_hosts, allowed_origins, max_body, max_request_memory, max_header, read_timeout, write_timeout, idle_timeout, drain_timeout, max_connections, max_connections_per_peer, startup_wait, responses
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
fn the_layout_of_virtual_files_is_set_for_all_clients_and_for_each() {
    use airlock_scripts::BindingLevel;
    let file = json!({"mcp": {
        "tool_manager_config": {"code_mode_binding_level": "tool", "code_mode_search_threshold": 0},
        "client_configs": [scripted("a"), with(scripted("b"), "code_mode_binding_level", json!("server"))],
    }});
    let config = good(&file);
    assert_eq!((config.binding_level, config.search_above), (BindingLevel::Tool, 0));
    let levels: Vec<_> = config.clients.iter().map(|client| client.binding_level).collect();
    assert_eq!(levels, [None, Some(BindingLevel::Server)]);
    assert_eq!(good(&json!({})).search_above, 60);
    assert_eq!(good(&searched_above(100_000)).search_above, 100_000);
    assert_snapshot!(error(&searched_above(100_001)), @"mcp.tool_manager_config.code_mode_search_threshold: must be from 0 to 100000, found 100001");
    assert_snapshot!(
        error(&fs_with("code_mode_binding_level", json!("tool"))),
        @"mcp.client_configs[0].code_mode_binding_level: belongs to a client with `is_code_mode_client`"
    );
}

fn scripted(name: &str) -> Value {
    with(stdio(name), "is_code_mode_client", json!(true))
}

fn searched_above(number: u64) -> Value {
    json!({"mcp": {"tool_manager_config": {"code_mode_search_threshold": number}}})
}

#[test]
fn a_missing_or_empty_variable_is_named_with_its_key() {
    let file = json!({
        "providers": {"openai": {"kind": "openai", "api_key": "env.UNSET"}},
        "mcp": {"client_configs": [
            with(stdio("fs"), "stdio_config", json!({"command": "x", "envs": ["UNSET", "A=env.EMPTY"]})),
            {
                "name": "web",
                "connection_type": "http",
                "connection_string": "env.UNSET",
                "headers": {"X-Key": {"env_var": "env.UNSET"}},
            },
        ]},
        "governance": {"virtual_keys": [{"name": "a", "value": "env.EMPTY"}]},
    });
    assert_snapshot!(error(&file), @"
    providers.openai.api_key: the environment variable UNSET is not set
    mcp.client_configs[0].stdio_config.envs[0]: the environment variable UNSET is not set
    mcp.client_configs[0].stdio_config.envs[1]: the environment variable EMPTY is empty
    mcp.client_configs[1].headers.X-Key: the environment variable UNSET is not set
    mcp.client_configs[1].connection_string: the environment variable UNSET is not set
    governance.virtual_keys[0].value: the environment variable EMPTY is empty
    ");
    assert_snapshot!(
        error(&with_api_key(&json!({"env_var": "GOOD"}))),
        @r#"
    providers.o.api_key: `env_var` must have the form "env.NAME"
    providers.o.base_url: is required, because no service of this name is known
    "#
    );
    assert_snapshot!(
        error(&with_api_key(&json!({"value": SECRET, "env_var": "env.GOOD"}))),
        @r"
    providers.o.api_key: expected either `env_var` (from the environment) or `value` (as it is), and not both
    providers.o.base_url: is required, because no service of this name is known
    "
    );
}

fn with_api_key(api_key: &Value) -> Value {
    json!({"providers": {"o": {"kind": "openai", "api_key": api_key}}})
}

#[test]
fn a_reference_in_the_form_of_other_programs_is_refused_where_nothing_expands_it() {
    let of_process = json!({
        "command": "x",
        "args": ["${input:token}", "echo ${HOME}", "Authorization: Bearer ${TOKEN}"],
        "envs": ["A=${TOKEN}", "B=${env:TOKEN}/x", "C=${level} ${message}", "D=$TOKEN"],
    });
    let file = json!({
        "providers": {"openai": {"kind": "openai", "api_key": "${KEY:-none}"}},
        "mcp": {"client_configs": [
            with(stdio("fs"), "stdio_config", of_process),
            {
                "name": "web",
                "connection_type": "http",
                "connection_string": "https://example.com/${TOKEN}",
                "headers": {
                    "x-a": "Bearer ${TOKEN}",
                    "x-b": {"value": "${TOKEN}"},
                    "x-c": "$TOKEN ${} ${1} ${open",
                },
            },
        ]},
    });
    let text = "the gateway does not expand `${…}`: put the whole value into a variable of its environment and write \"env.NAME\", \
                or write {\"value\": \"…\"} for a text that has `${…}` on purpose";
    let of_process = "the gateway does not expand `${…}`, and neither does the process: write the value, or put the whole value into a variable \
                      of the gateway's environment and `NAME=env.OTHER` into `envs`";
    let expected = [
        ("providers.openai.api_key", text),
        ("mcp.client_configs[0].stdio_config.args[0]", of_process),
        ("mcp.client_configs[0].stdio_config.envs[0]", of_process),
        ("mcp.client_configs[0].stdio_config.envs[1]", of_process),
        ("mcp.client_configs[1].headers.x-a", text),
        ("mcp.client_configs[1].connection_string", text),
    ];
    let expected = expected.map(|(key, message)| format!("{key}: {message}"));
    assert_eq!(error(&file), expected.join("\n"));
}

#[test]
fn a_variable_after_the_scheme_of_a_header_is_refused_with_the_form_that_works() {
    let file = json!({
        "providers": {"mine": {
            "kind": "openai",
            "base_url": "https://mine.example/v1",
            "headers": {"authorization": "Bearer env.GOOD"},
        }},
        "mcp": {"client_configs": [{
            "name": "web",
            "connection_type": "http",
            "connection_string": "https://example.com/mcp",
            "headers": {
                "authorization": "Bearer env.GOOD",
                "x-a": "env.GOOD",
                "x-b": {"value": "Bearer env.GOOD"},
                "x-c": "of env. or env.example.com",
            },
        }]},
    });
    let message = "the gateway replaces `env.NAME` only if it is the whole value: put the whole value, with the scheme such as `Bearer`, into a \
                   variable of its environment and write \"env.NAME\", or write {\"value\": \"…\"} for a text that has `env.NAME` on purpose";
    let expected =
        ["providers.mine.headers.authorization", "mcp.client_configs[0].headers.authorization"];
    assert_eq!(error(&file), expected.map(|key| format!("{key}: {message}")).join("\n"));
}

#[test]
fn names_are_checked_and_unique() {
    assert_snapshot!(error(&clients(json!([stdio("my-server"), stdio("a"), stdio("a")]))), @r#"
    mcp.client_configs[0].name: "my-server" is not a valid client name: use a letter or `_`, then letters, digits or `_`, at most 32 characters
    mcp.client_configs[2].name: another client is named "a" already
    "#);
    let keys = json!([
        key("a", "env.GOOD"),
        key("a", "env.GOOD1"),
        key("b", "env.GOOD1"),
        key("c", "sk-bf-short"),
        key("d", "hunter2-hunter2-hunter2"),
        key("e", "sk-bf-hunter2-hunter2-hunter2\n")
    ]);
    assert_snapshot!(error(&json!({"governance": {"virtual_keys": keys}})), @r#"
    governance.virtual_keys[1].name: another key is named "a" already
    governance.virtual_keys[2].value: is the same as that of the key "a"
    governance.virtual_keys[3].value: must start with "sk-bf-" and have at least 20 characters, without spaces
    governance.virtual_keys[4].value: must start with "sk-bf-" and have at least 20 characters, without spaces
    governance.virtual_keys[5].value: must start with "sk-bf-" and have at least 20 characters, without spaces
    "#);
}

fn key(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

#[test]
fn whitelists_are_checked() {
    let file = clients(json!([
        with(
            with(stdio("a"), "tools_to_execute", json!(["read"])),
            "tools_to_auto_execute",
            json!(["READ", "write"])
        ),
        with(stdio("b"), "tools_to_execute", json!(["*", "read"])),
        with(stdio("c"), "tools_to_execute", json!(["read", "read"])),
        with(stdio("d"), "tools_to_execute", json!(["read", "Read"])),
    ]));
    assert_snapshot!(error(&file), @r#"
    mcp.client_configs[0].tools_to_auto_execute: "write" is not in `tools_to_execute`, so it cannot run without an approval either
    mcp.client_configs[1].tools_to_execute: "*" stands for every tool and must be the only entry
    mcp.client_configs[2].tools_to_execute: "read" is listed twice
    "#);
}

#[test]
fn a_prefix_belongs_to_one_client_and_trust_to_mcp_servers() {
    let config = good(&clients(json!([
        with(with(stdio("a"), "prefix", json!("files")), "trust", json!("trusted")),
        with(stdio("b"), "prefix", json!("")),
        with(stdio("c"), "prefix", json!("c")),
        {"name": "p", "connection_type": "wasm", "wasm_config": {"component": "p.wasm"}},
    ])));
    let found: Vec<_> = config
        .clients
        .iter()
        .map(|client| {
            let prefix = client.policy.prefix.of(&client.name).as_str();
            (prefix, client.policy.prefix == Prefix::Off, client.policy.trust)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("files", false, Trust::Trusted),
            ("b", true, Trust::Untrusted),
            ("c", false, Trust::Untrusted),
            ("p", false, Trust::Trusted),
        ]
    );
    let wasm =
        json!({"name": "p", "connection_type": "wasm", "wasm_config": {"component": "p.wasm"}});
    let file = clients(json!([
        with(stdio("a"), "prefix", json!("b")),
        with(stdio("b"), "prefix", json!("my-files")),
        with(stdio("c"), "prefix", json!("x")),
        with(stdio("d"), "prefix", json!("x")),
        with(stdio("e"), "prefix", json!("internal")),
        with(with(wasm, "prefix", json!("")), "trust", json!("trusted")),
    ]));
    assert_snapshot!(error(&file), @r#"
    mcp.client_configs[3].prefix: another client has this prefix already
    mcp.client_configs[0].prefix: "b" is the name of another client
    mcp.client_configs[1].prefix: "my-files" is not a valid prefix: use a letter or `_`, then letters, digits or `_`, at most 32 characters; or "" for none
    mcp.client_configs[4].prefix: "internal" is the name of another client
    mcp.client_configs[5].prefix: belongs to a client whose `connection_type` is that of an MCP server
    mcp.client_configs[5].trust: belongs to a client whose `connection_type` is that of an MCP server
    "#);
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
fn unimplemented_settings_are_refused_and_not_ignored() {
    let http = json!({"name": "web", "connection_type": "http", "connection_string": "https://example.com/mcp"});
    for accepted in ["none", "headers", "oauth"] {
        good(&clients(json!([with(http.clone(), "auth_type", json!(accepted))])));
    }
    assert_snapshot!(
        error(&clients(json!([with(http.clone(), "auth_type", json!("per_user_oauth"))]))),
        @r#"mcp.client_configs[0].auth_type: "per_user_oauth" is not built yet: use "oauth", with one login for all users, or "headers" with a token in `headers`"#
    );
    assert_snapshot!(
        error(&fs_with("connection_type", json!("stdoi"))),
        @r#"mcp.client_configs[0].connection_type: found "stdoi"; did you mean "stdio"? Valid: "stdio", "docker", "http", "sse", "wasm" or "inprocess""#
    );
    assert_snapshot!(error(&with(fs_with("tool_pricing", json!({"read": 1})), "encryption_key", json!(SECRET))), @"
    mcp.client_configs[0].tool_pricing: this build does not act on it: calls have no prices
    encryption_key: this build does not act on it: what is stored is not encrypted; protect the file of `store` by the rights of its directory
    ");
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
fn an_endpoint_is_a_plain_url_and_its_headers_can_be_sent() {
    for bad in ["example.com", "ftp://example.com", "https://", "/mcp"] {
        assert!(error(&http(bad, &json!({}))).contains("expected a URL"), "{bad}");
    }
    assert_snapshot!(
        error(&http("https://me:hunter2@example.com", &json!({}))),
        @"mcp.client_configs[0].connection_string: a URL with a user name or password in it would show up in logs; use a header"
    );
    let headers = json!({"Host": "x", "a b": "x", "X-Key": "hunter2\n", "x": "1", "X": "2"});
    assert_snapshot!(error(&http("https://example.com", &headers)), @r#"
    mcp.client_configs[0].headers.Host: is set by the transport itself
    mcp.client_configs[0].headers.X-Key: the value has a line break or another character that an HTTP header cannot have
    mcp.client_configs[0].headers["a b"]: is not a valid header name
    mcp.client_configs[0].headers.x: is listed twice (case does not count)
    "#);
}

fn http(url: &str, headers: &Value) -> Value {
    clients(
        json!([{"name": "web", "connection_type": "http", "connection_string": url, "headers": headers}]),
    )
}

#[test]
fn grants_and_limits_are_checked() {
    let directory = json!({"path": "x", "access": "read_write"});
    let files = json!({"a/b": directory, "ok": directory, "*": directory});
    let tools = json!(["read", "q-read", "p-*"]);
    let slots = json!({"forecast": "today", "search": "q-web"});
    let grants = json!({"kv": {"": {}}, "files": files, "slot": slots, "tools": tools});
    assert_snapshot!(error(&plugin(&json!({"component": "", "grants": grants}))), @r#"
        mcp.client_configs[0].wasm_config.grants.kv[""]: found the name "", expected 1 to 64 letters, digits, `_` or `-`
        mcp.client_configs[0].wasm_config.grants.files["*"]: found the name "*", expected 1 to 64 letters, digits, `_` or `-`
        mcp.client_configs[0].wasm_config.grants.files["a/b"]: found the name "a/b", expected 1 to 64 letters, digits, `_` or `-`
        mcp.client_configs[0].wasm_config.grants.slot.forecast: found "today", expected one tool's full name: CLIENT-TOOL
        mcp.client_configs[0].wasm_config.grants.slot.search: "q-web": no client is named "q"; no other client is configured
        mcp.client_configs[0].wasm_config.grants.tools[0]: found "read", expected one tool's full name: CLIENT-TOOL
        mcp.client_configs[0].wasm_config.grants.tools[1]: "q-read": no client is named "q"; no other client is configured
        mcp.client_configs[0].wasm_config.grants.tools[2]: found "p-*", expected one tool's full name: CLIENT-TOOL
        mcp.client_configs[0].wasm_config.component: is empty
        "#);
    let limits = json!({"fuel": 1, "cpu_time": "1h", "memory": "8GiB", "host_calls": 9_999_999});
    assert_snapshot!(error(&plugin(&json!({"component": "x", "limits": limits}))), @r#"
        mcp.client_configs[0].wasm_config.limits.fuel: must be from 1000 to 1000000000 with the profile "untrusted", found 1
        mcp.client_configs[0].wasm_config.limits.cpu_time: must be from 1ms to 2s with the profile "untrusted", found 1h
        mcp.client_configs[0].wasm_config.limits.memory: must be from 64KiB to 64MiB with the profile "untrusted", found 8GiB
        mcp.client_configs[0].wasm_config.limits.host_calls: must be from 0 to 1000 with the profile "untrusted", found 9999999
        "#);
}

fn plugin(wasm: &Value) -> Value {
    clients(json!([{"name": "p", "connection_type": "wasm", "wasm_config": wasm}]))
}

#[test]
fn a_secret_is_injected_in_one_form() {
    for inject in [json!({"basic": "me"}), json!({"basic": ""}), json!({"query": "key"})] {
        good(&with_injection(&inject));
    }
    assert_snapshot!(
        error(&with_injection(&json!({"basic": "a:b"}))),
        @r#"mcp.client_configs[0].wasm_config.grants.secret.t.inject: found the user "a:b", expected printable ASCII without a colon; leave it empty if the secret is "user:password""#
    );
    assert_snapshot!(
        error(&with_injection(&json!({"basic": "me", "header": "x-key"}))),
        @"mcp.client_configs[0].wasm_config.grants.secret.t.inject: expected one of `header`, `basic` and `query`"
    );
    assert_snapshot!(
        error(&with_injection(&json!({"basic": "me", "prefix": "Bearer "}))),
        @"mcp.client_configs[0].wasm_config.grants.secret.t.inject.prefix: can be set only with `header`"
    );
}

fn with_injection(inject: &Value) -> Value {
    let secrets = json!({"t": {"from": "env:GOOD", "inject": inject}});
    plugin(&json!({"component": "x", "grants": {"secret": secrets}}))
}

#[test]
fn a_row_of_a_key_must_name_an_existing_client() {
    let rows = json!([
        {"mcp_client_name": "fs"},
        {"mcp_client_name": "fs"},
        {"mcp_client_name": "nobody"},
        {"mcp_client_name": "fs", "mcp_client_id": 1},
    ]);
    let file = with(
        clients(json!([stdio("fs")])),
        "governance",
        json!({"virtual_keys": [{"name": "a", "value": "env.GOOD", "mcp_configs": rows}]}),
    );
    assert_snapshot!(error(&file), @r#"
    governance.virtual_keys[0].mcp_configs[3].mcp_client_id: this build does not act on it: use `mcp_client_name`
    governance.virtual_keys[0].mcp_configs[1].mcp_client_name: there is another row for "fs"
    governance.virtual_keys[0].mcp_configs[2].mcp_client_name: no client is named "nobody"
    governance.virtual_keys[0].mcp_configs[3].mcp_client_name: there is another row for "fs"
    "#);
}

#[test]
fn a_public_listen_address_needs_virtual_keys() {
    assert_snapshot!(
        error(&json!({"server": {"listen": "0.0.0.0:80"}})),
        @"server.listen: 0.0.0.0:80 can be reached from other machines: set `server.require_virtual_key` to true, or listen on 127.0.0.1"
    );
    assert_snapshot!(
        error(&json!({"server": {"listen": "0.0.0.0:80", "require_virtual_key": true}})),
        @"server.require_virtual_key: is true, but `governance.virtual_keys` has no active key: every request would be refused"
    );
    assert_snapshot!(error(&json!({"server": {"listen": "localhost:80", "allowed_hosts": ["https://a.example"]}})), @r#"
    server.listen: found "localhost:80", expected an IP address and a port, such as "127.0.0.1:8080" or "[::1]:8080"
    server.allowed_hosts[0]: found "https://a.example", expected a host name without scheme or port, such as "tools.example.com"
    "#);
    let origins = [
        "http://a.example/",
        "https://a.example/x",
        "a.example",
        "https://u@a.example",
        "ftp://a.example",
        "null",
    ];
    let errors = error(&json!({"server": {"allowed_origins": origins}}));
    assert_eq!(
        errors.matches("expected an origin: scheme, host name and port").count(),
        origins.len(),
        "{errors}"
    );
    let config = good(
        &json!({"server": {"allowed_origins": ["HTTPS://A.example:443", "http://localhost:3000"]}}),
    );
    assert_eq!(config.server.allowed_origins, ["https://a.example", "http://localhost:3000"]);
    let keys = json!({"virtual_keys": [{"name": "a", "value": "env.GOOD"}]});
    let config = good(
        &json!({"server": {"listen": "[::]:80", "require_virtual_key": true}, "governance": keys}),
    );
    assert!(config.keys.find(&format!("{SECRET}-GOOD")).is_some());
}

#[test]
fn request_memory_must_hold_a_body_of_the_largest_size() {
    assert_eq!(good(&json!({})).server.max_request_memory_bytes, 256 << 20);
    let server = good(&json!({"server": {"max_body": "256MiB"}})).server;
    assert_eq!(
        (server.max_request_memory_bytes, server.check()),
        (server.least_request_memory(), Ok(()))
    );
    assert_snapshot!(
        error(&json!({"server": {"max_body": "16MiB", "max_request_memory": "160MiB"}})),
        @"server.max_request_memory: must be at least 164000KiB where `server.max_body` is 16MiB, found 160MiB"
    );
}

#[test]
fn one_address_has_a_quarter_of_the_connections_by_default() {
    for (max_connections, per_peer) in [(1_024, 256), (5, 2), (4, 1), (1, 1)] {
        let server = good(&json!({"server": {"max_connections": max_connections}})).server;
        assert_eq!(server.max_connections_per_peer, per_peer, "{max_connections}");
    }
    assert_eq!(good(&json!({})).server.max_connections_per_peer, 256);
}

#[test]
fn every_sample_is_accepted() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(samples).expect("samples") {
        let path = entry.expect("a sample").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a sample");
            let file = path.display().to_string();
            Config::parse(&text, &file, &environment_of_samples).expect("a good sample");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} samples");
}

fn environment_of_samples(name: &str) -> Option<String> {
    match name {
        "TRACKER_URL" => Some("https://tracker.example.com/mcp".to_owned()),
        "NOT_THERE_YET" => None,
        _ => Some(SECRET.to_owned()),
    }
}

#[test]
fn a_missing_configuration_file_is_reported_with_the_cause() {
    let error = Config::load(Path::new("/nowhere/gateway.json")).expect_err("no file");
    assert_snapshot!(error, @"there is no file /nowhere/gateway.json; `--config FILE` names the configuration");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn missing_files_and_values_named_by_the_configuration_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    let wasm = json!({
        "component": "p.wasm",
        "grants": {"files": {"in": {"path": ".", "access": "read_only"}}},
    });
    let file = clients(json!([{"name": "p", "connection_type": "wasm", "wasm_config": wasm}]));
    std::fs::write(&path, file.to_string()).expect("a file");
    let config = Config::load(&path).expect("a good file");
    let error = config.check_files("gateway.json").await.expect_err("no component").to_string();
    let masked = error.replace(&directory.path().display().to_string(), "…");
    assert_snapshot!(masked, @r#"gateway.json: mcp.client_configs[name = "p"].wasm_config.component: there is no file …/p.wasm"#);
    let wasm = directory.path().join("p.wasm");
    std::fs::write(&wasm, "").expect("a file");
    let error = config.check_files("gateway.json").await.expect_err("no component").to_string();
    assert!(error.contains("wasm_config.component: "), "{error}");
    std::fs::write(&wasm, wat::parse_str("(component)").expect("a component")).expect("a file");
    config.check_files("gateway.json").await.expect("all files");
}

#[tokio::test]
async fn a_secret_without_a_value_is_reported_with_its_plugin_and_what_the_plugin_is_not_granted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    let manifest = json!({
        "schema": "airlock.plugin/1", "id": "p", "version": "1.0.0", "contract": "0.1",
        "request": {
            "clocks": {"reason": "dates"},
            "secret": {"token": {"reveal": true, "reason": "signs in"}},
        },
    });
    let manifest = manifest.to_string();
    let component = format!("(component (@custom \"airlock:manifest\" {manifest:?}))");
    let wasm = wat::parse_str(component).expect("a component");
    std::fs::write(directory.path().join("p.wasm"), wasm).expect("a file");
    let wasm = json!({
        "component": "p.wasm",
        "grants": {"secret": {
            "token": {"from": "env:AIRLOCK_TEST_UNSET"},
            "other": {"from": "env:AIRLOCK_TEST_UNSET"},
        }},
    });
    let file = clients(json!([{"name": "mail", "connection_type": "wasm", "wasm_config": wasm}]));
    std::fs::write(&path, file.to_string()).expect("a file");
    let config = Config::load(&path).expect("a good file");
    let error = config.check_files("gateway.json").await.expect_err("refused").to_string();
    assert_snapshot!(error, @r#"
    gateway.json has 2 errors:
      mcp.client_configs[name = "mail"].wasm_config.grants.secret.token.from: the secret "token" of the plugin mail has no value, so that the plugin is not loaded: the environment variable AIRLOCK_TEST_UNSET is not set, or is not text
      mcp.client_configs[name = "mail"].wasm_config: the plugin needs clocks (dates), which is not granted; grant it with "clocks": true
    "#);
}

#[tokio::test]
async fn a_tool_for_a_slot_must_be_one_that_the_configured_plugin_has_and_may_run() {
    let home = tempfile::tempdir().expect("a directory");
    let section = r#"{"schema":"airlock.tools/1","tools":[{"name":"today","inputSchema":{}},{"name":"week","inputSchema":{}}]}"#;
    let component = format!(
        r#"(component (instance $i) (export "airlock:plugin/tools@0.1.0" (instance $i)) (@custom "airlock:tools" {section:?}))"#
    );
    std::fs::write(
        home.path().join("weather.wasm"),
        wat::parse_str(component).expect("a component"),
    )
    .expect("a file");
    let plan = wat::parse_str("(component)").expect("a component");
    std::fs::write(home.path().join("plan.wasm"), plan).expect("a file");
    let check = async |tool: Value, tools: Value| {
        let file = clients(json!([
            {"name": "weather", "connection_type": "wasm", "wasm_config": {"component": "weather.wasm"},
             "tools_to_execute": ["today"]},
            {"name": "web", "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp"},
            {"name": "plan", "connection_type": "wasm",
             "wasm_config": {"component": "plan.wasm", "grants": {"slot": tool, "tools": tools}}},
        ]));
        let origin = home.path().join("gateway.json").display().to_string();
        let config = Config::parse(&file.to_string(), &origin, &|_| None).expect("a configuration");
        config.check_files("gateway.json").await.map_err(|error| error.to_string())
    };
    // The tools of a server, and those of a component that embeds none, are not known.
    let known = json!({"forecast": "weather-today", "search": "web-any", "self": "plan-any"});
    assert_eq!(check(known, json!(["weather-today"])).await, Ok(()));
    assert_snapshot!(
        check(json!({"forecast": "weather-tomorrow"}), json!(["weather-week"])).await.expect_err("unknown"),
        @r#"
    gateway.json has 2 errors:
      mcp.client_configs[name = "plan"].wasm_config.grants.slot.forecast: the plugin weather has no tool "weather-tomorrow"; it has weather-today, weather-week
      mcp.client_configs[name = "plan"].wasm_config.grants.tools[0]: "weather-week" is not in the `tools_to_execute` of weather, so nothing can call it
    "#
    );
}

#[test]
fn plugins_are_unpinned_while_the_configuration_has_no_lock_file() {
    let plugin =
        json!({"name": "p", "connection_type": "wasm", "wasm_config": {"component": "p.wasm"}});
    let file = clients(json!([stdio("fs"), plugin]));
    assert!(good(&file).unpinned().is_empty(), "not loaded from a file");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    std::fs::write(&path, file.to_string()).expect("a file");
    assert_eq!(unpinned(&path).iter().map(ClientName::as_str).collect::<Vec<_>>(), ["p"]);
    std::fs::write(directory.path().join(LOCK_FILE), "").expect("a file");
    assert!(unpinned(&path).is_empty(), "a plugin that is not in the lock file is refused");
}

fn unpinned(path: &Path) -> Vec<ClientName> {
    Config::load(path).expect("a good file").unpinned()
}

proptest! {
    #[test]
    fn no_secret_is_printed_at_any_position(secret in "[a-zA-Z0-9]{24}", from_env: bool) {
        let credential = format!("sk-bf-{secret}");
        let text = if from_env { "env.SECRET".to_owned() } else { credential.clone() };
        let file = json!({
            "providers": {"openai": {"kind": "openai", "api_key": text}},
            "mcp": {"client_configs": [
                {
                    "name": "web",
                    "connection_type": "http",
                    "connection_string": "https://example.com",
                    "headers": {"X-Key": text},
                },
                {"name": "fs", "connection_type": "stdio", "stdio_config": {"command": "x", "envs": [format!("TOKEN={text}")]}},
            ]},
            "governance": {"virtual_keys": [{"name": "a", "value": text}]},
        });
        let lookup = |name: &str| (name == "SECRET").then(|| credential.clone());
        let config = Config::parse(&file.to_string(), "gateway.json", &lookup).expect("a good file");
        prop_assert!(config.keys.find(&credential).is_some());
        let printed = format!("{config:?} {config:#?}");
        prop_assert!(!printed.contains(&secret));
    }

    #[test]
    fn a_secret_in_the_wrong_place_is_not_quoted(key in "(name|headers|stdio_config|disabled|sever)", nested: bool) {
        let value = if nested { json!({"a": SECRET}) } else { json!([SECRET]) };
        error(&fs_with(&key, value));
    }

    #[test]
    fn any_text_is_an_error_and_never_a_panic(text in "\\PC{0,200}") {
        let _ = Config::parse(&text, "gateway.json", &env);
    }
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

#[test]
fn what_happens_to_built_in_tools_and_to_approvals_is_read_and_checked() {
    assert_eq!(builtin(&json!({})), server::BuiltinTools::Drop);
    assert_eq!(builtin(&json!({"builtin_tools": "refuse"})), server::BuiltinTools::Refuse);
    let passing = json!({"builtin_tools": "pass", "builtin_tools_to_pass": ["web_search"]});
    assert_eq!(builtin(&passing), server::BuiltinTools::Pass(["web_search".to_owned()].into()));
    assert_snapshot!(
        error(&responses(&json!({"builtin_tools": "pass"}))),
        @r#"server.responses.builtin_tools: is "pass", and `builtin_tools_to_pass` lists no types"#
    );
    assert_snapshot!(
        error(&responses(&json!({"builtin_tools_to_pass": ["web_search"]}))),
        @r#"server.responses.builtin_tools_to_pass: has no effect unless `builtin_tools` is "pass""#
    );
    let file = json!({
        "mcp": {"tool_manager_config": {"approval": "wait", "approval_wait": "1m"}},
        "governance": {"virtual_keys": [{"name": "ann", "value": SECRET, "approval": "omit"}]},
    });
    let config = good(&file);
    assert_eq!(config.agent.approval, ApprovalChoice::Wait);
    assert_eq!(config.agent.approval_wait, std::time::Duration::from_mins(1));
    let key = config.keys.named("ann").expect("the key");
    assert_eq!(key.approval, Some(ApprovalChoice::Omit));
}

fn responses(value: &Value) -> Value {
    json!({"server": {"responses": value}})
}

fn builtin(value: &Value) -> server::BuiltinTools {
    good(&responses(value)).server.builtin_tools
}
