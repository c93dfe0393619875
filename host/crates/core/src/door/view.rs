//! The tools one request may see: client config ∩ headers ∩ virtual key, computed once.

use std::{collections::BTreeMap, sync::Arc};

use super::{Filter, Origin, Provider, VirtualKey};
use crate::{
    tenant::Tenant,
    tool::{ClientName, Policy, Tool, ToolName},
};

/// The tools that one caller may see. Listing and calling use the same view, so they cannot
/// disagree. Cheap to clone. A view does not change when the catalog changes.
#[derive(Clone)]
pub struct View {
    entries: Arc<BTreeMap<ToolName, Entry>>,
    tenant: Tenant,
}

/// A visible tool.
#[derive(Clone)]
pub struct Entry {
    /// The tool.
    pub tool: Arc<Tool>,
    /// True if it may run without an approval.
    pub auto: bool,
    /// The origins that the tool is listed for.
    pub placement: Placement,
    pub(super) provider: Arc<dyn Provider>,
}

/// Kind of tool, which decides the origins that it is listed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// A tool that models call by name.
    Direct,
    /// A tool that scripts call. Models see the meta-tools instead.
    Script,
    /// One of the meta-tools, which models call.
    Meta,
}

/// The data of one source of tools that a view needs.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// Name of the client, the prefix of its tools.
    pub client: &'s ClientName,
    /// Calls that the operator permits.
    pub policy: &'s Policy,
    /// The tools.
    pub tools: &'s [Arc<Tool>],
    /// Runs the tools.
    pub provider: &'s Arc<dyn Provider>,
}

/// The gateway's own tools, the meta-tools. Their names have no prefix. A view has them only if it
/// has tools for scripts.
#[derive(Clone)]
pub struct OwnTools {
    /// The tools.
    pub tools: Vec<Arc<Tool>>,
    /// Runs the tools.
    pub provider: Arc<dyn Provider>,
}

impl View {
    /// Computes the view of one request. Without a key, the configuration of the clients and the
    /// filter decide. The view has the meta-tools if it has at least one tool for scripts.
    pub fn new<'s>(
        sources: impl IntoIterator<Item = Source<'s>>,
        meta_tools: Option<&OwnTools>,
        filter: &Filter,
        key: Option<&VirtualKey>,
    ) -> Self {
        let mut entries = BTreeMap::new();
        for source in sources.into_iter().filter(|source| filter.admits_client(source.client)) {
            for tool in source.tools.iter().filter(|tool| source.shows(tool, filter, key)) {
                entries.insert(tool.name.clone(), Entry::of(&source, tool));
            }
        }
        let has_scripted = entries.values().any(|entry| entry.placement == Placement::Script);
        if let Some(own) = meta_tools.filter(|_| has_scripted) {
            for tool in &own.tools {
                entries.insert(tool.name.clone(), Entry::meta(tool, &own.provider));
            }
        }
        Self {
            entries: Arc::new(entries),
            tenant: key.map_or(Tenant::ANONYMOUS, |key| key.tenant().clone()),
        }
    }

    /// Tenant that the calls of the request are accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Iterates over the tools that are listed for `origin`, sorted by name. The same rule decides
    /// which tools it may call.
    pub fn list<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Entry> {
        self.entries.values().filter(move |entry| origin.is_offered(entry))
    }

    /// Returns the tools of code-mode clients, by client. They form the namespace of a script.
    pub fn scripted(&self) -> BTreeMap<ClientName, Vec<Arc<Tool>>> {
        let mut clients: BTreeMap<ClientName, Vec<Arc<Tool>>> = BTreeMap::new();
        for entry in self.list(&Origin::Script) {
            if let Some(client) = &entry.tool.client {
                clients.entry(client.clone()).or_default().push(entry.tool.clone());
            }
        }
        clients
    }

    /// Returns the tools whose calls by `entry` need an approval besides that of the call itself: a
    /// script may call every tool of the view that is for scripts.
    pub fn unapproved(&self, entry: &Entry) -> Vec<ToolName> {
        let is_script =
            entry.placement == Placement::Meta && entry.tool.annotations.read_only != Some(true);
        let scripted = self.list(&Origin::Script).filter(|_| is_script);
        scripted.filter(|entry| !entry.auto).map(|entry| entry.tool.name.clone()).collect()
    }

    /// Finds a tool by name; `None` if it does not exist or is not listed for `origin`.
    pub fn find(&self, origin: &Origin, name: &str) -> Option<&Entry> {
        self.entries.get(name).filter(|entry| origin.is_offered(entry))
    }
}

impl Source<'_> {
    fn shows(&self, tool: &Tool, filter: &Filter, key: Option<&VirtualKey>) -> bool {
        self.policy.execute.allows(&tool.original)
            && filter.admits_tool(self.client, tool)
            && key.is_none_or(|key| key.admits(self.client, self.policy, tool))
    }
}

impl Entry {
    fn of(source: &Source<'_>, tool: &Arc<Tool>) -> Self {
        Self {
            tool: tool.clone(),
            auto: source.policy.auto_execute.allows(&tool.original),
            placement: if source.policy.code_mode { Placement::Script } else { Placement::Direct },
            provider: source.provider.clone(),
        }
    }

    /// Creates the entry of a meta-tool. It runs without an approval, because each call that a
    /// script makes is decided separately.
    fn meta(tool: &Arc<Tool>, provider: &Arc<dyn Provider>) -> Self {
        Self {
            tool: tool.clone(),
            auto: true,
            placement: Placement::Meta,
            provider: provider.clone(),
        }
    }
}
