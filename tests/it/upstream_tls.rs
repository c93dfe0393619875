//! MCP servers over HTTPS whose certificates no public authority has signed.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use airlock_tests::{Client, Setup, peers, root};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

/// An authority of an operator's own.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }
}

/// A server over HTTPS. Dropping it ends the process.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts a server with a certificate for one host name.
    fn start(directory: &Path, authority: &Authority, host: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &authority.issuer).expect("a certificate");
        let chain = directory.join("chain.pem");
        let secret = directory.join("key.pem");
        fs::write(&chain, certificate.pem()).expect("written");
        fs::write(&secret, key.serialize_pem()).expect("written");
        let mut process = Command::new(peers::python())
            .arg("-B")
            .arg(root().join("tests/fixtures/tls/server.py"))
            .args([chain, secret])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        Self { process, port: line.trim().parse().expect("a port") }
    }

    fn client(&self) -> Client {
        Client::http("tls", &format!("https://localhost:{}/mcp", self.port)).auto(&["*"])
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
