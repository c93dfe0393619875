//! Removes runs, and what belongs to them.
//!
//! Of all runs with the same tools, one counts the bytes of the tools. When it is removed, another one
//! counts them: of the same owner if there is one. The tools go with their last run.

use super::tx::Tx;
use airlock_database::sql::{Param, SqlResult, Subject, first, params};

/// Runs of other owners among which one is looked for that counts the tools. If changes of all their
/// owners are running, no run counts them.
const HEIRS: u32 = 4;
/// Tools without a run that one change removes.
const TOOLS_AT_ONCE: u32 = 16;

/// A run that was removed.
pub(super) struct RemovedRun {
    scope: Vec<u8>,
    pub(super) bytes: i64,
    tools: i64,
    pub(super) tools_bytes: i64,
}

impl Tx<'_> {
    /// Removes the runs whose numbers `select` returns. Their owners are free.
    pub(super) fn remove(&self, select: &str, params: &[Param<'_>]) -> SqlResult<Vec<RemovedRun>> {
        let delete = format!(
            "DELETE FROM run WHERE number IN ({select}) RETURNING scope, bytes, tools, tools_bytes"
        );
        let removed = self.sql.all(&delete, params, |row| {
            Ok(RemovedRun {
                scope: row.get(0)?,
                bytes: row.get(1)?,
                tools: row.get(2)?,
                tools_bytes: row.get(3)?,
            })
        })?;
        for run in &removed {
            self.take_from_owner(run)?;
            if !self.pass_on(run)? {
                self.remove_tools(run.tools)?;
            }
        }
        Ok(removed)
    }

    fn take_from_owner(&self, run: &RemovedRun) -> SqlResult<()> {
        let update = "UPDATE run_owner SET runs = runs - 1, bytes = bytes - ?2 WHERE scope = ?1";
        self.sql.run(update, params![&run.scope, run.bytes])?;
        let delete = "DELETE FROM run_owner WHERE scope = ?1 AND runs <= 0";
        self.sql.run(delete, params![&run.scope]).map(drop)
    }

    /// Makes another run count the tools of a removed one, if that did. Returns false if no run has
    /// the tools.
    fn pass_on(&self, run: &RemovedRun) -> SqlResult<bool> {
        let select = "SELECT number, scope FROM run WHERE tools = ?1 \
                      ORDER BY CASE WHEN scope = ?2 THEN 0 ELSE 1 END, number DESC LIMIT ?3";
        let heirs = self.sql.all(select, params![run.tools, &run.scope, HEIRS], |row| {
            Ok((row.get::<i64>(0)?, row.get::<Vec<u8>>(1)?))
        })?;
        if run.tools_bytes == 0 {
            return Ok(!heirs.is_empty());
        }
        for (number, scope) in &heirs {
            if !self.may_remove(scope)? {
                continue;
            }
            let update = "UPDATE run SET bytes = bytes + ?2, tools_bytes = ?2 WHERE number = ?1";
            if self.sql.run(update, params![*number, run.tools_bytes])? > 0 {
                let update = "UPDATE run_owner SET bytes = bytes + ?2 WHERE scope = ?1";
                self.sql.run(update, params![scope, run.tools_bytes])?;
                break;
            }
        }
        Ok(!heirs.is_empty())
    }

    /// Removes tools that no run has any more, unless a run with them begins at the same time.
    fn remove_tools(&self, tools: i64) -> SqlResult<()> {
        let select = "SELECT digest FROM run_tools WHERE id = ?1";
        let Some(digest) = self.sql.find::<Vec<u8>>(select, params![tools], first)? else {
            return Ok(());
        };
        if !self.sql.try_lock(Subject::tools(&digest))? {
            return Ok(());
        }
        let delete = "DELETE FROM run_tools WHERE id = ?1 \
                      AND NOT EXISTS (SELECT 1 FROM run WHERE tools = ?1)";
        self.sql.run(delete, params![tools]).map(drop)
    }

    /// Removes tools whose last runs were removed by changes at the same time, of which each saw the
    /// run of the other.
    pub(super) fn remove_unused_tools(&self) -> SqlResult<()> {
        let select = "SELECT id FROM run_tools WHERE NOT EXISTS \
                      (SELECT 1 FROM run WHERE tools = run_tools.id) LIMIT ?1";
        for tools in self.sql.all(select, params![TOOLS_AT_ONCE], first)? {
            self.remove_tools(tools)?;
        }
        Ok(())
    }
}
