//! Virtual keys, as elements of `governance.virtual_keys`. The value of a key is shown when it is made,
//! and kept as its digest.

mod bodies;
mod rotation;

use std::{collections::BTreeMap, time::SystemTime};

use http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use self::{
    bodies::{KeyMembers, ManyRotations, Rotation},
    rotation::{rotated, valid_until},
};
use crate::{
    body,
    change::{ChangeContent, ConfigState, RequestedChange},
    key_value::{self, has_no_value, value_to_remove},
    limit_members::{self, BUDGET, BUDGETS, CALENDAR_ALIGNED, RATE_LIMIT},
    operators::no_randomness,
    page::ListQuery,
    record::source,
    refusal::{Result, conflict, forbidden, invalid},
    route::LimitOwner,
    service::Service,
    timestamp::future,
    token,
};
use airlock_config::{Element, is_vault_reference};
use airlock_core::{
    operator::{Operator, Right},
    secret::Secret,
    tool::Allowlist,
};
use airlock_store::entries::EntryKind;
use airlock_strings::hex;

/// Prefix of the values of keys.
const PREFIX: &str = "sk-bf-";
/// A value in a response that is not shown.
const HIDDEN: &str = "sk-bf-************************";
/// Maximum keys that one request rotates: each is a change that resolves the whole configuration.
const MAX_ROTATED: usize = 100;
/// Members of a key that requests set and responses show as they are in the element.
const SHOWN: [&str; 14] = [
    "description",
    "is_active",
    "approval",
    "expires_at",
    "previous_valid_until",
    CERTIFICATES,
    "mcp_configs",
    "roles",
    "environment",
    "team_id",
    "customer_id",
    BUDGETS,
    RATE_LIMIT,
    CALENDAR_ALIGNED,
];
/// Members of a key that a query selects keys by.
const FILTERS: [&str; 2] = ["team_id", "customer_id"];
/// Member with the certificates that a key is bound to.
const CERTIFICATES: &str = "client_certificate_sha256";

impl Service {
    /// Makes a key. The response has its value, which is never shown again.
    pub(crate) async fn create_key(&self, actor: &Operator, body: Option<Value>) -> Result<Value> {
        let body = body::supported(body, "VirtualKey")?.map(limit_members::with_budgets);
        let members: KeyMembers = body::read(body)?;
        let name = members.name.clone().unwrap_or_default();
        if name.trim().is_empty() {
            return Err(invalid("Virtual key name is required"));
        }
        check_expiry(&members)?;
        let value = new_value()?;
        let element = updated(new_element(&name, &value), &members);
        let making = self.change(actor, |state| {
            if state.element(EntryKind::VirtualKey, &name).is_some() {
                return Err(conflict("A virtual key with this name already exists"));
            }
            state.check_readable(EntryKind::VirtualKey, &name)?;
            if !actor.role.has(Right::Administer)
                && let Some(place) = state.place_of_key_name(&name)
            {
                return Err(forbidden(format!(
                    "only an administrator may make a key with this name, which {place} has already"
                )));
            }
            Ok(wanted("key.create", &name, element.clone()))
        });
        making.await?;
        let mut shown = describe(&name, &element);
        shown["value"] = value.expose().into();
        let mut made = json!({"message": "Virtual key created successfully", "virtual_key": shown});
        // The key is made: without its value in the response, nobody would have it.
        let warnings = self.unknown_tools(&element).await.unwrap_or_default();
        if warnings.as_array().is_some_and(|warnings| !warnings.is_empty()) {
            made["warnings"] = warnings;
        }
        Ok(made)
    }

    /// Returns warnings of names in the rows of a key that no tool of a plugin has. They are no errors: a later version of
    /// the plugin may have such a tool, and servers list theirs while the gateway runs.
    async fn unknown_tools(&self, key: &Value) -> Result<Value> {
        let rows = key["mcp_configs"].as_array().into_iter().flatten();
        let lists: Vec<_> = rows.filter_map(named_tools).collect();
        if lists.is_empty() {
            return Ok(Value::Array(Vec::new()));
        }
        let finding = self.shown(move |state| {
            let config = &state.merged.config;
            let unknown =
                lists.iter().filter_map(|(client, tools)| config.unknown_tools(client, tools));
            unknown.collect()
        });
        finding.await
    }

