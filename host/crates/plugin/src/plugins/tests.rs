use std::path::Path;

use super::*;
use crate::{ComponentSource, FilesGrant, Grant, PartialQuota, Publishers, Settings};
use airlock_catalog::SourceState;
use airlock_core::tool::{Allowlist, Policy};
use airlock_lock::Pin;
use airlock_sandbox::{self as sandbox, Access};
use airlock_store::{self as store, Unavailable, components::ComponentDigest};

/// Returns plugins with one configured plugin, `guest`, whose file does not exist.
fn plugins() -> Plugins {
    plugins_of(guest(Grant::default()))
}

/// Returns plugins with one configured plugin and a store that cannot be opened.
fn plugins_of(configured: Configured) -> Plugins {
    plugins_at("/dev/null/airlock.db".as_ref(), configured)
}

/// Returns a plugin of a gateway with this store.
fn plugins_at(store: &Path, configured: Configured) -> Plugins {
    let settings =
        sandbox::Settings { instances_per_depth: 1, depths: 1, ..sandbox::Settings::new(None) };
    let resources = Resources {
        catalog: Catalog::new(),
        sandbox: Sandbox::new(&settings).expect("a sandbox"),
        lock: None,
        publishers: Publishers::default(),
        store: airlock_store::Settings::new(store).into(),
        environment: |_| None,
        on_compile: None,
        recorder: None,
    };
    Plugins::new(resources, [configured])
}

fn guest(grant: Grant) -> Configured {
    Configured {
        client: ClientName::parse("guest").expect("a name"),
        policy: Policy { execute: Allowlist::All, ..Policy::default() },
        settings: Settings { component: ComponentSource::File("/does/not/exist".into()), grant },
    }
}

/// Returns the same plugin with a component of the store.
fn stored(digest: ComponentDigest, policy: Policy, grant: Grant) -> Configured {
    let settings = Settings { component: ComponentSource::Stored(digest), grant };
    Configured { policy, settings, ..guest(Grant::default()) }
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

#[tokio::test]
async fn a_change_of_the_policy_alone_does_not_read_a_component_of_the_store_again() {
    let digest = ComponentDigest::compute(b"a component");
    let plugins = plugins_of(stored(digest, Policy::default(), Grant::default()));
    plugins.announce();
    {
        let entries = plugins.0.entries.all();
        let (_, entry) = entries.iter().next().expect("the plugin");
        let pin = Pin {
            client: "guest".to_owned(),
            id: None,
            version: None,
            component: digest.to_string(),
            source: None,
            publisher: None,
            descriptors: String::new(),
            requests: Vec::new(),
            tools: Vec::new(),
        };
        entry.last_load().in_place = Some((pin, entry.spec()));
    }
    let all = Policy { execute: Allowlist::All, ..Policy::default() };
    let outcome = plugins.configure([stored(digest, all.clone(), Grant::default())], false).await;
    assert_eq!(names(&outcome.changed), ["guest"]);
    assert!(outcome.failed.is_empty(), "the store cannot be read, and is not");
    assert_eq!(plugins.digest("guest"), Some(digest.to_string()));
    assert_eq!(plugins.reload("guest").await.ok(), Some(Reloaded::Unchanged));
    let clocks = Grant { clocks: true, ..Grant::default() };
    let outcome = plugins.configure([stored(digest, all, clocks)], false).await;
    assert_eq!(names(&outcome.failed), ["guest"]);
    assert_eq!(plugins.digest("guest"), None, "other rights are not those of the loaded plugin");
}

#[tokio::test]
async fn a_plugin_that_the_store_keeps_from_being_loaded_is_tried_again() {
    let digest = ComponentDigest::compute(b"a component");
    // A directory is no database.
    let directory = tempfile::tempdir().expect("a directory");
    let configured = stored(digest, Policy::default(), Grant::default());
    let plugins = plugins_at(directory.path(), configured);
    plugins.announce();
    plugins.reload_all().await;
    let entries = plugins.0.entries.all();
    let (_, entry) = entries.iter().next().expect("the plugin");
    assert!(entry.last_load().retry_at.is_some());
    let location = "airlock.db".to_owned();
    for (error, expected) in [
        (PluginError::Unavailable(Unavailable::Busy), true),
        (PluginError::Store(store::OpenError::Foreign { store: location }), true),
        (PluginError::Entries(StoreError::Unavailable(Unavailable::Locked)), true),
        (PluginError::Absent(digest), false),
        (PluginError::NoTools(String::new()), false),
    ] {
        assert_eq!(is_of_store(&error), expected, "{error}");
    }
}

#[tokio::test]
async fn what_is_taken_away_does_not_wait_for_a_load_and_what_comes_back_is_loaded_again() {
    let plugins = plugins();
    plugins.announce();
    let catalog = plugins.0.resources.catalog.clone();
    let entries = plugins.0.entries.all();
    let (client, entry) = entries.first_key_value().expect("one plugin");
    let loading = entry.loading.lock().await;
    let closed = Configured { policy: Policy::default(), ..guest(Grant::default()) };
    plugins.restrict([closed.clone()]);
    assert_eq!(catalog.snapshot().policy(client), Some(&closed.policy));
    assert!(!entry.is_gone());
    plugins.restrict([]);
    let snapshot = catalog.snapshot();
    let state = snapshot.clients().map(|source| source.state.clone()).next();
    assert!(matches!(state, Some(SourceState::Failed { .. })), "{state:?}");
    assert!(entry.is_gone());
    drop(loading);
    let outcome = plugins.configure([guest(Grant::default())], false).await;
    assert_eq!(names(&outcome.changed), ["guest"]);
    assert!(!entry.is_gone());
    let outcome = plugins.configure([], false).await;
    assert_eq!(names(&outcome.removed), ["guest"]);
    assert_eq!(catalog.snapshot().clients().count(), 0);
}

fn names(names: &[ClientName]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
