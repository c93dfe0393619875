//! The providers of one request: the one that it names, and those that are asked if it fails.

use std::{collections::BTreeSet, sync::Arc};

use tracing::warn;

use super::{MAX_FALLBACKS, ModelError, Models, Prompt, Response, Terms, models::KnownProvider};
use airlock_core::model_control::ModelControl;
use airlock_json::{RawObject, raw};
use airlock_strings::{cut, with_causes};

/// Member of a request that lists the models that are asked if the first one fails.
const FALLBACKS: &str = "fallbacks";
/// Members that the gateway reads, counts or sets.
static READ: [&str; 11] = [
    "model",
    "messages",
    "input",
    "tools",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "stream",
    "stream_options",
    "service_tier",
];
/// Maximum length of the name of a model, with that of its provider, in bytes: limits, records and guards have copies.
/// AWS permits 2,048 for the ARN of a model.
pub(super) const MAX_NAME_BYTES: usize = 4 << 10;
/// Maximum length of such a name as JSON, in bytes: an escape takes six for one. A longer text is not read.
const MAX_NAME_TEXT: usize = 6 * MAX_NAME_BYTES + 2;
/// Maximum length of the member `fallbacks`, in bytes: each element may be an object with two names. The caller may
/// add other members and spaces, and each object is searched twice.
const MAX_FALLBACKS_TEXT: usize = MAX_FALLBACKS * 3 * MAX_NAME_TEXT;
/// Maximum length of a value that an error repeats, in bytes.
const SHOWN_BYTES: usize = 128;

/// The providers of one request.
pub struct Route<'a> {
    first: ModelTarget<'a>,
    fallbacks: Vec<ModelTarget<'a>>,
    /// The requested model, if it has the form `NAME/model` and no provider has the name, so that it
    /// went to the first one.
    unnamed: Option<String>,
    /// Accompanies the requests; `None` if nothing does.
    control: Option<&'a Arc<dyn ModelControl>>,
}

/// A model of one provider.
struct ModelTarget<'a> {
    provider: &'a KnownProvider,
    model: String,
}

impl Models {
    /// Returns the providers for a request. Removes the name of the provider from `model`, and the
    /// member `fallbacks`. A `model` that does not start with the name of a provider goes unchanged
    /// to the first provider, slashes included. Fails if there is no `model`, one of excessive length, or no provider, if
    /// `fallbacks` is invalid or names no provider, or if a provider may read a member as another one.
    pub fn route(&self, body: &mut RawObject) -> Result<Route<'_>, ModelError> {
        check_names(body)?;
        let model = body.get("model").filter(|text| text.len() <= MAX_NAME_TEXT);
        let model = model.and_then(raw::string);
        let model = model.filter(|model| (1..=MAX_NAME_BYTES).contains(&model.len()));
        let model = model.ok_or(ModelError::NoModel)?;
        let named = self.target(&model);
        let is_unnamed = named.is_none() && model.contains('/');
        let unnamed = is_unnamed.then(|| cut(model.to_string(), SHOWN_BYTES));
        let is_renamed = named.is_some();
        let first = if let Some(target) = named {
            target
        } else if let Some(provider) = self.providers.first() {
            ModelTarget { provider, model: model.into_owned() }
        } else {
            let model = cut(model.into_owned(), SHOWN_BYTES);
            return Err(ModelError::UnknownModel { model });
        };
        let asked =
            body.get(FALLBACKS).filter(|text| *text != "null").map(fallbacks).transpose()?;
        let asked = asked.as_ref().unwrap_or(&first.provider.fallbacks);
        let targets = asked.iter().enumerate().map(|(index, model)| {
            self.target(model).ok_or_else(|| ModelError::BadFallback {
                field: format!("{FALLBACKS}[{index}]"),
                problem: format!("no provider serves {:?}", cut(model.clone(), SHOWN_BYTES)),
            })
        });
        let mut fallbacks = targets.collect::<Result<Vec<_>, _>>()?;
        if !fallbacks.is_empty() {
            // One that failed is not asked again.
            let mut asked = BTreeSet::from([first.id()]);
            fallbacks.retain(|target| asked.insert(target.id()));
        }
        body.remove(FALLBACKS);
        if is_renamed {
            body.set("model", as_json(&first.model));
        }
        Ok(Route { first, fallbacks, unnamed, control: self.control.as_ref() })
    }

    /// Returns whether a request of the Responses API for this model is sent in that API first.
    pub fn has_responses(&self, model: &str) -> bool {
        let provider = self.target(model).map(|target| target.provider);
        provider.or(self.providers.first()).is_some_and(|provider| provider.backend.has_responses())
    }

    /// Returns the model for a client of one provider's API: a `model` that does not start with the name
    /// of a provider gets the name `preferred`, if a provider has it.
    pub fn qualified(&self, model: &str, preferred: &str) -> String {
        let has_preferred = self.providers.iter().any(|provider| provider.name == preferred);
        if has_preferred && self.target(model).is_none() {
            return format!("{preferred}/{model}");
        }
        model.to_owned()
    }

    /// Returns whether requests for this model are sent in Anthropic's Messages API. Fallbacks may have
    /// another one.
    pub fn has_messages(&self, model: &str) -> bool {
        let provider = self.target(model).map(|target| target.provider);
        provider.or(self.providers.first()).is_some_and(|provider| provider.backend.has_messages())
    }

    /// Returns whether the provider of this model reads images in the results of tools; without a
    /// model, whether every provider does.
    pub fn reads_images(&self, model: Option<&str>) -> bool {
        let Some(model) = model else {
            return !self.providers.is_empty()
                && self.providers.iter().all(|provider| provider.backend.reads_images());
        };
        let named = self.target(model).map(|target| target.provider);
        named.or(self.providers.first()).is_some_and(|provider| provider.backend.reads_images())
    }

    /// Returns the model that `NAME/model` names; `None` if no provider has the name.
    fn target(&self, model: &str) -> Option<ModelTarget<'_>> {
        self.providers.iter().find_map(|provider| {
            let bare = model.strip_prefix(&provider.name)?.strip_prefix('/')?;
            Some(ModelTarget { provider, model: bare.to_owned() })
        })
    }
}

