//! Secrets of vaults: found in every place of a text, named when they are missing, and kept for a reload.

use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    future::pending,
    sync::{Arc, Mutex},
};

use airlock_core::secret::Secret;
use airlock_mcp_client::Process;
use airlock_store::entries::Entries;
use futures_util::future::BoxFuture;
use tokio::task::spawn_blocking;

use super::*;

/// A vault whose secrets change. One without a value is never returned.
#[derive(Default)]
struct Fake(Mutex<BTreeMap<&'static str, Option<&'static str>>>);

impl Fake {
    fn set(&self, reference: &'static str, secret: Option<&'static str>) {
        self.0.lock().expect("no panic").insert(reference, secret);
    }

    fn clear(&self) {
        self.0.lock().expect("no panic").clear();
    }
}

impl Vault for Fake {
    fn secret<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Secret, VaultFailure>> {
        let found = self.0.lock().expect("no panic").get(reference).copied();
        Box::pin(async move {
            match found {
                Some(Some(secret)) => Ok(Secret::new(secret)),
                Some(None) => pending().await,
                None => Err(VaultFailure::NotFound),
            }
        })
    }
}

fn vaults(fake: &Arc<Fake>) -> Vaults {
    Vaults::new().with("corp", fake.clone()).expect("a good name")
}

/// Returns a file with one provider, whose key is this text.
fn with_key(key: &str) -> Value {
    json!({"providers": {"openai": {"kind": "openai", "api_key": key}}})
}

async fn parsed(file: &Value, vaults: &Vaults) -> Result<Config, ConfigError> {
    Config::parse_with_vaults(&file.to_string(), "/etc/airlock.json", &env, vaults).await
}

