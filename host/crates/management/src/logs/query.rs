//! Parameters of a request about the call log, with the names of Bifrost's.

use std::time::Duration;

use url::form_urlencoded;

use crate::{
    page::number_from_zero,
    refusal::{Result, invalid},
};
use airlock_core::unix_time::{milliseconds, unix_milliseconds};
use airlock_operator_api::ManagementRefusal;
use airlock_store::call_log::{
    CallStatus, Histogram, LogCursor, LogFilter, LogKind, LogOrder, LogPage, LogProperty, LogSort,
    MAX_TEXT_BYTES, MAX_VALUES,
};
use airlock_strings::cut;

/// Rows of a page, unless the query says otherwise.
const DEFAULT_LIMIT: u32 = 50;
/// Maximum rows of a page, which is held in memory without the contents of its calls. A name in a row has at most
/// [`MAX_TEXT_BYTES`].
const MAX_LIMIT: u32 = 1_000;
/// Period of a histogram, unless the query has another.
const DEFAULT_PERIOD_MS: i64 = 24 * 3_600_000;
/// Lengths of the parts of a histogram, in milliseconds. The first is taken that has few enough parts.
const BUCKETS_MS: [i64; 7] =
    [60_000, 300_000, 900_000, 3_600_000, 6 * 3_600_000, 86_400_000, 7 * 86_400_000];
/// Parts of a histogram, at most, unless the query has their length.
const PARTS: i64 = 120;

/// Names of the origins of calls. PostgreSQL compares no text with them that has a NUL.
const ORIGINS: [&str; 7] =
    ["caller", "model", "mcp_client", "operator", "program", "script", "plugin"];

/// Properties of requests to models by which they are grouped; each also with `_id`.
const DIMENSIONS: [(&str, LogProperty); 6] = [
    ("model", LogProperty::Name),
    ("provider", LogProperty::Source),
    ("virtual_key", LogProperty::Key),
    ("team", LogProperty::Team),
    ("customer", LogProperty::Customer),
    ("user", LogProperty::User),
];

/// A property of rows, as a query names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dimension {
    pub(super) text: String,
    pub(super) property: LogProperty,
}

/// The rows that a request selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogQuery {
    pub(super) filter: LogFilter,
    pub(super) page: LogPage,
    /// Length of the parts of a histogram; `None` for one that fits the period.
    bucket_ms: Option<i64>,
    dimension: Option<Dimension>,
}