impl ModelTarget<'_> {
    /// Returns the names of the provider and of the model.
    fn id(&self) -> (String, String) {
        (self.provider.name.clone(), self.model.clone())
    }

    /// Returns the model as `NAME/model`, by its name for limits and prices.
    fn full_name(&self) -> String {
        format!("{}/{}", self.provider.name, self.provider.backend.name_of(&self.model))
    }
}

impl<'a> Route<'a> {
    /// Sends a request to the first provider, and to the next ones while each fails before its
    /// response has begun. Returns the error of the first provider if all fail. The provider that
    /// has responded gets all later requests of this route, without fallbacks: parts of its
    /// response, such as signed thinking, are valid only there.
    pub async fn respond(
        &mut self,
        prompt: &mut Prompt,
        terms: Terms<'_>,
    ) -> Result<Response<'a>, ModelError> {
        let error = match self.first.provider.respond(prompt, terms).await {
            Ok(response) => {
                self.fallbacks.clear();
                self.unnamed = None;
                return Ok(response);
            }
            Err(error) => self.explain(error),
        };
        if !error.permits_fallback() {
            return Err(error);
        }
        for target in std::mem::take(&mut self.fallbacks) {
            warn!(
                provider = %self.first.provider.name,
                fallback = %target.provider.name,
                error = %with_causes(&error),
                said = error.said(),
                "a provider failed, and another one is asked"
            );
            prompt.body.set("model", as_json(&target.model));
            self.first.provider.metrics.fallbacks.inc();
            if let Some(work) = terms.work {
                work.fall_back();
            }
            match target.provider.respond(prompt, terms).await {
                Ok(response) => {
                    self.first = target;
                    self.unnamed = None;
                    return Ok(response);
                }
                // The memory belongs to the request, so the next provider would have no more.
                Err(ModelError::NoMemory { .. }) => break,
                Err(error) => {
                    warn!(
                        provider = %target.provider.name,
                        error = %with_causes(&error),
                        said = error.said(),
                        "a fallback failed"
                    );
                }
            }
        }
        Err(error)
    }

    /// Adds to the error of the first provider that the model named another one, which does not exist.
    /// A request that is itself at fault gets its own error.
    fn explain(&self, error: ModelError) -> ModelError {
        let Some(model) = self.unnamed.as_ref().filter(|_| error.permits_fallback()) else {
            return error;
        };
        let name = model.split('/').next().unwrap_or_default().to_owned();
        ModelError::NoSuchProvider { name, model: model.clone(), cause: Box::new(error) }
    }

    /// Returns whether the provider has the Responses API.
    pub fn has_responses(&self) -> bool {
        self.first.provider.backend.has_responses()
    }

    /// Returns whether the provider that has responded reads images in the results of tools.
    pub fn reads_images(&self) -> bool {
        self.first.provider.backend.reads_images()
    }

    /// Returns the control of requests; `None` if there is none.
    pub fn control(&self) -> Option<&'a Arc<dyn ModelControl>> {
        self.control
    }

    /// Returns the model that the provider which has responded was asked for, or else the first one, as
    /// `NAME/model`.
    pub fn model(&self) -> String {
        self.first.full_name()
    }

    /// Returns the models that are asked if the first one fails, as `NAME/model`.
    pub fn fallbacks(&self) -> Vec<String> {
        self.fallbacks.iter().map(ModelTarget::full_name).collect()
    }

    /// Returns the name of the provider that has responded, or else of the first one.
    pub fn provider(&self) -> &str {
        &self.first.provider.name
    }
}

