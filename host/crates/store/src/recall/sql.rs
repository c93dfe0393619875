//! SQL statements of the records. Each function runs within one transaction.
//!
//! The bytes and the number of records of an owner are sums of its records. Whatever adds, removes or
//! clears a record changes both in the same transaction.

mod find;
mod room;

pub(super) use self::find::find;
use super::{Anchor, MAX_ANCHORS, NewRecord, OVERHEAD_BYTES, RecallBounds};
use airlock_database::{
    columns::{milliseconds, signed},
    owner::OwnerId,
    sql::{Sql, SqlResult, first, params},
};

/// Arguments of `put`.
pub(super) struct Put {
    anchors: Vec<Anchor>,
    text: Option<String>,
    bounds: RecallBounds,
}

/// Progress of storing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordProgress {
    /// It is stored.
    Stored,
    /// Texts were removed, and more have to be. Repeat the change.
    MadeRoom,
}

impl Put {
    pub(super) fn new(mut record: NewRecord, bounds: RecallBounds) -> Self {
        record.anchors.truncate(MAX_ANCHORS);
        let limit = bounds.owner_bytes.min(bounds.total_bytes);
        Self {
            anchors: record.anchors,
            text: record.text.filter(|text| OVERHEAD_BYTES + text.len() as u64 <= limit),
            bounds,
        }
    }

    /// Returns the bytes that are counted for the record.
    fn cost(&self) -> u64 {
        OVERHEAD_BYTES + self.text.as_ref().map_or(0, |text| text.len() as u64)
    }
}

/// Stores a record, or makes room for it. Expired texts and records are removed.
pub(super) fn put(sql: &Sql<'_>, scope: &OwnerId, put: &Put) -> SqlResult<RecordProgress> {
    let owner = room::OWNERS.purged(sql, scope)?;
    let id = owner.id;
    if !room::make_room(sql, owner, put)? {
        return Ok(RecordProgress::MadeRoom);
    }
    let insert = "INSERT INTO recall_record (owner, expires, ends, cost, text) \
                  VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    let life = milliseconds(put.bounds.expire_after);
    let expires = sql.now().saturating_add(life);
    let ends = expires.saturating_add(life);
    let cost = signed(put.cost());
    let record: i64 =
        sql.one(insert, params![id, expires, ends, cost, put.text.as_ref()], first)?;
    change_owner(sql, id, cost, 1)?;
    let insert = "INSERT INTO recall_anchor (owner, anchor, record) VALUES (?1, ?2, ?3) \
                  ON CONFLICT (owner, anchor) DO UPDATE SET record = excluded.record";
    let anchors = put.anchors.iter().map(|anchor| params![id, anchor, record].to_vec());
    sql.run_all(insert, &anchors.collect::<Vec<_>>())?;
    Ok(RecordProgress::Stored)
}

/// Adds to the sums of an owner.
fn change_owner(sql: &Sql<'_>, owner: i64, bytes: i64, records: i64) -> SqlResult<()> {
    let update = "UPDATE recall_owner SET bytes = bytes + ?2, records = records + ?3 WHERE id = ?1";
    sql.run(update, params![owner, bytes, records]).map(drop)
}
