//! `GET /metrics`: the registered metrics, in Prometheus' text format.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use prometheus_client::encoding::prometheus_text;

use super::{
    App,
    respond::{Payload, Reply},
};

/// Shows the metrics. The request has passed [`operator::check`](super::operator::check).
pub(super) fn show(app: &App) -> Reply {
    let mut text = String::new();
    prometheus_text::encode(&mut text, &app.hooks.metrics)
        .expect("a text takes whatever is written");
    let mut reply = Response::new(Payload::Whole(Bytes::from(text)));
    let content_type = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    reply
}
