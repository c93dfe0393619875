//! `airlock doctor`: each finding is provoked on a machine that is otherwise fine.

use std::{
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use airlock_test_http::{Server, says};
use airlock_tests::{Airlock, Client, MisbehavingHttp, Setup, guests, misbehaving};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};

/// Runs the command, which must find an error. Returns its document.
async fn errors(setup: &Setup) -> Value {
    let run = setup.airlock("doctor").arg("--json").run().await;
    assert_eq!(run.code, Some(1), "{run}");
    let document = run.json();
    assert_eq!(document["ok"], false, "{run}");
    document
}

/// Returns the findings with a code.
fn found<'d>(document: &'d Value, code: &str) -> Vec<&'d Value> {
    let findings = document["findings"].as_array().expect("a list");
    findings.iter().filter(|finding| finding["code"] == code).collect()
}

/// Returns the only finding with a code.
fn one<'d>(document: &'d Value, code: &str) -> &'d Value {
    let found = found(document, code);
    assert_eq!(found.len(), 1, "{code}: {document:#}");
    found[0]
}

/// Returns a text of a finding.
fn text<'f>(finding: &'f Value, member: &str) -> &'f str {
    finding[member].as_str().unwrap_or_else(|| panic!("no {member}: {finding:#}"))
}

/// Changes the mode of a file.
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// Returns the URL of a port on which nothing listens.
fn closed_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}/mcp", listener.local_addr().expect("an address"))
}

#[tokio::test]
async fn a_good_configuration_has_no_error_and_nothing_is_changed() {
    let remote = MisbehavingHttp::start([]);
    let flag = tempfile::tempdir().expect("a directory");
    let started = flag.path().join("started");
    let touch = Client::stdio("local", "/usr/bin/touch", [started.display().to_string()]);
    let setup = Setup::new().client(remote.client("remote")).client(touch);
    let run = setup.airlock("doctor").arg("--json").run().await.ok();
    let document = run.json();
    assert_eq!(document["ok"], true, "{run}");
    assert_eq!(one(&document, "configuration")["status"], "ok");
    let servers = found(&document, "server");
    let states: Vec<_> =
        servers.iter().map(|one| (text(one, "subject"), text(one, "status"))).collect();
    assert_eq!(states, [("remote", "ok"), ("local", "ok")], "{run}");
    assert!(text(servers[0], "found").contains("handshake"), "{run}");
    assert_eq!(one(&document, "store")["status"], "ok", "{run}");
    assert!(!setup.directory().join("airlock.db").exists(), "the store was made");
    assert!(!started.exists(), "a server that is a process was started");
}

#[tokio::test]
async fn a_key_that_is_not_valid_is_named_and_the_rest_is_checked() {
    let setup = Setup::new().set("/server/max_body", "10 bananas");
    let document = errors(&setup).await;
    let finding = one(&document, "configuration");
    assert_eq!(
        (&finding["subject"], &finding["status"]),
        (&json!("server.max_body"), &json!("error"))
    );
    assert_eq!(one(&document, "store")["status"], "ok");
    let missing = Airlock::new().arg("doctor").arg("--config").arg("/no/such/file.json");
    let missing = missing.arg("--json").run().await.failed().json();
    assert_eq!(one(&missing, "configuration")["status"], "error");
    assert_eq!(one(&missing, "clock")["status"], "ok", "the machine is checked all the same");
}

