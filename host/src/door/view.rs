//! What one request may see: client config ∩ headers ∩ virtual key, computed once.

use std::{collections::BTreeMap, sync::Arc};

use super::{Filter, Origin, VirtualKey};
use crate::{
    catalog::{Client, ClientName, Provider, Snapshot, Tool, ToolName},
    tenant::Tenant,
};

/// The tools that one caller may see. Listing and calling use the same view, so they cannot disagree. Cheap to clone; it
/// stays as it is while the catalog changes.
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

impl View {
    /// Computes the view of one request. Without a key, the operator's own lists decide.
    pub fn new(snapshot: &Snapshot, filter: &Filter, key: Option<&VirtualKey>) -> Self {
        let mut entries = BTreeMap::new();
        for client in snapshot.clients().filter(|client| filter.admits_client(&client.name)) {
            let Some(provider) = client.provider() else { continue };
            for tool in client.tools.iter().filter(|tool| is_visible(client, tool, filter, key)) {
                entries.insert(tool.name.clone(), Entry::of(client, tool, provider));
            }
        }
        let has_scripted = entries.values().any(|entry| entry.placement == Placement::Script);
        if let Some(own) = snapshot.meta_tools().filter(|_| has_scripted) {
            for tool in &own.tools {
                entries.insert(tool.name.clone(), Entry::meta(tool, &own.provider));
            }
        }
        Self { entries: Arc::new(entries), tenant: key.map_or(Tenant::ANONYMOUS, |key| key.tenant().clone()) }
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

impl Entry {
    fn of(client: &Client, tool: &Arc<Tool>, provider: &Arc<dyn Provider>) -> Self {
        Self {
            tool: tool.clone(),
            auto: client.policy.auto_execute.allows(&tool.original),
            placement: if client.policy.code_mode { Placement::Script } else { Placement::Direct },
            provider: provider.clone(),
        }
    }

    /// The meta-tools run unasked: what matters is asked again at each call that a script makes.
    fn meta(tool: &Arc<Tool>, provider: &Arc<dyn Provider>) -> Self {
        Self { tool: tool.clone(), auto: true, placement: Placement::Meta, provider: provider.clone() }
    }
}

fn is_visible(client: &Client, tool: &Tool, filter: &Filter, key: Option<&VirtualKey>) -> bool {
    client.policy.execute.allows(&tool.original)
        && filter.admits_tool(&client.name, tool)
        && key.is_none_or(|key| key.admits(&client.name, &client.policy, tool))
}
