//! Secrets from vaults of the embedding program, in a gateway that runs.

use std::sync::Arc;

use airlock::{
    Gateway, RequestError, Secret,
    config::{Config, Vault, VaultFailure, Vaults},
};
use airlock_tests::Setup;
use futures_util::future::BoxFuture;

use super::example;

/// A vault that has one credential.
struct One(&'static str);

impl Vault for One {
    fn secret<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Secret, VaultFailure>> {
        Box::pin(async move {
            let found = (reference == "keys/ann").then(|| Secret::new(self.0));
            found.ok_or(VaultFailure::NotFound)
        })
    }
}

#[tokio::test]
async fn the_example_has_the_rotated_credential_after_a_reload_and_not_the_one_before() {
    assert_eq!(example("vault").await, ["true false", "false true"]);
}

#[tokio::test]
async fn the_reference_to_a_secret_is_no_credential() {
    let setup = Setup::new().key("ann", "vault.corp/keys/ann", &[]);
    let vaults = Vaults::new().with("corp", Arc::new(One("sk-bf-ann-0123456789abcdef")));
    let vaults = vaults.expect("a good name");
    let config = Config::load_with_vaults(&setup.write(), &vaults).await.expect("it is valid");
    let gateway = Gateway::builder(config).start().await.expect("it starts");
    let refused = gateway.request().key("vault.corp/keys/ann").open().expect_err("a reference");
    assert!(matches!(refused, RequestError::UnknownKey), "{refused}");
    gateway.request().key("sk-bf-ann-0123456789abcdef").open().expect("the secret");
    gateway.stop().await;
}

#[tokio::test]
async fn a_vault_that_is_not_registered_is_named_with_the_key() {
    let setup = Setup::new().key("ann", "vault.other/keys/ann", &[]);
    let vaults = Vaults::new().with("corp", Arc::new(One("unused"))).expect("a good name");
    let refused = Config::load_with_vaults(&setup.write(), &vaults).await.expect_err("no vault");
    let problem = refused.problems()[0].to_string();
    assert!(problem.starts_with("governance.virtual_keys[0].value: no vault is named \"other\""));
}