#[tokio::test]
async fn a_url_without_a_scheme_is_told_with_what_would_be_valid() {
    let valid = "expected a URL that starts with http:// or https://";
    let setup = Setup::new()
        .client(Client::http("bare", "tools.example.com:8080/mcp"))
        .set("/telemetry/otlp/endpoint", "127.0.0.1:4318");
    let document = errors(&setup).await;
    let findings = found(&document, "configuration");
    let subjects: Vec<_> = findings.iter().map(|finding| text(finding, "subject")).collect();
    for key in ["connection_string", "telemetry.otlp.endpoint"] {
        let at = subjects.iter().position(|subject| subject.ends_with(key));
        let at = at.unwrap_or_else(|| panic!("no {key}: {document:#}"));
        assert_eq!(
            (text(findings[at], "found"), &findings[at]["status"]),
            (valid, &json!("error"))
        );
    }
    let setup = Setup::new();
    let doctor = setup.airlock("doctor").arg("--json");
    let run = doctor.env("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318").run().await.failed();
    let document = run.json();
    let named = text(found(&document, "configuration")[0], "found");
    assert!(named.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{run}");
    assert!(named.contains("http://"), "{run}");
}

#[tokio::test]
async fn a_directory_in_which_the_gateway_may_not_write_is_an_error() {
    // Root may write everywhere.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let setup = Setup::new();
    let data = setup.directory().join("data");
    fs::create_dir(&data).expect("it is made");
    let setup = setup.set("/store", data.join("airlock.db").display().to_string());
    set_mode(&data, 0o500);
    let document = errors(&setup).await;
    set_mode(&data, 0o700);
    let finding = one(&document, "data_directory");
    assert_eq!(finding["subject"], json!(data.display().to_string()));
    assert!(text(finding, "valid").contains("may write"), "{finding:#}");
}

#[tokio::test]
async fn people_are_shown_what_would_be_valid_and_the_fix() {
    let setup = Setup::new().client(Client::http("gone", &closed_url()));
    let run = setup.airlock("doctor").run().await.failed();
    let line = run.stdout.lines().position(|line| line.starts_with("error    server_unreachable"));
    let lines: Vec<_> = run.stdout.lines().skip(line.expect("the finding")).collect();
    assert!(lines[0].contains("gone: "), "{run}");
    assert!(lines[1].trim_start().starts_with("valid: "), "{run}");
    assert!(lines[2].trim_start().starts_with("fix: "), "{run}");
    assert!(run.stdout.trim_end().ends_with("warnings") || run.stdout.contains("1 warning"));
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_an_error_of_its_client() {
    let setup = Setup::new().client(Client::stdio("lost", "/no/such/command", [""; 0]));
    let document = errors(&setup).await;
    let finding = one(&document, "files");
    assert_eq!(finding["status"], "error");
    let subject = text(finding, "subject");
    assert!(subject.contains("lost") && subject.ends_with("stdio_config.command"), "{subject}");
    assert!(found(&document, "server").is_empty(), "it is reported once: {document:#}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_unless_the_network_is_left_out() {
    let setup = Setup::new().client(Client::http("gone", &closed_url()));
    let document = errors(&setup).await;
    let finding = one(&document, "server_unreachable");
    assert_eq!((&finding["subject"], &finding["status"]), (&json!("gone"), &json!("error")));
    assert!(text(finding, "fix").contains("connection_string"), "{finding:#}");
    let offline = setup.airlock("doctor").arg("--offline").arg("--json").run().await.ok().json();
    assert!(found(&offline, "server_unreachable").is_empty(), "{offline:#}");
}

#[tokio::test]
async fn a_key_that_others_can_read_is_an_error_until_its_mode_is_changed() {
    let setup = Setup::new();
    let key =
        setup.file("store.key", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
    let setup = setup.set("/store_key", json!({"file": key}));
    set_mode(&key, 0o644);
    let document = errors(&setup).await;
    let finding = one(&document, "file_mode");
    assert_eq!(
        (&finding["subject"], &finding["status"]),
        (&json!(key.display().to_string()), &json!("error"))
    );
    assert!(text(finding, "fix").starts_with("chmod "), "{finding:#}");
    set_mode(&key, 0o640);
    let document = setup.airlock("doctor").arg("--json").run().await.ok().json();
    assert_eq!(one(&document, "file_mode")["status"], "warning");
    set_mode(&key, 0o600);
    let document = setup.airlock("doctor").arg("--json").run().await.ok().json();
    assert_eq!(one(&document, "file_mode")["status"], "ok");
    fs::write(&key, "no key").expect("written");
    let document = errors(&setup).await;
    assert_eq!(one(&document, "store_key")["status"], "error");
}

/// Writes a certificate for the loopback address that is valid in these years, and its key.
fn write_certificate(setup: &Setup, years: (i32, i32), host: &str) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    let certificate = params.self_signed(&key).expect("a certificate");
    setup.file("gateway.pem", certificate.pem());
    set_mode(&setup.file("gateway-key.pem", key.serialize_pem()), 0o600);
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_an_error_and_one_for_another_name_a_warning() {
    let tls = json!({"certificate": "gateway.pem", "key": "gateway-key.pem"});
    let setup = Setup::new().set("/server/tls", tls);
    write_certificate(&setup, (2020, 2021), "127.0.0.1");
    let document = errors(&setup).await;
    let finding = one(&document, "certificate_expired");
    assert_eq!((&finding["subject"], &finding["status"]), (&json!("server.tls"), &json!("error")));
    assert!(found(&document, "certificate_name").is_empty(), "{document:#}");
    write_certificate(&setup, (2020, 2120), "other.example.com");
    let document = setup.airlock("doctor").arg("--json").run().await.ok().json();
    assert_eq!(one(&document, "certificate")["status"], "ok");
    assert_eq!(one(&document, "certificate_name")["status"], "warning");
}

#[tokio::test]
async fn a_plugin_that_the_lock_file_does_not_permit_is_an_error_with_the_command_that_accepts_it()
{
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT));
    let unpinned = setup.airlock("doctor").arg("--json").run().await.json();
    let finding = one(&unpinned, "lock");
    assert_eq!((&finding["subject"], &finding["status"]), (&json!("text"), &json!("warning")));
    setup.file("airlock.lock", "version = 1\n");
    let document = errors(&setup).await;
    let finding = one(&document, "lock");
    assert_eq!(finding["status"], "error");
    assert!(text(finding, "subject").ends_with("wasm_config.component"), "{finding:#}");
    assert!(text(finding, "found").contains("airlock plugin accept text"), "{finding:#}");
}

#[tokio::test]
async fn a_store_of_another_program_or_of_a_newer_version_is_an_error_and_stays_as_it_is() {
    let setup = Setup::new().set("/store", "own.db");
    let path = setup.directory().join("own.db");
    let foreign = rusqlite::Connection::open(&path).expect("it is made");
    foreign.execute_batch("CREATE TABLE others (name TEXT)").expect("a table");
    drop(foreign);
    set_mode(&path, 0o600);
    let before = fs::read(&path).expect("it is there");
    let document = errors(&setup).await;
    assert_eq!(one(&document, "store_foreign")["status"], "error");
    assert!(fs::read(&path).expect("it is there") == before, "it was changed");

    let newer = rusqlite::Connection::open(&path).expect("it is there");
    let own = i32::from_be_bytes(*b"AIRL");
    newer.pragma_update(None, "application_id", own).expect("changed");
    newer.pragma_update(None, "user_version", 9_999).expect("changed");
    drop(newer);
    let document = errors(&setup).await;
    let finding = one(&document, "store_newer");
    assert!(text(finding, "found").contains("9999"), "{finding:#}");

    fs::write(&path, "this is a text, and no database at all: it is long enough for a header of one, which has a hundred bytes").expect("written");
    let document = errors(&setup).await;
    assert_eq!(one(&document, "store_damaged")["status"], "error");
}

#[tokio::test]
async fn an_address_that_another_program_has_is_an_error() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    let setup = Setup::new().set("/server/listen", address.clone());
    let document = errors(&setup).await;
    assert_eq!(one(&document, "listen_in_use")["subject"], json!(address));
    drop(other);
    let document = setup.airlock("doctor").arg("--json").run().await.ok().json();
    assert_eq!(one(&document, "listen")["status"], "ok");
}

#[tokio::test]
async fn a_gateway_that_runs_is_found_by_its_socket() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let config = gateway.directory().join("airlock.json");
    let run = Airlock::new().arg("doctor").arg("--config").arg(config).arg("--json").run().await;
    let document = run.ok().json();
    let finding = one(&document, "gateway");
    assert_eq!(finding["status"], "ok", "{finding:#}");
    assert!(text(finding, "found").contains("runs"), "{finding:#}");
    assert_eq!(one(&document, "listen")["status"], "ok");
}

