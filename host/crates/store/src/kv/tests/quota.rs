//! Expiry, and the quota of a store.

use super::*;

on_both! {
    an_entry_expires_exactly_at_the_end_of_its_ttl,
    a_store_accepts_its_quota_to_the_byte_and_refuses_one_more,
    an_entry_that_is_larger_than_the_whole_quota_is_refused_with_both_sizes,
    a_store_over_a_lowered_quota_accepts_changes_that_do_not_grow_it,
    expired_entries_free_their_quota_at_once_and_are_purged_in_batches,
    an_expired_entry_is_absent_and_counts_nothing_before_it_is_purged,
    no_more_expired_entries_are_summed_up_than_a_change_needs,
}

async fn an_entry_expires_exactly_at_the_end_of_its_ttl(home: TestHome) {
    let bench = KvBench::new(home).await;
    let store = bench.store(ROOM);
    let ttl = Some(Duration::from_secs(1));
    let version = store.set("k", vec![1], None, ttl).await.expect("written");
    bench.home.clock.pass(Duration::from_millis(999));
    assert_eq!(value(&store, "k").await, Some(vec![1]));
    assert_eq!(store.keys("", None, 10).await.expect("listed").keys, ["k"]);
    bench.home.clock.pass(Duration::from_millis(1));
    assert_eq!(value(&store, "k").await, None);
    assert_eq!(store.keys("", None, 10).await.expect("listed"), Page::default());
    assert!(!store.delete("k", None).await.expect("looked for"), "there is nothing to delete");
    let again = store.set("k", vec![2], Some(0), ttl).await.expect("it is absent");
    assert!(again > version);
    store.set("k", vec![3], Some(again), None).await.expect("it is there");
    bench.home.clock.pass(Duration::from_secs(1_000_000));
    assert_eq!(value(&store, "k").await, Some(vec![3]), "written without a time, it stays");
    store.set("k", vec![4], None, Some(Duration::MAX)).await.expect("written");
    assert_eq!(value(&store, "k").await, Some(vec![4]));
    store.set("k", vec![5], None, Some(Duration::ZERO)).await.expect("written");
    assert_eq!(value(&store, "k").await, None);
}

async fn a_store_accepts_its_quota_to_the_byte_and_refuses_one_more(home: TestHome) {
    let bench = KvBench::new(home).await;
    let entry = ENTRY_OVERHEAD_BYTES + 1 + 100;
    let store = bench.store(2 * entry);
    store.set("a", vec![0; 100], None, None).await.expect("it fits");
    assert!(matches!(store.set("b", vec![0; 101], None, None).await, Err(KvError::QuotaExceeded)));
    assert!(
        matches!(store.set("bb", vec![0; 100], None, None).await, Err(KvError::QuotaExceeded)),
        "keys count"
    );
    assert_eq!(bench.usage().await, (entry, 1), "a refusal changes nothing");
    store.set("b", vec![0; 100], None, None).await.expect("it fits exactly");
    assert_eq!(bench.usage().await, (2 * entry, 2));
    assert!(
        matches!(store.set("c", vec![], None, None).await, Err(KvError::QuotaExceeded)),
        "an empty value is not free"
    );
    assert!(matches!(store.set("a", vec![0; 101], None, None).await, Err(KvError::QuotaExceeded)));
    assert_eq!(value(&store, "a").await, Some(vec![0; 100]));
    store.set("a", vec![0; 99], None, None).await.expect("it is smaller");
    store.set("b", vec![0; 101], None, None).await.expect("there is room for one more byte");
    assert!(store.delete("a", None).await.expect("deleted"));
    assert_eq!(bench.usage().await, (entry + 1, 1));
    store.set("c", vec![0; 99], None, None).await.expect("a deletion made room");
}

async fn an_entry_that_is_larger_than_the_whole_quota_is_refused_with_both_sizes(home: TestHome) {
    let bench = KvBench::new(home).await;
    let quota = ENTRY_OVERHEAD_BYTES + 1 + 100;
    let store = bench.store(quota);
    let refused = store.set("a", vec![0; 101], None, None).await.expect_err("it never fits");
    let expected = format!(
        "the entry alone counts {} bytes, more than the store's quota of {quota} bytes",
        quota + 1
    );
    assert_eq!(refused.to_string(), expected);
    store.set("a", vec![0; 100], None, None).await.expect("it fits exactly");
    assert!(matches!(store.set("b", vec![0; 100], None, None).await, Err(KvError::QuotaExceeded)));
    assert_eq!(bench.usage().await, (quota, 1), "a refusal changes nothing");
}

