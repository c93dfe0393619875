//! Client of one service: its API, its keys and its attempts.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::{
    BadProvider, Held, MemoryBudget, ModelError, Object, Prompt, Response,
    anthropic::Anthropic,
    http::{self as exchange, Bounds, FIRST_BYTE, Outgoing},
    keys::{Key, Keys, Random},
    listing::Listing,
    openai::OpenAi,
    responses::Responses,
    retry::Attempts,
    settings::{Api, Apis, Retries, Service},
};
use airlock_json::raw;
use airlock_strings::with_causes;

/// A client of one service.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) http: exchange::Client,
    /// True if the service reads images in the results of tools.
    pub(super) reads_images: bool,
    /// API in which chat completion requests are sent.
    for_chat: Dialect,
    /// API in which requests of the Responses API are sent; `None` if it is the same.
    for_responses: Option<Dialect>,
    keys: Keys,
    retries: Retries,
    random: Random,
    listing: Listing,
}

/// API of a service, with its addresses.
#[derive(Debug)]
enum Dialect {
    OpenAi(OpenAi),
    Responses(Responses),
    Anthropic(Anthropic),
}

/// Conditions of one request to a provider.
#[derive(Clone, Copy)]
pub struct Terms<'h> {
    /// True if the response is to be streamed.
    pub is_streamed: bool,
    /// True if the response is read as chunks, also one that is not streamed, where the provider's
    /// API has parts that are lost in a whole one.
    pub in_chunks: bool,
    /// Deadline of the request. No attempt is begun after it.
    pub deadline: Instant,
    /// Account for the memory of the request and the response.
    pub held: &'h Held,
}

impl Client {
    pub(super) fn new(provider: &str, service: &Service) -> Result<Self, BadProvider> {
        Self::with_bounds(provider, service, Bounds::of(service))
    }

    pub(super) fn with_bounds(
        provider: &str,
        service: &Service,
        bounds: Bounds,
    ) -> Result<Self, BadProvider> {
        let base = exchange::base_url(provider, &service.base_url)?;
        let credential = match service.api {
            Api::OpenAi => OpenAi::credential,
            Api::Anthropic => Anthropic::credential,
        };
        let (for_chat, for_responses) = match (service.api, service.apis) {
            (Api::OpenAi, Apis::Chat) => (Dialect::OpenAi(OpenAi::new(&base)), None),
            (Api::OpenAi, Apis::Both) => (
                Dialect::OpenAi(OpenAi::new(&base)),
                Some(Dialect::Responses(Responses::new(&base))),
            ),
            (Api::OpenAi, Apis::Responses) => (Dialect::Responses(Responses::new(&base)), None),
            (Api::Anthropic, _) => (Dialect::Anthropic(Anthropic::new(&base, service)), None),
        };
        Ok(Self {
            http: exchange::Client::new(provider, service, bounds)?,
            reads_images: service.images_in_tool_results,
            for_chat,
            for_responses,
            keys: Keys::new(&service.keys, credential)
                .map_err(|key| BadProvider::Key { provider: provider.to_owned(), key })?,
            retries: service.retries,
            random: Random::new(),
            listing: Listing::new(),
        })
    }