impl LogQuery {
    /// Reads the parameters of a list. Fails if one is unknown or not valid.
    pub(super) fn parse(kind: LogKind, query: &str, now_ms: i64) -> Result<Self> {
        let filter = LogFilter { until_ms: i64::MAX, ..LogFilter::default() };
        let page = LogPage { limit: DEFAULT_LIMIT, ..LogPage::default() };
        let mut parsed = Self { filter, page, bucket_ms: None, dimension: None };
        let mut period = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            if value.len() > MAX_TEXT_BYTES * MAX_VALUES {
                return Err(invalid(format!("`{}` is too long", cut(name.into_owned(), 64))));
            }
            match &*name {
                _ if value.is_empty() => {}
                "period" => period = Some(span(&name, value)?),
                _ => parsed.set(kind, &name, value)?,
            }
        }
        if let Some(period) = period {
            parsed.filter.from_ms = now_ms.saturating_sub(period);
            parsed.filter.until_ms = now_ms.saturating_add(1);
        }
        if parsed.page.after.is_some() && (parsed.page.offset > 0 || !parsed.is_by_time()) {
            return Err(invalid("`cursor` stands without `offset`, and with `sort_by=timestamp`"));
        }
        if parsed.filter.user_issuer.is_some() && parsed.filter.user_subject.is_none() {
            return Err(invalid("`user_issuer` stands with `user_subject`"));
        }
        Ok(parsed)
    }

    /// Reads the parameters of a histogram, which has a period with two ends.
    pub(super) fn parse_histogram(kind: LogKind, query: &str, now_ms: i64) -> Result<Self> {
        let mut parsed = Self::parse(kind, query, now_ms)?;
        let filter = &mut parsed.filter;
        filter.until_ms = filter.until_ms.min(now_ms.saturating_add(1));
        if filter.from_ms == 0 {
            filter.from_ms = filter.until_ms.saturating_sub(DEFAULT_PERIOD_MS).max(0);
        }
        Ok(parsed)
    }

    fn set(&mut self, kind: LogKind, name: &str, value: &str) -> Result<()> {
        let Self { filter, page, bucket_ms, dimension } = self;
        match (name, kind) {
            ("limit", _) => {
                let limit = number_from_zero(name, value)?;
                if !(1..=i64::from(MAX_LIMIT)).contains(&limit) {
                    return Err(invalid(format!("`limit` is 1 to {MAX_LIMIT}")));
                }
                page.limit = u32::try_from(limit).unwrap_or(MAX_LIMIT);
            }
            ("offset", _) => {
                page.offset = u32::try_from(number_from_zero(name, value)?).unwrap_or(u32::MAX);
            }
            ("cursor", _) => page.after = Some(parse_cursor(value)?),
            ("sort_by", _) => page.sort = sort(value)?,
            ("order", _) => page.order = order(value)?,
            ("start_time", _) => filter.from_ms = time(name, value)?,
            ("end_time", _) => filter.until_ms = time(name, value)?,
            ("bucket_size_seconds", _) => {
                *bucket_ms = Some(number_from_zero(name, value)?.saturating_mul(1_000));
            }
            ("min_latency", _) => {
                filter.min_us = Some(number_from_zero(name, value)?.saturating_mul(1_000));
            }
            ("max_latency", _) => {
                filter.max_us = Some(number_from_zero(name, value)?.saturating_mul(1_000));
            }
            ("virtual_key_ids", _) => filter.keys = values(name, value)?,
            ("user_subject", _) => filter.user_subject = Some(recorded(value)),
            ("user_issuer", _) => filter.user_issuer = Some(recorded(value)),
            ("status", _) => filter.statuses = statuses(value)?,
            ("tool_names", LogKind::Tools) | ("models", LogKind::Models) => {
                filter.names = values(name, value)?;
            }
            ("server_labels", LogKind::Tools) | ("providers", LogKind::Models) => {
                filter.sources = values(name, value)?;
            }
            ("origins", LogKind::Tools) => filter.origins = origins(value)?,
            ("parent_request_ids", LogKind::Tools) => filter.parents = values(name, value)?,
            ("run_ids", LogKind::Tools) => filter.runs = values(name, value)?,
            ("dimension", LogKind::Models) => *dimension = Some(parse_dimension(value)?),
            // Filter data has all dimensions, however many are asked for.
            ("dimensions", _) => {}
            ("content_search", _) => {
                return Err(invalid(
                    "`content_search`: contents are sealed and cannot be searched",
                ));
            }
            _ => return Err(unknown(kind, name)),
        }
        Ok(())
    }

    /// Returns whether rows are sorted by time.
    pub(super) fn is_by_time(&self) -> bool {
        self.page.sort == LogSort::Time
    }

    pub(super) fn sort_by(&self) -> &'static str {
        match self.page.sort {
            LogSort::Time => "timestamp",
            LogSort::Latency => "latency",
            LogSort::Cost => "cost",
        }
    }

    pub(super) fn order(&self) -> &'static str {
        match self.page.order {
            LogOrder::Ascending => "asc",
            LogOrder::Descending => "desc",
        }
    }

    /// Returns the property by which the rows are grouped. Fails if the query has none.
    pub(super) fn dimension(&self) -> Result<Dimension> {
        self.dimension
            .clone()
            .ok_or_else(|| invalid(format!("`dimension` is missing; valid are {}", dimensions())))
    }

    /// Returns the parts of the period.
    pub(super) fn histogram(&self) -> Histogram {
        let period = self.filter.until_ms.saturating_sub(self.filter.from_ms);
        let fitting = BUCKETS_MS.into_iter().find(|bucket| period / bucket <= PARTS);
        Histogram::new(&self.filter, self.bucket_ms.or(fitting).unwrap_or_default())
    }
}

/// Returns the cursor after a row.
pub(super) fn cursor(at_ms: i64, id: &str) -> String {
    format!("{at_ms}.{id}")
}

fn parse_cursor(text: &str) -> Result<LogCursor> {
    let parts = text
        .split_once('.')
        .and_then(|(at, id)| Some(LogCursor { at_ms: at.parse().ok()?, id: id.to_owned() }));
    parts.ok_or_else(|| invalid("`cursor` is not one of an earlier page"))
}

