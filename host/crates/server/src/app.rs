//! The state that all request handlers share.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use http::HeaderMap;

use super::{
    Hooks, Settings, admin::ToolTexts, auth, ingress::Ingress, mcp::Pipes, memory::Memory, options,
    replicas::Elsewhere, respond::ApiError, responses::Archive, sender::Sender,
};
use airlock_agent::{self as agent, Approver, Run, recall::Keeper};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{ApprovalChoice, Budget, Caller, LiveKeys, Origin, View},
    replica::ReplicaId,
    tool::ANSWER_TIMEOUT,
};
use airlock_mcp_server::{Service, Sessions};
use airlock_model::Models;

/// Shared state of all request handlers.
pub struct App {
    pub(super) settings: Settings,
    pub(super) started: Instant,
    pub(super) catalog: Arc<Catalog>,
    pub(super) models: Arc<Models>,
    pub(super) agent: agent::Settings,
    pub(super) budget: Budget,
    /// Virtual keys, which may be replaced while the gateway serves.
    pub(super) keys: LiveKeys,
    pub(super) hooks: Hooks,
    pub(super) memory: Arc<Memory>,
    /// Texts of the tools in the list of clients.
    pub(super) tool_texts: ToolTexts,
    /// Stored responses; `None` if responses are not stored.
    pub(super) archive: Option<Arc<Archive>>,
    /// The gateway as an MCP server.
    pub(super) mcp: Arc<Service>,
    /// Sessions of MCP clients.
    pub(super) sessions: Arc<Sessions>,
    /// MCP clients over HTTP+SSE.
    pub(super) pipes: Arc<Pipes>,
}

impl App {
    /// Creates the shared state.
    pub fn new(
        settings: Settings,
        catalog: Arc<Catalog>,
        models: Models,
        agent: agent::Settings,
        budget: Budget,
        keys: LiveKeys,
        hooks: Hooks,
    ) -> Arc<Self> {
        let memory = Memory::new(settings.max_request_memory_bytes);
        let archive = settings.responses.map(|bounds| Archive::new(hooks.database.clone(), bounds));
        let approvals = Some(hooks.approvals.clone());
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
        self.settings.require_virtual_key || self.hooks.requires_key.load(Ordering::Relaxed)
    }

    /// Starts the agent loop for a request that takes at most `timeout`.
    pub(super) fn start(&self, caller: Caller, request: agent::Request, timeout: Duration) -> Run {
        agent::run(self.models.clone(), caller, request, agent::Settings { timeout, ..self.agent })
    }

    /// Returns the keeper of the calls that the client of a request does not see. `may_store` is
    /// false if nothing of the request may be stored.
    pub(super) fn keeper(&self, sender: &Sender, may_store: bool) -> Keeper {
        self.hooks.recall.keeper(sender.tenant(), may_store)
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
