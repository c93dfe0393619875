//! Client of a service with OpenAI's chat completions, or of a compatible one.

mod stream;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use http::{HeaderValue, StatusCode, header};
use reqwest::{Url, redirect};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use tracing::warn;

pub(super) use self::stream::Chunks;
use super::{
    BadProvider, Document, Held, MemoryBudget, ModelError, Object, Prompt, Refusal, Response,
    document::Unread, object,
};
use crate::{
    json::{self, Caps},
    secret::Secret,
    text::with_causes,
    tls,
};

/// Limits on the time and memory that a provider may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Time limit for a connection, TLS included.
    pub(super) connect: Duration,
    /// Time limit for the whole response. It is long, because reasoning models think for minutes.
    pub(super) answer: Duration,
    /// Time limit for the head of a streamed response, which many services send with their first
    /// chunk.
    pub(super) first_byte: Duration,
    /// Time limit for the next bytes of a stream, comments included.
    pub(super) idle: Duration,
    /// Time limit for the list of models.
    pub(super) list: Duration,
    /// Maximum bytes of a response.
    pub(super) answer_bytes: usize,
    /// Maximum bytes of one event of a stream.
    pub(super) event_bytes: usize,
    /// Maximum memory of a parsed response, in bytes.
    pub(super) answer_tree_bytes: usize,
}

const BOUNDS: Bounds = Bounds {
    connect: Duration::from_secs(10),
    answer: Duration::from_mins(10),
    first_byte: Duration::from_mins(10),
    idle: Duration::from_mins(3),
    list: Duration::from_secs(3),
    answer_bytes: 16 << 20,
    event_bytes: 4 << 20,
    answer_tree_bytes: 64 << 20,
};
/// Maximum bytes of a response that is parsed inline. A longer one is parsed on a thread for
/// blocking work.
const INLINE_BYTES: usize = 32 * 1024;
/// Time for which a list of models is cached, also the empty list of a provider that does not
/// respond.
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
    /// Limits parsing of long responses to the number of cores of the machine.
    parsers: Arc<Semaphore>,
}

/// The text of a response.
struct Body {
    text: Vec<u8>,
    /// The memory of `text`.
    _held: Held,
}

#[derive(Debug)]
struct Listed {
    at: Instant,
    models: Vec<Object>,
}

impl Client {
    pub(super) fn new(
        provider: &str,
        base_url: &str,
        api_key: Option<&Secret>,
    ) -> Result<Self, BadProvider> {
        Self::with_bounds(provider, base_url, api_key, BOUNDS)
    }

