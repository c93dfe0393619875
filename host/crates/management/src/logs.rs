//! The call log: `/api/mcp-logs` for calls of tools, `/api/logs` for requests to models. Paths and bodies are
//! those of Bifrost.
//!
//! | module | purpose |
//! |---|---|
//! | `query` | parameters of a request → a filter, a page, a histogram |
//! | `histogram` | measures over time, and rankings |
//! | `entry` | rows and sums → JSON |

mod entry;
mod histogram;
mod query;

use std::{future::Future, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::info;

use self::{entry::dollars, histogram::LogHistogram, query::LogQuery};
use crate::{
    body,
    refusal::{Result, busy, invalid, not_found},
    service::Service,
};
use airlock_core::{
    act::{Act, ActKind},
    operator::{Operator, Right},
    unix_time::unix_milliseconds,
};
use airlock_operator_api::ManagementRefusal;
use airlock_store::{
    Unavailable,
    call_log::{LogGrouping, LogKind, LogProperty, LogSums, LogValues, MAX_ERASED, MAX_SCANNED},
};

/// Longest time of one query of the log.
const QUERY: Duration = Duration::from_secs(10);
/// Tools or models of a list by use.
const TOP: u32 = 10;
/// Longest identifier of a row, in bytes: that of a UUID.
const MAX_ID_BYTES: usize = 36;
/// Identifiers of one record of an erasure: as many as it has in full, however long they are. Of one that is cut off,
/// nothing would be recorded.
const RECORDED_IDS: usize = 30;

/// Request about a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogRequest {
    List,
    Stats,
    FilterData,
    Histogram(LogHistogram),
    TopTools,
    /// Models by their use, or the values of a property of the query.
    Rankings {
        by_dimension: bool,
    },
    Show(String),
    Erase,
}

impl LogRequest {
    pub(crate) fn right(&self) -> Right {
        match self {
            Self::Erase => Right::Administer,
            _ => Right::Read,
        }
    }
}

/// Body of a request that erases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Erasure {
    #[serde(default)]
    ids: Vec<String>,
}

impl LogRequest {
    /// Finds the request that a part of a path below a log is; `None` for the identifier of a row.
    pub(crate) fn named(kind: LogKind, rest: &[&str]) -> Option<Self> {
        Some(match (rest, kind) {
            (["stats"], _) => Self::Stats,
            (["filterdata"], _) => Self::FilterData,
            (["histogram", "top-tools"], LogKind::Tools) => Self::TopTools,
            (["histogram", path @ ..], _) => Self::Histogram(LogHistogram::at(kind, path)?),
            (["rankings"], LogKind::Models) => Self::Rankings { by_dimension: false },
            (["rankings", "by-dimension"], LogKind::Models) => {
                Self::Rankings { by_dimension: true }
            }
            _ => return None,
        })
    }
}

impl Service {
    /// Answers a request about a log.
    pub(crate) async fn logs(
        &self,
        actor: &Operator,
        kind: LogKind,
        request: LogRequest,
        query: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        match request {
            LogRequest::List => {
                let mut listed = self.list_logs(kind, query).await?;
                // Otherwise, a list that is empty because nothing is recorded looks like that of an unused gateway.
                listed["is_call_log_on"] = self.settings.has_call_log.into();
                Ok(listed)
            }
            LogRequest::Stats => self.log_stats(kind, query).await,
            LogRequest::FilterData => self.log_values(kind, query).await,
            LogRequest::Histogram(histogram) => self.histogram(kind, histogram, query).await,
            LogRequest::TopTools => self.top_tools(query).await,
            LogRequest::Rankings { by_dimension } => self.rankings(by_dimension, query).await,
            LogRequest::Show(id) => self.show_log(actor, kind, &id).await,
            LogRequest::Erase => self.erase_logs(actor, kind, body).await,
        }
    }

    async fn list_logs(&self, kind: LogKind, query: &str) -> Result<Value> {
        let query = LogQuery::parse(kind, query, self.now_ms())?;
        let Some(database) = self.settings.database.existing().await? else {
            return Ok(list(&query, &[], None, LogSums::default(), kind));
        };
        let sums = bounded(database.log_sums(kind, query.filter.clone())).await?;
        let filter = query.filter.clone();
        let page = query.page.clone();
        let (rows, last) = match kind {
            LogKind::Tools => {
                let calls = bounded(database.logged_tool_calls(filter, page)).await?;
                let last = calls.last().map(|call| query::cursor(call.at_ms, &call.id));
                (calls.iter().map(entry::tool_call).collect::<Vec<_>>(), last)
            }
            LogKind::Models => {
                let calls = bounded(database.logged_model_calls(filter, page)).await?;
                let last = calls.last().map(|call| query::cursor(call.at_ms, &call.id));
                (calls.iter().map(entry::model_call).collect::<Vec<_>>(), last)
            }
        };
        Ok(list(&query, &rows, last, sums, kind))
    }

    async fn log_stats(&self, kind: LogKind, query: &str) -> Result<Value> {
        let query = LogQuery::parse(kind, query, self.now_ms())?;
        let sums = match self.settings.database.existing().await? {
            Some(database) => bounded(database.log_sums(kind, query.filter)).await?,
            None => LogSums::default(),
        };
        Ok(entry::stats(kind, &sums))
    }

