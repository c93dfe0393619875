//! hyper: sockets, limits, drain, routes. One file an API.
//!
//! A request is let in (`Host` and `Origin`, virtual key), charged for its memory, given a
//! [`View`], and handed to its API. Nothing is decided here about tools, and nothing is remembered
//! between requests. What went wrong is told in the shape of OpenAI's errors, without paths and
//! host internals.

mod activity;
mod admin;
mod auth;
mod body;
mod chat;
mod connections;
mod execute;
mod health;
mod listen;
mod memory;
mod models;
mod origin;
mod peer;
mod reload;
mod respond;

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use tracing::{debug, error};

use self::{
    body::Intake,
    memory::{Charge, Memory},
    respond::{ApiError, Reply},
};
pub use self::{
    listen::serve,
    reload::{NotReloaded, Reload},
};
use crate::{
    agent,
    catalog::Catalog,
    door::{Budget, Caller, Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS, Keys, Origin, VirtualKey},
    model::Models,
    tenant::Tenant,
};

/// The smallest head that hyper can be limited to.
const MIN_HEADER_BYTES: usize = 8 * 1024;

/// How the gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether every request needs a virtual key. Without it, only loopback addresses can be
    /// listened on.
    pub require_virtual_key: bool,
    /// Host names, besides loopback ones and `listen` itself, that requests may carry in `Host`, on
    /// any port. Checked on loopback addresses, and on others if there are any.
    pub allowed_hosts: Vec<String>,
    /// Origins, besides `Host` with its port, that requests may carry in `Origin`, as browsers
    /// write them: `https://tools.example.com`, with a port unless it is the scheme's own. No CORS
    /// headers are sent.
    pub allowed_origins: Vec<String>,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Memory of all requests in flight: their bodies, as text and parsed, what models and tools
    /// add to them, and their answers until they are sent. One virtual key, or one peer without a
    /// key, gets half of it at most.
    pub max_request_memory_bytes: usize,
    /// Largest request head.
    pub max_header_bytes: usize,
    /// Time for a request's head and then for its body to arrive.
    pub read_timeout: Duration,
    /// Time for an answer to be taken by its client.
    pub write_timeout: Duration,
    /// Time that a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// Time for requests in flight to end after the gateway was told to stop.
    pub drain_timeout: Duration,
    /// Connections at the same time. Beyond it those that are idle for longest are closed, and once
    /// none is idle, those whose answers are unread for longest.
    pub max_connections: usize,
    /// Connections of one peer at the same time: of one address, or one /64 network of IPv6. A
    /// quarter more may be closing.
    pub max_connections_per_peer: usize,
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
        /// The value that is set.
        found: usize,
    },
    /// No connection fits.
    #[error("max_connections and max_connections_per_peer must be at least 1")]
    Connections,
    /// The largest body does not fit.
    #[error(
        "max_request_memory_bytes must be at least {least} for bodies of {max_body_bytes} bytes, found {found}"
    )]
    RequestMemory {
        /// The value that is set.
        found: usize,
        /// The largest body.
        max_body_bytes: usize,
        /// The smallest value that works.
        least: usize,
    },
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
        if self.max_connections == 0 || self.max_connections_per_peer == 0 {
            return Err(BadSettings::Connections);
        }
        let (found, least) = (self.max_request_memory_bytes, self.least_request_memory());
        if found < least {
            return Err(BadSettings::RequestMemory {
                found,
                max_body_bytes: self.max_body_bytes,
                least,
            });
        }
        Ok(())
    }

    /// The smallest `max_request_memory_bytes` in which one caller's body of the largest size finds
    /// room.
    pub fn least_request_memory(&self) -> usize {
        body::least_memory(self.max_body_bytes, self.max_header_bytes)
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
    memory: Arc<Memory>,
    intake: Intake,
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

/// Reply to a request, with the memory that it was charged until the reply is sent.
type Answer = (Reply, Option<Charge>);

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
        let memory = Memory::new(settings.max_request_memory_bytes);
        Arc::new(Self {
            settings,
            catalog,
            models,
            agent,
            budget,
            keys,
            hooks,
            memory,
            intake: Intake::new(),
        })
    }

    /// Answers one request from `peer`, whatever happens.
    async fn handle(&self, request: Request<Incoming>, peer: IpAddr) -> Answer {
        let started = Instant::now();
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        // Nothing that a request leaves behind is used after a panic: the snapshot and its view are
        // its own.
        let answer =
            AssertUnwindSafe(self.route(request, peer)).catch_unwind().await.unwrap_or_else(|_| {
                error!(%method, path, "a request made the gateway panic");
                Err(ApiError::internal())
            });
        let answer = answer.unwrap_or_else(|error| (error.into_reply(), None));
        debug!(%method, path, status = answer.0.status().as_u16(), duration = ?started.elapsed(), "request");
        answer
    }

    async fn route(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Answer, ApiError> {
        origin::check(&self.settings, request.headers(), request.uri())?;
        let route = Route::find(request.uri().path()).ok_or_else(ApiError::no_such_path)?;
        if !route.methods().contains(request.method()) {
            return Err(ApiError::wrong_method(route.methods()));
        }
        if let Route::Health = route {
            // Small, and most needed where there is no memory left.
            return Ok((health::show(self), None));
        }
        if let Route::Reload = route {
            let headers = request.headers();
            reload::check(self.settings.require_virtual_key, Some(peer), headers, || {
                self.sender(headers)
            })?;
        }
        let sender = self.sender(request.headers())?;
        let charge = self.memory.open(sender.tenant(), request.headers())?;
        let reply = self.answer(route, &sender, request, &charge).await?;
        charge.settle(memory::REQUEST_BYTES + reply.body().len());
        Ok((reply, Some(charge)))
    }

    async fn answer(
        &self,
        route: Route,
        sender: &Sender,
        request: Request<Incoming>,
        charge: &Charge,
    ) -> Result<Reply, ApiError> {
        match route {
            Route::Chat => chat::complete(self, sender, request, charge).await,
            Route::Execute => execute::run(self, sender, request, charge).await,
            Route::Models => {
                // A body that is not read is not kept while the providers are asked.
                drop(request);
                Ok(models::list(self, sender).await)
            }
            Route::Clients => Ok(admin::clients(self, sender)),
            Route::Reload => {
                let path = request.into_parts().0.uri;
                reload::run(self, reload::client_of(path.path()).unwrap_or_default()).await
            }
            Route::Health => Ok(health::show(self)),
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
        let view = self.catalog.snapshot().view(&sender.filter, sender.key.as_deref());
        Caller::new(view, origin, self.budget)
    }
}

impl Sender {
    /// The party that the request's memory is accounted to, as its calls are.
    fn tenant(&self) -> Tenant {
        self.key.as_deref().map_or(Tenant::ANONYMOUS, |key| key.tenant().clone())
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
