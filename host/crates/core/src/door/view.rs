//! The tools one request may see: client config ∩ headers ∩ virtual key, computed once.

mod guarded;
mod modes;
mod reports;
mod sources;
mod withheld;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock, Weak},
};

use super::{
    Arguments, CallControl, CallGuards, CallPolicy, CallerHeaders, CallerToken, Filter, Membership,
    Origin, ProposedCall, Provider, RelayView, ScriptLanguage, SinkRules, ToolApproval, ToolRules,
    ToolSwitch, VirtualKey, WithheldTool,
};
use crate::{
    tenant::Tenant,
    tool::{CallError, ClientName, Policy, Tool, ToolName, Trust},
};

/// The tools that one caller may see. Listing and calling use the same view, so they cannot
/// disagree. Cheap to clone. A view does not change when the catalog changes.
#[derive(Clone)]
pub struct View {
    shared: Arc<SharedView>,
    tenant: Tenant,
    /// True if the headers of the request select the tools.
    is_selected: bool,
    language: Option<ScriptLanguage>,
    headers: CallerHeaders,
    token: CallerToken,
    /// The resources and prompts that the request may use; `None` if the operator permits none.
    relay: Option<RelayView>,
    /// The key that the request came with.
    membership: Arc<Membership>,
}

/// The parts of a view that requests with the same tools share. Each request has a copy of its view, so these are behind
/// one reference: of several, the counts would be changed by all threads, and would move between their cores.
#[derive(Clone)]
struct SharedView {
    entries: Arc<BTreeMap<ToolName, Entry>>,
    /// Names on the wire of the tools whose full name is another one, by full name.
    full_names: Arc<BTreeMap<ToolName, ToolName>>,
    /// Tools that guards withhold, by their names.
    withheld: Arc<BTreeMap<ToolName, Arc<WithheldTool>>>,
    /// The switch of all tools, which calls ask again.
    switch: ToolSwitch,
    /// Accompanies the calls; `None` if nothing does.
    control: Option<Arc<dyn CallControl>>,
    /// Narrows the calls; `None` if the rules of the configuration alone decide.
    policy: Option<Arc<dyn CallPolicy>>,
    /// Decides about the arguments and the outcomes of calls; `None` if the operator has configured no guards.
    guards: Option<Arc<dyn CallGuards>>,
    /// Compares calls with the sources that their authors have read; `None` if the operator has configured no sinks.
    sinks: Option<Arc<SinkRules>>,
}

impl SharedView {
    /// Creates the parts of a view that nothing narrows or accompanies.
    fn new(
        entries: BTreeMap<ToolName, Entry>,
        full_names: BTreeMap<ToolName, ToolName>,
    ) -> Arc<Self> {
        Arc::new(Self {
            entries: Arc::new(entries),
            full_names: Arc::new(full_names),
            withheld: Arc::default(),
            switch: ToolSwitch::default(),
            control: None,
            policy: None,
            guards: None,
            sinks: None,
        })
    }
}

/// Identifies the tools of a view. Views of equal requests have the same while the first of them, or
/// a copy of it, exists.
#[derive(Clone)]
pub struct ViewId(Weak<BTreeMap<ToolName, Entry>>);

