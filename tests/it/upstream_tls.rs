//! MCP servers over HTTPS whose certificates no public authority has signed.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use airlock_tests::{Client, Setup, peers, root};
use serde_json::json;

use crate::certificates::Authority;

/// A server over HTTPS. Dropping it ends the process.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts a server with a certificate for one host name.
    fn start(directory: &Path, authority: &Authority, host: &str) -> Self {
        Self::start_asking(directory, authority, host, None)
    }

    /// Starts a server that asks its clients for certificates of the authority in this file.
    fn start_asking(
        directory: &Path,
        authority: &Authority,
        host: &str,
        clients: Option<&Path>,
    ) -> Self {
        let mut process = Command::new(peers::python())
            .arg("-B")
            .arg(root().join("tests/fixtures/tls/server.py"))
            .args(authority.sign(host).write(directory, "server"))
            .args(clients)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        Self { process, port: line.trim().parse().expect("a port") }
    }

    fn client(&self) -> Client {
        self.named("tls")
    }

    fn named(&self, name: &str) -> Client {
        Client::http(name, &format!("https://localhost:{}/mcp", self.port)).auto(&["*"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_server_is_trusted_with_the_certificate_of_the_operators_own_authority() {
    let authority = Authority::new();
    let setup = Setup::new();
    let server = Server::start(setup.directory(), &authority, "localhost");
    let file = setup.file("ca.pem", &authority.pem);
    for config in [json!({"ca_cert_pem": authority.pem}), json!({"ca_file": file})] {
        let gateway =
            Setup::new().client(server.client().set("/tls_config", config)).serve_connected().await;
        assert_eq!(gateway.execute("tls-echo", &json!({})).await.content(), "over TLS");
    }
}

#[tokio::test]
async fn a_server_is_not_trusted_without_the_authority_or_under_another_name() {
    let authority = Authority::new();
    let other = Authority::new();
    let setup = Setup::new();
    let server = Server::start(setup.directory(), &authority, "localhost");
    let directory = tempfile::tempdir().expect("a directory");
    let misnamed = Server::start(directory.path(), &authority, "example.com");
    let wrong = "invalid peer certificate";
    for (client, reason) in [
        (server.client(), wrong),
        (server.client().set("/tls_config", json!({"ca_cert_pem": other.pem})), wrong),
        (
            misnamed.client().set("/tls_config", json!({"ca_cert_pem": authority.pem})),
            "not valid for name",
        ),
    ] {
        let gateway = Setup::new().client(client).serve().await;
        let failed = gateway.in_state("tls", "disconnected").await;
        let found = failed["last_failure"]["message"].as_str().expect("a reason");
        assert!(found.contains(reason), "{found}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_that_of_its_client_alone() {
    let authority = Authority::new();
    let setup = Setup::new();
    let ca = setup.file("ca.pem", &authority.pem);
    let server = Server::start_asking(setup.directory(), &authority, "localhost", Some(&ca));
    let own = authority.sign("gateway");
    let [certificate, key] = own.write(setup.directory(), "own");
    let [strange, strange_key] =
        Authority::new().sign("gateway").write(setup.directory(), "strange");
    let mut clients = Setup::new();
    for (name, identity) in [
        ("file", json!({"client_certificate": certificate, "client_key": key})),
        ("variable", json!({"client_certificate": certificate, "client_key": "env.OWN_KEY"})),
        ("strange", json!({"client_certificate": strange, "client_key": strange_key})),
        ("none", json!({})),
    ] {
        let mut config = identity;
        config["ca_file"] = json!(ca);
        clients = clients.client(server.named(name).set("/tls_config", config));
    }
    let gateway = clients.serve_with(&[("OWN_KEY", &own.key_pem())]).await;
    for name in ["file", "variable"] {
        gateway.connected(name).await;
        let echo = gateway.execute(&format!("{name}-echo"), &json!({})).await;
        assert_eq!(echo.content(), "over TLS", "{name}");
    }
    for name in ["none", "strange"] {
        gateway.in_state(name, "disconnected").await;
    }
    assert!(!gateway.said().contains("PRIVATE KEY"));
}
