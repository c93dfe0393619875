//! The parts of a gateway, and those of them that request handlers and operators use.

use std::{future::Future, sync::Arc};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    GatewayError, Reloader,
    background::Background,
    certificate::Certificate,
    code_mode::LiveCodeMode,
    events,
    metrics::{self, GatewayMetrics},
    recording,
    replay::Replayer,
    serving::Serving,
    upstreams::ServerThreads,
};
use airlock_agent::approvals::Approvals;
use airlock_catalog::Catalog;
use airlock_config::Config;
use airlock_core::door::LiveKeys;
use airlock_guards::Guards;
use airlock_limits::Limiter;
use airlock_management::Service;
use airlock_operator_api::{DryRuns, LiveCalls, Management, OperatorHooks};
use airlock_plugin::Plugins;
use airlock_records::Recorder;
use airlock_sandbox::Sandbox;
use airlock_server::{self as server, HttpMetrics, ShownMetrics};
use airlock_store::LazyDatabase;

/// Problem of a certificate that cannot be used.
const UNUSABLE_TLS: &str = "the gateway cannot serve HTTPS";

/// The parts of a gateway.
pub(super) struct GatewayParts {
    pub(super) config: Config,
    pub(super) catalog: Arc<Catalog>,
    pub(super) sandbox: Sandbox,
    /// The state that survives a restart.
    pub(super) database: LazyDatabase,
    pub(super) code_mode: Arc<LiveCodeMode>,
    pub(super) plugins: Plugins,
    /// The guards of calls; `None` if the configuration has none.
    pub(super) guards: Option<Arc<Guards>>,
    pub(super) reloader: Reloader,
    /// The certificate of the listener; `None` for plain HTTP.
    pub(super) certificate: Option<Certificate>,
    /// The management API; `None` if it is disabled.
    pub(super) management: Option<Arc<Service>>,
    /// The virtual keys that are accepted.
    pub(super) keys: LiveKeys,
    /// The records; `None` if the configuration has none.
    pub(super) records: Option<Arc<Recorder>>,
    pub(super) metrics: GatewayMetrics,
    /// Connects to servers that are not configured.
    pub(super) dry_runs: Arc<dyn DryRuns>,
    /// Cancelled when the plugins and the script executor are loaded, or have failed to.
    pub(super) loaded: CancellationToken,
    pub(super) background: Background,
    /// Keeps the limits of callers.
    pub(super) limiter: Arc<Limiter>,
    /// The calls that run, and the bus of events.
    pub(super) live_calls: LiveCalls,
    /// Dropped after `background`, which cancels its tasks: servers that have not stopped are killed.
    pub(super) upstreams: ServerThreads,
}

impl GatewayParts {
    pub(super) fn load_certificate(
        &self,
    ) -> impl Future<Output = Result<(), GatewayError>> + Send + use<> {
        let certificate = self.certificate.clone();
        async move {
            let Some(certificate) = certificate else { return Ok(()) };
            certificate.start().await.map_err(GatewayError::configuration(UNUSABLE_TLS))
        }
    }

    /// Begins to record what is not a call, and to remove what is old.
    pub(super) fn keep_records(&self) {
        let Some(recorder) = self.records.clone() else { return };
        let approvals = self.approvals();
        self.background.spawn(async move { approvals.sweep().await });
        self.background.spawn(recording::follow_changes(self.database.clone(), recorder.clone()));
        self.background.spawn(async move { recorder.sweep().await });
    }

    /// Begins to remove expired entries from the key-value stores of plugins.
    pub(super) fn sweep_stores(&self) {
        let database = self.database.clone();
        self.background.spawn(async move { database.sweep_kv().await });
    }

    /// Begins to publish changes of the sources of tools and of the store.
    pub(super) fn publish_events(&self) {
        let bus = self.live_calls.bus();
        self.background.spawn(events::follow_catalog(bus.clone(), self.catalog.clone()));
        self.background.spawn(events::follow_store(bus.clone(), self.database.clone()));
    }

    pub(super) fn approvals(&self) -> Approvals {
        let acts = self.metrics.acts.before(self.records.as_ref());
        let acts = events::published(self.live_calls.bus(), acts);
        Approvals::new(self.database.clone()).with_acts(acts)
    }

    /// Returns the parts that the request handlers use.
    pub(super) fn hooks(&self, serving: &Arc<Serving>) -> server::Hooks {
        let operators = self.operators();
        let http = HttpMetrics::new();
        let sandbox = self.sandbox.clone();
        let records = self.records.clone();
        server::Hooks {
            catalog: self.catalog.clone(),
            keys: self.keys.clone(),
            waiting: Arc::new(operators.approvals.clone()),
            operators: Arc::new(operators),
            gauges: vec![("sandbox", Box::new(move || json!(sandbox.usage())))],
            metrics: ShownMetrics::new(metrics::registry(self, serving, &http)),
            http,
            logins: self.upstreams.0.clone(),
            database: self.database.clone(),
            settings_read: self.reloader.settings_read().clone(),
            tls: self.certificate.as_ref().map(|certificate| certificate.listener().clone()),
            audit_key: Box::new(move || records.as_ref()?.public_key()),
        }
    }

    /// Returns the parts that operators use.
    fn operators(&self) -> OperatorHooks {
        OperatorHooks {
            approvals: self.approvals(),
            live_calls: self.live_calls.clone(),
            dry_runs: Some(self.dry_runs.clone()),
            replays: Some(Arc::new(Replayer::new(self.code_mode.clone()))),
            events: self.live_calls.bus().clone(),
            plugins: Arc::new(self.reloader.clone()),
            upstreams: self.upstreams.0.clone(),
            management: self.management.clone().map(|service| service as Arc<dyn Management>),
        }
    }
}
