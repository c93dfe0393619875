//! The registered metrics: `GET /metrics` in Prometheus' text format, and all of them for an export.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{prometheus_text, text},
    registry::Registry,
};
use tokio::{sync::watch, task::spawn_blocking};

use airlock_http::respond::{ApiError, Reply};
use airlock_ingress::Payload;

/// Time for which a text is shown. Each one reads `/proc` and the state of all sources of tools, and programs of this
/// machine need no credential for it.
const FRESH: Duration = Duration::from_secs(1);

/// The metrics of a gateway, and the last text of them.
pub struct ShownMetrics {
    registry: Arc<Registry>,
    last: Mutex<Option<Rendering>>,
}

/// A rendering that runs or has ended.
struct Rendering {
    began: Instant,
    text: RenderedText,
}

/// A text, once it is rendered. The channel is closed without one if the rendering has failed.
type RenderedText = watch::Receiver<Option<Bytes>>;

impl Rendering {
    /// Returns whether a scrape at this time gets the text.
    fn is_shown_at(&self, now: Instant) -> bool {
        if self.text.borrow().is_some() {
            return now.saturating_duration_since(self.began) < FRESH;
        }
        // A rendering that fails closes the channel without a text.
        self.text.has_changed().is_ok()
    }
}

impl ShownMetrics {
    /// Creates the metrics of a registry.
    pub fn new(registry: Registry) -> Self {
        Self { registry: Arc::new(registry), last: Mutex::default() }
    }

    /// Returns the metrics in the text format of `OpenMetrics`. May block.
    pub(super) fn open_metrics(&self) -> String {
        let mut metrics = String::new();
        text::encode(&mut metrics, &self.registry).expect("a text takes whatever is written");
        metrics
    }

    /// Returns the text in Prometheus' format for a scrape at a time. Scrapes within [`FRESH`] share a text, and so do
    /// those that come while it is rendered, so that one blocking thread is used at most.
    fn text(&self, now: Instant) -> RenderedText {
        let mut last = self.last.lock();
        if let Some(rendering) = last.as_ref().filter(|rendering| rendering.is_shown_at(now)) {
            return rendering.text.clone();
        }
        let (sender, text) = watch::channel(None);
        let registry = self.registry.clone();
        // It ends by itself; dropping the scrapes does not cancel it.
        spawn_blocking(move || {
            sender.send_replace(Some(rendered(&registry)));
        });
        *last = Some(Rendering { began: now, text: text.clone() });
        text
    }
}

airlock_strings::debug_fields!(ShownMetrics {});

fn rendered(registry: &Registry) -> Bytes {
    let mut metrics = String::new();
    prometheus_text::encode(&mut metrics, registry).expect("a text takes whatever is written");
    metrics.into()
}

/// Shows the metrics, to a request that has passed the check of operators.
pub(super) async fn show(metrics: &ShownMetrics) -> Result<Reply, ApiError> {
    let text = metrics.text(Instant::now());
    let metrics = awaited(text).await.ok_or_else(ApiError::internal)?;
    let mut reply = Response::new(Payload::Whole(metrics));
    let content_type = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(reply)
}

/// Waits until a text is rendered; `None` if that has failed.
async fn awaited(mut text: RenderedText) -> Option<Bytes> {
    let rendered = text.wait_for(Option::is_some).await.ok()?;
    rendered.clone()
}

#[cfg(test)]
mod tests {
    use std::{
        fmt,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

    use super::*;

    /// Counts how often it is rendered; the first time fails.
    #[derive(Debug, Default)]
    struct Renderings(Arc<AtomicUsize>);

    impl Collector for Renderings {
        fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "the first rendering fails");
            Ok(())
        }
    }

    #[tokio::test]
    async fn scrapes_of_one_second_share_a_text_and_one_that_failed_is_rendered_again() {
        let count = Arc::new(AtomicUsize::new(0));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Renderings(count.clone())));
        let metrics = ShownMetrics::new(registry);
        let now = Instant::now();
        assert!(awaited(metrics.text(now)).await.is_none());
        let shared = [now, now, now + FRESH / 2].map(|time| awaited(metrics.text(time)));
        for text in shared {
            assert!(text.await.is_some());
        }
        assert!(awaited(metrics.text(now + FRESH / 2)).await.is_some());
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(awaited(metrics.text(now + FRESH)).await.is_some());
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
