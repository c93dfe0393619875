//! Teams, customers, roles, environments, virtual MCPs, limits and prices of models, in the form of the
//! configuration file. A [`ListedKind`] says which of them.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    body,
    change::{ChangeContent, ConfigState, RequestedChange},
    kind::ListedKind,
    limit_members,
    page::ListQuery,
    record::source,
    refusal::{Result, conflict, invalid, not_found},
    route::{LimitOwner, MAX_NAME_BYTES},
    service::Service,
};
use airlock_config::{Element, redacted};
use airlock_core::operator::Operator;
use airlock_limits::price::PriceTable;
use airlock_store::entries::EntryKind;

/// Member of a virtual MCP with the identifiers of keys, as Bifrost's bodies have it.
const KEY_IDS: &str = "virtual_key_ids";

impl Service {
    /// Lists the elements of a kind.
    pub(crate) async fn list_elements(&self, listed: &ListedKind, query: &str) -> Result<Value> {
        let filters: &[&str] = if listed.kind == EntryKind::Team { &["customer_id"] } else { &[] };
        let page = ListQuery::parse(query, filters)?;
        let ListedKind { kind, many, .. } = *listed;
        let listing = self.shown(move |state| {
            let elements = page.select(state, kind).map(describe);
            let mut document = page.document(many, elements.collect());
            if kind == EntryKind::PricingOverride {
                document["built_in_version"] = PriceTable::VERSION.into();
            }
            document
        });
        listing.await
    }

    /// Shows one element.
    pub(crate) async fn show_element(&self, listed: &ListedKind, id: &str) -> Result<Value> {
        let state = self.state().await?;
        Ok(json!({listed.one: describe(state.known(listed.kind, id, listed.title)?)}))
    }

    /// Makes an element.
    pub(crate) async fn create_element(
        &self,
        actor: &Operator,
        listed: &ListedKind,
        body: Option<Value>,
    ) -> Result<Value> {
        let mut members = body::members(body)?;
        // Programs send members that they do not use.
        members.retain(|name, value| {
            let is_foreign = airlock_config::unsupported(listed.owner, name).is_some();
            !(value.is_null() || is_foreign && body::is_empty(value))
        });
        if listed.has_id {
            members.entry("id").or_insert_with(|| Uuid::new_v4().to_string().into());
        }
        let member = listed.name_member();
        let name = members.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.trim().is_empty() {
            return Err(invalid(format!("{} {member} is required", listed.title)));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(invalid(format!("`{member}` has more than {MAX_NAME_BYTES} bytes")));
        }
        limit_members::merge_budget(&mut members);
        let making = self.change(actor, |state| {
            if state.element(listed.kind, &name).is_some() {
                let title = listed.title;
                return Err(conflict(format!("A {title} with this {member} already exists")));
            }
            state.check_readable(listed.kind, &name)?;
            let mut members = members.clone();
            check_scope(state, listed, &members)?;
            name_keys(state, listed, &mut members)?;
            wanted(state, listed, listed.acts[0], &name, members)
        });
        making.await?;
        self.respond_with(listed, &name, "created").await
    }

    /// Changes the members of an element that the request has. A member that is `null` is removed.
    pub(crate) async fn update_element(
        &self,
        actor: &Operator,
        listed: &ListedKind,
        id: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let mut sent = body::members(body)?;
        let resets = limit_members::take_reset(&mut sent)?;
        let owner = LimitOwner::from_kind(listed.kind).filter(|_| resets);
        if resets && owner.is_none() {
            return Err(limit_members::no_budgets(listed.title));
        }
        if owner.is_some() {
            self.check_limiter()?;
        }
        if listed.kind == EntryKind::VirtualMcp && sent.get(KEY_IDS) == Some(&json!([])) {
            return Err(invalid(format!(
                "`{KEY_IDS}` names no key: set `virtual_keys` to null for every caller, or `enabled` to false"
            )));
        }
        let updating = self.change(actor, |state| {
            let element = state.known(listed.kind, id, listed.title)?;
            let mut sent = sent.clone();
            name_keys(state, listed, &mut sent)?;
            let members = updated(element, listed, &sent)?;
            wanted(state, listed, listed.acts[1], &element.name, members)
        });
        updating.await?;
        if let Some(owner) = owner {
            self.reset_budgets(actor, owner, id).await?;
        }
        self.respond_with(listed, id, "updated").await
    }

