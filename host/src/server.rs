//! hyper: sockets, limits, drain, routes. One file an API.
//!
//! A request is let in (`Host` and `Origin`, virtual key), given a [`View`], and handed to its API. Nothing is decided here
//! about tools, and nothing is remembered between requests. What went wrong is told in the shape of OpenAI's errors,
//! without paths and host internals.

mod admin;
mod auth;
mod body;
mod chat;
mod execute;
mod health;
mod listen;
mod models;
mod origin;
mod reload;
mod respond;

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use tracing::{debug, error};

use self::respond::{ApiError, Reply};
pub use self::{
    listen::serve,
    reload::{NotReloaded, Reload},
};
use crate::{
    agent,
    catalog::Catalog,
    door::{Budget, Caller, Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS, Keys, Origin, View, VirtualKey},
    model::Models,
};

/// The smallest head that hyper can be limited to.
const MIN_HEADER_BYTES: usize = 8 * 1024;

/// How the gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether every request needs a virtual key. Without it, only loopback addresses can be listened on.
    pub require_virtual_key: bool,
    /// Host names, besides loopback ones and `listen` itself, that requests may carry in `Host` and `Origin`. Checked on
    /// loopback addresses, and on others if there are any.
    pub allowed_hosts: Vec<String>,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Largest request head.
    pub max_header_bytes: usize,
    /// Time for a request's head and then for its body to arrive.
    pub read_timeout: Duration,
    /// Time for requests in flight to end after the gateway was told to stop.
    pub drain_timeout: Duration,
    /// Connections at the same time.
    pub max_connections: usize,
}

/// Why the gateway will not listen like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// Open to the network.
    #[error(
        "listening on {listen} would let anyone on the network use every tool; set require_virtual_key, or listen on 127.0.0.1"
    )]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// No head fits.
    #[error("max_header_bytes must be at least {MIN_HEADER_BYTES}, found {found}")]
    HeaderBytes {
        /// What is set.
        found: usize,
    },
    /// Nobody fits.
    #[error("max_connections must be at least 1")]
    Connections,
}

impl Settings {
    /// Refuses what would be unsafe or could not work.
    pub fn check(&self) -> Result<(), BadSettings> {
        if !self.listen.ip().is_loopback() && !self.require_virtual_key {
            return Err(BadSettings::Open { listen: self.listen });
        }
        if self.max_header_bytes < MIN_HEADER_BYTES {
            return Err(BadSettings::HeaderBytes { found: self.max_header_bytes });
        }
        if self.max_connections == 0 {
            return Err(BadSettings::Connections);
        }
        Ok(())
    }
}

/// Everything that requests are answered with.
pub struct App {
    settings: Settings,
    catalog: Arc<Catalog>,
    models: Models,
    agent: agent::Settings,
    budget: Budget,
    keys: Keys,
    hooks: Hooks,
}

/// What the server asks of parts that it does not know.
#[derive(Default)]
pub struct Hooks {
    /// What `GET /health` shows besides.
    pub gauges: Vec<Gauge>,
    /// Who loads plugins again; without it there are none.
    pub plugins: Option<Box<dyn Reload>>,
}

/// Something that `GET /health` shows beside its own fields: a name, and what to ask for the value.
pub type Gauge = (&'static str, Box<dyn Fn() -> serde_json::Value + Send + Sync>);

/// A request whose sender is known.
struct Sender {
    key: Option<Arc<VirtualKey>>,
    filter: Filter,
}

impl App {
    /// Puts the parts together.
    pub fn new(
        settings: Settings,
        catalog: Arc<Catalog>,
        models: Models,
        agent: agent::Settings,
        budget: Budget,
        keys: Keys,
        hooks: Hooks,
    ) -> Arc<Self> {
        Arc::new(Self { settings, catalog, models, agent, budget, keys, hooks })
    }

    /// Answers one request from `peer`, whatever happens.
    async fn handle(&self, request: Request<Incoming>, peer: Option<IpAddr>) -> Result<Reply, Infallible> {
        let started = Instant::now();
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        // Nothing that a request leaves behind is used after a panic: the snapshot and its view are its own.
        let reply = AssertUnwindSafe(self.route(request, peer)).catch_unwind().await.unwrap_or_else(|_| {
            error!(%method, path, "a request made the gateway panic");
            Err(ApiError::internal())
        });
        let reply = reply.unwrap_or_else(ApiError::into_reply);
        debug!(%method, path, status = reply.status().as_u16(), duration = ?started.elapsed(), "request");
        Ok(reply)
    }

    async fn route(&self, request: Request<Incoming>, peer: Option<IpAddr>) -> Result<Reply, ApiError> {
        origin::check(&self.settings, request.headers(), request.uri())?;
        let route = Route::find(request.uri().path()).ok_or_else(ApiError::no_such_path)?;
        if !route.methods().contains(request.method()) {
            return Err(ApiError::wrong_method(route.methods()));
        }
        if let Route::Reload = route {
            let headers = request.headers();
            reload::check(self.settings.require_virtual_key, peer, headers, || self.sender(headers))?;
        }
        let sender = self.sender(request.headers());
        match route {
            Route::Health => Ok(health::show(self)),
            Route::Chat => chat::complete(self, sender?, request).await,
            Route::Execute => execute::run(self, sender?, request).await,
            Route::Models => Ok(models::list(self, &sender?).await),
            Route::Clients => Ok(admin::clients(self, &sender?)),
            Route::Reload => reload::run(self, reload::client_of(request.uri().path()).unwrap_or_default()).await,
        }
    }

    fn sender(&self, headers: &HeaderMap) -> Result<Sender, ApiError> {
        let key = auth::key(&self.keys, self.settings.require_virtual_key, headers)?;
        let clients = respond::joined(headers, INCLUDE_CLIENTS)?;
        let tools = respond::joined(headers, INCLUDE_TOOLS)?;
        Ok(Sender { key, filter: Filter::parse(clients.as_deref(), tools.as_deref()) })
    }

    /// The caller that a request's calls are decided for.
    fn caller(&self, sender: &Sender, origin: Origin) -> Caller {
        let view = View::new(&self.catalog.snapshot(), &sender.filter, sender.key.as_deref());
        Caller::new(view, origin, self.budget)
    }
}

/// What can be asked for.
#[derive(Debug, Clone, Copy)]
enum Route {
    Chat,
    Models,
    Execute,
    Clients,
    Reload,
    Health,
}

impl Route {
    fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/models" => Self::Models,
            "/v1/mcp/tool/execute" => Self::Execute,
            "/api/mcp/clients" => Self::Clients,
            "/health" => Self::Health,
            path if reload::client_of(path).is_some() => Self::Reload,
            _ => return None,
        })
    }

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Chat | Self::Execute | Self::Reload => &[Method::POST],
            Self::Models | Self::Clients | Self::Health => &[Method::GET, Method::HEAD],
        }
    }
}

#[cfg(test)]
mod tests;
