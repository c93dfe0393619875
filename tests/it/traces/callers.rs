//! Positions that callers send: a parent only of those that the operator trusts, and else a link.

use airlock_tests::{Service, collector::hex, service, wait};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

use super::{ANN, CHAT, SENT, SENT_SPAN, SENT_TRACE, Stage, keyed};

/// Sends a request without a key and one with a key, both with [`SENT`]. Returns the spans of the two.
async fn requests(stage: &Stage) -> [Span; 2] {
    let sent = ("traceparent", SENT);
    let _ = stage.chat(&[sent], json!({})).await.ok();
    let _ = stage.chat(&[sent, ("x-bf-vk", ANN)], json!({})).await.ok();
    let mut found = wait::until("the spans of both requests", async || {
        let spans = stage.spans().into_iter();
        let found: Vec<_> = spans.filter(|span| span.name == CHAT).collect();
        (found.len() == 2).then_some(found)
    })
    .await;
    found.sort_by_key(|span| span.start_time_unix_nano);
    found.try_into().expect("there are two")
}

fn assert_linked(span: &Span) {
    assert_ne!(hex(&span.trace_id), SENT_TRACE);
    assert!(span.parent_span_id.is_empty(), "it begins its trace");
    assert_eq!(hex(&span.links[0].trace_id), SENT_TRACE);
    assert_eq!(hex(&span.links[0].span_id), SENT_SPAN);
}

#[tokio::test]
async fn a_callers_position_is_a_link_unless_the_operator_trusts_callers() {
    let stage = Stage::without_tools().await;
    for span in requests(&stage).await {
        assert_linked(&span);
    }
}

#[tokio::test]
async fn the_position_of_a_trusted_caller_is_the_parent_if_it_has_a_key() {
    let model = Service::saying([service::text("hello")]).await;
    let stage =
        Stage::with(model, |setup| keyed(setup).set("/telemetry/otlp/trust_callers", true)).await;
    let [anonymous, of_key] = requests(&stage).await;
    assert_linked(&anonymous);
    assert_eq!(hex(&of_key.trace_id), SENT_TRACE);
    assert_eq!(hex(&of_key.parent_span_id), SENT_SPAN);
    assert!(of_key.links.is_empty());
}
