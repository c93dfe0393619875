//! SQL statements of the records. Each function runs within one transaction.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{Anchor, MAX_ANCHORS, NewRecord, OVERHEAD_BYTES, OwnerId, RecallBounds, StoredRecord};
use crate::columns::{first, milliseconds, signed, unsigned};

/// Maximum number of records that one change removes, or removes the texts of, so that the change
/// stays quick.
const CHANGED_AT_ONCE: u32 = 100;

/// Arguments of `put`.
pub(super) struct Put {
    anchors: Vec<Anchor>,
    text: Option<String>,
    now: i64,
    expires: i64,
    ends: i64,
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
    pub(super) fn new(mut record: NewRecord, now: i64, bounds: RecallBounds) -> Self {
        record.anchors.truncate(MAX_ANCHORS);
        let life = milliseconds(bounds.expire_after);
        let limit = bounds.owner_bytes.min(bounds.total_bytes);
        Self {
            anchors: record.anchors,
            text: record.text.filter(|text| OVERHEAD_BYTES + text.len() as u64 <= limit),
            now,
            expires: now.saturating_add(life),
            ends: now.saturating_add(life).saturating_add(life),
            bounds,
        }
    }

    /// Returns the bytes that are counted for the record.
    fn cost(&self) -> u64 {
        OVERHEAD_BYTES + self.text.as_ref().map_or(0, |text| text.len() as u64)
    }
}

/// Stores a record, or makes room for it. Expired texts and records are removed.
pub(super) fn put(
    transaction: &Transaction<'_>,
    scope: &OwnerId,
    put: &Put,
) -> rusqlite::Result<RecordProgress> {
    purge(transaction, put.now)?;
    let owner = find_or_make_owner(transaction, scope)?;
    if !make_room(transaction, owner, put)? {
        return Ok(RecordProgress::MadeRoom);
    }
    let insert = "INSERT INTO recall_record (owner, expires, ends, cost, text) \
                  VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    let values = params![owner, put.expires, put.ends, signed(put.cost()), put.text];
    let record: i64 = transaction.query_row(insert, values, first)?;
    let insert = "INSERT INTO recall_anchor (owner, anchor, record) VALUES (?1, ?2, ?3) \
                  ON CONFLICT (owner, anchor) DO UPDATE SET record = excluded.record";
    for anchor in &put.anchors {
        transaction.execute(insert, params![owner, anchor, record])?;
    }
    Ok(RecordProgress::Stored)
}

/// Removes what has no room beside the new record, at most [`CHANGED_AT_ONCE`]. Returns whether
/// there is room. There is in the end, because the record alone is within the bounds.
fn make_room(transaction: &Transaction<'_>, owner: i64, put: &Put) -> rusqlite::Result<bool> {
    for _ in 0..CHANGED_AT_ONCE {
        let (bytes, records) = held(transaction, owner)?;
        if records >= i64::from(put.bounds.owner_records) && remove(transaction, owner)? {
            continue;
        }
        // What no text makes room for is left: the records without one, whose number is bounded.
        if exceeds(put, bytes, put.bounds.owner_bytes) && clear(transaction, owner)? {
            continue;
        }
        let of_all = "SELECT coalesce(sum(bytes), 0) FROM recall_owner";
        if !exceeds(put, transaction.query_row(of_all, (), first)?, put.bounds.total_bytes) {
            return Ok(true);
        }
        let largest = "SELECT o.id FROM recall_owner o WHERE EXISTS \
                       (SELECT 1 FROM recall_record r WHERE r.owner = o.id AND r.text IS NOT NULL) \
                       ORDER BY o.bytes DESC LIMIT 1";
        let largest: Option<i64> = transaction.query_row(largest, (), first).optional()?;
        let Some(largest) = largest else { return Ok(true) };
        clear(transaction, largest)?;
    }
    Ok(false)
}

fn exceeds(put: &Put, held: i64, limit: u64) -> bool {
    unsigned(held).saturating_add(put.cost()) > limit
}

/// Returns the bytes and the number of records of an owner.
fn held(transaction: &Transaction<'_>, owner: i64) -> rusqlite::Result<(i64, i64)> {
    let select = "SELECT bytes, records FROM recall_owner WHERE id = ?1";
    transaction.query_row(select, [owner], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Removes the oldest record of an owner. Returns false if there is none.
fn remove(transaction: &Transaction<'_>, owner: i64) -> rusqlite::Result<bool> {
    let delete = "DELETE FROM recall_record WHERE id = \
                  (SELECT id FROM recall_record WHERE owner = ?1 ORDER BY ends, id LIMIT 1)";
    Ok(transaction.execute(delete, [owner])? > 0)
}

/// Removes the oldest text of an owner. Returns false if there is none.
fn clear(transaction: &Transaction<'_>, owner: i64) -> rusqlite::Result<bool> {
    let update = "UPDATE recall_record SET text = NULL, cost = ?2 WHERE id = \
                  (SELECT id FROM recall_record WHERE owner = ?1 AND text IS NOT NULL \
                  ORDER BY expires, id LIMIT 1)";
    Ok(transaction.execute(update, params![owner, signed(OVERHEAD_BYTES)])? > 0)
}

fn purge(transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
    let ended = "DELETE FROM recall_record WHERE id IN \
                 (SELECT id FROM recall_record WHERE ends <= ?1 LIMIT ?2)";
    transaction.execute(ended, params![now, CHANGED_AT_ONCE])?;
    let expired = "UPDATE recall_record SET text = NULL, cost = ?3 WHERE id IN \
                   (SELECT id FROM recall_record WHERE expires <= ?1 AND text IS NOT NULL LIMIT ?2)";
    transaction.execute(expired, params![now, CHANGED_AT_ONCE, signed(OVERHEAD_BYTES)])?;
    Ok(())
}

fn find_or_make_owner(transaction: &Transaction<'_>, scope: &OwnerId) -> rusqlite::Result<i64> {
    let select = "SELECT id FROM recall_owner WHERE scope = ?1";
    if let Some(owner) = transaction.query_row(select, [scope], first).optional()? {
        return Ok(owner);
    }
    let insert = "INSERT INTO recall_owner (scope) VALUES (?1) RETURNING id";
    transaction.query_row(insert, [scope], first)
}

/// Reads the records with these anchors, unless `admit` refuses the size of a text.
pub(super) fn find<E>(
    connection: &Connection,
    scope: &OwnerId,
    anchors: &[Anchor],
    now: i64,
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> rusqlite::Result<Result<Vec<StoredRecord>, E>> {
    let select = "SELECT r.id, r.cost, r.expires > ?3, r.text FROM recall_anchor a \
                  JOIN recall_owner o ON o.id = a.owner JOIN recall_record r ON r.id = a.record \
                  WHERE o.scope = ?1 AND a.anchor = ?2 AND r.ends > ?3";
    // Reads only, so dropping it without a commit loses nothing.
    let transaction = connection.unchecked_transaction()?;
    let mut select = transaction.prepare(select)?;
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (position, anchor) in anchors.iter().enumerate() {
        let mut rows = select.query(params![scope, anchor, now])?;
        let Some(row) = rows.next()? else { continue };
        if !seen.insert(row.get::<_, i64>(0)?) {
            continue;
        }
        if let Err(refusal) = admit(unsigned(row.get(1)?)) {
            return Ok(Err(refusal));
        }
        let text = if row.get(2)? { row.get(3)? } else { None };
        found.push(StoredRecord { position, text });
    }
    Ok(Ok(found))
}
