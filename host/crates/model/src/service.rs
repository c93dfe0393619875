//! Client of one service: its API, its keys and its attempts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::{
    BadProvider, ModelError, Prompt, Response, Terms,
    address::addresses,
    anthropic::Anthropic,
    backend::{Backend, Exchange, ModelFuture, ServiceApi},
    gemini::Gemini,
    http::{EncodedRequest, FIRST_BYTE, HttpClient, ServiceBounds},
    keys::{Random, ServiceKey, ServiceKeys},
    listing::ModelList,
    openai::OpenAi,
    responses::ResponsesApi,
    retry::Attempts,
    settings::{Api, Apis, Hosting, Retries, Service},
    signin::sign_in,
    trace::{AttemptSpan, TracedService},
    work::ProviderWork,
};
use airlock_conversation::{Object, Wire};
use airlock_core::memory::MemoryBudget;
use airlock_json::{object, raw};
use airlock_strings::with_causes;
use airlock_telemetry::TraceFuture as _;

/// A client of one service.
#[derive(Debug)]
pub(super) struct ServiceClient {
    http: HttpClient,
    traced: TracedService,
    /// True if the service reads images in the results of tools.
    reads_images: bool,
    /// API in which chat completion requests are sent.
    for_chat: Box<dyn ServiceApi>,
    /// API in which requests of the Responses API are sent; `None` if it is the same.
    for_responses: Option<Box<dyn ServiceApi>>,
    /// The host's own names of models, as JSON texts, by the names that requests have.
    deployments: BTreeMap<String, String>,
    /// Models that are listed without a request; `None` if the service is asked.
    listed: Option<Vec<Object>>,
    keys: ServiceKeys,
    retries: Retries,
    random: Random,
    listing: ModelList,
    /// Requests that were repeated.
    retried: Counter,
}

impl ServiceClient {
    pub(super) fn new(provider: &str, service: &Service) -> Result<Self, BadProvider> {
        Self::with_bounds(provider, service, ServiceBounds::new(service))
    }

    pub(super) fn with_bounds(
        provider: &str,
        service: &Service,
        bounds: ServiceBounds,
    ) -> Result<Self, BadProvider> {
        let addresses = addresses(provider, service)?;
        let (for_chat, for_responses): (Box<dyn ServiceApi>, Option<Box<dyn ServiceApi>>) =
            match (service.api, service.apis) {
                (Api::OpenAi, Apis::Chat) => (Box::new(OpenAi::new(addresses.clone())), None),
                (Api::OpenAi, Apis::Both) => (
                    Box::new(OpenAi::new(addresses.clone())),
                    Some(Box::new(ResponsesApi::new(addresses.clone()))),
                ),
                (Api::OpenAi, Apis::Responses) => {
                    (Box::new(ResponsesApi::new(addresses.clone())), None)
                }
                (Api::Anthropic, _) => (Box::new(Anthropic::new(addresses.clone(), service)), None),
                (Api::Gemini, _) => (Box::new(Gemini::new(addresses.clone())), None),
            };
        let keys = ServiceKeys::new(&service.keys, |key| sign_in(provider, service, key))?;
        let deployments = service.deployments.iter();
        let deployments =
            deployments.map(|(model, own)| (model.clone(), Value::from(own.as_str()).to_string()));
        Ok(Self {
            http: HttpClient::new(provider, service, bounds)?,
            traced: TracedService::new(service),
            reads_images: service.images_in_tool_results,
            for_chat,
            for_responses,
            deployments: deployments.collect(),
            listed: (service.hosting != Hosting::Vendor).then(|| configured_models(service)),
            keys,
            retries: service.retries,
            random: Random::new(),
            listing: ModelList::new(),
            retried: Counter::default(),
        })
    }

    /// Sets the counter of requests that are repeated.
    pub(super) fn counting(self, retried: Counter) -> Self {
        Self { retried, ..self }
    }

