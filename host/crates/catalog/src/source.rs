//! A source of tools in its current state.

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;

use super::{
    cache::{ClientCache, ResultStore},
    fallback::Fallbacks,
    left_out::LeftOut,
    naming,
    published::{Published, SharedObserver},
    source_kind::SourceKind,
};
use airlock_core::{
    door::{Provider, WithheldTool},
    tool::{ClientName, Offers, Policy, Tool, ToolName},
};
use airlock_strings::{MAX_LISTED, nearest};

/// Number of a writer. Later writers have larger ones; 0 is no writer.
pub(super) type WriterNumber = u64;

/// A source of tools in its current state.
#[derive(Clone)]
pub struct ToolSource {
    /// Its name.
    pub name: ClientName,
    /// Kind of source.
    pub kind: SourceKind,
    /// The operator's policy for its tools.
    pub policy: Policy,
    /// State of the connection.
    pub state: SourceState,
    /// Its tools, sorted by name. They stay while a source is disconnected, so that a short
    /// interruption does not change the tools that models see.
    pub tools: Arc<[Arc<Tool>]>,
    /// Tools of the last list that were left out, at most 100 of them.
    pub left_out: Arc<[LeftOut]>,
    /// Tools of the last list that guards withhold.
    pub(super) withheld: Arc<[Arc<WithheldTool>]>,
    /// Names at the source of the tools whose definitions the operator has not accepted yet. They need
    /// an approval.
    pub unaccepted: Arc<BTreeSet<String>>,
    /// Its resources and prompts, which stay in the same way.
    pub offers: Arc<Offers>,
    /// True once its tools were listed, and not withdrawn since.
    pub is_listed: bool,
    pub(super) provider: Option<Arc<dyn Provider>>,
    /// The provider, if its tools were published.
    pub(super) published: Option<Arc<Published>>,
    /// Writer that has the entry; 0 if none has.
    pub(super) writer: WriterNumber,
}

/// State of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SourceState {
    /// Not connected yet.
    Connecting,
    /// Ready for calls.
    Connected,
    /// Disconnected; a reconnect is in progress.
    Disconnected {
        /// Reason, without secrets.
        reason: String,
    },
    /// Unusable in its current configuration; retried only if a change outside of the
    /// configuration could help, such as the installation of a program.
    Failed {
        /// Reason, without secrets.
        reason: String,
    },
}

impl SourceState {
    /// The state's name in the administrative API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected { .. } => "disconnected",
            Self::Failed { .. } => "error",
        }
    }

    /// Returns the reason that the source is not connected; `None` if it is connected or
    /// connecting.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Disconnected { reason } | Self::Failed { reason } => Some(reason),
            Self::Connecting | Self::Connected => None,
        }
    }
}

impl ToolSource {
    /// Returns whether the source is an MCP server, whose texts are not the operator's.
    pub fn is_server(&self) -> bool {
        matches!(self.kind, SourceKind::Server(_))
    }

    /// Describes where the operator's lists and the listed tools do not agree: no tool is offered, or a
    /// list names one that does not exist. Empty before the first connection.
    pub fn mismatches(&self) -> Vec<String> {
        if !self.is_listed {
            return Vec::new();
        }
        let Policy { execute, exclude, auto_execute, approve_twice, cache, .. } = &self.policy;
        let mut listed = self.tools.iter().filter(|tool| execute.allows_tool(tool)).peekable();
        let is_any_listed = listed.peek().is_some();
        let is_any_offered = listed.any(|tool| !exclude.covers(tool));
        let none = (!is_any_offered && !self.tools.is_empty()).then(|| {
            let reason = if execute.is_empty() {
                "`tools_to_execute` is empty"
            } else if is_any_listed {
                "`tools_to_exclude` names all that `tools_to_execute` permits"
            } else {
                "`tools_to_execute` names none of them"
            };
            format!("{} tools listed, 0 offered: {reason}", self.tools.len())
        });
        let lists = [("tools_to_execute", execute), ("tools_to_auto_execute", auto_execute)];
        let narrowing = [("tools_to_exclude", exclude), ("tools_to_approve_twice", approve_twice)];
        let unknown_in_narrowing = narrowing
            .into_iter()
            .flat_map(|(key, list)| list.unknown(&self.tools).map(move |name| (key, name)));
        let unknown = lists
            .into_iter()
            .chain(cache.iter().map(|rule| ("tool_cache", &rule.tools)))
            .flat_map(|(key, list)| list.unknown(&self.tools).map(move |name| (key, name)))
            .chain(unknown_in_narrowing)
            .map(|(key, name)| {
                let known = self.tools.iter().map(|tool| tool.original.as_str());
                let near = nearest(name, known).map(|near| format!("; did you mean {near:?}?"));
                format!(
                    "`{key}` names {name:?}, and no tool has this name{}",
                    near.unwrap_or_default()
                )
            });
        none.into_iter().chain(unknown).take(MAX_LISTED).collect()
    }

    /// Returns the provider that runs its tools, and reports its status; `None` if it has none yet.
    pub fn provider(&self) -> Option<&Arc<dyn Provider>> {
        self.provider.as_ref()
    }

    /// Iterates over the tools that guards withhold, by each of the names that they would have.
    pub(super) fn withheld(&self) -> impl Iterator<Item = (ToolName, &Arc<WithheldTool>)> {
        let prefix = self.policy.prefix.for_client(&self.name);
        self.withheld.iter().flat_map(move |withheld| {
            let tool = &withheld.tool;
            let on_wire = ToolName::new(prefix, &tool.original);
            [tool.full_name.clone(), on_wire].map(|name| (name, withheld))
        })
    }

    pub(super) fn set_published(&mut self, published: Published) {
        let published = Arc::new(published);
        self.provider = Some(published.clone());
        self.published = Some(published);
    }

    /// Replaces the policy, and gives the published tools the names and the trust that it says.
    pub(super) fn set_policy(
        &mut self,
        policy: Policy,
        observer: &SharedObserver,
        results: &Arc<ResultStore>,
    ) {
        let before = std::mem::replace(&mut self.policy, policy);
        let Policy { prefix, trust, code_mode, cache, fallbacks, .. } = &self.policy;
        let is_same =
            (prefix, trust, code_mode) == (&before.prefix, &before.trust, &before.code_mode);
        if is_same && *cache == before.cache && *fallbacks == before.fallbacks {
            return;
        }
        let observer = code_mode.then(|| observer.clone());
        if !is_same {
            self.tools = naming::rename_all(&self.name, &self.policy, &self.tools).into();
        }
        if let Some(published) = &self.published {
            let tools = self.tools.clone();
            let before = published.cache.as_deref();
            let cache = ClientCache::new(&self.name, cache, &tools, results, before);
            let fallbacks = Fallbacks::new(&self.policy, &tools);
            let before = Published::clone(published);
            let published = Published { tools, observer, cache, fallbacks, ..before };
            self.set_published(published);
        }
    }
}

airlock_strings::debug_fields!(ToolSource { name, state });
