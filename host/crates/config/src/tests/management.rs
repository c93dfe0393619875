//! `management`: the socket and the operators of the file.

use super::*;
use airlock_core::{
    door::credential_digest,
    operator::{Operator, Role},
};
use airlock_operator_api::{ConfiguredOperator, ManagementSettings};

/// A token of the least length.
const TOKEN: &str = "hunter2-hunter2-hunter2-hunter2-";

fn management(section: &Value) -> Value {
    json!({"management": section})
}

fn settings(section: &Value) -> ManagementSettings {
    good(&management(section)).server.management
}

fn operators(operators: Value) -> Value {
    management(&with(json!({}), "operators", operators))
}

#[test]
fn the_socket_is_beside_the_file_unless_the_file_says_otherwise() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    for (section, expected) in [
        (json!({}), Some("airlock.sock")),
        (json!({"socket": "run/own.sock"}), Some("run/own.sock")),
        (json!({"socket": ""}), None),
        (json!({"disabled": true}), None),
        (json!({"disabled": true, "socket": "own.sock"}), None),
    ] {
        std::fs::write(&path, management(&section).to_string()).expect("a file");
        let config = Config::load(&path).expect("a good file");
        let expected = expected.map(|name| directory.path().join(name));
        assert_eq!(config.server.management.socket, expected, "{section}");
        let off_limits = config.sandbox.off_limits.unwritable;
        assert!(expected.is_none_or(|socket| off_limits.contains(&socket)), "{section}");
    }
    // A configuration that has no file has no default.
    assert_eq!(settings(&json!({})), ManagementSettings::default());
    let socket = settings(&json!({"socket": "own.sock"})).socket;
    assert_eq!(socket.as_deref(), Some(Path::new("/etc/airlock/own.sock")));
}

#[test]
fn the_path_of_a_socket_is_as_long_as_the_system_permits() {
    let longest = "s".repeat(107 - "/etc/airlock/".len());
    assert!(settings(&json!({"socket": longest})).socket.is_some());
    assert_snapshot!(
        error(&management(&json!({"socket": format!("{longest}s")}))),
        @r#"
    management.socket: the path of a socket has at most 107 bytes, found 108 with the directory of this file
    "#
    );
}

#[test]
fn operators_have_a_role_and_a_token_that_is_kept_as_its_digest() {
    let file = operators(json!([
        {"name": "ann", "role": "admin", "token": "env.TOKEN", "sees_payloads": true},
        {"name": "bob", "role": "viewer", "token_sha256": "ab".repeat(32)},
        {"name": "cid", "role": "approver", "token": TOKEN},
        {"name": "dan", "role": "operator", "token": format!("{TOKEN}2")},
    ]));
    let config =
        Config::parse(&file.to_string(), "gateway.json", &token_of_ann).expect("a good file");
    let found = config.server.management.operators;
    assert!(!format!("{found:?}").contains("171"), "a digest is printed");
    assert_eq!(
        found,
        [
            configured("ann", Role::Admin, true, credential_digest(&format!("{TOKEN}1"))),
            configured("bob", Role::Viewer, false, [0xab; 32]),
            configured("cid", Role::Approver, false, credential_digest(TOKEN)),
            configured("dan", Role::Operator, false, credential_digest(&format!("{TOKEN}2"))),
        ]
    );
}

fn token_of_ann(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| format!("{TOKEN}1"))
}

fn configured(
    name: &str,
    role: Role,
    sees_payloads: bool,
    token_digest: [u8; 32],
) -> ConfiguredOperator {
    let operator = Operator { name: name.to_owned(), role, sees_payloads };
    ConfiguredOperator { operator, token_digest }
}

