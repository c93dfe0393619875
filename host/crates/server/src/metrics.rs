//! The registered metrics: `GET /metrics` in Prometheus' text format, and all of them for an export.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use prometheus_client::encoding::{prometheus_text, text};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    App,
    respond::{ApiError, Payload, Reply},
};

/// Responses that are written at the same time. Each reads `/proc` and the state of all sources of tools.
static WRITERS: Semaphore = Semaphore::const_new(1);

/// Shows the metrics. The request has passed [`operator::check`](super::operator::check). The text is written on a
/// blocking thread, one at a time: programs of this machine need no credential for it.
pub(super) async fn show(app: &App) -> Result<Reply, ApiError> {
    let _turn = WRITERS.acquire().await.expect("the semaphore is never closed");
    let hooks = app.hooks.clone();
    let writing = spawn_blocking(move || {
        let mut metrics = String::new();
        prometheus_text::encode(&mut metrics, &hooks.metrics)
            .expect("a text takes whatever is written");
        metrics
    });
    let metrics = writing.await.map_err(|_| ApiError::internal())?;
    let mut reply = Response::new(Payload::Whole(Bytes::from(metrics)));
    let content_type = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(reply)
}

/// Returns the metrics in the text format of `OpenMetrics`.
pub(super) fn in_open_metrics(app: &App) -> String {
    let mut metrics = String::new();
    text::encode(&mut metrics, &app.hooks.metrics).expect("a text takes whatever is written");
    metrics
}
