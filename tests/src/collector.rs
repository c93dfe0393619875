//! A collector of OTLP/HTTP that keeps what it receives, decoded by the protocol's own types.

use std::{
    collections::BTreeMap, convert::Infallible, fmt::Write as _, future::pending, sync::Arc,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    logs::v1::LogRecord,
    metrics::v1::Metric,
    resource::v1::Resource,
    trace::v1::{Span, span::SpanKind},
};
use parking_lot::Mutex;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::wait;

/// Variables that make a gateway export within milliseconds.
pub const PROMPT: [(&str, &str); 3] = [
    ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
    ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
];

/// Reaction of a collector to every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Takes it.
    Accepts,
    /// Responds with this status.
    Refuses(StatusCode),
    /// Never responds.
    Hangs,
    /// Responds with a body that does not end.
    Floods,
}

/// One request as it was received.
#[derive(Debug, Clone)]
pub struct Export {
    /// Path.
    pub path: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// One element of an export, with what it came in.
#[derive(Debug, Clone)]
pub struct Exported<T> {
    /// The program that it is about.
    pub resource: Resource,
    /// The part of the program.
    pub scope: InstrumentationScope,
    /// The element.
    pub element: T,
}

/// The collector. Dropping it ends it.
pub struct Collector {
    endpoint: String,
    exports: Arc<Mutex<Vec<Export>>>,
    serving: JoinHandle<()>,
}

impl Collector {
    /// Starts a collector that takes everything.
    pub async fn start() -> Self {
        Self::start_that(Reaction::Accepts).await
    }

    /// Starts a collector with this reaction.
    pub async fn start_that(reaction: Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let exports = Arc::default();
        let serving = tokio::spawn(serve(listener, reaction, Arc::clone(&exports)));
        Self { endpoint: format!("http://{address}"), exports, serving }
    }

    /// Returns the URL without a path, as in `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the variables of a gateway that exports here, within milliseconds.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", self.endpoint())];
        endpoint.into_iter().chain(PROMPT).collect()
    }

    /// Returns every request so far.
    pub fn exports(&self) -> Vec<Export> {
        self.exports.lock().clone()
    }

    /// Returns every span so far, in the order in which they ended.
    pub fn spans(&self) -> Vec<Exported<Span>> {
        self.bodies::<ExportTraceServiceRequest>("/v1/traces")
            .flat_map(|request| request.resource_spans)
            .flat_map(|of_resource| {
                let resource = of_resource.resource.unwrap_or_default();
                of_resource.scope_spans.into_iter().flat_map(move |of_scope| {
                    let scope = of_scope.scope.unwrap_or_default();
                    exported(&resource, &scope, of_scope.spans)
                })
            })
            .collect()
    }

    /// Returns every log record so far.
    pub fn logs(&self) -> Vec<Exported<LogRecord>> {
        self.bodies::<ExportLogsServiceRequest>("/v1/logs")
            .flat_map(|request| request.resource_logs)
            .flat_map(|of_resource| {
                let resource = of_resource.resource.unwrap_or_default();
                of_resource.scope_logs.into_iter().flat_map(move |of_scope| {
                    let scope = of_scope.scope.unwrap_or_default();
                    exported(&resource, &scope, of_scope.log_records)
                })
            })
            .collect()
    }

    /// Returns the metrics of the latest export.
    pub fn metrics(&self) -> Vec<Exported<Metric>> {
        let Some(latest) = self.bodies::<ExportMetricsServiceRequest>("/v1/metrics").last() else {
            return Vec::new();
        };
        latest
            .resource_metrics
            .into_iter()
            .flat_map(|of_resource| {
                let resource = of_resource.resource.unwrap_or_default();
                of_resource.scope_metrics.into_iter().flat_map(move |of_scope| {
                    let scope = of_scope.scope.unwrap_or_default();
                    exported(&resource, &scope, of_scope.metrics)
                })
            })
            .collect()
    }

    /// Waits until a span has this name. Returns the first one.
    pub async fn span(&self, name: &str) -> Exported<Span> {
        wait::until(&format!("the span {name:?}"), async || {
            self.spans().into_iter().find(|span| span.element.name == name)
        })
        .await
    }

