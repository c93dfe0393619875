use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{FilesGrant, Grant, PartialQuota};
use airlock_catalog::SourceState;
use airlock_core::tool::Allowlist;
use airlock_sandbox::{self as sandbox, Access};

/// Longer than any step of these tests takes.
const LONG: Duration = Duration::from_secs(20);

/// Returns plugins with one configured plugin, `guest`, whose file does not exist.
fn plugins() -> Plugins {
    let settings =
        sandbox::Settings { instances_per_depth: 1, depths: 1, ..sandbox::Settings::new(None) };
    let resources = Resources {
        catalog: Catalog::new(),
        sandbox: Sandbox::new(&settings).expect("a sandbox"),
        lock: None,
        store: airlock_store::Settings::new("airlock.db").into(),
        environment: |_| None,
        on_compile: None,
        recorder: None,
    };
    Plugins::new(resources, [guest(Grant::default())])
}

fn guest(grant: Grant) -> Configured {
    Configured {
        client: ClientName::parse("guest").expect("a name"),
        policy: Policy { execute: Allowlist::All, ..Policy::default() },
        settings: Settings { component: "/does/not/exist".into(), grant },
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_while_loading_does_not_delay_the_stop() {
    let plugins = plugins();
    let entries = plugins.0.entries.all();
    let entry = entries.values().next().expect("one is configured");
    let _loading = entry.loading.lock().await;
    let stop = CancellationToken::new();
    let mut watch = std::pin::pin!(plugins.watch(stop.clone()));
    // By then `watch` has checked the files more than twice, and waits for the lock, which is never
    // released.
    assert!(tokio::time::timeout(airlock_lock::WATCH_PERIOD * 10, watch.as_mut()).await.is_err());
    stop.cancel();
    assert!(tokio::time::timeout(LONG, watch).await.is_ok());
}

#[tokio::test]
async fn a_plugin_that_cannot_be_loaded_fails_alone_and_an_unknown_one_has_no_digest() {
    let plugins = plugins();
    plugins.announce();
    plugins.reload_all().await;
    let snapshot = plugins.0.resources.catalog.snapshot();
    let states: Vec<_> = snapshot.clients().map(|client| client.state.clone()).collect();
    assert!(matches!(states.as_slice(), [SourceState::Failed { .. }]), "{states:?}");
    assert_eq!((plugins.digest("guest"), plugins.digest("other")), (None, None));
    let unknown = plugins.reload("other").await.expect_err("it is not configured");
    assert!(matches!(unknown, PluginError::Unknown(_)), "{unknown:?}");
}

#[tokio::test]
async fn a_plugin_that_is_loaded_again_for_its_directories_is_named_although_its_entry_is_the_same()
{
    let plugins = plugins();
    plugins.announce();
    let quota = PartialQuota::default();
    let data = FilesGrant { path: "/d".into(), access: Access::ReadOnly, quota };
    let configured =
        || guest(Grant { files: [("data".to_owned(), data.clone())].into(), ..Grant::default() });
    let outcome = plugins.configure([configured()], false).await;
    assert_eq!(
        (names(&outcome.changed), names(&outcome.rechecked)),
        (vec!["guest".into()], vec![])
    );
    assert!(plugins.configure([configured()], false).await.is_empty());
    let outcome = plugins.configure([configured()], true).await;
    assert_eq!(
        (names(&outcome.changed), names(&outcome.rechecked)),
        (vec![], vec!["guest".into()])
    );
    assert!(!outcome.is_empty());
}

fn names(names: &[ClientName]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
