//! SQL statements of the responses. Each function runs within one transaction.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{
    NewResponse, OVERHEAD_BYTES, OwnerId, PutError, ReadError, ResponseBounds, ResponseList,
    StoredTurn, Texts,
};
use crate::columns::{first, signed, unsigned};

/// Maximum number of expired conversations that one change removes, so that the change stays quick.
const PURGED_AT_ONCE: u32 = 100;
/// Most conversations that one change evicts, for the same reason.
const EVICTED_AT_ONCE: usize = 100;
/// No conversation has this number.
const NONE: i64 = 0;

/// Arguments of `put`.
pub(super) struct Put {
    pub(super) response: NewResponse,
    pub(super) now: i64,
    pub(super) expires: i64,
    pub(super) bounds: ResponseBounds,
}

impl Put {
    /// Returns the bytes that are counted for the response.
    fn cost(&self) -> u64 {
        let Texts { input, output, body } = &self.response.texts;
        OVERHEAD_BYTES + (input.len() + output.len() + body.len()) as u64
    }
}

/// Progress of storing a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseProgress {
    /// It is stored.
    Stored,
    /// Conversations were evicted, and more have to be. Repeat the change.
    MadeRoom,
}

/// Stores a response, or returns the reason for a refusal. Expired conversations are purged in both
/// cases.
pub(super) fn put(
    transaction: &Transaction<'_>,
    scope: &OwnerId,
    put: &Put,
) -> rusqlite::Result<Result<ResponseProgress, PutError>> {
    purge(transaction, put.now)?;
    let owner = find_or_make_owner(transaction, scope)?;
    let continued = match &put.response.previous {
        None => None,
        Some(previous) => match find_conversation(transaction, owner, previous, put.now)? {
            None => return Ok(Err(PutError::PreviousGone)),
            found => found,
        },
    };
    let held = continued.map_or(0, |(_, bytes)| bytes);
    let bytes = unsigned(held).saturating_add(put.cost());
    let limit = put.bounds.owner_bytes.min(put.bounds.total_bytes);
    if bytes > limit {
        return Ok(Err(PutError::TooLarge { bytes, limit }));
    }
    let kept = continued.map_or(NONE, |(conversation, _)| conversation);
    if !make_room(transaction, owner, kept, put)? {
        return Ok(Ok(ResponseProgress::MadeRoom));
    }
    let conversation = match continued {
        Some((conversation, _)) => conversation,
        None => make_conversation(transaction, owner, put.expires)?,
    };
    insert(transaction, conversation, put)?;
    Ok(Ok(ResponseProgress::Stored))
}

fn insert(transaction: &Transaction<'_>, conversation: i64, put: &Put) -> rusqlite::Result<()> {
    let NewResponse { id, previous, texts } = &put.response;
    let insert = "INSERT INTO response (id, conversation, previous, cost, input, output, body) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let cost = signed(put.cost());
    transaction.execute(
        insert,
        params![id, conversation, previous, cost, texts.input, texts.output, texts.body],
    )?;
    // Never earlier, although the configured time may have become shorter.
    let extend = "UPDATE response_conversation SET expires = max(expires, ?2) WHERE id = ?1";
    transaction.execute(extend, params![conversation, put.expires])?;
    Ok(())
}

/// Evicts conversations other than `kept` until the response fits, at most [`EVICTED_AT_ONCE`].
/// Returns whether it fits. It does in the end, because `kept` with the response is within the
/// bounds.
fn make_room(
    transaction: &Transaction<'_>,
    owner: i64,
    kept: i64,
    put: &Put,
) -> rusqlite::Result<bool> {
    let of_owner = "SELECT bytes FROM response_owner WHERE id = ?1";
    let of_all = "SELECT coalesce(sum(bytes), 0) FROM response_owner";
    // An owner without another conversation cannot make room.
    let largest = "SELECT o.id FROM response_owner o WHERE EXISTS \
                   (SELECT 1 FROM response_conversation c WHERE c.owner = o.id AND c.id != ?1) \
                   ORDER BY o.bytes DESC LIMIT 1";
    for _ in 0..EVICTED_AT_ONCE {
        let held = transaction.query_row(of_owner, [owner], first)?;
        if exceeds(put, held, put.bounds.owner_bytes) && evict(transaction, owner, kept)? {
            continue;
        }
        if !exceeds(put, transaction.query_row(of_all, (), first)?, put.bounds.total_bytes) {
            return Ok(true);
        }
        let largest: Option<i64> = transaction.query_row(largest, [kept], first).optional()?;
        let Some(largest) = largest else { return Ok(true) };
        evict(transaction, largest, kept)?;
    }
    Ok(false)
}

fn exceeds(put: &Put, held: i64, limit: u64) -> bool {
    unsigned(held).saturating_add(put.cost()) > limit
}

/// Evicts the conversation of an owner that expires first. Returns false if there is none besides
/// `kept`.
fn evict(transaction: &Transaction<'_>, owner: i64, kept: i64) -> rusqlite::Result<bool> {
    let delete = "DELETE FROM response_conversation WHERE id = \
                  (SELECT id FROM response_conversation WHERE owner = ?1 AND id != ?2 \
                  ORDER BY expires, id LIMIT 1)";
    Ok(transaction.execute(delete, [owner, kept])? > 0)
}

fn purge(transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
    let some = "DELETE FROM response_conversation WHERE id IN \
                (SELECT id FROM response_conversation WHERE expires <= ?1 LIMIT ?2)";
    transaction.execute(some, params![now, PURGED_AT_ONCE])?;
    Ok(())
}