/// Returns the name of a model as JSON.
fn as_json(model: &str) -> String {
    serde_json::to_string(model).expect("a text can be written")
}

/// Refuses names that a provider may read as those of members that the gateway reads. Providers in Go compare
/// names without case, and of two members take the later one: they would serve another model than the one that
/// keys and limits permit, or write more than is reserved.
fn check_names(body: &RawObject) -> Result<(), ModelError> {
    for (name, _) in body.iter().filter(|(name, _)| !READ.contains(name)) {
        let meant = READ.iter().find(|read| may_mean(name, read));
        if let Some(&meant) = meant {
            let found = cut(name.to_owned(), SHOWN_BYTES);
            return Err(ModelError::DisguisedMember { found, meant });
        }
    }
    Ok(())
}

/// Returns whether a provider may read a name as that of a member, which is in small letters of ASCII.
fn may_mean(name: &str, read: &str) -> bool {
    if name.is_ascii() { name.eq_ignore_ascii_case(read) } else { folded(name).eq(read.chars()) }
}

/// Returns a name as Go compares it: a long s is an `s` there, and the sign of Kelvin a `k`.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// Reads the member `fallbacks`: a list of `"NAME/model"` or `{"provider": NAME, "model": …}`.
fn fallbacks(text: &str) -> Result<Vec<String>, ModelError> {
    if text.len() > MAX_FALLBACKS_TEXT {
        let problem = format!("must have at most {MAX_FALLBACKS_TEXT} bytes");
        return Err(bad_fallback(FALLBACKS.to_owned(), &problem));
    }
    let elements = raw::elements(text).ok_or_else(|| {
        bad_fallback(FALLBACKS.to_owned(), "must be a list such as [\"NAME/model\"]")
    })?;
    let mut models = Vec::new();
    for (index, element) in elements.enumerate() {
        if index == MAX_FALLBACKS {
            let problem = format!("must have at most {MAX_FALLBACKS} elements");
            return Err(bad_fallback(FALLBACKS.to_owned(), &problem));
        }
        models.push(fallback(element).ok_or_else(|| {
            let problem = format!(
                "must be \"NAME/model\", or an object with the strings `provider` and `model`, with at most {MAX_NAME_BYTES} bytes"
            );
            bad_fallback(format!("{FALLBACKS}[{index}]"), &problem)
        })?);
    }
    Ok(models)
}

fn bad_fallback(field: String, problem: &str) -> ModelError {
    ModelError::BadFallback { field, problem: problem.to_owned() }
}

fn fallback(element: &str) -> Option<String> {
    let named = if let Some(model) = raw::string(element) {
        model.into_owned()
    } else {
        let provider = raw::member(element, "provider").and_then(raw::string)?;
        let model = raw::member(element, "model").and_then(raw::string)?;
        format!("{provider}/{model}")
    };
    (named.len() <= MAX_NAME_BYTES).then_some(named)
}

#[cfg(test)]
mod tests;
