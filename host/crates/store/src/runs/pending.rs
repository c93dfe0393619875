//! Calls of scripts that wait for an approval, of all owners, for operators.

use airlock_core::run::Position;

use crate::{database::Database, page::count_fitting};
use airlock_database::{
    error::Unavailable,
    owner::OwnerId,
    sql::{Row, Sql, SqlResult, first, params},
};

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
    /// Returns the calls of scripts that wait for an approval after the first `offset`: at most `limit`, and as many as
    /// have arguments of 8 MiB together; and whether the list goes on after them. The owners take turns, so that one
    /// with many calls does not hide those of others: first the oldest call of each, then the second of each. Of each
    /// turn, that of the oldest run is first.
    pub async fn pending_run_calls(
        &self,
        limit: u32,
        offset: u32,
    ) -> Result<(Vec<PendingRunCall>, bool), Unavailable> {
        self.read_snapshot(move |sql| list(sql, limit, offset)).await
    }

    /// Returns the number of calls of scripts that wait for an approval.
    pub async fn pending_run_call_count(&self) -> Result<u32, Unavailable> {
        self.read(move |sql| sql.one(COUNT, params![], first)).await
    }

    /// Returns the call of a run at a position, if it waits for an approval; `None` otherwise.
    pub async fn pending_run_call(
        &self,
        run: &str,
        position: Position,
    ) -> Result<Option<PendingRunCall>, Unavailable> {
        let run = run.to_owned();
        let reading = self.read(move |sql| {
            let select = format!(
                "SELECT {COLUMNS} FROM run JOIN run_call ON run_call.run = run.number \
                 WHERE phase = 'suspended' AND stage = 'pending' \
                 AND run.id = ?1 AND block = ?2 AND branch = ?3"
            );
            sql.find(&select, params![&run, position.block, position.branch], pending)
        });
        reading.await
    }
}

/// Counts the calls that wait.
pub(super) const COUNT: &str = "SELECT count(*) FROM run JOIN run_call ON run_call.run = run.number \
                                WHERE phase = 'suspended' AND stage = 'pending'";

/// Columns of a call that waits.
const COLUMNS: &str = "run.id, scope, epoch, changed_ms, block, branch, tool, definition, arguments, \
                       run_call.sources, asked_by";

/// Part of the list, without texts.
const PART: &str = "SELECT run.number AS of_run, block AS of_block, branch AS of_branch, \
                    octet_length(arguments) AS bytes, \
                    row_number() OVER (PARTITION BY scope ORDER BY run.number, block, branch) AS turn \
                    FROM run JOIN run_call ON run_call.run = run.number \
                    WHERE phase = 'suspended' AND stage = 'pending' \
                    ORDER BY turn, of_run, of_block, of_branch LIMIT ?1 OFFSET ?2";

fn list(sql: &Sql<'_>, limit: u32, offset: u32) -> SqlResult<(Vec<PendingRunCall>, bool)> {
    let wanted = params![limit.saturating_add(1), offset];
    let (count, has_more) = count_fitting(sql, PART, wanted, 3, limit)?;
    let select = format!(
        "SELECT {COLUMNS} FROM ({PART}) AS part JOIN run ON run.number = of_run \
         JOIN run_call ON run_call.run = of_run AND block = of_block AND branch = of_branch \
         ORDER BY turn, of_run, of_block, of_branch"
    );
    let calls = sql.all(&select, params![count, offset], pending)?;
    Ok((calls, has_more))
}

fn pending(row: &Row<'_>) -> SqlResult<PendingRunCall> {
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