    /// Removes an element, also one of the configuration file. Fails if another element needs it.
    pub(crate) async fn delete_element(
        &self,
        actor: &Operator,
        listed: &ListedKind,
        id: &str,
    ) -> Result<Value> {
        let deleting = self.change(actor, |state| {
            let found =
                state.known(listed.kind, id, listed.title).map(|element| element.name.clone());
            let name = state.name_to_remove(actor, listed.kind, id, found)?;
            let action = listed.acts[2];
            Ok(RequestedChange { action, kind: listed.kind, name, content: ChangeContent::Absent })
        });
        deleting.await?;
        Ok(json!({"message": format!("{} deleted successfully", listed.title)}))
    }

    /// Adds a virtual key to those for which a virtual MCP exists, or takes it away unless it `is_attached`.
    pub(crate) async fn attach_key(
        &self,
        actor: &Operator,
        listed: &ListedKind,
        id: &str,
        key: &str,
        is_attached: bool,
    ) -> Result<Value> {
        let updating = self.change(actor, |state| {
            let element = state.known(listed.kind, id, listed.title)?;
            let value = element.value.as_ref();
            let mut members = value.and_then(Value::as_object).cloned().unwrap_or_default();
            let keys = keys_with(state, &members, key, is_attached)?;
            members.insert("virtual_keys".to_owned(), keys);
            wanted(state, listed, listed.acts[1], &element.name, members)
        });
        updating.await?;
        self.respond_with(listed, id, "updated").await
    }

    async fn respond_with(&self, listed: &ListedKind, id: &str, done: &str) -> Result<Value> {
        let mut shown = self.show_element(listed, id).await?;
        shown["message"] = format!("{} {done} successfully", listed.title).into();
        Ok(shown)
    }
}

fn wanted(
    state: &ConfigState,
    listed: &ListedKind,
    action: &'static str,
    name: &str,
    mut members: Map<String, Value>,
) -> Result<RequestedChange> {
    if listed.kind == EntryKind::VirtualMcp {
        name_clients(state, &mut members)?;
    }
    let content = ChangeContent::Element(Value::Object(members));
    Ok(RequestedChange { action, kind: listed.kind, name: name.to_owned(), content })
}

/// Returns the members of an element with those of a request. What was sent as it is shown stays.
fn updated(
    element: &Element,
    listed: &ListedKind,
    sent: &Map<String, Value>,
) -> Result<Map<String, Value>> {
    let shown = describe(element);
    let Some(Value::Object(mut members)) = element.value.clone() else { return Ok(Map::new()) };
    let mut sent = sent.clone();
    limit_members::merge_budget(&mut sent);
    limit_members::replace_budget(&mut members, &sent);
    for (member, value) in &sent {
        if shown.get(member).unwrap_or(&Value::Null) == value {
            continue;
        }
        if listed.fixed().contains(&member.as_str()) {
            let title = listed.title;
            return Err(invalid(format!("`{member}` cannot be changed: make another {title}")));
        }
        match value {
            Value::Null => drop(members.remove(member)),
            value => drop(members.insert(member.clone(), value.clone())),
        }
    }
    Ok(members)
}

