//! The registered metrics: `GET /metrics` in Prometheus' text format, and all of them for an export.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use prometheus_client::encoding::{prometheus_text, text};

use super::{
    App,
    respond::{Payload, Reply},
};

/// Shows the metrics. The request has passed [`operator::check`](super::operator::check).
pub(super) fn show(app: &App) -> Reply {
    let mut metrics = String::new();
    prometheus_text::encode(&mut metrics, &app.hooks.metrics)
        .expect("a text takes whatever is written");
    let mut reply = Response::new(Payload::Whole(Bytes::from(metrics)));
    let content_type = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    reply
}

/// Returns the metrics in the text format of `OpenMetrics`.
pub(super) fn in_open_metrics(app: &App) -> String {
    let mut metrics = String::new();
    text::encode(&mut metrics, &app.hooks.metrics).expect("a text takes whatever is written");
    metrics
}
