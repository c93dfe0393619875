//! The parts of a gateway that a request uses, with the settings of one moment.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Sender, ToolOptions, current::CurrentApprovals};
use airlock_agent::{
    self as agent, ApprovalList, Approver, Run,
    recall::{Recall, RecallWriter},
    results::Results,
};
use airlock_catalog::Catalog;
use airlock_conversation::Object;
use airlock_core::{
    door::{ApprovalChoice, Budget, Caller, LiveKeys, Origin, View},
    request_memory::Memory,
};
use airlock_model::Models;
use airlock_scripts::runs::Runs;

/// Member of the `airlock` object with the way in which tools are offered.
const MODE: &str = "mode";

/// The tools that the model of a request may see.
pub struct ModelTools {
    /// The tools.
    pub view: View,
    /// Members of the `airlock` object: the way in which they are offered, if one was asked for.
    pub notes: Object,
}

/// The parts of a gateway that a request uses, with the settings of the moment at which it begins. Cheap to
/// clone.
#[derive(Clone)]
pub struct RequestParts {
    /// All tools.
    pub catalog: Arc<Catalog>,
    /// Virtual keys.
    pub keys: LiveKeys,
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
    /// The list in which calls of models wait for a person's decision.
    pub waiting: Arc<dyn ApprovalList>,
    /// The memory of all requests in flight.
    pub memory: Arc<Memory>,
    /// Time at which the gateway was started.
    pub started: Instant,
    /// Time after it in which requests wait for sources of tools that were never listed.
    pub startup_wait: Duration,
}

impl RequestParts {
    /// Returns the tools that a request may see.
    pub fn view(&self, sender: &Sender) -> View {
        self.catalog.snapshot().view(&sender.filter, sender.key.as_deref())
    }

    /// Returns the tools that the model of a request may see, in the way that the request or the configuration asks
    /// for.
    pub fn model_tools(&self, sender: &Sender, options: ToolOptions) -> ModelTools {
        let snapshot = self.catalog.snapshot();
        let view = snapshot.view(&sender.filter, sender.key.as_deref());
        let view = match self.approval(sender) {
            ApprovalChoice::Omit => view.without_asking(),
            ApprovalChoice::Return | ApprovalChoice::Wait => view,
        };
        let mut notes = Object::new();
        let Some(asked) = options.mode.or(self.agent.tool_mode) else {
            return ModelTools { view, notes };
        };
        let (view, choice) = snapshot.in_mode(view, asked);
        notes.insert(MODE.to_owned(), choice.to_json());
        ModelTools { view, notes }
    }

    /// Returns the caller that the calls of a request are decided for.
    pub fn caller(&self, sender: &Sender, origin: Origin) -> Caller {
        Caller::new(self.view(sender), origin, self.budget)
    }

    /// Returns what waits for the approvals of a request; `None` if its calls do not wait.
    pub fn approver(&self, sender: &Sender) -> Option<Approver> {
        (self.approval(sender) == ApprovalChoice::Wait).then(|| {
            let list = self.waiting.clone();
            let list = CurrentApprovals::new(list, self.catalog.clone(), self.keys.clone(), sender);
            Approver { list, limit: self.agent.approval_wait }
        })
    }

    /// Returns the treatment of a request's calls that need an approval.
    pub fn approval(&self, sender: &Sender) -> ApprovalChoice {
        sender.approval.unwrap_or(self.agent.approval)
    }

    /// Returns the keeper of the calls that the client of a request does not see. `may_store` is
    /// false if nothing of the request may be stored.
    pub fn keeper(&self, sender: &Sender, may_store: bool) -> RecallWriter {
        self.recall.keeper(sender.tenant(), may_store)
    }

    /// Starts the agent loop for a request that takes at most `timeout`.
    pub fn start(&self, caller: Caller, request: agent::Request, timeout: Duration) -> Run {
        agent::run(self.models.clone(), caller, request, agent::Settings { timeout, ..self.agent })
    }
}
