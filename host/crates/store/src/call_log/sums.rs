//! Statistics and histograms of the call log.

use std::collections::BTreeSet;

use super::{
    LogKind,
    query::{LogFilter, MAX_VALUES, Selected},
};
use crate::sql::{Param, Row, Sql, SqlError};

/// Maximum parts of a period.
pub const MAX_BUCKETS: i64 = 500;
/// Maximum values of one kind that are listed.
const LISTED_VALUES: u32 = 1_000;

/// Sums of rows. Times are in microseconds, money in millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogSums {
    /// All rows.
    pub count: i64,
    /// Those that have returned a result.
    pub successes: i64,
    /// Those that have failed, were refused or cancelled.
    pub errors: i64,
    /// Those with a duration.
    pub timed: i64,
    /// Sum of the durations.
    pub duration_us: i64,
    /// Longest duration.
    pub longest_us: i64,
    /// Sum of the costs.
    pub cost: i64,
}

/// Parts of equal length of the period of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    /// Length of a part in milliseconds, at least 1.
    pub bucket_ms: i64,
}

/// Sums of one part. Parts without rows are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketSums {
    /// Beginning of the part, in milliseconds since 1970.
    pub start_ms: i64,
    /// Its sums.
    pub sums: LogSums,
}

/// Tokens of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenSums {
    /// Beginning of the part, in milliseconds since 1970.
    pub start_ms: i64,
    /// Tokens of requests.
    pub input: i64,
    /// Those of them from caches of providers.
    pub cached: i64,
    /// Tokens of responses.
    pub output: i64,
}

/// Sums of one tool or model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSums {
    /// Its name.
    pub name: String,
    /// Its sums.
    pub sums: LogSums,
}

/// Sums of one tool or model in one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBucket {
    /// Beginning of the part, in milliseconds since 1970.
    pub start_ms: i64,
    /// Name of the tool or model.
    pub name: String,
    /// Its sums.
    pub sums: LogSums,
}

/// Values by which rows can be selected, each at most a thousand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogValues {
    /// Tools or models.
    pub names: Vec<String>,
    /// Clients or providers.
    pub sources: Vec<String>,
    /// Identifiers and names of virtual keys.
    pub keys: Vec<(String, String)>,
}

/// Columns of [`LogSums`].
const SUMS: &str = "count(*), \
     CAST(coalesce(sum(CASE WHEN status = 'success' THEN 1 ELSE 0 END), 0) AS BIGINT), \
     CAST(coalesce(sum(CASE WHEN status IN ('error', 'refused', 'cancelled') THEN 1 ELSE 0 END), 0) \
     AS BIGINT), count(duration_us), CAST(coalesce(sum(duration_us), 0) AS BIGINT), \
     coalesce(max(duration_us), 0), CAST(coalesce(sum(cost), 0) AS BIGINT)";

fn sums(row: &Row<'_>, first: usize) -> Result<LogSums, SqlError> {
    Ok(LogSums {
        count: row.get(first)?,
        successes: row.get(first + 1)?,
        errors: row.get(first + 2)?,
        timed: row.get(first + 3)?,
        duration_us: row.get(first + 4)?,
        longest_us: row.get(first + 5)?,
        cost: row.get(first + 6)?,
    })
}

/// Returns the sums of all rows.
pub(super) fn total(sql: &Sql<'_>, kind: LogKind, filter: &LogFilter) -> Result<LogSums, SqlError> {
    let Selected { from, values } = Selected::new(kind, filter);
    sql.one(&format!("SELECT {SUMS} FROM {from}"), &values, |row| sums(row, 0))
}

impl Histogram {
    /// Returns the histogram of a period whose parts have about this length, longer ones if there would be
    /// more than [`MAX_BUCKETS`].
    pub fn new(filter: &LogFilter, wanted_ms: i64) -> Self {
        let period = filter.until_ms.saturating_sub(filter.from_ms).max(1);
        let shortest = period / MAX_BUCKETS + 1;
        Self { bucket_ms: wanted_ms.max(shortest).max(1) }
    }

    /// Adds the parameters that number the parts. Returns the number of a row's part, as an expression.
    fn number(self, selected: &mut Selected<'_>) -> String {
        let bucket = selected.parameter(self.bucket_ms);
        // The beginning of the period is the first parameter.
        format!("(at_ms - ?1) / {bucket}")
    }

    /// Returns the beginning of a part.
    fn start(self, filter: &LogFilter, number: i64) -> i64 {
        filter.from_ms.saturating_add(number.saturating_mul(self.bucket_ms))
    }
}