/// Returns the error of a file, one problem per line.
async fn refused(file: &Value, vaults: &Vaults) -> String {
    let error = parsed(file, vaults).await.expect_err("a bad configuration");
    error.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns the key of the only provider.
fn key(config: &Config) -> String {
    let airlock_model::Kind::Service(service) = &config.providers[0].kind else {
        panic!("a service")
    };
    service.keys[0].value.as_ref().expect("a key").expose().to_owned()
}

#[tokio::test]
async fn a_secret_of_a_vault_stands_where_a_text_may_come_from_the_environment() {
    let fake = Arc::new(Fake::default());
    fake.set("openai/key", Some("sk-0123456789abcdef"));
    fake.set("db", Some("hunter2-hunter2"));
    let process =
        json!({"command": "server", "envs": ["TOKEN=vault.corp/db", "HOST=vault.local:8200"]});
    let mut file = with_key("vault.corp/openai/key");
    file["mcp"] = json!({"client_configs": [with(stdio("fs"), "stdio_config", process)]});
    let config = parsed(&file, &vaults(&fake)).await.expect("a good configuration");
    assert_eq!(key(&config), "sk-0123456789abcdef");
    let Source::Upstream(server) = &config.clients[0].source else { panic!("a server") };
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("sk-0123"), "a secret is shown");
    let transport: &dyn Any = &*server.transport;
    let process: &Process = transport.downcast_ref().expect("a process");
    assert_eq!(process.env["TOKEN"].expose(), "hunter2-hunter2");
    assert_eq!(process.env["HOST"].expose(), "vault.local:8200", "it names no vault");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_not_returned_is_named_with_its_key() {
    let fake = Arc::new(Fake::default());
    fake.set("empty", Some(""));
    fake.set("slow", None);
    for (text, expected) in [
        (
            "vault.corp/none",
            r#"the vault corp did not return the secret "none": there is no such secret"#,
        ),
        ("vault.corp/empty", r#"the secret "empty" of the vault corp is empty"#),
        ("vault.corp/slow", r#"the vault corp did not return the secret "slow" within 3s"#),
        (
            "vault.other/none",
            r#"no vault is named "other"; the program that runs the gateway has registered corp"#,
        ),
    ] {
        let problem = refused(&with_key(text), &vaults(&fake)).await;
        assert_eq!(problem, format!("providers.openai.api_key: {expected}"));
    }
    let problem = error(&with_key("vault.corp/none"));
    assert!(problem.contains("only a program that embeds the gateway"), "{problem}");
}

/// A vault that fails at length, and panics.
struct Broken;

impl Vault for Broken {
    fn secret<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Secret, VaultFailure>> {
        assert!(reference != "panic", "on purpose");
        Box::pin(async { Err(VaultFailure::Unavailable("x".repeat(1 << 20).into())) })
    }
}

#[tokio::test]
async fn a_vault_that_panics_or_fails_at_length_is_a_short_problem() {
    let vaults = Vaults::new().with("corp", Arc::new(Broken)).expect("a good name");
    let problem = refused(&with_key("vault.corp/panic"), &vaults).await;
    assert!(problem.ends_with(r#"did not return the secret "panic": it panicked"#), "{problem}");
    let problem = refused(&with_key("vault.corp/long"), &vaults).await;
    assert!(problem.len() < 8 << 10, "{}", problem.len());
}

#[test]
fn a_vault_has_a_name_of_its_own_that_can_be_written() {
    let fake = Arc::new(Fake::default());
    let taken = vaults(&fake).with("corp", fake.clone()).map(drop);
    assert_eq!(taken, Err(BadVault::Taken("corp".to_owned())));
    for name in ["", "a/b", "a.b", "1a", "é"] {
        let bad = Vaults::new().with(name, fake.clone()).map(drop);
        assert_eq!(bad, Err(BadVault::Name(name.to_owned())));
    }
    for text in ["vault.corp", "vault.corp/", "vault./x", "vault.a:1/x", "env.corp/x"] {
        assert!(!is_vault_reference(text), "{text}");
    }
    assert!(is_vault_reference("vault.corp/a/b"));
}

#[tokio::test]
async fn a_reload_reads_the_secrets_again_and_keeps_the_last_ones_while_the_vault_is_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.json");
    fs::write(&path, with_key("vault.corp/key").to_string()).expect("written");
    let fake = Arc::new(Fake::default());
    fake.set("key", Some("sk-first-0123456789"));
    let config = Config::load_with_vaults(&path, &vaults(&fake)).await.expect("a configuration");
    let source = Arc::new(ConfigSource::new(path).with_vaults(config.vaults));
    fake.set("key", Some("sk-second-0123456789"));
    let loaded = load(&source).await;
    assert_eq!(key(&loaded.merged.config), "sk-second-0123456789");
    assert!(loaded.problem.is_none());
    fake.clear();
    let loaded = load(&source).await;
    assert_eq!(key(&loaded.merged.config), "sk-second-0123456789");
    let problem = loaded.problem.expect("the vault has no secret");
    assert!(problem.to_string().contains("the vault corp did not return"), "{problem}");
}

#[tokio::test]
async fn a_connection_that_is_tried_forgets_no_secret_of_the_gateway() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.json");
    fs::write(&path, with_key("vault.corp/key").to_string()).expect("written");
    let fake = Arc::new(Fake::default());
    fake.set("key", Some("sk-first-0123456789"));
    let config = Config::load_with_vaults(&path, &vaults(&fake)).await.expect("a configuration");
    let source = Arc::new(ConfigSource::new(path).with_vaults(config.vaults.clone()));
    load(&source).await;
    parsed(&json!({}), &config.vaults).await.expect("another configuration");
    fake.clear();
    let loaded = load(&source).await;
    assert_eq!(key(&loaded.merged.config), "sk-first-0123456789");
}

/// Loads a file as a reload does.
async fn load(source: &Arc<ConfigSource>) -> Loaded<()> {
    let source = source.clone();
    let loading = spawn_blocking(move || source.load_made(&Entries::default(), |_| Ok(())));
    loading.await.expect("no panic").expect("a content")
}
