//! The tools that one MCP client sees, with their list as text; and its resources and prompts.
//!
//! A client lists its tools and calls them again and again, so both the view and the text of the list
//! are kept until the catalog changes.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    ptr,
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    list::{ItemPage, List},
    offers::Offering,
};
use airlock_catalog::{Catalog, Snapshot, SourceState, ToolSource};
use airlock_core::{
    door::{Approval, Entry, Filter, GroupSlug, Origin, ScriptLanguage, View, VirtualKey},
    tenant::Tenant,
    tool::{Annotations, ClientName, Tool, ToolName},
};
use airlock_json::raw;
use airlock_wire::error::RpcError;

/// Toolboxes that are kept.
const KEPT: usize = 128;
/// Toolboxes of one tenant that are kept.
const KEPT_OF_TENANT: usize = 8;
/// Maximum bytes of the lists of a toolbox that is kept; longer ones are made for each request, which
/// is slower but takes no memory between them. Servers choose their length. All that are kept have
/// 128 MiB at most, those of one tenant 8 MiB.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// The origin of every call of an MCP client, as far as lists are concerned.
pub(super) const ORIGIN: Origin = Origin::McpClient(Approval::Given);

/// The tools that a request asks for, as far as its sender may see them.
#[derive(Clone)]
pub struct Selection {
    /// Virtual key of the sender.
    pub key: Option<Arc<VirtualKey>>,
    /// Filter of the request's headers.
    pub filter: Filter,
    /// Sources of the tools.
    pub scope: ToolboxScope,
}

/// Sources of the tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolboxScope {
    /// All sources. Tools have their names on the wire, `<client>-<tool>` by default.
    All,
    /// One source. Tools have the names that the source gave them.
    Client(ClientName),
    /// The tools of one group, whose sources may be several. Tools have their names on the wire. A group
    /// that does not exist any more has none.
    Group(GroupSlug),
}

impl Selection {
    /// The tenant of the sender.
    pub fn tenant(&self) -> Tenant {
        self.key.as_deref().map_or(Tenant::ANONYMOUS, |key| key.tenant().clone())
    }
}

/// The tools that one MCP client sees.
pub struct Toolbox {
    /// The catalog that it was made of.
    snapshot: Weak<Snapshot>,
    view: View,
    scope: ToolboxScope,
    /// Names on the wire by the names at the one source; empty for all sources.
    own_names: BTreeMap<String, ToolName>,
    list: OnceLock<List>,
    offering: Offering,
}

/// Numbers that differ between different lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) tools: u64,
    /// Of resources and their templates.
    pub(crate) resources: u64,
    pub(crate) prompts: u64,
}

impl Toolbox {
    fn new(snapshot: &Arc<Snapshot>, selection: &Selection) -> Self {
        let mut filter = selection.filter.clone();
        let key = selection.key.as_deref();
        match &selection.scope {
            ToolboxScope::All => {}
            ToolboxScope::Client(client) => filter.narrow_to(client),
            ToolboxScope::Group(slug) => filter.narrow_to_group(snapshot.group(slug.as_str(), key)),
        }
        let view = snapshot.view(&filter, key);
        let own_names = match &selection.scope {
            ToolboxScope::All | ToolboxScope::Group(_) => BTreeMap::new(),
            ToolboxScope::Client(_) => view
                .list(&ORIGIN)
                .map(|entry| (own_name(&entry.tool).to_owned(), entry.tool.name.clone()))
                .collect(),
        };
        let scope = selection.scope.clone();
        let offering = Offering::new(snapshot.relay_view(&filter, key), scope.clone());
        let snapshot = Arc::downgrade(snapshot);
        Self { snapshot, view, scope, own_names, list: OnceLock::new(), offering }
    }

    /// The view that calls are decided with.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the view for a call of a request. The toolbox may be kept from an earlier one, whose headers
    /// are not to reach the sources of tools again.
    pub(crate) fn view_for(&self, selection: &Selection) -> View {
        self.view.clone().with_headers_of(&selection.filter)
    }

