//! The state of request handlers: parts that live as long as the gateway, and the settings of one moment.
//!
//! [`App`] does not change. A change of the settings makes another one of the same parts, which
//! [`LiveApp`] swaps in as a whole: a request has the settings with which it began until its end, and none
//! sees a part of a change.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_identity::Verifier;
use arc_swap::ArcSwap;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    BadSettings, Hooks, Settings, admin::ToolTexts, auth, debug::DebugRecords, ingress::Ingress,
    mcp::Pipes, memory::Memory, operator_login::LoginRate, options, replicas::Elsewhere,
    respond::ApiError, responses::Archive, sender::Sender,
};
use airlock_agent::{
    self as agent, Approver, Run,
    recall::{Keeper, Recall},
    results::Results,
};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{ApprovalChoice, Budget, Caller, LiveKeys, Origin, View},
    replica::ReplicaId,
    tool::ANSWER_TIMEOUT,
};
use airlock_mcp_server::{Service, Sessions};
use airlock_model::Models;
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
}

impl LiveApp {
    /// Creates the state of a gateway with these parts.
    pub fn new(hooks: Hooks, settings: RequestSettings) -> Arc<Self> {
        let current = ArcSwap::from_pointee(App::new(hooks, settings));
        Arc::new(Self { current, replacing: Mutex::default() })
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

    /// Returns the state for a request that begins now.
    pub(super) fn current(&self) -> Arc<App> {
        self.current.load_full()
    }
}

/// State of the handlers of requests that began with the same settings.
pub(super) struct App {
    pub(super) settings: Settings,
    pub(super) models: Arc<Models>,
    pub(super) agent: agent::Settings,
    pub(super) budget: Budget,
    pub(super) results: Results,
    pub(super) recall: Recall,
    pub(super) runs: Option<Runs>,
    pub(super) identity: Option<Arc<Verifier>>,
    /// Stored responses; `None` if responses are not stored.
    pub(super) archive: Option<Arc<Archive>>,
    /// Requests of models that are recorded; `None` if none are.
    pub(super) debug: Option<Arc<DebugRecords>>,
    /// The gateway as an MCP server.
    pub(super) mcp: Arc<Service>,
    // From here on, the parts that live as long as the gateway.
    pub(super) hooks: Arc<Hooks>,
    pub(super) started: Instant,
    pub(super) catalog: Arc<Catalog>,
    /// Virtual keys. They are those of now and not of the settings: a key that is revoked is not accepted
    /// any more, whichever settings the request began with.
    pub(super) keys: LiveKeys,
    pub(super) memory: Arc<Memory>,
    /// Texts of the tools in the list of clients.
    pub(super) tool_texts: ToolTexts,
    /// Sessions of MCP clients.
    pub(super) sessions: Arc<Sessions>,
    /// MCP clients over HTTP+SSE.
    pub(super) pipes: Arc<Pipes>,
    /// Bounds the logins of operators that each peer begins.
    pub(super) login_rate: Arc<LoginRate>,
    /// Place for the upload of a component.
    pub(super) uploads: Arc<Semaphore>,
}

impl App {
    pub(super) fn new(hooks: Hooks, own: RequestSettings) -> Self {
        let RequestSettings { settings, models, agent, budget, results, recall, runs, identity } =
            own;
        let approvals = Some(hooks.approvals.clone());
        let catalog = hooks.catalog.clone();
        Self {
            archive: archive(&hooks, &settings),
            debug: settings.debug_requests.map(DebugRecords::new).map(Arc::new),
            mcp: Service::new(catalog.clone(), budget, settings.mcp.clone(), approvals),
            memory: Memory::new(settings.max_request_memory_bytes),
            login_rate: Arc::default(),
            uploads: Arc::new(Semaphore::new(1)),
            sessions: Sessions::new(settings.mcp.sessions),
            pipes: Arc::default(),
            started: Instant::now(),
            tool_texts: ToolTexts::default(),
            catalog,
            keys: hooks.keys.clone(),
            hooks: Arc::new(hooks),
            settings,
            models,
            agent,
            budget,
            results,
            recall,
            runs,
            identity,
        }
    }

