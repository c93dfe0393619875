//! Calls of the functions that are linked for a guest, with a real database.

use std::sync::Arc;

use airlock_compile::pooled_engine;
use airlock_core::{
    tenant::Tenant,
    tool::{CallError, ClientName, ReachedLimit, ToolName},
};
use airlock_store::{Database, Settings};
use wasmtime::AsContextMut as _;

use super::*;
use crate::{
    Grants, Limits,
    plugin::{grants::KvStore as GrantedStore, rights::ToolRights},
    run::{instance, memory, state::State},
};

const ROOM: u64 = 1 << 30;

/// Runs `body` as a plugin's call with an open store.
async fn run<T>(
    database: &Database,
    limits: Limits,
    body: impl AsyncFnOnce(&mut wasmtime::Store<State<PluginSide>>, u32) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let engine = pooled_engine(1, None).expect("an engine");
    let client = ClientName::parse("test").expect("a name");
    let stores = vec![GrantedStore {
        name: "cache".to_owned(),
        max_bytes: ROOM,
        is_shared: false,
        is_cache: false,
    }];
    let mut rights = ToolRights::denied(client.clone(), Arc::default());
    rights.grants = Arc::new(Grants { stores, ..Grants::default() });
    rights.plugin.database = Some(database.clone());
    let guest = PluginSide {
        rights: Arc::new(rights),
        ..PluginSide::denied(client.clone(), Arc::default())
    };
    let call = guest.call(ToolName::new(&client, "call"), limits);
    instance::run(&engine, &memory::budget(1 << 30), call, async |store| {
        let open = open(&mut store.as_context_mut(), "cache")?.expect("it is granted");
        body(store, open.rep()).await
    })
    .await
}

/// The opener of a call without a chain.
fn own() -> kv::Opener {
    kv::Opener::Own(Tenant::GATEWAY.scope())
}

/// A database in a directory of its own, with the entries `a` of 300 bytes and `b` of 700.
async fn filled() -> (Database, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(directory.path().join("airlock.db"));
    let database = Database::open(settings).await.expect("it is made");
    let store = database.kv("test", "cache", own(), ROOM);
    for (key, bytes) in [("a", 300), ("b", 700)] {
        store.set(key, vec![1; bytes], None, None).await.expect("written");
    }
    (database, directory)
}

fn named(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn borrowed(rep: u32) -> Handle {
    Resource::new_borrow(rep)
}

#[tokio::test]
async fn a_read_of_several_entries_is_one_host_call_and_costs_by_keys_and_bytes() {
    let (database, _directory) = filled().await;
    // One host call opens the store.
    let limits = Limits { host_calls: 4, ..Limits::PLUGIN };
    let costs = run(&database, limits, async |store, open| {
        let mut costs = Vec::new();
        for names in ["absent", "absent absent", "a b"] {
            let before = store.data().meter.debt();
            let read = get_many(store.as_context_mut(), borrowed(open), named(names)).await?;
            read.expect("it is small");
            costs.push(store.data().meter.debt() - before);
        }
        Ok(costs)
    });
    let one = BASE_FUEL + KV_FUEL + KEY_FUEL;
    assert_eq!(
        costs.await.expect("three host calls"),
        [one + 6, one + KEY_FUEL + 12, one + KEY_FUEL + 2 + 1_000]
    );
    let limits = Limits { host_calls: 1, ..Limits::PLUGIN };
    let stopped = run(&database, limits, async |store, open| {
        Ok(get_many(store.as_context_mut(), borrowed(open), named("a")).await?.is_ok())
    });
    let stopped = stopped.await.expect_err("it is one too many");
    assert_eq!(stopped.limit(), Some(ReachedLimit::Budget { what: "host calls", most: 1 }));
}

#[tokio::test]
async fn a_listing_costs_by_its_prefix_its_cursor_and_the_keys() {
    let (database, _directory) = filled().await;
    let costs = run(&database, Limits::PLUGIN, async |store, open| {
        let mut costs = Vec::new();
        for cursor in [None, Some("a".to_owned()), Some("x".repeat(1 << 20))] {
            let before = store.data().meter.debt();
            let prefix = String::new();
            let listed = keys(store.as_context_mut(), borrowed(open), prefix, cursor, 10).await?;
            costs.push((store.data().meter.debt() - before, listed.is_ok()));
        }
        Ok(costs)
    });
    let call = BASE_FUEL + KV_FUEL;
    let costs = costs.await.expect("it returns");
    assert_eq!(costs, [(call + 2, true), (call + 2, true), (call + (1 << 20), false)]);
}

#[tokio::test]
async fn a_read_beyond_the_bytes_copied_at_once_is_too_large_and_does_not_end_the_guest() {
    let (database, _directory) = filled().await;
    for (copied_bytes, fits) in [(1_000, true), (999, false)] {
        let limits = Limits { copied_bytes, ..Limits::PLUGIN };
        let read = run(&database, limits, async |store, open| {
            let both = get_many(store.as_context_mut(), borrowed(open), named("a b")).await?;
            let one = get_many(store.as_context_mut(), borrowed(open), named("b none")).await?;
            Ok((both, one))
        });
        let (both, one) = read.await.expect("the guest goes on");
        assert_eq!(both.is_ok(), fits, "{copied_bytes}");
        if let Err(error) = both {
            assert!(matches!(error, KvFailure::Store(kv::KvError::TooLarge)), "{error:?}");
        }
        let one = one.expect("it is smaller");
        assert_eq!(one.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    }
}

#[tokio::test]
async fn a_delete_checks_the_version_of_the_entry() {
    let (database, _directory) = filled().await;
    let deleted = run(&database, Limits::PLUGIN, async |store, open| {
        let entry = get(store.as_context_mut(), borrowed(open), "a".to_owned()).await?;
        let version = entry.expect("read").expect("it is there").version;
        let mut deleted = Vec::new();
        for if_version in [Some(0), Some(version + 1), Some(version), Some(0), None] {
            let key = "a".to_owned();
            let result = delete(store.as_context_mut(), borrowed(open), key, if_version).await?;
            deleted.push(result.ok());
        }
        Ok(deleted)
    });
    let deleted = deleted.await.expect("it returns");
    assert_eq!(deleted, [None, None, Some(true), Some(false), Some(false)]);
}

#[tokio::test]
async fn a_failed_database_is_told_from_one_that_is_busy() {
    let error = KvFailure::from(kv::KvError::Unavailable(Unavailable::Busy));
    assert!(
        matches!(error, KvFailure::Store(kv::KvError::Unavailable(Unavailable::Busy))),
        "{error:?}"
    );
    let (database, directory) = filled().await;
    drop(database);
    let path = directory.path().join("airlock.db");
    let mut bytes = std::fs::read(&path).expect("read");
    let value = bytes.windows(300).position(|window| window == [1; 300]).expect("the first value");
    let page = value / 4096 * 4096;
    bytes[page..page + 4096].fill(0xaa);
    std::fs::write(&path, bytes).expect("written");
    let database = Database::open(Settings::new(path)).await.expect("its schema is whole");
    let failed = run(&database, Limits::PLUGIN, async |store, open| {
        get(store.as_context_mut(), borrowed(open), "a".to_owned()).await
    });
    let error = failed.await.expect("the guest goes on").expect_err("it is damaged");
    assert!(matches!(&error, KvFailure::Other(text) if text == "the database failed"), "{error:?}");
}
