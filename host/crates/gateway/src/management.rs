//! The management API of a running gateway: how it takes changes, its Unix socket, and how it gets its
//! first operator.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use super::{
    GatewayError, Reloader, follow,
    reload::{LiveParts, PluginLoads},
};
use airlock_catalog::{Catalog, SourceState};
use airlock_config::Config;
use airlock_core::{act::Acts, tool::ClientName};
use airlock_egress::tls;
use airlock_identity::{LoginClient, VerifierError};
use airlock_ingress::socket::SocketListener;
use airlock_limits::Limiter;
use airlock_management::{
    Apply, FirstConnection, NotApplied, OidcLogins, PluginState, Preview, Service, ServiceSettings,
    SetupToken,
};
use airlock_operator_api::{ManagementSettings, OidcSettings};
use airlock_plugin::{InspectError, Metadata, Plugins};
use airlock_store::LazyDatabase;

/// Takes changes into the running gateway.
struct SettingsApplier {
    reloader: Reloader,
    catalog: Arc<Catalog>,
    plugins: Plugins,
    limiter: Arc<Limiter>,
}

impl Apply for SettingsApplier {
    fn apply(&self, awaits_plugins: bool) -> BoxFuture<'_, Result<(), NotApplied>> {
        let loads = if awaits_plugins { PluginLoads::Awaited } else { PluginLoads::Detached };
        let taking = self.reloader.take_entries(loads);
        taking.map(|taken| taken.map(drop).map_err(NotApplied::from)).boxed()
    }

    fn preview(&self, file: Value) -> BoxFuture<'_, Result<Preview, NotApplied>> {
        self.reloader.preview(file).map(|preview| preview.map_err(NotApplied::from)).boxed()
    }

    fn limiter(&self) -> Option<&Limiter> {
        Some(&self.limiter)
    }

    fn inspect(&self, component: Arc<[u8]>) -> BoxFuture<'_, Result<Metadata, InspectError>> {
        self.plugins.inspect(component).boxed()
    }

    fn plugin(&self, client: &str) -> Option<PluginState> {
        let snapshot = self.catalog.snapshot();
        let source = snapshot.clients().find(|source| source.name.as_str() == client)?;
        let reason = match &source.state {
            SourceState::Connecting | SourceState::Connected => None,
            SourceState::Disconnected { reason } | SourceState::Failed { reason } => {
                Some(reason.clone())
            }
        };
        let phase = source.state.name();
        Some(PluginState { phase, reason, digest: self.plugins.digest(client) })
    }

    fn connected<'a>(
        &'a self,
        client: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<FirstConnection, NotApplied>> {
        Box::pin(async move {
            let name =
                ClientName::parse(client).map_err(|reason| NotApplied(reason.to_string()))?;
            self.catalog.settled(Instant::now() + limit, |source| source.name == name).await;
            match outcome(&self.catalog, &name) {
                Err(NotApplied(reason)) if self.reloader.needs_login(client) => {
                    Ok(FirstConnection::NeedsLogin { reason })
                }
                outcome => outcome.map(|()| FirstConnection::Ready),
            }
        })
    }
}

/// Fails with the reason if a client is not connected.
fn outcome(catalog: &Catalog, name: &ClientName) -> Result<(), NotApplied> {
    let snapshot = catalog.snapshot();
    let source = snapshot.clients().find(|source| source.name == *name);
    let Some(source) = source else {
        return Err(NotApplied("the gateway has not taken it; its log has the reason".to_owned()));
    };
    match &source.state {
        SourceState::Connected => Ok(()),
        SourceState::Connecting => Err(NotApplied("it does not respond in time".to_owned())),
        SourceState::Disconnected { reason } | SourceState::Failed { reason } => {
            Err(NotApplied(reason.clone()))
        }
    }
}

/// Binds the Unix socket of the management API; `None` if it has none, or if it cannot be bound, for
/// which the log has the reason: operators have tokens too.
pub(super) async fn socket(settings: &ManagementSettings) -> Option<SocketListener> {
    let path = settings.socket.as_ref().filter(|_| !settings.disabled)?;
    let bound = SocketListener::bind(path).await;
    bound
        .inspect_err(|error| {
            warn!(path = %path.display(), %error, "the management API has no Unix socket");
        })
        .ok()
}

/// Makes the management API of a gateway. A configuration that disables it has it for the gateway's own
/// changes alone. Fails if operators cannot log in as it says.
pub(super) fn service(
    config: &Config,
    parts: &LiveParts,
    reloader: &Reloader,
    acts: &Acts,
) -> Result<Arc<Service>, GatewayError> {
    let LiveParts { catalog, plugins, limiter, database, .. } = parts;
    let management = &config.server.management;
    let oidc = management.oidc.clone().filter(|_| !management.disabled);
    let oidc = oidc.map(|oidc| logins(oidc, database, acts)).transpose();
    let oidc = oidc.map_err(GatewayError::configuration("`management.oidc` cannot be used"))?;
    let gateway = SettingsApplier {
        reloader: reloader.clone(),
        catalog: catalog.clone(),
        plugins: plugins.clone(),
        limiter: limiter.clone(),
    };
    let settings = ServiceSettings::new(config, database.clone());
    let source = reloader.source().cloned();
    let settings = ServiceSettings { source, oidc, acts: acts.clone(), ..settings };
    Ok(Service::new(settings, Some(Arc::new(gateway))))
}

/// Makes the logins of operators. Fails if the provider's settings are unsafe.
fn logins(
    oidc: OidcSettings,
    database: &LazyDatabase,
    acts: &Acts,
) -> Result<OidcLogins, VerifierError> {
    let client = LoginClient::new(oidc.login.clone(), || tls::client().no_proxy())?;
    Ok(OidcLogins::new(client, oidc, database.clone(), acts.clone()))
}

/// Reads the operators, waiting for a store that is away, and makes a setup token if there is none.
pub(super) async fn first_token(service: &Service) -> Option<SetupToken> {
    follow::refresh_operators(service).await;
    service.begin_setup().unwrap_or_else(|error| {
        warn!(%error, "no setup token could be made");
        None
    })
}
