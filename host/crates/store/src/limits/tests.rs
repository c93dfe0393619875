use std::time::Duration;

use super::*;
use crate::tests::home::{TestHome, on_both, until_one_waits};

const DAY: Duration = Duration::from_hours(24);

fn selection(limits: &[&str], requests: &[&str]) -> CountSelection {
    CountSelection {
        limits: limits.iter().map(|&limit| limit.to_owned()).collect(),
        requests: requests.iter().map(|&request| request.to_owned()).collect(),
    }
}

fn count(used: u64) -> StoredCount {
    let extra = (used > 1).then_some(StoredExtra { amount: 5, until_ms: Some(9) });
    let buckets = vec![StoredBucket { start_ms: -1, used }, StoredBucket { start_ms: 7, used: 2 }];
    StoredCount { epoch_ms: 3, seen_ms: 4, buckets, extra }
}

fn key(id: &str, limit: &str) -> ReservationKey {
    ReservationKey { id: id.to_owned(), limit: limit.to_owned() }
}

fn reservation(amount: u64, epoch_ms: i64, expires: Duration) -> StoredReservation {
    let expires_ms = i64::try_from(expires.as_millis()).expect("a short time");
    StoredReservation { amount, bucket_ms: 7, epoch_ms, expires_ms }
}

on_both! {
    counts_are_read_as_they_were_written,
    a_reservation_ends_once,
    reservations_of_an_older_epoch_and_expired_ones_are_in_no_sum,
    a_change_of_too_many_limits_fails,
    the_counts_of_removed_limits_are_forgotten,
}

