//! hyper: sockets, limits, drain, routes. One file per API.
//!
//! A request is admitted (`Host` and `Origin`, virtual key), charged for its memory, given a
//! [`View`], and handed to its API. The server makes no decisions about tools and keeps no state
//! between requests, except stored responses. Errors have the
//! form of OpenAI's errors and contain no paths or host internals.

mod activity;
mod admin;
mod alias;
mod approvals;
mod auth;
mod availability;
mod body;
mod chat;
mod connections;
mod cors;
mod events;
mod execute;
mod health;
mod identity;
mod listen;
mod mcp;
mod memory;
mod metrics;
mod models;
mod operator;
mod options;
mod origin;
mod peer;
mod reload;
mod respond;
mod responses;
mod results;
mod runs;
mod upstreams;
mod work;

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_identity::Verifier;
use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tracing::{debug, error, info};

pub use self::responses::BuiltinTools;
use self::{
    admin::ToolTexts,
    connections::Seat,
    mcp::sse::Pipes,
    memory::{Charge, Memory},
    operator::Act,
    respond::{ApiError, Payload, Reply},
    responses::{Archive, Target},
    upstreams::Operation,
};
pub use self::{
    listen::serve,
    reload::{NotReloaded, Reload},
    upstreams::{NotDone, Upstreams},
};
use airlock_agent::{
    self as agent, ApprovalList, Approver, Run,
    approvals::Approvals,
    recall::{Keeper, Recall},
    results::Results,
};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{
        ApprovalChoice, Budget, Caller, Filter, Hearing, INCLUDE_CLIENTS, INCLUDE_TOOLS, Keys,
        Origin, View, VirtualKey,
    },
    tenant::Tenant,
    tool::QuestionKinds,
};
use airlock_json::RawObject;
use airlock_mcp_server::{service::Service, session::Sessions};
use airlock_model::{MemoryBudget, Models, Object};
use airlock_scripts::runs::Runs;
use airlock_store as store;
pub use airlock_store::responses::Bounds as ResponseBounds;

/// Smallest head limit that hyper accepts.
const MIN_HEADER_BYTES: usize = 8 * 1024;

/// Paths of calls, which are logged at the default level. Of a streamed response, its beginning is.
const CALLS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/mcp/tool/execute"];

/// Settings of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address and port; port 0 selects a free port.
    pub listen: SocketAddr,
    /// True if every request needs a virtual key. If false, `listen` must be a loopback address.
    pub require_virtual_key: bool,
    /// Host names that requests may carry in `Host`, on any port, in addition to loopback names and
    /// the address of `listen`. `Host` is checked if `listen` is a loopback address or if this list
    /// is not empty.
    pub allowed_hosts: Vec<String>,
    /// Origins that requests may carry in `Origin`, in addition to `Host` with its port. Written as
    /// browsers write them: `https://tools.example.com`, with a port unless it is the default port
    /// of the scheme. Pages of these origins may read responses (CORS).
    pub allowed_origins: Vec<String>,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Memory of all requests in flight: their bodies, as text and parsed, the bytes that models
    /// and tools add to them, and their responses until they are sent. One virtual key, or all
    /// requests without a key together, get at most half of it.
    pub max_request_memory_bytes: usize,
    /// Largest request head.
    pub max_header_bytes: usize,
    /// Time for the head of a request to arrive, and again for its body.
    pub read_timeout: Duration,
    /// Time for a client to read a response.
    pub write_timeout: Duration,
    /// Time that a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// Time for requests in flight to end after shutdown starts.
    pub drain_timeout: Duration,
    /// Time after the start of the gateway in which requests wait for sources of tools that were never
    /// listed.
    pub startup_wait: Duration,
    /// Maximum number of open connections. Beyond it, the connections that are idle for longest are
    /// evicted; if none is idle, those whose responses are unread for longest.
    pub max_connections: usize,
    /// Maximum number of open connections of one peer: one address, or one /64 network of IPv6. A
    /// quarter more may be evicted but not closed yet.
    pub max_connections_per_peer: usize,
    /// Bounds on stored responses; `None` if responses are not stored.
    pub responses: Option<ResponseBounds>,
    /// Treatment of OpenAI's built-in tools in requests of the Responses API.
    pub builtin_tools: BuiltinTools,
    /// The gateway as an MCP server.
    pub mcp: airlock_mcp_server::Settings,
}