    /// Sends a request and returns the response: whole, or as a stream whose first chunk has
    /// arrived. A request that fails before that is repeated as the settings permit; the last error
    /// is returned. While this runs, memory for the text of the request is held; the response holds
    /// its own memory.
    pub(super) async fn respond(
        &self,
        prompt: &Prompt,
        terms: Terms<'_>,
    ) -> Result<Response<'_>, ModelError> {
        let model = prompt.body.get("model").and_then(raw::string).unwrap_or_default();
        let provider = self.http.provider.as_str();
        let keys = self.keys.serving(&model);
        let attempts = Attempts::new(provider, keys, &self.retries, &self.random, terms.deadline);
        let mut attempts = attempts.ok_or_else(|| ModelError::NoKey {
            provider: provider.to_owned(),
            model: airlock_strings::cut(model.to_string(), 128),
        })?;
        let api = self.api_for(prompt);
        let mut outgoing = api.encode(&self.http, prompt, terms).await?;
        let asks_reasoning = matches!(api, Dialect::Responses(api) if !api.is_plain(prompt));
        let mut plain: Option<&Responses> = None;
        loop {
            let error = match self.attempt(api, &outgoing, attempts.key(), terms).await {
                Ok(response) => {
                    if let Some(api) = plain {
                        api.note_plain(prompt);
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            if let Dialect::Responses(api) = api
                && plain.is_none()
                && asks_reasoning
                && Responses::is_about_include(&error)
            {
                outgoing = api.encode(&self.http, prompt, terms, true).await?;
                plain = Some(api);
                continue;
            }
            let Some(wait) = attempts.after(&error) else { return Err(error) };
            sleep(wait).await;
        }
    }

    /// Returns the models of the service that its keys serve, as [`Models::list`] does; nothing if
    /// it does not respond.
    ///
    /// [`Models::list`]: super::Models::list
    pub(super) async fn list(&self) -> Arc<str> {
        self.listing.get(&self.http.provider, self.served()).await
    }

    async fn served(&self) -> Vec<Object> {
        let mut models = self.request_list().await.unwrap_or_else(|error| {
            warn!(provider = %self.http.provider, error = %with_causes(&error), "models of a provider cannot be listed");
            Vec::new()
        });
        models.retain(|model| {
            let id = model.get("id").and_then(serde_json::Value::as_str);
            id.is_some_and(|id| self.keys.serve(id))
        });
        models
    }

    async fn request_list(&self) -> Result<Vec<Object>, ModelError> {
        // The list is shared by all callers, so no caller is charged for it. Its size is bounded.
        let held = MemoryBudget::unlimited().hold();
        let credential = self.keys.first().and_then(Key::credential);
        match &self.for_chat {
            Dialect::OpenAi(api) => api.list(&self.http, credential, &held).await,
            Dialect::Responses(api) => api.list(&self.http, credential, &held).await,
            Dialect::Anthropic(api) => api.list(&self.http, credential, &held).await,
        }
    }

    /// Returns whether requests of the Responses API are sent in that API.
    pub(super) fn has_responses(&self) -> bool {
        self.for_responses.is_some() || matches!(self.for_chat, Dialect::Responses(_))
    }

    /// Returns the API in which a request is sent.
    fn api_for(&self, prompt: &Prompt) -> &Dialect {
        match &self.for_responses {
            Some(native) if prompt.native.is_some() => native,
            _ => &self.for_chat,
        }
    }

    async fn attempt(
        &self,
        api: &Dialect,
        outgoing: &Outgoing,
        key: &Key,
        terms: Terms<'_>,
    ) -> Result<Response<'_>, ModelError> {
        let first_byte = Instant::now() + self.http.bounds.first_byte;
        let response = self.http.send(outgoing, key.credential(), first_byte).await?;
        let response = match api {
            Dialect::OpenAi(_) => {
                OpenAi::response(&self.http, response, outgoing.is_streamed, terms.held).await?
            }
            Dialect::Responses(_) => {
                Responses::response(&self.http, response, outgoing, terms).await?
            }
            Dialect::Anthropic(_) => {
                Anthropic::response(&self.http, response, outgoing, terms.held).await?
            }
        };
        match response {
            Response::Chunks(mut chunks) => {
                let begun = timeout_at(first_byte, chunks.begin()).await;
                begun.map_err(|_| self.http.is_silent(FIRST_BYTE))??;
                Ok(Response::Chunks(chunks))
            }
            whole @ Response::Whole(_) => Ok(whole),
        }
    }
}

impl Dialect {
    /// Returns a request as it is sent.
    async fn encode(
        &self,
        client: &exchange::Client,
        prompt: &Prompt,
        terms: Terms<'_>,
    ) -> Result<Outgoing, ModelError> {
        match self {
            Self::OpenAi(api) => api.encode(client, prompt, terms.is_streamed, terms.held),
            Self::Responses(api) => api.encode(client, prompt, terms, api.is_plain(prompt)).await,
            Self::Anthropic(api) => api.encode(client, prompt, terms.is_streamed, terms.held).await,
        }
    }
}

impl Key {
    fn credential(&self) -> Option<(HeaderName, HeaderValue)> {
        self.credential.clone()
    }
}

#[cfg(test)]
mod tests;