#[tokio::test]
async fn a_provider_is_reached_without_a_key() {
    let server = Server::start_by_request(|_| says("401 Unauthorized", "", "{}")).await;
    let setup = Setup::new().openai("good", &server.url("127.0.0.1", "/v1"));
    let document = setup.airlock("doctor").arg("--json").run().await.ok().json();
    let finding = one(&document, "provider");
    assert_eq!((&finding["subject"], &finding["status"]), (&json!("good"), &json!("ok")));
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(!requests[0].to_lowercase().contains("sk-test"), "{requests:?}");
    let setup = setup.openai("gone", &closed_url());
    let document = errors(&setup).await;
    let finding = one(&document, "provider_unreachable");
    assert_eq!(finding["subject"], "gone");
    assert!(text(finding, "fix").starts_with("start the service"), "{finding:#}");
}

#[tokio::test]
async fn the_key_of_the_audit_log_must_be_one_that_its_owner_alone_can_use() {
    let setup = Setup::new();
    let key = setup.file("audit.pem", "no key at all");
    let setup = setup.set("/records/audit", json!({"enabled": true, "key": {"file": key}}));
    set_mode(&key, 0o600);
    let document = errors(&setup).await;
    let finding = one(&document, "audit_key");
    assert_eq!(finding["status"], "error");
    assert!(!document.to_string().contains("no key at all"), "{document:#}");
}

#[tokio::test]
async fn a_secret_is_never_shown() {
    let provider = json!({"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": "env.AIRLOCK_TEST_KEY"});
    let headers = json!({"Authorization": "env.AIRLOCK_TEST_KEY"});
    let setup = Setup::new()
        .set("/providers/p", provider)
        .set("/server/max_body", "10 bananas")
        .client(Client::http("remote", &closed_url()).set("/headers", headers));
    let run = setup
        .airlock("doctor")
        .env("AIRLOCK_TEST_KEY", "hush-hush-hush")
        .env("HTTPS_PROXY", "http://user:hush-hush-hush@127.0.0.1:9")
        .env("AIRLOCK_LOG", "trace");
    let run = run.run().await.failed();
    assert!(run.stdout.contains("HTTPS_PROXY"), "{}", run.stdout);
    assert!(!run.stdout.contains("hush-hush"), "it is on stdout");
    assert!(!run.stderr.contains("hush-hush"), "it is on stderr");
}