impl ViewId {
    /// Returns whether a view with these tools still exists.
    pub fn exists(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl PartialEq for ViewId {
    /// Compares addresses, which are not used again while an identifier exists.
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// A visible tool.
#[derive(Clone)]
pub struct Entry {
    /// The tool.
    pub tool: Arc<Tool>,
    /// True if it may run without an approval.
    pub auto: bool,
    /// True if two operators approve each call, whatever its caller approves.
    pub needs_two: bool,
    /// The origins that the tool is listed for.
    pub placement: Placement,
    /// Selects whether its description and results are marked as external for models.
    pub trust: Trust,
    /// True if the tool belongs to an MCP server.
    pub is_server: bool,
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
    /// The tool that reads a result which was too large for the conversation. Models call it, and
    /// callers on their behalf.
    Reader,
}

/// The data of one source of tools that a view needs.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// Name of the client.
    pub client: &'s ClientName,
    /// Calls that the operator permits.
    pub policy: &'s Policy,
    /// The tools.
    pub tools: &'s [Arc<Tool>],
    /// Names at the source of tools whose definitions the operator has not accepted yet. They need an
    /// approval, whatever the policy says.
    pub unaccepted: &'s BTreeSet<String>,
    /// Runs the tools.
    pub provider: &'s Arc<dyn Provider>,
    /// True if the source is an MCP server.
    pub is_server: bool,
    /// True if the operator has switched all tools off.
    pub is_switched_off: bool,
}

/// Some of the gateway's own tools: the meta-tools, or the reader of large results. Their names have
/// no prefix. A view has the meta-tools only if it has tools for scripts, and the reader only if
/// models see a tool of an MCP server.
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
        let mut full_names = BTreeMap::new();
        for source in sources {
            let rules = ToolRules::new(source.client, source.policy, filter, key)
                .switched_off(source.is_switched_off);
            for tool in source.tools.iter().filter(|tool| rules.show(tool)) {
                entries.insert(tool.name.clone(), Entry::new(&source, tool));
                if tool.full_name != tool.name {
                    full_names.insert(tool.full_name.clone(), tool.name.clone());
                }
            }
        }
        let has_scripted = entries.values().any(|entry| entry.placement == Placement::Script);
        if let Some(own) = meta_tools.filter(|_| has_scripted) {
            for tool in &own.tools {
                let entry = Entry::own(tool, &own.provider, Placement::Meta);
                entries.insert(tool.name.clone(), entry);
            }
        }
        Self {
            shared: SharedView::new(entries, full_names),
            tenant: key.map_or(Tenant::ANONYMOUS, |key| key.tenant().clone()),
            is_selected: !filter.is_none(),
            language: filter.language(),
            headers: filter.headers().clone(),
            token: filter.token().clone(),
            relay: None,
            membership: membership(key),
        }
    }

    /// Sets the switch that calls ask.
    #[must_use]
    pub fn with_switch(mut self, switch: ToolSwitch) -> Self {
        self.shared_mut().switch = switch;
        self
    }

    /// Sets the control of calls.
    #[must_use]
    pub fn with_control(mut self, control: Option<Arc<dyn CallControl>>) -> Self {
        self.shared_mut().control = control;
        self
    }

    /// Sets the policy that narrows calls.
    #[must_use]
    pub fn with_policy(mut self, policy: Option<Arc<dyn CallPolicy>>) -> Self {
        self.shared_mut().policy = policy;
        self
    }

    /// Returns whether a policy, guards or sinks narrow calls, which may require an approval for a call of any tool.
    pub fn may_ask(&self) -> bool {
        let SharedView { policy, guards, sinks, .. } = &*self.shared;
        policy.is_some() || guards.is_some() || sinks.is_some()
    }

    /// Returns whether a call of this origin needs no approval. Fails if the policy refuses it. The arguments
    /// are those that [`Self::guarded`] returns.
    pub fn is_automatic(
        &self,
        origin: &Origin,
        entry: &Entry,
        arguments: &Arguments,
    ) -> Result<bool, CallError> {
        let is_automatic = entry.auto && arguments.questions().is_empty();
        let Some(policy) = &self.shared.policy else { return Ok(is_automatic) };
        let tool = &*entry.tool;
        let membership = &self.membership;
        let call = ProposedCall { tool, arguments, origin, tenant: &self.tenant, membership };
        let needs_approval = policy.narrow(&call).needs_approval(tool)?;
        Ok(is_automatic && !needs_approval)
    }

    /// The key that the request came with; the default if it came with none.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The same, to be kept longer than the view.
    pub fn shared_membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Returns whether all tools are switched off at this moment, so that no call is admitted.
    pub fn is_switched_off(&self) -> bool {
        self.shared.switch.is_off()
    }