    /// Lists the keys, without their values.
    pub(crate) async fn list_keys(&self, query: &str) -> Result<Value> {
        let page = ListQuery::parse(query, &FILTERS)?;
        let listing = self.shown(move |state| {
            let keys = page.select(state, EntryKind::VirtualKey).map(describe_element);
            page.document("virtual_keys", keys.collect())
        });
        listing.await
    }

    /// Shows a key, without its value.
    pub(crate) async fn show_key(&self, id: &str) -> Result<Value> {
        let state = self.state().await?;
        Ok(json!({"virtual_key": describe_element(known(&state, id)?)}))
    }

    /// Changes the members of a key that the request has.
    pub(crate) async fn update_key(
        &self,
        actor: &Operator,
        id: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let mut body = body::supported(body, "VirtualKey")?.map(limit_members::with_budgets);
        let resets = match body.as_mut().and_then(Value::as_object_mut) {
            Some(sent) => limit_members::take_reset(sent)?,
            None => false,
        };
        if resets {
            self.check_limiter()?;
        }
        let update: KeyMembers = body::read(body)?;
        check_expiry(&update)?;
        let updating = self.change(actor, |state| {
            let key = known(state, id)?;
            if update.name.as_ref().is_some_and(|name| *name != key.name) {
                return Err(invalid("`name` cannot be changed: make another key"));
            }
            let element = updated(without_value(key)?, &update);
            Ok(wanted("key.update", &key.name, element))
        });
        updating.await?;
        if resets {
            self.reset_budgets(actor, LimitOwner::VirtualKey, id).await?;
        }
        let shown = self.show_key(id).await?;
        Ok(json!({
            "message": "Virtual key updated successfully",
            "virtual_key": shown["virtual_key"],
        }))
    }

    /// Removes a key, also one of the configuration file. It is refused at once. Of a key that is not there
    /// any more, removes the credential that the gateway has made.
    pub(crate) async fn delete_key(&self, actor: &Operator, id: &str) -> Result<Value> {
        let deleting = self.change(actor, |state| {
            let name = name_to_delete(state, actor, id)?;
            let kind = EntryKind::VirtualKey;
            Ok(RequestedChange { action: "key.delete", kind, name, content: ChangeContent::Absent })
        });
        let state = self.state().await?;
        let key = name_to_delete(&state, actor, id);
        let value = value_to_remove(&state, actor, key.as_deref().unwrap_or(id));
        // It has all entries, and is not kept meanwhile.
        drop(state);
        match key {
            Ok(_) => {
                deleting.await?;
                if let Ok(name) = value {
                    self.forget_value(actor, &name).await?;
                }
            }
            Err(refused) if refused.status == StatusCode::NOT_FOUND => {
                self.forget_value(actor, &value?).await?;
            }
            Err(refused) => return Err(refused),
        }
        Ok(json!({"message": "Virtual key deleted successfully"}))
    }

    /// Gives a key a new value, which the response has.
    pub(crate) async fn rotate_key(
        &self,
        actor: &Operator,
        id: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let Rotation { cooldown } = body::read(body)?;
        let until = valid_until(cooldown.as_deref())?;
        let shown = self.rotate(actor, id, until).await?;
        Ok(json!({"message": "Virtual key rotated successfully", "virtual_key": shown}))
    }

    /// Gives many keys new values, one after the other. Fails at the first one that cannot be rotated;
    /// those before it have new values, which the response to this request does not have, so the
    /// identifiers are checked first.
    pub(crate) async fn rotate_keys(&self, actor: &Operator, body: Option<Value>) -> Result<Value> {
        let ManyRotations { ids, cooldown } = body::read(body)?;
        if ids.is_empty() || ids.len() > MAX_ROTATED {
            return Err(invalid(format!("`ids` must have 1 to {MAX_ROTATED} elements")));
        }
        let until = valid_until(cooldown.as_deref())?;
        let state = self.state().await?;
        // A key that is named twice is rotated once: its value before must not be one that nobody had.
        let named = ids.iter().map(|id| known(&state, id).map(|key| (key.name.clone(), id)));
        let named = named.collect::<Result<BTreeMap<_, _>, _>>()?;
        drop(state);
        let mut rotated = Vec::new();
        let mut failed = Vec::new();
        for id in named.into_values() {
            match self.rotate(actor, id, until).await {
                Ok(shown) => rotated.push(shown),
                Err(refused) => failed.push(json!({"id": id, "message": refused.message})),
            }
        }
        Ok(json!({
            "message": "Virtual keys rotated",
            "virtual_keys": rotated,
            "failed": failed,
        }))
    }

