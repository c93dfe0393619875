//! The gateway over HTTPS, without a proxy: with curl, with the command line, and through a renewal.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use airlock_tests::{Airlock, Gateway, Setup, misbehaving, wait};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

use crate::certificates::{Authority, Signed};

const BOUND: &str = "sk-bf-bound-to-a-certificate";
const FREE: &str = "sk-bf-needs-no-certificate";

/// Settings of a gateway over HTTPS, with the files of an authority.
struct Secure {
    authority: Authority,
    ca: PathBuf,
    setup: Setup,
}

impl Secure {
    fn new() -> Self {
        let authority = Authority::new();
        let setup = Setup::new();
        let ca = setup.file("ca.pem", &authority.pem);
        authority.sign("127.0.0.1").write(setup.directory(), "gateway");
        // Relative to the configuration file.
        let tls = json!({"certificate": "gateway.pem", "key": "gateway-key.pem"});
        let setup = setup.set("/server/tls", tls);
        Self { authority, ca, setup }
    }

    /// Returns a caller's certificate, and the files of it.
    fn caller(&self, name: &str) -> (Signed, [PathBuf; 2]) {
        let signed = self.authority.sign(name);
        let files = signed.write(self.setup.directory(), name);
        (signed, files)
    }
}

/// Runs curl with a limit of time and without a proxy. Returns its output; `None` if it failed.
async fn curl(ca: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*", "--cacert"])
        .arg(ca)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("curl is installed");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Prepares the command that lists the servers of a gateway, by a caller with these files of a certificate.
fn list(caller: &[PathBuf; 2], option: &str, gateway: &str) -> Airlock {
    let [certificate, key] = caller;
    let command = Airlock::new().arg("upstream").arg("list").arg("--json").arg(option).arg(gateway);
    command.env("AIRLOCK_CLIENT_CERTIFICATE", certificate).env("AIRLOCK_CLIENT_KEY", key)
}

/// Waits until the gateway has said a text this many times.
async fn said(gateway: &Gateway, text: &str, times: usize) {
    wait::until(text, async || (gateway.said().matches(text).count() >= times).then_some(())).await;
}

#[tokio::test]
async fn curl_speaks_both_versions_of_http_and_both_of_tls() {
    let Secure { authority, ca, setup } = Secure::new();
    let stranger = setup.file("stranger.pem", &Authority::new().pem);
    let gateway = setup.serve().await;
    let health = format!("{}/health", gateway.address());
    assert!(health.starts_with("https://127.0.0.1:"), "{health}");
    let shown = ["--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"];
    for (options, expected) in [
        (&["--http2"][..], "200 2"),
        (&["--http1.1"], "200 1.1"),
        (&["--tls-max", "1.2"], "200 2"),
        (&["--tlsv1.3"], "200 2"),
    ] {
        let arguments = [options, &shown, &[&health]].concat();
        assert_eq!(curl(&ca, &arguments).await.as_deref(), Some(expected), "{options:?}");
    }
    assert_eq!(curl(&ca, &["--tls-max", "1.1", &health]).await, None);
    assert_eq!(curl(&stranger, &[&health]).await, None);
    let plain = health.replace("https://", "http://");
    let told = curl(&ca, &[&plain]).await.expect("a response");
    assert!(told.contains("tls_required"), "{told}");
    drop(authority);
}

#[tokio::test]
async fn a_bound_key_is_unknown_without_its_certificate() {
    let secure = Secure::new();
    let (own, [own_file, own_key]) = secure.caller("own");
    let (_, [other_file, other_key]) = secure.caller("other");
    let digest = Sha256::digest(own.der());
    let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let Secure { ca, setup, .. } = secure;
    let rows = json!([{"mcp_client_name": "server", "tools_to_execute": ["*"]}]);
    let keys = json!([
        {"name": "bound", "value": BOUND, "mcp_configs": rows, "client_certificate_sha256": [digest]},
        {"name": "free", "value": FREE, "mcp_configs": rows},
    ]);
    let gateway = setup
        .client(misbehaving("server", []))
        .set("/server/tls/client_ca", "ca.pem")
        .set("/server/tls/client_auth", "optional")
        .set("/governance/virtual_keys", keys)
        .serve()
        .await;
    let url = format!("{}/v1/mcp/tool/execute", gateway.address());
    let call = json!({"function": {"name": "server-echo", "arguments": "{}"}}).to_string();
    let send = async |key: &str, certificate: Option<(&Path, &Path)>| {
        let header = format!("x-bf-vk: {key}");
        let mut arguments = vec!["--write-out", "\n%{http_code}", "--header", &header];
        arguments.extend(["--data", &call, &url]);
        if let Some((file, key)) = certificate {
            let [file, key] = [file, key].map(|path| path.to_str().expect("UTF-8"));
            arguments.extend(["--cert", file, "--key", key]);
        }
        let answer = curl(&ca, &arguments).await.expect("a response");
        let (body, status) = answer.rsplit_once('\n').expect("a status");
        (status.to_owned(), body.to_owned())
    };
    let own = Some((&*own_file, &*own_key));
    let other = Some((&*other_file, &*other_key));
    assert_eq!(send(BOUND, own).await.0, "200");
    let unknown = send("sk-bf-of-nobody-at-all-1", None).await;
    assert_eq!(unknown.0, "401");
    assert_eq!(send(BOUND, other).await, unknown);
    assert_eq!(send(BOUND, None).await, unknown);
    assert_eq!(send(FREE, None).await.0, "200");
    drop(gateway);
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_while_a_connection_lives_and_a_bad_one_is_not() {
    let Secure { ca, setup, .. } = Secure::new();
    let renewed = Authority::new();
    let renewed_ca = setup.file("renewed.pem", &renewed.pem);
    let gateway = setup.serve().await;
    let health = format!("{}/health", gateway.address());
    // One connection, on which a request is sent at the beginning and one at the end.
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&ca).expect("it is there"));
    let lasting = airlock::tls::client()
        .no_proxy()
        .tls_certs_only([trusted.expect("a certificate")])
        .build()
        .expect("a client");
    // Read to its end, so that the connection is kept.
    let ask = async || lasting.get(&health).send().await?.text().await;
    assert!(ask().await.is_ok());

    renewed.sign("127.0.0.1").write(gateway.directory(), "gateway");
    said(&gateway, "new connections get it", 1).await;
    assert_eq!(curl(&ca, &[&health]).await, None);
    assert!(curl(&renewed_ca, &[&health]).await.is_some());
    assert!(ask().await.is_ok());

    std::fs::write(gateway.directory().join("gateway.pem"), "none").expect("written");
    // The gateway may also have read the renewed certificate before its key.
    let named = "gateway.pem has no certificate in PEM format";
    said(&gateway, named, 1).await;
    let kept = "connections get the one before";
    said(&gateway, kept, 1).await;
    let times = gateway.said().matches(kept).count();
    let _ = kill_process(gateway.pid(), Signal::HUP);
    said(&gateway, kept, times + 1).await;
    assert!(curl(&renewed_ca, &[&health]).await.is_some());
    assert!(!gateway.said().contains("PRIVATE KEY"));
}