    /// Adds the resources and prompts that the request may use.
    #[must_use]
    pub fn with_relay(self, relay: RelayView) -> Self {
        Self { relay: Some(relay), ..self }
    }

    /// Adds the reader of large results, if models see at least one tool of an MCP server. It does not
    /// depend on the results of the conversation: the list of tools would change in its middle, and
    /// the provider's cache of the prompt would be lost.
    #[must_use]
    pub fn with_reader(mut self, reader: &OwnTools) -> Self {
        let mut entries = self.shared.entries.values();
        if entries.any(|entry| entry.is_server && entry.placement == Placement::Direct) {
            self.add(reader, Placement::Reader);
        }
        self
    }

    /// Adds the search for tools, if the view has more than `above` tools for scripts.
    #[must_use]
    pub fn with_search(mut self, search: &OwnTools, above: usize) -> Self {
        let entries = self.shared.entries.values();
        if entries.filter(|entry| entry.placement == Placement::Script).count() > above {
            self.add(search, Placement::Meta);
        }
        self
    }

    fn add(&mut self, own: &OwnTools, placement: Placement) {
        let entries = self.entries_mut();
        for tool in &own.tools {
            entries.insert(tool.name.clone(), Entry::own(tool, &own.provider, placement));
        }
    }

    /// Leaves out the tools that need an approval, and the meta-tools if scripts have no tools then.
    #[must_use]
    pub fn without_asking(mut self) -> Self {
        if self.shared.entries.values().all(|entry| entry.auto) {
            return self;
        }
        let entries = self.entries_mut();
        entries.retain(|_, entry| entry.auto);
        if !entries.values().any(|entry| entry.placement == Placement::Script) {
            entries.retain(|_, entry| entry.placement != Placement::Meta);
        }
        self
    }

    /// Returns the identifier of the tools.
    pub fn id(&self) -> ViewId {
        ViewId(Arc::downgrade(&self.shared.entries))
    }

    /// Returns the view of another request whose filter and virtual key permit the same tools, in the
    /// same meta-tools.
    #[must_use]
    pub fn sent_by(self, filter: &Filter, key: Option<&VirtualKey>) -> Self {
        Self {
            tenant: key.map_or(Tenant::ANONYMOUS, |key| key.tenant().clone()),
            is_selected: !filter.is_none(),
            language: filter.language(),
            headers: filter.headers().clone(),
            token: filter.token().clone(),
            relay: None,
            membership: membership(key),
            ..self
        }
    }

    /// Returns the view of another request of the same tenant, which selects the same tools.
    #[must_use]
    pub fn with_headers_of(self, filter: &Filter) -> Self {
        Self { headers: filter.headers().clone(), token: filter.token().clone(), ..self }
    }

    /// Returns the number of tools, whatever origin they are listed for.
    pub fn len(&self) -> usize {
        self.shared.entries.len()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.shared.entries.is_empty()
    }

    /// Tenant that the calls of the request are accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns whether the headers of the request select the tools. There are as many such views as a
    /// caller likes.
    pub fn is_selected(&self) -> bool {
        self.is_selected
    }

    /// Language of scripts that the request selects; `None` leaves it to the configuration.
    pub fn language(&self) -> Option<ScriptLanguage> {
        self.language
    }

    /// Headers of the request that sources of tools may pass on.
    pub fn headers(&self) -> &CallerHeaders {
        &self.headers
    }

    /// Access to the token with which the caller has come.
    pub fn token(&self) -> &CallerToken {
        &self.token
    }

    /// The resources and prompts that the request may use; `None` if the operator permits none.
    pub fn relay(&self) -> Option<&RelayView> {
        self.relay.as_ref()
    }

