//! `server`.

use std::time::UNIX_EPOCH;

use super::*;
use airlock_core::door::ApprovalChoice;
use airlock_identity::TokenApis;
use airlock_ingress::{ClientAuth, TlsSettings};
use airlock_responses::BuiltinTools;
use airlock_server as server;

#[test]
fn a_public_listen_address_needs_virtual_keys() {
    assert_snapshot!(
        error(&json!({"server": {"listen": "0.0.0.0:80"}})),
        @"server.listen: 0.0.0.0:80 can be reached from other machines: set `server.require_virtual_key` to true, or listen on 127.0.0.1"
    );
    let closed = json!({"listen": "0.0.0.0:80", "require_virtual_key": true});
    assert_snapshot!(
        error(&json!({"server": closed, "management": {"disabled": true}})),
        @"server.require_virtual_key: is true, but `governance.virtual_keys` has no active key, there is no `mcp_server.oauth`, and `management.disabled` lets no operator add a key: every request would be refused"
    );
    assert!(good(&json!({"server": closed})).server.require_virtual_key, "keys are added later");
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
    assert!(config.keys.find(&format!("{SECRET}-GOOD"), None, UNIX_EPOCH).is_some());
}

#[test]
fn access_tokens_close_the_gateway_as_virtual_keys_do() {
    let oauth = json!({
        "issuer": "https://idp.example.com", "resource": "https://gw.example.com/mcp",
        "views": [{"claim": "groups", "value": "staff", "roles": ["reader"]}],
    });
    let mut file = json!({
        "governance": {"roles": [{"name": "reader", "mcp_configs": []}]},
        "mcp_server": {"oauth": oauth},
        "management": {"disabled": true},
    });
    assert!(good(&file).server.require_virtual_key, "no virtual key is needed for it");
    file["server"] = json!({"listen": "0.0.0.0:80"});
    assert!(good(&file).server.require_virtual_key);
    file["server"] = json!({"require_virtual_key": true});
    assert!(good(&file).server.require_virtual_key, "tokens are credentials");
    file["server"] = json!({"require_virtual_key": false});
    assert!(!good(&file).server.require_virtual_key, "the operator says so");
    assert_eq!(good(&file).oauth.expect("it is set").apis, TokenApis::Mcp);
    file["mcp_server"]["oauth"]["apis"] = json!("all");
    assert_eq!(good(&file).oauth.expect("it is set").apis, TokenApis::All);
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
fn what_happens_to_built_in_tools_and_to_approvals_is_read_and_checked() {
    assert_eq!(builtin(&json!({})), BuiltinTools::Drop);
    assert_eq!(builtin(&json!({"builtin_tools": "refuse"})), BuiltinTools::Refuse);
    let passing = json!({"builtin_tools": "pass", "builtin_tools_to_pass": ["web_search"]});
    assert_eq!(builtin(&passing), BuiltinTools::Pass(["web_search".to_owned()].into()));
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

fn builtin(value: &Value) -> BuiltinTools {
    good(&responses(value)).server.builtin_tools
}

/// Returns a file with TLS and these keys of it.
#[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
fn tls(more: Value) -> Value {
    let mut tls = json!({"certificate": "c.pem", "key": "k.pem"});
    tls.as_object_mut().expect("an object").extend(more.as_object().expect("more").clone());
    json!({"server": {"tls": tls}})
}

fn replica(url: &str) -> Value {
    let trust = json!({"ca_file": "ca.pem", "client_certificate": "c.pem", "client_key": "k.pem"});
    json!({"server": {"replica_url": url, "replica_tls": trust}})
}

#[test]
fn certificates_between_gateways_need_https_and_the_private_key_is_kept_from_plugins() {
    let config = good(&replica("https://10.0.0.5"));
    let own = config.own_files(Path::new("gateway.json"));
    assert!(own.unreadable.iter().any(|path| path == Path::new("/etc/airlock/k.pem")));
    for name in ["ca.pem", "c.pem"] {
        let path = Path::new("/etc/airlock").join(name);
        assert!(own.unwritable.contains(&path), "{name}");
    }
    assert_snapshot!(error(&replica("http://10.0.0.5")), @"server.replica_tls: needs a `replica_url` beside it that begins with https://");
}

#[test]
fn requests_are_recorded_only_if_that_is_set() {
    assert_eq!(good(&json!({})).server.debug_requests, None);
    let debug = good(&json!({"server": {"debug_requests": {}}})).server.debug_requests;
    let expected = server::DebugSettings { max: 100, max_bytes: 64 << 20 };
    assert_eq!(debug, Some(expected));
}

#[test]
fn the_files_of_tls_are_relative_to_the_configuration_and_certificates_need_an_authority() {
    assert_eq!(good(&json!({})).server.tls, None);
    let expected = TlsSettings {
        certificate: "/etc/airlock/c.pem".into(),
        key: "/etc/airlock/k.pem".into(),
        client_ca: None,
        client_crl: Vec::new(),
        client_auth: ClientAuth::None,
    };
    assert_eq!(good(&tls(json!({}))).server.tls, Some(expected));
    for (auth, expected) in [
        (Value::Null, ClientAuth::Required),
        (json!("required"), ClientAuth::Required),
        (json!("optional"), ClientAuth::Optional),
        (json!("none"), ClientAuth::None),
    ] {
        let config = good(&tls(json!({"client_ca": "ca.pem", "client_auth": auth})));
        let tls = config.server.tls.expect("it has TLS");
        assert_eq!(tls.client_auth, expected);
        assert_eq!(tls.client_ca, Some("/etc/airlock/ca.pem".into()));
    }
    assert_snapshot!(error(&tls(json!({"client_auth": "required"}))), @"server.tls.client_auth: needs a `client_ca` beside it: the authorities that sign the certificates");
    let lists = good(&tls(json!({"client_ca": "ca.pem", "client_crl": ["a.pem"]}))).server.tls;
    assert_eq!(lists.expect("it has TLS").client_crl, [Path::new("/etc/airlock/a.pem")]);
    assert_snapshot!(error(&tls(json!({"client_crl": ["a.pem"]}))), @"server.tls.client_crl: needs a `client_ca` beside it, and callers that show certificates");
    assert_snapshot!(error(&tls(json!({"client_ca": "ca.pem", "client_crl": vec!["a"; 9]}))), @"server.tls.client_crl: has more than 8 entries");
    assert_snapshot!(error(&tls(json!({"certificate": ""}))), @"server.tls.certificate: is empty");
    for key in ["certificate", "key", "client_ca"] {
        for content in ["-----BEGIN PRIVATE KEY-----hunter2", "hunter2\n"] {
            assert_eq!(
                error(&tls(json!({key: content}))),
                format!(
                    "server.tls.{key}: expected the path of a PEM file, and not its content: without line breaks, and up to 4096 bytes"
                )
            );
        }
    }
    // TLS is no authentication.
    let open = json!({"server": {
        "listen": "0.0.0.0:443",
        "tls": {"certificate": "c", "key": "k", "client_ca": "a"},
    }});
    assert!(error(&open).starts_with("server.listen: 0.0.0.0:443 can be reached"));
}

#[test]
fn plugins_cannot_read_private_keys_and_cannot_replace_certificates() {
    let file = json!({
        "server": {"tls": {"certificate": "c.pem", "key": "k.pem", "client_ca": "ca.pem"}},
        "providers": {"openai": {
            "api_key": "env.GOOD", "ca": "p-ca.pem", "client_certificate": "p.pem", "client_key": "p-key.pem",
        }},
        "mcp": {"client_configs": [{
            "name": "web", "connection_type": "http", "connection_string": "https://example.com/mcp",
            "tls_config": {"client_certificate": "w.pem", "client_key": "w-key.pem", "ca_file": "w-ca.pem"},
        }]},
    });
    let files = good(&file).own_files("/etc/airlock/airlock.json".as_ref());
    for name in ["k.pem", "p-key.pem", "w-key.pem"] {
        assert!(files.unreadable.contains(&format!("/etc/airlock/{name}").into()), "{name}");
    }
    for name in ["c.pem", "k.pem", "ca.pem", "p.pem", "p-ca.pem", "w.pem", "w-ca.pem"] {
        assert!(files.unwritable.contains(&format!("/etc/airlock/{name}").into()), "{name}");
    }
}