/// Fails if a new limit on a model names a virtual key that does not exist. One whose key is gone later stays,
/// and has no effect.
fn check_scope(
    state: &ConfigState,
    listed: &ListedKind,
    members: &Map<String, Value>,
) -> Result<()> {
    let key = members.get("scope_id").and_then(Value::as_str).filter(|id| !id.is_empty());
    match key.filter(|_| listed.kind == EntryKind::ModelConfig) {
        Some(key) if state.named(EntryKind::VirtualKey, key).is_none() => {
            let key = airlock_strings::cut(key.to_owned(), MAX_NAME_BYTES);
            Err(invalid(format!(
                "`scope_id`: no virtual key has {key:?} as its identifier or name"
            )))
        }
        _ => Ok(()),
    }
}

/// Replaces the identifiers of keys in a request for a virtual MCP by their names. Fails if it has other names
/// too.
fn name_keys(
    state: &ConfigState,
    listed: &ListedKind,
    sent: &mut Map<String, Value>,
) -> Result<()> {
    if listed.kind != EntryKind::VirtualMcp {
        return Ok(());
    }
    let ids = match sent.remove(KEY_IDS) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(ids)) if ids.is_empty() => return Ok(()),
        Some(Value::Array(ids)) => ids,
        Some(_) => return Err(invalid(format!("`{KEY_IDS}` must be a list of identifiers"))),
    };
    let names = ids.iter().map(|id| name_of(state, EntryKind::VirtualKey, id));
    let names = Value::from(names.collect::<Result<Vec<_>, _>>()?);
    if sent.get("virtual_keys").is_some_and(|keys| *keys != names) {
        return Err(invalid(format!(
            "`{KEY_IDS}` and `virtual_keys` name different keys: send one of them"
        )));
    }
    sent.insert("virtual_keys".to_owned(), names);
    Ok(())
}

/// Returns the keys of a virtual MCP with one more, or without it. Fails if it exists for every caller: the
/// first key would take it from all others.
fn keys_with(
    state: &ConfigState,
    group: &Map<String, Value>,
    key: &str,
    is_attached: bool,
) -> Result<Value> {
    let Some(mut keys) = group.get("virtual_keys").and_then(Value::as_array).cloned() else {
        return Err(conflict(
            "the virtual MCP exists for every caller; with PUT, set its `virtual_keys` to the names of the keys for which it is to exist",
        ));
    };
    let name = match name_of(state, EntryKind::VirtualKey, &key.into()) {
        // A key that is gone may still be named.
        Err(_) if !is_attached => key.into(),
        name => name?,
    };
    match keys.iter().position(|own| *own == name) {
        None if is_attached => keys.push(name),
        None => return Err(not_found("Virtual key is not attached")),
        Some(_) if is_attached => {}
        Some(index) => drop(keys.remove(index)),
    }
    if keys.is_empty() {
        return Err(conflict(
            "no virtual key would be left; set `enabled` of the virtual MCP to false, or delete it",
        ));
    }
    Ok(keys.into())
}

/// Replaces the identifiers of clients in a virtual MCP, as Bifrost's bodies have them, by names.
fn name_clients(state: &ConfigState, group: &mut Map<String, Value>) -> Result<()> {
    let tools = group.get_mut("tools").and_then(Value::as_array_mut);
    for tools in tools.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(id) = tools.remove("mcp_client_id") {
            let name = name_of(state, EntryKind::Client, &id)?;
            tools.entry("mcp_client_name").or_insert(name);
        }
    }
    Ok(())
}

fn name_of(state: &ConfigState, kind: EntryKind, id: &Value) -> Result<Value> {
    let found = id.as_str().and_then(|id| state.named(kind, id));
    let found = found.map(|element| element.name.clone().into());
    found.ok_or_else(|| {
        let kind = kind.name();
        invalid(format!("no {kind} has the identifier or the name {id}"))
    })
}

/// Describes an element. One without an identifier has its name in the place of it.
fn describe(element: &Element) -> Value {
    let value = element.value.as_ref().map(|value| redacted(element.kind, value));
    let mut shown = value.unwrap_or_default();
    if shown["id"].is_null() {
        shown["id"] = element.name.clone().into();
    }
    shown["source"] = source(element).into();
    shown
}
