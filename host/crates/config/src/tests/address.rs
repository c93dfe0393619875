//! The addresses of a gateway, read without the rest of its settings.

use super::*;

/// Loads the addresses of a file with this configuration. Returns the directory of the file too.
fn loaded(file: &Value) -> (tempfile::TempDir, Result<GatewayAddress, ConfigError>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.json");
    std::fs::write(&path, file.to_string()).expect("a file");
    let address = GatewayAddress::load(&path);
    (directory, address)
}

#[test]
fn addresses_are_read_without_the_variables_that_other_keys_name() {
    let absent = "env.AIRLOCK_NOT_SET_IN_TESTS";
    let file = json!({
        "server": {
            "listen": "0.0.0.0:8443",
            "require_virtual_key": true,
            "tls": {"certificate": "tls/cert.pem", "key": "tls/key.pem"},
            "replica_url": absent,
        },
        "management": {
            "socket": "run/own.sock",
            "operators": [{"name": "ann", "role": "admin", "token": absent}],
        },
        "providers": {"openai": {"kind": "openai", "base_url": "https://api.example.com/v1", "api_key": absent}},
        "store": absent,
        "store_key": absent,
        "governance": {"virtual_keys": [{"name": "ci", "value": absent}]},
    });
    let (directory, address) = loaded(&file);
    let expected = GatewayAddress {
        socket: Some(directory.path().join("run/own.sock")),
        listen: "0.0.0.0:8443".parse().expect("an address"),
        certificate: Some(directory.path().join("tls/cert.pem")),
    };
    assert_eq!(address.expect("a good file"), expected);
    let whole = Config::load(&directory.path().join("gateway.json"));
    assert!(whole.is_err(), "a gateway needs the variables");
}

#[test]
fn addresses_are_those_of_the_settings_of_the_gateway() {
    for file in [
        json!({}),
        json!({"server": {"listen": "[::1]:0"}, "management": {"socket": "own.sock"}}),
        json!({"server": {"tls": {"certificate": "cert.pem", "key": "key.pem"}}, "management": {"socket": ""}}),
        json!({"management": {"disabled": true, "socket": "own.sock"}}),
    ] {
        let (directory, address) = loaded(&file);
        let server = Config::load(&directory.path().join("gateway.json")).expect("good").server;
        let expected = GatewayAddress {
            socket: server.management.socket,
            listen: server.listen,
            certificate: server.tls.map(|tls| tls.certificate),
        };
        assert_eq!(address.expect("a good file"), expected, "{file}");
    }
}

#[test]
fn a_file_with_a_key_that_is_not_valid_has_no_addresses() {
    for (file, key) in [
        (json!({"server": {"listen": "localhost:80"}}), "server.listen"),
        (json!({"server": {"tls": {"certificate": "", "key": "k"}}}), "server.tls.certificate"),
        (json!({"management": {"socket": "s".repeat(200)}}), "management.socket"),
        (json!({"management": {"sokcet": "own.sock"}}), "management.sokcet"),
        (json!({"providers": 7}), "providers"),
    ] {
        let (_directory, address) = loaded(&file);
        let error = address.expect_err("a bad file");
        let keys: Vec<_> = error.problems().iter().map(|problem| problem.key.to_string()).collect();
        assert_eq!(keys, [key]);
    }
}
