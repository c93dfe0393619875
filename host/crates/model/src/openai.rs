//! OpenAI's chat completions, of OpenAI and of compatible services.

mod stream;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use self::stream::OpenAiChunks;
use super::{
    Charge, Document, ModelError, Object, Refusal, Response, Terms,
    address::{Addresses, Operation},
    backend::{Exchange, ModelFuture, ServiceApi},
    chat_reader::{ChatError, ChatReader},
    delta_stream::into_model_error,
    http::{self as service, Events, HttpClient, LIST, Outgoing, ServiceResponse},
    prompt::TargetApi,
    retry,
    signin::SignIn,
};

/// The API at one service.
#[derive(Debug)]
pub(super) struct OpenAi {
    addresses: Arc<dyn Addresses>,
}

impl OpenAi {
    pub(super) fn new(addresses: Arc<dyn Addresses>) -> Self {
        Self { addresses }
    }

    async fn receive(
        client: &HttpClient,
        response: ServiceResponse,
        held: &Charge,
    ) -> Result<Document, ModelError> {
        let retry_after = retry::read(response.headers());
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
    /// The text of a chat completion request is sent as it came.
    fn encode<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, Outgoing> {
        Box::pin(async move {
            let Exchange { client, terms, .. } = exchange;
            let uri = exchange.uri(&*self.addresses, Operation::ChatCompletions)?;
            client.outgoing(
                &uri,
                exchange.chat_text(TargetApi::Chat).await?,
                terms.is_streamed,
                terms.held,
            )
        })
    }

    fn decode<'a: 't, 't>(
        &'t self,
        client: &'a HttpClient,
        response: ServiceResponse,
        outgoing: &'t Outgoing,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        Box::pin(async move {
            if outgoing.is_streamed && service::is_stream(&response) {
                let events = Events::new(client, response, terms.held.beside());
                return Ok(Response::streamed(OpenAiChunks::new(events, &terms)));
            }
            let answer = Self::receive(client, response, terms.held).await?;
            let has_choices = answer.outlines().is_some()
                || answer.object().get("choices").is_some_and(Value::is_array);
            if !has_choices {
                return Err(client.bad_answer("no `choices`"));
            }
            let reply = ChatReader::whole(answer, &terms);
            reply.map(Response::Whole).map_err(|error| failure(error, terms.max_calls, client))
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
