//! OpenAI's chat completions, of OpenAI and of compatible services.

mod stream;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::Url;
use serde_json::Value;

pub(super) use self::stream::Chunks;
use super::{
    Document, Held, ModelError, Object, Prompt, Refusal, Response, Source,
    http::{self as service, Client, Events, LIST_SIZES, Outgoing, below},
    retry,
};

/// Addresses of one service.
#[derive(Debug)]
pub(super) struct OpenAi {
    completions: Url,
    models: Url,
}

impl OpenAi {
    pub(super) fn new(base: &Url) -> Self {
        Self { completions: below(base, "chat/completions"), models: below(base, "models") }
    }

    /// Returns the header that carries a key; `None` if it cannot be sent.
    pub(super) fn credential(key: &str) -> Option<(HeaderName, HeaderValue)> {
        let bearer = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
        Some((header::AUTHORIZATION, bearer))
    }

    /// Returns a request as it is sent, with the caller's text. Its memory is held until it is
    /// dropped.
    pub(super) fn encode(
        &self,
        client: &Client,
        prompt: &Prompt,
        is_streamed: bool,
        held: &Held,
    ) -> Result<Outgoing, ModelError> {
        let text = prompt.to_json(if is_streamed { &[("stream", "true")] } else { &[] });
        client.outgoing(&self.completions, text, is_streamed, held)
    }

    /// Reads the response to a request. Fails if it is an error or has no `choices`. Of a stream,
    /// only the head is read.
    pub(super) async fn response<'a>(
        client: &'a Client,
        response: reqwest::Response,
        is_streamed: bool,
        held: &Held,
    ) -> Result<Response<'a>, ModelError> {
        if is_streamed && response.status().is_success() && !service::is_json(&response) {
            let chunks = Chunks::new(Events::new(client, response, held.beside()));
            return Ok(Response::Chunks(Source::OpenAi(Box::new(chunks)).into()));
        }
        let answer = Self::receive(client, response, held).await?;
        match answer.object().get("choices") {
            Some(Value::Array(_)) => Ok(Response::Whole(answer)),
            _ => Err(client.bad_answer("no `choices`")),
        }
    }

    /// Returns the models of the service.
    pub(super) async fn list(
        &self,
        client: &Client,
        credential: Option<(HeaderName, HeaderValue)>,
        held: &Held,
    ) -> Result<Vec<Object>, ModelError> {
        let response = client.get(&self.models, HeaderMap::new(), credential).await?;
        Ok(service::listed(client.receive_within(LIST_SIZES, response, error_of, held).await?))
    }

    async fn receive(
        client: &Client,
        response: reqwest::Response,
        held: &Held,
    ) -> Result<Document, ModelError> {
        let retry_after = retry::read(response.headers());
        let answer = client.receive(response, error_of, held).await?;
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

fn error_of(client: &Client, status: StatusCode, body: Option<&Object>) -> Object {
    body.and_then(own_error)
        .unwrap_or_else(|| client.plain_error(status, body.and_then(service::said)))
}

/// Returns the `error` of a response; `None` unless it is an object with a `message`, as OpenAI's
/// clients require.
fn own_error(answer: &Object) -> Option<Object> {
    let error = answer.get("error")?.as_object()?;
    error.get("message")?.is_string().then(|| error.clone())
}

#[cfg(test)]
mod tests;