    /// Sends a request, and repeats it as the settings permit if it fails before its response has
    /// begun: of a stream, before the first chunk. Returns the last error. While this runs, memory
    /// for the text of the request is held; the response holds its own memory.
    async fn send(&self, prompt: &Prompt, terms: Terms<'_>) -> Result<Response<'_>, ModelError> {
        let model = prompt.body.get("model").and_then(raw::string).unwrap_or_default();
        let provider = self.http.provider.as_str();
        let keys = self.keys.serving(&model);
        let attempts = Attempts::new(provider, keys, &self.retries, &self.random, terms.deadline);
        let mut attempts = attempts.ok_or_else(|| ModelError::NoKey {
            provider: provider.to_owned(),
            model: airlock_strings::cut(model.to_string(), 128),
        })?;
        let api = self.api_for(prompt);
        let own_name = self.deployments.get(&*model).map(String::as_str);
        let exchange = Exchange { client: &self.http, prompt, model: own_name, terms };
        let mut outgoing = api.encode(exchange).await?;
        let mut number = 0;
        loop {
            number += 1;
            let span = AttemptSpan::begin(provider, Some(&self.traced), prompt, terms.is_streamed);
            let span = span.numbered(number);
            let attempting = self.attempt(api, &outgoing, attempts.key(), terms);
            let attempted = attempting.in_span(span.span()).await;
            let error = match Response::traced(attempted, span) {
                Ok(response) => {
                    if outgoing.is_plain {
                        api.note_plain(prompt);
                    } else {
                        api.note_option(prompt);
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            if let Some(observer) = terms.observer {
                observer.failed(provider, &with_causes(&error));
            }
            if !outgoing.is_plain && api.is_about_option(prompt, &error) {
                outgoing = api.encode_plain(exchange).await?;
                continue;
            }
            let Some(wait) = attempts.after(&error) else { return Err(error) };
            self.retried.inc();
            sleep(wait).await;
        }
    }

    /// Returns the models of the service that its keys serve; nothing if it does not respond.
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
        if let Some(listed) = &self.listed {
            return Ok(listed.clone());
        }
        // The list is shared by all callers, so no caller is charged for it. Its size is bounded.
        let held = MemoryBudget::unlimited().charge();
        let sign_in = self.keys.first().and_then(|key| key.sign_in.as_deref());
        self.for_chat.list(&self.http, sign_in, &held).await
    }

    /// Returns the API in which a request is sent.
    fn api_for(&self, prompt: &Prompt) -> &dyn ServiceApi {
        match &self.for_responses {
            Some(native) if prompt.wire == Wire::Responses => native.as_ref(),
            _ => self.for_chat.as_ref(),
        }
    }

    async fn attempt(
        &self,
        api: &dyn ServiceApi,
        outgoing: &EncodedRequest,
        key: &ServiceKey,
        terms: Terms<'_>,
    ) -> Result<Response<'_>, ModelError> {
        if let Some(observer) = terms.observer {
            observer.begun();
        }
        let before = terms.work.is_some_and(ProviderWork::begin);
        let attempted = self.exchange(api, outgoing, key, terms).await;
        if let Some(work) = terms.work
            && attempted.as_ref().is_err_and(ModelError::is_before_work)
        {
            work.take_back(before);
        }
        attempted
    }

    async fn exchange(
        &self,
        api: &dyn ServiceApi,
        outgoing: &EncodedRequest,
        key: &ServiceKey,
        terms: Terms<'_>,
    ) -> Result<Response<'_>, ModelError> {
        let first_byte = Instant::now() + self.http.bounds.first_byte;
        let sign_in = key.sign_in.as_deref();
        let response = self.http.send(outgoing, sign_in, first_byte, terms.observer).await?;
        match api.decode(&self.http, response, outgoing, terms).await? {
            Response::Chunks(mut chunks) => {
                let begun = timeout_at(first_byte, chunks.begin()).await;
                begun.map_err(|_| self.http.is_silent(FIRST_BYTE))??;
                Ok(Response::Chunks(chunks))
            }
            whole @ Response::Whole(_) => Ok(whole),
        }
    }
}

impl Backend for ServiceClient {
    fn respond<'a: 't, 't>(
        &'a self,
        prompt: &'t Prompt,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        self.send(prompt, terms).boxed()
    }

    fn name_of<'m>(&'m self, model: &'m str) -> &'m str {
        if self.deployments.is_empty() || self.deployments.contains_key(model) {
            return model;
        }
        let own = Value::from(model).to_string();
        let mut deployed = self.deployments.iter();
        let found = deployed.find(|(_, deployment)| deployment.eq_ignore_ascii_case(&own));
        found.map_or(model, |(name, _)| name.as_str())
    }

    fn list(&self) -> BoxFuture<'_, Arc<str>> {
        self.listing.get(&self.http.provider, self.served()).boxed()
    }

    fn has_responses(&self) -> bool {
        self.for_responses.is_some() || self.for_chat.is_responses()
    }

    fn has_messages(&self) -> bool {
        self.for_chat.is_messages()
    }

    fn reads_images(&self) -> bool {
        self.reads_images
    }
}

/// Returns the models that the settings name, in OpenAI's form. The lists of clouds have every model that
/// an account could deploy, under other names than those of its deployments.
fn configured_models(service: &Service) -> Vec<Object> {
    let of_keys = service.keys.iter().filter_map(|key| key.models.as_ref()).flatten();
    let names: BTreeSet<_> = service.deployments.keys().chain(of_keys).collect();
    let models = names.into_iter().map(|name| {
        object(json!({"id": name, "object": "model", "created": 0, "owned_by": "operator"}))
    });
    models.collect()
}

#[cfg(test)]
mod tests;