    /// Iterates over the tools that are listed for `origin`, sorted by name. The same rule decides
    /// which tools it may call.
    pub fn list<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Entry> {
        self.shared.entries.values().filter(move |entry| entry.is_offered_to(origin))
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

    /// Finds a tool by its name on the wire, or else by its full name; `None` if it does not exist or
    /// is not listed for `origin`.
    pub fn find(&self, origin: &Origin, name: &str) -> Option<&Entry> {
        let SharedView { entries, full_names, .. } = &*self.shared;
        let entry = entries.get(name);
        entry
            .or_else(|| entries.get(full_names.get(name)?))
            .filter(|entry| entry.is_offered_to(origin))
    }

    /// Returns the shared parts to be changed: a copy of them if another view has them too.
    fn shared_mut(&mut self) -> &mut SharedView {
        Arc::make_mut(&mut self.shared)
    }

    fn entries_mut(&mut self) -> &mut BTreeMap<ToolName, Entry> {
        Arc::make_mut(&mut self.shared_mut().entries)
    }
}

fn membership(key: Option<&VirtualKey>) -> Arc<Membership> {
    // Each request without a key would make one of its own.
    static ANONYMOUS: LazyLock<Arc<Membership>> = LazyLock::new(Arc::default);
    key.map_or_else(|| ANONYMOUS.clone(), |key| key.membership().clone())
}

impl Entry {
    /// Returns whether the tool is listed for this origin. An origin can call only listed tools.
    fn is_offered_to(&self, origin: &Origin) -> bool {
        match origin {
            Origin::Model => self.placement != Placement::Script,
            // Results for MCP clients are whole, so there is nothing to read in pages.
            Origin::McpClient(_) => matches!(self.placement, Placement::Direct | Placement::Meta),
            Origin::Script => self.placement == Placement::Script,
            Origin::Plugin(granted) => {
                matches!(self.placement, Placement::Direct | Placement::Script)
                    && granted.contains(self.tool.full_name.as_str())
            }
            Origin::Caller | Origin::Program | Origin::Operator => true,
        }
    }

    /// Returns the tool as which guards and sinks decide about a call; `None` of a wrapper, in which the calls are
    /// decided.
    pub(super) fn decided_tool(&self, view: &View, arguments: &Arguments) -> Option<Arc<Tool>> {
        match &self.tool.client {
            Some(_) => Some(self.tool.clone()),
            None => self.provider.decided_tool(view, arguments),
        }
    }

    /// Returns whether the tool runs scripts.
    pub fn runs_scripts(&self) -> bool {
        self.placement == Placement::Meta && self.tool.annotations.read_only != Some(true)
    }

    fn new(source: &Source<'_>, tool: &Arc<Tool>) -> Self {
        let approval = ToolApproval::new(source.policy, source.unaccepted, tool);
        Self {
            tool: tool.clone(),
            auto: !approval.is_needed(),
            needs_two: approval.needs_two,
            placement: if source.policy.code_mode { Placement::Script } else { Placement::Direct },
            trust: source.policy.trust,
            is_server: source.is_server,
            provider: source.provider.clone(),
        }
    }

    /// Creates the entry of one of the gateway's own tools. It runs without an approval, because each
    /// call that a script makes is decided separately, and the reader returns results of calls that
    /// were decided.
    fn own(tool: &Arc<Tool>, provider: &Arc<dyn Provider>, placement: Placement) -> Self {
        Self {
            tool: tool.clone(),
            auto: true,
            needs_two: false,
            placement,
            trust: Trust::Trusted,
            is_server: false,
            provider: provider.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::door::{Filter, ToolSwitch, View};

    #[test]
    fn a_copy_that_is_changed_leaves_the_view_as_it_is() {
        let view = View::new(std::iter::empty(), None, &Filter::none(), None);
        let off = ToolSwitch::default();
        off.set_off(true);
        let copy = view.clone().with_switch(off);
        assert!(copy.is_switched_off() && !view.is_switched_off());
        assert!(copy.id() == view.id(), "the tools are the same");
    }
}
