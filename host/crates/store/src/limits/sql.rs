//! Statements of counts.

use std::collections::BTreeMap;

use super::{
    CountSelection, Counts, ReservationKey, StoredCount, StoredExtra, StoredReservation, buckets,
};
use airlock_database::{
    columns::{signed, unsigned},
    sql::{Param, Row, Sql, SqlResult, numbered, params},
};

/// Maximum number of expired reservations that are forgotten at once.
const FORGOTTEN_AT_ONCE: u32 = 1_000;

/// Reads the rows of a change.
pub(super) fn read(sql: &Sql<'_>, selection: &CountSelection) -> SqlResult<Counts> {
    let limits: Vec<_> = selection.limits.iter().map(String::as_str).collect();
    let requests: Vec<_> = selection.requests.iter().map(String::as_str).collect();
    Ok(Counts {
        now_ms: sql.now(),
        stored: counts(sql, &limits)?,
        reservations: reservations(sql, &requests)?,
        ..Counts::default()
    })
}

/// Writes the rows that a change has changed.
pub(super) fn write(sql: &Sql<'_>, counts: &Counts) -> SqlResult<()> {
    put_counts(sql, counts)?;
    let delete = "DELETE FROM limit_reservation WHERE id = ?1 AND limit_id = ?2";
    let removed = counts.removed.iter().map(|key| params![&key.id, &key.limit].to_vec());
    sql.run_all(delete, &removed.collect::<Vec<_>>())?;
    let insert = "INSERT INTO limit_reservation \
                  (id, limit_id, amount, bucket_ms, epoch_ms, expires_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let added = counts.added.iter().map(|(key, reservation)| {
        let StoredReservation { amount, bucket_ms, epoch_ms, expires_ms } = *reservation;
        params![&key.id, &key.limit, signed(amount), bucket_ms, epoch_ms, expires_ms].to_vec()
    });
    sql.run_all(insert, &added.collect::<Vec<_>>())?;
    Ok(())
}

