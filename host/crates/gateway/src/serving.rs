//! The settings of requests: made from a configuration before anything changes, then swapped in as a whole.
//!
//! ```text
//! configuration ─ make ─► MadeSettings ─ take ─► RequestSettings ─► requests that begin from now on
//!                  │ fails: nothing changes
//! ```
//!
//! The parts that are the same in both configurations are kept: the connections of a provider, the keys of an issuer.

use std::sync::{Arc, Weak};

use airlock_identity::{Verifier, VerifierError, VerifierSettings};
use parking_lot::Mutex;
use tracing::error;

use super::error::{GatewayError, UNSAFE};
use airlock_agent::{
    self as agent,
    recall::{self, Recall},
    results::{self, Results},
};
use airlock_catalog::Catalog;
use airlock_config::{Config, Problem};
use airlock_core::{door::Budget, model_control::ModelControl};
use airlock_egress::tls;
use airlock_model::{ModelSource, Models};
use airlock_scripts::runs::{RunSettings, Runs};
use airlock_server::{self as server, LiveApp, RequestSettings};
use airlock_store::LazyDatabase;
use airlock_strings::with_causes;

/// The settings of the requests of a gateway.
pub(super) struct Serving {
    catalog: Arc<Catalog>,
    database: LazyDatabase,
    /// Runs of scripts, with which all later ones share what is running.
    runs: Runs,
    state: Mutex<ServingState>,
}

struct ServingState {
    now: RequestSettings,
    results: results::Settings,
    /// `None` until the gateway serves. The state of the request handlers has the reloader, which has these settings.
    app: Option<Weak<LiveApp>>,
}

/// The settings of a configuration that can be used.
pub(super) struct MadeSettings {
    settings: server::Settings,
    models: Arc<Models>,
    identity: Option<Arc<Verifier>>,
    agent: agent::Settings,
    budget: Budget,
    results: results::Settings,
    runs: RunSettings,
}

impl Serving {
    /// Makes the settings with which a gateway starts. The models of the program, `own`, and `control`, which
    /// accompanies the requests to models, are also those of later settings. Fails if they cannot be used.
    pub(super) fn new(
        config: &Config,
        catalog: &Arc<Catalog>,
        database: &LazyDatabase,
        runs: Runs,
        own: Vec<(String, Arc<dyn ModelSource>)>,
        control: Option<Arc<dyn ModelControl>>,
    ) -> Result<Self, GatewayError> {
        config.server.check().map_err(GatewayError::configuration(UNSAFE))?;
        let models = Models::default()
            .with_sources(own)
            .and_then(|models| models.with_settings(&config.providers))
            .map_err(GatewayError::configuration("a model provider cannot be set up"))?;
        let models = match control {
            Some(control) => models.with_control(control),
            None => models,
        };
        let identity = config
            .oauth
            .as_ref()
            .map(|wanted| verifier(wanted, None))
            .transpose()
            .map_err(GatewayError::configuration("access tokens cannot be verified"))?;
        let results = Results::new(config.results);
        install(&results, catalog);
        let now = RequestSettings {
            settings: config.server.clone(),
            models: Arc::new(models),
            agent: config.agent,
            budget: config.budget,
            results,
            recall: Recall::new(recall_settings(&config.server, config.results, database)),
            runs: config.runs.journal.then(|| runs.clone()),
            identity,
        };
        let state = ServingState { now, results: config.results, app: None };
        Ok(Self {
            catalog: catalog.clone(),
            database: database.clone(),
            runs,
            state: Mutex::new(state),
        })
    }

    /// Makes the settings of a configuration. Files of providers that have changed are read. Fails with the
    /// problems if one of the settings cannot be used; nothing has changed either way.
    pub(super) fn make(&self, config: &Config) -> Result<MadeSettings, Vec<Problem>> {
        let now = self.now();
        let mut problems = Vec::new();
        let settings = settings(config, &now.settings);
        if let Err(bad) = settings.check() {
            problems.push(Problem::at("server", with_causes(&bad)));
        }
        let models = now.models.with_settings(&config.providers);
        let models =
            models.map_err(|bad| problems.push(Problem::at("providers", with_causes(&bad)))).ok();
        let identity = config.oauth.as_ref();
        let identity = identity.map(|wanted| verifier(wanted, now.identity.as_ref())).transpose();
        let identity = identity
            .map_err(|bad| problems.push(Problem::at("mcp_server.oauth", with_causes(&bad))))
            .ok();
        let made = models.zip(identity).filter(|_| problems.is_empty());
        let Some((models, identity)) = made else { return Err(problems) };
        Ok(MadeSettings {
            settings,
            models: Arc::new(models),
            identity,
            agent: config.agent,
            // The sandbox has instances for the depths of the start.
            budget: Budget { depth: now.budget.depth, ..config.budget },
            results: config.results,
            runs: config.runs,
        })
    }