    pub(super) fn with_bounds(
        provider: &str,
        base_url: &str,
        api_key: Option<&Secret>,
        bounds: Bounds,
    ) -> Result<Self, BadProvider> {
        let base = parse_base(base_url).ok_or_else(|| BadProvider::BaseUrl {
            provider: provider.to_owned(),
            base_url: base_url.to_owned(),
        })?;
        let mut headers = http::HeaderMap::new();
        if let Some(key) = api_key {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let mut bearer =
                bearer.map_err(|_| BadProvider::Key { provider: provider.to_owned() })?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        // A redirect would send the conversation to an address that the operator did not configure,
        // and so would a proxy from the environment.
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
            parsers: Arc::new(Semaphore::new(
                std::thread::available_parallelism().map_or(1, usize::from),
            )),
        })
    }

    /// Sends a chat completion and returns the response. While this runs, the texts of the request
    /// and of the response are held in the same room as `held`; the response holds its own memory.
    pub(super) async fn respond(
        &self,
        prompt: &Prompt,
        is_streamed: bool,
        held: &Held,
    ) -> Result<Response<'_>, ModelError> {
        let text = prompt.to_json(if is_streamed { &[("stream", "true")] } else { &[] });
        let sent = held.beside();
        if !sent.grow(text.len()) {
            return Err(self.no_memory());
        }
        let request = self
            .http
            .post(self.completions.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(text)
            .timeout(self.bounds.answer);
        let sending = async { request.send().await.map_err(|error| self.trouble(error)) };
        let response = match is_streamed {
            true => {
                timeout(self.bounds.first_byte, sending).await.map_err(|_| self.is_silent())??
            }
            false => sending.await?,
        };
        drop(sent);
        if is_streamed && response.status().is_success() && !is_json(&response) {
            return Ok(Response::Chunks(super::Chunks::Http(Box::new(Chunks::new(
                self,
                response,
                held.beside(),
            )))));
        }
        let answer = self.receive(response, held).await?;
        match answer.object().get("choices") {
            Some(Value::Array(_)) => Ok(Response::Whole(answer)),
            _ => Err(self.bad_answer("no `choices`")),
        }
    }

    /// Returns the models of the service; an empty list if it does not respond.
    pub(super) async fn list(&self) -> Vec<Object> {
        if let Some(listed) = &*self.listed.load()
            && listed.at.elapsed() < LIST_AGE
        {
            return listed.models.clone();
        }
        let request = self.http.get(self.models.clone()).timeout(self.bounds.list);
        // The list is shared by all callers, so no caller is charged for it.
        let held = MemoryBudget::unlimited().hold();
        let models = match self
            .exchange(request, &held)
            .await
            .map(|answer| answer.into_object().remove("data"))
        {
            Ok(Some(Value::Array(models))) => models.into_iter().filter_map(into_model).collect(),
            Ok(_) => Vec::new(),
            Err(error) => {
                warn!(provider = %self.provider, error = %with_causes(&error), "models of a provider cannot be listed");
                Vec::new()
            }
        };
        self.listed.store(Some(Arc::new(Listed { at: Instant::now(), models: models.clone() })));
        models
    }

    async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
        held: &Held,
    ) -> Result<Document, ModelError> {
        let response = request.send().await.map_err(|error| self.trouble(error))?;
        self.receive(response, held).await
    }

    /// Receives a whole response. Fails if it is an error or not a JSON object.
    async fn receive(
        &self,
        response: reqwest::Response,
        held: &Held,
    ) -> Result<Document, ModelError> {
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        let body = self.read(response, held.beside()).await?;
        if matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        ) {
            return Err(ModelError::Credential { provider: self.provider.clone() });
        }
        let object = self.parse(self.without_key(body), held).await?;
        if status.is_success() {
            let object =
                object.ok_or_else(|| self.bad_answer("a body that is not a JSON object"))?;
            // Some services return an error with status 200.
            return match error_object(object.object()) {
                Some(error) => Err(self.refused(StatusCode::BAD_GATEWAY, error, retry_after)),
                None => Ok(object),
            };
        }
        if !status.is_client_error() && !status.is_server_error() {
            return Err(self.bad_answer("a redirect"));
        }
        let error = object
            .and_then(|object| error_object(object.object()))
            .unwrap_or_else(|| self.plain_error(status));
        Err(self.refused(status, error, retry_after))
    }

    async fn read(&self, mut response: reqwest::Response, held: Held) -> Result<Body, ModelError> {
        let (mut text, limit) = (Vec::new(), self.bounds.answer_bytes);
        while let Some(chunk) = response.chunk().await.map_err(|error| self.trouble(error))? {
            let len = text.len().saturating_add(chunk.len());
            if len > limit {
                return Err(self.bad_answer("a body that is larger than the gateway accepts"));
            }
            if !make_room(&mut text, len, limit, &held) {
                return Err(self.no_memory());
            }
            text.extend_from_slice(&chunk);
        }
        Ok(Body { text, _held: held })
    }

    /// Parses a response; `None` if it is not a JSON object. Fails if the tree would take too much
    /// memory.
    async fn parse(&self, body: Body, held: &Held) -> Result<Option<Document>, ModelError> {
        let caps = Caps::memory(self.bounds.answer_tree_bytes);
        let parse = move |body: Body, held: &Held| {
            let text = String::from_utf8(body.text).map_err(|_| Unread::NoObject)?;
            Document::read(text, &caps, held)
        };
        let parsed = if body.text.len() <= INLINE_BYTES {
            parse(body, held)
        } else {
            let permit =
                self.parsers.clone().acquire_owned().await.expect("the semaphore is never closed");
            // An account of its own, because the thread continues after the request is dropped.
            let held = held.beside();
            let parsing = spawn_blocking(move || {
                let _permit = permit;
                parse(body, &held)
            });
            parsing.await.map_err(|_| self.bad_answer("a body that cannot be parsed"))?
        };
        match parsed {
            Ok(document) => Ok(Some(document)),
            Err(Unread::Dense(error)) => Err(self.dense(&error)),
            Err(Unread::NoMemory) => Err(self.no_memory()),
            Err(Unread::NoObject) => Ok(None),
        }
    }

    /// Redacts the API key if a service sends it back.
    fn without_key(&self, mut body: Body) -> Body {
        if let Some(key) = self.key()
            && let Ok(text) = std::str::from_utf8(&body.text)
            && text.contains(key)
        {
            body.text = text.replace(key, "***").into_bytes();
        }
        body
    }

    /// Redacts the API key in one event of a stream. A key that is spread over events is not found.
    fn without_key_in(&self, data: String) -> String {
        match self.key() {
            Some(key) if data.contains(key) => data.replace(key, "***"),
            _ => data,
        }
    }

    fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(Secret::expose).filter(|key| !key.is_empty())
    }

    /// Converts an error of the transport. The URL is removed, because it may hold more than a
    /// client should know.
    fn trouble(&self, error: reqwest::Error) -> ModelError {
        let provider = self.provider.clone();
        let cause = error.without_url();
        if cause.is_timeout() {
            ModelError::Timeout { provider, cause }
        } else {
            ModelError::Unreachable { provider, cause }
        }
    }

    fn refused(
        &self,
        status: StatusCode,
        error: Object,
        retry_after: Option<HeaderValue>,
    ) -> ModelError {
        let refusal = Box::new(Refusal { status, error, retry_after });
        ModelError::Refused { provider: self.provider.clone(), refusal }
    }

    /// The service sent nothing for too long.
    fn is_silent(&self) -> ModelError {
        ModelError::Silent { provider: self.provider.clone() }
    }

    fn dense(&self, error: &json::Error) -> ModelError {
        warn!(provider = %self.provider, %error, "an answer of a provider was refused");
        self.bad_answer("JSON that needs more memory than the gateway permits")
    }

    fn no_memory(&self) -> ModelError {
        warn!(provider = %self.provider, "an exchange with a provider does not fit into the memory of requests");
        ModelError::NoMemory { provider: self.provider.clone() }
    }

    fn bad_answer(&self, what: &'static str) -> ModelError {
        ModelError::BadAnswer { provider: self.provider.clone(), what }
    }

    /// Returns the error object for a response that has only a status.
    fn plain_error(&self, status: StatusCode) -> Object {
        let message =
            format!("provider '{}' answered with status {}", self.provider, status.as_u16());
        let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
        object(json!({"message": message, "type": kind, "param": null, "code": "provider_error"}))
    }
}

/// Lets `text` grow to `len` bytes, and doubles its capacity up to `most`. Returns false if there
/// is no room. `held` grows by what is allocated.
fn make_room(text: &mut Vec<u8>, len: usize, most: usize, held: &Held) -> bool {
    let capacity = text.capacity();
    if len > capacity {
        let wanted = len.max(capacity.saturating_mul(2).min(most));
        if !held.grow(wanted - capacity) {
            return false;
        }
        text.reserve_exact(wanted - text.len());
    }
    true
}

/// Returns whether a response is JSON, and so no stream: some services do not stream.
fn is_json(response: &reqwest::Response) -> bool {
    let found = response.headers().get(header::CONTENT_TYPE).and_then(|found| found.to_str().ok());
    found.is_some_and(|found| {
        let essence = found.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    })
}

fn parse_base(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    (matches!(url.scheme(), "http" | "https") && is_plain).then_some(url)
}

fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// Returns the `error` of a response, if OpenAI's clients can read it.
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
