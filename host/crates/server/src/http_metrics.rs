//! Metrics of requests over HTTP, of the memory that they hold, and of the sessions of MCP clients.
//!
//! Labels are the templates of routes and classes of statuses, so that no caller can make more time series.

use std::{
    array,
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Instant,
};

use futures_util::StreamExt as _;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::Counter,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
};

use super::{
    respond::{Payload, Reply},
    router::TEMPLATES,
};
use airlock_mcp_server::Sessions;
use airlock_requests::Memory;

/// Upper bounds of the buckets of times, in seconds. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Metrics of the listener of a gateway, to be registered once.
pub struct HttpMetrics {
    routes: BTreeMap<&'static str, RouteTimes>,
    active: Gauge,
    received: Counter,
    sent: Counter,
    parts: OnceLock<(Arc<Memory>, Arc<Sessions>)>,
}

/// Times of the requests of one route, by the class of the status. A class has none before its first request.
type RouteTimes = [OnceLock<Histogram>; CLASSES.len()];

/// Counter of the bytes of bodies, in the extensions of a request.
#[derive(Clone)]
pub(super) struct ReceivedBytes(pub(super) Counter);

impl HttpMetrics {
    /// Creates the metrics of a gateway that has served nothing.
    pub fn new() -> Arc<Self> {
        let routes = TEMPLATES.map(|route| (route, array::from_fn(|_| OnceLock::new())));
        Arc::new(Self {
            routes: BTreeMap::from(routes),
            active: Gauge::default(),
            received: Counter::default(),
            sent: Counter::default(),
            parts: OnceLock::new(),
        })
    }

    /// Sets the parts whose state is shown. The first ones stay.
    pub(super) fn show(&self, memory: Arc<Memory>, sessions: Arc<Sessions>) {
        // A gateway has one listener.
        let _ = self.parts.set((memory, sessions));
    }

    /// Returns the counter of the bytes of bodies.
    pub(super) fn received(&self) -> ReceivedBytes {
        ReceivedBytes(self.received.clone())
    }

    /// Begins to observe a request. It is not timed if the value is dropped.
    pub(super) fn begin(&self, route: &'static str) -> ObservedRequest<'_> {
        let active = ActiveRequest::new(self.active.clone());
        ObservedRequest { metrics: self, route, began: Instant::now(), active }
    }
}

/// A request that is being observed.
pub(super) struct ObservedRequest<'m> {
    metrics: &'m HttpMetrics,
    route: &'static str,
    began: Instant,
    active: ActiveRequest,
}

impl ObservedRequest<'_> {
    /// Counts the request with its response. A streamed one is active until its end.
    pub(super) fn end(self, reply: Reply) -> Reply {
        let Self { metrics, route, began, active } = self;
        let class = usize::from(reply.status().as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        if let Some(times) = metrics.routes.get(route) {
            let times = times[class].get_or_init(|| Histogram::new(BOUNDS_SECONDS));
            times.observe(began.elapsed().as_secs_f64());
        }
        let sent = metrics.sent.clone();
        reply.map(|payload| match payload {
            Payload::Whole(body) => {
                sent.inc_by(body.len() as u64);
                Payload::Whole(body)
            }
            Payload::Stream(parts) => Payload::Stream(Box::pin(parts.inspect(move |part| {
                let _ = &active;
                sent.inc_by(part.len() as u64);
            }))),
        })
    }
}

/// One of the requests that are active, until it is dropped.
struct ActiveRequest(Gauge);

impl ActiveRequest {
    fn new(active: Gauge) -> Self {
        active.inc();
        Self(active)
    }
}

impl Drop for ActiveRequest {
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
        for (route, times) in &self.routes {
            for (class, times) in CLASSES.iter().zip(times) {
                let Some(times) = times.get() else { continue };
                let labels = [("http_route", *route), ("status", *class)];
                times.encode(family.encode_family(&labels)?)?;
            }
        }
        let name = "http_server_active_requests";
        let help = "Requests that are handled, and streamed responses that have not ended.";
        self.active.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        for (name, help, counter) in [
            (
                "airlock_http_received_bytes",
                "Bytes of the bodies of requests that were read.",
                &self.received,
            ),
            ("airlock_http_sent_bytes", "Bytes of the bodies of responses.", &self.sent),
        ] {
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let Some((memory, sessions)) = self.parts.get() else { return Ok(()) };
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

impl fmt::Debug for HttpMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpMetrics").finish_non_exhaustive()
    }
}

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
            metrics.begin(route).end(reply);
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

    #[tokio::test]
    async fn a_streamed_response_is_active_until_its_end() {
        let metrics = HttpMetrics::new();
        let parts = stream::iter([Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
        let reply = Response::new(Payload::Stream(Box::pin(parts)));
        let Payload::Stream(mut parts) = metrics.begin("/mcp").end(reply).into_body() else {
            panic!("it is streamed")
        };
        assert!(parts.next().await.is_some());
        assert_eq!((metrics.active.get(), metrics.sent.get()), (1, 3));
        assert!(parts.next().await.is_some());
        drop(parts);
        assert_eq!((metrics.active.get(), metrics.sent.get()), (0, 6));
    }
}
