//! SQL statements of the components. Each function runs within one transaction. Those that change
//! something have the lock of all changes of settings.

use std::{collections::BTreeSet, ops::ControlFlow};

use super::{ComponentDigest, MAX_COMPONENT_BYTES, MAX_UNUSED_BYTES, MAX_USED_BYTES, PART_BYTES};
use airlock_database::{
    columns::{signed, unsigned},
    sql::{Row, Sql, SqlResult, first, params},
};

/// Maximum number of components that one change removes. It adds two at most.
const REMOVED_AT_ONCE: usize = 8;

/// Size of a component that is there, complete or not.
pub(super) struct Head {
    pub(super) bytes: usize,
    pub(super) parts: usize,
}

/// Begins to store a component. Returns the numbers of the parts that have to be written: the missing
/// ones, or all of them unless those that are there were found intact (`is_intact`).
pub(super) fn begin(
    sql: &Sql<'_>,
    digest: ComponentDigest,
    bytes: usize,
    parts: usize,
    is_intact: bool,
) -> SqlResult<Vec<usize>> {
    let upsert = "INSERT INTO component (digest, bytes, parts, touched_ms) VALUES (?1, ?2, ?3, ?4) \
                  ON CONFLICT (digest) DO UPDATE SET bytes = excluded.bytes, parts = excluded.parts, \
                  touched_ms = excluded.touched_ms";
    let values = params![digest.bytes(), signed(bytes as u64), signed(parts as u64), sql.now()];
    sql.run(upsert, values)?;
    remove_unused(sql, Some(digest))?;
    if !is_intact {
        let delete = "DELETE FROM component_part WHERE digest = ?1 AND number >= ?2";
        sql.run(delete, params![digest.bytes(), signed(parts as u64)])?;
        return Ok((0..parts).collect());
    }
    let select = "SELECT number FROM component_part WHERE digest = ?1";
    let present = sql.all(select, params![digest.bytes()], first::<i64>)?;
    let present: BTreeSet<_> = present.into_iter().map(unsigned).collect();
    Ok((0..parts).filter(|number| !present.contains(&(*number as u64))).collect())
}

/// Stores a part, in the place of one that may be damaged. Returns false if its component was removed
/// since it was begun.
pub(super) fn put_part(
    sql: &Sql<'_>,
    digest: ComponentDigest,
    number: usize,
    content: &[u8],
) -> SqlResult<bool> {
    if head(sql, digest)?.is_none() {
        return Ok(false);
    }
    let insert = "INSERT INTO component_part (digest, number, content) VALUES (?1, ?2, ?3) \
                  ON CONFLICT (digest, number) DO UPDATE SET content = excluded.content";
    sql.run(insert, params![digest.bytes(), signed(number as u64), content])?;
    Ok(true)
}

/// Reads the size of a component.
pub(super) fn head(sql: &Sql<'_>, digest: ComponentDigest) -> SqlResult<Option<Head>> {
    let select = "SELECT bytes, parts FROM component WHERE digest = ?1";
    let found = sql.find(select, params![digest.bytes()], |row| {
        Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
    })?;
    // A row of another size was not written by this program.
    Ok(found.and_then(|(bytes, parts)| {
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_COMPONENT_BYTES)?;
        let parts = usize::try_from(parts).ok()?;
        (parts == bytes.div_ceil(PART_BYTES)).then_some(Head { bytes, parts })
    }))
}

/// Reads a part.
pub(super) fn part(
    sql: &Sql<'_>,
    digest: ComponentDigest,
    number: usize,
) -> SqlResult<Option<Vec<u8>>> {
    let select = "SELECT content FROM component_part WHERE digest = ?1 AND number = ?2";
    sql.find(select, params![digest.bytes(), signed(number as u64)], first)
}

/// Outcome of [`assign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assigned {
    /// The entry has its components.
    Done,
    /// One is not there, or not complete.
    Absent(ComponentDigest),
    /// Entries would name components of more than [`MAX_USED_BYTES`] together.
    Full,
}

