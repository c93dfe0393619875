//! A whole gateway inside another program, with a tool and a model of its own.
//!
//! `cargo run -p airlock --example embed` prints the reply of the model and stops.

use std::sync::Arc;

use airlock::{
    Gateway, ModelFailure, ModelReply, ModelSource, NativeTool, ToolContext, ToolEffect,
    config::Config,
    conversation::{Conversation, Item, Message, Part, Role, ToolCall, Wire},
    schemars::JsonSchema,
    tool::{Allowlist, ErrorKind, Policy, ToolError, Trust},
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse("{}", "embedded", &|_| None)?;
    let weather = NativeTool::typed("weather", "Tells the weather of a city.", weather);
    // Models call the tools of this program without an approval.
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let gateway = Gateway::builder(config)
        .register_tool(weather.effect(ToolEffect::Reads))?
        .native_policy(policy)
        .with_model_source("own", Arc::new(Forecaster))
        .start()
        .await?;
    let mut conversation = Conversation::new(Wire::Chat, "own/forecaster");
    let question = Message::new(Role::User, vec![Part::text("What is the weather in Oslo?")]);
    conversation.items.push(Item::Message(question));
    let reply = gateway.request().open()?.chat(conversation).await?;
    println!("{}", reply.text());
    gateway.stop().await;
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct City {
    /// Name of the city.
    name: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct Weather {
    celsius: i32,
    sky: String,
}

async fn weather(city: City, _: ToolContext) -> Result<Weather, ToolError> {
    match city.name.as_str() {
        "Oslo" => Ok(Weather { celsius: -4, sky: "snow".to_owned() }),
        name => {
            let message = format!("there is no weather of {name:?}");
            Err(ToolError::new(ErrorKind::NotFound, message))
        }
    }
}

/// Stands for a model that the program runs itself: it asks the tool, and repeats the result.
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
            Ok(ModelReply::text(format!("The weather in Oslo: {found}")))
        })
    }
}
