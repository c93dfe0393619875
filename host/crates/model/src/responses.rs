//! OpenAI's Responses API, of OpenAI and of compatible services.
//!
//! A request that came in this API is sent as it came: with the rounds and the tools that the
//! gateway added, and without the members that the gateway itself acts on. A chat completion
//! request is translated.
//!
//! The crate `airlock-conversation` knows the two formats. The module `send` writes the members of a
//! request, either translated or as they came, as the text that is sent.
//!
//! Nothing is stored at the service (`store: false`): the gateway has its own store, which is scoped
//! to its callers. Reasoning can then be sent back only in its encrypted form, so every request
//! asks for it.

mod send;

use std::{collections::BTreeSet, sync::Arc};

use futures_util::FutureExt as _;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    ModelError, Prompt, Response, Terms,
    address::{Addresses, Operation},
    backend::{Exchange, ModelFuture, ServiceApi},
    delta_stream,
    http::{self as service, EncodedRequest, HttpClient, ServiceResponse, SignIn},
    openai::OpenAi,
    prompt::TargetApi,
    translation,
};
use crate::backend::{MAX_KNOWN_MODEL_BYTES, MAX_KNOWN_MODELS};
use airlock_conversation::{Object, responses::ReplyReader};
use airlock_core::memory::Charge;

/// The API at one service.
#[derive(Debug)]
pub(super) struct ResponsesApi {
    addresses: Arc<dyn Addresses>,
    openai: OpenAi,
    /// Models that refuse a request for encrypted reasoning, because they do not reason.
    plain_models: Mutex<BTreeSet<String>>,
}

impl ResponsesApi {
    pub(super) fn new(addresses: Arc<dyn Addresses>) -> Self {
        let openai = OpenAi::new(addresses.clone());
        Self { addresses, openai, plain_models: Mutex::default() }
    }

    /// Returns a request as it is sent; with `is_plain`, without asking for encrypted reasoning.
    /// The result holds its own text.
    async fn write(
        &self,
        exchange: Exchange<'_>,
        is_plain: bool,
    ) -> Result<EncodedRequest, ModelError> {
        let Exchange { client, prompt, model, terms } = exchange;
        let uri = exchange.uri(&*self.addresses, Operation::Responses)?;
        let members = translation::members(prompt, TargetApi::Responses, terms.held).await;
        let members = members.map_err(|error| error.into_model_error(client))?;
        let is_streamed = terms.is_streamed;
        let model = model.map(str::to_owned);
        let scanned = members.text_len();
        let held = terms.held;
        let body =
            translation::write_text(prompt, members, scanned, held, move |prompt, members| {
                send::to_text(members, prompt, model.as_deref(), is_streamed, !is_plain)
            });
        let body = body.await.map_err(|error| error.into_model_error(client))?;
        let mut outgoing = client.outgoing(uri, body, terms.is_streamed, terms.held)?;
        outgoing.is_plain = is_plain;
        Ok(outgoing)
    }

    /// Returns whether the model of a request is known to have no encrypted reasoning.
    fn is_plain(&self, prompt: &Prompt) -> bool {
        let plain = self.plain_models.lock();
        prompt.model().is_some_and(|model| plain.contains(&model))
    }
}

impl ServiceApi for ResponsesApi {
    fn encode<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        self.write(exchange, self.is_plain(exchange.prompt)).boxed()
    }

    fn decode<'a: 't, 't>(
        &'t self,
        client: &'a HttpClient,
        response: ServiceResponse,
        outgoing: &'t EncodedRequest,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        let reader = ReplyReader::default();
        delta_stream::decode(client, response, outgoing, error_of, terms.held, reader).boxed()
    }

    fn list<'a>(
        &'a self,
        client: &'a HttpClient,
        sign_in: Option<&'a dyn SignIn>,
        held: &'a Charge,
    ) -> ModelFuture<'a, Vec<Object>> {
        self.openai.list(client, sign_in, held)
    }

    fn is_responses(&self) -> bool {
        true
    }

    fn is_about_option(&self, _: &Prompt, error: &ModelError) -> bool {
        let ModelError::Refused { refusal, .. } = error else { return false };
        refusal.status == StatusCode::BAD_REQUEST
            && refusal.error.get("param").is_some_and(|param| param == "include")
    }

    fn encode_plain<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        self.write(exchange, true).boxed()
    }

    fn note_plain(&self, prompt: &Prompt) {
        let model = prompt.model().filter(|model| model.len() <= MAX_KNOWN_MODEL_BYTES);
        let mut plain = self.plain_models.lock();
        if plain.len() < MAX_KNOWN_MODELS {
            plain.extend(model);
        }
    }
}

fn error_of(client: &HttpClient, status: StatusCode, body: Option<&Object>) -> Object {
    let error = body.and_then(|body| body.get("error")?.as_object());
    let error = error.filter(|error| error.get("message").is_some_and(Value::is_string));
    error
        .cloned()
        .unwrap_or_else(|| client.plain_error(status, body.and_then(service::error_message)))
}

#[cfg(test)]
mod tests;