    /// Finds a tool by the name that the client knows it by; `None` if there is none, or if it is
    /// hidden.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        match &self.scope {
            ToolboxScope::All | ToolboxScope::Group(_) => self.view.find(&ORIGIN, name),
            ToolboxScope::Client(_) => {
                let own = self.view.find(&ORIGIN, name).filter(|entry| entry.tool.client.is_none());
                own.or_else(|| self.view.find(&ORIGIN, self.own_names.get(name)?.as_str()))
            }
        }
    }

    /// Returns whether a source that may have tools of this toolbox, which was opened for `selection`, was connecting
    /// when it was made. True if the catalog of that time is gone: the source may have connected since.
    pub(crate) fn may_be_incomplete(&self, selection: &Selection) -> bool {
        let Some(snapshot) = self.snapshot.upgrade() else { return true };
        snapshot.clients().any(|source| {
            source.state == SourceState::Connecting && may_have(&snapshot, selection, source)
        })
    }

    /// The resources and prompts.
    pub(crate) fn offering(&self) -> &Offering {
        &self.offering
    }

    /// Returns a page of the list of tools: the first one, or that after `cursor`. Fails if the
    /// cursor is not one of the gateway's.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Result<ItemPage<'_>, RpcError> {
        self.list().page(cursor, ToolName::is_valid)
    }

    /// Returns a number that differs between different lists of tools.
    pub(crate) fn tools_digest(&self) -> u64 {
        self.list().digest()
    }

    /// Returns numbers that differ between different lists.
    pub(crate) fn digests(&self) -> Digests {
        Digests {
            tools: self.tools_digest(),
            resources: self.offering.resources_digest(),
            prompts: self.offering.prompts_digest(),
        }
    }

    fn list(&self) -> &List {
        self.list.get_or_init(|| {
            let mut list = List::default();
            for entry in self.view.list(&ORIGIN) {
                let name = match &self.scope {
                    ToolboxScope::All | ToolboxScope::Group(_) => entry.tool.name.as_str(),
                    ToolboxScope::Client(_) => own_name(&entry.tool),
                };
                list.push(entry.tool.name.as_str(), |out| describe(&entry.tool, name, out));
            }
            list.finish()
        })
    }

    /// Returns whether the toolbox is small enough to be kept.
    fn is_small(&self) -> bool {
        let tools = self.list.get().map_or(0, List::len_bytes);
        tools + self.offering.kept_bytes() <= MAX_KEPT_BYTES
    }
}

/// Returns the name of a tool in the list of its source: that which the source gave it, or the name
/// on the wire if that has hidden characters or is empty.
fn own_name(tool: &Tool) -> &str {
    match tool.shown_original() {
        Cow::Borrowed(original) if !original.is_empty() => original,
        _ => tool.name.as_str(),
    }
}

/// Returns whether a client may ask for a task when it calls a tool. The gateway serves tasks for
/// tools whose source says that they take long.
pub(super) fn may_be_task(tool: &Tool) -> bool {
    let execution = tool.extra.as_ref().and_then(|extra| raw::member(extra.as_str(), "execution"));
    let support =
        execution.and_then(|execution| raw::member(execution, "taskSupport")).and_then(raw::string);
    matches!(support.as_deref(), Some("required" | "optional"))
}

