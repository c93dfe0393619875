//! A service with OpenAI's chat completions, or one that speaks like it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use http::{HeaderValue, StatusCode, header};
use reqwest::{Response, Url, redirect};
use serde_json::{Value, json};
use tracing::warn;

use super::{BadProvider, ModelError, Object, Prompt, Refusal, causes, object};
use crate::{
    json::{self, Caps},
    secret::Secret,
    tls,
};

/// How far a provider is trusted with the gateway's time and memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Time to a connection, TLS included.
    pub(super) connect: Duration,
    /// Time to the whole answer. Long: reasoning models think for minutes.
    pub(super) answer: Duration,
    /// Time to the list of models.
    pub(super) list: Duration,
    /// Largest answer.
    pub(super) answer_bytes: usize,
    /// Memory that an answer may take when parsed, in bytes.
    pub(super) answer_tree_bytes: usize,
}

const BOUNDS: Bounds = Bounds {
    connect: Duration::from_secs(10),
    answer: Duration::from_mins(10),
    list: Duration::from_secs(3),
    answer_bytes: 16 << 20,
    answer_tree_bytes: 64 << 20,
};
/// An answer beyond this is parsed on a thread for blocking work.
const INLINE_BYTES: usize = 32 * 1024;
/// How long a list of models is used, an empty one of a dead provider included.
const LIST_AGE: Duration = Duration::from_mins(1);

/// A client of one service.
#[derive(Debug)]
pub(super) struct Client {
    provider: String,
    http: reqwest::Client,
    completions: Url,
    models: Url,
    api_key: Option<Secret>,
    bounds: Bounds,
    listed: ArcSwapOption<Listed>,
}

#[derive(Debug)]
struct Listed {
    at: Instant,
    models: Vec<Object>,
}

impl Client {
    pub(super) fn new(provider: &str, base_url: &str, api_key: Option<&Secret>) -> Result<Self, BadProvider> {
        Self::with_bounds(provider, base_url, api_key, BOUNDS)
    }

