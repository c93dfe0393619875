//! Metrics of requests over HTTP, of the memory that they hold, and of the sessions of MCP clients.
//!
//! Labels are the templates of routes and classes of statuses, so that no caller can make more time series.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
};

use super::template::TEMPLATES;
use airlock_core::request_memory::Memory;
use airlock_http::respond::Reply;
use airlock_ingress::Payload;
use airlock_mcp_server::{ServerTimes, Sessions};
use airlock_telemetry::names;

/// Upper bounds of the buckets of times, in seconds. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Metrics of the listener of a gateway, to be registered once.
pub struct HttpMetrics {
    /// In the order of [`TEMPLATES`].
    routes: [RouteTimes; TEMPLATES.len()],
    active: Gauge,
    received: Arc<AtomicU64>,
    sent: Counter,
    parts: OnceLock<(Arc<Memory>, Arc<Sessions>, Arc<ServerTimes>)>,
}

/// Times of the requests of one route. There are none before the first one.
#[derive(Default)]
struct RouteTimes {
    /// By the class of the status.
    ended: [OnceLock<Histogram>; CLASSES.len()],
    /// Of requests whose clients left before there was a response.
    cancelled: OnceLock<Histogram>,
}

impl RouteTimes {
    /// Iterates over the times, with the name and the value of the label that distinguishes them.
    fn labelled(&self) -> impl Iterator<Item = ((&'static str, &'static str), &Histogram)> {
        let ended = CLASSES.map(|class| ("status", class)).into_iter().zip(&self.ended);
        let all = ended.chain([(("error_type", names::CANCELLED), &self.cancelled)]);
        all.filter_map(|(label, times)| Some((label, times.get()?)))
    }
}

impl HttpMetrics {
    /// Creates the metrics of a gateway that has served nothing.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            routes: TEMPLATES.map(|_| RouteTimes::default()),
            active: Gauge::default(),
            received: Arc::default(),
            sent: Counter::default(),
            parts: OnceLock::new(),
        })
    }

    /// Sets the parts whose state is shown. The first ones stay.
    pub(super) fn show(
        &self,
        memory: Arc<Memory>,
        sessions: Arc<Sessions>,
        times: Arc<ServerTimes>,
    ) {
        // A gateway has one listener.
        let _ = self.parts.set((memory, sessions, times));
    }

    /// Returns the counter of the bytes of bodies that are read.
    pub(super) fn received(&self) -> Arc<AtomicU64> {
        self.received.clone()
    }

    /// Begins to observe a request. It counts as cancelled if the value is dropped.
    pub(super) fn begin(&self, route: &'static str) -> ObservedRequest<'_> {
        self.active.inc();
        ObservedRequest { metrics: self, route, began: Instant::now(), is_active: true }
    }
}

/// A request that is being observed.
pub(super) struct ObservedRequest<'m> {
    metrics: &'m HttpMetrics,
    route: &'static str,
    began: Instant,
    /// False once there is a response.
    is_active: bool,
}

impl ObservedRequest<'_> {
    /// Returns the time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Counts the request with its response, which was ready after `duration`. A streamed one is active until its end.
    pub(super) fn end(mut self, reply: Reply, duration: Duration) -> Reply {
        self.is_active = false;
        let class = usize::from(reply.status().as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.observe(|times| &times.ended[class], duration);
        let HttpMetrics { active, sent, .. } = self.metrics;
        // Neither is shared for a response that is whole: all threads would change the counts of the shares.
        reply.map(|payload| match payload {
            Payload::Whole(body) => {
                sent.inc_by(body.len() as u64);
                active.dec();
                Payload::Whole(body)
            }
            Payload::Stream(parts) => {
                let active = ActiveStream(active.clone());
                let sent = sent.clone();
                Payload::Stream(Box::pin(parts.inspect(move |part| {
                    let _ = &active;
                    sent.inc_by(part.len() as u64);
                })))
            }
        })
    }
}

impl ObservedRequest<'_> {
    fn observe(
        &self,
        choose: impl FnOnce(&RouteTimes) -> &OnceLock<Histogram>,
        duration: Duration,
    ) {
        // `==` compares the lengths first, and few templates have the same.
        let known = TEMPLATES.iter().position(|route| *route == self.route);
        let Some(times) = known.and_then(|at| self.metrics.routes.get(at)) else { return };
        let times = choose(times).get_or_init(|| Histogram::new(BOUNDS_SECONDS));
        times.observe(duration.as_secs_f64());
    }
}

