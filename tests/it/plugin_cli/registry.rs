//! Plugins in a registry, against Debian's `docker-registry`, and signatures of `minisign`.
//!
//! Where one of both is not installed, each test prints `skipped`, or fails if `AIRLOCK_REQUIRE_REGISTRY` is
//! set, as `.ci/run` does.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use airlock_tests::{Airlock, Finished, component, guests, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Workspace;

/// User `ann` with the password `hush`.
const USERS: &str = "ann:$2b$05$abcdefghijklmnopqrstuulzd.YqjLDl8lvpSmVj3De/fioSBHnUa\n";

/// A registry of one test. It is stopped with the value.
struct TestRegistry {
    _directory: TempDir,
    program: Child,
    address: String,
}

impl TestRegistry {
    /// Starts a registry, for everybody or for [`USERS`]. `None` if the programs are not installed.
    async fn start(has_users: bool) -> Option<Self> {
        let program = found("docker-registry").zip(found("minisign"));
        let Some((program, _)) = program else {
            skip("docker-registry and minisign are not installed");
            return None;
        };
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("log");
        let mut config = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": directory.path().join("data")}},
            "http": {"addr": "127.0.0.1:0"},
        });
        if has_users {
            let users = directory.path().join("users");
            fs::write(&users, USERS).expect("a file");
            config["auth"] = json!({"htpasswd": {"realm": "test", "path": users}});
        }
        // JSON is YAML.
        let file = directory.path().join("config.yml");
        fs::write(&file, config.to_string()).expect("a file");
        let program = Command::new(program)
            .arg("serve")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).expect("a file"))
            .spawn()
            .expect("it can be started");
        let mut this = Self { _directory: directory, program, address: String::new() };
        this.address = wait::until("the registry to listen", async || {
            let text = fs::read_to_string(&log).expect("its log");
            let (_, rest) = text.split_once("listening on ")?;
            Some(rest.split_once('"')?.0.to_owned())
        })
        .await;
        Some(this)
    }

    /// Returns a reference to an artifact of this registry.
    fn reference(&self, rest: &str) -> String {
        format!("oci://{}/acme/{rest}", self.address)
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn found(name: &str) -> Option<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    path.split(':').map(|place| Path::new(place).join(name)).find(|file| file.is_file())
}

/// Reports that a test cannot run here. Panics if it has to.
fn skip(reason: &str) {
    let is_required = env::var_os("AIRLOCK_REQUIRE_REGISTRY").is_some();
    assert!(!is_required, "AIRLOCK_REQUIRE_REGISTRY is set, and {reason}");
    println!("skipped: {reason}");
}

impl Workspace {
    /// Makes a key pair, and returns the public key.
    fn new_key(&self, name: &str) -> String {
        let public = format!("{name}.pub");
        self.minisign(&["-G", "-W", "-p", &public, "-s", &format!("{name}.key")]);
        self.read(&public).lines().nth(1).expect("a key").to_owned()
    }

    fn sign(&self, file: &str, key: &str) {
        self.minisign(&["-S", "-W", "-s", &format!("{key}.key"), "-m", file]);
    }

