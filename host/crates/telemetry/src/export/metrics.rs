//! Metrics on their way to a collector: what the registry has, at intervals.
//!
//! Sums count from the start of the process, so an export that fails is not repeated: the next one has its numbers too.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{
    client::CollectorClient,
    message::{self, Period},
    openmetrics,
};

/// Returns all metrics as text.
pub(super) type ReadMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The export of metrics.
pub(super) struct MetricExport {
    client: CollectorClient,
    interval: Duration,
    resource: Resource,
    start: u64,
}

impl MetricExport {
    pub(super) fn new(client: CollectorClient, interval: Duration, resource: Resource) -> Self {
        Self { client, interval, resource, start: now() }
    }

    /// Exports metrics at intervals until `stopped`, and then once more.
    pub(super) async fn push(self, read: ReadMetrics, mut stopped: oneshot::Receiver<()>) {
        let mut ticks = interval_at(Instant::now() + self.interval, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                _ = &mut stopped => true,
                _ = ticks.tick() => false,
            };
            self.export(&read).await;
            if is_last {
                return;
            }
        }
    }

    async fn export(&self, read: &ReadMetrics) {
        let read = read.clone();
        let resource = self.resource.clone();
        let start = self.start;
        // Collectors of the registry may read files.
        let encoded = spawn_blocking(move || {
            let text = read();
            let families = openmetrics::parse(&text);
            let samples = families.iter().map(|family| family.samples.len()).sum();
            let period = Period { start, end: now() };
            let message = message::export(&families, resource, period);
            (Bytes::from(message.encode_to_vec()), samples)
        });
        let Ok((message, samples)) = encoded.await else { return };
        match self.client.post(message).await {
            Ok(response) if response.status().is_success() => {}
            Ok(response) => {
                self.client.drops().count(samples, &format!("status {}", response.status()));
            }
            Err(error) => {
                self.client.drops().explain(&*error);
                self.client.drops().count(samples, "the request failed");
            }
        }
    }
}

/// Returns the nanoseconds since 1970.
fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
