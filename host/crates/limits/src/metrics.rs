//! Metrics of limits: refusals, and limits that are nearly used up. No label has the name of a key: callers have as
//! many as they are given.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::Counter, gauge::ConstGauge},
};
use tokio::time::Instant;

use crate::{limit::Measure, refusal::Denied, set::LimitSet};

/// Reasons of refusals, in the order of their counters.
const REASONS: [&str; 8] = [
    "requests",
    "tool_calls",
    "argument_bytes",
    "tokens",
    "cost",
    "concurrency",
    "unavailable",
    "unpriced",
];

/// Metrics of the limits of a gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LimitMetrics {
    refusals: [Counter; REASONS.len()],
    set: Arc<ArcSwap<LimitSet>>,
}

impl LimitMetrics {
    pub(crate) fn new(set: Arc<ArcSwap<LimitSet>>) -> Self {
        Self { refusals: REASONS.map(|_| Counter::default()), set }
    }

    /// Counts a request or call that is not permitted.
    pub(crate) fn count(&self, denied: &Denied) {
        let reason = match denied {
            Denied::Reached(refusal) => match refusal.limit.measure {
                Measure::Requests => 0,
                Measure::ToolCalls => 1,
                Measure::ArgumentBytes => 2,
                Measure::Tokens => 3,
                Measure::Cost => 4,
                Measure::Concurrency => 5,
            },
            Denied::Unavailable(_) => 6,
            Denied::Unpriced { .. } => 7,
        };
        self.refusals[reason].inc();
    }
}

impl Collector for LimitMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let name = "airlock_limit_refusals";
        let help =
            "Requests to models and calls of tools that a limit did not permit, by what it limits.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (reason, refusals) in REASONS.iter().zip(&self.refusals) {
            refusals.encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        let set = self.set.load();
        let now = Instant::now();
        let near = set.all().filter(|limit| limit.is_nearly_used(now)).count();
        for (name, help, limits) in [
            ("airlock_limits", "Limits of the configuration and the store.", set.all().count()),
            (
                "airlock_limits_nearly_used",
                "Limits of which a tenth or less was left when this gateway used them in the last minute.",
                near,
            ),
        ] {
            let value = ConstGauge::new(i64::try_from(limits).unwrap_or(i64::MAX));
            value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

airlock_strings::debug_fields!(LimitMetrics {});

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::{encoding::prometheus_text, registry::Registry};

    use super::*;
    use crate::{
        limit::{Limit, Owner, Scope, Window},
        refusal::LimitRefusal,
    };

    fn limit(id: &str, measure: Measure) -> Limit {
        Limit {
            id: id.to_owned(),
            owner: Owner::Key(id.to_owned()),
            owner_name: None,
            scope: Scope::All,
            measure,
            most: 10,
            window: Window::Never,
        }
    }

    fn shown(metrics: &LimitMetrics) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).expect("text");
        text
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_nearly_used_for_a_minute_and_no_key_is_named() {
        let limits = ["secret-key", "other"].map(|id| limit(id, Measure::ToolCalls));
        let set = LimitSet::continuing(&LimitSet::default(), &limits);
        let set = Arc::new(ArcSwap::from_pointee(set));
        let metrics = LimitMetrics::new(set.clone());
        let set = set.load();
        for (left, expected) in [(2, 0), (1, 1), (10, 0), (0, 1)] {
            set.find("other").expect("it is there").local.note_left(left, 10, Instant::now());
            let text = shown(&metrics);
            assert!(text.contains(&format!("airlock_limits_nearly_used {expected}\n")), "{text}");
        }
        tokio::time::advance(Duration::from_secs(61)).await;
        let text = shown(&metrics);
        assert!(text.contains("airlock_limits_nearly_used 0\n"), "{text}");
        assert!(text.contains("airlock_limits 2\n"), "{text}");
        assert!(!text.contains("secret-key"), "{text}");
    }

    #[test]
    fn a_refusal_counts_by_what_is_limited() {
        let metrics = LimitMetrics::new(Arc::default());
        metrics.count(&Denied::Unavailable("the store is away".to_owned()));
        let of_money = Box::new(limit("k", Measure::Cost));
        metrics.count(&Denied::Unpriced { model: "a/b".to_owned(), limit: of_money });
        let of_bytes = limit("k", Measure::ArgumentBytes);
        let refusal =
            LimitRefusal { limit: of_bytes, most: 10, needed: 11, left: None, retry_after: None };
        metrics.count(&Denied::Reached(Box::new(refusal)));
        let text = shown(&metrics);
        for (reason, refusals) in
            [("unavailable", 1), ("unpriced", 1), ("argument_bytes", 1), ("cost", 0)]
        {
            let line = format!("airlock_limit_refusals_total{{reason=\"{reason}\"}} {refusals}\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
