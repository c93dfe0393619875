//! Settings of MCP servers that are reached over HTTP.

use airlock_core::secret::Secret;
use airlock_mcp_oauth::{ExtraHeaders, HttpSettings, MAX_SCOPES_BYTES, Oauth};
use airlock_tls::{Authorities, IdentitySource, KeySource};

use super::*;

#[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
fn client(connection_type: &str, more: Value) -> Value {
    let mut client = json!({"name": "web", "connection_type": connection_type, "connection_string": "https://example.com/mcp"});
    let members = client.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    clients(json!([client]))
}

fn settings(file: &Value) -> HttpSettings {
    let config = good(file);
    let Source::Upstream(upstream) = &config.clients[0].source else { panic!("no server") };
    upstream.transport.http().expect("HTTP").clone()
}

#[test]
fn the_settings_of_http_and_sse_are_the_same() {
    let more = json!({
        "allowed_extra_headers": ["X-Tenant", "authorization"],
        "tls_config": {"ca_file": "ca.pem"},
        "allow_private": true,
    });
    let expected = HttpSettings {
        extra_headers: ExtraHeaders::Named(["authorization", "x-tenant"].map(str::to_owned).into()),
        authorities: Authorities::File("/etc/airlock/ca.pem".into()),
        allow_private: true,
        ..HttpSettings::new("https://example.com/mcp")
    };
    for connection_type in ["http", "sse"] {
        let file = client(connection_type, more.clone());
        assert_eq!(settings(&file), expected);
        let Source::Upstream(upstream) = &good(&file).clients[0].source else { panic!("none") };
        assert_eq!(upstream.transport.connection_type(), connection_type);
    }
    let all = settings(&client("http", json!({"allowed_extra_headers": ["*"]})));
    assert_eq!((all.extra_headers, all.allow_private), (ExtraHeaders::All, false));
    let none = settings(&client("http", json!({"tls_config": {}})));
    assert_eq!((none.extra_headers, none.authorities), (ExtraHeaders::None, Authorities::System));
    let pem = settings(&client("http", json!({"tls_config": {"ca_cert_pem": "PEM"}})));
    assert_eq!(pem.authorities, Authorities::Pem("PEM".into()));
}