/// Reason that settings are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The gateway would be open to the network without virtual keys.
    #[error(
        "listening on {listen} would let anyone on the network use every tool; set require_virtual_key, or listen on 127.0.0.1"
    )]
    Open {
        /// The configured address.
        listen: SocketAddr,
    },
    /// The head limit is below the minimum of hyper.
    #[error("max_header_bytes must be at least {MIN_HEADER_BYTES}, found {found}")]
    HeaderBytes {
        /// The configured value.
        found: usize,
    },
    /// A connection limit is zero.
    #[error("max_connections and max_connections_per_peer must be at least 1")]
    Connections,
    /// The memory budget cannot hold a body of the largest size.
    #[error(
        "max_request_memory_bytes must be at least {least} for bodies of {max_body_bytes} bytes, found {found}"
    )]
    RequestMemory {
        /// The configured value.
        found: usize,
        /// Largest body size, in bytes.
        max_body_bytes: usize,
        /// Smallest valid value.
        least: usize,
    },
}

impl Settings {
    /// Fails if the settings are unsafe or cannot work.
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
        let found = self.max_request_memory_bytes;
        let least = self.least_request_memory();
        if found < least {
            return Err(BadSettings::RequestMemory {
                found,
                max_body_bytes: self.max_body_bytes,
                least,
            });
        }
        Ok(())
    }

    /// Returns the smallest `max_request_memory_bytes` in which one caller's body of the largest
    /// size fits.
    pub fn least_request_memory(&self) -> usize {
        body::least_memory(self.max_body_bytes, self.max_header_bytes)
    }
}

/// Shared state of all request handlers.
pub struct App {
    settings: Settings,
    started: Instant,
    catalog: Arc<Catalog>,
    models: Arc<Models>,
    agent: agent::Settings,
    budget: Budget,
    keys: Keys,
    hooks: Hooks,
    memory: Arc<Memory>,
    /// Texts of the tools in the list of clients.
    tool_texts: ToolTexts,
    /// Stored responses; `None` if responses are not stored.
    archive: Option<Arc<Archive>>,
    /// The gateway as an MCP server.
    mcp: Arc<Service>,
    /// Sessions of MCP clients.
    sessions: Arc<Sessions>,
    /// MCP clients over HTTP+SSE.
    pipes: Arc<Pipes>,
}

/// Hooks into parts that the server does not depend on.
#[derive(Default)]
pub struct Hooks {
    /// Keeps large results of MCP servers; `None` if models receive them whole.
    pub results: Option<Results>,
    /// Calls that clients do not send back; `None` if they are not put back.
    pub recall: Option<Recall>,
    /// Runs of scripts; `None` if none are kept.
    pub runs: Option<Runs>,
    /// The list in which calls of models wait for a person's decision; `None` if none can wait.
    pub waiting: Option<Arc<dyn ApprovalList>>,
    /// Calls of MCP clients that wait for an approval; `None` if none wait.
    pub approvals: Option<Approvals>,
    /// Additional fields of `GET /health`.
    pub gauges: Vec<Gauge>,
    /// Metrics of `GET /metrics`.
    pub metrics: Registry,
    /// Reloads plugins; `None` if there are no plugins.
    pub plugins: Option<Box<dyn Reload>>,
    /// Orders and diagnostics of MCP servers; `None` if there are no servers.
    pub upstreams: Option<Box<dyn Upstreams>>,
    /// Database for responses, which the first response to store opens; `None` if responses are not
    /// stored.
    pub store: Option<store::Settings>,
    /// Verifies access tokens at `/mcp`; `None` if only virtual keys are credentials.
    pub identity: Option<Verifier>,
}

