//! The management API of a running gateway: how it takes changes, its Unix socket, and how it gets its
//! first operator.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::Reloader;
use airlock_catalog::{Catalog, SourceState};
use airlock_config::Config;
use airlock_core::tool::ClientName;
use airlock_management::{Apply, NotApplied, Preview, Service, ServiceSettings, SetupToken};
use airlock_server::{ManagementSettings, socket::SocketListener};
use airlock_store::LazyDatabase;

/// Interval between two attempts to read the operators of a store that cannot be used.
const RETRY: Duration = Duration::from_secs(1);

/// Takes changes into the running gateway.
struct RunningGateway {
    reloader: Reloader,
    catalog: Arc<Catalog>,
}

impl Apply for RunningGateway {
    fn apply(&self) -> BoxFuture<'_, Result<(), NotApplied>> {
        self.reloader.take_entries().map(|taken| taken.map(drop).map_err(NotApplied::from)).boxed()
    }

    fn preview(&self, file: Value) -> BoxFuture<'_, Result<Preview, NotApplied>> {
        self.reloader.preview(file).map(|preview| preview.map_err(NotApplied::from)).boxed()
    }

    fn connected<'a>(
        &'a self,
        client: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<usize, NotApplied>> {
        Box::pin(async move {
            let name =
                ClientName::parse(client).map_err(|reason| NotApplied(reason.to_string()))?;
            self.catalog.settled(Instant::now() + limit, |source| source.name == name).await;
            outcome(&self.catalog, &name)
        })
    }
}

/// Returns the number of tools of a client that is connected, or the reason that it is not.
fn outcome(catalog: &Catalog, name: &ClientName) -> Result<usize, NotApplied> {
    let snapshot = catalog.snapshot();
    let source = snapshot.clients().find(|source| source.name == *name);
    let Some(source) = source else {
        return Err(NotApplied("the gateway has not taken it; its log has the reason".to_owned()));
    };
    match &source.state {
        SourceState::Connected => Ok(source.tools.len()),
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

/// Makes the management API of a gateway; `None` if the configuration disables it.
pub(super) fn service(
    config: &Config,
    database: &LazyDatabase,
    reloader: &Reloader,
    catalog: &Arc<Catalog>,
) -> Option<Arc<Service>> {
    if config.server.management.disabled {
        return None;
    }
    let gateway = RunningGateway { reloader: reloader.clone(), catalog: catalog.clone() };
    let settings = ServiceSettings::new(config, database.clone());
    let settings = ServiceSettings { source: reloader.source().cloned(), ..settings };
    Some(Service::new(settings, Some(Arc::new(gateway))))
}

/// Reads the operators, waiting for a store that is away, and makes a setup token if there is none.
pub(super) async fn first_token(service: &Service) -> Option<SetupToken> {
    while let Err(error) = service.refresh_operators().await {
        warn!(%error, "the operators of the store cannot be read; trying again");
        sleep(RETRY).await;
    }
    service.begin_setup().unwrap_or_else(|error| {
        warn!(%error, "no setup token could be made");
        None
    })
}