    fn minisign(&self, arguments: &[&str]) {
        let mut command = Command::new("minisign");
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        let output = command.output().expect("it is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Writes a configuration with these publishers.
    fn write_publishers(&self, publishers: &Value, is_required: bool) {
        let plugins = json!({"publishers": publishers, "require_signature": is_required});
        self.write("airlock.json", json!({"plugins": plugins}).to_string());
    }

    async fn push(&self, file: &str, reference: &str) {
        let _ = self.airlock(&["plugin", "push", file, reference]).await.ok();
    }
}

#[tokio::test]
async fn a_plugin_that_was_pushed_is_pulled_and_installed_by_its_digest() {
    let Some(registry) = TestRegistry::start(false).await else { return };
    let workspace = Workspace::new();
    workspace.write_plugin("weather.wasm", "weather", &json!({"clocks": {"reason": "Dates."}}));
    let reference = registry.reference("weather:1");
    let pushed = workspace.airlock(&["plugin", "push", "weather.wasm", &reference]).await.ok();
    let pinned = registry.reference("weather@sha256:");
    assert!(pushed.stdout.contains(&pinned), "{pushed}");
    let again = workspace.airlock(&["plugin", "push", "weather.wasm", &reference]).await.ok();
    assert_eq!(again.stdout, pushed.stdout, "the same component is the same artifact");

    let pull = ["plugin", "pull", &reference, "-o", "pulled.wasm"];
    let pulled = workspace.airlock(&pull).await.ok();
    assert!(pulled.stdout.contains("publisher unknown: not signed"), "{pulled}");
    let bytes = fs::read(workspace.path("weather.wasm")).expect("the component");
    assert_eq!(fs::read(workspace.path("pulled.wasm")).expect("the file"), bytes);
    let kept = workspace.airlock(&pull).await.failed();
    assert!(kept.stderr.contains("pulled.wasm exists already"), "{kept}");

    // The proposed command has the digest of what was shown, so that a moved tag is no way around it.
    let refused = workspace.install(&reference, &[]).await.failed();
    assert!(refused.stderr.contains(&format!("airlock plugin install {pinned}")), "{refused}");
    assert!(!workspace.path("airlock.json").exists());
    let installed = workspace.install(&reference, &["--grant", "clocks"]).await.ok();
    assert!(installed.stdout.contains(&format!("from {pinned}")), "{installed}");
    assert!(workspace.read("airlock.lock").contains(&format!("source = \"{pinned}")));
    let called = workspace.airlock(&["call", "weather-ok"]).await.ok();
    assert_eq!(called.stdout, "ok\n", "{called}");

    let missing = workspace.install(&registry.reference("weather:2"), &[]).await.failed();
    assert!(missing.stderr.contains("does not exist"), "{missing}");
}

#[tokio::test]
async fn with_a_required_signature_only_a_component_of_a_publisher_is_installed_and_loaded() {
    let Some(registry) = TestRegistry::start(false).await else { return };
    let workspace = Workspace::new();
    workspace.write_plugin("weather.wasm", "weather", &json!({}));
    let key = workspace.new_key("acme");
    workspace.new_key("eve");
    workspace.write_publishers(&json!({"acme": key}), true);

    let reference = registry.reference("weather:1");
    workspace.push("weather.wasm", &reference).await;
    let unsigned = workspace.install(&reference, &[]).await.failed();
    assert!(unsigned.stderr.contains("the component is not signed"), "{unsigned}");
    workspace.sign("weather.wasm", "eve");
    workspace.push("weather.wasm", &reference).await;
    let other = workspace.install(&reference, &[]).await.failed();
    assert!(
        other.stderr.contains("a key of no publisher in `plugins.publishers`: acme"),
        "{other}"
    );
    workspace.sign("weather.wasm", "acme");
    let signature = workspace.read("weather.wasm.minisig");
    workspace.write_plugin("changed.wasm", "weather", &json!({"clocks": {"reason": "Dates."}}));
    workspace.write("changed.wasm.minisig", &signature);
    workspace.push("changed.wasm", &reference).await;
    let tampered = workspace.install(&reference, &[]).await.failed();
    assert!(tampered.stderr.contains("is not that of this component"), "{tampered}");
    assert!(!workspace.path("airlock.lock").exists() && !workspace.path("plugins").exists());

    workspace.push("weather.wasm", &reference).await;
    let installed = workspace.install(&reference, &[]).await.ok();
    assert!(installed.stdout.contains("signed by acme"), "{installed}");
    assert_eq!(workspace.read("plugins/weather.wasm.minisig"), signature);
    let called = workspace.airlock(&["call", "weather-ok"]).await.ok();
    assert_eq!(called.stdout, "ok\n", "{called}");

    // A build that is put in its place is not accepted without a signature of its own.
    let changed = fs::read(workspace.path("changed.wasm")).expect("the component");
    let accepted = fs::read(workspace.path("plugins/weather.wasm")).expect("the component");
    workspace.write("plugins/weather.wasm", changed);
    let refused = workspace.airlock(&["plugin", "accept", "weather", "--yes"]).await.failed();
    assert!(refused.stderr.contains("is not that of this component"), "{refused}");
    workspace.write("plugins/weather.wasm", accepted);

    // The gateway itself looks at the lock file.
    let lock = workspace.read("airlock.lock").replace("publisher = \"acme\"\n", "");
    workspace.write("airlock.lock", lock);
    let unloaded = workspace.airlock(&["call", "weather-ok"]).await.failed();
    assert!(unloaded.stderr.contains("plugins.require_signature"), "{unloaded}");
    let checked = workspace.airlock(&["check"]).await.failed();
    assert!(checked.stderr.contains("plugins.require_signature"), "{checked}");
    let _ = workspace.airlock(&["plugin", "accept", "weather", "--yes"]).await.ok();
    let _ = workspace.airlock(&["call", "weather-ok"]).await.ok();
}

#[tokio::test]
async fn a_plugin_of_a_publisher_is_replaced_by_another_build_only_with_a_signature_or_consent() {
    let Some(registry) = TestRegistry::start(false).await else { return };
    let workspace = Workspace::new();
    workspace.write_plugin("weather.wasm", "weather", &json!({}));
    let key = workspace.new_key("acme");
    workspace.write_publishers(&json!({"acme": key}), false);
    workspace.sign("weather.wasm", "acme");
    // The signature beside a file counts too.
    let installed = workspace.install("weather.wasm", &[]).await.ok();
    assert!(installed.stdout.contains("signed by acme"), "{installed}");
    let changed = component::with_section(
        &fs::read(workspace.path("weather.wasm")).expect("the component"),
        "note",
        b"another build",
    );
    workspace.write("changed.wasm", changed);
    let reference = registry.reference("weather:2");
    workspace.push("changed.wasm", &reference).await;
    let refused = workspace.install(&reference, &["--replace"]).await.failed();
    assert!(refused.stdout.contains("its publisher (acme is now none)"), "{refused}");
    assert!(refused.stderr.contains(" --change-id"), "{refused}");
    let _ = workspace.install(&reference, &["--replace", "--change-id"]).await.ok();
    assert!(!workspace.path("plugins/weather.wasm.minisig").exists());
    assert!(!workspace.read("airlock.lock").contains("publisher = "));
}

#[tokio::test]
async fn a_registry_that_asks_for_a_password_gets_that_of_docker() {
    let Some(registry) = TestRegistry::start(true).await else { return };
    let workspace = Workspace::new();
    workspace.write("weather.wasm", fs::read(guests::HOSTILE).expect("the component"));
    let reference = registry.reference("weather:1");
    let refused = push_as_ann(&workspace, &reference).await.failed();
    assert!(refused.stderr.contains("sign in with `docker login`"), "{refused}");
    fs::create_dir(workspace.path("docker")).expect("a directory");
    let address = &registry.address;
    for (auth, is_good) in [("YW5uOndyb25n", false), ("YW5uOmh1c2g=", true)] {
        let auths = json!({"auths": {address: {"auth": auth}}});
        workspace.write("docker/config.json", auths.to_string());
        let pushed = push_as_ann(&workspace, &reference).await;
        assert_eq!(pushed.code == Some(0), is_good, "{pushed}");
        assert!(!pushed.stderr.contains("hush") && !pushed.stderr.contains(auth), "{pushed}");
    }
}

/// Pushes `weather.wasm` with the configuration of Docker in the workspace.
async fn push_as_ann(workspace: &Workspace, reference: &str) -> Finished {
    let airlock = Airlock::new().current_dir(workspace.directory.path());
    let airlock = airlock.env("DOCKER_CONFIG", workspace.path("docker"));
    let arguments = ["plugin", "push", "weather.wasm", reference];
    arguments.iter().fold(airlock, Airlock::arg).run().await
}