#[test]
fn operators_that_cannot_be_told_apart_and_tokens_that_could_be_guessed_are_refused() {
    let role = "viewer";
    let file = operators(json!([
        {"name": "a", "role": role, "token": TOKEN},
        {"name": "a", "role": role, "token_sha256": "00".repeat(32)},
        {"name": "b", "role": role, "token": TOKEN},
        {"name": "c", "role": role, "token": &TOKEN[1..]},
        {"name": "d", "role": role, "token": format!("{TOKEN} ")},
        {"name": "e", "role": role, "token": format!("SK-BF-{TOKEN}")},
        {"name": "f", "role": role, "token": "env.UNSET"},
        {"name": "g", "role": role, "token_sha256": TOKEN},
        {"name": "h", "role": role},
        {"name": "i", "role": role, "token": TOKEN, "token_sha256": "01".repeat(32)},
        {"name": " ", "role": role, "token_sha256": "02".repeat(32)},
        {"name": "n".repeat(65), "role": role, "token_sha256": "03".repeat(32)},
        {"name": "n".repeat(64), "role": role, "token_sha256": "04".repeat(32)},
        {"name": "j\n", "role": role, "token_sha256": "05".repeat(32)},
        {"name": "k", "role": "Admin", "token_sha256": "06".repeat(32)},
    ]));
    assert_snapshot!(error(&file), @r#"
    management.operators[14].role: found "Admin"; did you mean "admin"? Valid: "viewer", "approver", "operator" or "admin"
    management.operators[1].name: another operator is named "a" already
    management.operators[2].token: is the same as that of the operator "a"
    management.operators[3].token: must have at least 32 ASCII characters, without spaces
    management.operators[4].token: must have at least 32 ASCII characters, without spaces
    management.operators[5].token: must not start with "sk-bf-", the prefix of virtual keys
    management.operators[6].token: the environment variable UNSET is not set
    management.operators[7].token_sha256: expected a SHA-256 of 64 hexadecimal digits
    management.operators[8]: needs either `token` or `token_sha256`, and not both
    management.operators[9]: needs either `token` or `token_sha256`, and not both
    management.operators[10].name: expected 1 to 64 characters, which are not all spaces, without control characters
    management.operators[11].name: expected 1 to 64 characters, which are not all spaces, without control characters
    management.operators[13].name: expected 1 to 64 characters, which are not all spaces, without control characters
    "#);
}

#[test]
fn the_page_is_shown_unless_the_file_says_otherwise_and_reports_are_beside_the_file() {
    assert!(!settings(&json!({"page": true})).hides_page);
    assert!(settings(&json!({"page": false})).hides_page);
    let reports = settings(&json!({"reports": "reports"})).reports;
    assert_eq!(reports.as_deref(), Some(Path::new("/etc/airlock/reports")));
}

#[test]
fn a_disabled_management_api_needs_no_environment() {
    let operator = json!({"name": "ann", "role": "admin", "token": "env.UNSET"});
    let section = json!({"disabled": true, "operators": [operator]});
    let expected = ManagementSettings { disabled: true, ..ManagementSettings::default() };
    assert_eq!(settings(&section), expected);
}

#[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
fn oidc(changes: Value) -> Value {
    let mut oidc = json!({"issuer": "https://idp.example.com", "client_id": "airlock"});
    let members = oidc.as_object_mut().expect("an object");
    members.extend(changes.as_object().expect("an object").clone());
    json!({"oidc": oidc})
}

#[test]
fn a_login_at_a_provider_has_defaults_and_grants_nothing_by_default() {
    let found = settings(&oidc(json!({}))).oidc.expect("it is set");
    assert_eq!(found.login.scopes, ["openid", "profile", "email"]);
    assert_eq!((found.login.client_secret, found.roles), (None, Vec::new()));
    let hour = 3_600;
    assert_eq!((found.session_idle.as_secs(), found.session_max.as_secs()), (8 * hour, 24 * hour));
    let row =
        json!({"claim": "groups", "values": ["a", "b"], "role": "admin", "sees_payloads": true});
    let section = oidc(json!({"client_secret": "hunter2", "roles": [row], "session_idle": "5m"}));
    let found = settings(&section).oidc.expect("it is set");
    assert_eq!(found.roles[0].role, Role::Admin);
    assert!(found.roles[0].sees_payloads);
    assert!(!format!("{found:?}").contains("hunter2"));
    // Without the API, the environment of its secrets need not exist.
    let section = with(oidc(json!({"client_secret": "env.UNSET"})), "disabled", json!(true));
    assert_eq!(settings(&section).oidc, None);
}

#[test]
fn an_unsafe_login_at_a_provider_is_refused() {
    let role = "viewer";
    for section in [
        oidc(json!({"issuer": "http://idp.example.com"})),
        oidc(json!({"client_id": ""})),
        oidc(json!({"client_secret": "env.UNSET"})),
        oidc(json!({"scopes": ["email"]})),
        oidc(json!({"scopes": ["openid", "a b"]})),
        oidc(json!({"session_idle": "1m"})),
        oidc(json!({"session_max": "25h"})),
        oidc(json!({"roles": [{"claim": "", "values": [], "role": role}]})),
        oidc(json!({"roles": [{"claim": "groups", "values": [""], "role": role}]})),
        oidc(json!({"roles": [{"claim": "groups", "value": "a", "role": role}]})),
    ] {
        let found = error(&management(&section));
        assert!(found.contains("management.oidc"), "{section}: {found}");
    }
}

#[test]
fn a_provider_needs_a_url_to_redirect_to() {
    let section = management(&oidc(json!({})));
    let public = with(section.clone(), "server", json!({"listen": "0.0.0.0:80"}));
    let found = error(&public);
    assert!(found.contains("server.external_url: is required beside `management.oidc`"), "{found}");
    let external = json!({"listen": "0.0.0.0:80", "external_url": "https://gw.example.com"});
    for server in [json!({}), external] {
        let section = with(section.clone(), "server", server);
        let key = json!({"name": "a", "value": "sk-bf-0123456789abcdef"});
        let section = with(section, "governance", json!({"virtual_keys": [key]}));
        assert!(good(&section).server.management.oidc.is_some());
    }
    let plain = with(section, "server", json!({"external_url": "http://gw.example.com"}));
    assert!(error(&plain).contains("server.external_url"));
}
