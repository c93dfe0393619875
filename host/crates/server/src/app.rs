//! The state of request handlers: parts that live as long as the gateway, and the settings of one moment.
//!
//! [`App`] does not change. A change of the settings makes another one of the same parts, which
//! [`LiveApp`] swaps in as a whole: a request has the settings with which it began until its end, and none
//! sees a part of a change.

use std::{
    future::Future,
    sync::{Arc, OnceLock},
    time::Instant,
};

use airlock_identity::Verifier;
use arc_swap::ArcSwap;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tracing::warn;

use super::{
    BadSettings, Hooks, Settings, debug::DebugRecords, mcp::Pipes, options, sender::sender_of,
};
use airlock_agent::{self as agent, recall::Recall, results::Results};
use airlock_core::{
    door::{Budget, LiveKeys},
    replica::ReplicaId,
    request_memory::Memory,
    tool::ANSWER_TIMEOUT,
};
use airlock_http::{auth, respond::ApiError};
use airlock_ingress::Ingress;
use airlock_mcp_server::{McpService, Sessions};
use airlock_model::Models;
use airlock_operator_api::OperatorApi;
use airlock_replicas::{PeerGateway, Replicas};
use airlock_requests::{RequestParts, Sender};
use airlock_responses::Archive;
use airlock_scripts::runs::Runs;

/// Settings of requests, and what is made of them.
#[derive(Clone)]
pub struct RequestSettings {
    /// Settings of the listener. Those of its address, its TLS and its management API are read at the start
    /// alone.
    pub settings: Settings,
    /// The providers of models.
    pub models: Arc<Models>,
    /// Settings of the agent loop.
    pub agent: agent::Settings,
    /// Budget of one call.
    pub budget: Budget,
    /// Keeps large results of MCP servers.
    pub results: Results,
    /// Calls that clients do not send back.
    pub recall: Recall,
    /// Runs of scripts; `None` if none are kept.
    pub runs: Option<Runs>,
    /// Verifies access tokens at `/mcp`; `None` if only virtual keys are credentials.
    pub identity: Option<Arc<Verifier>>,
}

/// State of all request handlers, with the settings of requests that begin now.
pub struct LiveApp {
    current: ArcSwap<App>,
    /// Held while the settings are replaced.
    replacing: Mutex<()>,
    /// The requests of other servers of the process, and of the program itself, until they are answered.
    passed_on: TaskTracker,
    /// Cancelled when no further one is taken.
    closing: CancellationToken,
    /// Start of the first drain, whose deadline holds for later ones: a gateway that serves drains its connections first,
    /// then all that is left.
    drains_since: OnceLock<tokio::time::Instant>,
}

