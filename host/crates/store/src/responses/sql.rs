//! SQL statements of the responses. Each function runs within one transaction.
//!
//! The bytes of a conversation and of an owner are the sums of the costs of their responses. Whatever
//! adds or removes a response changes both in the same transaction.

mod read;
mod room;

pub(super) use self::read::{conversation, get, lists};
use super::{NewResponse, OVERHEAD_BYTES, PutError, ResponseBounds, Texts};
use airlock_database::{
    columns::{milliseconds, signed, unsigned},
    owner::OwnerId,
    sql::{Sql, SqlResult, first, params},
};

/// No conversation has this number.
const NONE: i64 = 0;

/// Arguments of `put`.
pub(super) struct Put {
    pub(super) response: NewResponse,
    pub(super) bounds: ResponseBounds,
}

impl Put {
    /// Returns the bytes that are counted for the response.
    fn cost(&self) -> u64 {
        let Texts { input, output, body } = &self.response.texts;
        OVERHEAD_BYTES + (input.len() + output.len() + body.len()) as u64
    }

    /// Returns the time at which the conversation of the response expires.
    fn expires(&self, now: i64) -> i64 {
        now.saturating_add(milliseconds(self.bounds.expire_after))
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
    sql: &Sql<'_>,
    scope: &OwnerId,
    put: &Put,
) -> SqlResult<Result<ResponseProgress, PutError>> {
    let owner = room::OWNERS.purged(sql, scope)?;
    let continued = match &put.response.previous {
        None => None,
        Some(previous) => match find_conversation(sql, owner.id, previous)? {
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
    let id = owner.id;
    if !room::make_room(sql, owner, kept, put)? {
        return Ok(Ok(ResponseProgress::MadeRoom));
    }
    let conversation = match continued {
        Some((conversation, _)) => conversation,
        None => make_conversation(sql, id, put.expires(sql.now()))?,
    };
    insert(sql, id, conversation, put)?;
    Ok(Ok(ResponseProgress::Stored))
}

fn insert(sql: &Sql<'_>, owner: i64, conversation: i64, put: &Put) -> SqlResult<()> {
    let NewResponse { id, previous, texts } = &put.response;
    let insert = "INSERT INTO response (id, conversation, previous, cost, input, output, body) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let cost = signed(put.cost());
    let previous = previous.as_ref();
    let Texts { input, output, body } = texts;
    sql.run(insert, params![id, conversation, previous, cost, input, output, body])?;
    // Never earlier, although the configured time may have become shorter.
    let extend = "UPDATE response_conversation SET bytes = bytes + ?3, \
                  expires = CASE WHEN expires > ?2 THEN expires ELSE ?2 END WHERE id = ?1";
    sql.run(extend, params![conversation, put.expires(sql.now()), cost])?;
    grow_owner(sql, owner, cost)
}

/// Adds bytes to the sum of an owner.
fn grow_owner(sql: &Sql<'_>, owner: i64, bytes: i64) -> SqlResult<()> {
    let update = "UPDATE response_owner SET bytes = bytes + ?2 WHERE id = ?1";
    sql.run(update, params![owner, bytes]).map(drop)
}

fn make_conversation(sql: &Sql<'_>, owner: i64, expires: i64) -> SqlResult<i64> {
    let insert = "INSERT INTO response_conversation (owner, expires) VALUES (?1, ?2) RETURNING id";
    sql.one(insert, params![owner, expires], first)
}

/// Returns the conversation of a response, and its bytes; `None` if the owner has no such response
/// or it has expired.
fn find_conversation(sql: &Sql<'_>, owner: i64, id: &str) -> SqlResult<Option<(i64, i64)>> {
    let select = "SELECT c.id, c.bytes FROM response r \
                  JOIN response_conversation c ON c.id = r.conversation \
                  WHERE r.id = ?1 AND c.owner = ?2 AND c.expires > ?3";
    sql.find(select, params![id, owner, sql.now()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Deletes a response, and its conversation if that has no other. Expired conversations are purged.
pub(super) fn delete(sql: &Sql<'_>, scope: &OwnerId, id: &str) -> SqlResult<bool> {
    let owner = room::OWNERS.purged(sql, scope)?.id;
    let delete = "DELETE FROM response WHERE id = ?1 AND conversation IN \
                  (SELECT id FROM response_conversation WHERE owner = ?2 AND expires > ?3) \
                  RETURNING conversation, cost";
    let deleted = sql.find(delete, params![id, owner, sql.now()], |row| {
        Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
    })?;
    let Some((conversation, cost)) = deleted else { return Ok(false) };
    let shrink = "UPDATE response_conversation SET bytes = bytes - ?2 WHERE id = ?1";
    sql.run(shrink, params![conversation, cost])?;
    let empty = "DELETE FROM response_conversation WHERE id = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM response WHERE conversation = ?1)";
    sql.run(empty, params![conversation])?;
    grow_owner(sql, owner, -cost)?;
    Ok(true)
}
