//! Tests of one store: versions, reads, and keys of every kind.

mod holders;
mod model;
mod quota;

use std::collections::BTreeSet;

use futures_util::FutureExt as _;

use super::*;
use crate::tests::home::{TestHome, on_both};
use airlock_database::sql::{first, params};

/// A database, and its clock.
struct KvBench {
    database: Database,
    home: TestHome,
}

const ROOM: u64 = 1 << 30;
/// Two tenants.
const ANN: OwnerId = [1; 32];
const BOB: OwnerId = [2; 32];

impl KvBench {
    async fn new(home: TestHome) -> Self {
        Self { database: home.open().await, home }
    }

    fn store(&self, max_bytes: u64) -> PluginStore {
        self.database.kv("plugin", "store", Opener::Own([1; 32]), max_bytes)
    }

    async fn usage(&self) -> (u64, u64) {
        let usage = self.database.kv_usage().await.expect("read");
        usage.first().map_or((0, 0), |usage| (usage.bytes, usage.entries))
    }

    /// Returns the number of rows, expired entries included.
    async fn rows(&self) -> i64 {
        let count = "SELECT count(*) FROM kv_entry";
        self.database.read(move |sql| sql.one(count, &[], first)).await.expect("counted")
    }
}

async fn value(store: &PluginStore, key: &str) -> Option<Vec<u8>> {
    store.get(key).await.expect("read").map(|entry| entry.value)
}

on_both! {
    an_entry_is_written_only_at_the_expected_version,
    an_entry_is_deleted_only_at_the_expected_version,
    several_entries_are_read_in_the_order_of_their_keys,
    reads_of_several_entries_have_bounds,
    a_version_is_never_reused_even_after_a_deletion,
    keys_and_values_have_bounds,
    stores_of_different_plugins_or_names_share_no_entries,
    pages_list_every_key_once_in_the_order_of_its_bytes,
    a_page_has_at_most_a_thousand_keys_and_examines_a_bounded_number,
    a_dropped_operation_is_done_completely_or_not_at_all,
}

on_both! {
    threads:
    several_entries_are_read_as_they_are_at_one_moment,
    no_update_is_lost_when_many_tasks_and_two_processes_increment_one_entry,
}

async fn an_entry_is_written_only_at_the_expected_version(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    assert!(
        matches!(store.set("k", vec![1], Some(7), None).await, Err(KvError::Conflict)),
        "there is none"
    );
    let first = store.set("k", vec![1], Some(0), None).await.expect("there was none");
    assert!(first > 0);
    assert!(
        matches!(store.set("k", vec![2], Some(0), None).await, Err(KvError::Conflict)),
        "there is one now"
    );
    let second = store.set("k", vec![2], Some(first), None).await.expect("it was at that version");
    assert!(second > first);
    assert!(matches!(store.set("k", vec![3], Some(first), None).await, Err(KvError::Conflict)));
    assert!(matches!(store.set("k", vec![3], Some(u64::MAX), None).await, Err(KvError::Conflict)));
    assert_eq!(
        store.get("k").await.expect("read"),
        Some(Entry { value: vec![2], version: second })
    );
}

async fn an_entry_is_deleted_only_at_the_expected_version(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    for _ in 0..2 {
        assert!(!store.delete("k", Some(0)).await.expect("there is none"));
        assert!(!store.delete("k", None).await.expect("there is none"));
        assert!(matches!(store.delete("k", Some(7)).await, Err(KvError::Conflict)));
        // The second round has a row for the store.
        store.set("other", vec![1], None, None).await.expect("written");
    }
    let first = store.set("k", vec![1], None, None).await.expect("written");
    let second = store.set("k", vec![2], None, None).await.expect("written");
    for other in [0, first, second + 1, u64::MAX] {
        let refused = store.delete("k", Some(other)).await;
        assert!(matches!(refused, Err(KvError::Conflict)), "{other} {refused:?}");
    }
    assert_eq!(value(&store, "k").await, Some(vec![2]));
    assert!(store.delete("k", Some(second)).await.expect("it was at that version"));
    assert_eq!(value(&store, "k").await, None);
    let version = store.set("k", vec![3], None, Some(Duration::ZERO)).await.expect("written");
    assert!(matches!(store.delete("k", Some(version)).await, Err(KvError::Conflict)), "expired");
    assert!(!store.delete("k", Some(0)).await.expect("it has expired"));
}