async fn a_store_over_a_lowered_quota_accepts_changes_that_do_not_grow_it(home: TestHome) {
    let bench = KvBench::new(home).await;
    bench.store(ROOM).set("a", vec![0; 1_000], None, None).await.expect("written");
    let store = bench.store(100);
    assert!(matches!(
        store.set("a", vec![0; 1_001], None, None).await,
        Err(KvError::LargerThanQuota { .. })
    ));
    store.set("a", vec![1; 1_000], None, None).await.expect("it is as large as before");
    store.set("a", vec![1; 900], None, None).await.expect("it is smaller");
    assert!(matches!(store.set("b", vec![], None, None).await, Err(KvError::QuotaExceeded)));
}

async fn expired_entries_free_their_quota_at_once_and_are_purged_in_batches(home: TestHome) {
    let bench = KvBench::new(home).await;
    let entry = ENTRY_OVERHEAD_BYTES + 3;
    let store = bench.store(250 * entry);
    for number in 100..350 {
        store
            .set(&number.to_string(), vec![], None, Some(Duration::from_secs(1)))
            .await
            .expect("it fits");
    }
    assert!(matches!(store.set("350", vec![], None, None).await, Err(KvError::QuotaExceeded)));
    assert_eq!(bench.usage().await, (250 * entry, 250));
    bench.home.clock.pass(Duration::from_secs(1));
    assert_eq!(bench.usage().await, (0, 0), "nobody has purged anything yet");
    let all = usize::try_from(249 * entry).expect("a small number");
    store.set("big", vec![0; all], None, None).await.expect("there is room for all but an entry");
    assert_eq!(bench.rows().await, 151);
    assert_eq!(bench.usage().await, (250 * entry, 1));
    assert!(matches!(store.set("350", vec![], None, None).await, Err(KvError::QuotaExceeded)));
    assert_eq!(bench.rows().await, 51, "a refusal purges too");
    store.delete("absent", None).await.expect("looked for");
    assert_eq!(bench.rows().await, 1);
    assert_eq!(bench.usage().await, (250 * entry, 1));
}

async fn an_expired_entry_is_absent_and_counts_nothing_before_it_is_purged(home: TestHome) {
    let bench = KvBench::new(home).await;
    let entry = ENTRY_OVERHEAD_BYTES + 3;
    let store = bench.store(150 * entry);
    for number in 100..250 {
        store
            .set(&number.to_string(), vec![], None, Some(Duration::from_secs(1)))
            .await
            .expect("it fits");
    }
    bench.home.clock.pass(Duration::from_secs(1));
    store
        .set("249", vec![], Some(0), None)
        .await
        .expect("it is absent, though a hundred others are purged first");
    assert_eq!(bench.usage().await, (entry, 1));
    assert_eq!(bench.rows().await, 50);
}

async fn no_more_expired_entries_are_summed_up_than_a_change_needs(home: TestHome) {
    let bench = KvBench::new(home).await;
    let id = Id::new("plugin", "store", Holder::Tenant(ANN));
    let fill = bench.database.write(id.subject(), |sql| {
        let make = "INSERT INTO kv_store (id, plugin, name, holder) VALUES (1, ?1, ?2, ?3)";
        sql.run(make, params!["plugin", "store", &ANN])?;
        let insert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) \
                      VALUES (1, ?1, 1, 70, 1, ?2)";
        for number in 0..1_000 {
            sql.run(insert, params![format!("{number:06}").as_bytes(), b""])?;
        }
        Ok(())
    });
    fill.await.expect("filled");
    for (wanted, summed) in [(1, 70), (63, 70), (64, 140), (6_400, 7_070), (i64::MAX, 70_000)] {
        let sum = bench.database.read(move |sql| sql::expired_bytes(sql, 1, wanted));
        assert_eq!(sum.await.expect("summed up"), summed, "{wanted}");
    }
}