impl LiveApp {
    /// Creates the state of a gateway with these parts.
    pub fn new(hooks: Hooks, settings: RequestSettings) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(App::new(hooks, settings)),
            replacing: Mutex::default(),
            passed_on: TaskTracker::new(),
            closing: CancellationToken::new(),
            drains_since: OnceLock::new(),
        })
    }

    /// Sets the gateways that share the store, to which requests are forwarded from now on. The first ones
    /// stay.
    pub fn set_replicas(&self, replicas: Arc<Replicas>) {
        // A gateway is announced once.
        let _ = self.current().replicas.set(replicas);
    }

    /// Returns the parts that a request of the program itself uses, with the settings of this moment.
    pub fn parts(&self) -> Arc<RequestParts> {
        self.current().parts.clone()
    }

    /// Returns whether every request needs a virtual key at this moment.
    pub fn requires_key(&self) -> bool {
        self.current().requires_key()
    }

    /// Returns whether calls of the clients with this key wait for operators, who alone approve them.
    pub fn waits_for_operators(&self, key: Option<&str>) -> bool {
        self.current().settings.mcp.waits_for_operators(key)
    }

    /// Takes no further requests of other servers of the process and of the program itself, and waits until those
    /// that run, the calls of MCP sessions and `connections` have ended, at most `drain_timeout` since the first drain.
    /// Then it ends the sessions. Returns whether all have ended.
    pub async fn drain(&self, connections: impl Future<Output = ()>) -> bool {
        self.closing.cancel();
        self.passed_on.close();
        let app = self.current();
        // Streams that wait for notifications would last until the end.
        app.mcp.closing().cancel();
        // Calls of sessions run on without a connection.
        let draining = async {
            connections.await;
            self.passed_on.wait().await;
            app.sessions.drained().await;
        };
        let since = self.drains_since.get_or_init(tokio::time::Instant::now);
        let left = app.settings.drain_timeout.saturating_sub(since.elapsed());
        let has_ended = timeout(left, draining).await.is_ok();
        if !has_ended {
            let left = self.passed_on.len();
            warn!(left, "the drain timeout has ended; requests in flight are cut off");
        }
        app.sessions.close_all();
        has_ended
    }

    /// Counts a request of another server of the process or of the program itself, until the result is dropped;
    /// `None` if no further one is taken.
    pub fn enter(&self) -> Option<TaskTrackerToken> {
        let token = self.passed_on.token();
        // After the token: a request that is not refused is waited for.
        (!self.closing.is_cancelled()).then_some(token)
    }

    /// Replaces the settings of requests that begin from now on. Fails if they are unsafe or cannot work;
    /// nothing changes then.
    pub fn replace(&self, settings: RequestSettings) -> Result<(), BadSettings> {
        settings.settings.check()?;
        let _turn = self.replacing.lock();
        let replaced = self.current().with_settings(settings);
        self.current.store(Arc::new(replaced));
        Ok(())
    }

    /// Returns the metrics of `GET /metrics` in the text format of `OpenMetrics`. May block.
    pub fn open_metrics(&self) -> String {
        self.current().hooks.metrics.open_metrics()
    }

    /// Returns the state for a request that begins now.
    pub(super) fn current(&self) -> Arc<App> {
        self.current.load_full()
    }
}

/// State of the handlers of requests that began with the same settings.
pub(super) struct App {
    pub(super) settings: Settings,
    /// The parts that do not depend on HTTP.
    pub(super) parts: Arc<RequestParts>,
    pub(super) identity: Option<Arc<Verifier>>,
    /// Stored responses; `None` if responses are not stored.
    pub(super) archive: Option<Arc<Archive>>,
    /// Requests of models that are recorded; `None` if none are.
    pub(super) debug: Option<Arc<DebugRecords>>,
    /// The gateway as an MCP server.
    pub(super) mcp: Arc<McpService>,
    /// The API of operators.
    pub(super) operators: OperatorApi,
    // From here on, the parts that live as long as the gateway.
    pub(super) hooks: Arc<Hooks>,
    /// The gateways that share the store. Empty if this one neither is announced to them nor forwards
    /// requests.
    replicas: Arc<OnceLock<Arc<Replicas>>>,
    /// Virtual keys. They are those of now and not of the settings: a key that is revoked is not accepted
    /// any more, whichever settings the request began with.
    pub(super) keys: LiveKeys,
    /// Sessions of MCP clients.
    pub(super) sessions: Arc<Sessions>,
    /// MCP clients over HTTP+SSE.
    pub(super) pipes: Arc<Pipes>,
}

impl App {
    pub(super) fn new(hooks: Hooks, own: RequestSettings) -> Self {
        let memory = Memory::new(own.settings.max_request_memory_bytes);
        let parts = parts(&hooks, &own, memory, Instant::now());
        let RequestSettings { settings, budget, identity, .. } = own;
        let approvals = Some(hooks.operators.approvals.clone());
        let mcp = McpService::new(hooks.catalog.clone(), budget, settings.mcp.clone(), approvals);
        let sessions = Sessions::new(settings.mcp.sessions, mcp.times().clone());
        hooks.http.show(parts.memory.clone(), sessions.clone(), mcp.times().clone());
        Self {
            archive: archive(&hooks, &settings),
            debug: settings.debug_requests.map(DebugRecords::new).map(Arc::new),
            operators: OperatorApi::new(
                hooks.operators.clone(),
                hooks.keys.clone(),
                mcp.closing().clone(),
                parts.clone(),
                settings.operators(),
            ),
            mcp,
            sessions,
            pipes: Arc::default(),
            keys: hooks.keys.clone(),
            replicas: Arc::default(),
            hooks: Arc::new(hooks),
            settings,
            parts,
            identity,
        }
    }

