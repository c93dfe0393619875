//! Secrets from a vault of the program, to which the configuration refers.
//!
//! `cargo run -p airlock --example vault` prints which credentials a virtual key has before and after a rotation, and stops.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use airlock::{
    Gateway, Secret,
    config::{Config, Vault, VaultFailure, Vaults},
};
use futures_util::future::BoxFuture;
use serde_json::json;

const FIRST: &str = "sk-bf-first-0123456789";
const SECOND: &str = "sk-bf-second-0123456789";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("airlock.json");
    let key = json!({"name": "ann", "value": "vault.corp/keys/ann"});
    fs::write(&file, json!({"governance": {"virtual_keys": [key]}}).to_string())?;

    let corp = Arc::new(Corp::default());
    let vaults = Vaults::new().with("corp", corp.clone())?;
    let config = Config::load_with_vaults(&file, &vaults).await?;
    let gateway = Gateway::builder(config).start().await?;
    println!("{} {}", accepts(&gateway, FIRST), accepts(&gateway, SECOND));
    corp.rotate();
    gateway.reloader().reload_all().await;
    println!("{} {}", accepts(&gateway, FIRST), accepts(&gateway, SECOND));
    gateway.stop().await;
    Ok(())
}

fn accepts(gateway: &Gateway, credential: &str) -> bool {
    gateway.request().key(credential).open().is_ok()
}

/// Stands for the client of a service that keeps secrets.
#[derive(Default)]
struct Corp {
    is_rotated: AtomicBool,
}

impl Corp {
    fn rotate(&self) {
        self.is_rotated.store(true, Ordering::Relaxed);
    }
}

impl Vault for Corp {
    fn secret<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Secret, VaultFailure>> {
        Box::pin(async move {
            match reference {
                "keys/ann" if self.is_rotated.load(Ordering::Relaxed) => Ok(Secret::new(SECOND)),
                "keys/ann" => Ok(Secret::new(FIRST)),
                _ => Err(VaultFailure::NotFound),
            }
        })
    }
}
