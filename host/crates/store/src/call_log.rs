//! The call log: one row for each call of a tool, and one for each request to a model.
//!
//! ```text
//! processing ─► success │ error │ refused │ cancelled ─ erased (contents and salts) ─► removed by age
//! ```
//!
//! Rows are written in batches, each in one transaction. A row may be written again: one that has ended
//! stays as it is. Contents are apart from the metadata, sealed like secrets, and can be erased alone.
//!
//! | module | purpose |
//! |---|---|
//! | `row` | the rows, and their columns |
//! | `write` | inserts rows, erases contents, removes old rows |
//! | `query` | [`LogFilter`] → a bounded set of rows; pages of them |
//! | `sums` | statistics and histograms |

mod query;
mod row;
mod sums;
mod write;

use std::{sync::Arc, time::Duration};

use self::row::{MODEL_COLUMNS, TOOL_COLUMNS, model_call, tool_call};
pub use self::{
    query::{LogCursor, LogFilter, LogOrder, LogPage, LogSort, MAX_SCANNED, MAX_VALUES},
    row::{
        CallContents, CallStatus, LogBatch, LogKind, LoggedModelCall, LoggedParty, LoggedTokens,
        LoggedToolCall,
    },
    sums::{GroupSums, Histogram, LogGrouping, LogProperty, LogSums, LogValues, MAX_BUCKETS},
    write::{MAX_ERASED, SweepOutcome},
};
use crate::database::Database;
use airlock_database::{error::Unavailable, sql::Subject};

/// Longest contents of one call, each of arguments and result, in bytes. Callers and servers choose
/// them, and rows are kept for `records.call_log.retention`. A row without them has the commitment
/// alone.
pub const MAX_CONTENT_BYTES: usize = 1 << 20;
/// Longest text of a caller, a tool or a provider in a record, in bytes; longer ones are cut. Its
/// sender chooses it, and each record repeats it.
pub const MAX_TEXT_BYTES: usize = 256;
/// Party of what removes rows and contents: one that hangs delays no other change of the gateway.
const CLEANERS: &str = "cleaners of the call log";

impl Database {
    /// Writes rows in one transaction. A call that has ended is not changed by another row of it, so a batch
    /// may be written again. `writer` identifies the gateway. Fails if the database cannot be used.
    pub async fn write_call_log(
        &self,
        writer: &str,
        batch: Arc<LogBatch>,
    ) -> Result<(), Unavailable> {
        let sealer = self.sealer();
        let subject = Subject::call_log(writer);
        self.write_log(subject, move |sql| write::insert(sql, &sealer, &batch)).await
    }

    /// Returns a page of calls of tools. Fails if the database cannot be used.
    pub async fn logged_tool_calls(
        &self,
        filter: LogFilter,
        page: LogPage,
    ) -> Result<Vec<LoggedToolCall>, Unavailable> {
        let reading = self.read_log(move |sql| {
            query::page(sql, LogKind::Tools, &filter, &page, TOOL_COLUMNS, tool_call)
        });
        reading.await
    }

    /// Returns a page of requests to models. Fails if the database cannot be used.
    pub async fn logged_model_calls(
        &self,
        filter: LogFilter,
        page: LogPage,
    ) -> Result<Vec<LoggedModelCall>, Unavailable> {
        let reading = self.read_log(move |sql| {
            query::page(sql, LogKind::Models, &filter, &page, MODEL_COLUMNS, model_call)
        });
        reading.await
    }

    /// Returns a call of a tool; `None` if there is none. Fails if the database cannot be used.
    pub async fn logged_tool_call(&self, id: &str) -> Result<Option<LoggedToolCall>, Unavailable> {
        let id = id.to_owned();
        self.read_log(move |sql| query::find(sql, LogKind::Tools, &id, TOOL_COLUMNS, tool_call))
            .await
    }

    /// Returns the contents of a call; `None` if there are none. Fails if the database cannot be used, or if
    /// the contents are sealed with a key that the settings do not have.
    pub async fn logged_contents(&self, id: &str) -> Result<Option<CallContents>, Unavailable> {
        let id = id.to_owned();
        let sealer = self.sealer();
        self.read_log(move |sql| write::contents(sql, &sealer, &id)).await
    }

    /// Returns a request to a model; `None` if there is none. Fails if the database cannot be used.
    pub async fn logged_model_call(
        &self,
        id: &str,
    ) -> Result<Option<LoggedModelCall>, Unavailable> {
        let id = id.to_owned();
        self.read_log(move |sql| query::find(sql, LogKind::Models, &id, MODEL_COLUMNS, model_call))
            .await
    }

    /// Returns the sums of all rows that a filter selects. Fails if the database cannot be used.
    pub async fn log_sums(&self, kind: LogKind, filter: LogFilter) -> Result<LogSums, Unavailable> {
        let groups = self.log_groups(kind, filter, LogGrouping::default()).await?;
        Ok(groups.first().map(|group| group.sums).unwrap_or_default())
    }

    /// Returns the sums of each group of the rows that a filter selects, by time, those with the most rows first.
    /// Fails if the database cannot be used.
    pub async fn log_groups(
        &self,
        kind: LogKind,
        filter: LogFilter,
        grouping: LogGrouping,
    ) -> Result<Vec<GroupSums>, Unavailable> {
        self.read_log(move |sql| sums::groups(sql, kind, &filter, grouping)).await
    }

    /// Returns the values by which rows of a period can be selected. Fails if the database cannot be used.
    pub async fn log_values(
        &self,
        kind: LogKind,
        filter: LogFilter,
    ) -> Result<LogValues, Unavailable> {
        self.read_log(move |sql| sums::values(sql, kind, &filter)).await
    }

    /// Erases the contents and the salts of calls, of at most [`MAX_ERASED`]; of a request to a model, which has
    /// neither, the row. Returns the number of rows. Fails if the database cannot be used.
    pub async fn erase_logged(&self, kind: LogKind, ids: Vec<String>) -> Result<u64, Unavailable> {
        let erased = self
            .of_party(CLEANERS)
            .write(Subject::call_log("erasure"), move |sql| match kind {
                LogKind::Tools => write::erase(sql, &ids),
                LogKind::Models => write::remove_models(sql, &ids),
            })
            .await?;
        // The log of a file has the contents until it is copied. A reader may prevent that.
        let _ = self.truncate_log().await;
        Ok(erased)
    }

    /// Removes rows that are older than `life`, at most [`MAX_ERASED`] of each log, and marks calls as cancelled
    /// whose gateway has ended. `None` if another gateway does that now. Fails if the database cannot be used.
    pub async fn sweep_call_log(
        &self,
        writer: &str,
        life: Duration,
    ) -> Result<Option<SweepOutcome>, Unavailable> {
        let subject = Subject::call_log(writer);
        let cleaner = self.of_party(CLEANERS);
        let swept = cleaner.write(subject, move |sql| {
            if sql.try_lock(Subject::CALL_LOG_SWEEP)? {
                write::sweep(sql, life).map(Some)
            } else {
                Ok(None)
            }
        });
        swept.await
    }
}

#[cfg(test)]
mod tests;
