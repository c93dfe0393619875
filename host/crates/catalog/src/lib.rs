//! The registry of tools: every tool of every source, each under one name.
//!
//! Sources publish their lists here. Readers take a [`Snapshot`], which never changes, or the
//! [`View`](airlock_core::door::View) of one request. The catalog is independent of the kinds of sources and makes no policy
//! decisions: the [`door`](airlock_core::door) does.

mod bare_names;
mod cache;
mod explain;
mod fallback;
mod fallback_state;
mod internal;
mod left_out;
mod mode;
mod naming;
mod published;
mod report;
mod schemas;
mod snapshot;
mod source;
mod source_kind;
mod views;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

pub use self::explain::{ExplainedClient, ExplainedTool, Explanation, Reason, Visibility};
pub use self::fallback_state::FallbackState;
pub use self::internal::{BadInternalTool, check_internal, own_error, read_arguments};
pub use self::left_out::{LeftOut, LeftOutCause};
pub use self::mode::{ModeChoice, ModeReason};
pub use self::naming::MAX_TOOLS_PER_CLIENT;
pub use self::published::Observer;
pub use self::report::{report_dropped, report_unchecked};
pub use self::schemas::{UncheckedSchemas, check_members};
pub use self::snapshot::Snapshot;
pub use self::source::{SourceState, ToolSource};
pub use self::source_kind::SourceKind;
pub use self::writer::EntryWriter;
use self::{
    cache::{ClientCache, ResultStore},
    fallback::Fallbacks,
    left_out::MAX_REASONS,
    published::Published,
    report::report_mismatches,
    schemas::{Checks, Schemas},
    snapshot::Search,
    source::WriterNumber,
};
use airlock_core::{
    door::{
        CallControl, CallGuards, CallPolicy, DefinitionGuards, GuardedList, OwnTools, Provider,
        ScriptLanguage, SinkRules, ToolGroup, WithheldTool,
    },
    tool::{ClientName, Offers, Policy, Tool, ToolDefinition},
};

/// The valid tools of a list.
struct Adopted {
    /// Policy that the tools are named by.
    policy: Policy,
    tools: Arc<[Arc<Tool>]>,
    /// The tools that were left out.
    dropped: Vec<LeftOut>,
    /// Those of them that guards withhold.
    withheld: Arc<[Arc<WithheldTool>]>,
    schemas: Schemas,
}

impl Adopted {
    /// Checks the definitions, asks the guards about them and compiles their schemas, which blocks. Reports the schemas
    /// that values are not checked against.
    fn new(
        client: &ClientName,
        policy: &Policy,
        definitions: Vec<ToolDefinition>,
        checks: Checks,
        guards: Option<&dyn DefinitionGuards>,
    ) -> Self {
        let (tools, mut dropped) = naming::adopt_all(client, policy, definitions);
        let GuardedList { tools, withheld } = match guards {
            Some(guards) => guards.decide(tools),
            None => GuardedList { tools, withheld: Vec::new() },
        };
        dropped.extend(withheld.iter().map(LeftOut::from));
        let schemas = Schemas::compile(checks, &tools);
        report_unchecked(client, schemas.unchecked());
        let withheld = withheld.into_iter().map(Arc::new).collect();
        Self { policy: policy.clone(), tools: tools.into(), dropped, withheld, schemas }
    }
}

/// Live registry of clients and tools.
#[derive(Default)]
pub struct Catalog {
    current: ArcSwap<Snapshot>,
    /// Serializes writers. Readers never wait.
    writing: Mutex<()>,
    observer: Arc<OnceLock<Arc<dyn Observer>>>,
    /// Decides about the definitions of lists; empty if no guards are configured.
    definition_guards: OnceLock<Arc<dyn DefinitionGuards>>,
    changed: watch::Sender<()>,
    /// Number of the last writer that was created.
    writers: AtomicU64,
    /// Results of tools that the operator calls read-only.
    results: Arc<ResultStore>,
}

