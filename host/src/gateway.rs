//! Wires the parts and runs until told to stop.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::net::TcpListener;

use crate::{
    catalog::Catalog,
    config::Config,
    door::{Caller, Filter, Origin, View},
};

/// A gateway whose plugins are loaded and whose upstream servers are being connected to.
pub struct Gateway {
    config: Config,
    catalog: Arc<Catalog>,
}

impl Gateway {
    /// Loads every plugin and starts to connect to every server. A source that cannot be had is marked so in the catalog
    /// and harms no other.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        Ok(Self { config, catalog: Catalog::new() })
    }

    /// Every tool there is.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Waits until every source is connected or has failed once, at most for `limit`.
    pub async fn settled(&self, limit: Duration) {
        let _ = limit;
    }

    /// A caller with the operator's own view: no headers, no key.
    pub fn caller(&self, origin: Origin) -> Caller {
        Caller::new(View::new(&self.catalog.snapshot(), &Filter::none(), None), origin, self.config.budget)
    }

    /// Serves until `shutdown` completes, then drains.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let _ = listener;
        shutdown.await;
        Ok(())
    }

    /// Stops every upstream server and waits for it.
    pub async fn stop(self) {}
}