#[tokio::test]
async fn commands_reach_a_gateway_over_https_by_its_certificate() {
    let secure = Secure::new();
    let (_, caller) = secure.caller("operator");
    let Secure { ca, setup, .. } = secure;
    let setup = setup.set("/server/tls/client_ca", "ca.pem").set("/management/socket", "");
    let gateway = setup.client(misbehaving("server", [])).serve().await;
    let url = gateway.address().to_owned();
    // Of an authority that the system does not have.
    let strange = list(&caller, "--url", &url).run().await.failed();
    assert!(strange.to_string().contains("invalid peer certificate"), "{strange}");
    let none = gateway.directory().join("no-authorities");
    std::fs::create_dir(&none).expect("a directory");
    let empty = none.join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    let lacking = list(&caller, "--url", &url).env("SSL_CERT_FILE", &empty);
    let lacking = lacking.env("SSL_CERT_DIR", &none).run().await.failed();
    assert!(lacking.to_string().contains("ca-certificates"), "{lacking}");
    let trusting = list(&caller, "--url", &url).env("SSL_CERT_FILE", &ca).run().await.ok();
    assert!(trusting.json().to_string().contains("server"));
    // A configuration with the port, whose certificate is that of the gateway. By this name, no authority
    // knows it.
    let written = std::fs::read_to_string(gateway.directory().join("airlock.json"));
    let mut config: Value = serde_json::from_str(&written.expect("it is there")).expect("JSON");
    config["server"]["listen"] = json!(url.trim_start_matches("https://"));
    let own = gateway.directory().join("own.json");
    std::fs::write(&own, config.to_string()).expect("written");
    let own = own.to_str().expect("UTF-8");
    assert!(list(&caller, "--config", own).run().await.ok().json().to_string().contains("server"));
    let nobody = [PathBuf::new(), PathBuf::new()];
    let unidentified = list(&nobody, "--config", own).run().await.failed();
    assert!(unidentified.to_string().contains("no gateway responds"), "{unidentified}");
    Authority::new().sign("127.0.0.1").write(gateway.directory(), "pinned");
    config["server"]["tls"]["certificate"] = json!("pinned.pem");
    std::fs::write(own, config.to_string()).expect("written");
    let another = list(&caller, "--config", own).run().await.failed();
    assert!(another.to_string().contains("invalid peer certificate"), "{another}");
}

#[tokio::test]
async fn a_gateway_does_not_start_with_a_certificate_that_cannot_be_used() {
    let Secure { setup, .. } = Secure::new();
    Authority::new().sign("127.0.0.1").write(setup.directory(), "other");
    let setup = setup.set("/server/tls/key", "other-key.pem");
    for command in ["serve", "check"] {
        let failed = setup.airlock(command).run().await.failed();
        assert!(failed.stdout.is_empty(), "{}", failed.stdout);
        let said = failed.stderr.replace(&setup.directory().display().to_string(), "…");
        assert!(said.contains("server.tls.key"), "{said}");
        let reason = "the file …/other-key.pem has a private key that is not the one of the first certificate of the file …/gateway.pem";
        assert!(said.contains(reason), "{said}");
    }
}
