//! Values from the environment, and secrets in messages.

use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;

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
        prop_assert!(config.keys.find(&credential, None, UNIX_EPOCH).is_some());
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