    async fn log_values(&self, kind: LogKind, query: &str) -> Result<Value> {
        let query = LogQuery::parse(kind, query, self.now_ms())?;
        let values = match self.settings.database.existing().await? {
            Some(database) => bounded(database.log_values(kind, query.filter)).await?,
            None => LogValues::default(),
        };
        let LogValues { names, sources, keys } = values;
        let keys: Vec<_> = keys.iter().map(|(id, name)| json!({"id": id, "name": name})).collect();
        Ok(match kind {
            LogKind::Tools => {
                json!({"tool_names": names, "server_labels": sources, "virtual_keys": keys})
            }
            LogKind::Models => json!({"models": names, "providers": sources, "virtual_keys": keys}),
        })
    }

    async fn top_tools(&self, query: &str) -> Result<Value> {
        let query = LogQuery::parse(LogKind::Tools, query, self.now_ms())?;
        let Some(database) = self.settings.database.existing().await? else {
            return Ok(json!({"tools": []}));
        };
        let most =
            LogGrouping { property: Some(LogProperty::Name), most: TOP, ..LogGrouping::default() };
        let top = bounded(database.log_groups(LogKind::Tools, query.filter, most)).await?;
        let tools = top.iter().map(|tool| {
            json!({
                "tool_name": tool.value,
                "count": tool.sums.count,
                "cost": dollars(tool.sums.cost),
            })
        });
        Ok(json!({"tools": tools.collect::<Vec<_>>()}))
    }

    /// Shows a row: with its contents and salts to who may see them.
    async fn show_log(&self, actor: &Operator, kind: LogKind, id: &str) -> Result<Value> {
        let database = self.settings.database.existing().await?.ok_or_else(unknown_row)?;
        if kind == LogKind::Models {
            let call = bounded(database.logged_model_call(id)).await?.ok_or_else(unknown_row)?;
            return Ok(entry::model_call(&call));
        }
        let call = bounded(database.logged_tool_call(id)).await?.ok_or_else(unknown_row)?;
        let contents =
            if actor.sees_payloads { bounded(database.logged_contents(id)).await? } else { None };
        if contents.is_some() {
            info!(operator = actor.name, call = id, "an operator reads the contents of a call");
        }
        Ok(entry::whole_tool_call(&call, contents.as_ref(), actor.sees_payloads))
    }

    async fn erase_logs(
        &self,
        actor: &Operator,
        kind: LogKind,
        body: Option<Value>,
    ) -> Result<Value> {
        let Erasure { ids } = body::read(body)?;
        if ids.is_empty() {
            return Err(invalid("No log IDs provided"));
        }
        if ids.len() > MAX_ERASED {
            return Err(invalid(format!("`ids` has more than {MAX_ERASED} entries")));
        }
        if !ids.iter().all(|id| is_id(id)) {
            return Err(invalid(format!(
                "an entry of `ids` has 1 to {MAX_ID_BYTES} letters, digits and hyphens"
            )));
        }
        let erased = match self.settings.database.existing().await? {
            Some(database) => {
                self.record_erasure(actor, kind, &ids).await?;
                bounded(database.erase_logged(kind, ids)).await?
            }
            None => 0,
        };
        Ok(json!({"message": "Logs deleted successfully", "deleted": erased}))
    }

    /// Records an erasure that is about to happen, with all identifiers. Fails if it must not happen, because it
    /// cannot be recorded.
    async fn record_erasure(&self, actor: &Operator, kind: LogKind, ids: &[String]) -> Result<()> {
        let log = if kind == LogKind::Tools { "tools" } else { "models" };
        for ids in ids.chunks(RECORDED_IDS) {
            let act = Act::new(ActKind::LogErased, actor, log)
                .with("count", ids.len().to_string())
                .with("ids", ids.join(" "));
            if !self.settings.acts.record_before(act).await {
                return Err(busy(
                    "records_unavailable",
                    "the erasure cannot be recorded in the audit log, so nothing is erased; try again later",
                ));
            }
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        unix_milliseconds(self.settings.database.now())
    }
}

fn is_id(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain && !text.is_empty() && text.len() <= MAX_ID_BYTES
}

fn unknown_row() -> ManagementRefusal {
    not_found("no row of the log has this identifier")
}

/// Waits for a query for a bounded time.
async fn bounded<T>(query: impl Future<Output = Result<T, Unavailable>>) -> Result<T> {
    match timeout(QUERY, query).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(busy(
            "query_too_slow",
            "the query of the log takes too long; ask for a shorter period",
        )),
    }
}

fn list(
    query: &LogQuery,
    rows: &[Value],
    next: Option<String>,
    sums: LogSums,
    kind: LogKind,
) -> Value {
    let has_logs = !rows.is_empty();
    let is_full = u32::try_from(rows.len()).is_ok_and(|rows| rows == query.page.limit);
    let next = next.filter(|_| is_full && query.is_by_time());
    json!({
        "logs": rows,
        "pagination": {
            "limit": query.page.limit,
            "offset": query.page.offset,
            "sort_by": query.sort_by(),
            "order": query.order(),
            "total_count": sums.count,
            "next_cursor": next,
        },
        "stats": entry::stats(kind, &sums),
        "has_logs": has_logs,
        // The sums are those of the newest rows of the period.
        "is_partial": sums.count >= i64::from(MAX_SCANNED),
    })
}

#[cfg(test)]
mod tests;
