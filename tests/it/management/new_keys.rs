//! Virtual keys of the configuration file without a value, which the gateway makes and shows once.

use std::path::Path;

use airlock_tests::{Airlock, Gateway, Setup, wait};
use futures_util::future::join;
use serde_json::json;

use super::{KEYS, SharedStore, setup, status_with, until_status};
use crate::live_settings::edit;

const ANNOUNCED: &str = "virtual key \"ann\": ";

/// Returns the configuration of a gateway with a key that has no value.
fn with_key(store: &SharedStore) -> Setup {
    let rows = json!([{"mcp_client_name": "text", "tools_to_execute": ["*"]}]);
    setup(store).set("/governance/virtual_keys", json!([{"name": "ann", "mcp_configs": rows}]))
}

/// Returns the values that a gateway has shown.
fn announced(gateway: &Gateway) -> Vec<String> {
    let said = gateway.said();
    let lines = said.lines().filter_map(|line| line.strip_prefix(ANNOUNCED));
    lines.map(str::to_owned).collect()
}

async fn airlock(config: &Path, words: &[&str]) -> String {
    let run = words.iter().fold(Airlock::new(), Airlock::arg).arg("--config").arg(config);
    run.env("AIRLOCK_OPERATOR_TOKEN", "").run().await.ok().stdout
}

#[tokio::test]
async fn of_gateways_that_start_together_one_makes_the_value_and_shows_it_once() {
    for store in SharedStore::all() {
        let (first, second) = join(with_key(&store).serve(), with_key(&store).serve()).await;
        let value = wait::until("a value to be shown", async || {
            announced(&first).into_iter().chain(announced(&second)).next()
        });
        let value = value.await;
        assert!(value.starts_with("sk-bf-") && value.len() > 40, "{value}");
        until_status(&first, &value, 200).await;
        until_status(&second, &value, 200).await;
        assert_eq!(announced(&first).len() + announced(&second).len(), 1);
        for path in [KEYS, "/api/settings", "/api/changes", "/api/config"] {
            assert!(!first.get(path).await.text.contains(&value), "{path}");
        }
        // Neither a restart nor an edit of the key makes another one.
        second.kill().await;
        let first = first.kill().await.serve_connected().await;
        until_status(&first, &value, 200).await;
        edit(&first, |config| config["governance"]["virtual_keys"][0]["roles"] = json!([]));
        edit(&first, |config| {
            config["governance"]["virtual_keys"]
                .as_array_mut()
                .expect("a list")
                .push(json!({"name": "bob"}));
        });
        wait::until("the value of another key", async || {
            first.said().contains("virtual key \"bob\": sk-bf-").then_some(())
        })
        .await;
        assert_eq!(status_with(&first, &value).await, 200);
        assert_eq!(announced(&first), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_rotated_value_does_not_come_back_and_a_deleted_key_gets_another_one() {
    let store = &SharedStore::all()[0];
    let gateway = with_key(store).serve_connected().await;
    let config = gateway.directory().join("airlock.json");
    let checked = Airlock::new().arg("check").arg("--config").arg(&config).run().await.ok();
    assert!(checked.stderr.contains("the virtual keys \"ann\""), "{}", checked.stderr);
    let made = wait::until("a value to be shown", async || announced(&gateway).pop()).await;
    let rotated = airlock(&config, &["key", "rotate", "ann"]).await.trim_end().to_owned();
    assert_eq!(
        [status_with(&gateway, &made).await, status_with(&gateway, &rotated).await],
        [401, 200]
    );
    edit(&gateway, |config| {
        config["governance"]["virtual_keys"][0]["description"] = json!("edited");
    });
    wait::until("the edit to be taken", async || {
        let shown = gateway.get(&format!("{KEYS}/ann")).await.ok();
        (shown["virtual_key"]["description"] == "edited").then_some(())
    })
    .await;
    assert_eq!(
        [status_with(&gateway, &made).await, status_with(&gateway, &rotated).await],
        [401, 200]
    );
    assert_eq!(gateway.delete(&format!("{KEYS}/ann")).await.status, 200);
    assert_eq!(status_with(&gateway, &rotated).await, 401);
    edit(&gateway, |config| {
        config["governance"]["virtual_keys"][0]["description"] = json!("again");
    });
    let another =
        wait::until("another value", async || announced(&gateway).into_iter().nth(1)).await;
    until_status(&gateway, &another, 200).await;
    assert_eq!(status_with(&gateway, &rotated).await, 401);
}
