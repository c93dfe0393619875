//! Connections with TLS: encrypted, and only to the server that the certificate names.

use std::fs;

use airlock_test_postgres::TestServer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::{Database, OpenError, Settings};
use airlock_database::sql::first;

/// An authority, in a file of a directory.
struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("ca.pem"), certificate.pem()).expect("written");
        Self { directory, issuer: Issuer::new(params, key) }
    }

    /// Starts a server whose certificate is for a host.
    fn server(&self, host: &str) -> Option<TestServer> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        TestServer::start_tcp(Some((&certificate.pem(), &key.serialize_pem())))
    }

    /// Opens the database of a server by TCP, with these parameters.
    async fn open(&self, server: &TestServer, parameters: &str) -> Result<Database, OpenError> {
        let authorities = self.directory.path().join("ca.pem");
        let url = format!(
            "postgres://airlock@localhost:{}/postgres?{parameters}&sslrootcert={}",
            server.port(),
            authorities.display()
        );
        Database::open(Settings::at(url.parse().expect("a URL"))).await
    }
}

async fn is_encrypted(database: &Database) -> bool {
    let select = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    database.read(move |sql| sql.one(select, &[], first::<bool>)).await.expect("read")
}

#[tokio::test]
async fn a_connection_is_encrypted_if_the_authority_and_the_host_are_right() {
    let authority = Authority::new();
    let Some(server) = authority.server("localhost") else { return };
    for mode in ["sslmode=verify-full", "sslmode=require"] {
        let database = authority.open(&server, mode).await.expect("it is opened");
        assert!(is_encrypted(&database).await, "{mode}");
    }
    let plain = authority.open(&server, "sslmode=disable").await.expect("it is opened");
    assert!(!is_encrypted(&plain).await);
    let other = Authority::new().open(&server, "sslmode=require").await.expect_err("refused");
    assert!(matches!(other, OpenError::Unusable { .. }), "{other:?}");
    // The authorities of the operating system do not have it.
    let url = format!("postgres://airlock@localhost:{}/postgres?sslmode=require", server.port());
    let unknown = Database::open(Settings::at(url.parse().expect("a URL"))).await;
    assert!(matches!(unknown, Err(OpenError::Unusable { .. })), "{unknown:?}");
}

#[tokio::test]
async fn a_server_with_the_certificate_of_another_host_is_refused() {
    let authority = Authority::new();
    let Some(server) = authority.server("db.example.com") else { return };
    let refused = authority.open(&server, "sslmode=require").await.expect_err("refused");
    let shown = airlock_strings::with_causes(&refused);
    assert!(shown.contains("certificate"), "{shown}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_in_plain_text() {
    let authority = Authority::new();
    let Some(server) = TestServer::start_tcp(None) else { return };
    let plain = authority.open(&server, "sslmode=disable").await;
    assert!(plain.is_ok(), "{plain:?}");
    let refused = authority.open(&server, "sslmode=verify-full").await.expect_err("refused");
    let shown = airlock_strings::with_causes(&refused);
    assert!(shown.contains("TLS"), "{shown}");
}

#[tokio::test]
async fn a_file_without_authorities_is_named_in_the_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ca.pem");
    for text in ["", "no certificate"] {
        fs::write(&path, text).expect("written");
        let url =
            format!("postgres://u@localhost/d?sslmode=require&sslrootcert={}", path.display());
        let refused = Database::open(Settings::at(url.parse().expect("a URL"))).await;
        let shown = airlock_strings::with_causes(&refused.expect_err("refused"));
        assert!(shown.contains("sslrootcert") && shown.contains("ca.pem"), "{shown}");
    }
}
