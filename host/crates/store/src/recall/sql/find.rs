//! Reads of the records. A text is read once its size is admitted.

use std::collections::{BTreeMap, BTreeSet};

use crate::recall::{Anchor, StoredRecord};
use airlock_database::{
    columns::unsigned,
    owner::OwnerId,
    sql::{Param, Sql, SqlResult, numbered, params},
};

/// Anchors of one statement. Its rows have no texts.
const ANCHORS_AT_ONCE: usize = 64;
/// Texts of one statement.
const TEXTS_AT_ONCE: usize = 16;
/// No record has this number.
const NONE: i64 = 0;

/// A record without its text.
struct RecordHead {
    record: i64,
    /// Bytes that it counts for.
    cost: u64,
    has_text: bool,
}

/// Reads the records with these anchors, unless `admit` refuses the size of a text.
pub(crate) fn find<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    anchors: &[Anchor],
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> SqlResult<Result<Vec<StoredRecord>, E>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    // Of each record with a text, its place in `found`.
    let mut places = BTreeMap::new();
    for (chunk, start) in anchors.chunks(ANCHORS_AT_ONCE).zip((0..).step_by(ANCHORS_AT_ONCE)) {
        let heads = heads(sql, scope, chunk)?;
        for (anchor, position) in chunk.iter().zip(start..) {
            let Some(head) = heads.get(&anchor[..]) else { continue };
            if !seen.insert(head.record) {
                continue;
            }
            if let Err(refusal) = admit(head.cost) {
                return Ok(Err(refusal));
            }
            if head.has_text {
                places.insert(head.record, found.len());
            }
            found.push(StoredRecord { position, text: None });
        }
    }
    read_texts(sql, &places, &mut found)?;
    Ok(Ok(found))
}

/// Reads the records of at most [`ANCHORS_AT_ONCE`] anchors, each by its anchor.
fn heads(
    sql: &Sql<'_>,
    scope: &OwnerId,
    anchors: &[Anchor],
) -> SqlResult<BTreeMap<Vec<u8>, RecordHead>> {
    let list = numbered(3, ANCHORS_AT_ONCE);
    let select = format!(
        "SELECT a.anchor, r.id, r.cost, r.expires > ?2 AND r.text IS NOT NULL FROM recall_anchor a \
         JOIN recall_owner o ON o.id = a.owner JOIN recall_record r ON r.id = a.record \
         WHERE o.scope = ?1 AND r.ends > ?2 AND a.anchor IN ({list})"
    );
    let mut values = params![scope, sql.now()].to_vec();
    values.extend(anchors.iter().map(Param::from));
    // No anchor is empty.
    values.resize(2 + ANCHORS_AT_ONCE, Param::Bytes(b""));
    let heads = sql.all(&select, &values, |row| {
        let cost = unsigned(row.get(2)?);
        Ok((row.get(0)?, RecordHead { record: row.get(1)?, cost, has_text: row.get(3)? }))
    })?;
    Ok(heads.into_iter().collect())
}

/// Reads the texts of records into their places in `found`.
fn read_texts(
    sql: &Sql<'_>,
    places: &BTreeMap<i64, usize>,
    found: &mut [StoredRecord],
) -> SqlResult<()> {
    let list = numbered(1, TEXTS_AT_ONCE);
    let select = format!("SELECT id, text FROM recall_record WHERE id IN ({list})");
    let records: Vec<i64> = places.keys().copied().collect();
    for chunk in records.chunks(TEXTS_AT_ONCE) {
        let mut values: Vec<_> = chunk.iter().copied().map(Param::from).collect();
        values.resize(TEXTS_AT_ONCE, NONE.into());
        let texts = sql.all(&select, &values, |row| Ok((row.get::<i64>(0)?, row.get(1)?)))?;
        for (record, text) in texts {
            if let Some(stored) = places.get(&record).and_then(|place| found.get_mut(*place)) {
                stored.text = text;
            }
        }
    }
    Ok(())
}
