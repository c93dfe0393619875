//! Families of samples → the message of OTLP.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
    resource::v1::Resource,
};

use super::openmetrics::{Family, MetricKind, MetricSample};
use crate::names;

/// Time of an export, and of the start of all its sums, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Makes the message of an export.
pub(super) fn export(
    families: &[Family<'_>],
    resource: Resource,
    period: Period,
) -> ExportMetricsServiceRequest {
    let scope = InstrumentationScope {
        name: "airlock".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let filled = families.iter().filter(|family| !family.samples.is_empty());
    let metrics = filled.map(|family| metric(family, period)).collect();
    let of_scope = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
    let of_resource = ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![of_scope],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

/// Returns an attribute whose value is text.
pub(super) fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn metric(family: &Family<'_>, period: Period) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        MetricKind::Counter => Data::Sum(Sum {
            data_points: numbers(&family.samples, period, period.start),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        MetricKind::Histogram => Data::Histogram(Histogram {
            data_points: histograms(&family.samples, period),
            aggregation_temporality: cumulative,
        }),
        // The time of its start is unknown and has no meaning.
        MetricKind::Gauge => {
            Data::Gauge(Gauge { data_points: numbers(&family.samples, period, 0) })
        }
    };
    let (name, unit) = names::metric(family.name).unwrap_or((family.name, unit(family)));
    Metric {
        name: name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// Returns the unit of a metric of the gateway's own.
fn unit(family: &Family<'_>) -> &'static str {
    let named = family.unit.unwrap_or_else(|| family.name.rsplit('_').next().unwrap_or_default());
    match named {
        "seconds" => "s",
        "bytes" => "By",
        _ => "",
    }
}

fn numbers(samples: &[MetricSample<'_>], period: Period, start: u64) -> Vec<NumberDataPoint> {
    let points = samples.iter().filter_map(|sample| {
        let value = match sample.value.parse() {
            Ok(integer) => number_data_point::Value::AsInt(integer),
            Err(_) => number_data_point::Value::AsDouble(sample.value.parse().ok()?),
        };
        Some(NumberDataPoint {
            attributes: attributes(&sample.labels),
            start_time_unix_nano: start,
            time_unix_nano: period.end,
            value: Some(value),
            ..NumberDataPoint::default()
        })
    });
    points.collect()
}

/// Collects the samples of each histogram, which follow each other, into its point.
fn histograms(samples: &[MetricSample<'_>], period: Period) -> Vec<HistogramDataPoint> {
    let mut points: Vec<HistogramDataPoint> = Vec::new();
    for sample in samples {
        let bound = sample.labels.iter().find(|(name, _)| *name == "le");
        let labels: Vec<_> =
            sample.labels.iter().filter(|(name, _)| *name != "le").cloned().collect();
        let attributes = attributes(&labels);
        if points.last().is_none_or(|point| point.attributes != attributes) {
            points.push(HistogramDataPoint {
                attributes,
                start_time_unix_nano: period.start,
                time_unix_nano: period.end,
                ..HistogramDataPoint::default()
            });
        }
        if let Some(point) = points.last_mut() {
            add(point, sample, bound.map(|(_, bound)| bound.as_str()));
        }
    }
    points
}

/// Adds a sample to the point of its histogram. Counts of the text include those of all lower buckets; counts of the
/// message do not.
fn add(point: &mut HistogramDataPoint, sample: &MetricSample<'_>, bound: Option<&str>) {
    match (sample.suffix, bound) {
        ("_sum", _) => point.sum = sample.value.parse().ok(),
        ("_count", _) => point.count = sample.value.parse().unwrap_or_default(),
        ("_bucket", Some(bound)) => {
            let Ok(up_to) = sample.value.parse::<u64>() else { return };
            let lower: u64 = point.bucket_counts.iter().sum();
            point.bucket_counts.push(up_to.saturating_sub(lower));
            let bound = bound.parse::<f64>().ok().filter(|bound| bound.is_finite());
            point.explicit_bounds.extend(bound);
        }
        _ => {}
    }
}

fn attributes(labels: &[(&str, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| attribute(names::attribute(name), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::openmetrics;

    const TEXT: &str = "\
# HELP calls Calls.
# TYPE calls counter
calls_total{gen_ai_tool_name=\"a\"} 3
# TYPE load gauge
load 0.5
# TYPE empty gauge
# HELP gen_ai_execute_tool_duration_seconds Time.
# TYPE gen_ai_execute_tool_duration_seconds histogram
gen_ai_execute_tool_duration_seconds_sum{client=\"c\"} 2.5
gen_ai_execute_tool_duration_seconds_count{client=\"c\"} 3
gen_ai_execute_tool_duration_seconds_bucket{le=\"1.0\",client=\"c\"} 2
gen_ai_execute_tool_duration_seconds_bucket{le=\"5.0\",client=\"c\"} 2
gen_ai_execute_tool_duration_seconds_bucket{le=\"+Inf\",client=\"c\"} 3
gen_ai_execute_tool_duration_seconds_sum{client=\"d\"} 0.0
gen_ai_execute_tool_duration_seconds_count{client=\"d\"} 0
gen_ai_execute_tool_duration_seconds_bucket{le=\"1.0\",client=\"d\"} 0
gen_ai_execute_tool_duration_seconds_bucket{le=\"5.0\",client=\"d\"} 0
gen_ai_execute_tool_duration_seconds_bucket{le=\"+Inf\",client=\"d\"} 0
# EOF
";

    fn metrics() -> Vec<Metric> {
        let families = openmetrics::parse(TEXT);
        let period = Period { start: 1, end: 2 };
        let mut request = export(&families, Resource::default(), period);
        request.resource_metrics.remove(0).scope_metrics.remove(0).metrics
    }

    #[test]
    fn a_counter_is_a_sum_since_the_start_and_a_gauge_a_value() {
        let metrics = metrics();
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("a sum") };
        assert!(sum.is_monotonic);
        let [point] = &sum.data_points[..] else { panic!("one point") };
        assert_eq!(point.value, Some(number_data_point::Value::AsInt(3)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        assert_eq!(point.attributes, [attribute("gen_ai.tool.name", "a")]);
        let Some(Data::Gauge(gauge)) = &metrics[1].data else { panic!("a gauge") };
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(0.5)));
    }

    #[test]
    fn a_histogram_has_the_counts_of_single_buckets_and_the_name_of_the_convention() {
        let metrics = metrics();
        assert_eq!(metrics.len(), 3, "a family without samples is left out");
        let time = &metrics[2];
        assert_eq!((time.name.as_str(), time.unit.as_str()), ("gen_ai.execute_tool.duration", "s"));
        let Some(Data::Histogram(histogram)) = &time.data else { panic!("a histogram") };
        let [first, second] = &histogram.data_points[..] else { panic!("two points") };
        assert_eq!(first.attributes, [attribute("client", "c")]);
        assert_eq!((first.count, first.sum), (3, Some(2.5)));
        assert_eq!(first.explicit_bounds, [1.0, 5.0]);
        assert_eq!(first.bucket_counts, [2, 0, 1]);
        assert_eq!(second.bucket_counts, [0, 0, 0]);
    }
}
