//! Sends chat completions to model providers.
//!
//! A request names its provider in `model`, as `NAME/model`. Requests and responses are the JSON
//! objects of OpenAI's chat completions. They stay as they are, with all members that this module
//! does not know. The module adds the tools that it is given and does not know who may call them:
//! that is the part of the [`agent`](crate::agent).

mod budget;
pub(crate) mod document;
mod error;
mod merge;
mod openai;
mod prompt;
mod repair;
mod scripted;
mod sse;

use std::{collections::BTreeSet, path::PathBuf};

use futures_util::future::join_all;
use serde_json::{Map, Value};

#[cfg(test)]
pub(crate) use self::budget::tests::Limited;
pub(crate) use self::{budget::Held, error::SOON, merge::Merged, repair::Calls};
pub use self::{
    budget::{MemoryBudget, RequestMemory},
    document::Document,
    error::{BadProvider, ModelError, Refusal},
    prompt::Prompt,
    scripted::BadScript,
};
use crate::{
    json::{RawObject, raw},
    secret::Secret,
};

/// A JSON object of the API, its members in the order in which they came.
pub type Object = Map<String, Value>;

/// One configured provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its name: the part before the `/` in `model`.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// Kind of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Any service with OpenAI's chat completions.
    OpenAi {
        /// URL up to and including `/v1`.
        base_url: String,
        /// Bearer token.
        api_key: Option<Secret>,
    },
    /// A file of turns, for demonstrations and tests.
    Scripted {
        /// The file.
        script: PathBuf,
    },
}

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
}

#[derive(Debug)]
enum Backend {
    OpenAi(Box<openai::Client>),
    Scripted(scripted::Script),
}

impl Models {
    /// Creates the providers. Scripts are read, but no connection is made. Fails if two providers
    /// have the same name or one cannot be set up.
    pub fn new(settings: &[Settings]) -> Result<Self, BadProvider> {
        let mut names = BTreeSet::new();
        if let Some(twice) = settings.iter().find(|settings| !names.insert(&settings.name)) {
            return Err(BadProvider::Duplicate { provider: twice.name.clone() });
        }
        Ok(Self { providers: settings.iter().map(Provider::new).collect::<Result<_, _>>()? })
    }

    /// Returns the provider for a request, and removes the provider's name from `model`. A `model`
    /// that does not start with the name of a provider goes unchanged to the first provider,
    /// slashes included. Fails if there is no `model` or no provider.
    pub(crate) fn route(&self, body: &mut RawObject) -> Result<&Provider, ModelError> {
        let model =
            body.get("model").and_then(raw::string).ok_or(ModelError::NoModel)?.into_owned();
        for provider in &self.providers {
            if let Some(bare) =
                model.strip_prefix(&provider.name).and_then(|rest| rest.strip_prefix('/'))
            {
                body.set("model", Value::from(bare).to_string());
                return Ok(provider);
            }
        }
        self.providers
            .first()
            .ok_or_else(|| ModelError::UnknownModel { model: crate::text::cut(model, 128) })
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
            Kind::OpenAi { base_url, api_key } => {
                Backend::OpenAi(Box::new(openai::Client::new(&name, base_url, api_key.as_ref())?))
            }
            Kind::Scripted { script } => Backend::Scripted(scripted::Script::load(&name, script)?),
        };
        Ok(Self { name, backend })
    }

    /// Sends a request and returns the response: whole, or as a stream if `is_streamed`. A provider
    /// that does not stream returns it whole. `held` pays for what is kept of it. Dropping the
    /// future or the stream closes the connection.
    pub(crate) async fn respond(
        &self,
        prompt: &Prompt,
        is_streamed: bool,
        held: &Held,
    ) -> Result<Response<'_>, ModelError> {
        match &self.backend {
            Backend::OpenAi(client) => client.respond(prompt, is_streamed, held).await,
            Backend::Scripted(script) => script.respond(prompt, is_streamed, held),
        }
    }

    async fn list(&self) -> Vec<Object> {
        let mut models = match &self.backend {
            Backend::OpenAi(client) => client.list().await,
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
pub(crate) enum Chunks<'a> {
    /// From a server.
    Http(Box<openai::Chunks<'a>>),
    /// From a script.
    Scripted(scripted::Chunks),
}

impl Chunks<'_> {
    /// Returns the next chunk; `None` at the end of the response. Fails if the provider reports an
    /// error, or ends or breaks the stream before the response is complete.
    pub(crate) async fn next(&mut self) -> Result<Option<Document>, ModelError> {
        match self {
            Self::Http(chunks) => chunks.next().await,
            Self::Scripted(chunks) => chunks.next().await,
        }
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
