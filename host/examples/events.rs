//! A chat as events while it runs, and a control that bills the calls of tools.
//!
//! `cargo run -p airlock --example events` prints the call, its result, the reply piece by piece, and the bill.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use airlock::{
    ChatEvent, Gateway, ModelFailure, ModelReply, ModelSource, NativeTool, ToolContext,
    config::Config,
    conversation::{Conversation, Delta, Item, Message, Part, Role, ToolCall, Wire},
    door::{Admitted, CallControl, ControlledCall, Refusal},
    schemars::JsonSchema,
    tool::{Allowlist, CallError, Policy, ToolError, ToolOutput, Trust},
};
use futures_util::{future::BoxFuture, stream};
use serde::Deserialize;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse("{}", "embedded", &|_| None)?;
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let bill = Arc::new(Bill::default());
    let gateway = Gateway::builder(config)
        .register_tool(NativeTool::typed("weather", "Tells the weather of a city.", weather))?
        .native_policy(policy)
        .with_model_source("own", Arc::new(Forecaster))
        .with_call_control(bill.clone())
        .start()
        .await?;
    let mut conversation = Conversation::new(Wire::Chat, "own/forecaster");
    let question = Message::new(Role::User, vec![Part::text("What is the weather in Oslo?")]);
    conversation.items.push(Item::Message(question));
    show(&gateway, conversation).await?;
    println!("billed: {}", bill.calls.load(Ordering::Relaxed));
    gateway.stop().await;
    Ok(())
}

/// Prints the events of a chat. The model and its calls run only while the next event is waited for.
async fn show(gateway: &Gateway, conversation: Conversation) -> anyhow::Result<()> {
    let mut events = gateway.request().open()?.chat_stream(conversation).await?;
    while let Some(event) = events.next().await {
        match event? {
            ChatEvent::CallStarted(call) => println!("calls {} {}", call.name, call.arguments),
            ChatEvent::CallEnded(call) => println!("{}: {}", call.name, call.text),
            ChatEvent::Delta(Delta::Text { text, .. }) => print!("{text}"),
            ChatEvent::Done { .. } => println!(),
            // Progress of calls, their content before the result, rounds, and other pieces of the reply.
            _ => {}
        }
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct City {
    /// Name of the city.
    name: String,
}

async fn weather(city: City, _: ToolContext) -> Result<String, ToolError> {
    Ok(format!("snow in {}", city.name))
}

/// Bills the calls that have succeeded, whatever makes them.
#[derive(Default)]
struct Bill {
    calls: Arc<AtomicU32>,
}

/// A call that runs.
struct BilledCall {
    calls: Arc<AtomicU32>,
}

impl CallControl for Bill {
    fn begin<'c>(
        &'c self,
        _: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        Box::pin(async move {
            let call: Box<dyn ControlledCall> = Box::new(BilledCall { calls: self.calls.clone() });
            Ok(call)
        })
    }

    fn refused(&self, _: &Refusal<'_>) {}
}

impl ControlledCall for BilledCall {
    fn end(self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        if result.is_ok() {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Stands for a model that the program runs itself: it asks the tool, and repeats the result in two pieces.
struct Forecaster;

impl ModelSource for Forecaster {
    fn respond(&self, request: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        Box::pin(async move {
            let Some(Item::ToolResult(result)) = request.items.last() else {
                let arguments = r#"{"name":"Oslo"}"#;
                let call = ToolCall::function("call_1", "internal-weather", arguments);
                return Ok(ModelReply::calls([call]));
            };
            let found: String = result.parts.iter().filter_map(Part::as_text).collect();
            let pieces = ["There is ".to_owned(), found];
            let pieces = pieces.map(|text| Ok(Delta::Text { choice: 0, text }));
            Ok(ModelReply::stream(stream::iter(pieces)))
        })
    }
}
