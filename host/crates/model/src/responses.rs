//! OpenAI's Responses API, of OpenAI and of compatible services.
//!
//! A request that came in this API is sent as it came: with the rounds and the tools that the
//! gateway added, and without the members that the gateway itself acts on. A chat completion
//! request is translated. Responses become chat completions in either case; with them go their
//! [native parts](super::part), which chat cannot express.
//!
//! | module | purpose |
//! |---|---|
//! | `request` | a chat completion request → the members of a request |
//! | `messages`, `content`, `tools` | its messages, their content, its tools |
//! | `send` | the members of a request, either translated or as they came → the text that is sent |
//! | `event`, `item` | the events of a stream, or a whole Response → steps |
//! | `stream` | steps → chunks |
//! | `chunks` | the chunks of one exchange |
//! | `error`, `usage` | errors and token usage |
//!
//! Nothing is stored at the service (`store: false`): the gateway has its own store, which is scoped
//! to its callers. Reasoning can then be sent back only in its encrypted form, so every request
//! asks for it.

mod chunks;
mod content;
mod error;
mod event;
mod item;
mod messages;
mod request;
mod send;
mod stream;
mod tools;
mod usage;

use parking_lot::Mutex;
use std::collections::BTreeSet;

use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Url;
use serde_json::Value;

pub(super) use self::chunks::Chunks;
use super::{
    Held, ModelError, Object, Prompt, Response, Source,
    http::{self as service, Client, Events, Outgoing, below},
    openai::OpenAi,
    service::Terms,
    translation::{self, Untranslated},
};
use airlock_core::threads;
use airlock_json::{RawObject, raw};

/// Maximum number of models that are remembered as models without encrypted reasoning.
const MAX_PLAIN_MODELS: usize = 256;
/// Maximum length of the name of such a model, in bytes.
const MAX_MODEL_BYTES: usize = 256;

/// Addresses of one service.
#[derive(Debug)]
pub(super) struct Responses {
    url: Url,
    openai: OpenAi,
    /// Models that refuse a request for encrypted reasoning, because they do not reason.
    plain_models: Mutex<BTreeSet<String>>,
}

impl Responses {
    pub(super) fn new(base: &Url) -> Self {
        Self {
            url: below(base, "responses"),
            openai: OpenAi::new(base),
            plain_models: Mutex::default(),
        }
    }

    /// Returns a request as it is sent; with `is_plain`, without asking for encrypted reasoning.
    /// While this runs, the tree of a request that is translated is
    /// held; the result holds its own text.
    pub(super) async fn encode(
        &self,
        client: &Client,
        prompt: &Prompt,
        terms: Terms<'_>,
        is_plain: bool,
    ) -> Result<Outgoing, ModelError> {
        let working = terms.held.beside();
        let translated = match &prompt.native {
            Some(_) => None,
            None => Some(translated(client, prompt, working).await?),
        };
        let native = prompt.native.as_ref().map(|native| &native.body);
        let members = translated.as_ref().or(native).unwrap_or(&prompt.body);
        let body = send::written(members, prompt, terms.is_streamed, !is_plain);
        let mut outgoing = client.outgoing(&self.url, body, terms.is_streamed, terms.held)?;
        outgoing.includes_usage = prompt.native.is_some() || service::includes_usage(prompt);
        Ok(outgoing)
    }

    /// Reads the response to a request.
    pub(super) async fn response<'a>(
        client: &'a Client,
        response: reqwest::Response,
        outgoing: &Outgoing,
        terms: Terms<'_>,
    ) -> Result<Response<'a>, ModelError> {
        let is_stream = response.status().is_success() && !service::is_json(&response);
        if outgoing.is_streamed && is_stream {
            let events = Events::new(client, response, terms.held.beside());
            let chunks = Chunks::streamed(events, outgoing.includes_usage);
            return Ok(Response::Chunks(Source::Responses(Box::new(chunks)).into()));
        }
        let answer = client.receive(response, error_of, terms.held).await?;
        if terms.in_chunks {
            let chunks = Chunks::whole(client, &answer, outgoing.includes_usage, terms.held)?;
            return Ok(Response::Chunks(Source::Responses(Box::new(chunks)).into()));
        }
        chunks::completion(client, answer).map(Response::Whole)
    }

    /// Returns the models of the service.
    pub(super) async fn list(
        &self,
        client: &Client,
        credential: Option<(HeaderName, HeaderValue)>,
        held: &Held,
    ) -> Result<Vec<Object>, ModelError> {
        self.openai.list(client, credential, held).await
    }

    /// Returns whether the model of a request is known to have no encrypted reasoning.
    pub(super) fn is_plain(&self, prompt: &Prompt) -> bool {
        let plain = self.plain_models.lock();
        model_of(prompt).is_some_and(|model| plain.contains(&model))
    }

    /// Notes that a request failed because it asked for encrypted reasoning, and succeeded without.
    pub(super) fn note_plain(&self, prompt: &Prompt) {
        let model = model_of(prompt).filter(|model| model.len() <= MAX_MODEL_BYTES);
        let mut plain = self.plain_models.lock();
        if plain.len() < MAX_PLAIN_MODELS {
            plain.extend(model);
        }
    }

    /// Returns whether a request may have failed because it asked for encrypted reasoning.
    pub(super) fn is_about_include(error: &ModelError) -> bool {
        let ModelError::Refused { refusal, .. } = error else { return false };
        refusal.status == StatusCode::BAD_REQUEST
            && refusal.error.get("param").is_some_and(|param| param == "include")
    }
}

fn model_of(prompt: &Prompt) -> Option<String> {
    prompt.body.get("model").and_then(raw::string).map(std::borrow::Cow::into_owned)
}

/// Translates a chat completion request, without the gateway's tools and without rounds of which
/// there are items. `working` pays for its text and its tree.
async fn translated(
    client: &Client,
    prompt: &Prompt,
    working: Held,
) -> Result<RawObject, ModelError> {
    let mut chat = Prompt::new(prompt.body.clone());
    if prompt.added_items.is_empty() {
        chat.added.clone_from(&prompt.added);
    }
    let text = chat.to_json(&[]);
    // Once as it is and once translated.
    if !working.grow(text.len().saturating_mul(2)) {
        return Err(client.no_memory());
    }
    let length = text.len();
    let tenant = working.tenant();
    let translated = threads::read(&tenant, length, move || translate(text, &working)).await;
    translated.map_err(|error| error.into_model_error(client))
}

fn translate(text: Vec<u8>, held: &Held) -> Result<RawObject, Untranslated> {
    let chat = translation::read(&text, held)?;
    drop(text);
    let request = request::to_responses(chat).map_err(Untranslated::Unsupported)?;
    Ok(RawObject::from(&request))
}

fn error_of(client: &Client, status: StatusCode, body: Option<&Object>) -> Object {
    let error = body.and_then(|body| body.get("error")?.as_object());
    let error = error.filter(|error| error.get("message").is_some_and(Value::is_string));
    error.cloned().unwrap_or_else(|| client.plain_error(status, body.and_then(service::said)))
}

#[cfg(test)]
mod tests;
