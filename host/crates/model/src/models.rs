//! The configured providers.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use futures_util::future::join_all;

use super::{
    BadProvider, Kind, ModelError, ModelSource, Prompt, Response, Settings, Terms,
    backend::Backend,
    metrics::{ModelName, ProviderMetrics},
    scripted::ScriptedModel,
    service::ServiceClient,
    source::OwnModel,
    trace::AttemptSpan,
};
use airlock_core::{file_version::FileVersion, model_control::ModelControl};
use airlock_json::raw;
use airlock_telemetry::TraceFuture as _;

/// Every configured provider.
#[derive(Default)]
pub struct Models {
    pub(super) providers: Vec<KnownProvider>,
    /// Accompanies the requests of all loops; `None` if nothing does.
    pub(super) control: Option<Arc<dyn ModelControl>>,
    /// Models of the embedding program, which are the last providers of all settings.
    own: Vec<Arc<OwnModel>>,
}

/// One provider, ready for requests.
#[derive(Debug)]
pub(super) struct KnownProvider {
    pub(super) name: String,
    /// Settings of the backend; `None` for a model of the embedding program.
    kind: Option<Kind>,
    /// Versions of its files, examined before they were read.
    files: Vec<Option<FileVersion>>,
    /// Shared with the providers of other settings in which it is the same.
    pub(super) backend: Arc<dyn Backend>,
    /// Models of any providers that are asked if this one fails.
    pub(super) fallbacks: Vec<String>,
    /// Models of this provider that the settings name.
    named: BTreeSet<String>,
    /// Shared with the providers of this name in other settings.
    pub(super) metrics: Arc<ProviderMetrics>,
}

impl Models {
    /// Creates the providers. Files of scripts and certificates are read, but no connection is
    /// made. Fails if two providers have the same name, if one cannot be set up, or if a fallback
    /// names no provider.
    pub fn new(settings: &[Settings]) -> Result<Self, BadProvider> {
        Self::default().with_settings(settings)
    }

    /// Creates the providers of other settings. A provider that is the same, its files included, keeps its
    /// connections, its list of models and the health of its keys. Requests to those of before are not
    /// affected. Fails as [`Self::new`] does.
    pub fn with_settings(&self, settings: &[Settings]) -> Result<Self, BadProvider> {
        let names = settings.iter().map(|settings| settings.name.as_str());
        check_names(names.chain(self.own.iter().map(|own| own.provider.as_str())))?;
        let providers = settings.iter().map(|settings| {
            let same = self.providers.iter().find(|provider| provider.is_of(settings));
            match same {
                Some(same) => Ok(same.with_fallbacks(settings)),
                None => KnownProvider::new(settings, self.metrics_of(&settings.name)),
            }
        });
        let own = self.own.iter();
        let own = own.map(|own| Ok(KnownProvider::own(own, self.metrics_of(&own.provider))));
        let mut models = Self {
            providers: providers.chain(own).collect::<Result<_, _>>()?,
            control: self.control.clone(),
            own: self.own.clone(),
        };
        for provider in &mut models.providers {
            provider.named = provider.named_in(settings);
        }
        models.check_fallbacks()?;
        Ok(models)
    }

    /// Sets the models of the embedding program by their names as providers. The providers of the settings
    /// that are [made](Self::with_settings) of it come first. Fails if a name is not valid, or is there twice.
    pub fn with_sources(
        self,
        sources: Vec<(String, Arc<dyn ModelSource>)>,
    ) -> Result<Self, BadProvider> {
        check_names(sources.iter().map(|(name, _)| name.as_str()))?;
        let bad = sources.iter().find(|(name, _)| name.is_empty() || name.contains('/'));
        if let Some((name, _)) = bad {
            return Err(BadProvider::Name { provider: name.clone() });
        }
        let own = sources.into_iter().map(|(name, source)| Arc::new(OwnModel::new(name, source)));
        Ok(Self { own: own.collect(), ..self })
    }

    /// Sets the control of requests. Providers of other settings have it too.
    #[must_use]
    pub fn with_control(self, control: Arc<dyn ModelControl>) -> Self {
        Self { control: Some(control), ..self }
    }

    /// Returns the metrics of the provider with a name; new ones if there is none.
    fn metrics_of(&self, name: &str) -> Arc<ProviderMetrics> {
        let known = self.providers.iter().find(|provider| provider.name == name);
        known.map_or_else(ProviderMetrics::new, |provider| provider.metrics.clone())
    }