fn put_counts(sql: &Sql<'_>, counts: &Counts) -> SqlResult<()> {
    let upsert = "INSERT INTO limit_count \
                  (id, epoch_ms, seen_ms, buckets, extra, extra_until_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                  ON CONFLICT (id) DO UPDATE SET epoch_ms = excluded.epoch_ms, \
                  seen_ms = excluded.seen_ms, buckets = excluded.buckets, \
                  extra = excluded.extra, extra_until_ms = excluded.extra_until_ms";
    let changed = counts.changed.iter().filter_map(|id| counts.stored.get_key_value(id));
    let changed = changed.map(|(id, count)| (id, count, buckets::to_bytes(&count.buckets)));
    let changed: Vec<_> = changed.collect();
    let rows = changed.iter().map(|(id, count, buckets)| {
        let extra = count.extra.map(|extra| signed(extra.amount));
        let until_ms = count.extra.and_then(|extra| extra.until_ms);
        params![*id, count.epoch_ms, count.seen_ms, buckets, extra, until_ms].to_vec()
    });
    sql.run_all(upsert, &rows.collect::<Vec<Vec<Param<'_>>>>())?;
    Ok(())
}

/// Reads the counts of limits.
pub(super) fn counts(sql: &Sql<'_>, limits: &[&str]) -> SqlResult<BTreeMap<String, StoredCount>> {
    let Some(limits) = padded(limits) else { return Ok(BTreeMap::new()) };
    let select = format!(
        "SELECT id, epoch_ms, seen_ms, buckets, extra, extra_until_ms FROM limit_count \
         WHERE id IN ({})",
        numbered(1, limits.len())
    );
    Ok(sql.all(&select, &limits, count)?.into_iter().collect())
}

fn count(row: &Row<'_>) -> SqlResult<(String, StoredCount)> {
    let until_ms = row.get(5)?;
    let extra: Option<i64> = row.get(4)?;
    let count = StoredCount {
        epoch_ms: row.get(1)?,
        seen_ms: row.get(2)?,
        buckets: buckets::from_bytes(row.get(3)?),
        extra: extra.map(|amount| StoredExtra { amount: unsigned(amount), until_ms }),
    };
    Ok((row.get(0)?, count))
}

fn reservations(
    sql: &Sql<'_>,
    requests: &[&str],
) -> SqlResult<BTreeMap<ReservationKey, StoredReservation>> {
    let Some(requests) = padded(requests) else { return Ok(BTreeMap::new()) };
    let select = format!(
        "SELECT id, limit_id, amount, bucket_ms, epoch_ms, expires_ms FROM limit_reservation \
         WHERE id IN ({})",
        numbered(1, requests.len())
    );
    Ok(sql.all(&select, &requests, reservation)?.into_iter().collect())
}

fn reservation(row: &Row<'_>) -> SqlResult<(ReservationKey, StoredReservation)> {
    let key = ReservationKey { id: row.get(0)?, limit: row.get(1)? };
    let reservation = StoredReservation {
        amount: unsigned(row.get(2)?),
        bucket_ms: row.get(3)?,
        epoch_ms: row.get(4)?,
        expires_ms: row.get(5)?,
    };
    Ok((key, reservation))
}

/// Reads the sums of the reservations of limits, without those from before a reset.
pub(super) fn reserved(sql: &Sql<'_>, limits: &[&str]) -> SqlResult<BTreeMap<String, u64>> {
    let Some(limits) = padded(limits) else { return Ok(BTreeMap::new()) };
    let select = format!(
        "SELECT r.limit_id, CAST(coalesce(sum(r.amount), 0) AS BIGINT) \
         FROM limit_reservation r JOIN limit_count c \
         ON c.id = r.limit_id AND c.epoch_ms = r.epoch_ms \
         WHERE r.expires_ms > ?1 AND r.limit_id IN ({}) GROUP BY r.limit_id",
        numbered(2, limits.len())
    );
    let mut values = vec![Param::from(sql.now())];
    values.extend(limits);
    let sums = sql.all(&select, &values, |row| Ok((row.get(0)?, unsigned(row.get(1)?))))?;
    Ok(sums.into_iter().collect())
}

/// Forgets some expired reservations. Returns their number.
pub(super) fn forget_expired(sql: &Sql<'_>) -> SqlResult<u64> {
    let select = "SELECT id, limit_id FROM limit_reservation WHERE expires_ms <= ?1 \
                  ORDER BY id, limit_id LIMIT ?2";
    let expired = sql.all(select, params![sql.now(), FORGOTTEN_AT_ONCE], |row| {
        Ok(ReservationKey { id: row.get(0)?, limit: row.get(1)? })
    })?;
    let delete = "DELETE FROM limit_reservation WHERE id = ?1 AND limit_id = ?2";
    let keys = expired.iter().map(|key| params![&key.id, &key.limit].to_vec());
    sql.run_all(delete, &keys.collect::<Vec<_>>())
}

/// Forgets the counts of limits, and what is reserved of them.
pub(super) fn forget(sql: &Sql<'_>, limits: &[String]) -> SqlResult<()> {
    let rows: Vec<_> = limits.iter().map(|limit| params![limit].to_vec()).collect();
    sql.run_all("DELETE FROM limit_count WHERE id = ?1", &rows)?;
    sql.run_all("DELETE FROM limit_reservation WHERE limit_id = ?1", &rows)?;
    Ok(())
}

/// Returns identifiers as parameters; `None` for none. The last one is repeated until their number is a
/// power of two, so that few texts of statements differ.
fn padded<'v>(ids: &[&'v str]) -> Option<Vec<Param<'v>>> {
    let last = ids.last()?;
    let mut values: Vec<_> = ids.iter().map(|id| Param::Text(id)).collect();
    values.resize(ids.len().next_power_of_two(), Param::Text(last));
    Some(values)
}