/// Writes MCP's `Tool` object. Members of the source are kept, but for `execution`: a client need not
/// ask for a task, because the gateway follows those of sources itself.
fn describe(tool: &Tool, name: &str, out: &mut String) {
    push_member(out, "name", &quoted(name));
    if let Some(title) = &tool.title {
        push_member(out, "title", &quoted(title));
    }
    if !tool.description.is_empty() {
        push_member(out, "description", &quoted(&tool.description));
    }
    push_member(out, "inputSchema", tool.input_schema.as_str());
    if let Some(schema) = &tool.output_schema {
        push_member(out, "outputSchema", schema.as_str());
    }
    if tool.annotations != Annotations::default() {
        push_member(
            out,
            "annotations",
            &serde_json::to_string(&tool.annotations).unwrap_or_default(),
        );
    }
    if let Some(meta) = &tool.meta {
        push_member(out, "_meta", meta.as_str());
    }
    let extra = tool.extra.as_ref().and_then(|extra| raw::members(extra.as_str()));
    let extra = extra.into_iter().flatten();
    for (member, value) in extra.filter(|(member, _)| member != "execution") {
        let quoted = quoted(&member);
        push_member(out, &quoted[1..quoted.len() - 1], value);
    }
    if may_be_task(tool) {
        out.push_str(r#","execution":{"taskSupport":"optional"}"#);
    }
    out.push('}');
}

fn push_member(out: &mut String, name: &str, value: &str) {
    out.push_str(if name == "name" { "{\"" } else { ",\"" });
    out.push_str(name);
    out.push_str("\":");
    out.push_str(value);
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The toolboxes that were used last.
pub struct Toolboxes {
    catalog: Arc<Catalog>,
    kept: Mutex<VecDeque<KeptLists>>,
}

struct KeptLists {
    snapshot: Arc<Snapshot>,
    tenant: Tenant,
    /// The virtual key, which may be changed while the catalog stays as it is: its grants, and its groups, whose
    /// limits and guards the calls of the view have. One tenant may come with several.
    key: Option<Arc<VirtualKey>>,
    scope: ToolboxScope,
    /// True for the operator's own requests, which see the clients of all owners.
    is_of_operator: bool,
    /// Language of scripts, which selects the texts of the meta-tools; `None` for that of the
    /// configuration.
    language: Option<ScriptLanguage>,
    toolbox: Arc<Toolbox>,
}

impl KeptLists {
    fn is_of(&self, snapshot: &Arc<Snapshot>, selection: &Selection) -> bool {
        Arc::ptr_eq(&self.snapshot, snapshot)
            && self.tenant == selection.tenant()
            && self.scope == selection.scope
            && self.is_of_operator == selection.filter.is_of_operator()
            && self.language == selection.filter.language()
            && self.key == selection.key
    }
}

impl Toolboxes {
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog, kept: Mutex::default() }
    }

    /// The registry of all tools.
    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns whether a source may have tools of a selection. None may while all are switched off.
    pub(crate) fn may_have(&self, selection: &Selection, source: &ToolSource) -> bool {
        may_have(&self.catalog.snapshot(), selection, source)
    }

    /// Returns the tools of a selection as they are now. They are kept unless a filter of the request
    /// narrows them: there are as many filters as a caller likes.
    pub fn open(&self, selection: &Selection) -> Arc<Toolbox> {
        let snapshot = self.catalog.snapshot();
        if !selection.filter.is_none() {
            return Arc::new(Toolbox::new(&snapshot, selection));
        }
        if let Some(found) = self.find(&snapshot, selection) {
            return found;
        }
        let toolbox = Arc::new(Toolbox::new(&snapshot, selection));
        let tenant = selection.tenant();
        let mut kept = self.kept.lock();
        // Those of older snapshots are of no use, and keep the snapshot in memory.
        kept.retain(|kept| Arc::ptr_eq(&kept.snapshot, &snapshot) && kept.toolbox.is_small());
        let own = kept.iter().filter(|kept| kept.tenant == tenant).count();
        if own >= KEPT_OF_TENANT
            && let Some(last) = kept.iter().rposition(|kept| kept.tenant == tenant)
        {
            kept.remove(last);
        }
        kept.push_front(KeptLists {
            tenant,
            key: selection.key.clone(),
            scope: selection.scope.clone(),
            is_of_operator: selection.filter.is_of_operator(),
            language: selection.filter.language(),
            toolbox: toolbox.clone(),
            snapshot,
        });
        kept.truncate(KEPT);
        toolbox
    }

    /// Returns the tools of a selection as they are now; `None` if they are those of the toolbox `opened`, which was
    /// opened for the same selection before.
    pub(crate) fn changed(&self, selection: &Selection, opened: &Toolbox) -> Option<Arc<Toolbox>> {
        // An address is not used again while a weak reference exists.
        let is_same = ptr::eq(Arc::as_ptr(&self.catalog.snapshot()), opened.snapshot.as_ptr());
        (!is_same).then(|| self.open(selection))
    }

    /// Finds a kept toolbox, and makes it the last that is dropped.
    fn find(&self, snapshot: &Arc<Snapshot>, selection: &Selection) -> Option<Arc<Toolbox>> {
        let mut kept = self.kept.lock();
        let index = kept.iter().position(|kept| kept.is_of(snapshot, selection))?;
        // Most requests are of one selection, and nothing has to be moved for them.
        if index == 0 && kept[0].toolbox.is_small() {
            return Some(kept[0].toolbox.clone());
        }
        let found = kept.remove(index)?;
        let toolbox = found.toolbox.clone();
        if toolbox.is_small() {
            kept.push_front(found);
        }
        Some(toolbox)
    }
}

/// Returns whether a source may have tools of a selection, in one state of the catalog.
fn may_have(snapshot: &Snapshot, selection: &Selection, source: &ToolSource) -> bool {
    let key = selection.key.as_deref();
    let is_in_scope = match &selection.scope {
        ToolboxScope::All => true,
        ToolboxScope::Client(client) => *client == source.name,
        ToolboxScope::Group(slug) => {
            snapshot.group(slug.as_str(), key).is_some_and(|group| group.has_client(&source.name))
        }
    };
    is_in_scope
        && !snapshot.is_switched_off()
        && snapshot.shows(&source.name, &selection.filter, key)
}

#[cfg(test)]
mod tests;
