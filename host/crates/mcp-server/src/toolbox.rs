//! The tools that one MCP client sees, with their list as text; and its resources and prompts.
//!
//! A client lists its tools and calls them again and again, so both the view and the text of the list
//! are kept until the catalog changes.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    list::{List, Page},
    offers::Offering,
};
use airlock_catalog::{Catalog, Snapshot, ToolSource};
use airlock_core::{
    door::{Approval, Entry, Filter, Origin, View, VirtualKey},
    tenant::Tenant,
    tool::{Annotations, ClientName, Tool, ToolName},
};
use airlock_json::raw;
use airlock_wire::error::RpcError;

/// Toolboxes that are kept.
const KEPT: usize = 128;
/// Toolboxes of one tenant that are kept.
const KEPT_OF_TENANT: usize = 8;
/// Longest list that is kept, in bytes. Longer ones are made for each request, which is slower
/// but takes no memory between them.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// The origin of every call of an MCP client, as far as lists are concerned.
const ORIGIN: Origin = Origin::McpClient(Approval::Given);

/// The tools that a request asks for, as far as its sender may see them.
#[derive(Clone)]
pub struct Selection {
    /// Virtual key of the sender.
    pub key: Option<Arc<VirtualKey>>,
    /// Filter of the request's headers.
    pub filter: Filter,
    /// Sources of the tools.
    pub scope: Scope,
}

/// Sources of the tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All sources. Tools have their names on the wire, `<client>-<tool>` by default.
    All,
    /// One source. Tools have the names that the source gave them.
    Client(ClientName),
}

impl Selection {
    /// The tenant of the sender.
    pub fn tenant(&self) -> Tenant {
        self.key.as_deref().map_or(Tenant::ANONYMOUS, |key| key.tenant().clone())
    }
}

/// The tools that one MCP client sees.
pub struct Toolbox {
    view: View,
    scope: Scope,
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
    fn new(snapshot: &Snapshot, selection: &Selection) -> Self {
        let mut filter = selection.filter.clone();
        if let Scope::Client(client) = &selection.scope {
            filter.narrow_to(client);
        }
        let key = selection.key.as_deref();
        let view = snapshot.view(&filter, key);
        let own_names = match &selection.scope {
            Scope::All => BTreeMap::new(),
            Scope::Client(_) => view
                .list(&ORIGIN)
                .map(|entry| (own_name(&entry.tool).to_owned(), entry.tool.name.clone()))
                .collect(),
        };
        let scope = selection.scope.clone();
        let offering = Offering::new(snapshot.relay_view(&filter, key), scope.clone());
        Self { view, scope, own_names, list: OnceLock::new(), offering }
    }

    /// The view that calls are decided with.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Finds a tool by the name that the client knows it by; `None` if there is none, or if it is
    /// hidden.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        match &self.scope {
            Scope::All => self.view.find(&ORIGIN, name),
            Scope::Client(_) => {
                let own = self.view.find(&ORIGIN, name).filter(|entry| entry.tool.client.is_none());
                own.or_else(|| self.view.find(&ORIGIN, self.own_names.get(name)?.as_str()))
            }
        }
    }

    /// The resources and prompts.
    pub(crate) fn offering(&self) -> &Offering {
        &self.offering
    }

    /// Returns a page of the list of tools: the first one, or that after `cursor`. Fails if the
    /// cursor is not one of the gateway's.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Result<Page<'_>, RpcError> {
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
                    Scope::All => entry.tool.name.as_str(),
                    Scope::Client(_) => own_name(&entry.tool),
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
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    snapshot: Arc<Snapshot>,
    tenant: Tenant,
    /// Name of the virtual key. One tenant may come with several.
    key: Option<String>,
    scope: Scope,
    toolbox: Arc<Toolbox>,
}