async fn several_entries_are_read_in_the_order_of_their_keys(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    assert_eq!(store.get_many(keys("a"), 0).await.expect("read"), [None], "there is no store yet");
    for key in ["a", "b", "c"] {
        store.set(key, key.as_bytes().to_vec(), None, None).await.expect("written");
    }
    store.set("old", vec![1], None, Some(Duration::ZERO)).await.expect("written");
    let read = store.get_many(keys("c old absent a c"), 100).await.expect("read");
    let mut single = Vec::new();
    for key in ["c", "old", "absent", "a", "c"] {
        single.push(store.get(key).await.expect("read"));
    }
    assert_eq!(read, single);
    let found = read.iter().flatten().map(|entry| entry.value.as_slice());
    assert_eq!(found.collect::<Vec<_>>(), [b"c", b"a", b"c"]);
    assert_eq!(store.get_many(Vec::new(), 0).await.expect("read"), []);
}

fn keys(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
}

async fn reads_of_several_entries_have_bounds(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    store.set("a", vec![0; 60], None, None).await.expect("written");
    store.set("b", vec![0; 40], None, None).await.expect("written");
    assert_eq!(store.get_many(both(), 100).await.expect("they fit exactly").len(), 2);
    assert!(matches!(store.get_many(both(), 99).await, Err(KvError::TooLarge)));
    assert_eq!(store.get_many(often(MAX_KEYS), usize::MAX).await.expect("read").len(), MAX_KEYS);
    assert!(matches!(
        store.get_many(often(MAX_KEYS + 1), usize::MAX).await,
        Err(KvError::TooLarge)
    ));
    for key in [String::new(), "x".repeat(MAX_KEY_BYTES + 1)] {
        let keys = vec!["a".to_owned(), key];
        assert!(matches!(store.get_many(keys, usize::MAX).await, Err(KvError::TooLarge)));
    }
    assert_eq!(value(&store, "a").await.map(|value| value.len()), Some(60), "the lane goes on");
}

fn often(count: usize) -> Vec<String> {
    vec!["b".to_owned(); count]
}

fn both() -> Vec<String> {
    vec!["a".to_owned(), "b".to_owned()]
}

async fn several_entries_are_read_as_they_are_at_one_moment(home: TestHome) {
    let bench = KvBench::new(home).await;
    let write = bench.database.clone();
    let writing = tokio::spawn(async move {
        for number in 0..200_u8 {
            let id = Id::new("plugin", "store", Holder::Tenant(ANN));
            let both = write.write(id.subject(), move |sql| {
                for key in ["a", "b"] {
                    let change = sql::SetEntry {
                        key: key.into(),
                        value: vec![number],
                        if_version: None,
                        ttl: None,
                        max_bytes: ROOM,
                    };
                    sql::set(sql, &id, &change)?.expect("written");
                }
                Ok(())
            });
            both.await.expect("written");
        }
    });
    let store = bench.store(ROOM);
    while !writing.is_finished() {
        let read = store.get_many(vec!["a".into(), "b".into()], 10).await.expect("read");
        let values: Vec<_> =
            read.iter().map(|entry| entry.as_ref().map(|entry| &entry.value)).collect();
        assert_eq!(values[0], values[1]);
    }
    writing.await.expect("no write failed");
}

