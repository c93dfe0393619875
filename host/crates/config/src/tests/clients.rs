//! `mcp.client_configs` and the virtual keys that open them.

use super::*;
use airlock_core::tool::{Prefix, Trust};
use airlock_mcp_client::Pinning;

#[test]
fn pins_of_a_server_are_trusted_on_first_use_unless_the_file_says_otherwise() {
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

fn pin(file: &Value) -> Pinning {
    match &good(file).clients[0].source {
        Source::Upstream(settings) => settings.pin,
        Source::Plugin(_) => panic!("it is a server"),
    }
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
fn allowlists_are_checked() {
    let file = clients(json!([
        with(
            with(stdio("a"), "tools_to_execute", json!(["read"])),
            "tools_to_auto_execute",
            json!(["READ", "write"])
        ),
        with(stdio("b"), "tools_to_execute", json!(["*", "read"])),
        with(stdio("c"), "tools_to_execute", json!(["read", "read"])),
        with(stdio("d"), "tools_to_execute", json!(["read", "Read"])),
        with(
            with(
                with(stdio("e"), "tools_to_execute", json!(["*"])),
                "tools_to_auto_execute",
                json!(["read"])
            ),
            "tools_to_approve_twice",
            json!(["Read"])
        ),
        with(
            with(
                with(stdio("f"), "tools_to_execute", json!(["*"])),
                "tools_to_auto_execute",
                json!(["*"])
            ),
            "tools_to_approve_twice",
            json!(["pay"])
        ),
    ]));
    assert_snapshot!(error(&file), @r#"
    mcp.client_configs[0].tools_to_auto_execute: "write" is not in `tools_to_execute`, so it cannot run without an approval either
    mcp.client_configs[1].tools_to_execute: "*" stands for every tool and must be the only entry
    mcp.client_configs[2].tools_to_execute: "read" is listed twice
    mcp.client_configs[4].tools_to_approve_twice: "read" is in `tools_to_auto_execute` too, so it would need no approval
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
            let prefix = client.policy.prefix.for_client(&client.name).as_str();
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
        with(stdio("f"), "prefix", json!("c")),
    ]));
    assert_snapshot!(error(&file), @r#"
    mcp.client_configs[1].name: "b" is the prefix of another client
    mcp.client_configs[3].prefix: another client has this prefix already
    mcp.client_configs[6].prefix: "c" is the name of another client
    mcp.client_configs[1].prefix: "my-files" is not a valid prefix: use a letter or `_`, then letters, digits or `_`, at most 32 characters; or "" for none
    mcp.client_configs[4].prefix: "internal" is the name of another client
    mcp.client_configs[5].prefix: belongs to a client whose `connection_type` is that of an MCP server
    mcp.client_configs[5].trust: belongs to a client whose `connection_type` is that of an MCP server
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
fn results_are_kept_of_tools_that_need_no_approval_and_by_one_rule_each() {
    let client = json!({
        "name": "fs", "connection_type": "stdio", "stdio_config": {"command": "server"},
        "tools_to_execute": ["*"], "tools_to_auto_execute": ["read", "list", "stat"],
    });
    let rules = json!([{"tools": ["read", "list"], "ttl": "5m"}, {"tools": ["stat"], "ttl": "1s", "max_bytes": "1MiB", "shared": true}]);
    let file = clients(json!([with(client.clone(), "tool_cache", rules)]));
    let [first, second] = &good(&file).clients[0].policy.cache[..] else { panic!("two rules") };
    assert!(first.tools.allows("READ") && !first.tools.allows("stat") && !first.is_shared);
    assert_eq!((first.ttl.as_secs(), first.max_bytes), (300, 16 << 20));
    assert_eq!((second.max_bytes, second.is_shared), (1 << 20, true));

    let rules = json!([
        {"tools": ["read", "write"], "ttl": "5m"}, {"tools": ["READ"], "ttl": "5m"}, {"tools": ["*"], "ttl": "5m"},
        {"tools": [], "ttl": "5m"},
    ]);
    assert_snapshot!(error(&clients(json!([with(client.clone(), "tool_cache", rules)]))), @r#"
    mcp.client_configs[0].tool_cache[0].tools: "write" is not in `tools_to_auto_execute`, and the result of a call that needs an approval is not kept
    mcp.client_configs[0].tool_cache[1].tools: "read" is named by another entry already
    mcp.client_configs[0].tool_cache[2].tools: "*" is not in `tools_to_auto_execute`, and the result of a call that needs an approval is not kept
    mcp.client_configs[0].tool_cache[2].tools: "read" is named by another entry already
    mcp.client_configs[0].tool_cache[3].tools: names no tool; name those that change nothing, or remove the entry
    "#);
    for (key, bad) in
        [("ttl", "999ms"), ("ttl", "31days"), ("max_bytes", "63KiB"), ("max_bytes", "257MiB")]
    {
        let rule = with(json!({"tools": ["read"], "ttl": "5m"}), key, json!(bad));
        let error = error(&clients(json!([with(client.clone(), "tool_cache", json!([rule]))])));
        assert!(error.contains("must be from"), "{key}: {error}");
    }
    let http = json!([{
        "name": "web", "connection_type": "http", "connection_string": "http://localhost/mcp",
        "allowed_extra_headers": ["x-user"], "tools_to_execute": ["*"], "tools_to_auto_execute": ["*"],
        "tool_cache": [{"tools": ["*"], "ttl": "5m"}],
    }]);
    assert_snapshot!(error(&clients(http)), @"mcp.client_configs[0].tool_cache: belongs to a client without `allowed_extra_headers`: results may depend on the headers of each caller");
}

#[test]
fn results_of_calls_with_the_account_of_a_user_are_not_kept() {
    for auth_type in ["per_user_oauth", "per_user_headers", "token_exchange"] {
        let http = json!([{
            "name": "web", "connection_type": "http", "connection_string": "https://up.example.com/mcp",
            "auth_type": auth_type, "tools_to_execute": ["*"], "tools_to_auto_execute": ["*"],
            "tool_cache": [{"tools": ["*"], "ttl": "5m"}],
        }]);
        let error = error(&clients(http));
        let refused = "mcp.client_configs[0].tool_cache: belongs to a client whose calls are made with the operator's credentials: results depend on the account of each user";
        assert!(error.lines().any(|line| line == refused), "{auth_type}: {error}");
    }
}

#[test]
fn a_fallback_is_a_tool_of_another_client_that_needs_no_approval_and_has_none_itself() {
    let main = json!({
        "name": "main", "connection_type": "stdio", "stdio_config": {"command": "server"},
        "tools_to_execute": ["search", "read", "a", "b", "c", "d", "e"],
    });
    let other = json!({
        "name": "other", "connection_type": "stdio", "stdio_config": {"command": "server"},
        "tools_to_execute": ["*"], "tools_to_auto_execute": ["find", "again"],
    });
    let file = clients(json!([
        with(main.clone(), "tool_fallbacks", json!({"search": "other-find"})),
        other
    ]));
    assert_eq!(good(&file).clients[0].policy.fallbacks["search"], "other-find");

    let wrong = json!({
        "write": "other-find", "a": "find", "b": "main-read", "c": "nobody-find", "d": "other-again", "e": "other-ask",
    });
    let other = with(other, "tool_fallbacks", json!({"Again": "main-read"}));
    assert_snapshot!(error(&clients(json!([with(main.clone(), "tool_fallbacks", wrong), other.clone()]))), @r#"
    mcp.client_configs[0].tool_fallbacks.a: expected the full name of a tool of another client, such as "search-web", found "find"
    mcp.client_configs[0].tool_fallbacks.b: "main-read" is a tool of the same client, which is away with it
    mcp.client_configs[0].tool_fallbacks.c: there is no client "nobody"
    mcp.client_configs[0].tool_fallbacks.d: "other-again" has a fallback itself, and a call falls back once
    mcp.client_configs[0].tool_fallbacks.e: "ask" is not in `tools_to_auto_execute` of "other": a fallback must need no approval
    mcp.client_configs[0].tool_fallbacks.write: "write" is not in `tools_to_execute`, so it is never called
    mcp.client_configs[1].tool_fallbacks.Again: "read" is not in `tools_to_auto_execute` of "main": a fallback must need no approval
    "#);
    let main = with(main, "tool_fallbacks", json!({"search": "other-find"}));
    let other = with(other, "tool_fallbacks", json!({}));
    for (main, other) in [
        (with(main.clone(), "trust", json!("trusted")), other.clone()),
        (main.clone(), with(other.clone(), "is_code_mode_client", json!(true))),
        (main.clone(), with(other, "disabled", json!(true))),
    ] {
        let error = error(&clients(json!([main, other])));
        assert!(error.contains("tool_fallbacks.search: "), "{error}");
    }
}