    fn check_fallbacks(&self) -> Result<(), BadProvider> {
        for KnownProvider { name, fallbacks, .. } in &self.providers {
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
        let mut lists =
            join_all(self.providers.iter().map(|provider| provider.backend.list())).await;
        lists.retain(|list| !list.is_empty());
        lists
    }
}

airlock_strings::debug_fields!(Models { providers });

impl KnownProvider {
    fn new(settings: &Settings, metrics: Arc<ProviderMetrics>) -> Result<Self, BadProvider> {
        let name = settings.name.clone();
        let files = versions(&settings.kind);
        let backend: Arc<dyn Backend> = match &settings.kind {
            Kind::Service(service) => {
                Arc::new(ServiceClient::new(&name, service)?.counting(metrics.retries.clone()))
            }
            Kind::Scripted { script } => Arc::new(ScriptedModel::load(&name, script)?),
        };
        let kind = Some(settings.kind.clone());
        let fallbacks = settings.fallbacks.clone();
        Ok(Self { name, kind, files, backend, fallbacks, named: BTreeSet::new(), metrics })
    }

    /// Returns the models of this provider that settings name: its deployments, and fallbacks of any provider.
    fn named_in(&self, settings: &[Settings]) -> BTreeSet<String> {
        let deployments = match &self.kind {
            Some(Kind::Service(service)) => Some(service.deployments.keys().cloned()),
            _ => None,
        };
        let fallbacks = settings.iter().flat_map(|settings| &settings.fallbacks);
        let fallbacks = fallbacks.filter_map(|fallback| {
            let model = fallback.strip_prefix(&self.name)?.strip_prefix('/')?;
            Some(self.backend.name_of(model).to_owned())
        });
        deployments.into_iter().flatten().chain(fallbacks).collect()
    }

    /// Returns whether the backend is that of these settings, with the present content of their files.
    fn is_of(&self, settings: &Settings) -> bool {
        self.name == settings.name
            && self.kind.as_ref() == Some(&settings.kind)
            && self.files == versions(&settings.kind)
    }

    /// Returns the provider with the fallbacks of these settings.
    fn with_fallbacks(&self, settings: &Settings) -> Self {
        Self {
            name: self.name.clone(),
            kind: self.kind.clone(),
            files: self.files.clone(),
            backend: self.backend.clone(),
            fallbacks: settings.fallbacks.clone(),
            named: BTreeSet::new(),
            metrics: self.metrics.clone(),
        }
    }

    /// Returns the provider of a model of the embedding program.
    fn own(own: &Arc<OwnModel>, metrics: Arc<ProviderMetrics>) -> Self {
        let name = own.provider.clone();
        let backend = own.clone();
        let fallbacks = Vec::new();
        let named = BTreeSet::new();
        Self { name, kind: None, files: Vec::new(), backend, fallbacks, named, metrics }
    }

    /// Sends a request. Fails if it has no form in the API of the provider.
    pub(super) async fn respond(
        &self,
        prompt: &Prompt,
        terms: Terms<'_>,
    ) -> Result<Response<'_>, ModelError> {
        let began = Instant::now();
        let unanswered = self.metrics.begin();
        let attempted = self.attempt(prompt, terms).await;
        unanswered.end();
        match attempted {
            Ok(response) => {
                let model = prompt.body.get("model").and_then(raw::string).unwrap_or_default();
                let name = self.backend.name_of(&model);
                let is_configured = self.named.contains(name);
                let model = ModelName { name, is_configured };
                Ok(response.observed(self.metrics.observe(model, began)))
            }
            Err(error) => {
                self.metrics.fail(&error);
                Err(error)
            }
        }
    }

    async fn attempt(&self, prompt: &Prompt, terms: Terms<'_>) -> Result<Response<'_>, ModelError> {
        if let Some(Kind::Service(_)) = self.kind {
            // It has a span for each attempt.
            return self.backend.respond(prompt, terms).await;
        }
        let span = AttemptSpan::begin(&self.name, None, prompt, terms.is_streamed);
        let attempted = self.backend.respond(prompt, terms).in_span(span.span()).await;
        Response::traced(attempted, span)
    }
}

/// Fails if two providers have the same name.
fn check_names<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), BadProvider> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(BadProvider::Duplicate { provider: name.to_owned() });
        }
    }
    Ok(())
}

/// Returns the versions of the files of a provider as they are now. Blocks.
fn versions(kind: &Kind) -> Vec<Option<FileVersion>> {
    kind.files().into_iter().map(FileVersion::read).collect()
}

#[cfg(test)]
mod tests;
