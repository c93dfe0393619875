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
            let left_out = openmetrics::left_out(&text);
            let samples = families.iter().map(|family| family.samples.len()).sum();
            let period = Period { start, end: now() };
            let message = message::export(&families, resource, period);
            (Bytes::from(message.encode_to_vec()), samples, left_out)
        });
        let Ok((message, samples, left_out)) = encoded.await else { return };
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
        // After the request: the reason that it failed is reported first.
        if left_out > 0 {
            self.client.drops().count(left_out, "all metrics take more than 16 MiB as text");
        }
    }
}

/// Returns the nanoseconds since 1970.
fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response, Uri};

    use super::*;
    use crate::{
        export::{
            client::{OtlpTransport, Sending},
            queue::DropCounter,
        },
        settings::Collector,
    };

    /// A collector that takes every message.
    struct Accepting;

    impl OtlpTransport for Accepting {
        fn send(&self, _: Request<Bytes>) -> Sending {
            Box::pin(async { Ok(Response::new(Bytes::new())) })
        }
    }

    #[tokio::test]
    async fn samples_beyond_the_bound_of_the_text_are_counted_as_dropped() {
        let collector = Collector {
            url: Uri::from_static("http://localhost/v1/metrics"),
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
        };
        let drops = Arc::new(DropCounter::new("metrics"));
        let client = CollectorClient::new(&collector, Arc::new(Accepting), drops.clone());
        let export = MetricExport::new(client, Duration::from_mins(1), Resource::default());
        let before = drops.dropped.get();
        for (lines, dropped) in [(1, 0), (17, 2)] {
            let read: ReadMetrics = Arc::new(move || {
                let line = format!("a 1 {}\n", "x".repeat((1 << 20) - 5));
                format!("# TYPE a gauge\n{}", line.repeat(lines))
            });
            export.export(&read).await;
            assert_eq!(drops.dropped.get() - before, dropped, "{lines}");
        }
    }
}
