//! The running gateways of a store that others can reach, by their URLs.

use std::time::Duration;

use crate::{database::Database, entries::MAX_LISTED};
use airlock_database::{
    error::Unavailable,
    sql::{Row, Sql, SqlResult, Subject, params},
};

/// Time for which a gateway that was not noted again is kept. Longer than any outage of the store after
/// which gateways look for each other.
const KEPT: Duration = Duration::from_hours(1);

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReplica {
    /// Identifier of its process.
    pub id: String,
    /// URL at which the other gateways reach it.
    pub url: String,
}

impl Database {
    /// Notes that a gateway runs, and returns all that were noted within `alive`, by the clock of the
    /// store, with itself. If the future is dropped, the gateway may have been noted. Fails if the
    /// database cannot be used.
    pub async fn announce_replica(
        &self,
        replica: StoredReplica,
        alive: Duration,
    ) -> Result<Vec<StoredReplica>, Unavailable> {
        self.write(Subject::REPLICAS, move |sql| {
            sql.run("DELETE FROM replica WHERE seen_ms < ?1", params![since(sql, alive.max(KEPT))])?;
            let upsert = "INSERT INTO replica (id, url, seen_ms) VALUES (?1, ?2, ?3) \
                          ON CONFLICT (id) DO UPDATE SET url = excluded.url, seen_ms = excluded.seen_ms";
            sql.run(upsert, params![&replica.id, &replica.url, sql.now()])?;
            all(sql, since(sql, alive))
        })
        .await
    }

    /// Returns the gateways that were noted within `alive`. Fails if the database cannot be used.
    pub async fn replicas(&self, alive: Duration) -> Result<Vec<StoredReplica>, Unavailable> {
        self.read(move |sql| all(sql, since(sql, alive))).await
    }

    /// Forgets a gateway that stops. Fails if the database cannot be used.
    pub async fn forget_replica(&self, id: &str) -> Result<(), Unavailable> {
        let id = id.to_owned();
        self.write(Subject::REPLICAS, move |sql| {
            sql.run("DELETE FROM replica WHERE id = ?1", params![&id]).map(drop)
        })
        .await
    }
}

/// Returns the time from which on gateways that were seen count as running.
fn since(sql: &Sql<'_>, alive: Duration) -> i64 {
    sql.now().saturating_sub(i64::try_from(alive.as_millis()).unwrap_or(i64::MAX))
}

fn all(sql: &Sql<'_>, since: i64) -> SqlResult<Vec<StoredReplica>> {
    let select =
        "SELECT id, url FROM replica WHERE seen_ms >= ?1 ORDER BY seen_ms DESC, id LIMIT ?2";
    sql.all(select, params![since, MAX_LISTED], replica)
}

fn replica(row: &Row<'_>) -> SqlResult<StoredReplica> {
    Ok(StoredReplica { id: row.get(0)?, url: row.get(1)? })
}

#[cfg(test)]
mod tests;
