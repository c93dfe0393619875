//! `POST /v1/chat/completions`: OpenAI's chat completions, with the gateway's tools.

use http::Request;
use hyper::body::Incoming;
use serde_json::Value;

use super::{
    App, Sender,
    memory::Charge,
    respond::{self, ApiError, Reply},
};
use crate::{agent, door::Origin, model::MemoryBudget};

/// Handles a chat completion. Checks only the members that the loop needs; the provider checks the
/// rest.
pub(super) async fn complete(
    app: &App,
    sender: &Sender,
    request: Request<Incoming>,
    charge: &Charge,
) -> Result<Reply, ApiError> {
    let body = app.intake.object(request, &app.settings, charge).await?;
    if !matches!(body.get("messages"), Some(Value::Array(_))) {
        return Err(
            ApiError::bad_request("invalid_type", "`messages` must be an array").about("messages")
        );
    }
    if !matches!(body.get("stream"), None | Some(Value::Null | Value::Bool(false))) {
        let message = "streaming is not supported; leave `stream` out or set it to false";
        return Err(ApiError::bad_request("unsupported_value", message).about("stream"));
    }
    let caller = app.caller(sender, Origin::Model);
    let budget = MemoryBudget::new(charge.clone());
    let request = agent::Request { body, names_tools: !sender.filter.is_none(), budget };
    let answer = agent::run(&app.models, &caller, request, &app.agent).await?;
    Ok(respond::json(&answer.into()))
}