on_both! {
    threads: of_parallel_changes_none_is_lost,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_another_change_holds_is_told_apart_from_the_others() {
    let Some(home) = TestHome::postgres() else { return };
    let [first, second] = [home.open().await, home.open().await];
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let holding = first.change_counts(selection(&["held"], &[]), move |_| {
        let _ = begun.send(());
        wait.recv().is_err()
    });
    let trying = async {
        has_begun.await.expect("it has begun");
        let both = selection(&["free", "held"], &[]);
        let held = second.held_limits(both.limits.clone()).await;
        let changed = second.change_counts(both, |_| ()).await;
        drop(go);
        (held, changed)
    };
    let (done, (held, changed)) = tokio::join!(holding, trying);
    assert!(done.expect("it is made"));
    assert_eq!(held.expect("read"), BTreeSet::from(["held".to_owned()]));
    assert!(matches!(changed, Err(Unavailable::Locked)), "{changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_change_is_that_after_the_wait_for_its_limits() {
    let Some(home) = TestHome::postgres() else { return };
    let [first, second, watching] = [home.open().await, home.open().await, home.open().await];
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let holding = first.change_counts(selection(&["a"], &[]), move |counts| {
        let _ = begun.send(());
        let _ = wait.recv();
        counts.now_ms
    });
    let changing = async {
        has_begun.await.expect("it has begun");
        let changing = second.change_counts(selection(&["a"], &[]), |counts| counts.now_ms);
        let releasing = async {
            until_one_waits(&watching).await;
            home.clock.pass(DAY);
            drop(go);
        };
        tokio::join!(changing, releasing).0
    };
    let (held, changed) = tokio::join!(holding, changing);
    assert_eq!(held.expect("made"), 1_000_000);
    assert_eq!(changed.expect("made"), 1_000_000 + 24 * 60 * 60 * 1_000);
}

async fn counts_are_read_as_they_were_written(home: TestHome) {
    let database = home.open().await;
    let limits = ["a\0é", "b", "c"];
    let found = database.change_counts(selection(&limits, &[]), |counts| {
        let found = counts.get("b");
        counts.set("a\0é", count(1));
        counts.set("b", count(u64::MAX));
        found
    });
    assert_eq!(found.await.expect("written"), StoredCount::default());
    let read = database.counts(limits.map(str::to_owned).to_vec()).await.expect("read");
    assert_eq!(read.now_ms, 1_000_000);
    assert_eq!(read.counts.len(), 2);
    assert_eq!(read.counts["a\0é"], count(1));
    let most = u64::try_from(i64::MAX).expect("positive");
    assert_eq!(read.counts["b"], count(most), "a database has only signed numbers");
    assert_eq!(database.counts(Vec::new()).await.expect("read").counts.len(), 0);
}

async fn a_reservation_ends_once(home: TestHome) {
    let database = home.open().await;
    let reserving = database.change_counts(selection(&["a"], &[]), |counts| {
        counts.set("a", count(1));
        counts.reserve(key("r", "a"), reservation(8, 3, DAY));
    });
    reserving.await.expect("written");
    let mut ended = Vec::new();
    for _ in 0..2 {
        let end = database.change_counts(selection(&["a"], &["r", "unknown"]), |counts| {
            counts.end_reservation(&key("r", "a")).map(|reservation| reservation.amount)
        });
        ended.push(end.await.expect("written"));
    }
    assert_eq!(ended, [Some(8), None]);
}

async fn reservations_of_an_older_epoch_and_expired_ones_are_in_no_sum(home: TestHome) {
    let database = home.open().await;
    let reserving = database.change_counts(selection(&["a"], &[]), |counts| {
        counts.set("a", count(1));
        counts.reserve(key("r", "a"), reservation(1, 3, DAY));
        counts.reserve(key("s", "a"), reservation(2, 3, DAY));
        counts.reserve(key("old", "a"), reservation(4, 2, DAY));
        counts.reserve(key("late", "a"), reservation(8, 3, Duration::from_secs(1_001)));
    });
    reserving.await.expect("written");
    assert_eq!(reserved(&database).await, 11);
    home.clock.pass(Duration::from_secs(1));
    assert_eq!(reserved(&database).await, 3);
    assert_eq!(database.forget_expired_reservations().await.expect("written"), 1);
    assert_eq!(database.forget_expired_reservations().await.expect("written"), 0);
    assert_eq!(reserved(&database).await, 3);
}

async fn reserved(database: &Database) -> u64 {
    database.counts(vec!["a".into()]).await.expect("read").reserved["a"]
}

async fn a_change_of_too_many_limits_fails(home: TestHome) {
    let database = home.open().await;
    let ids: Vec<_> = (0..=MAX_CHANGED_LIMITS).map(|number| number.to_string()).collect();
    let all = CountSelection { limits: ids.iter().cloned().collect(), ..CountSelection::default() };
    let refused = database.change_counts(all, |_| ()).await;
    assert!(matches!(refused, Err(Unavailable::Busy)), "{refused:?}");
    let most: BTreeSet<_> = ids.into_iter().skip(1).collect();
    let most = CountSelection { limits: most, ..CountSelection::default() };
    database.change_counts(most, |_| ()).await.expect("exactly as many");
}

async fn the_counts_of_removed_limits_are_forgotten(home: TestHome) {
    let database = home.open().await;
    let written = database.change_counts(selection(&["a", "b"], &[]), |counts| {
        counts.set("a", count(1));
        counts.set("b", count(1));
        counts.reserve(key("r", "a"), reservation(1, 3, DAY));
    });
    written.await.expect("written");
    // More than one change has room for.
    let others = (0..2 * MAX_CHANGED_LIMITS).map(|number| number.to_string());
    let removed = others.chain(["a".to_owned()]).collect();
    database.forget_counts(removed).await.expect("written");
    let read = database.counts(vec!["a".into(), "b".into()]).await.expect("read");
    assert_eq!(read.counts.keys().collect::<Vec<_>>(), ["b"]);
    assert!(read.reserved.is_empty());
}

async fn of_parallel_changes_none_is_lost(home: TestHome) {
    let databases = [home.open().await, home.open().await];
    let changes = databases.iter().map(|database| async move {
        for _ in 0..20 {
            let change = database.change_counts(selection(&["a", "b"], &[]), |counts| {
                for limit in ["a", "b"] {
                    let used = counts.get(limit).buckets.first().map_or(0, |bucket| bucket.used);
                    counts.set(limit, count(used + 1));
                }
            });
            change.await.expect("written");
        }
    });
    futures_util::future::join_all(changes).await;
    let read = databases[0].counts(vec!["a".into(), "b".into()]).await.expect("read");
    let used = read.counts.values().map(|count| count.buckets[0].used);
    assert_eq!(used.collect::<Vec<_>>(), [40, 40]);
}
