//! A filter → a bounded set of rows, and pages of them.
//!
//! Texts of statements depend on which filters are set, and on whether each has one value or several, but not on how
//! many: connections keep a prepared statement for each text.

use std::fmt::Write as _;

use super::row::{CallStatus, LogKind};
use airlock_database::sql::{Param, Row, Sql, SqlResult, numbered, params};

/// Newest rows of a period that a query reads. With it, a query of a file takes some tenths of a second.
pub const MAX_SCANNED: u32 = 250_000;
/// Maximum values of one filter. In a statement, a list of several values has this many parameters,
/// so that its text does not depend on how many an operator sends.
pub const MAX_VALUES: usize = 16;

/// Rows of a log. An empty list selects all values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// First time, in milliseconds since 1970.
    pub from_ms: i64,
    /// Time before which the rows are.
    pub until_ms: i64,
    /// Identifiers of virtual keys, at most [`MAX_VALUES`], as of each list.
    pub keys: Vec<String>,
    /// Tools or models.
    pub names: Vec<String>,
    /// Clients or providers.
    pub sources: Vec<String>,
    /// States.
    pub statuses: Vec<CallStatus>,
    /// Subject of the user, exactly.
    pub user_subject: Option<String>,
    /// Issuer of the user, exactly. It has no index, so it stands with the subject.
    pub user_issuer: Option<String>,
    /// Origins; of tools alone.
    pub origins: Vec<String>,
    /// Calls that made others; of tools alone.
    pub parents: Vec<String>,
    /// Runs of scripts, whose executions are calls; of tools alone.
    pub runs: Vec<String>,
    /// Shortest duration in microseconds.
    pub min_us: Option<i64>,
    /// Longest duration in microseconds.
    pub max_us: Option<i64>,
}

/// Column by which a page is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogSort {
    /// Time of the call.
    #[default]
    Time,
    /// Duration.
    Latency,
    /// Cost.
    Cost,
}

/// Order of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogOrder {
    /// Latest or greatest first.
    #[default]
    Descending,
    /// Earliest or least first.
    Ascending,
}

/// The last row of a page by time, after which the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCursor {
    /// Its time.
    pub at_ms: i64,
    /// Its identifier.
    pub id: String,
}

/// A page of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// Maximum rows.
    pub limit: u32,
    /// Rows before it. Not together with a cursor.
    pub offset: u32,
    /// Sorting.
    pub sort: LogSort,
    /// Order.
    pub order: LogOrder,
    /// The row that it follows, if it is sorted by time.
    pub after: Option<LogCursor>,
}

/// The rows of a filter, as a part of a statement with the values of its parameters.
pub(super) struct Selected<'f> {
    /// Text that stands after `FROM`.
    pub(super) from: String,
    pub(super) values: Vec<Param<'f>>,
}

impl<'f> Selected<'f> {
    /// Returns the rows of a filter among the newest [`MAX_SCANNED`] of its period. Columns with an index
    /// select before that bound, the others after it.
    pub(super) fn new(kind: LogKind, filter: &'f LogFilter) -> Self {
        let mut values = vec![filter.from_ms.into(), filter.until_ms.into()];
        let mut inner = String::from("at_ms >= ?1 AND at_ms < ?2");
        list(&mut inner, &mut values, "key_id", filter.keys.iter().map(Param::from));
        list(&mut inner, &mut values, kind.name_column(), filter.names.iter().map(Param::from));
        let statuses = filter.statuses.iter().map(|status| status.name().into());
        list(&mut inner, &mut values, "status", statuses);
        if !filter.statuses.is_empty() && !filter.statuses.contains(&CallStatus::Success) {
            // Most calls succeed. The index of states has only the others, and is used because of this condition.
            inner.push_str(" AND status <> 'success'");
        }
        equal(
            &mut inner,
            &mut values,
            "user_subject",
            filter.user_subject.as_ref().map(Param::from),
        );
        equal(&mut inner, &mut values, "user_issuer", filter.user_issuer.as_ref().map(Param::from));
        let mut outer = String::from("1 = 1");
        let sources = filter.sources.iter().map(Param::from);
        list(&mut outer, &mut values, kind.source_column(), sources);
        if kind == LogKind::Tools {
            list(&mut outer, &mut values, "origin", filter.origins.iter().map(Param::from));
            list(&mut outer, &mut values, "parent", filter.parents.iter().map(Param::from));
            list(&mut outer, &mut values, "run", filter.runs.iter().map(Param::from));
        }
        bound(&mut outer, &mut values, "duration_us >=", filter.min_us);
        bound(&mut outer, &mut values, "duration_us <=", filter.max_us);
        let table = kind.table();
        let from = format!(
            "(SELECT * FROM {table} WHERE {inner} ORDER BY at_ms DESC, id DESC LIMIT {MAX_SCANNED}) \
             AS log WHERE {outer}"
        );
        Self { from, values }
    }