/// Additional field of `GET /health`: its name, and a function that returns its value.
pub type Gauge = (&'static str, Box<dyn Fn() -> serde_json::Value + Send + Sync>);

/// Response to a request, and the memory charge that is held until the response is sent.
type Answer = (Reply, Option<Charge>);

/// An authenticated sender, with the tool filter of the request.
struct Sender {
    key: Option<Arc<VirtualKey>>,
    filter: Filter,
    /// Treatment of calls that need an approval, by the header or else by the key.
    approval: Option<ApprovalChoice>,
}

impl App {
    /// Creates the shared state.
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
        let archive = hooks.store.clone().zip(settings.responses);
        let archive = archive.map(|(store, bounds)| Archive::new(store, bounds));
        let approvals = hooks.approvals.clone();
        let mcp = Service::new(catalog.clone(), budget, settings.mcp.clone(), approvals);
        Arc::new(Self {
            mcp,
            sessions: Sessions::new(settings.mcp.sessions),
            pipes: Arc::default(),
            settings,
            started: Instant::now(),
            catalog,
            models: Arc::new(models),
            agent,
            budget,
            keys,
            hooks,
            memory,
            tool_texts: ToolTexts::default(),
            archive,
        })
    }

    /// Handles one request from `peer`. A panic becomes an internal error.
    async fn handle(&self, mut request: Request<Incoming>, peer: IpAddr) -> Answer {
        let started = Instant::now();
        alias::apply(&mut request);
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let page = cors::origin(&self.settings, request.headers());
        // Unwind-safe: the catalog snapshot and the view belong to the request alone, so no state
        // of it is used after a panic.
        let answer =
            AssertUnwindSafe(self.route(request, peer)).catch_unwind().await.unwrap_or_else(|_| {
                error!(%method, path, "a request made the gateway panic");
                Err(ApiError::internal())
            });
        let mut answer = answer.unwrap_or_else(|error| {
            let reply = if mcp::is_path(&path) || mcp::sse::target(&path).is_some() {
                mcp::rpc_failure(error)
            } else {
                error.into_reply()
            };
            (reply, None)
        });
        if let Some(page) = page {
            cors::permit(page, answer.0.headers_mut());
        }
        let status = answer.0.status();
        let duration = started.elapsed();
        if status.is_success() && CALLS.contains(&path.as_str()) {
            info!(%method, path, status = status.as_u16(), ?duration, "request");
        } else {
            debug!(%method, path, status = status.as_u16(), ?duration, "request");
        }
        answer
    }

    async fn route(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Answer, ApiError> {
        origin::check(&self.settings, request.headers(), request.uri())?;
        let route = Route::find(request.uri().path())
            .filter(|route| self.settings.mcp.sse || !matches!(route, Route::Sse(_)))
            .ok_or_else(|| ApiError::no_such_path(request.uri().path()))?;
        if cors::is_preflight(&request)
            && cors::origin(&self.settings, request.headers()).is_some()
            && route.act().is_none()
        {
            return Ok((cors::preflight(route.methods(), request.headers()), None));
        }
        if !route.methods().contains(request.method()) {
            return Err(ApiError::wrong_method(route.methods()));
        }
        let seat = Seat::from_request(&request);
        let shows_state = matches!(route, Route::Health | Route::Metrics);
        if seat.as_ref().is_some_and(Seat::is_reserved) && !shows_state {
            return Err(connections::all_in_use());
        }
        if let Route::Health = route {
            // Not charged: it is small, and it is needed most when memory is exhausted.
            return Ok((health::show(self), None));
        }
        if let Some(act) = route.act() {
            let headers = request.headers();
            operator::check(act, self.settings.require_virtual_key, Some(peer), headers, || {
                auth::key(&self.keys, false, headers)
            })?;
        }
        if let Route::Metrics = route {
            // Not charged, for the same reason.
            return Ok((metrics::show(self), None));
        }
        if let Route::ResourceMetadata = route {
            return identity::show(self, request.uri().path()).map(|reply| (reply, None));
        }
        let sender = match route {
            Route::Mcp | Route::Sse(_) => identity::sender(self, request.headers()).await?,
            _ => self.sender(request.headers())?,
        };
        if let Some(seat) = &seat {
            let waits = matches!(route, Route::Mcp | Route::Sse(mcp::sse::Target::Stream))
                && request.method() == Method::GET;
            seat.claim(&sender.tenant(), waits)?;
        }
        let charge = self.memory.open(sender.tenant(), request.headers())?;
        let reply = self.answer(route, &sender, request, &charge).await?;
        // A streamed response is still being made, and what it holds stays charged.
        if let Payload::Whole(body) = reply.body() {
            let bytes = memory::REQUEST_BYTES + body.len();
            charge.settle(bytes).map_err(memory::Spent::after_work)?;
        }
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
            Route::Responses => responses::create(self, sender, request, charge).await,
            Route::InputTokens => responses::count(self, sender, request, charge).await,
            Route::Stored(_) => responses::stored(self, sender, request, charge).await,
            Route::Runs(_) => runs::run(self, sender, request, charge).await,
            Route::Approvals(_) => {
                let path = request.into_parts().0.uri;
                approvals::run(self, sender, path.path(), charge).await
            }
            Route::Execute => execute::run(self, sender, request, charge).await,
            Route::Result => results::raw(self, sender, request.uri().path(), charge),
            Route::Model => {
                let path = request.into_parts().0.uri;
                models::show(self, path.path(), charge).await
            }
            Route::Models => {
                // Drops the unread body, so that it is not held while the providers are queried.
                drop(request);
                models::list(self, sender, charge).await
            }
            Route::Clients => {
                let head = request.into_parts().0;
                admin::clients(self, sender, head.uri.query(), charge).await
            }
            Route::Mcp => mcp::handle(self, sender, request, charge).await,
            Route::Sse(mcp::sse::Target::Stream) => mcp::sse::open(self, sender, &request),
            Route::Sse(mcp::sse::Target::Message) => {
                mcp::sse::post(self, sender, request, charge).await
            }
            Route::Reload => {
                let path = request.into_parts().0.uri;
                reload::run(self, reload::client_of(path.path()).unwrap_or_default()).await
            }
            Route::Upstream(operation) => {
                let path = request.into_parts().0.uri;
                upstreams::run(self, operation, path.path()).await
            }
            Route::ResourceMetadata => identity::show(self, request.uri().path()),
            Route::Metrics => Ok(metrics::show(self)),
            Route::Health => Ok(health::show(self)),
        }
    }

    fn sender(&self, headers: &HeaderMap) -> Result<Sender, ApiError> {
        let key = auth::key(&self.keys, self.settings.require_virtual_key, headers)?;
        Self::with_key(key, headers)
    }

    /// Returns the sender of a request that came with this key.
    fn with_key(key: Option<Arc<VirtualKey>>, headers: &HeaderMap) -> Result<Sender, ApiError> {
        let clients = respond::names(headers, INCLUDE_CLIENTS)?;
        let tools = respond::names(headers, INCLUDE_TOOLS)?;
        let filter = Filter::parse(clients.as_deref(), tools.as_deref())
            .with_language(options::language(headers)?);
        let by_key = key.as_ref().and_then(|key| key.approval);
        let approval = options::approval(headers)?.or(by_key);
        let filter = filter.with_headers(auth::forwardable(headers));
        Ok(Sender { key, filter, approval })
    }

    /// Starts the agent loop for a request.
    fn run(
        &self,
        sender: &Sender,
        body: RawObject,
        is_streamed: bool,
        wants_events: bool,
        timeout: Duration,
        charge: &Charge,
    ) -> Run {
        let view = self.model_view(sender);
        let origin = Origin::Model;
        let budget = self.budget;
        // A person reads the answer.
        let hearing = Hearing { questions: QuestionKinds::ELICITATION, ..Hearing::default() };
        let (caller, reports) = if wants_events {
            let (caller, reports) = Caller::with_events(view, origin, budget, hearing);
            (caller, Some(reports))
        } else {
            (Caller::hearing(view, origin, budget, hearing), None)
        };
        let keeper = self.keeper(sender, body.get("store") != Some("false"));
        let mut notes = Object::new();
        availability::note(self, sender, &mut notes);
        let request = agent::Request {
            body,
            native: None,
            is_streamed,
            shows_rounds: false,
            names_tools: !sender.filter.is_none(),
            max_tool_calls: None,
            reports,
            results: self.hooks.results.clone(),
            keeper,
            approver: self.approver(sender),
            notes,
            budget: MemoryBudget::new(charge.clone()),
        };
        self.start(caller, request, timeout)
    }

    /// Starts the agent loop for a request that takes at most `timeout`.
    fn start(&self, caller: Caller, request: agent::Request, timeout: Duration) -> Run {
        agent::run(self.models.clone(), caller, request, agent::Settings { timeout, ..self.agent })
    }

    /// Returns the keeper of the calls that the client of a request does not see. `may_store` is
    /// false if nothing of the request may be stored.
    fn keeper(&self, sender: &Sender, may_store: bool) -> Option<Keeper> {
        let recall = self.hooks.recall.as_ref()?;
        Some(recall.keeper(sender.tenant(), may_store))
    }

    /// Returns the caller that the calls of a request are decided for.
    fn caller(&self, sender: &Sender, origin: Origin) -> Caller {
        Caller::new(self.view(sender), origin, self.budget)
    }

    /// Returns what waits for the approvals of a request; `None` if its calls do not wait.
    fn approver(&self, sender: &Sender) -> Option<Approver> {
        let list = self.hooks.waiting.clone()?;
        let limit = self.agent.approval_wait;
        (self.approval(sender) == ApprovalChoice::Wait).then_some(Approver { list, limit })
    }

    fn approval(&self, sender: &Sender) -> ApprovalChoice {
        sender.approval.unwrap_or(self.agent.approval)
    }

    /// Returns the tools that the model of a request may see.
    fn model_view(&self, sender: &Sender) -> View {
        let view = self.view(sender);
        match self.approval(sender) {
            ApprovalChoice::Omit => view.without_asking(),
            ApprovalChoice::Return | ApprovalChoice::Wait => view,
        }
    }

    /// Returns the tools that a request may see.
    fn view(&self, sender: &Sender) -> View {
        self.catalog.snapshot().view(&sender.filter, sender.key.as_deref())
    }
}

