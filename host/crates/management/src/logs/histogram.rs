//! Measures over time, and rankings: the sums of groups of rows, with the members of Bifrost's.

use serde_json::{Map, Value, json};

use super::{
    TOP, bounded,
    entry::{average, dollars, latency, success_rate},
    query::{Dimension, LogQuery},
};
use crate::{refusal::Result, service::Service, timestamp::rfc3339};
use airlock_store::call_log::{GroupSums, LogFilter, LogGrouping, LogKind, LogProperty, LogSums};

/// Values of a property in a ranking.
const RANKED: u32 = 100;
/// Values of a property of the period before, to compare a ranking with.
const COMPARED: u32 = 1_000;

/// A measure over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogHistogram {
    pub(crate) measure: LogMeasure,
    pub(crate) groups: HistogramGroups,
}

/// Measure of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMeasure {
    Count,
    Cost,
    Tokens,
    Latency,
    Throughput,
}

/// Groups of the rows of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistogramGroups {
    None,
    Models,
    Providers,
    /// Those of the parameter `dimension`.
    Dimension,
}

impl LogHistogram {
    /// Finds the histogram at a path below `histogram`.
    pub(super) fn at(kind: LogKind, path: &[&str]) -> Option<Self> {
        let (measure, groups) = match path {
            [] => (LogMeasure::Count, HistogramGroups::None),
            ["models"] => (LogMeasure::Count, HistogramGroups::Models),
            [measure] => (LogMeasure::named(measure)?, HistogramGroups::None),
            [measure, "by-provider"] => (LogMeasure::named(measure)?, HistogramGroups::Providers),
            [measure, "by-dimension"] => (LogMeasure::named(measure)?, HistogramGroups::Dimension),
            _ => return None,
        };
        // Calls of tools have neither tokens nor providers.
        let is_of_tools = groups == HistogramGroups::None
            && matches!(measure, LogMeasure::Count | LogMeasure::Cost);
        (kind == LogKind::Models || is_of_tools).then_some(Self { measure, groups })
    }
}

impl HistogramGroups {
    /// Members of a response with the groups of a part, and with the values of all groups.
    fn members(self) -> Option<[&'static str; 2]> {
        match self {
            Self::None => None,
            Self::Models => Some(["by_model", "models"]),
            Self::Providers => Some(["by_provider", "providers"]),
            Self::Dimension => Some(["by_dimension", "dimension_values"]),
        }
    }
}

impl LogMeasure {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cost" => Self::Cost,
            "tokens" => Self::Tokens,
            "latency" => Self::Latency,
            "throughput" => Self::Throughput,
            _ => return None,
        })
    }

    /// Describes the sums of a part of the period.
    fn describe(self, sums: &LogSums) -> Value {
        match self {
            Self::Count => json!({
                "count": sums.count,
                "success": sums.successes,
                "error": sums.errors,
                "success_rate": success_rate(sums),
            }),
            Self::Cost => json!({"total_cost": dollars(sums.cost)}),
            Self::Tokens => json!({
                "prompt_tokens": sums.input,
                "cached_read_tokens": sums.cached,
                "completion_tokens": sums.output,
                "total_tokens": total_tokens(sums),
            }),
            Self::Latency => {
                let [p90, p95, p99] = sums.percentiles_us.map(latency);
                json!({
                    "avg_latency": average(sums),
                    "max_latency": latency(sums.longest_us),
                    "p90_latency": p90,
                    "p95_latency": p95,
                    "p99_latency": p99,
                    "total_requests": sums.timed,
                })
            }
            Self::Throughput => json!({
                "tokens_per_second": throughput(sums),
                "total_completion_tokens": sums.output,
                "total_requests": sums.count,
            }),
        }
    }

    /// Describes the sums of one value of a property in a part of the period.
    fn describe_group(self, sums: &LogSums) -> Value {
        match self {
            Self::Count => json!({
                "total": sums.count,
                "success": sums.successes,
                "error": sums.errors,
                "cost": dollars(sums.cost),
            }),
            Self::Cost => dollars(sums.cost).into(),
            Self::Tokens | Self::Latency | Self::Throughput => self.describe(sums),
        }
    }
}

impl Service {
    pub(super) async fn histogram(
        &self,
        kind: LogKind,
        histogram: LogHistogram,
        query: &str,
    ) -> Result<Value> {
        let query = LogQuery::parse_histogram(kind, query, self.now_ms())?;
        let LogHistogram { measure, groups } = histogram;
        let dimension = match groups {
            HistogramGroups::Dimension => Some(query.dimension()?),
            _ => None,
        };
        let parts = query.histogram();
        let grouping = LogGrouping {
            histogram: Some(parts),
            property: match groups {
                HistogramGroups::None => None,
                HistogramGroups::Models => Some(LogProperty::Name),
                HistogramGroups::Providers => Some(LogProperty::Source),
                HistogramGroups::Dimension => {
                    dimension.as_ref().map(|dimension| dimension.property)
                }
            },
            most: TOP,
            has_percentiles: measure == LogMeasure::Latency,
        };
        let sums = match self.settings.database.existing().await? {
            Some(database) => bounded(database.log_groups(kind, query.filter, grouping)).await?,
            None => Vec::new(),
        };
        let mut shown = if let Some([by, all]) = groups.members() {
            json!({"buckets": grouped(measure, by, &sums), all: values(&sums)})
        } else {
            let buckets: Vec<_> = sums.iter().map(|part| bucket(measure, part)).collect();
            json!({"buckets": buckets})
        };
        shown["bucket_size_seconds"] = (parts.bucket_ms / 1_000).into();
        if let Some(Dimension { text, .. }) = dimension {
            shown["dimension"] = text.into();
        }
        Ok(shown)
    }