fn find_or_make_owner(transaction: &Transaction<'_>, scope: &OwnerId) -> rusqlite::Result<i64> {
    let select = "SELECT id FROM response_owner WHERE scope = ?1";
    if let Some(owner) = transaction.query_row(select, [scope], first).optional()? {
        return Ok(owner);
    }
    let insert = "INSERT INTO response_owner (scope) VALUES (?1) RETURNING id";
    transaction.query_row(insert, [scope], first)
}

fn make_conversation(
    transaction: &Transaction<'_>,
    owner: i64,
    expires: i64,
) -> rusqlite::Result<i64> {
    let insert = "INSERT INTO response_conversation (owner, expires) VALUES (?1, ?2) RETURNING id";
    transaction.query_row(insert, [owner, expires], first)
}

/// Returns the conversation of a response, and its bytes; `None` if the owner has no such response
/// or it has expired.
fn find_conversation(
    transaction: &Transaction<'_>,
    owner: i64,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<(i64, i64)>> {
    let select = "SELECT c.id, c.bytes FROM response r \
                  JOIN response_conversation c ON c.id = r.conversation \
                  WHERE r.id = ?1 AND c.owner = ?2 AND c.expires > ?3";
    transaction
        .query_row(select, params![id, owner, now], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

const SELECT: &str = "SELECT r.previous, r.cost, r.input, r.output, r.body FROM response r \
                      JOIN response_conversation c ON c.id = r.conversation \
                      JOIN response_owner o ON o.id = c.owner \
                      WHERE r.id = ?1 AND o.scope = ?2 AND c.expires > ?3";

/// Reads a response, unless `admit` refuses its size.
pub(super) fn get<E>(
    connection: &Connection,
    scope: &OwnerId,
    id: &str,
    now: i64,
    admit: impl FnOnce(u64) -> Result<(), E>,
) -> rusqlite::Result<Result<Texts, ReadError<E>>> {
    let mut select = connection.prepare(SELECT)?;
    let mut rows = select.query(params![id, scope, now])?;
    let Some(row) = rows.next()? else {
        return Ok(Err(ReadError::Unknown { id: id.to_owned() }));
    };
    if let Err(refusal) = admit(unsigned(row.get(1)?)) {
        return Ok(Err(ReadError::Refused(refusal)));
    }
    Ok(Ok(Texts { input: row.get(2)?, output: row.get(3)?, body: row.get(4)? }))
}

/// Reads the turns up to a response, unless `admit` refuses the size of one.
pub(super) fn conversation<E>(
    connection: &Connection,
    scope: &OwnerId,
    id: String,
    now: i64,
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> rusqlite::Result<Result<Vec<StoredTurn>, ReadError<E>>> {
    // Reads only, so dropping it without a commit loses nothing.
    let transaction = connection.unchecked_transaction()?;
    let mut select = transaction.prepare(SELECT)?;
    let mut turns = Vec::new();
    let mut next = Some(id);
    // Ends: a response is stored after the one that it continues, so the links form no circle.
    while let Some(id) = next {
        let mut rows = select.query(params![id, scope, now])?;
        let Some(row) = rows.next()? else {
            return Ok(Err(ReadError::Unknown { id }));
        };
        let input = row.get_ref(2)?.as_str()?;
        let output = row.get_ref(3)?.as_str()?;
        if let Err(refusal) = admit(OVERHEAD_BYTES + (input.len() + output.len()) as u64) {
            return Ok(Err(ReadError::Refused(refusal)));
        }
        turns.push(StoredTurn { input: input.to_owned(), output: output.to_owned() });
        next = row.get(0)?;
    }
    turns.reverse();
    Ok(Ok(turns))
}

/// Reads lists of items, unless `admit` refuses the size of one.
pub(super) fn lists<E>(
    connection: &Connection,
    scope: &OwnerId,
    wanted: &[(String, ResponseList)],
    now: i64,
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> rusqlite::Result<Result<Vec<Option<String>>, ReadError<E>>> {
    // Reads only, so dropping it without a commit loses nothing.
    let transaction = connection.unchecked_transaction()?;
    let mut select = transaction.prepare(SELECT)?;
    let mut lists = Vec::with_capacity(wanted.len());
    for (id, list) in wanted {
        let mut rows = select.query(params![id, scope, now])?;
        let Some(row) = rows.next()? else {
            lists.push(None);
            continue;
        };
        let column = match list {
            ResponseList::Input => 2,
            ResponseList::Output => 3,
        };
        let text = row.get_ref(column)?.as_str()?;
        if let Err(refusal) = admit(text.len() as u64) {
            return Ok(Err(ReadError::Refused(refusal)));
        }
        lists.push(Some(text.to_owned()));
    }
    Ok(Ok(lists))
}

/// Deletes a response, and its conversation if that has no other. Expired conversations are purged.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    scope: &OwnerId,
    id: &str,
    now: i64,
) -> rusqlite::Result<bool> {
    purge(transaction, now)?;
    let delete = "DELETE FROM response WHERE id = ?1 AND conversation IN \
                  (SELECT c.id FROM response_conversation c JOIN response_owner o ON o.id = c.owner \
                  WHERE o.scope = ?2 AND c.expires > ?3) RETURNING conversation";
    let conversation: Option<i64> =
        transaction.query_row(delete, params![id, scope, now], first).optional()?;
    let Some(conversation) = conversation else { return Ok(false) };
    let empty = "DELETE FROM response_conversation WHERE id = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM response WHERE conversation = ?1)";
    transaction.execute(empty, [conversation])?;
    Ok(true)
}
