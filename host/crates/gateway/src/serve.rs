//! Serves HTTP, on sockets of the gateway and inside another server, and stops the gateway.
//!
//! ```text
//! stop:  no further requests ─ those in flight end, at most drain_timeout ─┬─ limits are stored
//!                                                                          ├─ MCP servers and tasks stop
//!                                                                          └─ the last records are written
//! ```

use std::{
    future::{self, Future},
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use url::Url;

use super::{
    Gateway, GatewayError,
    error::UNSAFE,
    gateway::{GatewayState, ToServe},
    key_values, management,
    parts::GatewayParts,
    recording, warnings,
};
use airlock_replicas::Replicas;
use airlock_server::{self as server, GatewayService};
use airlock_strings::with_causes;

/// Time for the settings of the store to be read before the first request is answered. Later ones are
/// answered too, with the reason.
const SETTINGS_PATIENCE: Duration = Duration::from_secs(1);
/// Time for the other gateways of the store to be told that this one stops. Without, they notice it
/// later.
const LEAVE: Duration = Duration::from_secs(1);
/// Time for a serving to end, beside the one in which it drains: more than all its steps take. A future of
/// [`Gateway::serve`] that is not polled any more does not end.
const END_OF_SERVING: Duration = Duration::from_secs(20);

impl Gateway {
    /// Serves until the gateway is to stop: by [`Gateway::stop`] of any clone, or by the signal of
    /// [`GatewayBuilder::shutdown`](super::GatewayBuilder::shutdown). Then it lets requests in flight end, for
    /// at most `server.drain_timeout`, and stops every MCP server and every background task. Dropping the future
    /// ends requests at once. It keeps the gateway running like a clone.
    ///
    /// May be called once: fails if the gateway serves already, or has served. Fails if the address or the
    /// certificate cannot be used; the gateway has stopped then.
    pub fn serve(&self) -> impl Future<Output = Result<(), GatewayError>> + Send + use<> {
        let gateway = self.clone();
        // Boxed: programs move it into tasks.
        Box::pin(async move { gateway.0.serve().await })
    }

    /// Returns the gateway as a service of another HTTP server, such as axum. Its requests go through the same
    /// checks, limits and routes as those of [`Gateway::serve`], beside which it may be used. A clone of the
    /// service keeps the gateway running like a clone of the gateway. Must be called in a tokio runtime.
    ///
    /// All that belongs to connections is left to the other server: their number, the size and the time of a
    /// head, the time in which a client must read a response, TLS. The client of a request is not known unless
    /// the other server adds [`PeerAddress`](airlock_ingress::PeerAddress) and
    /// [`PeerCertificate`](airlock_ingress::PeerCertificate) to its extensions. The gateway is not announced
    /// to others of its store.
    pub fn service(&self) -> GatewayService {
        self.0.watch();
        let recording = self.0.record_start();
        self.0.parts.background.spawn(async move {
            if let Err(failed) = recording.await {
                error!(error = %with_causes(&failed), "the start of the gateway is not recorded");
            }
        });
        let settings = &self.0.parts.config.server;
        if settings.replica_url.is_some() && self.0.to_serve.lock().is_some() {
            warn!("`server.replica_url` has no effect inside another server");
        }
        if let Some(url) = settings.external_url.clone() {
            self.0.parts.serve_logins_at(url);
        }
        self.0.live.service(self.0.clone())
    }

    /// Begins to take changes of the configuration file and of the entries in the store, and to reload
    /// plugins when their files change, as [`Gateway::serve`] and [`Gateway::service`] do. For a program
    /// that does not serve HTTP. Must be called in a tokio runtime.
    pub fn watch_plugins(&self) {
        self.0.watch();
    }

    /// Stops the gateway, from any clone: takes no further requests, lets those in flight end for at most
    /// `server.drain_timeout`, stops every MCP server and every background task, and waits until they have
    /// ended. Further calls wait for the same.
    pub async fn stop(&self) {
        let state = &self.0;
        state.stopping.cancel();
        state.serving.close();
        let limit = state.parts.config.server.drain_timeout.saturating_add(END_OF_SERVING);
        let _ = timeout(limit, state.serving.wait()).await;
        state.close().await;
    }
}

impl GatewayState {
    /// Serves, and then stops the gateway.
    async fn serve(&self) -> Result<(), GatewayError> {
        let to_serve = self.to_serve.lock().take().ok_or(GatewayError::Served)?;
        let _serving = self.serving.token();
        let served = self.serve_until_stopped(to_serve).await;
        self.close().await;
        served
    }

    async fn serve_until_stopped(&self, to_serve: ToServe) -> Result<(), GatewayError> {
        let ToServe { listener, shutdown, key_maker } = to_serve;
        let parts = &self.parts;
        let mut shutdown = pin!(async {
            tokio::select! {
                () = shutdown => {}
                () = self.stopping.cancelled() => {}
            }
            self.stopping.cancel();
        });
        parts.load_certificate().await?;
        if let Some(certificate) = parts.certificate.clone() {
            parts.background.spawn(async move { certificate.watch().await });
        }
        warnings::report_local_callers(&parts.config);
        warnings::report_switch(parts.config.tools_off);
        tokio::select! {
            biased;
            started = self.record_start() => started?,
            // A long audit log takes a while to be opened.
            () = &mut shutdown => return Ok(()),
        }
        self.watch();
        if let Some((service, show)) = key_maker {
            let is_wanted = !parts.config.keys_without_value.is_empty();
            let made = key_values::make(service, parts.reloader.clone(), show, is_wanted);
            parts.background.spawn(made);
        }
        let listener = match listener {
            Some(listener) => listener,
            None => bind(&parts.config.server).await?,
        };
        if let Ok(address) = listener.local_addr() {
            let _ = self.address.set(address);
        }
        let replicas = parts.replicas(&listener)?;
        if let Some(replicas) = &replicas {
            self.live.set_replicas(replicas.clone());
        }
        let socket = management::socket(&parts.config.server.management).await;
        if let Some(url) = external_url(&parts.config.server, &listener) {
            parts.serve_logins_at(url);
        }
        let _ = timeout(SETTINGS_PATIENCE, parts.reloader.settings_read().cancelled()).await;
        let leaving = CancellationToken::new();
        let until = leaving.clone().cancelled_owned();
        let announced = replicas.map(|replicas| {
            parts.background.spawn(async move { replicas.announce_until(until).await })
        });
        let shutdown = async {
            shutdown.await;
            // Other gateways open sessions elsewhere while this one drains.
            leaving.cancel();
        };
        let served = server::serve(listener, socket, self.live.clone(), shutdown).await;
        leaving.cancel();
        if let Some(announced) = announced {
            let _ = timeout(LEAVE, announced).await;
        }
        served.map_err(GatewayError::configuration(UNSAFE))
    }

    /// Returns a future that records the start, unless that has happened or is about to. Fails if the audit
    /// log cannot be written and calls would be refused for that.
    fn record_start(&self) -> impl Future<Output = Result<(), GatewayError>> + Send + use<> {
        let is_first = !self.has_recorded.swap(true, Ordering::Relaxed);
        let records = self.parts.records.clone().filter(|_| is_first);
        async move { recording::record_start(records.as_ref()).await }
    }

    /// Ends requests of other servers, then every MCP server and every background task, and writes what is
    /// left to be stored. Once, however often it is called.
    async fn close(&self) {
        let closing = self.closed.get_or_init(|| async {
            self.stopping.cancel();
            self.live.drain(future::ready(())).await;
            self.parts.limiter.end().await;
            self.parts.background.stop().await;
            let records = self.parts.records.as_ref();
            match records {
                _ if self.has_recorded.load(Ordering::Relaxed) => {
                    recording::record_stop(records).await;
                }
                Some(recorder) => recorder.stop().await,
                None => {}
            }
        });
        closing.await;
    }
}

impl GatewayParts {
    /// Sets the URL at which the browsers of users reach the gateway, in the parts with logins.
    fn serve_logins_at(&self, url: Url) {
        if let Some(management) = &self.management {
            management.serve_logins_at(url.clone());
        }
        self.upstreams.0.serve_logins_at(url);
    }

    /// Returns the gateways that share the store; `None` if no URL of this one is configured. Fails if
    /// others cannot be reached over TLS.
    fn replicas(&self, listener: &TcpListener) -> Result<Option<Arc<Replicas>>, GatewayError> {
        let Some(url) = &self.config.server.replica_url else { return Ok(None) };
        let port = listener.local_addr().map_or(0, |address| address.port());
        let tls = &self.config.server.replica_tls;
        let replicas = Replicas::new(self.database.clone(), url, port, tls);
        let replicas =
            replicas.map_err(GatewayError::configuration("`server.replica_url` cannot be used"))?;
        Ok(Some(Arc::new(replicas)))
    }
}

/// Binds the configured address.
pub async fn bind(settings: &server::Settings) -> Result<TcpListener, GatewayError> {
    let address = settings.listen;
    TcpListener::bind(address).await.map_err(|source| GatewayError::Listen { address, source })
}

/// Returns the URL at which the browsers of users reach the gateway; `None` if it is not known.
fn external_url(settings: &server::Settings, listener: &TcpListener) -> Option<Url> {
    if settings.external_url.is_some() {
        return settings.external_url.clone();
    }
    let address = listener.local_addr().ok().filter(|address| address.ip().is_loopback())?;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    Url::parse(&format!("{scheme}://{address}")).ok()
}
