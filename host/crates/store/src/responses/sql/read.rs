//! Reads of the responses. A text is copied once its size is admitted. Of a conversation, it is read
//! from the server only then; otherwise, the row with it has arrived by then: one at a time for each
//! connection that reads.

use std::ops::ControlFlow;

use crate::responses::{OVERHEAD_BYTES, ReadError, ResponseList, StoredTurn, Texts};
use airlock_database::{
    columns::unsigned,
    owner::OwnerId,
    sql::{Param, Sql, SqlResult, numbered, params},
};

const SELECT: &str = "SELECT r.cost, r.input, r.output, r.body FROM response r \
                      JOIN response_conversation c ON c.id = r.conversation \
                      JOIN response_owner o ON o.id = c.owner \
                      WHERE r.id = ?1 AND o.scope = ?2 AND c.expires > ?3";

/// Selects the turns up to a response, the last one first, with the bytes of their texts. A response is
/// stored after the one that it continues. One with a greater number has taken the identifier of a
/// deleted one, and would make a circle.
const CHAIN: &str = "WITH RECURSIVE turn (number, previous, bytes) AS (\
                     SELECT r.number, r.previous, \
                     CAST(octet_length(r.input) + octet_length(r.output) AS BIGINT) FROM response r \
                     JOIN response_conversation c ON c.id = r.conversation \
                     JOIN response_owner o ON o.id = c.owner \
                     WHERE r.id = ?1 AND o.scope = ?2 AND c.expires > ?3 \
                     UNION ALL SELECT r.number, r.previous, \
                     CAST(octet_length(r.input) + octet_length(r.output) AS BIGINT) FROM turn t \
                     JOIN response r ON r.id = t.previous AND r.number < t.number \
                     JOIN response_conversation c ON c.id = r.conversation \
                     JOIN response_owner o ON o.id = c.owner \
                     WHERE o.scope = ?2 AND c.expires > ?3) \
                     SELECT number, previous, bytes FROM turn ORDER BY number DESC";

/// Turns whose texts one statement reads.
const TURNS_AT_ONCE: usize = 16;
/// No response has this number.
const NONE: i64 = 0;

/// Reads a response, unless `admit` refuses its size.
pub(crate) fn get<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    id: &str,
    admit: impl FnOnce(u64) -> Result<(), E>,
) -> SqlResult<Result<Texts, ReadError<E>>> {
    let found = sql.find(SELECT, params![id, scope, sql.now()], |row| {
        if let Err(refusal) = admit(unsigned(row.get(0)?)) {
            return Ok(Err(ReadError::Refused(refusal)));
        }
        Ok(Ok(Texts { input: row.get(1)?, output: row.get(2)?, body: row.get(3)? }))
    })?;
    Ok(found.unwrap_or_else(|| Err(ReadError::Unknown { id: id.to_owned() })))
}

/// Reads the turns up to a response, unless `admit` refuses the size of one. Only what is admitted is
/// read.
pub(crate) fn conversation<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    id: &str,
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> SqlResult<Result<Vec<StoredTurn>, ReadError<E>>> {
    let mut numbers = Vec::new();
    let mut previous = Some(id.to_owned());
    let refused = sql.each(CHAIN, params![id, scope, sql.now()], |row| {
        if let Err(refusal) = admit(OVERHEAD_BYTES + unsigned(row.get(2)?)) {
            return Ok(ControlFlow::Break(refusal));
        }
        numbers.push(row.get(0)?);
        previous = row.get(1)?;
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some(refusal) = refused {
        return Ok(Err(ReadError::Refused(refusal)));
    }
    // The last turn that was found continues one that was not.
    if let Some(id) = previous {
        return Ok(Err(ReadError::Unknown { id }));
    }
    numbers.reverse();
    turns(sql, &numbers).map(Ok)
}

/// Reads turns with these numbers, which are sorted.
fn turns(sql: &Sql<'_>, numbers: &[i64]) -> SqlResult<Vec<StoredTurn>> {
    let list = numbered(1, TURNS_AT_ONCE);
    let select =
        format!("SELECT input, output FROM response WHERE number IN ({list}) ORDER BY number");
    let mut turns = Vec::with_capacity(numbers.len());
    for chunk in numbers.chunks(TURNS_AT_ONCE) {
        let mut values: Vec<_> = chunk.iter().copied().map(Param::from).collect();
        values.resize(TURNS_AT_ONCE, NONE.into());
        turns.extend(sql.all(&select, &values, |row| {
            Ok(StoredTurn { input: row.get(0)?, output: row.get(1)? })
        })?);
    }
    Ok(turns)
}

/// Reads lists of items, unless `admit` refuses the size of one.
pub(crate) fn lists<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    wanted: &[(String, ResponseList)],
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> SqlResult<Result<Vec<Option<String>>, ReadError<E>>> {
    let mut lists = Vec::with_capacity(wanted.len());
    for (id, list) in wanted {
        let column = match list {
            ResponseList::Input => 1,
            ResponseList::Output => 2,
        };
        let found = sql.find(SELECT, params![id, scope, sql.now()], |row| {
            let text: &str = row.get(column)?;
            Ok(admit(text.len() as u64).map(|()| text.to_owned()))
        })?;
        match found.transpose() {
            Ok(list) => lists.push(list),
            Err(refusal) => return Ok(Err(ReadError::Refused(refusal))),
        }
    }
    Ok(Ok(lists))
}
