//! Anthropic's Messages API. Requests and responses are translated from and to chat completions.
//! This file does the exchange; the crate `airlock-conversation` knows the two formats.

mod betas;
#[cfg(test)]
mod recorded;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::{
    Response, Service, Terms,
    address::{Addresses, HostedMessages, Operation},
    backend::{Exchange, ModelFuture, ServiceApi},
    delta_stream,
    http::{self as service, EncodedRequest, HttpClient, LIST, ServiceResponse, SignIn},
    translation,
};
use airlock_conversation::{
    Conversation, Object,
    messages::{self, ReplyReader},
    read::Untranslatable,
};
use airlock_core::memory::Charge;
use airlock_json::object;

/// Value of the header `anthropic-version` for which requests are written. It is the last version
/// with `temperature`, `top_p` and `top_k`, which many chat clients send: version 2026-10-21 refuses
/// even their defaults.
const API_VERSION: &str = "2023-06-01";
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// The API at one service, and its configured beta features.
#[derive(Debug)]
pub(super) struct Anthropic {
    addresses: Arc<dyn Addresses>,
    /// The configured header `anthropic-beta`, to which a request adds its own.
    betas: Option<String>,
}

/// A request of the Messages API.
struct MessagesRequest {
    body: Vec<u8>,
    /// Features that the request asks for, for the header `anthropic-beta`.
    betas: Option<String>,
}

impl Anthropic {
    pub(super) fn new(addresses: Arc<dyn Addresses>, service: &Service) -> Self {
        let betas = service.headers.iter().find(|(name, _)| BETA == name.as_str());
        let betas = betas.map(|(_, value)| value.expose().to_owned());
        Self { addresses, betas }
    }

    fn headers(&self, betas: Option<String>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.addresses.messages().is_none() {
            headers.insert(VERSION, HeaderValue::from_static(API_VERSION));
        }
        let betas: Vec<_> = self.betas.iter().cloned().chain(betas).collect();
        if !betas.is_empty()
            && let Ok(value) = HeaderValue::try_from(betas.join(","))
        {
            headers.insert(BETA, value);
        }
        headers
    }
}

impl ServiceApi for Anthropic {
    fn is_messages(&self) -> bool {
        true
    }

    fn encode<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        Box::pin(async move {
            let Exchange { client, prompt, terms: Terms { is_streamed, held, .. }, .. } = exchange;
            let uri = exchange.uri(&*self.addresses, Operation::Messages)?;
            let hosted = self.addresses.messages().map(|hosted| (hosted, self.betas.clone()));
            let model = exchange.model().into_owned();
            let written = translation::for_anthropic(prompt, held, move |mut conversation| {
                conversation.model = model;
                conversation.settings.stream = is_streamed;
                write(conversation, hosted)
            });
            let MessagesRequest { body, betas } =
                written.await.map_err(|error| error.into_model_error(client))?;
            let mut outgoing = client.outgoing(uri, body, is_streamed, held)?;
            outgoing.headers = self.headers(betas);
            Ok(outgoing)
        })
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
        Box::pin(async move {
            let models = self.addresses.below("models?limit=1000");
            let response = client.get(&models, &self.headers(None), sign_in).await?;
            let list = client.receive_within(LIST, response, error_of, held).await?;
            Ok(service::listed(list).into_iter().map(|model| to_model(&model)).collect())
        })
    }
}

/// Writes a request. `hosted` is the form at another host than Anthropic's own, with the configured beta
/// features.
fn write(
    conversation: Conversation,
    hosted: Option<(HostedMessages, Option<String>)>,
) -> Result<MessagesRequest, Untranslatable> {
    let mut message = messages::write_request(conversation)?;
    let mut betas = betas::take(&mut message)?;
    if let Some((hosted, configured)) = hosted {
        hosted.apply(&mut message, configured.as_deref(), &mut betas);
    }
    let body = serde_json::to_vec(&message).expect("an object can be written");
    Ok(MessagesRequest { body, betas })
}

fn error_of(_: &HttpClient, status: StatusCode, body: Option<&Object>) -> Object {
    messages::to_error(status.as_u16(), body.and_then(service::error_message), body)
}

/// Returns a model of Anthropic's list in the form of OpenAI's.
fn to_model(model: &Object) -> Object {
    let created = model.get("created_at").and_then(Value::as_str);
    let created = created.and_then(|text| humantime::parse_rfc3339(text).ok());
    let mut listed = object(json!({
        "id": model.get("id"),
        "object": "model",
        "created": created.map_or(0, seconds_since_1970),
        "owned_by": "anthropic",
    }));
    if let Some(name @ Value::String(_)) = model.get("display_name") {
        listed.insert("display_name".to_owned(), name.clone());
    }
    listed
}

fn seconds_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