    /// Waits until a trace has the span of this name, which has no parent in it, and returns all its spans that
    /// have arrived: the span of a request ends last.
    pub async fn trace(&self, root: &str) -> Vec<Span> {
        let root = self.span(root).await.element;
        let spans = self.spans().into_iter().map(|span| span.element);
        spans.filter(|span| span.trace_id == root.trace_id).collect()
    }

    fn bodies<T: prost::Message + Default>(&self, path: &str) -> impl Iterator<Item = T> {
        let exports: Vec<_> =
            self.exports().into_iter().filter(|export| export.path == path).collect();
        exports.into_iter().map(|export| T::decode(export.body).expect("a message of OTLP"))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns the attributes by name, each value as text.
pub fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let attributes = attributes.iter();
    attributes.map(|attribute| (attribute.key.clone(), shown(attribute.value.as_ref()))).collect()
}

/// Returns an id in hexadecimal digits.
pub fn hex(id: &[u8]) -> String {
    let mut text = String::new();
    for byte in id {
        write!(text, "{byte:02x}").expect("a text takes whatever is written");
    }
    text
}

/// Returns the spans of a trace as an indented tree, siblings by the time of their start. Each line has the kind,
/// the name, and those of the attributes that `shown` names. A span whose parent is not there begins a tree.
pub fn tree(spans: &[Span], shown: &[&str]) -> String {
    let mut spans: Vec<_> = spans.iter().collect();
    spans.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    let ids: Vec<_> = spans.iter().map(|span| &span.span_id).collect();
    let roots = spans.iter().filter(|span| !ids.contains(&&span.parent_span_id));
    let mut text = String::new();
    for root in roots {
        add_tree(root, &spans, shown, 0, &mut text);
    }
    text
}

fn add_tree(span: &Span, spans: &[&Span], shown: &[&str], depth: usize, text: &mut String) {
    let kind = SpanKind::try_from(span.kind).unwrap_or_default().as_str_name();
    let kind = kind.trim_start_matches("SPAN_KIND_");
    let all = attributes(&span.attributes);
    let chosen = shown.iter().filter_map(|name| Some(format!(" {name}={}", all.get(*name)?)));
    let chosen: String = chosen.collect();
    let links = if span.links.is_empty() { "" } else { " linked" };
    let indent = "  ".repeat(depth);
    writeln!(text, "{indent}{kind} {}{chosen}{links}", span.name)
        .expect("a text takes whatever is written");
    for child in spans.iter().filter(|child| child.parent_span_id == span.span_id) {
        add_tree(child, spans, shown, depth + 1, text);
    }
}

fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        Some(Value::ArrayValue(list)) => {
            let elements = list.values.iter().map(|element| shown(Some(element)));
            elements.collect::<Vec<_>>().join(",")
        }
        Some(other) => format!("{other:?}"),
    }
}

fn exported<T>(
    resource: &Resource,
    scope: &InstrumentationScope,
    elements: Vec<T>,
) -> Vec<Exported<T>> {
    let elements = elements.into_iter();
    elements
        .map(|element| Exported { resource: resource.clone(), scope: scope.clone(), element })
        .collect()
}

async fn serve(listener: TcpListener, reaction: Reaction, exports: Arc<Mutex<Vec<Export>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let exports = exports.clone();
        let respond = service_fn(move |request| respond(request, reaction, exports.clone()));
        // A broken connection is not checked here; the test sees what has arrived.
        connections.spawn(async move {
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await);
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    reaction: Reaction,
    exports: Arc<Mutex<Vec<Export>>>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let export = Export { path: head.uri.path().to_owned(), headers: head.headers, body };
    exports.lock().push(export);
    let (status, body) = match reaction {
        Reaction::Accepts => (StatusCode::OK, Full::<Bytes>::default().boxed_unsync()),
        Reaction::Refuses(status) => (status, Full::<Bytes>::default().boxed_unsync()),
        Reaction::Hangs => pending().await,
        Reaction::Floods => {
            let parts = stream::repeat(Bytes::from(vec![0; 1 << 16]));
            let frames = parts.map(|part| Ok(Frame::data(part)));
            (StatusCode::OK, StreamBody::new(frames).boxed_unsync())
        }
    };
    let response = Response::builder().status(status);
    let response = response.header("content-type", "application/x-protobuf");
    Ok(response.body(body).expect("these parts make a response"))
}