    /// Returns the state with other settings. The bounds on what lives longer than a request change at once.
    fn with_settings(&self, new: RequestSettings) -> Self {
        let RequestSettings { settings, models, agent, budget, results, recall, runs, identity } =
            new;
        self.memory.set_limit(settings.max_request_memory_bytes);
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
            hooks: self.hooks.clone(),
            started: self.started,
            catalog: self.catalog.clone(),
            keys: self.keys.clone(),
            memory: self.memory.clone(),
            tool_texts: self.tool_texts.clone(),
            sessions: self.sessions.clone(),
            pipes: self.pipes.clone(),
            login_rate: self.login_rate.clone(),
            uploads: self.uploads.clone(),
            settings,
            models,
            agent,
            budget,
            results,
            recall,
            runs,
            identity,
        }
    }

    /// Finds the sender of a request by its virtual key.
    pub(super) fn sender(&self, headers: &HeaderMap, ingress: Ingress) -> Result<Sender, ApiError> {
        let certificate = ingress.certificate();
        let key = auth::key(&self.keys, self.requires_key(), headers, certificate)?;
        Sender::new(key, headers)
    }

    /// Finds the gateway that has what a request refers to; `None` if this gateway handles the request.
    /// Fails if that cannot be told.
    pub(super) async fn elsewhere(
        &self,
        owner: Option<ReplicaId>,
        headers: &HeaderMap,
    ) -> Result<Option<Elsewhere>, ApiError> {
        let Some(replicas) = &self.hooks.replicas else { return Ok(None) };
        let Some(url) = replicas.elsewhere(owner, headers).await? else { return Ok(None) };
        let most = self.budget.script.max(self.budget.deadline);
        // Answers of the client do not count as time of the call.
        let limit = options::timeout(headers, most)? + ANSWER_TIMEOUT;
        Ok(Some(Elsewhere { replicas: replicas.clone(), url, limit }))
    }

    /// Returns whether every request needs a virtual key.
    pub(super) fn requires_key(&self) -> bool {
        self.settings.require_virtual_key
    }

    /// Starts the agent loop for a request that takes at most `timeout`.
    pub(super) fn start(&self, caller: Caller, request: agent::Request, timeout: Duration) -> Run {
        agent::run(self.models.clone(), caller, request, agent::Settings { timeout, ..self.agent })
    }

    /// Returns the keeper of the calls that the client of a request does not see. `may_store` is
    /// false if nothing of the request may be stored.
    pub(super) fn keeper(&self, sender: &Sender, may_store: bool) -> Keeper {
        self.recall.keeper(sender.tenant(), may_store)
    }

    /// Returns the caller that the calls of a request are decided for.
    pub(super) fn caller(&self, sender: &Sender, origin: Origin) -> Caller {
        Caller::new(self.view(sender), origin, self.budget)
    }

    /// Returns what waits for the approvals of a request; `None` if its calls do not wait.
    pub(super) fn approver(&self, sender: &Sender) -> Option<Approver> {
        (self.approval(sender) == ApprovalChoice::Wait)
            .then(|| Approver { list: self.hooks.waiting.clone(), limit: self.agent.approval_wait })
    }

    pub(super) fn approval(&self, sender: &Sender) -> ApprovalChoice {
        sender.approval.unwrap_or(self.agent.approval)
    }

    /// Returns the tools that the model of a request may see.
    pub(super) fn model_view(&self, sender: &Sender) -> View {
        let view = self.view(sender);
        match self.approval(sender) {
            ApprovalChoice::Omit => view.without_asking(),
            ApprovalChoice::Return | ApprovalChoice::Wait => view,
        }
    }

    /// Returns the tools that a request may see.
    pub(super) fn view(&self, sender: &Sender) -> View {
        self.catalog.snapshot().view(&sender.filter, sender.key.as_deref())
    }
}

/// Returns the stored responses; `None` if responses are not stored.
fn archive(hooks: &Hooks, settings: &Settings) -> Option<Arc<Archive>> {
    settings.responses.map(|bounds| Archive::new(hooks.database.clone(), bounds))
}