    /// Swaps in settings, for requests that begin from now on.
    pub(super) fn take(&self, made: MadeSettings) {
        let MadeSettings { settings, models, identity, agent, budget, results, runs } = made;
        let mut state = self.state.lock();
        let recall = recall_settings(&settings, results, &self.database);
        let has_other_results = results != state.results;
        state.results = results;
        let now = RequestSettings {
            settings,
            models,
            agent,
            budget,
            results: state.now.results.with_settings(results),
            recall: state.now.recall.with_settings(recall),
            runs: runs.journal.then(|| self.runs.with_settings(runs)),
            identity,
        };
        state.replace(now);
        if has_other_results {
            install(&state.now.results, &self.catalog);
        }
    }

    /// Makes every request need a virtual key from now on.
    pub(super) fn require_key(&self) {
        let mut state = self.state.lock();
        let mut now = state.now.clone();
        now.settings.require_virtual_key = true;
        state.replace(now);
    }

    /// Returns the settings of requests that begin now.
    pub(super) fn now(&self) -> RequestSettings {
        self.state.lock().now.clone()
    }

    /// Creates the state of the request handlers, which follows the settings from now on.
    pub(super) fn serve(&self, hooks: server::Hooks) -> Arc<LiveApp> {
        let mut state = self.state.lock();
        let app = LiveApp::new(hooks, state.now.clone());
        state.app = Some(Arc::downgrade(&app));
        app
    }
}

impl ServingState {
    /// Swaps in settings that were checked.
    fn replace(&mut self, now: RequestSettings) {
        self.now = now;
        // Without it, the gateway was dropped, and only its reloader is left.
        if let Some(app) = self.app.as_ref().and_then(Weak::upgrade)
            && let Err(bad) = app.replace(self.now.clone())
        {
            error!(error = %bad, "checked settings are not taken");
        }
    }
}

/// Returns the settings of the listener of a configuration, with those of `now` that are read at the start
/// alone. Without `require_virtual_key`, requests need a key if there is one; they go on to need one when the
/// last key is removed, so that its removal opens nothing.
fn settings(config: &Config, now: &server::Settings) -> server::Settings {
    let mut settings = config.server.clone();
    settings.listen = now.listen;
    settings.tls.clone_from(&now.tls);
    settings.external_url.clone_from(&now.external_url);
    settings.replica_url.clone_from(&now.replica_url);
    settings.management.disabled = now.management.disabled;
    settings.management.socket.clone_from(&now.management.socket);
    if !config.fingerprint.has("server.require_virtual_key") {
        settings.require_virtual_key |= now.require_virtual_key;
    }
    settings
}

fn recall_settings(
    settings: &server::Settings,
    results: results::Settings,
    database: &LazyDatabase,
) -> recall::Settings {
    recall::Settings::new(Some(database.clone()), settings.responses, results.total_bytes)
}

/// Returns the verifier of these settings: the present one if it has them.
fn verifier(
    wanted: &VerifierSettings,
    present: Option<&Arc<Verifier>>,
) -> Result<Arc<Verifier>, VerifierError> {
    let client = tls::client().no_proxy();
    match present {
        Some(same) if same.settings() == wanted => Ok(same.clone()),
        Some(other) => other.with_settings(wanted.clone(), client).map(Arc::new),
        None => Verifier::new(wanted.clone(), client).map(Arc::new),
    }
}

/// Installs the tools that read results.
fn install(results: &Results, catalog: &Catalog) {
    catalog.set_reader(results.own_tools());
    catalog.set_resource_reader(results.resource_tools());
}
