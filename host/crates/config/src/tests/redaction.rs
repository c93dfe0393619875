//! Elements without their secrets, and what is restored from them.

use std::collections::BTreeSet;

use airlock_store::entries::EntryKind;

use super::*;

/// A secret that is long enough for parts of it to be shown.
fn secret(number: usize) -> String {
    format!("top-{number:02}-hunter2-hunter2-{number:02}-end")
}

/// Returns what is shown of it.
const MASKED: &str = "top-************************-end";

fn written(value: &str) -> Value {
    json!({"value": value, "env_var": "", "from_env": false})
}

fn variable(name: &str) -> Value {
    json!({"value": "", "env_var": name, "from_env": true})
}

/// A client with a secret at every key that has one.
fn client() -> Value {
    json!({
        "name": "all",
        "connection_type": "http",
        "connection_string": format!("https://ann:{}@example.com/mcp", secret(1)),
        "headers": {
            "Authorization": secret(2),
            "X-Key": {"value": secret(3)},
            "X-Both": {"value": secret(4), "env_var": "env.KEY", "from_env": true},
            "X-Variable": "env.KEY",
            "X-Short": "hunter2!",
            "X-Empty": "",
        },
        "tls_config": {"ca_cert_pem": secret(5), "ca_file": "ca.pem"},
        "oauth_config": {
            "client_id": secret(6),
            "client_secret": secret(7),
            "token_url": format!("https://example.com/token?key={}", secret(8)),
            "issuer": "https://example.com",
            "scopes": ["read"],
        },
        "stdio_config": {
            "command": "server",
            "args": ["--verbose"],
            "envs": [format!("TOKEN={}", secret(9)), "HOME", "KEY=env.OTHER", "EMPTY=", secret(10)],
            "limits": {"open_files": 64},
        },
        "docker_config": {
            "command": ["server"],
            "envs": [format!("TOKEN={}", secret(11))],
            "mounts": [{"source": "/a", "target": "/b"}],
        },
        "wasm_config": {
            "component": "p.wasm",
            "config": {"days": {"most": 3}},
            "grants": {
                "http": ["api", {"url": "https://example.com"}],
                "secret": {"token": {"from": secret(12)}, "other": {"from": "env:TOKEN"}},
            },
        },
        "restart": {"max_attempts": 3},
        "tools_to_execute": ["*"],
        "disabled": true,
    })
}

#[test]
fn an_element_is_shown_without_any_of_its_secrets() {
    let shown = redacted(EntryKind::Client, &client());
    let text = shown.to_string();
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(shown["connection_string"], written("http************************/mcp"));
    let headers = &shown["headers"];
    assert_eq!(headers["Authorization"], written(MASKED));
    assert_eq!(headers["X-Key"], written(MASKED));
    assert_eq!(headers["X-Both"], variable("env.KEY"));
    assert_eq!(headers["X-Variable"], variable("env.KEY"));
    assert_eq!(headers["X-Short"], written("********"));
    assert_eq!(headers["X-Empty"], written(""));
    assert_eq!(
        shown["stdio_config"]["envs"],
        json!([format!("TOKEN={MASKED}"), "HOME", "KEY=env.OTHER", "EMPTY=", MASKED])
    );
    assert_eq!(shown["oauth_config"]["issuer"], "https://example.com");
    let secrets = &shown["wasm_config"]["grants"]["secret"];
    assert_eq!(*secrets, json!({"token": {"from": MASKED}, "other": {"from": "env:TOKEN"}}));
    for key in ["name", "restart", "tools_to_execute", "disabled"] {
        assert_eq!(shown[key], client()[key], "{key}");
    }
    assert_eq!(shown["wasm_config"]["config"], client()["wasm_config"]["config"]);
}

#[test]
fn a_virtual_key_is_shown_without_its_credential_and_digests() {
    let digest = format!("1234{}abcd", "0".repeat(56));
    let key = json!({
        "id": "7",
        "name": "ann",
        "value": SECRET,
        "value_sha256": digest,
        "previous_value_sha256": digest,
        "mcp_configs": [{"mcp_client_name": "fs", "tools_to_execute": ["*"]}],
    });
    let expected = json!({
        "id": "7",
        "name": "ann",
        "value": written("sk-b************************ter2"),
        "value_sha256": "<redacted>",
        "previous_value_sha256": "<redacted>",
        "mcp_configs": key["mcp_configs"],
    });
    assert_eq!(redacted(EntryKind::VirtualKey, &key), expected);
    assert_eq!(written_secrets(EntryKind::VirtualKey, &key), ["value"]);
}

#[test]
fn a_url_is_a_secret_only_with_parts_in_which_there_may_be_credentials() {
    for (url, is_secret) in [
        ("https://example.com/mcp", false),
        ("http://localhost:1/", false),
        ("https://ann@example.com/mcp", true),
        ("https://:pass@example.com/mcp", true),
        ("https://example.com/mcp?key=1", true),
        ("https://example.com/mcp#key", true),
        ("hunter2-hunter2", true),
        ("ftp://example.com/x", true),
    ] {
        let element = json!({"connection_string": url});
        let shown = redacted(EntryKind::Client, &element);
        assert_eq!(shown["connection_string"]["value"] != url, is_secret, "{url}");
        let found = written_secrets(EntryKind::Client, &element);
        assert_eq!(!found.is_empty(), is_secret, "{url}");
    }
}

