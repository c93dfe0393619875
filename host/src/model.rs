//! Sends chat completions to model providers.
//!
//! A request names its provider in `model`, as `NAME/model`. Requests and responses are the JSON
//! objects of OpenAI's chat completions. They stay as they are, with all members that this module
//! does not know. The module adds the tools that it is given and does not know who may call them:
//! that is the part of the [`agent`](crate::agent).

mod anthropic;
mod budget;
pub(crate) mod document;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod http;
mod keys;
mod merge;
mod native;
mod openai;
mod part;
mod prompt;
mod repair;
mod responses;
mod retry;
mod route;
mod scripted;
mod service;
mod settings;
mod sse;
mod translation;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Map, Value};

#[cfg(test)]
pub(crate) use self::budget::tests::Limited;
pub(crate) use self::{
    budget::Held, error::SOON, merge::Merged, part::Part, repair::Calls, route::Route,
    service::Terms,
};
pub use self::{
    budget::{MemoryBudget, RequestMemory},
    document::Document,
    error::{BadProvider, ModelError, Refusal},
    native::Native,
    prompt::Prompt,
    scripted::BadScript,
    settings::{Api, Apis, Key, Kind, MAX_FALLBACKS, Retries, Service, Settings, Timeouts},
};

/// A JSON object of the API, its members in the order in which they came.
pub type Object = Map<String, Value>;

/// Every configured provider.
#[derive(Debug, Default)]
pub struct Models {
    providers: Vec<Provider>,
}

/// One provider, ready for requests.
#[derive(Debug)]
pub(crate) struct Provider {
    name: String,
    backend: Backend,
    /// Models of any providers that are asked if this one fails.
    fallbacks: Vec<String>,
}

#[derive(Debug)]
enum Backend {
    Service(Box<service::Client>),
    Scripted(scripted::Script),
}

impl Models {
    /// Creates the providers. Files of scripts and certificates are read, but no connection is made.
    /// Fails if two providers have the same name, one cannot be set up, or a fallback names none.
    pub fn new(settings: &[Settings]) -> Result<Self, BadProvider> {
        let mut names = BTreeSet::new();
        if let Some(twice) = settings.iter().find(|settings| !names.insert(&settings.name)) {
            return Err(BadProvider::Duplicate { provider: twice.name.clone() });
        }
        let models =
            Self { providers: settings.iter().map(Provider::new).collect::<Result<_, _>>()? };
        models.check_fallbacks()?;
        Ok(models)
    }

    fn check_fallbacks(&self) -> Result<(), BadProvider> {
        let names_none = |fallback: &&String| {
            let name = fallback.split_once('/').map(|(name, _)| name);
            self.providers.iter().all(|provider| Some(provider.name.as_str()) != name)
        };
        for Provider { name, fallbacks, .. } in &self.providers {
            if let Some(fallback) = fallbacks.iter().find(names_none) {
                let (provider, fallback) = (name.clone(), fallback.clone());
                return Err(BadProvider::Fallback { provider, fallback });
            }
        }
        Ok(())
    }

    /// Returns every model in the form of OpenAI's list, with ids that [`Models`] can route. A
    /// provider that does not respond is left out.
    pub async fn list(&self) -> Vec<Object> {
        let lists = join_all(self.providers.iter().map(Provider::list)).await;
        lists.into_iter().flatten().collect()
    }
}

impl Provider {
    fn new(settings: &Settings) -> Result<Self, BadProvider> {
        let name = settings.name.clone();
        let backend = match &settings.kind {
            Kind::Service(service) => {
                Backend::Service(Box::new(service::Client::new(&name, service)?))
            }
            Kind::Scripted { script } => Backend::Scripted(scripted::Script::load(&name, script)?),
        };
        Ok(Self { name, backend, fallbacks: settings.fallbacks.clone() })
    }

    /// Returns whether requests of the Responses API are sent in that API.
    fn has_responses(&self) -> bool {
        match &self.backend {
            Backend::Service(client) => client.has_responses(),
            Backend::Scripted(_) => false,
        }
    }

    /// Fails if a request came in the Responses API, cannot be translated, and the provider does not
    /// have that API.
    fn check(&self, prompt: &Prompt) -> Result<(), ModelError> {
        match prompt.native.as_ref().and_then(|native| native.only.as_ref()) {
            Some(refusal) if !self.has_responses() => {
                let (provider, refusal) = (self.name.clone(), refusal.clone());
                Err(ModelError::Refused { provider, refusal })
            }
            _ => Ok(()),
        }
    }

    /// Sends a request and returns the response: whole, or as a stream if one is asked for. A
    /// provider that does not stream returns it whole. Dropping the future or the stream closes the
    /// connection.
    async fn respond(&self, prompt: &Prompt, terms: Terms<'_>) -> Result<Response<'_>, ModelError> {
        self.check(prompt)?;
        match &self.backend {
            Backend::Service(client) => client.respond(prompt, terms).await,
            Backend::Scripted(script) => script.respond(prompt, terms.is_streamed, terms.held),
        }
    }

    async fn list(&self) -> Vec<Object> {
        let mut models = match &self.backend {
            Backend::Service(client) => client.list().await,
            Backend::Scripted(_) => vec![scripted::listing()],
        };
        for model in &mut models {
            if let Some(Value::String(id)) = model.get_mut("id") {
                *id = format!("{}/{id}", self.name);
            }
        }
        models
    }
}

/// Response of a provider that has begun.
pub(crate) enum Response<'a> {
    /// The whole response.
    Whole(Document),
    /// A stream of chunks.
    Chunks(Chunks<'a>),
}

/// Stream of a response. Dropping it closes the connection to the provider.
pub(crate) struct Chunks<'a> {
    /// A chunk that was received and not returned yet.
    first: Option<Document>,
    source: Source<'a>,
}

/// Source of chunks.
enum Source<'a> {
    /// A service with OpenAI's chat completions.
    OpenAi(Box<openai::Chunks<'a>>),
    /// A service with OpenAI's Responses API.
    Responses(Box<responses::Chunks<'a>>),
    /// A service with Anthropic's Messages API.
    Anthropic(Box<anthropic::Chunks<'a>>),
    /// A script.
    Scripted(scripted::Chunks),
}

impl Chunks<'_> {
    /// Receives the first chunk, so that a failure before it is one of the request.
    async fn begin(&mut self) -> Result<(), ModelError> {
        self.first = self.source.next().await?;
        Ok(())
    }

    /// Returns the next chunk; `None` at the end of the response. Fails if the provider reports an
    /// error, or ends or breaks the stream before the response is complete.
    pub(crate) async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.source.next().await,
        }
    }
}

impl Source<'_> {
    async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        match self {
            Self::OpenAi(chunks) => chunks.next().await,
            Self::Responses(chunks) => chunks.next().await,
            Self::Anthropic(chunks) => chunks.next().await,
            Self::Scripted(chunks) => chunks.next().await,
        }
    }
}

impl<'a> From<Source<'a>> for Chunks<'a> {
    fn from(source: Source<'a>) -> Self {
        Self { first: None, source }
    }
}

/// Returns the object that `json!({...})` builds. Panics if the value is not an object.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => unreachable!("an object is written here, not {other}"),
    }
}

#[cfg(test)]
mod tests;