impl Drop for ObservedRequest<'_> {
    fn drop(&mut self) {
        if self.is_active {
            self.observe(|times| &times.cancelled, self.elapsed());
            self.metrics.active.dec();
        }
    }
}

/// A streamed response, which is one of the active requests until it is dropped.
struct ActiveStream(Gauge);

impl Drop for ActiveStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Collector for HttpMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let name = "http_server_request_duration_seconds";
        let help = "Time from the head of a request to the beginning of its response.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (route, times) in TEMPLATES.iter().zip(&self.routes) {
            for (label, times) in times.labelled() {
                let labels = [("http_route", *route), label];
                times.encode(family.encode_family(&labels)?)?;
            }
        }
        let name = "http_server_active_requests";
        let help = "Requests that are handled, and streamed responses that have not ended.";
        self.active.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        for (name, help, bytes) in [
            (
                "airlock_http_received_bytes",
                "Bytes of the bodies of requests that were read.",
                self.received.load(Ordering::Relaxed),
            ),
            ("airlock_http_sent_bytes", "Bytes of the bodies of responses.", self.sent.get()),
        ] {
            let bytes = ConstCounter::new(bytes);
            bytes.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let Some((memory, sessions, times)) = self.parts.get() else { return Ok(()) };
        times.encode(encoder)?;
        let (used, limit) = memory.usage();
        let (open, streams) = sessions.usage();
        for (name, help, value) in [
            (
                "airlock_request_memory_bytes",
                "Memory that requests in flight are charged for.",
                used,
            ),
            (
                "airlock_request_memory_limit_bytes",
                "Limit on the memory of requests in flight.",
                limit,
            ),
            ("airlock_mcp_server_sessions", "Sessions of MCP clients.", open),
            (
                "airlock_mcp_server_streams",
                "Streams of MCP clients that wait for notifications.",
                streams,
            ),
        ] {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

airlock_strings::debug_fields!(HttpMetrics {});

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;
    use http::{Response, StatusCode};
    use prometheus_client::{encoding::prometheus_text, registry::Registry};

    use super::*;

    fn shown(metrics: &Arc<HttpMetrics>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).expect("text");
        text
    }

    #[test]
    fn requests_are_timed_by_route_and_class_and_an_unknown_route_makes_no_time_series() {
        let metrics = HttpMetrics::new();
        for (route, status) in
            [("/mcp", StatusCode::OK), ("/mcp", StatusCode::NOT_FOUND), ("/x", StatusCode::OK)]
        {
            let mut reply = Response::new(Payload::Whole(Bytes::from_static(b"four")));
            *reply.status_mut() = status;
            metrics.begin(route).end(reply, Duration::ZERO);
        }
        let text = shown(&metrics);
        for line in [
            "http_server_request_duration_seconds_count{http_route=\"/mcp\",status=\"2xx\"} 1",
            "http_server_request_duration_seconds_count{http_route=\"/mcp\",status=\"4xx\"} 1",
            "airlock_http_sent_bytes_total 12",
            "http_server_active_requests 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert_eq!(text.matches("_duration_seconds_count").count(), 2, "{text}");
    }

    #[test]
    fn a_request_whose_client_leaves_is_cancelled_and_no_other_is() {
        let metrics = HttpMetrics::new();
        let reply = Response::new(Payload::Whole(Bytes::new()));
        drop(metrics.begin("/mcp").end(reply, Duration::ZERO));
        drop(metrics.begin("/mcp"));
        let text = shown(&metrics);
        for labels in [r#"status="2xx""#, r#"error_type="cancelled""#] {
            let name = "http_server_request_duration_seconds_count";
            let line = format!("{name}{{http_route=\"/mcp\",{labels}}} 1");
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert_eq!(metrics.active.get(), 0);
    }

    #[tokio::test]
    async fn a_streamed_response_is_active_until_its_end() {
        let metrics = HttpMetrics::new();
        let parts = stream::iter([Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
        let reply = Response::new(Payload::Stream(Box::pin(parts)));
        let reply = metrics.begin("/mcp").end(reply, Duration::ZERO);
        let Payload::Stream(mut parts) = reply.into_body() else { panic!("it is streamed") };
        assert!(parts.next().await.is_some());
        assert_eq!((metrics.active.get(), metrics.sent.get()), (1, 3));
        assert!(parts.next().await.is_some());
        drop(parts);
        assert_eq!((metrics.active.get(), metrics.sent.get()), (0, 6));
    }
}
