//! TLS: handshakes that are slow, wrong or none, the certificates of callers, and a certificate that is
//! replaced while the gateway serves.

mod revocation;

use std::{fs, sync::LazyLock, time::SystemTime};

use airlock_core::{door::CertificateDigest, secret::Secret};
use airlock_ingress::{ClientAuth, ListenerTls, TlsSettings, Untimely};
use airlock_tls::{IdentitySource, KeySource};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

use super::*;

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The key `tia`, which is bound to the certificate of [`TIA`].
const KEY: (&str, &str) = ("x-bf-vk", "sk-bf-tia");
const UNKNOWN: (&str, &str) = ("x-bf-vk", "sk-bf-nobody");
/// No reason for which clients or callers are refused.
const NONE: [Untimely; 0] = [];

/// The authority of the gateway and its callers.
static OWN: LazyLock<Authority> = LazyLock::new(Authority::new);
/// Caller with the certificate that the key `tia` is bound to.
static TIA: LazyLock<Signed> = LazyLock::new(|| OWN.sign());

struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
struct Signed {
    certificate: Certificate,
    key: KeyPair,
    /// Certificates that connect it to the authority that others trust, in PEM format.
    between: String,
}

/// The files of a listener.
struct Files(TempDir);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self) -> Signed {
        self.sign_with(&CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name"))
    }

    /// Signs a certificate that expires after this time, in whole seconds.
    fn sign_for(&self, time: Duration) -> Signed {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_1970() + time;
        self.sign_with(&params)
    }

    fn sign_with(&self, params: &CertificateParams) -> Signed {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Signed { certificate, key, between: String::new() }
    }

    fn trusted(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }
}

impl Signed {
    fn pem(&self) -> String {
        self.certificate.pem() + &self.between
    }
}

impl Files {
    /// Writes a certificate and its key, and the authority of callers.
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a directory"));
        files.write(&OWN.sign());
        files.set("ca.pem", &OWN.certificate.pem());
        files
    }

    fn write(&self, signed: &Signed) {
        self.set("certificate.pem", &signed.certificate.pem());
        self.set("key.pem", &signed.key.serialize_pem());
    }

    fn set(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("written");
    }

    fn settings(&self, client_auth: ClientAuth) -> TlsSettings {
        let [certificate, key, ca] =
            ["certificate.pem", "key.pem", "ca.pem"].map(|name| self.0.path().join(name));
        TlsSettings { certificate, key, client_ca: Some(ca), client_crl: Vec::new(), client_auth }
    }

    async fn load(&self, client_auth: ClientAuth) -> ListenerTls {
        let tls = ListenerTls::new(self.settings(client_auth));
        assert_eq!(tls.load().await.expect("good files"), NONE);
        tls
    }
}

/// Returns the digest of the certificate that the key `tia` is bound to.
pub(super) fn certificate_of_tia() -> CertificateDigest {
    CertificateDigest::from_der(TIA.certificate.der())
}

/// Returns that certificate in DER format.
pub(super) fn der_of_tia() -> Vec<u8> {
    TIA.certificate.der().to_vec()
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}

async fn start(settings: Settings, tls: &ListenerTls) -> Gateway {
    let hooks = Hooks { tls: Some(tls.clone()), ..hooks::hooks(None) };
    Gateway::with_hooks(settings, fake::scripted(&turns()), hooks).await
}

/// Returns a client that trusts one authority, and has a certificate. It keeps its connections.
fn client(authority: &Authority, own: Option<&Signed>) -> reqwest::Client {
    let config = tls::client_config(vec![authority.trusted()]).expect("a good certificate");
    let config = match own {
        None => config,
        Some(signed) => {
            let files = tempfile::NamedTempFile::new().expect("a file");
            fs::write(files.path(), signed.pem()).expect("written");
            let key = KeySource::Pem(Secret::new(signed.key.serialize_pem()));
            let source = IdentitySource { certificate: files.path().to_owned(), key };
            tls::identified(&config, &source.read().expect("a good pair"))
        }
    };
    let client = tls::client_with(config).no_proxy();
    client.build().expect("a client")
}

async fn health(gateway: &Gateway, client: &reqwest::Client) -> Option<u16> {
    let response = client.get(format!("https://{}/health", gateway.address)).send();
    let response = soon(response).await.ok()?;
    let status = response.status().as_u16();
    // Read to its end, so that the connection is kept.
    soon(response.bytes()).await.is_ok().then_some(status)
}

