//! Tiers of service of requests to models, for a control.

use airlock_core::model_control::{
    ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest, ServiceTier,
};
use airlock_model::{Api, Kind, Service, Settings as Provider};
use airlock_test_http::model::{self as service, FakeService};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::*;

/// Control that keeps the tier of each request, and the one of its outcome.
#[derive(Clone, Default)]
struct TierControl(Arc<Mutex<Vec<ServiceTier>>>);

impl ModelControl for TierControl {
    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        self.0.lock().push(request.tier);
        let running: Box<dyn ControlledModelRequest> = Box::new(self.clone());
        Box::pin(async move { Ok(running) })
    }
}

impl ControlledModelRequest for TierControl {
    fn end(self: Box<Self>, outcome: &ModelOutcome<'_>) {
        self.0.lock().push(outcome.tier);
    }
}

/// Returns a completion, or a stream of one, that names a tier.
fn completion(tier: Option<&str>, is_streamed: bool) -> String {
    let message = json!({"role": "assistant", "content": "hi"});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 5});
    let name = if is_streamed { "delta" } else { "message" };
    let choice = json!({"index": 0, name: message, "finish_reason": "stop"});
    let completion =
        json!({"id": "x", "model": "m", "choices": [choice], "usage": usage, "service_tier": tier});
    if is_streamed {
        return service::events(&format!("data: {completion}\n\ndata: [DONE]\n\n"));
    }
    service::json("200 OK", &completion.to_string())
}

/// Returns the tiers of the request and of its outcome.
async fn tiers(
    asked: Option<&str>,
    named: Option<&str>,
    is_streamed: bool,
    passes_on: bool,
) -> Vec<ServiceTier> {
    let server = FakeService::start(vec![completion(named, is_streamed)]).await;
    let kind = Kind::Service(Box::new(Service::new(Api::OpenAi, &server.base_url)));
    let provider = Provider { name: "demo".to_owned(), kind, fallbacks: Vec::new() };
    let control = TierControl::default();
    let models = Models::new(&[provider]).expect("a good provider");
    let models = models.with_control(Arc::new(control.clone()));
    let mut request = Request { is_streamed, ..request() };
    if let Some(asked) = asked {
        request.prompt.body.set("service_tier", Value::from(asked).to_string());
    }
    let settings = Settings { disable_auto_tool_inject: passes_on, ..SETTINGS };
    let mut run = run(Arc::new(models), caller(&Filter::none()), request, settings);
    while let Some(event) = run.next().await {
        assert!(!matches!(event, Event::Failed(_)), "{event:?}");
    }
    drop(run);
    server.requests().await;
    control.0.lock().clone()
}

#[tokio::test]
async fn the_outcome_has_the_tier_that_the_provider_names_or_else_one_with_a_surcharge() {
    use ServiceTier::{Flex, Priority, Standard};
    for (asked, named, expected) in [
        (None, None, [Standard, Standard]),
        (None, Some("priority"), [Standard, Priority]),
        (Some("priority"), None, [Priority, Priority]),
        (Some("priority"), Some("default"), [Priority, Standard]),
        (Some("flex"), None, [Flex, Standard]),
        (Some("flex"), Some("flex"), [Flex, Flex]),
    ] {
        for is_streamed in [false, true] {
            for passes_on in [false, true] {
                let tiers = tiers(asked, named, is_streamed, passes_on).await;
                assert_eq!(tiers, expected, "{asked:?}, {named:?}, {is_streamed}, {passes_on}");
            }
        }
    }
}
