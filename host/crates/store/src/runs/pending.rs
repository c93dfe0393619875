//! Calls of scripts that wait for an approval, of all owners, for operators.

use std::ops::ControlFlow;

use airlock_core::run::Position;

use crate::{
    database::Database,
    error::Unavailable,
    owner::OwnerId,
    sql::{Row, Sql, SqlError, first, params},
};

/// Maximum bytes of the arguments in a part of the list.
const LISTED_BYTES: usize = 8 << 20;

/// A call of a script that has stopped for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRunCall {
    /// Identifier of its run.
    pub run: String,
    /// Owner of its run.
    pub owner: OwnerId,
    /// Epoch in which it waits. Another one means that the run was resumed.
    pub epoch: i64,
    /// Time at which the script stopped, in milliseconds since 1970.
    pub stopped_ms: i64,
    /// Its position.
    pub position: Position,
    /// Name of the tool.
    pub tool: String,
    /// Digest of the definition of the tool.
    pub definition: String,
    /// JSON text of an object.
    pub arguments: String,
    /// Sources of untrusted content that the script had read before, as a JSON array; `None` for none.
    pub sources: Option<String>,
    /// Reasons for which guards require the approval, as a JSON array; `None` for none.
    pub asked_by: Option<String>,
}

impl Database {
    /// Returns the calls of scripts that wait for an approval after the first `offset`, the oldest run first: at
    /// most `limit`, and as many as have arguments of 8 MiB together; and whether the list goes on after them.
    pub async fn pending_run_calls(
        &self,
        limit: u32,
        offset: u32,
    ) -> Result<(Vec<PendingRunCall>, bool), Unavailable> {
        self.read_snapshot(move |sql| list(sql, limit, offset)).await
    }

    /// Returns the number of calls of scripts that wait for an approval.
    pub async fn pending_run_call_count(&self) -> Result<u32, Unavailable> {
        let select = "SELECT count(*) FROM run JOIN run_call ON run_call.run = run.number \
                      WHERE phase = 'suspended' AND stage = 'pending'";
        self.read(move |sql| sql.one(select, params![], first)).await
    }

    /// Returns the call of a run at a position, if it waits for an approval; `None` otherwise.
    pub async fn pending_run_call(
        &self,
        run: &str,
        position: Position,
    ) -> Result<Option<PendingRunCall>, Unavailable> {
        let run = run.to_owned();
        let reading = self.read(move |sql| {
            let select = format!("{SELECT} AND run.id = ?1 AND block = ?2 AND branch = ?3");
            sql.find(&select, params![&run, position.block, position.branch], pending)
        });
        reading.await
    }
}

const SELECT: &str = "SELECT run.id, scope, epoch, changed_ms, block, branch, tool, definition, arguments, \
                      run_call.sources, asked_by FROM run JOIN run_call ON run_call.run = run.number \
                      WHERE phase = 'suspended' AND stage = 'pending'";

fn list(sql: &Sql<'_>, limit: u32, offset: u32) -> Result<(Vec<PendingRunCall>, bool), SqlError> {
    let select = format!("{SELECT} ORDER BY run.number, block, branch LIMIT ?1 OFFSET ?2");
    let mut calls: Vec<PendingRunCall> = Vec::new();
    let mut bytes = 0;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = sql.each(&select, params![limit.saturating_add(1), offset], |row| {
        let call = pending(row)?;
        bytes += call.arguments.len();
        if calls.len() == most || (!calls.is_empty() && bytes > LISTED_BYTES) {
            return Ok(ControlFlow::Break(()));
        }
        calls.push(call);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((calls, more.is_some()))
}

fn pending(row: &Row<'_>) -> Result<PendingRunCall, SqlError> {
    Ok(PendingRunCall {
        run: row.get(0)?,
        owner: row.get(1)?,
        epoch: row.get(2)?,
        stopped_ms: row.get(3)?,
        position: Position { block: row.get(4)?, branch: row.get(5)? },
        tool: row.get(6)?,
        definition: row.get(7)?,
        arguments: row.get(8)?,
        sources: row.get(9)?,
        asked_by: row.get(10)?,
    })
}