/// Notes the components that an entry names from now on, and removes those for which there is no room
/// any more. Unless it is done, the caller rolls back or has changed nothing yet.
pub(crate) fn assign(
    sql: &Sql<'_>,
    kind: &str,
    name: &str,
    components: &[ComponentDigest],
) -> SqlResult<Assigned> {
    let components: BTreeSet<_> = components.iter().copied().collect();
    let select = "SELECT digest FROM component_use WHERE kind = ?1 AND name = ?2";
    let before = sql.all(select, params![kind, name], digest_of)?;
    let before: BTreeSet<_> = before.into_iter().collect();
    // One that it names already may be damaged, and does not keep another from being stored beside it.
    for digest in components.difference(&before) {
        if !is_complete(sql, *digest)? {
            return Ok(Assigned::Absent(*digest));
        }
    }
    if before == components {
        return Ok(Assigned::Done);
    }
    if components.difference(&before).next().is_some() && !has_room(sql, &components)? {
        return Ok(Assigned::Full);
    }
    for digest in before.difference(&components) {
        let delete = "DELETE FROM component_use WHERE kind = ?1 AND name = ?2 AND digest = ?3";
        sql.run(delete, params![kind, name, digest.bytes()])?;
        let touch = "UPDATE component SET touched_ms = ?1 WHERE digest = ?2";
        sql.run(touch, params![sql.now(), digest.bytes()])?;
    }
    for digest in components.difference(&before) {
        let insert = "INSERT INTO component_use (kind, name, digest) VALUES (?1, ?2, ?3)";
        sql.run(insert, params![kind, name, digest.bytes()])?;
    }
    remove_unused(sql, None)?;
    Ok(Assigned::Done)
}

fn digest_of(row: &Row<'_>) -> SqlResult<ComponentDigest> {
    row.get(0).map(ComponentDigest)
}

fn is_complete(sql: &Sql<'_>, digest: ComponentDigest) -> SqlResult<bool> {
    let Some(Head { parts, .. }) = head(sql, digest)? else { return Ok(false) };
    let count = "SELECT count(*) FROM component_part WHERE digest = ?1";
    let present: i64 = sql.one(count, params![digest.bytes()], first)?;
    Ok(unsigned(present) == parts as u64)
}

/// Returns whether entries may name these components beside those that they name already.
fn has_room(sql: &Sql<'_>, components: &BTreeSet<ComponentDigest>) -> SqlResult<bool> {
    let select = "SELECT c.digest, c.bytes FROM component c \
                  WHERE EXISTS (SELECT 1 FROM component_use u WHERE u.digest = c.digest)";
    let used = sql.all(select, &[], |row| Ok((digest_of(row)?, row.get::<i64>(1)?)))?;
    let others = used.iter().filter(|(digest, _)| !components.contains(digest));
    let mut bytes: u64 = others.map(|(_, bytes)| unsigned(*bytes)).sum();
    for digest in components {
        bytes += head(sql, *digest)?.map_or(0, |head| head.bytes as u64);
    }
    Ok(bytes <= MAX_USED_BYTES)
}

/// Removes components that no entry names until the rest of them have at most [`MAX_UNUSED_BYTES`], the
/// last touched ones last, and `kept` not at all.
fn remove_unused(sql: &Sql<'_>, kept: Option<ComponentDigest>) -> SqlResult<()> {
    let select = "SELECT c.digest, c.bytes FROM component c \
                  WHERE NOT EXISTS (SELECT 1 FROM component_use u WHERE u.digest = c.digest) \
                  ORDER BY c.touched_ms DESC, c.digest";
    let mut left = MAX_UNUSED_BYTES;
    if let Some(kept) = kept {
        left = left.saturating_sub(head(sql, kept)?.map_or(0, |head| head.bytes as u64));
    }
    let mut surplus = Vec::new();
    sql.each(select, &[], |row| {
        let digest = digest_of(row)?;
        let bytes = unsigned(row.get(1)?);
        if Some(digest) != kept {
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => surplus.push(digest),
            }
        }
        let is_enough = surplus.len() == REMOVED_AT_ONCE;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for digest in surplus {
        sql.run("DELETE FROM component_part WHERE digest = ?1", params![digest.bytes()])?;
        sql.run("DELETE FROM component WHERE digest = ?1", params![digest.bytes()])?;
    }
    Ok(())
}
