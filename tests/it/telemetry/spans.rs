//! Spans of the test's own process at a collector.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use airlock_telemetry::{
    OtlpTransport, Sending, Span, Telemetry, TraceContext, TraceFuture as _, names,
    settings::{Collector as CollectorSettings, OtlpSettings, Sampler},
};
use airlock_tests::{
    Collector,
    collector::{attributes, hex, tree},
    wait,
};
use bytes::Bytes;
use hyper::{Request, Response};
use opentelemetry_proto::tonic::trace::v1::{Span as Sent, status::StatusCode};

/// Position of a caller.
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// Name of the request.
const REQUEST: &str = "POST /v1/x";
/// Time for everything that is awaited.
const LIMIT: Duration = wait::SOON;

/// The way of the export, by the HTTP client of the tests.
struct Transport(reqwest::Client);

impl OtlpTransport for Transport {
    fn send(&self, request: Request<Bytes>) -> Sending {
        let (head, body) = request.into_parts();
        let sending = self.0.request(head.method, head.uri.to_string());
        let sending = sending.headers(head.headers).body(body).send();
        Box::pin(async move {
            let response = sending.await?;
            let status = response.status();
            let mut received = Response::new(response.bytes().await?);
            *received.status_mut() = status;
            Ok(received)
        })
    }
}

fn start(collector: &Collector, trust_callers: bool) -> Telemetry {
    let traces = CollectorSettings {
        url: format!("{}/v1/traces", collector.endpoint()).parse().expect("a URL"),
        headers: Vec::new(),
        timeout: LIMIT,
    };
    let settings = OtlpSettings {
        traces: Some(traces),
        metrics: None,
        logs: None,
        trust_callers,
        sampler: Sampler::default(),
        service_name: "spans".to_owned(),
        resource: Vec::new(),
        trace_interval: Duration::from_millis(20),
        log_interval: LIMIT,
        metric_interval: LIMIT,
    };
    let client = airlock::tls::client().no_proxy().build().expect("a client");
    Telemetry::start(&settings, Arc::new(Transport(client))).expect("it starts")
}

/// Makes a request with a call that fails, in another task.
async fn request(has_key: bool) {
    let caller = TraceContext::parse(CALLER);
    let request = Span::server(|| REQUEST.to_owned()).of_caller(caller, has_key).start();
    request.set(names::HTTP_ROUTE, "/v1/x");
    let work = async {
        assert_eq!(
            Span::current().trace_context().map(|context| context.trace_id()),
            request.trace_context().map(|context| context.trace_id())
        );
        let call = Span::client(|| "tools/call x".to_owned()).start();
        call.set(names::AIRLOCK_ATTEMPT, 1_u64);
        call.set(names::AIRLOCK_ATTEMPT, 2_u64);
        call.set(names::GEN_AI_TOOL_NAME, "é".repeat(2_000));
        call.fail("timeout", "no response in time");
        call.event("retried", [(names::AIRLOCK_ATTEMPT, 2_u64.into())]);
        tokio::spawn(async {}.in_span(&call)).await.expect("no panic in it");
    };
    work.in_span(&request).await;
    request.end();
    request.set(names::HTTP_ROUTE, "too late");
}

/// Returns the spans of the request, by name. Other tests of the process may have sent some too.
async fn by_name(collector: &Collector) -> BTreeMap<String, Sent> {
    let spans = collector.trace(REQUEST).await.into_iter();
    spans.map(|span| (span.name.clone(), span)).collect()
}

/// One test, because the spans of a process go to one collector at a time.
#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_as_a_tree_with_the_caller_as_a_link_or_as_the_parent_if_it_is_trusted() {
    request(true).await;
    let collector = Collector::start().await;
    let telemetry = start(&collector, false);
    request(true).await;
    telemetry.shutdown(LIMIT).await;
    let spans = by_name(&collector).await;
    let all: Vec<_> = spans.values().cloned().collect();
    assert_eq!(
        tree(&all, &[names::HTTP_ROUTE, names::AIRLOCK_ATTEMPT, names::ERROR_TYPE]),
        "SERVER POST /v1/x http.route=/v1/x linked\n  CLIENT tools/call x airlock.attempt=2 error.type=timeout\n"
    );
    let server = &spans[REQUEST];
    assert_ne!(hex(&server.trace_id), &CALLER[3..35]);
    assert_eq!(hex(&server.links[0].trace_id), &CALLER[3..35]);
    assert_eq!(hex(&server.links[0].span_id), &CALLER[36..52]);
    let call = &spans["tools/call x"];
    assert_eq!(attributes(&call.attributes)["gen_ai.tool.name"].chars().count(), 1_024);
    let status = call.status.as_ref().expect("a status");
    assert_eq!(
        (status.code, status.message.as_str()),
        (StatusCode::Error.into(), "no response in time")
    );
    assert_eq!(call.events[0].name, "retried");
    let sent = collector.span(REQUEST).await;
    assert_eq!(sent.scope.name, "airlock");
    assert_eq!(attributes(&sent.resource.attributes)["service.name"], "spans");

    let trusting = Collector::start().await;
    let telemetry = start(&trusting, true);
    request(true).await;
    telemetry.shutdown(LIMIT).await;
    let spans = by_name(&trusting).await;
    assert_eq!(hex(&spans[REQUEST].trace_id), &CALLER[3..35]);
    assert_eq!(hex(&spans[REQUEST].parent_span_id), &CALLER[36..52]);
    assert!(spans[REQUEST].links.is_empty());

    let anonymous = Collector::start().await;
    let telemetry = start(&anonymous, true);
    request(false).await;
    telemetry.shutdown(LIMIT).await;
    let spans = by_name(&anonymous).await;
    let server = &spans[REQUEST];
    assert_ne!(hex(&server.trace_id), &CALLER[3..35]);
    assert_eq!(server.links.len(), 1);
}