impl Kept {
    fn is_of(&self, snapshot: &Arc<Snapshot>, selection: &Selection) -> bool {
        Arc::ptr_eq(&self.snapshot, snapshot)
            && self.tenant == selection.tenant()
            && self.key.as_deref() == selection.key.as_deref().map(|key| &*key.name)
            && self.scope == selection.scope
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

    /// Returns whether a source may have tools of a selection.
    pub(crate) fn may_have(&self, selection: &Selection, source: &ToolSource) -> bool {
        let is_in_scope = match &selection.scope {
            Scope::All => true,
            Scope::Client(client) => *client == source.name,
        };
        is_in_scope && self.catalog.snapshot().shows(&source.name, selection.key.as_deref())
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
        kept.push_front(Kept {
            tenant,
            key: selection.key.as_deref().map(|key| key.name.clone()),
            scope: selection.scope.clone(),
            toolbox: toolbox.clone(),
            snapshot,
        });
        kept.truncate(KEPT);
        toolbox
    }

    /// Finds a kept toolbox, and makes it the last that is dropped.
    fn find(&self, snapshot: &Arc<Snapshot>, selection: &Selection) -> Option<Arc<Toolbox>> {
        let mut kept = self.kept.lock();
        let index = kept.iter().position(|kept| kept.is_of(snapshot, selection))?;
        let found = kept.remove(index)?;
        let toolbox = found.toolbox.clone();
        if toolbox.is_small() {
            kept.push_front(found);
        }
        Some(toolbox)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;
    use crate::{
        list::PAGE_ITEMS,
        tests::{Unused, client},
    };
    use airlock_core::tool::{Allowlist, Policy};

    fn publish(catalog: &Catalog, name: &str, tools: Value) {
        let policy = Policy { execute: Allowlist::All, ..Policy::default() };
        catalog.add_client(&client(name), airlock_catalog::SourceKind::Server("stdio"), policy);
        let tools = serde_json::from_value(tools).expect("definitions");
        let dropped = catalog.blocking_publish(&client(name), tools, Arc::new(Unused));
        assert!(dropped.is_empty(), "{dropped:?}");
    }

    fn everything(scope: Scope) -> Selection {
        Selection { key: None, filter: Filter::none(), scope }
    }

    fn listed(toolbox: &Toolbox) -> Vec<Value> {
        let page = toolbox.page(None).expect("the first page");
        serde_json::from_str(&format!("[{}]", page.items)).expect("JSON")
    }

    #[test]
    fn a_tool_keeps_all_members_and_of_those_of_tasks_only_that_it_supports_them() {
        let catalog = Catalog::new();
        let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}});
        let tool = json!({
            "name": "a/b", "title": "T\"", "description": "D", "inputSchema": schema, "outputSchema": schema,
            "annotations": {"readOnlyHint": true, "x": 1}, "_meta": {"k": [1]},
            "icons": [{"src": "data:"}], "execution": {"taskSupport": "optional", "x": 1}, "q\"": null,
        });
        publish(&catalog, "fs", json!([tool]));
        let mut expected = tool;
        expected["execution"] = json!({"taskSupport": "optional"});
        let boxes = Toolboxes::new(catalog);
        assert_eq!(
            listed(&boxes.open(&everything(Scope::Client(client("fs"))))),
            [expected.clone()]
        );
        expected["name"] = ToolName::new(&client("fs"), "a/b").as_str().into();
        assert_eq!(listed(&boxes.open(&everything(Scope::All))), [expected]);
    }

    #[test]
    fn one_client_is_listed_and_called_with_its_own_names() {
        let catalog = Catalog::new();
        publish(
            &catalog,
            "fs",
            json!([{"name": "a b", "inputSchema": {}}, {"name": "fs-x", "inputSchema": {}}]),
        );
        publish(&catalog, "db", json!([{"name": "q", "inputSchema": {}}]));
        let boxes = Toolboxes::new(catalog);
        let one = boxes.open(&everything(Scope::Client(client("fs"))));
        let names: Vec<_> = listed(&one).iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["a b", "fs-x"]);
        assert!(one.find("a b").is_some() && one.find("fs-x").is_some());
        assert!(
            one.find("q").is_none() && one.find("db-q").is_none() && one.find("fs-fs-x").is_none()
        );
        let all = boxes.open(&everything(Scope::All));
        assert!(all.find("db-q").is_some() && all.find("q").is_none() && all.find("a b").is_none());
    }

    #[test]
    fn pages_hold_every_tool_once_even_if_the_list_changes_between_them() {
        let catalog = Catalog::new();
        publish(&catalog, "a", tools(0..PAGE_ITEMS + 2));
        let boxes = Toolboxes::new(catalog.clone());
        let first = boxes.open(&everything(Scope::All));
        let page = first.page(None).expect("a page");
        assert_eq!(page.items.matches("\"name\"").count(), PAGE_ITEMS);
        publish(&catalog, "a", tools(1..PAGE_ITEMS + 2));
        let second = boxes.open(&everything(Scope::All));
        let rest = second.page(page.next.as_deref()).expect("a page");
        assert_eq!(rest.items.matches("\"name\"").count(), 2);
        assert!(rest.items.starts_with("{\"name\":\"a-t1000\"") && rest.next.is_none());
        let end = second.page(Some(&BASE64_URL_SAFE_NO_PAD.encode("zzz"))).expect("a page");
        assert_eq!(end, Page { items: "", next: None });
        for bad in ["", "!", "YSBi"] {
            assert_eq!(first.page(Some(bad)).expect_err("refused").code, -32602, "{bad}");
        }
    }

    fn tools(numbers: std::ops::Range<usize>) -> Value {
        numbers.map(|n| json!({"name": format!("t{n:04}"), "inputSchema": {}})).collect()
    }

    #[test]
    fn a_toolbox_is_kept_until_the_catalog_changes_and_for_its_selection_only() {
        let catalog = Catalog::new();
        publish(&catalog, "fs", json!([{"name": "a", "inputSchema": {}}]));
        let boxes = Toolboxes::new(catalog.clone());
        let first = boxes.open(&everything(Scope::All));
        assert!(Arc::ptr_eq(&first, &boxes.open(&everything(Scope::All))));
        let filtered =
            Selection { filter: Filter::parse(Some("none"), None), ..everything(Scope::All) };
        assert!(listed(&boxes.open(&filtered)).is_empty());
        let key = VirtualKey::new("k", "sk-bf-k", std::collections::BTreeMap::new());
        let keyed = Selection { key: Some(Arc::new(key)), ..everything(Scope::All) };
        assert!(listed(&boxes.open(&keyed)).is_empty());
        publish(&catalog, "fs", json!([{"name": "b", "inputSchema": {}}]));
        let second = boxes.open(&everything(Scope::All));
        assert!(first.digests() != second.digests() && second.find("fs-b").is_some());
        assert_eq!(boxes.kept.lock().len(), 1);
        for n in 0..KEPT + 5 {
            boxes.open(&Selection {
                key: Some(Arc::new(account(&n.to_string()))),
                ..everything(Scope::All)
            });
        }
        assert_eq!(boxes.kept.lock().len(), KEPT);
        for n in 0..KEPT_OF_TENANT + 5 {
            boxes.open(&everything(Scope::Client(client(&format!("c{n}")))));
        }
        let kept = boxes.kept.lock();
        let own = kept.iter().filter(|kept| kept.tenant == Tenant::ANONYMOUS).count();
        assert_eq!((kept.len(), own), (KEPT, KEPT_OF_TENANT));
    }

    fn account(name: &str) -> VirtualKey {
        VirtualKey::new(name.to_owned(), name, std::collections::BTreeMap::new())
    }
}
