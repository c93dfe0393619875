//! Gemini's API of `generateContent`. Responses are translated to chat completions. This file does the
//! exchange; the crate `airlock-conversation` knows the formats.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};

use super::{
    Document, ModelError, Response, Terms,
    address::Addresses,
    backend::{Exchange, ModelFuture, ServiceApi},
    delta_stream,
    http::{self as service, EncodedRequest, HttpClient, LIST, ServiceResponse, SignIn},
    translation,
};
use crate::backend::MAX_MODEL_BYTES;
use airlock_conversation::{
    Conversation, Object, ReplyError,
    gemini::{self, ReplyReader},
    read::{Path, Untranslatable},
};
use airlock_core::{memory::Charge, model_control::ServiceTier};
use airlock_json::object;

/// Folder of models in the paths of the API, which names can have.
const MODELS: &str = "models";
/// Method that a listed model must have.
const GENERATE: &str = "generateContent";
/// Header of a response with the tier of service that was used, which may be another one than was asked for
/// (ai.google.dev, "Priority inference").
const SERVED_TIER: &str = "x-gemini-service-tier";

/// The API at one service.
#[derive(Debug)]
pub(super) struct Gemini {
    addresses: Arc<dyn Addresses>,
}

/// A request of `generateContent`.
struct GeminiRequest {
    /// Path of the model below the base URL.
    path: String,
    body: Vec<u8>,
}

impl Gemini {
    pub(super) fn new(addresses: Arc<dyn Addresses>) -> Self {
        Self { addresses }
    }

    /// Returns the address for a request.
    fn uri(&self, path: &str, is_streamed: bool) -> Uri {
        if is_streamed {
            // Without the query, the stream is one JSON list.
            self.addresses.below(&format!("{path}:streamGenerateContent?alt=sse"))
        } else {
            self.addresses.below(&format!("{path}:{GENERATE}"))
        }
    }
}

impl ServiceApi for Gemini {
    fn encode<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        Box::pin(async move {
            let Exchange { client, prompt, terms, .. } = exchange;
            let Terms { is_streamed, held, .. } = terms;
            let model = exchange.model().into_owned();
            let written = translation::with_rounds(prompt, held, move |conversation| {
                write(Conversation { model, ..conversation })
            });
            let GeminiRequest { path, body } =
                written.await.map_err(|error| error.into_model_error(client))?;
            let uri = self.uri(&path, is_streamed);
            client.outgoing(uri, body, is_streamed, held)
        })
    }

    fn decode<'a: 't, 't>(
        &'t self,
        client: &'a HttpClient,
        response: ServiceResponse,
        outgoing: &'t EncodedRequest,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        Box::pin(async move {
            let reader = ReplyReader::with_tier(served_tier(response.headers()));
            let held = terms.held;
            let decoded =
                delta_stream::decode(client, response, outgoing, error_of, held, reader).await;
            decoded.map_err(|error| with_credential(client, error))
        })
    }

    fn list<'a>(
        &'a self,
        client: &'a HttpClient,
        sign_in: Option<&'a dyn SignIn>,
        held: &'a Charge,
    ) -> ModelFuture<'a, Vec<Object>> {
        Box::pin(async move {
            let uri = self.addresses.below(&format!("{MODELS}?pageSize=1000"));
            let response = client.get(&uri, &HeaderMap::new(), sign_in).await?;
            let list = client.receive_within(LIST, response, error_of, held).await;
            Ok(listed(&list.map_err(|error| with_credential(client, error))?))
        })
    }
}

fn write(conversation: Conversation) -> Result<GeminiRequest, Untranslatable> {
    let path = path_of(&conversation.model)?;
    let request = gemini::write_request(conversation)?;
    let body = serde_json::to_vec(&request).expect("an object can be written");
    Ok(GeminiRequest { path, body })
}

/// Returns the path of a model below the base URL. The name is the caller's, so it must not reach
/// another address of the service.
fn path_of(model: &str) -> Result<String, Untranslatable> {
    let (folder, name) = match model.split_once('/') {
        Some((folder @ (MODELS | "tunedModels"), name)) => (folder, name),
        _ => (MODELS, model),
    };
    if !(1..=MAX_MODEL_BYTES).contains(&name.len()) || !name.bytes().all(is_name_byte) {
        let rule =
            "it must be the name of a Gemini model, with letters, digits, `-`, `_`, `.` or `@`.";
        return Err(Untranslatable::invalid(&Path::Root.member("model"), rule));
    }
    Ok(format!("{folder}/{name}"))
}

fn is_name_byte(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"-_.@".contains(&c)
}

fn error_of(client: &HttpClient, status: StatusCode, body: Option<&Object>) -> Object {
    match body.and_then(gemini::read_error) {
        Some(ReplyError::Reported { error, .. }) => error,
        _ => client.plain_error(status, body.and_then(service::error_message)),
    }
}

/// Returns the tier of service that the head of a response names, in the words of OpenAI's API; `None` if it names none
/// that prices know.
fn served_tier(headers: &HeaderMap) -> Option<String> {
    let named = headers.get(SERVED_TIER)?.to_str().ok()?;
    let name = match ServiceTier::parse(named)? {
        ServiceTier::Standard => "default",
        ServiceTier::Flex => "flex",
        ServiceTier::Priority => "priority",
    };
    Some(name.to_owned())
}

/// Returns the error of a key that is not valid as one of the credential: Gemini reports it with the
/// status 400, like an error of the request.
fn with_credential(client: &HttpClient, error: ModelError) -> ModelError {
    match error {
        ModelError::Refused { mut refusal, .. }
            if refusal.error.get("code").is_some_and(|code| code == gemini::INVALID_KEY) =>
        {
            refusal.status = StatusCode::UNAUTHORIZED;
            client.refused(*refusal)
        }
        other => other,
    }
}

/// Returns the models of a list that generate content, in the form of OpenAI's.
fn listed(list: &Document) -> Vec<Object> {
    let models = list.object().get(MODELS).and_then(Value::as_array);
    models.into_iter().flatten().filter_map(to_model).collect()
}

fn to_model(model: &Value) -> Option<Object> {
    let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
    if methods.is_some_and(|methods| !methods.iter().any(|method| method == GENERATE)) {
        return None;
    }
    let name = model.get("name")?.as_str()?;
    let id = name.strip_prefix("models/").unwrap_or(name);
    let mut listed =
        object(json!({"id": id, "object": "model", "created": 0, "owned_by": "google"}));
    if let Some(name @ Value::String(_)) = model.get("displayName") {
        listed.insert("display_name".to_owned(), name.clone());
    }
    Some(listed)
}

#[cfg(test)]
mod tests;