    pub(super) fn with_bounds(
        provider: &str,
        base_url: &str,
        api_key: Option<&Secret>,
        bounds: Bounds,
    ) -> Result<Self, BadProvider> {
        let base = parse_base(base_url)
            .ok_or_else(|| BadProvider::BaseUrl { provider: provider.to_owned(), base_url: base_url.to_owned() })?;
        let mut headers = http::HeaderMap::new();
        if let Some(key) = api_key {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let mut bearer = bearer.map_err(|_| BadProvider::Key { provider: provider.to_owned() })?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        // A redirect would carry the conversation to an address that no operator wrote down, and so would a proxy taken
        // from the environment.
        let http = tls::client()
            .default_headers(headers)
            .user_agent(concat!("airlock/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(bounds.connect)
            .build()
            .map_err(|cause| BadProvider::Client { provider: provider.to_owned(), cause })?;
        Ok(Self {
            provider: provider.to_owned(),
            http,
            completions: below(&base, "chat/completions"),
            models: below(&base, "models"),
            api_key: api_key.cloned(),
            bounds,
            listed: ArcSwapOption::empty(),
        })
    }

    pub(super) async fn complete(&self, prompt: &Prompt) -> Result<Object, ModelError> {
        let request = self.http.post(self.completions.clone()).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(prompt.to_json()).timeout(self.bounds.answer);
        let answer = self.exchange(request).await?;
        match answer.get("choices") {
            Some(Value::Array(_)) => Ok(answer),
            _ => Err(self.bad_answer("no `choices`")),
        }
    }

    /// The models of the service; none while it does not answer.
    pub(super) async fn list(&self) -> Vec<Object> {
        if let Some(listed) = &*self.listed.load()
            && listed.at.elapsed() < LIST_AGE
        {
            return listed.models.clone();
        }
        let request = self.http.get(self.models.clone()).timeout(self.bounds.list);
        let models = match self.exchange(request).await.map(|mut answer| answer.remove("data")) {
            Ok(Some(Value::Array(models))) => models.into_iter().filter_map(into_model).collect(),
            Ok(_) => Vec::new(),
            Err(error) => {
                warn!(provider = %self.provider, error = %causes(&error), "models of a provider cannot be listed");
                Vec::new()
            }
        };
        self.listed.store(Some(Arc::new(Listed { at: Instant::now(), models: models.clone() })));
        models
    }

    /// Sends a request and takes in the answer, an object if all is well.
    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<Object, ModelError> {
        let response = request.send().await.map_err(|error| self.trouble(error))?;
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        let body = self.read(response).await?;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            return Err(ModelError::Credential { provider: self.provider.clone() });
        }
        let object = self.parse(self.without_key(body)).await?;
        if status.is_success() {
            let object = object.ok_or_else(|| self.bad_answer("something that is no JSON object"))?;
            // Some services answer 200 and mean an error.
            return match error_object(&object) {
                Some(error) => Err(self.refused(StatusCode::BAD_GATEWAY, error, retry_after)),
                None => Ok(object),
            };
        }
        if !status.is_client_error() && !status.is_server_error() {
            return Err(self.bad_answer("a redirect"));
        }
        let error = object.as_ref().and_then(error_object).unwrap_or_else(|| self.plain_error(status));
        Err(self.refused(status, error, retry_after))
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.trouble(error))? {
            if body.len() + chunk.len() > self.bounds.answer_bytes {
                return Err(self.bad_answer("more than the gateway takes in"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Parses an answer; `None` if it is no JSON object. Fails if that would take too much memory.
    async fn parse(&self, body: Vec<u8>) -> Result<Option<Object>, ModelError> {
        let caps = Caps::memory(self.bounds.answer_tree_bytes);
        let parsed = if body.len() <= INLINE_BYTES {
            json::parse(&body, &caps)
        } else {
            let parsing = tokio::task::spawn_blocking(move || json::parse(&body, &caps)).await;
            parsing.map_err(|_| self.bad_answer("something that cannot be parsed"))?
        };
        match parsed {
            Ok((object, _)) => Ok(Some(object)),
            Err(error) if error.is_cap() => {
                warn!(provider = %self.provider, %error, "an answer of a provider was refused");
                Err(self.bad_answer("JSON that takes more memory than the gateway gives it"))
            }
            Err(_) => Ok(None),
        }
    }

    /// Blots out the key where a service sends it back.
    fn without_key(&self, body: Vec<u8>) -> Vec<u8> {
        let Some(key) = self.api_key.as_ref().map(Secret::expose).filter(|key| !key.is_empty()) else { return body };
        match std::str::from_utf8(&body) {
            Ok(text) if text.contains(key) => text.replace(key, "***").into_bytes(),
            _ => body,
        }
    }

    /// What went wrong on the way. The address may hold more than a client should know, so it is taken off.
    fn trouble(&self, error: reqwest::Error) -> ModelError {
        let provider = self.provider.clone();
        let cause = error.without_url();
        if cause.is_timeout() { ModelError::Timeout { provider, cause } } else { ModelError::Unreachable { provider, cause } }
    }

    fn refused(&self, status: StatusCode, error: Object, retry_after: Option<HeaderValue>) -> ModelError {
        let refusal = Box::new(Refusal { status, error, retry_after });
        ModelError::Refused { provider: self.provider.clone(), refusal }
    }

    fn bad_answer(&self, what: &'static str) -> ModelError {
        ModelError::BadAnswer { provider: self.provider.clone(), what }
    }

    /// The error of a service that gave only a status.
    fn plain_error(&self, status: StatusCode) -> Object {
        let message = format!("provider '{}' answered with status {}", self.provider, status.as_u16());
        let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
        object(json!({"message": message, "type": kind, "param": null, "code": "provider_error"}))
    }
}

fn parse_base(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    (matches!(url.scheme(), "http" | "https") && is_plain).then_some(url)
}

fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// The `error` of an answer, if it is one that OpenAI's clients can read.
fn error_object(answer: &Object) -> Option<Object> {
    let error = answer.get("error")?.as_object()?;
    error.get("message")?.is_string().then(|| error.clone())
}

fn into_model(value: Value) -> Option<Object> {
    match value {
        Value::Object(model) if model.get("id").is_some_and(Value::is_string) => Some(model),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