/// Returns the sums of each part.
pub(super) fn buckets(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
    histogram: Histogram,
) -> Result<Vec<BucketSums>, SqlError> {
    let mut selected = Selected::new(kind, filter);
    let number = histogram.number(&mut selected);
    let Selected { from, values } = selected;
    let select = format!(
        "SELECT part, {SUMS} FROM (SELECT {number} AS part, status, duration_us, cost FROM {from}) AS parts \
         GROUP BY part ORDER BY part LIMIT {MAX_BUCKETS}"
    );
    sql.all(&select, &values, |row| {
        Ok(BucketSums { start_ms: histogram.start(filter, row.get(0)?), sums: sums(row, 1)? })
    })
}

/// Returns the tokens of each part.
pub(super) fn tokens(
    sql: &Sql<'_>,
    filter: &LogFilter,
    histogram: Histogram,
) -> Result<Vec<TokenSums>, SqlError> {
    let mut selected = Selected::new(LogKind::Models, filter);
    let number = histogram.number(&mut selected);
    let Selected { from, values } = selected;
    let select = format!(
        "SELECT part, CAST(coalesce(sum(input_tokens), 0) AS BIGINT), \
         CAST(coalesce(sum(cached_tokens), 0) AS BIGINT), \
         CAST(coalesce(sum(output_tokens), 0) AS BIGINT) FROM \
         (SELECT {number} AS part, input_tokens, cached_tokens, output_tokens FROM {from}) AS parts \
         GROUP BY part ORDER BY part LIMIT {MAX_BUCKETS}"
    );
    sql.all(&select, &values, |row| {
        Ok(TokenSums {
            start_ms: histogram.start(filter, row.get(0)?),
            input: row.get(1)?,
            cached: row.get(2)?,
            output: row.get(3)?,
        })
    })
}

/// Returns the sums of each tool or model.
pub(super) fn top(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
    most: u32,
) -> Result<Vec<NamedSums>, SqlError> {
    let mut selected = Selected::new(kind, filter);
    let limit = selected.parameter(most);
    let Selected { from, values } = selected;
    let name = kind.name_column();
    let select = format!(
        "SELECT {name}, {SUMS} FROM {from} GROUP BY {name} ORDER BY count(*) DESC, {name} LIMIT {limit}"
    );
    sql.all(&select, &values, |row| Ok(NamedSums { name: row.get(0)?, sums: sums(row, 1)? }))
}

/// Returns the sums of each tool or model in each part.
pub(super) fn buckets_by_name(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
    histogram: Histogram,
    most: u32,
) -> Result<Vec<NamedBucket>, SqlError> {
    let most = most.min(u32::try_from(MAX_VALUES).unwrap_or(u32::MAX));
    let names = top(sql, kind, filter, most)?.into_iter().map(|top| top.name).collect();
    let filter = LogFilter { names, ..filter.clone() };
    let mut selected = Selected::new(kind, &filter);
    let number = histogram.number(&mut selected);
    let Selected { from, values } = selected;
    let name = kind.name_column();
    let rows = MAX_BUCKETS.saturating_mul(most.into());
    let select = format!(
        "SELECT part, {name}, {SUMS} FROM \
         (SELECT {number} AS part, {name}, status, duration_us, cost FROM {from}) AS parts \
         GROUP BY part, {name} ORDER BY part, {name} LIMIT {rows}"
    );
    sql.all(&select, &values, |row| {
        Ok(NamedBucket {
            start_ms: histogram.start(&filter, row.get(0)?),
            name: row.get(1)?,
            sums: sums(row, 2)?,
        })
    })
}

/// Returns the values of rows.
pub(super) fn values(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
) -> Result<LogValues, SqlError> {
    let Selected { from, values } = Selected::new(kind, filter);
    let keys = format!(
        "SELECT DISTINCT key_id, key_name FROM {from} AND key_id IS NOT NULL \
         ORDER BY key_id LIMIT {LISTED_VALUES}"
    );
    // A key that was renamed has several names.
    let mut seen = BTreeSet::new();
    let keys = sql.all(&keys, &values, |row| {
        let id: String = row.get(0)?;
        let name: Option<String> = row.get(1)?;
        Ok((id.clone(), name.unwrap_or(id)))
    })?;
    let keys = keys.into_iter().filter(|(id, _)| seen.insert(id.clone())).collect();
    Ok(LogValues {
        names: distinct(sql, kind.name_column(), &from, &values)?,
        sources: distinct(sql, kind.source_column(), &from, &values)?,
        keys,
    })
}

fn distinct(
    sql: &Sql<'_>,
    column: &str,
    from: &str,
    values: &[Param<'_>],
) -> Result<Vec<String>, SqlError> {
    let select = format!(
        "SELECT DISTINCT {column} FROM {from} AND {column} IS NOT NULL ORDER BY {column} \
         LIMIT {LISTED_VALUES}"
    );
    sql.all(&select, values, |row| row.get(0))
}