async fn a_version_is_never_reused_even_after_a_deletion(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        assert!(seen.insert(store.set("k", vec![], None, None).await.expect("written")));
        assert!(store.delete("k", None).await.expect("deleted"));
        assert!(!store.delete("k", None).await.expect("looked for"));
    }
    assert_eq!(seen.iter().next_back(), seen.iter().max());
    assert_eq!(seen.len(), 5);
}

async fn no_update_is_lost_when_many_tasks_and_two_processes_increment_one_entry(home: TestHome) {
    let bench = KvBench::new(home).await;
    let other = bench.home.open().await;
    let tasks = (0..16).map(|number| {
        let database = if number % 2 == 0 { &bench.database } else { &other };
        let store = database.kv("plugin", "store", Opener::Own([1; 32]), ROOM);
        tokio::spawn(async move {
            for _ in 0..20 {
                increment(&store).await;
            }
        })
    });
    for task in futures_util::future::join_all(tasks).await {
        task.expect("no task panicked");
    }
    assert_eq!(value(&bench.store(ROOM), "n").await, Some(320_u64.to_be_bytes().to_vec()));
}

async fn increment(store: &PluginStore) {
    loop {
        let entry = store.get("n").await.expect("read");
        let (number, version) = entry.map_or((0, 0), |entry| {
            (u64::from_be_bytes(entry.value.try_into().expect("eight bytes")), entry.version)
        });
        match store.set("n", (number + 1).to_be_bytes().to_vec(), Some(version), None).await {
            Ok(_) => return,
            Err(KvError::Conflict) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn keys_and_values_have_bounds(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    let longest = "é".repeat(MAX_KEY_BYTES / 2);
    let too_long = format!("{longest}x");
    store
        .set(&longest, vec![0; MAX_VALUE_BYTES], None, None)
        .await
        .expect("the largest there may be");
    assert_eq!(value(&store, &longest).await.map(|value| value.len()), Some(MAX_VALUE_BYTES));
    assert!(matches!(
        store.set("k", vec![0; MAX_VALUE_BYTES + 1], None, None).await,
        Err(KvError::TooLarge)
    ));
    for key in ["", &too_long] {
        assert!(matches!(store.get(key).await, Err(KvError::TooLarge)));
        assert!(matches!(store.set(key, vec![], None, None).await, Err(KvError::TooLarge)));
        assert!(matches!(store.delete(key, None).await, Err(KvError::TooLarge)));
    }
    assert_eq!(
        store.keys(&longest, None, 1).await.expect("listed").keys,
        std::slice::from_ref(&longest)
    );
    assert_eq!(store.keys("", Some(&longest), 1).await.expect("listed"), Page::default());
    assert!(matches!(store.keys(&too_long, None, 1).await, Err(KvError::TooLarge)));
    assert!(matches!(store.keys("", Some(&too_long), 1).await, Err(KvError::TooLarge)));
}

async fn stores_of_different_plugins_or_names_share_no_entries(home: TestHome) {
    let bench = KvBench::new(home).await;
    let ids = [("a", "s"), ("b", "s"), ("a", "t"), ("a:s", ""), ("", "a:s")];
    for (number, (plugin, name)) in (0..).zip(ids) {
        let store = bench.database.kv(plugin, name, Opener::Own([1; 32]), ROOM);
        assert_eq!(value(&store, "k").await, None, "nothing of the others is seen");
        store.set("k", vec![number], Some(0), None).await.expect("written");
    }
    for (number, (plugin, name)) in (0..).zip(ids) {
        assert_eq!(
            value(&bench.database.kv(plugin, name, Opener::Own([1; 32]), ROOM), "k").await,
            Some(vec![number])
        );
    }
    bench
        .database
        .kv("a", "s", Opener::Own([1; 32]), ROOM)
        .delete("k", None)
        .await
        .expect("deleted");
    let usage = bench.database.kv_usage().await.expect("read");
    let held: Vec<_> = usage
        .iter()
        .map(|usage| (usage.plugin.as_str(), usage.name.as_str(), usage.entries))
        .collect();
    assert_eq!(held, [("", "a:s", 1), ("a", "s", 0), ("a", "t", 1), ("a:s", "", 1), ("b", "s", 1)]);
}

async fn pages_list_every_key_once_in_the_order_of_its_bytes(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    let mut keys = [
        "a",
        "a%",
        "a%b",
        "a_",
        "a_b",
        "aXb",
        "a\0",
        "a\0\0",
        "a\u{7f}",
        "aé",
        "a\u{10ffff}",
        "b",
        "é",
        "\0",
    ];
    for key in keys {
        store.set(key, vec![], None, None).await.expect("written");
    }
    keys.sort_unstable();
    for limit in [0, 1, 2, 5, 14, 1_000, u32::MAX] {
        assert_eq!(all(&store, "", limit).await, keys, "{limit} at a time");
    }
    for prefix in ["a", "a%", "a_", "a\0", "aé", "\u{10ffff}", "é", "z"] {
        let expected: Vec<_> = keys.iter().copied().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(all(&store, prefix, 2).await, expected, "{prefix:?}");
    }
    let page = store.keys("a", Some("\0"), 1).await.expect("listed");
    assert_eq!(page.keys, ["a"], "a cursor before the prefix leads to its first key");
    assert_eq!(
        store.keys("a", Some("b"), 1).await.expect("listed"),
        Page::default(),
        "and one behind it nowhere"
    );
}

async fn all(store: &PluginStore, prefix: &str, limit: u32) -> Vec<String> {
    let mut keys = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.keys(prefix, cursor.as_deref(), limit).await.expect("listed");
        assert!(page.keys.len() <= limit.clamp(1, MAX_PAGE_KEYS) as usize);
        keys.extend(page.keys);
        cursor = page.next;
        if cursor.is_none() {
            return keys;
        }
    }
}

async fn a_page_has_at_most_a_thousand_keys_and_examines_a_bounded_number(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    let id = Id::new("plugin", "store", Holder::Tenant(ANN));
    let fill = bench.database.write(id.subject(), |sql| {
        let make = "INSERT INTO kv_store (id, plugin, name, holder) VALUES (1, ?1, ?2, ?3)";
        sql.run(make, params!["plugin", "store", &ANN])?;
        let insert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) \
                      VALUES (1, ?1, 1, 64, ?2, ?3)";
        for number in 0..=12_000 {
            let expires = (number < 11_000).then_some(1_i64);
            let key = format!("{number:05}");
            sql.run(insert, params![key.as_bytes(), expires, b""])?;
        }
        Ok(())
    });
    fill.await.expect("filled");
    let page = store.keys("", None, 1_000).await.expect("listed");
    assert_eq!(
        page,
        Page { keys: vec![], next: Some("09999".into()) },
        "it stops among what has expired"
    );
    let page = store.keys("", page.next.as_deref(), u32::MAX).await.expect("listed");
    assert_eq!((page.keys.len(), page.next), (1_000, Some("11999".into())));
    assert_eq!(all(&store, "", 1_000).await.len(), 1_001);
}

async fn a_dropped_operation_is_done_completely_or_not_at_all(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    for number in 0..50_u8 {
        // Polled once: the operation is running, or in the queue, or done if the blocking thread
        // was quick.
        let _ = store.set(&number.to_string(), vec![number; 1_000], None, None).now_or_never();
    }
    store.set("last", vec![], None, None).await.expect("it takes its turn");
    for key in all(&store, "", 100).await.iter().filter(|key| *key != "last") {
        assert_eq!(value(&store, key).await.map(|value| value.len()), Some(1_000));
    }
    // In one statement: on a server, those that were dropped may still be running.
    let counted = bench.database.read(|sql| {
        let select = "SELECT entries, (SELECT count(*) FROM kv_entry) FROM kv_store";
        sql.one(select, &[], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))
    });
    let (entries, rows) = counted.await.expect("read");
    assert_eq!(entries, rows);
}