impl Sender {
    /// Returns the tenant that the memory of the request is charged to. Its tool calls are charged
    /// to the same tenant.
    fn tenant(&self) -> Tenant {
        self.key.as_deref().map_or(Tenant::ANONYMOUS, |key| key.tenant().clone())
    }
}

/// Routes of the server.
#[derive(Debug, Clone, Copy)]
enum Route {
    Chat,
    Responses,
    /// The number of tokens of a request for a Response.
    InputTokens,
    Stored(Target),
    /// Runs of scripts.
    Runs(runs::Target),
    /// Calls that wait for an approval.
    Approvals(approvals::Target),
    Models,
    /// One model.
    Model,
    Execute,
    /// Unchanged result of a call.
    Result,
    Clients,
    Mcp,
    /// The deprecated transport of MCP.
    Sse(mcp::sse::Target),
    /// Metadata of the gateway for OAuth clients.
    ResourceMetadata,
    Reload,
    /// Operation or question of the operator to one MCP server.
    Upstream(Operation),
    Metrics,
    Health,
}

impl Route {
    fn find(path: &str) -> Option<Self> {
        if path == responses::INPUT_TOKENS {
            return Some(Self::InputTokens);
        }
        if let Some((target, _)) = Target::find(path) {
            return Some(Self::Stored(target));
        }
        if let Some((target, _)) = runs::Target::find(path) {
            return Some(Self::Runs(target));
        }
        if let Some((target, _)) = approvals::Target::find(path) {
            return Some(Self::Approvals(target));
        }
        if let Some(target) = mcp::sse::target(path) {
            return Some(Self::Sse(target));
        }
        if let Some((operation, _)) = Operation::find(path) {
            return Some(Self::Upstream(operation));
        }
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/responses" => Self::Responses,
            "/v1/models" => Self::Models,
            "/v1/mcp/tool/execute" => Self::Execute,
            "/api/mcp/clients" => Self::Clients,
            "/health" => Self::Health,
            "/metrics" => Self::Metrics,
            path if models::id_of(path).is_some() => Self::Model,
            path if results::handle_of(path).is_some() => Self::Result,
            path if reload::client_of(path).is_some() => Self::Reload,
            path if mcp::is_path(path) => Self::Mcp,
            path if identity::is_metadata(path) => Self::ResourceMetadata,
            _ => return None,
        })
    }

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Chat | Self::Responses | Self::InputTokens | Self::Execute | Self::Reload => {
                &[Method::POST]
            }
            Self::Stored(target) => target.methods(),
            Self::Runs(target) => target.methods(),
            Self::Approvals(target) => target.methods(),
            Self::Upstream(operation) => operation.methods(),
            Self::Mcp => &[Method::POST, Method::GET, Method::DELETE],
            Self::Sse(target) => target.methods(),
            Self::Models
            | Self::Model
            | Self::Result
            | Self::Clients
            | Self::Metrics
            | Self::Health
            | Self::ResourceMetadata => &[Method::GET, Method::HEAD],
        }
    }

    /// Returns the act of the operator that a request is; `None` if others may send it too.
    fn act(self) -> Option<Act> {
        match self {
            Self::Reload => Some(Act::Reload),
            Self::Upstream(operation) => Some(operation.act()),
            Self::Metrics => Some(Act::ReadMetrics),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
