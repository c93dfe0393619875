//! Sends chat completions to model providers.
//!
//! A request names its provider in `model`, as `NAME/model`. Requests and responses are the JSON
//! objects of OpenAI's chat completions. They stay as they are, with all members that this module
//! does not know. The module adds the tools that it is given and does not know who may call them:
//! that is the part of the [`agent`](crate::agent).

mod budget;
mod error;
mod openai;
mod prompt;
mod scripted;

use std::{collections::BTreeSet, path::PathBuf};

use futures_util::future::join_all;
use serde_json::{Map, Value};

#[cfg(test)]
pub(crate) use self::budget::tests::Limited;
pub(crate) use self::{budget::Held, error::SOON};
pub use self::{
    budget::{MemoryBudget, RequestMemory},
    error::{BadProvider, ModelError, Refusal},
    prompt::Prompt,
    scripted::BadScript,
};
use crate::secret::Secret;

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

    /// Returns the provider for `request`, and removes the provider's name from `model`. A `model`
    /// that does not start with the name of a provider goes unchanged to the first provider,
    /// slashes included. Fails if there is no `model` or no provider.
    pub(crate) fn route(&self, request: &mut Object) -> Result<&Provider, ModelError> {
        let Some(Value::String(model)) = request.get_mut("model") else {
            return Err(ModelError::NoModel);
        };
        for provider in &self.providers {
            if let Some(bare) =
                model.strip_prefix(&provider.name).and_then(|rest| rest.strip_prefix('/'))
            {
                *model = bare.to_owned();
                return Ok(provider);
            }
        }
        self.providers
            .first()
            .ok_or_else(|| ModelError::UnknownModel { model: crate::text::cut(model.clone(), 128) })
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

    /// Returns the completion of a prompt. `held` grows by the tree of the response. Dropping the
    /// future closes the connection.
    pub(crate) async fn complete(
        &self,
        prompt: &Prompt,
        held: &Held,
    ) -> Result<Object, ModelError> {
        match &self.backend {
            Backend::OpenAi(client) => client.complete(prompt, held).await,
            Backend::Scripted(script) => script.complete(prompt),
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

/// Returns the object that `json!({...})` builds. Panics if the value is not an object.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => unreachable!("an object is written here, not {other}"),
    }
}

#[cfg(test)]
mod tests;
