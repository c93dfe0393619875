//! Reads of the responses. A text is copied once its size is admitted. On a server, the row with it
//! has arrived by then: one at a time for each connection that reads.

use super::{OVERHEAD_BYTES, OwnerId, ReadError, ResponseList, StoredTurn, Texts};
use crate::{
    columns::unsigned,
    sql::{Row, Sql, SqlError, params},
};

const SELECT: &str = "SELECT r.previous, r.cost, r.input, r.output, r.body, r.number FROM response r \
                      JOIN response_conversation c ON c.id = r.conversation \
                      JOIN response_owner o ON o.id = c.owner \
                      WHERE r.id = ?1 AND o.scope = ?2 AND c.expires > ?3";

/// Reads a response, unless `admit` refuses its size.
pub(in crate::responses) fn get<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    id: &str,
    admit: impl FnOnce(u64) -> Result<(), E>,
) -> Result<Result<Texts, ReadError<E>>, SqlError> {
    let found = sql.find(SELECT, params![id, scope, sql.now()], |row| {
        if let Err(refusal) = admit(unsigned(row.get(1)?)) {
            return Ok(Err(ReadError::Refused(refusal)));
        }
        Ok(Ok(Texts { input: row.get(2)?, output: row.get(3)?, body: row.get(4)? }))
    })?;
    Ok(found.unwrap_or_else(|| Err(ReadError::Unknown { id: id.to_owned() })))
}

/// Reads the turns up to a response, unless `admit` refuses the size of one.
pub(in crate::responses) fn conversation<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    id: String,
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> Result<Result<Vec<StoredTurn>, ReadError<E>>, SqlError> {
    let mut turns = Vec::new();
    let mut next = Some(id);
    // A response is stored after the one that it continues. One with a greater number has taken the
    // identifier of a deleted one, and would make a circle.
    let mut last = i64::MAX;
    while let Some(id) = next {
        let found = sql.find(SELECT, params![&id, scope, sql.now()], |row| {
            let number = row.get(5)?;
            if number >= last {
                return Ok(None);
            }
            last = number;
            turn(row, &mut admit).map(Some)
        })?;
        match found.flatten() {
            None => return Ok(Err(ReadError::Unknown { id })),
            Some(Err(refusal)) => return Ok(Err(ReadError::Refused(refusal))),
            Some(Ok((turn, previous))) => {
                turns.push(turn);
                next = previous;
            }
        }
    }
    turns.reverse();
    Ok(Ok(turns))
}

/// Reads a turn, and the response before it.
fn turn<E>(
    row: &Row<'_>,
    admit: &mut impl FnMut(u64) -> Result<(), E>,
) -> Result<Result<(StoredTurn, Option<String>), E>, SqlError> {
    let input: &str = row.get(2)?;
    let output: &str = row.get(3)?;
    if let Err(refusal) = admit(OVERHEAD_BYTES + (input.len() + output.len()) as u64) {
        return Ok(Err(refusal));
    }
    let turn = StoredTurn { input: input.to_owned(), output: output.to_owned() };
    Ok(Ok((turn, row.get(0)?)))
}

/// Reads lists of items, unless `admit` refuses the size of one.
pub(in crate::responses) fn lists<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    wanted: &[(String, ResponseList)],
    mut admit: impl FnMut(u64) -> Result<(), E>,
) -> Result<Result<Vec<Option<String>>, ReadError<E>>, SqlError> {
    let mut lists = Vec::with_capacity(wanted.len());
    for (id, list) in wanted {
        let column = match list {
            ResponseList::Input => 2,
            ResponseList::Output => 3,
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
