//! Stores of tenants, and their transfer to other holders.

use super::*;

on_both! {
    the_usage_is_read_without_a_change,
    each_tenant_has_entries_and_a_quota_of_its_own_unless_the_store_is_shared,
    many_operations_of_one_tenant_leave_places_to_another_of_the_same_plugin,
    a_store_moves_to_a_holder_that_has_no_entries,
}

async fn each_tenant_has_entries_and_a_quota_of_its_own_unless_the_store_is_shared(home: TestHome) {
    let bench = KvBench::new(home).await;
    let cost = ENTRY_OVERHEAD_BYTES + 2;
    let database = &bench.database;
    let ann = database.kv("p", "s", Opener::Own(ANN), cost);
    let bob = database.kv("p", "s", Opener::Own(BOB), cost);
    ann.set("k", vec![1], None, None).await.expect("it fits");
    assert!(matches!(ann.set("l", vec![1], None, None).await, Err(KvError::QuotaExceeded)));
    assert_eq!(value(&bob, "k").await, None);
    assert!(bob.keys("", None, 10).await.expect("listed").keys.is_empty());
    assert_eq!(bob.get_many(vec!["k".to_owned()], 10).await.expect("read"), [None]);
    assert!(!bob.delete("k", None).await.expect("there is none"));
    bob.set("k", vec![2], Some(0), None).await.expect("the quota of the other is not its own");
    assert_eq!((value(&ann, "k").await, value(&bob, "k").await), (Some(vec![1]), Some(vec![2])));

    let ann = database.kv("p", "s", Opener::Shared(ANN), cost);
    let bob = database.kv("p", "s", Opener::Shared(BOB), cost);
    assert_eq!(value(&ann, "k").await, None, "the shared store is a third one");
    ann.set("k", vec![3], None, None).await.expect("it fits");
    assert_eq!(value(&bob, "k").await, Some(vec![3]));
    assert!(matches!(bob.set("l", vec![1], None, None).await, Err(KvError::QuotaExceeded)));
    let holders = bench.database.kv_usage().await.expect("read");
    let holders: Vec<_> = holders.iter().map(|usage| usage.holder).collect();
    assert_eq!(holders, [Holder::Everyone, Holder::Tenant(ANN), Holder::Tenant(BOB)]);
}

async fn many_operations_of_one_tenant_leave_places_to_another_of_the_same_plugin(home: TestHome) {
    let bench = KvBench::new(home).await;
    for open in [Opener::Own, Opener::Shared] {
        let ann = bench.database.kv("p", "s", open(ANN), ROOM);
        let bob = bench.database.kv("p", "s", open(BOB), ROOM);
        let many = futures_util::future::join_all((0..600).map(|_| ann.get("k")));
        // Those of the first tenant are begun first.
        let (many, one) = tokio::join!(biased; many, bob.get("k"));
        let refused = many.iter().filter(|read| read.is_err()).count();
        assert!(refused > 0, "the tenant had no place left");
        assert!(one.is_ok(), "the other had one: {one:?}");
    }
}

async fn a_store_moves_to_a_holder_that_has_no_entries(home: TestHome) {
    let bench = KvBench::new(home).await;
    let database = &bench.database;
    let ann = database.kv("p", "s", Opener::Own(ANN), ROOM);
    let bob = database.kv("p", "s", Opener::Own(BOB), ROOM);
    let version = ann.set("k", vec![1], None, None).await.expect("written");
    bob.set("k", vec![2], None, None).await.expect("written");
    let of_ann = Holder::Tenant(ANN);
    let of_bob = Holder::Tenant(BOB);
    let refused = transfer(database, of_ann, of_bob).await;
    assert!(matches!(refused, Err(TransferError::Occupied { entries: 1 })), "{refused:?}");
    assert_eq!((value(&ann, "k").await, value(&bob, "k").await), (Some(vec![1]), Some(vec![2])));
    bob.delete("k", None).await.expect("deleted");
    assert!(transfer(database, of_ann, of_bob).await.expect("it is free now"));
    assert_eq!(bob.get("k").await.expect("read"), Some(Entry { value: vec![1], version }));
    assert_eq!(value(&ann, "k").await, None);
    assert!(!transfer(database, of_ann, of_bob).await.expect("there is none"));
    assert!(transfer(database, of_bob, Holder::Unassigned).await.expect("it is deleted"));
    assert_eq!((value(&bob, "k").await, bench.rows().await), (None, 0));
}

async fn the_usage_is_read_without_a_change(home: TestHome) {
    let settings = home.settings();
    for _ in 0..2 {
        let settings = settings.clone();
        let read = tokio::task::spawn_blocking(move || usage(&settings)).await.expect("no panic");
        assert_eq!(read.expect("there are no tables"), []);
    }
    let bench = KvBench::new(home).await;
    bench.store(ROOM).set("k", vec![1], None, None).await.expect("written");
    let read = tokio::task::spawn_blocking(move || usage(&settings)).await.expect("no panic");
    assert_eq!(read.expect("read"), bench.database.kv_usage().await.expect("read"));
}

async fn transfer(database: &Database, from: Holder, to: Holder) -> Result<bool, TransferError> {
    database.transfer_kv("p", "s", from, to).await
}

#[tokio::test]
async fn entries_of_an_older_version_have_no_holder_and_are_seen_by_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    assert_eq!(usage_at(&path).expect("no file"), []);
    assert!(!path.exists(), "it is not made");
    let old = rusqlite::Connection::open(&path).expect("made");
    for migration in &airlock_database::schema::MIGRATIONS[..6] {
        old.execute_batch(migration).expect("version 6");
    }
    old.execute_batch(
        "INSERT INTO kv_store (plugin, name, version) VALUES ('p', 's', 7);
         INSERT INTO kv_entry (store, key, version, cost, value) VALUES (1, x'6b', 7, 66, x'76')",
    )
    .expect("a store with an entry");
    old.pragma_update(None, "application_id", airlock_database::schema::APPLICATION_ID)
        .expect("marked");
    old.pragma_update(None, "user_version", 6).expect("marked");
    drop(old);
    let expected = StoreUsage {
        plugin: "p".to_owned(),
        name: "s".to_owned(),
        holder: Holder::Unassigned,
        bytes: 66,
        entries: 1,
    };
    assert_eq!(
        usage_at(&path).expect("read"),
        std::slice::from_ref(&expected),
        "without a migration"
    );
    let database = Database::open(Settings::new(&path)).await.expect("it is migrated");
    assert_eq!(usage_at(&path).expect("read"), [expected]);
    for opener in [Opener::Own(ANN), Opener::Shared(ANN)] {
        assert_eq!(value(&database.kv("p", "s", opener, ROOM), "k").await, None);
    }
    let moved = database.transfer_kv("p", "s", Holder::Unassigned, Holder::Everyone).await;
    assert!(moved.expect("it is moved"));
    let shared = database.kv("p", "s", Opener::Shared(BOB), ROOM);
    let entry = shared.get("k").await.expect("read").expect("an entry");
    assert_eq!((entry.value.as_slice(), entry.version), (&b"v"[..], 7));
    assert_eq!(shared.set("k", vec![1], Some(7), None).await.expect("written"), 8);
    assert_eq!(database.kv_usage().await.expect("read")[0].bytes, 66);
}