#[test]
fn headers_and_certificates_that_cannot_be_used_are_refused() {
    let names = json!(["Host", "mcp-param-x", "a b", "x", "X", "*"]);
    assert_snapshot!(error(&client("http", json!({"allowed_extra_headers": names}))), @r#"
    mcp.client_configs[0].allowed_extra_headers[0]: is set by the transport itself
    mcp.client_configs[0].allowed_extra_headers[1]: is set by the transport itself
    mcp.client_configs[0].allowed_extra_headers[2]: is not a valid header name
    mcp.client_configs[0].allowed_extra_headers[4]: is listed twice (case does not count)
    mcp.client_configs[0].allowed_extra_headers[5]: "*" stands for every header and must be the only entry
    "#);
    let tls = json!({"ca_cert_pem": "x", "ca_file": "y"});
    assert_snapshot!(error(&client("sse", json!({"tls_config": tls}))), @"mcp.client_configs[0].tls_config: has both `ca_cert_pem` and `ca_file`; choose one");
    let insecure = json!({"insecure_skip_verify": true});
    assert_snapshot!(error(&client("http", json!({"tls_config": insecure}))), @"mcp.client_configs[0].tls_config.insecure_skip_verify: this build does not act on it: certificates are always checked; put the server's own authority into `ca_cert_pem` or `ca_file`");
    let foreign = json!({"allowed_extra_headers": ["*"], "tls_config": {}, "allow_private": true, "stdio_config": {"command": "x"}, "connection_string": null});
    assert_snapshot!(error(&client("stdio", foreign)), @r#"
    mcp.client_configs[0].allowed_extra_headers: belongs to a client whose `connection_type` is "http" or "sse"
    mcp.client_configs[0].tls_config: belongs to a client whose `connection_type` is "http" or "sse"
    mcp.client_configs[0].allow_private: belongs to a client whose `connection_type` is "http" or "sse"
    "#);
}

#[tokio::test]
async fn certificates_of_a_server_are_checked_with_the_other_files() {
    let file = client("http", json!({"tls_config": {"ca_cert_pem": "none"}}));
    let error = good(&file).check_files("gateway.json").await.expect_err("no certificate");
    assert_snapshot!(error.to_string(), @r#"gateway.json: mcp.client_configs[name = "web"].tls_config.ca_cert_pem: the text has no certificate in PEM format"#);
}

#[tokio::test]
async fn a_certificate_for_a_server_needs_its_key_which_is_never_written_in_the_file() {
    let both = json!({"client_certificate": "own.pem", "client_key": "key.pem"});
    let file = settings(&client("http", json!({"tls_config": both})));
    let certificate = std::path::PathBuf::from("/etc/airlock/own.pem");
    let key = KeySource::File("/etc/airlock/key.pem".into());
    assert_eq!(file.identity, Some(IdentitySource { certificate: certificate.clone(), key }));
    let both = json!({"client_certificate": "own.pem", "client_key": "env.GOOD"});
    let variable = settings(&client("http", json!({"tls_config": both})));
    let key = KeySource::Pem(Secret::new(format!("{SECRET}-GOOD")));
    assert_eq!(variable.identity, Some(IdentitySource { certificate, key }));
    for (tls, expected) in [
        (json!({"client_certificate": "a"}), ".client_certificate: needs a `client_key` beside it"),
        (json!({"client_key": "a"}), ".client_key: needs a `client_certificate` beside it"),
        (
            json!({"client_certificate": "a", "client_key": "env.GONE"}),
            ".client_key: the environment variable GONE is not set",
        ),
        (
            json!({"ca_file": "a\nb"}),
            ".ca_file: expected the path of a PEM file, and not its content: without line breaks, and up to 4096 bytes",
        ),
    ] {
        let found = error(&client("http", json!({"tls_config": tls})));
        assert_eq!(found, format!("mcp.client_configs[0].tls_config{expected}"));
    }
    // The second is Base64 without the lines around it.
    let der = format!("MIGHAgEAhunter2{}", "A".repeat(160));
    for key in ["-----BEGIN PRIVATE KEY-----hunter2", der.as_str()] {
        let written = json!({"client_certificate": "a", "client_key": key});
        let found = error(&client("http", json!({"tls_config": written})));
        assert!(found.contains("client_key") && found.contains("never written here"), "{found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
    let plain = json!({
        "connection_string": "http://example.com/mcp",
        "tls_config": {"client_certificate": "a", "client_key": "b"},
    });
    assert_snapshot!(error(&client("http", plain)), @"mcp.client_configs[0].tls_config.client_certificate: is shown on connections with TLS only, so that the URL must begin with https://");

    let missing =
        json!({"client_certificate": "/nowhere/own.pem", "client_key": "/nowhere/key.pem"});
    let file = client("http", json!({"tls_config": missing}));
    let error = good(&file).check_files("gateway.json").await.expect_err("no certificate");
    assert_snapshot!(error.to_string(), @r#"gateway.json: mcp.client_configs[name = "web"].tls_config.client_certificate: the file /nowhere/own.pem cannot be read: No such file or directory (os error 2)"#);
}

#[test]
fn a_client_of_an_authorization_server_is_read() {
    let none = settings(&client("http", json!({"auth_type": "oauth"})));
    assert_eq!(none.oauth, Some(Oauth::default()));
    assert_eq!(settings(&client("sse", json!({"auth_type": "headers"}))).oauth, None);
    let all = settings(&client(
        "http",
        json!({"auth_type": "oauth", "oauth_config": {
            "client_id": "id", "client_secret": {"value": "s3cr3t"},
            "client_metadata_url": "https://example.com/client.json",
            "issuer": "https://as.example.com",
            "authorize_url": "https://as.example.com/authorize",
            "token_url": "https://as.example.com/token",
            "registration_url": "https://as.example.com/register",
            "scopes": ["read", "https://example.com/write"],
        }}),
    ));
    let expected = Oauth {
        client_id: Some("id".to_owned()),
        client_secret: Some(Secret::new("s3cr3t")),
        client_metadata_url: Some("https://example.com/client.json".to_owned()),
        issuer: Some("https://as.example.com".to_owned()),
        authorize_url: Some("https://as.example.com/authorize".to_owned()),
        token_url: Some("https://as.example.com/token".to_owned()),
        registration_url: Some("https://as.example.com/register".to_owned()),
        scopes: vec!["read".to_owned(), "https://example.com/write".to_owned()],
    };
    assert!(!format!("{:?}", all.oauth).contains("s3cr3t"));
    assert_eq!(all.oauth, Some(expected));
}

#[test]
fn a_client_of_an_authorization_server_that_cannot_work_is_refused() {
    let oauth = json!({
        "client_secret": "s3cr3t", "client_metadata_url": "https://example.com/",
        "authorize_url": "javascript:alert(1)", "token_url": "https://user@example.com/",
        "scopes": ["read write", "", "ok"],
    });
    let more = json!({
        "auth_type": "oauth", "oauth_config": oauth, "headers": {"Authorization": "Bearer x"},
        "allowed_extra_headers": ["authorization"],
    });
    assert_snapshot!(error(&client("http", more)), @r#"
    mcp.client_configs[0].oauth_config.authorize_url: expected a URL that starts with https:// or http://, without a user name
    mcp.client_configs[0].oauth_config.token_url: expected a URL that starts with https:// or http://, without a user name
    mcp.client_configs[0].oauth_config.scopes[0]: is not a valid scope: use up to 256 printable characters without spaces
    mcp.client_configs[0].oauth_config.scopes[1]: is not a valid scope: use up to 256 printable characters without spaces
    mcp.client_configs[0].oauth_config.client_secret: needs a `client_id` beside it
    mcp.client_configs[0].oauth_config.client_metadata_url: must begin with https:// and have a path, because it is the client's identifier
    mcp.client_configs[0].headers: has `authorization`, which the access token of the `auth_type` replaces
    mcp.client_configs[0].allowed_extra_headers: has `authorization`, which the access token of the `auth_type` replaces
    "#);
    assert_snapshot!(error(&client("http", json!({"oauth_config": {}}))), @r#"mcp.client_configs[0].oauth_config: belongs to a client whose `auth_type` is "oauth" or "per_user_oauth""#);
    assert_snapshot!(error(&client("http", json!({"oauth_config_id": "x"}))), @"mcp.client_configs[0].oauth_config_id: this build does not act on it: the settings are in `oauth_config`");
    for (oauth, reason) in [
        (
            json!({"client_id": "id", "client_secret": "s3cr3t"}),
            "client_secret: needs the `issuer`",
        ),
        (json!({"authorize_url": "https://a.example.com/"}), "authorize_url: needs a `token_url`"),
        (json!({"token_url": "https://a.example.com/"}), "token_url: needs an `authorize_url`"),
        (json!({"issuer": "a.example.com"}), "issuer: expected a URL"),
    ] {
        let error = error(&client("http", json!({"auth_type": "oauth", "oauth_config": oauth})));
        assert!(error.contains(reason), "{error}");
    }
    let bound = json!({"client_id": "id", "client_secret": "s", "issuer": "https://a.example.com"});
    settings(&client("http", json!({"auth_type": "oauth", "oauth_config": bound})));
    let stdio = json!({"name": "fs", "connection_type": "stdio", "stdio_config": {"command": "x"}, "auth_type": "oauth"});
    assert_snapshot!(error(&clients(json!([stdio]))), @r#"mcp.client_configs[0].auth_type: belongs to a client whose `connection_type` is "http" or "sse""#);
}

#[test]
fn scopes_that_a_request_has_no_room_for_are_refused_and_not_cut() {
    for (scopes, bytes) in [(16, 255), (16, 256), (80, 50), (81, 50)] {
        let scopes: Vec<_> = (0..scopes).map(|at| format!("{at:0bytes$}")).collect();
        let total = scopes.len() * (bytes + 1);
        let expected = format!(
            "scopes: takes {total} bytes with a space after each scope; expected at most 4096"
        );
        let oauth = json!({"auth_type": "oauth", "oauth_config": {"scopes": scopes}});
        let exchange = json!({
            "audience": "api://up", "client_id": "id", "scopes": scopes,
            "token_url": "https://as.example.com/token",
        });
        for file in [client("http", oauth), with_exchange(exchange)] {
            let is_refused = parse(&file).is_err_and(|error| {
                error.problems().iter().any(|problem| problem.to_string().ends_with(&expected))
            });
            assert_eq!(is_refused, total > MAX_SCOPES_BYTES, "{total}");
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
fn with_user_headers(keys: Value) -> Value {
    client("http", json!({"auth_type": "per_user_headers", "per_user_header_keys": keys}))
}

#[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
fn with_exchange(exchange: Value) -> Value {
    client("http", json!({"auth_type": "token_exchange", "token_exchange": exchange}))
}

#[test]
fn headers_of_users_are_named_once_and_are_not_those_of_the_transport() {
    let read = settings(&with_user_headers(json!(["X-Api-Key", "authorization"])));
    let names: Vec<_> =
        read.user_headers().expect("it has some").iter().map(ToString::to_string).collect();
    assert_eq!(names, ["x-api-key", "authorization"]);
    assert_snapshot!(error(&with_user_headers(json!(["Host", "x y", "x-a", "X-A", "mcp-session-id"]))), @"
    mcp.client_configs[0].per_user_header_keys[0]: is set by the transport itself
    mcp.client_configs[0].per_user_header_keys[1]: is not a valid header name
    mcp.client_configs[0].per_user_header_keys[3]: is listed twice (case does not count)
    mcp.client_configs[0].per_user_header_keys[4]: is set by the transport itself
    ");
    assert_snapshot!(error(&with_user_headers(json!([]))), @r#"mcp.client_configs[0].per_user_header_keys: is required with the `auth_type` "per_user_headers": name the headers whose values each user enters"#);
    let many: Vec<_> = (0..9).map(|number| format!("x-{number}")).collect();
    assert_snapshot!(error(&with_user_headers(json!(many))), @"mcp.client_configs[0].per_user_header_keys: has more than 8 entries");
    assert_snapshot!(error(&client("http", json!({"per_user_header_keys": ["x-a"]}))), @r#"mcp.client_configs[0].per_user_header_keys: belongs to a client whose `auth_type` is "per_user_headers""#);
    let passed_on = json!({
        "auth_type": "per_user_headers", "per_user_header_keys": ["x-a"], "allowed_extra_headers": ["x-a"],
    });
    assert_snapshot!(error(&client("http", passed_on)), @"mcp.client_configs[0].allowed_extra_headers: has `x-a`, which the credentials of the `auth_type` replace");
}

#[test]
fn credentials_of_users_are_not_sent_over_plain_http_to_a_public_server() {
    let of_users = json!({
        "auth_type": "per_user_headers", "per_user_header_keys": ["x-a"],
        "connection_string": "http://mcp.example.com/mcp",
    });
    assert_snapshot!(error(&client("http", of_users.clone())), @"mcp.client_configs[0].connection_string: credentials cannot be sent to the URL of the server: it must begin with https://, unless its host is localhost or a private IP address");
    let private = with(of_users, "connection_string", json!("http://127.0.0.1/mcp"));
    settings(&client("http", private));
    settings(&client("http", json!({"connection_string": "http://mcp.example.com/mcp"})));
}

#[test]
fn an_exchange_of_tokens_names_its_server_and_needs_callers_with_tokens() {
    let good = json!({
        "token_url": "https://as.example.com/token", "client_id": "gateway", "client_secret": "env.GOOD",
        "audience": "api://up", "scopes": ["read"], "subject_token_type": "jwt",
    });
    let oauth = json!({
        "issuer": "https://issuer.example.com", "resource": "https://airlock.example.com/mcp",
        "views": [{"claim": "sub", "value": "ann", "virtual_key": "ann"}],
    });
    let key = json!({"virtual_keys": [{"name": "ann", "value": "env.GOOD"}]});
    let file = with(with_exchange(good.clone()), "mcp_server", json!({"oauth": oauth}));
    let read = settings(&with(file, "governance", key));
    let read = read.token_exchange().expect("it exchanges");
    assert_eq!((read.client_id.as_str(), read.audience.as_deref()), ("gateway", Some("api://up")));
    assert_snapshot!(error(&with_exchange(good)), @r#"mcp_server.oauth: is required, because the client "web" has the `auth_type` "token_exchange": it exchanges the access tokens of callers"#);
    assert_snapshot!(error(&with_exchange(json!({"authorization_server_url": "https://x", "token_url": "ftp://x"}))), @"
    mcp.client_configs[0].token_exchange.authorization_server_url: use `token_url`, the URL of its token endpoint
    mcp.client_configs[0].token_exchange.audience: is required, or `resource`: without either, the token might be for another server
    mcp.client_configs[0].token_exchange.token_url: expected a URL that starts with https:// or http://, without a user name
    mcp.client_configs[0].token_exchange.client_id: is required, but missing
    ");
    assert_snapshot!(error(&client("http", json!({"auth_type": "token_exchange"}))), @"mcp.client_configs[0].token_exchange: is required, but missing");
}

/// Returns a client with several URLs.
fn balanced(urls: &Value, more: Value) -> Value {
    let mut file = client("http", more);
    let element = file["mcp"]["client_configs"][0].as_object_mut().expect("an object");
    element.remove("connection_string");
    element.insert("connection_strings".to_owned(), urls.clone());
    file
}

#[test]
fn several_urls_are_instances_with_the_same_settings() {
    let urls = json!(["https://a.example.com/mcp", "https://b.example.com/mcp"]);
    let config = good(&balanced(&urls, json!({"headers": {"x-tenant": "everyone"}})));
    let Source::Upstream(upstream) = &config.clients[0].source else { panic!("no server") };
    let instances: Vec<_> = upstream.instances().collect();
    let found = instances.iter().map(|one| one.transport.http().expect("HTTP"));
    let found: Vec<_> = found.map(|http| (http.url.as_str(), http.headers.len())).collect();
    assert_eq!(found, [("https://a.example.com/mcp", 1), ("https://b.example.com/mcp", 1)]);
    let one = good(&balanced(&json!(["https://a.example.com/mcp"]), json!({})));
    let Source::Upstream(upstream) = &one.clients[0].source else { panic!("no server") };
    assert!(upstream.others.is_empty());
}

#[test]
fn urls_that_cannot_be_balanced_are_refused() {
    let urls = json!(["https://a/mcp", "https://a/mcp", "ftp://b", "env.UNSET"]);
    assert_snapshot!(error(&balanced(&urls, json!({}))), @"
    mcp.client_configs[0].connection_strings[1]: is the URL of an earlier entry; name each server once
    mcp.client_configs[0].connection_strings[2]: expected a URL that starts with http:// or https://
    mcp.client_configs[0].connection_strings[3]: the environment variable UNSET is not set
    ");
    let many: Vec<_> = (0..17).map(|n| format!("https://s{n}/mcp")).collect();
    good(&balanced(&json!(many[..16]), json!({})));
    assert_snapshot!(error(&balanced(&json!(many), json!({}))), @"mcp.client_configs[0].connection_strings: has 17 URLs; expected 1 to 16");
    assert_snapshot!(error(&balanced(&json!([]), json!({}))), @"mcp.client_configs[0].connection_strings: has 0 URLs; expected 1 to 16");
    let both = client("http", json!({"connection_strings": ["https://a/mcp"]}));
    assert_snapshot!(error(&both), @"mcp.client_configs[0].connection_strings: is beside `connection_string`; exactly one of both is needed");
    let two = json!(["https://a/mcp", "https://b/mcp"]);
    for auth_type in ["oauth", "per_user_oauth"] {
        let refused = error(&balanced(&two, json!({"auth_type": auth_type})));
        assert!(refused.contains("a credential is for one server"), "{refused}");
    }
}
