//! OpenAI's chat completions, of OpenAI and of compatible services.

mod stream;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use self::stream::OpenAiChunks;
use super::{
    Document, ModelError, Prompt, Refusal, Response, Terms,
    address::{Addresses, Operation},
    backend::{Exchange, ModelFuture, ServiceApi},
    chat_reader::{ChatError, ChatReader},
    delta_stream::into_model_error,
    http::{
        self as service, EncodedRequest, HttpClient, LIST, ServiceEvents, ServiceResponse, SignIn,
        retry_after,
    },
    prompt::{STREAM_OPTIONS, TargetApi},
};
use crate::backend::{MAX_KNOWN_MODEL_BYTES, MAX_KNOWN_MODELS};
use airlock_conversation::Object;
use airlock_core::{memory::Charge, threads};

/// Time for which a model that has accepted the option for the usage is taken to accept it.
const ACCEPTED_FOR: Duration = Duration::from_mins(10);

/// The API at one service.
#[derive(Debug)]
pub(super) struct OpenAi {
    addresses: Arc<dyn Addresses>,
    /// Models that have accepted the option for the usage, and the time until which that counts.
    accepting: Mutex<BTreeMap<String, Instant>>,
}

impl OpenAi {
    pub(super) fn new(addresses: Arc<dyn Addresses>) -> Self {
        Self { addresses, accepting: Mutex::default() }
    }

    /// Returns a request as it is sent, with other `stream_options` if they are given. It is plain without.
    async fn write(
        &self,
        exchange: Exchange<'_>,
        options: Option<String>,
    ) -> Result<EncodedRequest, ModelError> {
        let Exchange { client, terms, .. } = exchange;
        let uri = exchange.uri(&*self.addresses, Operation::ChatCompletions)?;
        let is_plain = options.is_none();
        let text = exchange.chat_text(TargetApi::Chat, options).await?;
        let mut outgoing = client.outgoing(uri, text, terms.is_streamed, terms.held)?;
        outgoing.is_plain = is_plain;
        Ok(outgoing)
    }

    fn has_accepted(&self, prompt: &Prompt) -> bool {
        let Some(model) = prompt.model() else { return false };
        self.accepting.lock().get(&model).is_some_and(|until| *until > Instant::now())
    }

    async fn receive(
        client: &HttpClient,
        response: ServiceResponse,
        held: &Charge,
    ) -> Result<Document, ModelError> {
        let retry_after = retry_after::read(response.headers());
        let answer = client.receive_completion(response, error_of, held).await?;
        if answer.outlines().is_some() {
            return Ok(answer);
        }
        // Some services return an error with status 200.
        match own_error(answer.object()) {
            Some(error) => {
                let status = StatusCode::BAD_GATEWAY;
                Err(client.refused(Refusal { status, error, retry_after }))
            }
            None => Ok(answer),
        }
    }
}

impl ServiceApi for OpenAi {
    /// The text of a chat completion request is sent as it came. If something counts its usage, a stream is
    /// asked for it.
    fn encode<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        self.write(exchange, exchange.usage_options()).boxed()
    }

    fn decode<'a: 't, 't>(
        &'t self,
        client: &'a HttpClient,
        response: ServiceResponse,
        outgoing: &'t EncodedRequest,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        Box::pin(async move {
            if outgoing.is_streamed && service::is_stream(&response) {
                let events = ServiceEvents::new(client, response, terms.held.beside());
                let chunks = OpenAiChunks::new(events, &terms);
                let chunks = if outgoing.is_plain { chunks } else { chunks.without_usage() };
                return Ok(Response::streamed(chunks));
            }
            let answer = Self::receive(client, response, terms.held).await?;
            let has_choices = answer.outlines().is_some()
                || answer.object().get("choices").is_some_and(Value::is_array);
            if !has_choices {
                return Err(client.bad_answer("no `choices`"));
            }
            let Terms { max_calls, held, .. } = terms;
            let passes_on = terms.passes_on_whole();
            let bytes = answer.text_bytes();
            let tenant = held.tenant();
            let reading = threads::read(&tenant, bytes, move || {
                ChatReader::whole(answer, passes_on, max_calls)
            });
            let reply = reading.await;
            reply.map(Response::Whole).map_err(|error| failure(error, max_calls, client))
        })
    }

    fn list<'a>(
        &'a self,
        client: &'a HttpClient,
        sign_in: Option<&'a dyn SignIn>,
        held: &'a Charge,
    ) -> ModelFuture<'a, Vec<Object>> {
        Box::pin(async move {
            let models = self.addresses.below("models");
            let response = client.get(&models, &HeaderMap::new(), sign_in).await?;
            Ok(service::listed(client.receive_within(LIST, response, error_of, held).await?))
        })
    }

    /// Some services refuse the option that asks for the usage, each in other words. Whatever else is wrong with
    /// the request is then reported for the request as it came. A model that has accepted the option refuses it
    /// by its name, if at all: some do for images. So most invalid requests are not sent twice.
    fn is_about_option(&self, prompt: &Prompt, error: &ModelError) -> bool {
        let ModelError::Refused { refusal, .. } = error else { return false };
        matches!(refusal.status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
            && (names_option(&refusal.error) || !self.has_accepted(prompt))
    }

    fn note_option(&self, prompt: &Prompt) {
        let model = prompt.model().filter(|model| model.len() <= MAX_KNOWN_MODEL_BYTES);
        let Some(model) = model else { return };
        let now = Instant::now();
        let until = now + ACCEPTED_FOR;
        let mut accepting = self.accepting.lock();
        if accepting.len() >= MAX_KNOWN_MODELS {
            accepting.retain(|_, end| *end > now);
        }
        if accepting.len() < MAX_KNOWN_MODELS || accepting.contains_key(&model) {
            accepting.insert(model, until);
        }
    }

    fn encode_plain<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        self.write(exchange, None).boxed()
    }
}

/// Returns whether an error is about the options of a stream.
fn names_option(error: &Object) -> bool {
    let texts = ["message", "param"].map(|member| error.get(member).and_then(Value::as_str));
    texts.into_iter().flatten().any(|text| text.contains(STREAM_OPTIONS))
}

/// Returns the failure of a request whose response was not read.
fn failure(error: ChatError, limit: usize, client: &HttpClient) -> ModelError {
    error.into_model_error(limit, |error| into_model_error(error, client))
}

fn error_of(client: &HttpClient, status: StatusCode, body: Option<&Object>) -> Object {
    body.and_then(own_error)
        .unwrap_or_else(|| client.plain_error(status, body.and_then(service::error_message)))
}

/// Returns the `error` of a response; `None` unless it is an object with a `message`, as OpenAI's
/// clients require.
fn own_error(answer: &Object) -> Option<Object> {
    let error = answer.get("error")?.as_object()?;
    error.get("message")?.is_string().then(|| error.clone())
}

#[cfg(test)]
mod tests;
