//! Metrics of guards: the hooks that were run, by guard, hook and verdict, and their times. The names of guards are those
//! of the configuration, so no caller makes time series.

use std::{array, fmt, sync::Arc, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::Counter, histogram::Histogram},
    registry::Registry,
};

use super::guards::{ConfiguredGuard, Guards};
use airlock_core::tool::{GuardDecision, GuardHook};

/// Upper bounds of the buckets in seconds: an empty hook takes some microseconds, and the longest one second. One more
/// bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] = [
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
    0.2, 1.0,
];
/// Verdicts, in the order of their counters.
const VERDICTS: [&str; 5] = ["allow", "rewrite", "deny", "ask", "fail"];

/// The hooks of one guard that have ended, by their numbers.
pub(super) struct GuardMetrics([HookMetrics; GuardHook::ALL.len()]);

struct HookMetrics {
    verdicts: [Counter; VERDICTS.len()],
    times: Histogram,
}

impl GuardMetrics {
    pub(super) fn new() -> Self {
        Self(array::from_fn(|_| HookMetrics::new()))
    }

    /// Counts a hook that has ended after this time; its decision is `None` if it changes nothing.
    pub(super) fn count(&self, hook: GuardHook, decision: Option<GuardDecision>, time: Duration) {
        let metrics = self.hook(hook);
        metrics.verdicts[place(decision)].inc();
        metrics.times.observe(time.as_secs_f64());
    }

    fn hook(&self, hook: GuardHook) -> &HookMetrics {
        &self.0[hook as usize]
    }
}

impl HookMetrics {
    fn new() -> Self {
        let verdicts = array::from_fn(|_| Counter::default());
        Self { verdicts, times: Histogram::new(BOUNDS_SECONDS) }
    }
}

/// Returns the place of a decision in [`VERDICTS`].
fn place(decision: Option<GuardDecision>) -> usize {
    match decision {
        None => 0,
        Some(GuardDecision::Rewrite) => 1,
        Some(GuardDecision::Deny) => 2,
        Some(GuardDecision::Ask) => 3,
        Some(GuardDecision::Fail) => 4,
    }
}

impl Guards {
    /// Adds the metrics of the guards to a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(GuardCollector(self.0.clone())));
    }
}

/// The metrics of all guards, to be registered once.
struct GuardCollector(Arc<[ConfiguredGuard]>);

impl GuardCollector {
    /// Iterates over the hooks that are run, with the names of the guard and of the hook.
    fn hooks(&self) -> impl Iterator<Item = (&str, &'static str, &HookMetrics)> {
        self.0.iter().flat_map(|guard| {
            let hooks = GuardHook::ALL.into_iter().filter(move |hook| guard.runs(*hook));
            hooks.map(move |hook| (&*guard.settings.name, hook.name(), guard.metrics.hook(hook)))
        })
    }
}

impl Collector for GuardCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let name = "airlock_guard_hooks";
        let help = "Hooks of guards, by the verdict; fail if a guard made no valid one.";
        let mut hooks = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (guard, hook, metrics) in self.hooks() {
            for (verdict, counter) in VERDICTS.iter().zip(&metrics.verdicts) {
                let labels = [("guard", guard), ("hook", hook), ("verdict", *verdict)];
                counter.encode(hooks.encode_family(&labels)?)?;
            }
        }
        let name = "airlock_guard_hook_duration_seconds";
        let help = "Time of a hook of a guard, for which its call, list or request waits.";
        let mut times = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (guard, hook, metrics) in self.hooks() {
            let labels = [("guard", guard), ("hook", hook)];
            metrics.times.encode(times.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

airlock_strings::debug_fields!(GuardCollector {});
