//! Statistics and histograms of the call log: the sums of groups of rows, by one statement.

use std::collections::BTreeSet;

use super::{
    query::{LogFilter, MAX_VALUES, Selected},
    row::LogKind,
};
use airlock_database::sql::{Param, Row, Sql, SqlResult};

/// Maximum parts of a period, whose length a query chooses. With 16 groups in each, a histogram has
/// 8,000 sums.
pub const MAX_BUCKETS: i64 = 500;
/// Maximum groups in each part of a period. A statement selects their rows by a list of their values,
/// which has room for [`MAX_VALUES`].
const MAX_GROUPS: u32 = 16;
const _: () = assert!(MAX_GROUPS as usize <= MAX_VALUES);
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
    /// Tokens of requests; 0 for tools, as all tokens.
    pub input: i64,
    /// Those of them from caches of providers.
    pub cached: i64,
    /// Tokens of responses.
    pub output: i64,
    /// Sum of the durations of rows with tokens of a response.
    pub generating_us: i64,
    /// Durations that 90, 95 and 99 percent of the rows do not exceed; 0 unless [`LogGrouping::has_percentiles`].
    pub percentiles_us: [i64; 3],
}

/// Percentiles of durations.
const PERCENTILES: [u8; 3] = [90, 95, 99];

/// Parts of equal length of the period of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    /// Length of a part in milliseconds, at least 1.
    pub bucket_ms: i64,
}

/// Property by which rows are grouped. Rows without it are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogProperty {
    /// Tool or model.
    Name,
    /// Client or provider.
    Source,
    /// Identifier of the virtual key.
    Key,
    /// Team of the key.
    Team,
    /// Customer of the key.
    Customer,
    /// User at the issuer.
    User,
}

impl LogProperty {
    fn column(self, kind: LogKind) -> &'static str {
        match self {
            Self::Name => kind.name_column(),
            Self::Source => kind.source_column(),
            Self::Key => "key_id",
            Self::Team => "team",
            Self::Customer => "customer",
            Self::User => "user_subject",
        }
    }
}

/// Groups of rows whose sums are wanted. By default, all rows are one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogGrouping {
    /// Parts of the period; `None` for the whole.
    pub histogram: Option<Histogram>,
    /// Property whose values are groups; `None` for all rows together.
    pub property: Option<LogProperty>,
    /// Maximum values of the property: those with the most rows. In a histogram, at most 16.
    pub most: u32,
    /// True to sort the durations for percentiles.
    pub has_percentiles: bool,
}

/// Sums of one group. Groups without rows are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSums {
    /// Beginning of the part, in milliseconds since 1970; that of the period without a histogram.
    pub start_ms: i64,
    /// Value of the property; empty without one.
    pub value: String,
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

/// Returns the columns of a log that are summed up. No others are carried along when rows are sorted.
fn measures(kind: LogKind) -> &'static str {
    match kind {
        LogKind::Tools => "status, duration_us, cost",
        LogKind::Models => "status, duration_us, cost, input_tokens, cached_tokens, output_tokens",
    }
}

/// Returns the columns of [`LogSums`].
fn columns(kind: LogKind) -> String {
    let mut columns = vec![
        "count(*)".to_owned(),
        sum("CASE WHEN status = 'success' THEN 1 ELSE 0 END"),
        sum("CASE WHEN status IN ('error', 'refused', 'cancelled') THEN 1 ELSE 0 END"),
        "count(duration_us)".to_owned(),
        sum("duration_us"),
        "coalesce(max(duration_us), 0)".to_owned(),
        sum("cost"),
    ];
    columns.extend(match kind {
        LogKind::Tools => ["0"; 4].map(sum),
        LogKind::Models => [
            "input_tokens",
            "cached_tokens",
            "output_tokens",
            "CASE WHEN output_tokens > 0 THEN duration_us END",
        ]
        .map(sum),
    });
    columns.extend(PERCENTILES.map(|percent| {
        let least = format!("CASE WHEN place * 100 >= {percent} * places THEN duration_us END");
        format!("coalesce(min({least}), 0)")
    }));
    columns.join(", ")
}