    /// Returns the state with other settings. The bounds on what lives longer than a request change at once.
    fn with_settings(&self, new: RequestSettings) -> Self {
        let memory = self.parts.memory.clone();
        let parts = parts(&self.hooks, &new, memory, self.parts.started);
        let RequestSettings { settings, budget, identity, .. } = new;
        parts.memory.set_limit(settings.max_request_memory_bytes);
        self.sessions.set_bounds(settings.mcp.sessions);
        let debug = if settings.debug_requests == self.settings.debug_requests {
            self.debug.clone()
        } else {
            settings.debug_requests.map(DebugRecords::new).map(Arc::new)
        };
        Self {
            archive: archive(&self.hooks, &settings),
            debug,
            mcp: self.mcp.with_settings(budget, settings.mcp.clone()),
            operators: self.operators.with_settings(parts.clone(), settings.operators()),
            hooks: self.hooks.clone(),
            replicas: self.replicas.clone(),
            keys: self.keys.clone(),
            sessions: self.sessions.clone(),
            pipes: self.pipes.clone(),
            settings,
            parts,
            identity,
        }
    }

    /// Finds the sender of a request by its virtual key.
    pub(super) fn sender(&self, headers: &HeaderMap, ingress: Ingress) -> Result<Sender, ApiError> {
        let certificate = ingress.certificate();
        let key = auth::key(&self.keys, self.requires_key(), headers, certificate)?;
        sender_of(key, headers)
    }

    /// Finds the gateway that has what a request refers to; `None` if this gateway handles the request.
    /// Fails if that cannot be told.
    pub(super) async fn elsewhere(
        &self,
        owner: Option<ReplicaId>,
        headers: &HeaderMap,
    ) -> Result<Option<PeerGateway>, ApiError> {
        let Some(replicas) = self.replicas() else { return Ok(None) };
        let Some(url) = replicas.elsewhere(owner, headers).await? else { return Ok(None) };
        let Budget { script, deadline, .. } = self.parts.budget;
        let most = script.max(deadline);
        // Answers of the client do not count as time of the call.
        let limit = options::timeout(headers, most)? + ANSWER_TIMEOUT;
        Ok(Some(PeerGateway { replicas: replicas.clone(), url, limit }))
    }

    /// The gateways that share the store; `None` if requests are not forwarded to them.
    pub(super) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.replicas.get()
    }

    /// Returns whether every request needs a virtual key.
    pub(super) fn requires_key(&self) -> bool {
        self.settings.require_virtual_key
    }
}

/// Returns the parts of these settings that do not depend on HTTP.
fn parts(
    hooks: &Hooks,
    own: &RequestSettings,
    memory: Arc<Memory>,
    started: Instant,
) -> Arc<RequestParts> {
    Arc::new(RequestParts {
        catalog: hooks.catalog.clone(),
        keys: hooks.keys.clone(),
        models: own.models.clone(),
        agent: own.agent,
        budget: own.budget,
        results: own.results.clone(),
        recall: own.recall.clone(),
        runs: own.runs.clone(),
        waiting: hooks.waiting.clone(),
        memory,
        started,
        startup_wait: own.settings.startup_wait,
    })
}

/// Returns the stored responses; `None` if responses are not stored.
fn archive(hooks: &Hooks, settings: &Settings) -> Option<Arc<Archive>> {
    settings.responses.map(|bounds| Archive::new(hooks.database.clone(), bounds))
}