/// Returns how handshakes of clients begin that never end them.
fn slow() -> [Vec<u8>; 3] {
    // A record of a handshake announces 512 bytes, of which some are sent.
    let half = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 100]].concat();
    [Vec::new(), vec![0x16, 3], half]
}

#[tokio::test]
async fn a_handshake_that_does_not_end_delays_no_other_and_is_closed_in_time() {
    let tls = Files::new().load(ClientAuth::None).await;
    let gateway = start(settings(), &tls).await;
    let mut waiting = Vec::new();
    for begin in slow() {
        let mut stream = gateway.connect("").await;
        stream.write_all(&begin).await.expect("it is read");
        waiting.push(stream);
    }
    assert_eq!(health(&gateway, &client(&OWN, None)).await, Some(200));
    gateway.stop().await;
    drop(waiting);

    let gateway = start(Settings { read_timeout: SHORT, ..settings() }, &tls).await;
    for begin in slow() {
        let mut stream = gateway.connect("").await;
        stream.write_all(&begin).await.expect("it is read");
        assert_eq!(rest_of(stream).await, "");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_counts_from_its_beginning_and_is_evicted_during_its_handshake() {
    let tls = Files::new().load(ClientAuth::None).await;
    let limited = Settings { max_connections: 2, max_connections_per_peer: 2, ..settings() };
    let gateway = start(limited, &tls).await;
    let first = gateway.connect("").await;
    let _second = gateway.connect("").await;
    assert_eq!(health(&gateway, &client(&OWN, None)).await, Some(200));
    assert_eq!(rest_of(first).await, "");
    gateway.stop().await;
}

#[tokio::test]
async fn plain_http_gets_a_response_that_says_so() {
    let tls = Files::new().load(ClientAuth::Required).await;
    let gateway = start(settings(), &tls).await;
    for request in [HEALTH, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let answer = rest_of(gateway.connect(request).await).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{answer}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["error"]["code"], "tls_required");
    }
    // Neither HTTP nor TLS.
    let answer = rest_of(gateway.connect("\0\0\0\0\0\0\0\0").await).await;
    assert!(!answer.contains("HTTP"), "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_caller_without_a_certificate_of_the_authority_is_refused_in_the_handshake() {
    let files = Files::new();
    let stranger = Authority::new().sign();
    for (client_auth, without) in [
        (ClientAuth::Required, None),
        (ClientAuth::Optional, Some(200)),
        (ClientAuth::None, Some(200)),
    ] {
        let gateway = start(settings(), &files.load(client_auth).await).await;
        assert_eq!(health(&gateway, &client(&OWN, None)).await, without, "{client_auth:?}");
        assert_eq!(health(&gateway, &client(&OWN, Some(&TIA))).await, Some(200));
        let strange = health(&gateway, &client(&OWN, Some(&stranger))).await;
        // It is not asked for.
        let expected = (client_auth == ClientAuth::None).then_some(200);
        assert_eq!(strange, expected, "{client_auth:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_bound_key_opens_every_api_with_its_certificate_alone_and_is_unknown_without() {
    let tls = Files::new().load(ClientAuth::Optional).await;
    let gateway = start(settings(), &tls).await;
    let other = OWN.sign();
    for path in [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/mcp/tool/execute",
        "/v1/models",
        "/v1/runs",
        "/api/mcp/clients",
        "/mcp",
    ] {
        let is_read = matches!(path, "/v1/models" | "/v1/runs" | "/api/mcp/clients");
        let ask = async |own: Option<&Signed>, key: (&'static str, &'static str)| {
            let url = format!("https://{}{path}", gateway.address);
            let method = if is_read { Method::GET } else { Method::POST };
            let request = client(&OWN, own).request(method, url).header(key.0, key.1);
            let request = request.header("content-type", "application/json").body("{}");
            soon(request.send()).await.expect("a response")
        };
        let unknown = ask(None, UNKNOWN).await;
        assert_eq!(unknown.status(), 401, "{path}");
        let headers = unknown.headers().clone();
        let body = unknown.text().await.expect("a body");
        for own in [None, Some(&other)] {
            let refused = ask(own, KEY).await;
            assert_eq!(refused.status(), 401, "{path}");
            assert_eq!(refused.headers().len(), headers.len(), "{path}");
            let refused = refused.text().await.expect("a body");
            // Each response of this API has an identifier of its own.
            let is_same = refused == body || path == "/v1/messages";
            assert!(is_same && refused.len() == body.len(), "{path}: {refused}");
        }
        assert_ne!(ask(Some(&TIA), KEY).await.status(), 401, "{path}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_of_its_caller() {
    let tls = Files::new().load(ClientAuth::Required).await;
    let gateway = start(settings(), &tls).await;
    let lasting = client(&OWN, Some(&TIA));
    let short = client(&OWN, Some(&OWN.sign_for(Duration::from_secs(4))));
    assert_eq!(health(&gateway, &lasting).await, Some(200));
    assert_eq!(health(&gateway, &short).await, Some(200));
    // It keeps its connection; a new one is refused in the handshake.
    soon(async { while health(&gateway, &short).await.is_some() {} }).await;
    assert_eq!(health(&gateway, &lasting).await, Some(200));
    gateway.stop().await;
}

#[tokio::test]
async fn many_authorities_break_no_handshake_and_are_not_listed() {
    let files = Files::new();
    let key = KeyPair::generate().expect("a key");
    let mut authorities = OWN.certificate.pem();
    // Their names are longer than the 64 KiB that a handshake has for them.
    for number in 0..600 {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, format!("{number:0>120}"));
        authorities.push_str(&params.self_signed(&key).expect("a certificate").pem());
    }
    files.set("ca.pem", &authorities);
    let gateway = start(settings(), &files.load(ClientAuth::Required).await).await;
    assert_eq!(health(&gateway, &client(&OWN, Some(&TIA))).await, Some(200));
    gateway.stop().await;
}

#[tokio::test]
async fn a_replaced_certificate_is_for_new_connections_and_a_bad_one_replaces_none() {
    let files = Files::new();
    let tls = files.load(ClientAuth::None).await;
    let gateway = start(settings(), &tls).await;
    let before = client(&OWN, None);
    assert_eq!(health(&gateway, &before).await, Some(200));

    let renewed = Authority::new();
    files.write(&renewed.sign());
    assert_eq!(tls.load().await.expect("good files"), NONE);
    assert_eq!(health(&gateway, &client(&OWN, None)).await, None);
    assert_eq!(health(&gateway, &client(&renewed, None)).await, Some(200));
    // The client would not trust a new connection.
    assert_eq!(health(&gateway, &before).await, Some(200));

    files.set("key.pem", &OWN.sign().key.serialize_pem());
    assert_eq!(tls.load().await.expect_err("another key").key, "key");
    files.set("certificate.pem", "none");
    assert_eq!(tls.load().await.expect_err("no certificate").key, "certificate");
    assert_eq!(health(&gateway, &client(&renewed, None)).await, Some(200));
    gateway.stop().await;
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_used_and_reported() {
    let files = Files::new();
    let key = KeyPair::generate().expect("a key");
    for (begin, end, expected) in [
        (2020, 2021, &[Untimely::Expired][..]),
        (2020, 3000, &NONE[..]),
        (2999, 3000, &[Untimely::Early][..]),
    ] {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(begin, 1, 1);
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        let certificate = params.self_signed(&key).expect("a certificate");
        files.set("certificate.pem", &certificate.pem());
        files.set("key.pem", &key.serialize_pem());
        assert_eq!(files.settings(ClientAuth::None).check().expect("good files"), expected);
    }
}

#[tokio::test]
async fn authorities_that_cannot_be_used_are_refused_by_name() {
    let files = Files::new();
    files.set("ca.pem", "none");
    let refused = files.settings(ClientAuth::Optional).check().expect_err("no authority");
    let shown = airlock_strings::with_causes(&refused);
    let directory = files.0.path().display().to_string();
    insta::assert_snapshot!(
        shown.replace(&directory, "…"),
        @"`server.tls.client_ca` cannot be used: the file …/ca.pem has no certificate in PEM format"
    );
    // It is not used.
    assert!(files.settings(ClientAuth::None).check().is_ok());
}

#[tokio::test]
async fn a_listener_whose_certificate_was_not_loaded_does_not_serve() {
    let tls = ListenerTls::new(Files::new().settings(ClientAuth::None));
    let gateway = start(settings(), &tls).await;
    let ended = soon(gateway.running).await.expect("no panic");
    assert_eq!(ended.expect_err("it does not serve").kind(), std::io::ErrorKind::InvalidInput);
    // It would speak plain HTTP.
    let secure = Settings { tls: Some(Files::new().settings(ClientAuth::None)), ..settings() };
    let gateway = Gateway::with_hooks(secure, fake::scripted(&turns()), hooks::hooks(None)).await;
    let ended = soon(gateway.running).await.expect("no panic");
    assert!(ended.expect_err("it does not serve").to_string().contains("the settings have `tls`"));
}