fn sum(value: &str) -> String {
    format!("CAST(coalesce(sum({value}), 0) AS BIGINT)")
}

fn sums(row: &Row<'_>, first: usize) -> SqlResult<LogSums> {
    Ok(LogSums {
        count: row.get(first)?,
        successes: row.get(first + 1)?,
        errors: row.get(first + 2)?,
        timed: row.get(first + 3)?,
        duration_us: row.get(first + 4)?,
        longest_us: row.get(first + 5)?,
        cost: row.get(first + 6)?,
        input: row.get(first + 7)?,
        cached: row.get(first + 8)?,
        output: row.get(first + 9)?,
        generating_us: row.get(first + 10)?,
        percentiles_us: [row.get(first + 11)?, row.get(first + 12)?, row.get(first + 13)?],
    })
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

/// Returns the sums of each group, by time, those with the most rows first.
pub(super) fn groups(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
    grouping: LogGrouping,
) -> SqlResult<Vec<GroupSums>> {
    let LogGrouping { histogram, property, most, has_percentiles } = grouping;
    let values = if histogram.is_some() && property.is_some() {
        most_frequent(sql, kind, filter, grouping)?
    } else {
        Vec::new()
    };
    let mut selected = Selected::new(kind, filter);
    let column = property.map_or("''", |property| property.column(kind));
    if property.is_some() {
        selected.keep(column, &values);
    }
    let part = match histogram {
        Some(histogram) => histogram.number(&mut selected),
        None => "CAST(0 AS BIGINT)".to_owned(),
    };
    let most: i64 = match (histogram, property) {
        (None, None) => 1,
        (None, Some(_)) => most.into(),
        (Some(_), None) => MAX_BUCKETS,
        (Some(_), Some(_)) => MAX_BUCKETS.saturating_mul(MAX_GROUPS.into()),
    };
    let limit = selected.parameter(most);
    let Selected { from, values } = selected;
    // Rows without a duration are the last ones, and no place of a percentile.
    let places = if has_percentiles {
        "row_number() OVER (PARTITION BY part, grouped ORDER BY duration_us IS NULL, duration_us) AS place, \
         count(duration_us) OVER (PARTITION BY part, grouped) AS places"
    } else {
        "-1 AS place, 0 AS places"
    };
    let select = format!(
        "SELECT part, grouped, {} FROM (SELECT parts.*, {places} FROM \
         (SELECT {part} AS part, {column} AS grouped, {} FROM {from}) AS parts) AS placed \
         GROUP BY part, grouped ORDER BY part, count(*) DESC, grouped LIMIT {limit}",
        columns(kind),
        measures(kind)
    );
    sql.all(&select, &values, |row| {
        let number = row.get(0)?;
        let start_ms = histogram.map_or(filter.from_ms, |parts| parts.start(filter, number));
        Ok(GroupSums { start_ms, value: row.get(1)?, sums: sums(row, 2)? })
    })
}

/// Returns the values of the property that are the groups of a histogram.
fn most_frequent(
    sql: &Sql<'_>,
    kind: LogKind,
    filter: &LogFilter,
    grouping: LogGrouping,
) -> SqlResult<Vec<String>> {
    let most = grouping.most.min(MAX_GROUPS);
    let whole = LogGrouping { histogram: None, most, has_percentiles: false, ..grouping };
    Ok(groups(sql, kind, filter, whole)?.into_iter().map(|group| group.value).collect())
}

/// Returns the values of rows.
pub(super) fn values(sql: &Sql<'_>, kind: LogKind, filter: &LogFilter) -> SqlResult<LogValues> {
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
) -> SqlResult<Vec<String>> {
    let select = format!(
        "SELECT DISTINCT {column} FROM {from} AND {column} IS NOT NULL ORDER BY {column} \
         LIMIT {LISTED_VALUES}"
    );
    sql.all(&select, values, |row| row.get(0))
}