    async fn rotate(&self, actor: &Operator, id: &str, until: Option<SystemTime>) -> Result<Value> {
        let value = new_value()?;
        let digest = token::digest(value.expose());
        let rotating = self.change(actor, |state| {
            let key = known(state, id)?;
            if has_no_value(key) {
                return key_value::rotated(state, &key.name, digest, until);
            }
            let element = rotated(state, key, digest, until)?;
            Ok(wanted("key.rotate", &key.name, element))
        });
        rotating.await?;
        // The value is shown only now, whatever becomes of the store.
        let state = self.state().await;
        let shown = state.and_then(|state| known(&state, id).map(describe_element));
        let mut shown = shown.unwrap_or_else(|_| json!({"id": id}));
        shown["value"] = value.expose().into();
        Ok(shown)
    }
}

/// Returns the client of a row of a key, and the tools that the row names; `None` if it names none.
fn named_tools(row: &Value) -> Option<(String, Allowlist)> {
    let names: Vec<_> =
        row["tools_to_execute"].as_array()?.iter().filter_map(Value::as_str).collect();
    let tools =
        Allowlist::parse(&names).ok().filter(|tools| matches!(tools, Allowlist::Only(_)))?;
    Some((row["mcp_client_name"].as_str()?.to_owned(), tools))
}

fn wanted(action: &'static str, name: &str, element: Value) -> RequestedChange {
    let content = ChangeContent::Element(element);
    RequestedChange { action, kind: EntryKind::VirtualKey, name: name.to_owned(), content }
}

pub(crate) fn new_value() -> Result<Secret> {
    token::generate(PREFIX).map_err(|error| no_randomness(&error))
}

fn new_element(name: &str, value: &Secret) -> Value {
    json!({
        "id": Uuid::new_v4().to_string(),
        "name": name,
        "value_sha256": hex(&token::digest(value.expose())),
        "is_active": true,
        "mcp_configs": [],
    })
}

/// Fails if the key would have expired already.
fn check_expiry(members: &KeyMembers) -> Result<()> {
    let expires = members.expires_at.as_deref().filter(|text| !text.is_empty());
    expires.map_or(Ok(()), |text| future("expires_at", text).map(drop))
}

/// Sets a member of an element. An empty text removes it, and `None` leaves it.
fn set(element: &mut Value, member: &str, text: Option<String>) {
    match text {
        None => {}
        Some(text) if text.is_empty() => drop(take_member(element, member)),
        Some(text) => element[member] = text.into(),
    }
}

/// Sets a member of an element. An empty list removes it, and `None` leaves it.
fn set_list(element: &mut Value, member: &str, list: Option<&[String]>) {
    match list {
        None => {}
        Some([]) => drop(take_member(element, member)),
        Some(list) => element[member] = list.into(),
    }
}

fn take_member(element: &mut Value, member: &str) -> Option<Value> {
    element.as_object_mut()?.remove(member)
}

fn updated(mut element: Value, update: &KeyMembers) -> Value {
    set(&mut element, "description", update.description.clone());
    set(&mut element, "expires_at", update.expires_at.clone());
    set(&mut element, "approval", update.approval.clone());
    set(&mut element, "environment", update.environment.clone());
    set(&mut element, "team_id", update.team_id.clone());
    set(&mut element, "customer_id", update.customer_id.clone());
    set_list(&mut element, CERTIFICATES, update.client_certificate_sha256.as_deref());
    set_list(&mut element, "roles", update.roles.as_deref());
    limit_members::set(&mut element, BUDGETS, update.budgets.as_ref());
    limit_members::set(&mut element, RATE_LIMIT, update.rate_limit.as_ref());
    let calendar_aligned = update.calendar_aligned.map(Value::from);
    limit_members::set(&mut element, CALENDAR_ALIGNED, calendar_aligned.as_ref());
    if let Some(is_active) = update.is_active {
        element["is_active"] = is_active.into();
    }
    if let Some(rows) = &update.mcp_configs {
        element["mcp_configs"] = rows.clone().into();
    }
    element
}

