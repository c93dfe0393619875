//! What one request may see: client config ∩ headers ∩ virtual key, computed once.

use std::{collections::BTreeMap, sync::Arc};

use super::{Filter, Origin, Provider, VirtualKey};
use crate::{
    tenant::Tenant,
    tool::{ClientName, Policy, Tool, ToolName},
};

/// The tools that one caller may see. Listing and calling use the same view, so they cannot
/// disagree. Cheap to clone; it stays as it is while the catalog changes.
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
    /// Whether it may run without asking.
    pub auto: bool,
    /// Who is offered it.
    pub placement: Placement,
    pub(super) provider: Arc<dyn Provider>,
}

/// Who is offered a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Models, by name.
    Direct,
    /// Scripts; models see the meta-tools in its place.
    Script,
    /// Models: one of the meta-tools themselves.
    Meta,
}

/// One source of tools, as far as a view needs it.
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

/// The gateway's own tools: named without a prefix, and offered where a script could run.
#[derive(Clone)]
pub struct OwnTools {
    /// The tools.
    pub tools: Vec<Arc<Tool>>,
    /// Runs the tools.
    pub provider: Arc<dyn Provider>,
}

impl View {
    /// Computes the view of one request. Without a key, the operator's own lists decide. The
    /// meta-tools are part of it if at least one tool for scripts is.
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

    /// What `origin` is offered, sorted by name. The same rule decides what it may call.
    pub fn list<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Entry> {
        self.entries.values().filter(move |entry| origin.is_offered(entry))
    }

    /// The tools of code-mode clients, by client: what a script's namespace holds.
    pub fn scripted(&self) -> BTreeMap<ClientName, Vec<Arc<Tool>>> {
        let mut clients: BTreeMap<ClientName, Vec<Arc<Tool>>> = BTreeMap::new();
        for entry in self.list(&Origin::Script) {
            if let Some(client) = &entry.tool.client {
                clients.entry(client.clone()).or_default().push(entry.tool.clone());
            }
        }
        clients
    }

    /// One entry, if `origin` is offered it.
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

    /// Meta-tools run without an approval: each call that a script makes is decided by itself.
    fn meta(tool: &Arc<Tool>, provider: &Arc<dyn Provider>) -> Self {
        Self {
            tool: tool.clone(),
            auto: true,
            placement: Placement::Meta,
            provider: provider.clone(),
        }
    }
}
