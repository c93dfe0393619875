//! All clients and tools at one moment, and the view of one request.

use std::{collections::BTreeMap, sync::Arc};

use super::{source::ToolSource, views::Views};
use airlock_core::{
    door::{
        CallControl, CallGuards, CallPolicy, Filter, GroupSlug, OwnTools, RelaySource, RelayView,
        ScriptLanguage, SinkRules, Source, ToolGroup, ToolRules, ToolSwitch, View, VirtualKey,
        WithheldTool,
    },
    tool::{ClientName, Offers, Policy, ToolName},
};

/// The search for tools of scripts.
#[derive(Clone)]
pub(super) struct Search {
    pub(super) own: OwnTools,
    /// Number of such tools above which a view has it.
    pub(super) above: usize,
}

/// All clients and tools at one moment.
#[derive(Default)]
pub struct Snapshot {
    pub(super) clients: BTreeMap<ClientName, Arc<ToolSource>>,
    pub(super) meta_tools: Option<OwnTools>,
    pub(super) search: Option<Search>,
    /// Meta-tools for requests that select a language of scripts.
    pub(super) meta_tools_in: BTreeMap<ScriptLanguage, OwnTools>,
    pub(super) reader: Option<OwnTools>,
    /// Reader of resources, for views of requests whose operator permits any.
    pub(super) resource_reader: Option<OwnTools>,
    /// Groups of tools that are served at paths of their own.
    pub(super) groups: Arc<BTreeMap<GroupSlug, Arc<ToolGroup>>>,
    /// True if the operator had switched all tools off at this moment.
    pub(super) is_switched_off: bool,
    /// The switch itself, which calls of older views ask.
    pub(super) switch: ToolSwitch,
    /// Accompanies the calls of all views; `None` if nothing does.
    pub(super) control: Option<Arc<dyn CallControl>>,
    /// Narrows the calls of all views; `None` if the rules of the configuration alone decide.
    pub(super) call_policy: Option<Arc<dyn CallPolicy>>,
    /// Decides about the arguments and the outcomes of calls of all views; `None` if there are no guards.
    pub(super) guards: Option<Arc<dyn CallGuards>>,
    /// Compares the calls of all views with what their authors have read; `None` if there are no sinks.
    pub(super) sinks: Option<Arc<SinkRules>>,
    pub(super) views: Views,
}

impl Snapshot {
    /// Returns a copy that is changed next. It has no views yet.
    pub(super) fn next(&self) -> Self {
        Self {
            clients: self.clients.clone(),
            meta_tools: self.meta_tools.clone(),
            search: self.search.clone(),
            meta_tools_in: self.meta_tools_in.clone(),
            reader: self.reader.clone(),
            resource_reader: self.resource_reader.clone(),
            groups: self.groups.clone(),
            is_switched_off: self.is_switched_off,
            switch: self.switch.clone(),
            control: self.control.clone(),
            call_policy: self.call_policy.clone(),
            guards: self.guards.clone(),
            sinks: self.sinks.clone(),
            views: Views::default(),
        }
    }

    /// Returns all clients, sorted by name.
    pub fn clients(&self) -> impl Iterator<Item = &Arc<ToolSource>> {
        self.clients.values()
    }

    /// Returns the tools that one request may see: tools of sources that were connected at least
    /// once, as far as the operator's lists, the request's headers and its virtual key all permit
    /// them.
    pub fn view(&self, filter: &Filter, key: Option<&VirtualKey>) -> View {
        let view = self.views.view(filter, key, || self.make_view(filter, key));
        match self.resource_reader() {
            Some(_) => view.with_relay(self.relay_view(filter, key)),
            None => view,
        }
    }

    /// Returns the reader of resources, if the operator permits the resources of any client.
    pub(super) fn resource_reader(&self) -> Option<&OwnTools> {
        self.resource_reader
            .as_ref()
            .filter(|_| self.clients().any(|client| !client.policy.resources.is_empty()))
    }