impl Catalog {
    /// Creates an empty catalog.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Returns a receiver that is notified of every change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until each client for which `matters` returns true has connected or failed once, until
    /// `deadline`. The state of slower ones stays [`SourceState::Connecting`].
    pub async fn settled(&self, deadline: Instant, matters: impl Fn(&ToolSource) -> bool) {
        let mut changes = self.changes();
        while self
            .snapshot()
            .clients()
            .any(|client| client.state == SourceState::Connecting && matters(client))
        {
            let next = tokio::time::timeout_at(deadline, changes.changed()).await;
            if !matches!(next, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Switches all tools off, or on: views have none from now on, and calls of older views fail. Returns
    /// whether that has changed anything.
    pub fn switch_off(&self, is_off: bool) -> bool {
        // First the calls, which are all refused before the first view is empty.
        let has_changed = self.current.load().switch.set_off(is_off);
        if has_changed {
            self.update(|next| next.is_switched_off = is_off);
        }
        has_changed
    }

    /// Sets the control of all calls of views from now on. Set it before the first request.
    pub fn set_control(&self, control: Arc<dyn CallControl>) {
        self.update(|next| next.control = Some(control));
    }

    /// Sets the policy that narrows all calls of views from now on. Set it before the first request.
    pub fn set_call_policy(&self, policy: Arc<dyn CallPolicy>) {
        self.update(|next| next.call_policy = Some(policy));
    }

    /// Sets the guards of all calls of views from now on. Set them before the first request.
    pub fn set_guards(&self, guards: Arc<dyn CallGuards>) {
        self.update(|next| next.guards = Some(guards));
    }

    /// Sets the guards of the definitions that servers and plugins list from now on. The first ones stay.
    pub fn set_definition_guards(&self, guards: Arc<dyn DefinitionGuards>) {
        // Only one gateway has the catalog.
        let _ = self.definition_guards.set(guards);
    }

    /// Sets the rules about sinks of all calls of views from now on. Set them before the first request.
    pub fn set_sinks(&self, sinks: Arc<SinkRules>) {
        self.update(|next| next.sinks = Some(sinks));
    }

    /// Replaces the groups of tools. Readers are notified only if they have changed.
    pub fn set_groups(&self, groups: impl IntoIterator<Item = ToolGroup>) {
        let groups = groups.into_iter().map(|group| (group.slug.clone(), Arc::new(group)));
        let groups: BTreeMap<_, _> = groups.collect();
        if *self.snapshot().groups != groups {
            self.update(|next| next.groups = Arc::new(groups));
        }
    }

    /// Adds a client without tools, or replaces it.
    pub fn add_client(&self, name: &ClientName, kind: SourceKind, policy: Policy) {
        let client = ToolSource {
            name: name.clone(),
            kind,
            policy,
            state: SourceState::Connecting,
            tools: Arc::default(),
            left_out: Arc::default(),
            withheld: Arc::default(),
            unaccepted: Arc::default(),
            offers: Arc::default(),
            is_listed: false,
            provider: None,
            published: None,
            writer: 0,
        };
        self.update(|next| {
            next.clients.insert(name.clone(), Arc::new(client));
        });
    }

    /// Removes a client with its tools.
    pub fn remove_client(&self, name: &ClientName) {
        self.update(|next| drop(next.clients.remove(name)));
    }

    /// Replaces the operator's policy for a client's tools. They stay, with the names and the trust that
    /// the new policy gives them.
    pub fn set_policy(&self, name: &ClientName, policy: Policy) {
        self.change(name, |entry| entry.set_policy(policy, &self.observer, &self.results));
    }

    /// Marks a client as failed and removes its tools, so that no further call reaches its provider.
    pub fn withdraw(&self, name: &ClientName, reason: String) {
        self.change(name, |entry| {
            entry.tools = Arc::default();
            entry.left_out = Arc::default();
            entry.withheld = Arc::default();
            entry.is_listed = false;
            entry.provider = None;
            entry.published = None;
            entry.state = SourceState::Failed { reason };
        });
    }

    /// Installs the meta-tools of code mode.
    pub fn set_meta_tools(&self, meta_tools: OwnTools) {
        self.update(|next| next.meta_tools = Some(meta_tools));
    }

    /// Installs the search for tools of scripts. A view with more than `above` such tools has it.
    pub fn set_search(&self, own: OwnTools, above: usize) {
        self.update(|next| next.search = Some(Search { own, above }));
    }

    /// Installs the observer of results of tools in code mode that declare no output schema. The first
    /// one stays.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        // Only one is ever installed.
        let _ = self.observer.set(observer);
    }

    /// Installs the meta-tools of code mode for requests that select a language of scripts.
    pub fn set_meta_tools_in(&self, language: ScriptLanguage, meta_tools: OwnTools) {
        self.update(|next| drop(next.meta_tools_in.insert(language, meta_tools)));
    }

    /// Installs the reader of large results.
    pub fn set_reader(&self, reader: OwnTools) {
        self.update(|next| next.reader = Some(reader));
    }

    /// Installs the reader of resources.
    pub fn set_resource_reader(&self, reader: OwnTools) {
        self.update(|next| next.resource_reader = Some(reader));
    }

    /// Replaces a client's tools and provider, and marks it connected. Invalid definitions are left
    /// out; returns the reason for each. Of two definitions with the same name the first one is
    /// kept. Else the names, and the tools under them, do not depend on the order of the
    /// definitions. Arguments and structured results of the tools of MCP servers and of the embedding
    /// program are checked against the schemas of the tools.
    ///
    /// The definitions are checked and their schemas compiled on a blocking thread, which takes less
    /// than a second for the largest ordinary lists. If the future is dropped before it completes, nothing is published.
    ///
    /// # Panics
    ///
    /// Panics if checking does, or if called outside a tokio runtime.
    pub async fn publish(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
        provider: Arc<dyn Provider>,
    ) -> Vec<String> {
        let Some(adopted) = self.adopt(client, definitions).await else { return Vec::new() };
        self.install(client, None, adopted, BTreeSet::new(), provider)
    }

    /// Does the same as [`Catalog::publish`], but fails and publishes nothing if values would not be checked against one of
    /// the schemas.
    ///
    /// # Panics
    ///
    /// Panics as [`Catalog::publish`] does.
    pub async fn publish_checked(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
        provider: Arc<dyn Provider>,
    ) -> Result<Vec<String>, UncheckedSchemas> {
        let Some(adopted) = self.adopt(client, definitions).await else { return Ok(Vec::new()) };
        adopted.schemas.require_all()?;
        Ok(self.install(client, None, adopted, BTreeSet::new(), provider))
    }

    /// Does the same as [`Catalog::publish_checked`] on the calling thread, which it blocks.
    pub fn blocking_publish_checked(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
        provider: Arc<dyn Provider>,
    ) -> Result<Vec<String>, UncheckedSchemas> {
        let policy = self.policy(client);
        let adopted = Adopted::new(client, &policy, definitions, self.checks(client), None);
        adopted.schemas.require_all()?;
        Ok(self.install(client, None, adopted, BTreeSet::new(), provider))
    }

    /// Checks the definitions of a client on a blocking thread, once the guards that are asked about them are loaded;
    /// `None` if the runtime is shutting down, so that the catalog has no readers any more.
    async fn adopt(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
    ) -> Option<Adopted> {
        let guards = self.guards_of(client);
        if let Some(guards) = &guards {
            guards.ready().await;
        }
        let name = client.clone();
        let policy = self.policy(client);
        let checks = self.checks(client);
        let adopting = tokio::task::spawn_blocking(move || {
            Adopted::new(&name, &policy, definitions, checks, guards.as_deref())
        });
        match adopting.await {
            Ok(adopted) => Some(adopted),
            Err(lost) => match lost.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => None,
            },
        }
    }

    /// Does the same as [`Catalog::publish`] on the calling thread, which it blocks. For few tools
    /// of known size.
    pub fn blocking_publish(
        &self,
        client: &ClientName,
        definitions: Vec<ToolDefinition>,
        provider: Arc<dyn Provider>,
    ) -> Vec<String> {
        let policy = self.policy(client);
        let adopted = Adopted::new(client, &policy, definitions, self.checks(client), None);
        self.install(client, None, adopted, BTreeSet::new(), provider)
    }

    /// Returns the values of a client that are checked against the schemas of its tools.
    fn checks(&self, client: &ClientName) -> Checks {
        match self.current.load().clients.get(client).map(|client| client.kind) {
            Some(SourceKind::Server(_) | SourceKind::Internal) => Checks::ArgumentsAndResults,
            // The provider of a plugin checks its values itself.
            Some(SourceKind::Plugin) | None => Checks::Nothing,
        }
    }

    /// Returns the guards of the definitions of a client; `None` if there are none, or if the client is the embedding
    /// program, which lists its own tools.
    fn guards_of(&self, client: &ClientName) -> Option<Arc<dyn DefinitionGuards>> {
        let guards = self.definition_guards.get()?;
        let snapshot = self.current.load();
        let kind = snapshot.clients.get(client).map(|client| client.kind);
        (kind != Some(SourceKind::Internal)).then(|| guards.clone())
    }

    fn policy(&self, client: &ClientName) -> Policy {
        let snapshot = self.current.load();
        snapshot.clients.get(client).map(|client| client.policy.clone()).unwrap_or_default()
    }

    /// Puts a list of tools into the catalog, named as the policy says now. Returns the reasons for the
    /// tools that were left out. Does nothing if `writer` is one that does not have the entry.
    fn install(
        &self,
        client: &ClientName,
        writer: Option<WriterNumber>,
        adopted: Adopted,
        unaccepted: BTreeSet<String>,
        provider: Arc<dyn Provider>,
    ) -> Vec<String> {
        let Adopted { policy, tools, dropped, withheld, schemas } = adopted;
        let before = self.current.load().clients.get(client).map(|entry| entry.mismatches());
        self.change_as(client, writer, |entry| {
            let observer = entry.policy.code_mode.then(|| self.observer.clone());
            let schemas = Arc::new(schemas);
            let listed = tools.clone();
            // Results of another provider are those of another server, or of another version of a plugin.
            let before = entry.published.as_ref();
            let before = before.filter(|before| Arc::ptr_eq(&before.provider, &provider));
            let cache = before.and_then(|before| before.cache.as_deref());
            let rules = &entry.policy.cache;
            let cache = ClientCache::new(client, rules, &tools, &self.results, cache);
            let fallbacks = Fallbacks::new(&entry.policy, &tools);
            entry.tools = tools;
            let tools = listed;
            let is_internal = entry.kind == SourceKind::Internal;
            let published =
                Published { provider, tools, schemas, observer, cache, fallbacks, is_internal };
            entry.set_published(published);
            entry.left_out = dropped.iter().take(MAX_REASONS).cloned().collect();
            entry.withheld = withheld;
            entry.unaccepted = unaccepted.into();
            entry.is_listed = true;
            entry.state = SourceState::Connected;
            // It may have changed while the definitions were checked.
            let present = std::mem::replace(&mut entry.policy, policy);
            entry.set_policy(present, &self.observer, &self.results);
        });
        let after = self.current.load().clients.get(client).map(|entry| entry.mismatches());
        if after != before {
            report_mismatches(client, &after.unwrap_or_default());
        }
        dropped.into_iter().map(|left_out| left_out.reason).collect()
    }

    /// Replaces a client's resources and prompts. Readers are notified only if they have changed.
    pub fn publish_offers(&self, client: &ClientName, offers: Offers) {
        self.publish_offers_as(client, None, offers);
    }

    fn publish_offers_as(&self, client: &ClientName, writer: Option<WriterNumber>, offers: Offers) {
        let snapshot = self.snapshot();
        if snapshot.clients.get(client).is_some_and(|entry| *entry.offers == offers) {
            return;
        }
        self.change_as(client, writer, |entry| entry.offers = Arc::new(offers));
    }

    /// Sets the provider of a client that has no tools yet, so that its status can be read. Its state
    /// stays.
    pub fn offer(&self, client: &ClientName, provider: Arc<dyn Provider>) {
        self.change(client, |entry| entry.provider = Some(provider));
    }

    /// Forgets the kept results of a client's tools.
    pub fn forget_results(&self, client: &ClientName) {
        let snapshot = self.snapshot();
        let published = snapshot.clients.get(client).and_then(|entry| entry.published.as_ref());
        if let Some(cache) = published.and_then(|published| published.cache.as_ref()) {
            cache.forget();
        }
    }

    /// Sets the state of a client. Its tools stay.
    pub fn set_state(&self, client: &ClientName, state: SourceState) {
        self.change(client, |entry| entry.state = state);
    }

    fn change(&self, client: &ClientName, change: impl FnOnce(&mut ToolSource)) {
        self.change_as(client, None, change);
    }

    /// Changes an entry, unless `writer` is one that does not have it.
    fn change_as(
        &self,
        client: &ClientName,
        writer: Option<WriterNumber>,
        change: impl FnOnce(&mut ToolSource),
    ) {
        self.update(|next| {
            if let Some(entry) = next.clients.get_mut(client)
                && writer.is_none_or(|writer| writer == entry.writer)
            {
                let mut changed = (**entry).clone();
                change(&mut changed);
                *entry = Arc::new(changed);
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        // A writer that panicked left the old snapshot in place, which is still consistent.
        let _turn = self.writing.lock();
        let mut next = self.current.load().next();
        change(&mut next);
        bare_names::assign_bare_names(&mut next.clients);
        self.current.store(Arc::new(next));
        self.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests;
