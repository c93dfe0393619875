//! `wasm_config`.

use std::path::Path;

use super::*;
use airlock_core::{
    limit::{GuestLimit, GuestLimitSet},
    tool::Allowlist,
};
use airlock_plugin::{FilesGrant, Grant, PartialQuota};
use airlock_sandbox::Access;

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
    assert_eq!(client.policy.execute, Allowlist::All);
    let Source::Plugin(plugin) = &client.source else { panic!("a plugin") };
    assert_eq!(plugin.component.file(), Some(Path::new("/etc/airlock/p.wasm")));
    let files = FilesGrant {
        path: "/etc/airlock/data".into(),
        access: Access::ReadOnly,
        quota: PartialQuota::default(),
    };
    let expected = Grant {
        files: [("in".to_owned(), files)].into(),
        tools: vec!["p-read-it".into()],
        limits: GuestLimitSet::default()
            .with(GuestLimit::Deadline, 250_000_000)
            .with(GuestLimit::Memory, 1 << 20),
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