#[test]
fn written_secrets_are_named_by_their_keys() {
    assert_eq!(
        written_secrets(EntryKind::Client, &client()),
        [
            "connection_string",
            "headers.Authorization",
            "headers.X-Key",
            "headers.X-Both",
            "headers.X-Short",
            "tls_config.ca_cert_pem",
            "oauth_config.client_id",
            "oauth_config.client_secret",
            "oauth_config.token_url",
            "stdio_config.envs[0]",
            "stdio_config.envs[4]",
            "docker_config.envs[0]",
            "wasm_config.grants.secret.token.from",
        ]
    );
}

/// Every value of the client is replaced by every form that a value may have.
#[test]
fn a_secret_at_any_place_of_a_hostile_element_is_not_shown_unless_it_is_no_place_of_one() {
    let mut shown_at = BTreeSet::new();
    for path in paths(&client(), "") {
        for form in [json!({"a": secret(1)}), json!([[secret(1)]]), json!([{"value": secret(1)}])] {
            let mut element = client();
            *element.pointer_mut(&path).expect("a value") = form;
            let text = redacted(EntryKind::Client, &element).to_string();
            if text.contains("hunter2") {
                shown_at.insert(path.clone());
            }
        }
    }
    let of_plugin = "/wasm_config/config";
    assert!(shown_at.iter().all(|path| path.starts_with(of_plugin)), "{shown_at:?}");
    assert!(!shown_at.is_empty());
    let mut element = client();
    for path in paths(&client(), "") {
        if let Some(Value::Object(members)) = element.pointer_mut(&path)
            && !path.starts_with(of_plugin)
        {
            members.insert("unknown".to_owned(), json!({"a": [secret(1), 12_345]}));
            members.insert("other".to_owned(), secret(2).into());
        }
    }
    element["unknown"] = secret(1).into();
    element["number"] = 12_345.into();
    let text = redacted(EntryKind::Client, &element).to_string();
    assert!(!text.contains("hunter2") && !text.contains("12345"), "{text}");
    for element in [json!(SECRET), json!([SECRET]), json!(12_345)] {
        assert_eq!(redacted(EntryKind::Client, &element), "<redacted>");
    }
}

/// Returns the JSON Pointers of all values below one.
fn paths(value: &Value, outer: &str) -> Vec<String> {
    let inner: Vec<_> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let inner = inner.into_iter().flat_map(|(name, value)| {
        let path = format!("{outer}/{name}");
        let below = paths(value, &path);
        [path].into_iter().chain(below)
    });
    inner.collect()
}

#[test]
fn an_element_that_is_sent_back_as_it_was_shown_is_the_stored_one() {
    let shown = redacted(EntryKind::Client, &client());
    assert_eq!(restore(EntryKind::Client, &client(), &shown), client());
}

#[test]
fn edits_of_a_shown_element_are_taken_and_the_other_secrets_are_kept() {
    let mut sent = redacted(EntryKind::Client, &client());
    sent["name"] = json!("other");
    sent["headers"]["Authorization"] = json!("new");
    sent["headers"]["X-Key"] = json!(MASKED);
    sent["headers"]["X-Short"] = json!("<redacted>");
    sent["headers"]["X-New"] = json!(MASKED);
    sent["oauth_config"]["client_secret"] = json!({"value": "[REDACTED]"});
    sent["stdio_config"]["envs"] = json!(["NEW=1", MASKED, format!("TOKEN={MASKED}")]);
    sent["wasm_config"]["grants"]["secret"]["token"]["reveal"] = json!(true);
    sent["wasm_config"]["grants"]["http"][1]["private"] = json!(true);
    sent.as_object_mut().expect("members").shift_remove("tls_config");
    let mut expected = client();
    expected["name"] = json!("other");
    expected["headers"]["Authorization"] = json!("new");
    expected["headers"]["X-New"] = json!(MASKED);
    expected["stdio_config"]["envs"] = json!(["NEW=1", secret(10), format!("TOKEN={}", secret(9))]);
    expected["wasm_config"]["grants"]["secret"]["token"]["reveal"] = json!(true);
    expected["wasm_config"]["grants"]["http"][1]["private"] = json!(true);
    expected.as_object_mut().expect("members").shift_remove("tls_config");
    assert_eq!(restore(EntryKind::Client, &client(), &sent), expected);
}

#[test]
fn a_secret_is_kept_only_in_its_own_place() {
    let stored = json!({"headers": {"X-A": secret(1), "X-B": "env.KEY"}});
    for (name, sent) in [
        ("X-C", written(MASKED)),
        ("X-A", written("top-****-end")),
        ("X-A", variable("env.KEY")),
        ("X-B", written(MASKED)),
    ] {
        let sent = json!({"headers": with(json!({}), name, sent)});
        assert_eq!(restore(EntryKind::Client, &stored, &sent), sent, "{name}");
    }
}