    /// Ranks models, or the values of a property, by their requests, and compares them with the period of the same
    /// length before.
    pub(super) async fn rankings(&self, by_dimension: bool, query: &str) -> Result<Value> {
        let query = LogQuery::parse_histogram(LogKind::Models, query, self.now_ms())?;
        let dimension = if by_dimension { Some(query.dimension()?) } else { None };
        let property = dimension.as_ref().map_or(LogProperty::Name, |found| found.property);
        let ranked =
            LogGrouping { property: Some(property), most: RANKED, ..LogGrouping::default() };
        let compared = LogGrouping { most: COMPARED, ..ranked };
        let mut rankings = Vec::new();
        if let Some(database) = self.settings.database.existing().await? {
            let before = period_before(&query.filter);
            let now = database.log_groups(LogKind::Models, query.filter, ranked);
            let now = bounded(now).await?;
            let before = database.log_groups(LogKind::Models, before, compared);
            let before = bounded(before).await?;
            rankings.extend(now.iter().map(|group| {
                let earlier = before.iter().find(|earlier| earlier.value == group.value);
                ranking(group, earlier.map(|earlier| &earlier.sums), by_dimension)
            }));
        }
        Ok(match dimension {
            Some(Dimension { text, .. }) => json!({"rankings": rankings, "dimension": text}),
            None => json!({"rankings": rankings}),
        })
    }
}

/// Returns the same filter for the period of the same length before.
fn period_before(filter: &LogFilter) -> LogFilter {
    let length = filter.until_ms.saturating_sub(filter.from_ms);
    LogFilter {
        from_ms: filter.from_ms.saturating_sub(length),
        until_ms: filter.from_ms,
        ..filter.clone()
    }
}

fn bucket(measure: LogMeasure, part: &GroupSums) -> Value {
    let mut bucket = measure.describe(&part.sums);
    bucket["timestamp"] = rfc3339(part.start_ms).into();
    bucket
}

/// Describes the parts of the period, by which the groups are sorted, with a member for the groups of each.
fn grouped(measure: LogMeasure, member: &str, groups: &[GroupSums]) -> Value {
    let parts = groups.chunk_by(|one, other| one.start_ms == other.start_ms);
    let buckets = parts.filter_map(|part| {
        let by_value =
            part.iter().map(|group| (group.value.clone(), measure.describe_group(&group.sums)));
        let by_value: Map<_, _> = by_value.collect();
        let mut bucket = json!({"timestamp": rfc3339(part.first()?.start_ms), member: by_value});
        if measure == LogMeasure::Cost {
            let cost = part.iter().fold(0_i64, |cost, group| cost.saturating_add(group.sums.cost));
            bucket["total_cost"] = dollars(cost).into();
        }
        Some(bucket)
    });
    buckets.collect()
}

/// Returns each value once.
fn values(groups: &[GroupSums]) -> Value {
    let mut values: Vec<_> = groups.iter().map(|group| group.value.as_str()).collect();
    values.sort_unstable();
    values.dedup();
    values.into()
}

fn ranking(group: &GroupSums, earlier: Option<&LogSums>, by_dimension: bool) -> Value {
    let sums = &group.sums;
    let mut shown = json!({
        "total_requests": sums.count,
        "total_tokens": total_tokens(sums),
        "total_cost": dollars(sums.cost),
    });
    let none = LogSums::default();
    let before = earlier.unwrap_or(&none);
    let mut change = json!({
        "has_previous_period": earlier.is_some(),
        "requests_trend": trend(before.count, sums.count),
        "tokens_trend": trend(total_tokens(before), total_tokens(sums)),
        "cost_trend": trend(before.cost, sums.cost),
    });
    if by_dimension {
        shown["id"] = group.value.as_str().into();
    } else {
        // Its name has that of the provider that was asked.
        shown["model"] = group.value.as_str().into();
        shown["provider"] = group.value.split_once('/').map(|(provider, _)| provider).into();
        shown["success_count"] = sums.successes.into();
        shown["success_rate"] = success_rate(sums).into();
        shown["avg_latency"] = average(sums).into();
        shown["throughput"] = throughput(sums).into();
        change["latency_trend"] = trend(mean_us(before), mean_us(sums)).into();
    }
    shown["trend"] = change;
    shown
}

fn total_tokens(sums: &LogSums) -> i64 {
    sums.input.saturating_add(sums.output)
}

fn mean_us(sums: &LogSums) -> i64 {
    sums.duration_us.checked_div(sums.timed).unwrap_or(0)
}

/// Returns the change from one amount to another in percent; 0 if there was none.
#[expect(clippy::cast_precision_loss, reason = "it is shown, and below 2^53 in practice")]
fn trend(before: i64, now: i64) -> f64 {
    if before == 0 { 0.0 } else { (now as f64 - before as f64) * 100.0 / before as f64 }
}

/// Returns the tokens of responses for each second in which they were made; 0 if there were none.
#[expect(clippy::cast_precision_loss, reason = "it is shown, and below 2^53 in practice")]
fn throughput(sums: &LogSums) -> f64 {
    if sums.generating_us == 0 { 0.0 } else { sums.output as f64 * 1e6 / sums.generating_us as f64 }
}
