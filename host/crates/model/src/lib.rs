//! Sends chat completions to model providers.
//!
//! A request names its provider in `model`, as `NAME/model`. Requests and responses are the JSON
//! objects of OpenAI's chat completions, and keep all members that this module does not know; the
//! clients of other APIs translate them. The module adds the tools that it is given and
//! does not know which callers may call them: that is decided by the door, through the
//! [`agent`](airlock_agent).
//!
//! | file | purpose |
//! |---|---|
//! | `settings` | the settings of a provider |
//! | `prompt` | a request, with the tools and messages that the gateway adds |
//! | `route` | the providers of one request: the one that it names, and the fallbacks |
//! | `service` | a client of one service: its API, its keys and its attempts |
//! | `keys` | the keys that serve a model, and the choice among them by weight |
//! | `retry` | the decision to repeat a request, and the wait before it |
//! | `http` | exchanges over HTTP, bounded in time and memory |
//! | `openai`, `responses`, `anthropic` | the three APIs of services |
//! | `translation` | what translations between chat completions and another API share |
//! | `native`, `part` | a request and a response of the Responses API beside their chat form |
//! | `listing` | cached lists of models |
//! | `scripted` | a file of turns in the place of a service |
//! | `document` | a JSON object of a provider, with its exact text |
//! | `repair` | repairs the calls in the chunks of a stream |
//! | `merge` | merges the chunks of a stream into one response |
//! | `budget` | the memory of one request |
//! | `error` | errors of providers, in OpenAI's form |

mod anthropic;
pub mod document;
mod error;
mod http;
mod keys;
mod listing;
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
mod translation;

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::join_all;
use serde_json::{Map, Value};

pub use self::{
    document::Document,
    error::{BadProvider, ModelError, Refusal, TransportError},
    native::Native,
    prompt::Prompt,
    scripted::BadScript,
    settings::{Api, Apis, Key, Kind, MAX_FALLBACKS, Retries, Service, Settings, Timeouts},
};
pub use self::{
    error::SOON,
    merge::{Merged, weight},
    part::Part,
    prompt::Unforced,
    repair::{Calls, TooManyCalls},
    route::Route,
    service::Terms,
};
pub use airlock_core::memory::Held;
pub use airlock_core::memory::{MemoryBudget, RequestMemory};
pub use airlock_json::object;

/// A JSON object of the API, with its members in the order of its text.
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

/// Source of a provider's responses.
#[derive(Debug)]
enum Backend {
    Service(Box<service::Client>),
    Scripted(scripted::Script),
}

impl Models {
    /// Creates the providers. Files of scripts and certificates are read, but no connection is
    /// made. Fails if two providers have the same name, if one cannot be set up, or if a fallback
    /// names no provider.
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
        for Provider { name, fallbacks, .. } in &self.providers {
            if let Some(fallback) = fallbacks.iter().find(|fallback| self.names_none(fallback)) {
                let provider = name.clone();
                let fallback = fallback.clone();
                return Err(BadProvider::Fallback { provider, fallback });
            }
        }
        Ok(())
    }

    fn names_none(&self, fallback: &str) -> bool {
        let name = fallback.split_once('/').map(|(name, _)| name);
        self.providers.iter().all(|provider| Some(provider.name.as_str()) != name)
    }

    /// Returns every model as JSON text: for each provider its models in the form of OpenAI's list,
    /// separated by commas, with ids of the form `NAME/model`. The providers are asked at the same
    /// time, each for up to 3 seconds. A provider that does not respond is left out. The texts are
    /// cached for a minute and shared by all callers.
    pub async fn list(&self) -> Vec<Arc<str>> {
        let mut lists = join_all(self.providers.iter().map(Provider::list)).await;
        lists.retain(|list| !list.is_empty());
        lists
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
                let provider = self.name.clone();
                let refusal = refusal.clone();
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

    fn reads_images(&self) -> bool {
        matches!(&self.backend, Backend::Service(client) if client.reads_images)
    }

    async fn list(&self) -> Arc<str> {
        match &self.backend {
            Backend::Service(client) => client.list().await,
            Backend::Scripted(_) => listing::to_text(&self.name, vec![scripted::listing()]).into(),
        }
    }
}

/// Response of a provider that has begun.
pub enum Response<'a> {
    /// The whole response.
    Whole(Document),
    /// A stream of chunks.
    Chunks(Chunks<'a>),
}

/// Stream of a response. Dropping it closes the connection to the provider.
pub struct Chunks<'a> {
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
    /// Receives the first chunk. A failure before it fails the request, which may be repeated.
    async fn begin(&mut self) -> Result<(), ModelError> {
        self.first = self.source.next().await?;
        Ok(())
    }

    /// Returns the next chunk; `None` at the end of the response. Fails if the provider reports an
    /// error, or ends or breaks the stream before the response is complete.
    pub async fn next(&mut self) -> Result<Option<Document>, ModelError> {
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

#[cfg(test)]
mod tests;