/// Returns the element of a key with the digest of its value in place of a value in plain text. One of
/// the environment stays.
fn without_value(key: &Element) -> Result<Value> {
    let mut element = key.value.clone().unwrap_or_default();
    let written = element["value"].as_str();
    let written = written.filter(|text| !text.starts_with("env.") && !is_vault_reference(text));
    if let Some(text) = written {
        let digest = hex(&token::digest(text));
        take_member(&mut element, "value");
        element["value_sha256"] = digest.into();
    }
    if element["value"].is_object() && element["value"]["value"].is_string() {
        return Err(invalid(
            "the value of this key is written in the long form in the configuration file; write it as \
             a text, as \"env.NAME\" or as `value_sha256`",
        ));
    }
    if element["value"].is_null() {
        take_member(&mut element, "value");
    }
    Ok(element)
}

/// Finds a key by its identifier or its name.
fn known<'s>(state: &'s ConfigState, id: &str) -> Result<&'s Element> {
    state.known(EntryKind::VirtualKey, id, "Virtual key")
}

/// Returns the name of the key that a request deletes.
fn name_to_delete(state: &ConfigState, actor: &Operator, id: &str) -> Result<String> {
    let found = known(state, id).map(|key| key.name.clone());
    state.name_to_remove(actor, EntryKind::VirtualKey, id, found)
}

fn describe_element(key: &Element) -> Value {
    let mut shown = describe(&key.name, key.value.as_ref().unwrap_or(&Value::Null));
    shown["source"] = source(key).into();
    shown
}

/// Describes a key, with a hidden value.
fn describe(name: &str, element: &Value) -> Value {
    let mut shown = Map::new();
    let id = element["id"].as_str().unwrap_or(name);
    shown.insert("id".to_owned(), id.into());
    shown.insert("name".to_owned(), name.into());
    shown.insert("value".to_owned(), HIDDEN.into());
    for member in SHOWN {
        let value = element.get(member).cloned().unwrap_or_else(|| absent(element, member));
        shown.insert(member.to_owned(), value);
    }
    Value::Object(shown)
}

/// Returns the value of a member that an element does not have.
fn absent(element: &Value, member: &str) -> Value {
    match member {
        "is_active" => true.into(),
        CALENDAR_ALIGNED => false.into(),
        BUDGETS => element.get(BUDGET).cloned().into_iter().collect(),
        "mcp_configs" | "roles" => json!([]),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: Value) -> Element {
        let kind = EntryKind::VirtualKey;
        Element { kind, name: "ann".into(), in_file: None, in_store: true, value: Some(value) }
    }

    #[test]
    fn a_value_in_plain_text_becomes_a_digest_and_one_of_the_environment_stays() {
        let plain = without_value(&key(json!({"name": "ann", "value": "sk-bf-1"})));
        let digest = hex(&token::digest("sk-bf-1"));
        assert_eq!(plain, Ok(json!({"name": "ann", "value_sha256": digest})));
        let named = json!({"name": "ann", "value": "env.KEY"});
        assert_eq!(without_value(&key(named.clone())), Ok(named));
        let long = json!({"name": "ann", "value": {"value": "sk-bf-1"}});
        assert!(without_value(&key(long)).is_err());
    }

    #[test]
    fn a_description_has_no_value_and_no_digest() {
        let element = json!({
            "id": "7", "name": "ann", "value": "sk-bf-plain", "value_sha256": "ab", "is_active": false,
            "previous_value_sha256": "cd", "mcp_configs": [{"mcp_client_name": "a"}],
        });
        let text = describe_element(&key(element)).to_string();
        for hidden in ["plain", "ab\"", "cd\"", "value_sha256"] {
            assert!(!text.contains(hidden), "{text}");
        }
        assert!(text.contains(r#""is_active":false"#) && text.contains(r#""id":"7""#), "{text}");
    }

    #[test]
    fn an_empty_text_removes_a_member_and_an_absent_one_leaves_it() {
        let element = json!({
            "name": "ann", "description": "d", "expires_at": "x", "approval": "wait",
            "client_certificate_sha256": ["ab"],
        });
        let update: KeyMembers =
            serde_json::from_value(json!({"expires_at": "", "is_active": false})).expect("valid");
        let expected = json!({
            "name": "ann", "description": "d", "approval": "wait", "is_active": false,
            "client_certificate_sha256": ["ab"],
        });
        let element = updated(element, &update);
        assert_eq!(element, expected);
        for (sent, expected) in [(json!(["cd"]), json!(["cd"])), (json!([]), Value::Null)] {
            let update = json!({"client_certificate_sha256": sent});
            let update: KeyMembers = serde_json::from_value(update).expect("valid");
            assert_eq!(updated(element.clone(), &update)["client_certificate_sha256"], expected);
        }
    }
}