fn parse_dimension(text: &str) -> Result<Dimension> {
    let name = text.strip_suffix("_id").unwrap_or(text);
    match DIMENSIONS.iter().find(|(own, _)| *own == name) {
        Some((_, property)) => Ok(Dimension { text: text.to_owned(), property: *property }),
        None => Err(invalid(format!("`dimension`: valid are {}", dimensions()))),
    }
}

fn dimensions() -> String {
    DIMENSIONS.map(|(name, _)| name).join(", ")
}

fn unknown(kind: LogKind, name: &str) -> ManagementRefusal {
    let own = match kind {
        LogKind::Tools => {
            "`tool_names`, `server_labels`, `origins`, `parent_request_ids`, `run_ids`"
        }
        LogKind::Models => "`models`, `providers`, `dimension`",
    };
    let name = cut(name.to_owned(), 64);
    invalid(format!(
        "unknown parameter {name:?}; valid are {own}, `status`, `virtual_key_ids`, `user_subject`, `user_issuer`, `start_time`, `end_time`, `period`, `min_latency`, `max_latency`, `limit`, `offset`, `cursor`, `sort_by`, `order` and `bucket_size_seconds`"
    ))
}

/// Reads a list of values, separated by commas.
fn values(name: &str, text: &str) -> Result<Vec<String>> {
    let values: Vec<_> = text.split(',').map(|value| value.trim().to_owned()).collect();
    // Longer texts are cut in the rows, so that none would be found.
    if values.len() > MAX_VALUES || values.iter().any(|value| value.len() > MAX_TEXT_BYTES) {
        return Err(invalid(format!(
            "`{name}` has at most {MAX_VALUES} values of at most {MAX_TEXT_BYTES} bytes"
        )));
    }
    Ok(values.into_iter().filter(|value| !value.is_empty()).collect())
}

/// Returns a value as rows have it, where long ones are cut. It may have commas.
fn recorded(text: &str) -> String {
    cut(text.to_owned(), MAX_TEXT_BYTES)
}

fn origins(text: &str) -> Result<Vec<String>> {
    let origins = values("origins", text)?;
    if origins.iter().all(|origin| ORIGINS.contains(&origin.as_str())) {
        Ok(origins)
    } else {
        Err(invalid(format!("`origins`: valid are {}", ORIGINS.join(", "))))
    }
}

fn statuses(text: &str) -> Result<Vec<CallStatus>> {
    let mut statuses = Vec::new();
    for name in values("status", text)? {
        match (name.as_str(), CallStatus::from_name(&name)) {
            // Bifrost has no other state for a call that has no result.
            ("error", _) => {
                statuses.extend([CallStatus::Error, CallStatus::Refused, CallStatus::Cancelled]);
            }
            (_, Some(status)) => statuses.push(status),
            (_, None) => {
                let valid = CallStatus::ALL.map(CallStatus::name).join(", ");
                return Err(invalid(format!("`status`: valid are {valid}")));
            }
        }
    }
    Ok(statuses)
}

fn sort(text: &str) -> Result<LogSort> {
    match text {
        "timestamp" => Ok(LogSort::Time),
        "latency" => Ok(LogSort::Latency),
        "cost" => Ok(LogSort::Cost),
        _ => Err(invalid("`sort_by`: valid are timestamp, latency and cost")),
    }
}

fn order(text: &str) -> Result<LogOrder> {
    match text {
        "asc" => Ok(LogOrder::Ascending),
        "desc" => Ok(LogOrder::Descending),
        _ => Err(invalid("`order`: valid are asc and desc")),
    }
}

fn time(name: &str, text: &str) -> Result<i64> {
    let time = humantime::parse_rfc3339_weak(text).ok();
    time.map(unix_milliseconds).ok_or_else(|| {
        invalid(format!("`{name}`: expected a time in UTC such as 2026-01-31T12:00:00Z"))
    })
}

/// Reads a length of time such as `24h`, in milliseconds.
fn span(name: &str, text: &str) -> Result<i64> {
    let span = humantime::parse_duration(text).ok().filter(|span| *span > Duration::ZERO);
    span.map(milliseconds)
        .ok_or_else(|| invalid(format!("`{name}`: expected a time such as 24h or 7d")))
}