    pub(super) fn make_view(&self, filter: &Filter, key: Option<&VirtualKey>) -> View {
        let sources = self.clients().filter_map(|client| {
            let provider = client.provider.as_ref()?;
            Some(Source {
                client: &client.name,
                policy: &client.policy,
                tools: &client.tools,
                unaccepted: &client.unaccepted,
                provider,
                is_server: client.is_server(),
                is_switched_off: self.is_switched_off,
            })
        });
        let selected = filter.language().and_then(|language| self.meta_tools_in.get(&language));
        let meta_tools = selected.or(self.meta_tools.as_ref());
        let mut view = View::new(sources, meta_tools, filter, key)
            .with_switch(self.switch.clone())
            .with_control(self.control.clone())
            .with_policy(self.call_policy.clone())
            .with_guards(self.guards.clone())
            .with_sinks(self.sinks.clone())
            .with_withheld(self.withheld(filter, key));
        if let Some(search) = &self.search {
            view = view.with_search(&search.own, search.above);
        }
        let readers = self.reader.iter().chain(self.resource_reader());
        readers.fold(view, View::with_reader)
    }

    /// Iterates over the tools that one request could see if guards did not withhold them, by their names.
    fn withheld<'s>(
        &'s self,
        filter: &'s Filter,
        key: Option<&'s VirtualKey>,
    ) -> impl Iterator<Item = (ToolName, Arc<WithheldTool>)> {
        self.clients().flat_map(move |client| {
            let rules = self.rules(client, filter, key);
            let permitted = client
                .withheld()
                .filter(move |(_, withheld)| rules.hiding(&withheld.tool).next().is_none());
            permitted.map(|(name, withheld)| (name, withheld.clone()))
        })
    }

    /// Returns the resources and prompts that one request may use, by the same rules.
    pub fn relay_view(&self, filter: &Filter, key: Option<&VirtualKey>) -> RelayView {
        let sources = self.clients().map(|client| RelaySource {
            client: &client.name,
            policy: &client.policy,
            offers: &client.offers,
            provider: client.provider.as_ref(),
            is_switched_off: self.is_switched_off,
        });
        RelayView::new(sources, filter, key).with_switch(self.switch.clone())
    }

    /// Returns the operator's policy for a client; `None` if there is no such client.
    pub fn policy(&self, client: &ClientName) -> Option<&Policy> {
        self.clients.get(client).map(|client| &client.policy)
    }

    /// Returns the resources and prompts of a client; none if there is no such client.
    pub fn offers(&self, client: &ClientName) -> Arc<Offers> {
        self.clients.get(client).map(|client| client.offers.clone()).unwrap_or_default()
    }

    /// Returns whether a client exists and the sender of a request may know of it: a virtual key knows
    /// the clients that it has a row for, and those that it needs no row for; but no client that is
    /// outside of its environment, or belongs to other keys.
    pub fn shows(&self, client: &ClientName, filter: &Filter, key: Option<&VirtualKey>) -> bool {
        self.clients.get(client).is_some_and(|client| self.rules(client, filter, key).reveal())
    }

    /// Returns the rules of a request for the tools of a client.
    pub(super) fn rules<'r>(
        &self,
        client: &'r ToolSource,
        filter: &'r Filter,
        key: Option<&'r VirtualKey>,
    ) -> ToolRules<'r> {
        ToolRules::new(&client.name, &client.policy, filter, key).switched_off(self.is_switched_off)
    }

    /// Returns the group of tools at a path; `None` if there is none, or if it does not exist for the
    /// key of the request.
    pub fn group(&self, slug: &str, key: Option<&VirtualKey>) -> Option<&Arc<ToolGroup>> {
        self.groups.get(slug).filter(|group| group.exists_for(key))
    }

    /// Returns whether the operator had switched all tools off.
    pub fn is_switched_off(&self) -> bool {
        self.is_switched_off
    }

    /// Returns the clients that were never listed, and that a request could use if they were.
    pub fn missing<'s>(
        &'s self,
        filter: &'s Filter,
        key: Option<&'s VirtualKey>,
    ) -> impl Iterator<Item = &'s Arc<ToolSource>> {
        self.clients().filter(move |client| self.is_missing(client, filter, key))
    }

    /// Returns whether a client was never listed, and a request could use it if it were.
    pub fn is_missing(
        &self,
        client: &ToolSource,
        filter: &Filter,
        key: Option<&VirtualKey>,
    ) -> bool {
        !client.is_listed && self.rules(client, filter, key).hiding_all().next().is_none()
    }

    /// Returns the meta-tools of code mode; `None` if there is no executor.
    pub fn meta_tools(&self) -> Option<&OwnTools> {
        self.meta_tools.as_ref()
    }
}
