//! Metrics of plugins and scripts: what the sandbox and the compiler have counted, and the circuits of plugins.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::process::NO_LABELS;
use airlock_catalog::Catalog;
use airlock_compile::CompileTotals;
use airlock_sandbox::{GuestUsage, Sandbox};
use airlock_upstream::encode_family;

/// Metrics of guests.
pub(super) struct GuestCollector {
    sandbox: Sandbox,
    catalog: Arc<Catalog>,
}

impl GuestCollector {
    pub(super) fn new(sandbox: Sandbox, catalog: Arc<Catalog>) -> Self {
        Self { sandbox, catalog }
    }

    fn encode_pool(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let instances = self.sandbox.usage().map_or(0, |usage| usage.instances);
        let (held, limit) = self.sandbox.memory_usage();
        for (name, help, value) in [
            (
                "airlock_sandbox_instances",
                "Instances of guests that run.",
                usize::try_from(instances).unwrap_or(usize::MAX),
            ),
            ("airlock_sandbox_memory_bytes", "Memory that guests hold.", held),
            (
                "airlock_sandbox_memory_limit_bytes",
                "Limit on the memory of all guests together.",
                limit,
            ),
        ] {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            encode_family(encoder, name, help, [(NO_LABELS, value)])?;
        }
        Ok(())
    }

    fn encode_circuits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.catalog.snapshot();
        let circuits = snapshot.clients().filter_map(|client| {
            let is_open = client.provider()?.is_circuit_open()?;
            Some((client, is_open))
        });
        encode_family(
            encoder,
            "airlock_plugin_circuit_open",
            "1 if calls of a plugin fail fast because it kept failing, for some callers at least.",
            circuits.map(|(client, is_open)| {
                let client = client.name.as_str().to_owned();
                ([("client", client)], ConstGauge::new(i64::from(is_open)))
            }),
        )
    }
}

fn encode_calls(encoder: &mut DescriptorEncoder<'_>, usage: &[GuestUsage]) -> fmt::Result {
    encode_family(
        encoder,
        "airlock_sandbox_calls",
        "Calls of guests that have ended in the sandbox: outcome is ok, or the code of the error, such as trap.",
        usage.iter().flat_map(|usage| {
            usage.outcomes.iter().map(move |(outcome, calls)| {
                ([("guest", usage.kind), ("outcome", *outcome)], ConstCounter::new(*calls))
            })
        }),
    )?;
    encode_family(
        encoder,
        "airlock_sandbox_fuel",
        "Fuel of calls that have ended.",
        usage.iter().map(|usage| ([("guest", usage.kind)], ConstCounter::new(usage.fuel))),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a sum of bytes is exact up to 8 PiB")]
fn encode_memory(encoder: &mut DescriptorEncoder<'_>, usage: &[GuestUsage]) -> fmt::Result {
    let name = "airlock_sandbox_memory_peak_bytes";
    let help = "Peak of the memory of a call that has ended.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for GuestUsage { kind, memory, memory_bytes, .. } in usage {
        let labels = [("guest", *kind)];
        let calls = memory.iter().map(|(_, calls)| *calls).sum();
        let mut histogram = family.encode_family(&labels)?;
        histogram.encode_histogram::<NoLabelSet>(*memory_bytes as f64, calls, memory, None)?;
    }
    Ok(())
}

fn encode_compiler(encoder: &mut DescriptorEncoder<'_>, totals: CompileTotals) -> fmt::Result {
    let CompileTotals { cached, compiled, failed, time } = totals;
    let results = [("cached", cached), ("compiled", compiled), ("failed", failed)];
    encode_family(
        encoder,
        "airlock_compiled_components",
        "Components that were loaded from the cache, compiled, or could not be compiled.",
        results.map(|(result, components)| ([("result", result)], ConstCounter::new(components))),
    )?;
    encode_family(
        encoder,
        "airlock_compile_seconds",
        "Time in which components were compiled.",
        [(NO_LABELS, ConstCounter::new(time.as_secs_f64()))],
    )
}

impl Collector for GuestCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let usage = self.sandbox.guest_usage();
        encode_calls(encoder, &usage)?;
        encode_memory(encoder, &usage)?;
        self.encode_pool(encoder)?;
        encode_compiler(encoder, self.sandbox.compile_totals())?;
        self.encode_circuits(encoder)
    }
}

airlock_strings::debug_fields!(GuestCollector {});
