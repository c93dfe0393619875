//! Removal of expired entries of stores that nothing writes to any more. A write removes those of its own store.

use std::{convert::Infallible, time::Duration};

use tokio::time::sleep;
use tracing::warn;

use super::{Id, sql};
use crate::{database::Database, lazy::LazyDatabase};
use airlock_database::error::Unavailable;

/// Interval at which expired entries are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Pause before the next ones are removed, if there may be more.
const NEXT_SWEEP: Duration = Duration::from_millis(200);
/// Most stores that one statement examines.
const STORES_AT_ONCE: u32 = 256;
/// Party of the sweep, which delays no other operations of the gateway.
const SWEEPER: &str = "sweeper of key-value stores";

impl Database {
    /// Removes expired entries of all stores, at most 100 of each. Each store is a change of its own, and one that
    /// another change holds is left out. Returns whether there may be more. Fails if the database cannot be used;
    /// some entries may be removed then.
    pub async fn remove_expired_kv(&self) -> Result<bool, Unavailable> {
        let sweeper = self.of_party(SWEEPER);
        let mut has_more = false;
        let mut next = Some(0);
        while let Some(after) = next {
            let page = sweeper
                .read(move |sql| sql::stores_with_expired(sql, after, STORES_AT_ONCE))
                .await?;
            for id in page.expired {
                has_more |= sweeper.purge_store(id).await?;
            }
            next = page.next;
        }
        Ok(has_more)
    }

    async fn purge_store(&self, id: Id) -> Result<bool, Unavailable> {
        let purging = self
            .attempt(Vec::new(), move |sql| sql::purge_store(sql, &id).map(Ok::<bool, Infallible>));
        let Ok(has_more) = purging.await?;
        Ok(has_more)
    }
}

impl LazyDatabase {
    /// Removes expired entries of key-value stores every minute, in small batches. Never returns; dropping the future
    /// ends it.
    pub async fn sweep_kv(&self) -> Infallible {
        let mut pause = SWEEP_INTERVAL;
        loop {
            sleep(pause).await;
            pause = if self.sweep_kv_once().await { NEXT_SWEEP } else { SWEEP_INTERVAL };
        }
    }

    /// Returns whether there may be more to remove.
    async fn sweep_kv_once(&self) -> bool {
        // A file that does not exist has no entries, and is not made. Why a store is not opened is logged there.
        let Ok(Some(database)) = self.existing().await else { return false };
        match database.remove_expired_kv().await {
            Ok(has_more) => has_more,
            Err(error) => {
                warn!(%error, "expired entries of key-value stores cannot be removed; the gateway tries again");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::{
        kv::Opener,
        tests::{
            home::{TestHome, on_both},
            sums,
        },
    };
    use airlock_database::sql::{first, params};

    const SECOND: Duration = Duration::from_secs(1);

    on_both! {
        expired_entries_of_stores_that_nothing_writes_to_are_removed_in_batches,
        a_sweep_examines_more_stores_than_one_statement,
    }

    /// Returns the number of rows, expired entries included.
    async fn rows(database: &Database) -> i64 {
        let count = "SELECT count(*) FROM kv_entry";
        database.read(move |sql| sql.one(count, &[], first)).await.expect("counted")
    }

    async fn fill(database: &Database, opener: Opener, entries: u32) {
        let store = database.kv("plugin", "store", opener, 1 << 20);
        for number in 0..entries {
            let key = number.to_string();
            store.set(&key, vec![1], None, Some(SECOND)).await.expect("written");
        }
    }

    async fn expired_entries_of_stores_that_nothing_writes_to_are_removed_in_batches(
        home: TestHome,
    ) {
        let database = home.open().await;
        fill(&database, Opener::Own([1; 32]), 120).await;
        fill(&database, Opener::Shared([1; 32]), 1).await;
        let kept = database.kv("plugin", "other", Opener::Own([1; 32]), 1 << 20);
        let version = kept.set("for ever", vec![], None, None).await.expect("written");
        kept.set("later", vec![], None, Some(2 * SECOND)).await.expect("written");
        let unassigned = database.attempt(Vec::new(), |sql| {
            let make = "INSERT INTO kv_store (plugin, name, bytes, entries) VALUES (?1, ?2, 66, 1) \
                        RETURNING id";
            let store: i64 = sql.one(make, params!["plugin", "old"], first)?;
            let insert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) \
                          VALUES (?1, ?2, 1, 66, 1, ?2)";
            sql.run(insert, params![store, b"k"]).map(Ok::<u64, Infallible>)
        });
        let Ok(_) = unassigned.await.expect("written");

        assert!(!database.remove_expired_kv().await.expect("swept"));
        assert_eq!(rows(&database).await, 123, "only the entry without a holder had expired");
        home.clock.pass(SECOND);
        assert!(database.remove_expired_kv().await.expect("swept"), "one store has more");
        assert_eq!(rows(&database).await, 22);
        assert!(!database.remove_expired_kv().await.expect("swept"));
        assert_eq!(rows(&database).await, 2);
        sums::check(&database).await;
        assert_eq!(
            kept.get("for ever").await.expect("read").map(|entry| entry.version),
            Some(version)
        );
        assert!(kept.get("later").await.expect("read").is_some());
    }

    async fn a_sweep_examines_more_stores_than_one_statement(home: TestHome) {
        let database = home.open().await;
        let made = database.attempt(Vec::new(), |sql| {
            let make = "INSERT INTO kv_store (id, plugin, name, holder, bytes, entries) \
                        VALUES (?1, ?2, ?2, ?3, 66, 1)";
            let insert = "INSERT INTO kv_entry (store, key, version, cost, expires, value) \
                          VALUES (?1, ?2, 1, 66, 1, ?2)";
            for number in 1..=STORES_AT_ONCE + 1 {
                let name = number.to_string();
                sql.run(make, params![number, &name, name.as_bytes()])?;
                sql.run(insert, params![number, b"k"])?;
            }
            Ok(Ok::<(), Infallible>(()))
        });
        let Ok(()) = made.await.expect("written");
        assert!(!database.remove_expired_kv().await.expect("swept"));
        assert_eq!(rows(&database).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_removes_all_expired_entries_while_it_runs() {
        let home = TestHome::sqlite();
        let database = home.open().await;
        fill(&database, Opener::Own([1; 32]), 250).await;
        home.clock.pass(SECOND);
        let swept = LazyDatabase::new(home.settings());
        assert!(timeout(SWEEP_INTERVAL / 2, swept.sweep_kv()).await.is_err(), "it never returns");
        assert_eq!(rows(&database).await, 250, "it is not time yet");
        assert!(timeout(3 * SWEEP_INTERVAL / 2, swept.sweep_kv()).await.is_err());
        assert_eq!(rows(&database).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_makes_no_file() {
        let home = TestHome::sqlite();
        let swept = LazyDatabase::new(home.settings());
        assert!(timeout(2 * SWEEP_INTERVAL, swept.sweep_kv()).await.is_err());
        assert!(swept.location().is_missing_file());
    }
}