    /// Keeps the rows that have a value in a column: one of these, unless the list is empty.
    pub(super) fn keep(&mut self, column: &str, values: &'f [String]) {
        // Writing to a text cannot fail.
        let _ = write!(self.from, " AND {column} IS NOT NULL");
        list(&mut self.from, &mut self.values, column, values.iter().map(Param::from));
    }

    /// Adds a value. Returns the name of its parameter.
    pub(super) fn parameter(&mut self, value: impl Into<Param<'f>>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }
}

/// Adds a condition that a column has one of these values; none if there are no values.
///
/// Of one value, an index has the rows in the order of their time, so that no more are read than the bound. Those of
/// several values are all read and sorted, however many there are.
fn list<'f>(
    text: &mut String,
    values: &mut Vec<Param<'f>>,
    column: &str,
    wanted: impl Iterator<Item = Param<'f>>,
) {
    let mut wanted: Vec<_> = wanted.take(MAX_VALUES).collect();
    if let [only] = wanted[..] {
        equal(text, values, column, Some(only));
        return;
    }
    let Some(last) = wanted.last().copied() else { return };
    wanted.resize(MAX_VALUES, last);
    let first = values.len() + 1;
    // Writing to a text cannot fail.
    let _ = write!(text, " AND {column} IN ({})", numbered(first, MAX_VALUES));
    values.extend(wanted);
}

/// Adds a condition that a column has this value; none if there is no value.
fn equal<'f>(
    text: &mut String,
    values: &mut Vec<Param<'f>>,
    column: &str,
    wanted: Option<Param<'f>>,
) {
    if let Some(wanted) = wanted {
        values.push(wanted);
        let _ = write!(text, " AND {column} = ?{}", values.len());
    }
}

fn bound(text: &mut String, values: &mut Vec<Param<'_>>, comparison: &str, limit: Option<i64>) {
    if let Some(limit) = limit {
        values.push(limit.into());
        let _ = write!(text, " AND {comparison} ?{}", values.len());
    }
}

/// Returns the filter whose newest [`MAX_SCANNED`] rows a page is of. A page with a cursor goes back from there, so
/// that all rows can be read one page after the other, however many there are.
pub(super) fn filter_of_page(filter: &LogFilter, page: &LogPage) -> LogFilter {
    let mut filter = filter.clone();
    if page.order == LogOrder::Descending
        && let Some(cursor) = &page.after
    {
        filter.until_ms = filter.until_ms.min(cursor.at_ms.saturating_add(1));
    }
    filter
}

/// Reads a page of rows.
pub(super) fn page<T>(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
    page: &LogPage,
    columns: &str,
    read: impl FnMut(&Row<'_>) -> SqlResult<T>,
) -> SqlResult<Vec<T>> {
    let filter = filter_of_page(filter, page);
    let mut selected = Selected::new(kind, &filter);
    let (direction, comparison) = match page.order {
        LogOrder::Descending => ("DESC", "<"),
        LogOrder::Ascending => ("ASC", ">"),
    };
    let mut after = String::new();
    if let Some(cursor) = &page.after {
        let at = selected.parameter(cursor.at_ms);
        let id = selected.parameter(&cursor.id);
        after = format!(" AND (at_ms, id) {comparison} ({at}, {id})");
    }
    let sort = match page.sort {
        LogSort::Time => "at_ms",
        LogSort::Latency => "coalesce(duration_us, 0)",
        LogSort::Cost => "coalesce(cost, 0)",
    };
    let limit = selected.parameter(page.limit);
    let offset = selected.parameter(page.offset);
    let Selected { from, values } = selected;
    let select = format!(
        "SELECT {columns} FROM {from}{after} ORDER BY {sort} {direction}, id {direction} \
         LIMIT {limit} OFFSET {offset}"
    );
    sql.all(&select, &values, read)
}

/// Reads one row.
pub(super) fn find<T>(
    sql: &Sql<'_>,
    kind: LogKind,
    id: &str,
    columns: &str,
    read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
) -> SqlResult<Option<T>> {
    let select = format!("SELECT {columns} FROM {} WHERE id = ?1", kind.table());
    sql.find(&select, params![id], read)
}
