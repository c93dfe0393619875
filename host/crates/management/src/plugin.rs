//! Plugins: elements of `mcp.client_configs` whose components operators upload into the store.
//!
//! ```text
//! upload ─ inspected: compiled, nothing granted ─ stored ─ element with `offered`: no tools
//!                                                              │  accept, with the digest that was shown
//!                                                          element with `accepted`: every gateway loads it
//! ```
//!
//! The upload of another version leaves the accepted one in place until the other one is accepted. What an
//! operator consents to is decided by the rules of `airlock plugin accept`.

mod decision;
mod document;
mod inspected;
mod inspection;

use std::{collections::BTreeSet, sync::Arc};

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

pub(crate) use self::inspected::Inspections;
use self::{
    decision::{ComponentDecision, EarlierComponent},
    document::summary,
    inspected::{Inspected, Purpose},
};
use crate::{
    body,
    change::{ChangeContent, ConfigState, RequestedChange, components_full},
    client::{CONNECTING, known, plan_update},
    gateway::{Apply, NotApplied},
    page::ListQuery,
    refusal::{Result, conflict, invalid, not_found, refusal},
    service::Service,
};
use airlock_config::StoredComponents;
use airlock_core::{operator::Operator, tool::ClientName};
use airlock_operator_api::ManagementRefusal;
use airlock_plugin::Consent;
use airlock_store::{
    components::{ComponentDigest, ComponentPut},
    entries::EntryKind,
};
use airlock_strings::{cut, visible_line};

/// Members of `wasm_config` that requests set.
const MEMBERS: [&str; 5] = ["config", "descriptions", "grants", "limits", "profile"];
/// Longest list of reasons in a refusal, in bytes: a component has parts in it, and a person reads it.
const MAX_REASON_BYTES: usize = 4_000;

/// Acceptance of a component that was shown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Acceptance {
    digest: String,
    /// Granted requests that may be wider than those of the accepted component.
    #[serde(default)]
    regrant: BTreeSet<String>,
    /// True if the component may be another plugin than the accepted one, or than one before whose entries
    /// it would have.
    #[serde(default)]
    change_id: bool,
}

impl Service {
    /// Lists the plugins of the file and of the store.
    pub(crate) async fn list_plugins(&self, query: &str) -> Result<Value> {
        let page = ListQuery::parse(query, &[])?;
        let gateway = self.gateway.clone();
        let listing = self.shown(move |state| {
            let plugins = state.elements(EntryKind::Client).filter(|element| {
                element.value.as_ref().is_some_and(is_plugin) && page.matches(&element.name)
            });
            let plugins = plugins.map(|element| summary(element, gateway.as_deref()));
            page.document("plugins", plugins.collect())
        });
        listing.await
    }

    /// Shows a plugin: its components, what they request and what is granted.
    pub(crate) async fn show_plugin(&self, name: &str) -> Result<Value> {
        self.plugin_document(name, Purpose::Show).await
    }

    /// Stores an uploaded component, and offers it for acceptance. Nothing is granted.
    pub(crate) async fn install_plugin(
        &self,
        actor: &Operator,
        query: &str,
        component: Option<Vec<u8>>,
    ) -> Result<Value> {
        let chosen = chosen_name(query)?;
        let component = component.filter(|component| !component.is_empty());
        let component: Arc<[u8]> = component.ok_or_else(no_component)?.into();
        let inspected = self.inspect_uploaded(component.clone()).await?;
        let digest = inspected.digest;
        let name = match chosen {
            Some(name) => name,
            None => own_name(&inspected)?,
        };
        plan_install(&self.state().await?, &name, digest)?;
        match self.database().await?.put_component(component).await? {
            ComponentPut::Done => {}
            ComponentPut::Full => return Err(components_full()),
        }
        self.change(actor, |state| plan_install(state, &name, digest)).await?;
        self.plugin_document(name.as_str(), Purpose::Change).await
    }

    /// Accepts the offered component that the operator has seen, with the members of `wasm_config` that the
    /// request has, and waits until it is loaded. One that is not loaded is not accepted.
    pub(crate) async fn accept_plugin(
        &self,
        actor: &Operator,
        name: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let mut members = body::members(body)?;
        let own = ["digest", "regrant", "change_id"];
        let own = own.into_iter().filter_map(|name| members.remove_entry(name));
        let acceptance: Acceptance = body::read(Some(Value::Object(own.collect())))?;
        let gateway = self.running()?;
        // The state has all entries, and is not kept while a component is inspected or loaded.
        let (name, element) = {
            let state = self.state().await?;
            let (name, element) = plugin(&state, name)?;
            (name, element.clone())
        };
        let digest = offered(&element, &acceptance)?;
        let accepted = StoredComponents::read(&element).and_then(|stored| stored.accepted);
        let mut wanted = element.clone();
        set_members(&mut wanted, members)?;
        StoredComponents { accepted: Some(digest), offered: None }.write(&mut wanted);
        let component = self.inspect_stored(digest, Purpose::Change).await?;
        let inspected = self.inspect_accepted(accepted).await?;
        let decision = {
            let state = self.state().await?;
            check_same(&state, &name, &element)?;
            let metadata = inspected.as_ref().map(|inspected| &inspected.metadata);
            let earlier = EarlierComponent::new(accepted.is_some(), metadata);
            self.decide(&state, &name, &wanted, &component.metadata, earlier).await?
        };
        check_consent(&decision, acceptance)?;
        let changing = self.change(actor, |state| {
            check_same(state, &name, &element)?;
            let name = name.clone();
            let content = ChangeContent::Element(wanted.clone());
            Ok(RequestedChange { action: "plugin.accept", kind: EntryKind::Client, name, content })
        });
        let id = changing.await?;
        if wanted["disabled"] != true
            && let Err(reason) = loaded(gateway, &name, digest).await
        {
            return Err(self.not_loaded(actor, id, &reason).await);
        }
        self.plugin_document(&name, Purpose::Change).await
    }

    /// Reverts an acceptance whose component was not loaded. Returns the refusal of it.
    async fn not_loaded(
        &self,
        actor: &Operator,
        id: i64,
        reason: &NotApplied,
    ) -> ManagementRefusal {
        let code = "plugin_not_loaded";
        match self.revert(actor, id).await {
            Ok(_) => unusable(code, "it is not accepted, because it was not loaded", reason),
            Err(refused) => {
                let reason = format!("{reason}; and it is not reverted: {}", refused.message);
                unusable(code, "it stays accepted and was not loaded", &NotApplied(reason))
            }
        }
    }

    /// Changes the members of a plugin that the request has: those of `wasm_config`, and those of clients.
    /// Returns the plugin without its components, which would have to be inspected.
    pub(crate) async fn update_plugin(
        &self,
        actor: &Operator,
        name: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let sent = body::members(body)?;
        if sent.contains_key("wasm_config") {
            let members = MEMBERS.join("`, `");
            return Err(invalid(format!(
                "send the members of `wasm_config` themselves: `{members}`"
            )));
        }
        let changing = self.change(actor, |state| {
            let (name, element) = plugin(state, name)?;
            let mut others = sent.clone();
            let of_config = MEMBERS.iter().filter_map(|member| others.remove_entry(*member));
            let of_config: Map<_, _> = of_config.collect();
            if !of_config.is_empty() {
                let mut wanted = element.clone();
                set_members(&mut wanted, of_config)?;
                others.insert("wasm_config".to_owned(), wanted["wasm_config"].take());
            }
            let wanted = plan_update(state, actor, &name, &others)?;
            Ok(RequestedChange { action: "plugin.update", ..wanted })
        });
        changing.await?;
        let state = self.state().await?;
        let (name, _) = plugin(&state, name)?;
        Ok(self.plugin_summary(&state, &name))
    }

    /// Removes a plugin, also one of the configuration file.
    pub(crate) async fn remove_plugin(&self, actor: &Operator, name: &str) -> Result<Value> {
        let removing = self.change(actor, |state| {
            let found = plugin(state, name).map(|(name, _)| name);
            let name = state.name_to_remove(actor, EntryKind::Client, name, found)?;
            let action = "plugin.remove";
            Ok(RequestedChange {
                action,
                kind: EntryKind::Client,
                name,
                content: ChangeContent::Absent,
            })
        });
        let change = removing.await?;
        Ok(json!({"status": "success", "message": "plugin removed", "change": change}))
    }
}

/// Waits until a plugin runs a component. Fails with the reason if it does not.
async fn loaded(
    gateway: &dyn Apply,
    name: &str,
    digest: ComponentDigest,
) -> Result<(), NotApplied> {
    gateway.connected(name, CONNECTING).await?;
    let state = gateway.plugin(name);
    // A gateway that could not take the change has the component that was accepted before.
    if state.as_ref().and_then(|state| state.digest.as_ref()) == Some(&digest.to_string()) {
        return Ok(());
    }
    let reason = state.and_then(|state| state.reason).unwrap_or_else(|| {
        "the gateway has not loaded this component; its log has the reason".to_owned()
    });
    Err(NotApplied(reason))
}

/// Fails if a plugin is not the one that was read before.
fn check_same(state: &ConfigState, name: &str, before: &Value) -> Result<()> {
    let (name, now) = plugin(state, name)?;
    if now == before { Ok(()) } else { Err(changed_meanwhile(&name)) }
}

fn changed_meanwhile(name: &str) -> ManagementRefusal {
    conflict(format!("the plugin {name:?} was changed meanwhile; show it again"))
}

/// Returns the refusal of a component, with a reason that may quote it.
fn unusable(code: &'static str, what: &str, NotApplied(reason): &NotApplied) -> ManagementRefusal {
    let message = cut(visible_line(&format!("{what}: {reason}")), MAX_REASON_BYTES);
    refusal(StatusCode::UNPROCESSABLE_ENTITY, code, message)
}

fn no_component() -> ManagementRefusal {
    invalid("the body must be a component, with the header `Content-Type: application/wasm`")
}

/// Returns the name that a query chooses.
fn chosen_name(query: &str) -> Result<Option<ClientName>> {
    let mut chosen = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "name" {
            return Err(invalid("the only valid parameter is `name`"));
        }
        let parsed = ClientName::parse(&value);
        chosen =
            Some(parsed.map_err(|problem| invalid(format!("the parameter `name`: {problem}")))?);
    }
    Ok(chosen)
}

/// Returns the name that a component gets unless the operator chooses one: its id, with `_` in place of
/// `-` and `.`.
fn own_name(inspected: &Inspected) -> Result<ClientName> {
    let id = inspected.metadata.id().unwrap_or_default().replace(['-', '.'], "_");
    ClientName::parse(&id).map_err(|_| {
        invalid(
            "the component has no name that could be that of a plugin: choose one with `?name=`",
        )
    })
}

/// Returns the name and the element of a plugin.
fn plugin<'s>(state: &'s ConfigState, name: &str) -> Result<(String, &'s Value)> {
    let found = known(state, name).ok().filter(|(_, element)| is_plugin(element));
    if found.is_none() {
        state.check_readable(EntryKind::Client, name)?;
    }
    found.ok_or_else(|| not_found("no plugin has this name"))
}

fn is_plugin(element: &Value) -> bool {
    matches!(element["connection_type"].as_str(), Some("wasm" | "inprocess"))
}

/// Plans that a component is offered under a name.
fn plan_install(
    state: &ConfigState,
    name: &ClientName,
    digest: ComponentDigest,
) -> Result<RequestedChange> {
    let kind = EntryKind::Client;
    state.check_readable(kind, name.as_str())?;
    let existing = state.element(kind, name.as_str()).and_then(|element| element.value.as_ref());
    let mut stored = match existing.map(StoredComponents::read) {
        None => StoredComponents::default(),
        Some(Some(stored)) => stored,
        Some(None) => {
            return Err(conflict(format!(
                "another client is named \"{name}\", which was not uploaded here: choose another name with `?name=`"
            )));
        }
    };
    let mut element = existing.cloned().unwrap_or_else(|| {
        json!({
            "name": name.as_str(),
            "connection_type": "wasm",
            "wasm_config": {},
            "tools_to_execute": ["*"],
        })
    });
    stored.offered = (stored.accepted != Some(digest)).then_some(digest);
    stored.write(&mut element);
    let content = ChangeContent::Element(element);
    Ok(RequestedChange { action: "plugin.install", kind, name: name.to_string(), content })
}

/// Returns the digest of the offered component. Fails if it is not the one that the operator has seen.
fn offered(element: &Value, acceptance: &Acceptance) -> Result<ComponentDigest> {
    let seen: ComponentDigest =
        acceptance.digest.parse().map_err(|problem| invalid(format!("`digest`: {problem}")))?;
    match StoredComponents::read(element).and_then(|stored| stored.offered) {
        Some(offered) if offered == seen => Ok(seen),
        Some(offered) => {
            let message =
                format!("the offered component is {offered} and not {seen}; show it again");
            Err(refusal(StatusCode::CONFLICT, "digest_differs", message))
        }
        None => Err(conflict("no component waits to be accepted: upload one")),
    }
}

/// Sets members of `wasm_config`; `null` removes one.
fn set_members(element: &mut Value, members: Map<String, Value>) -> Result<()> {
    let Some(config) = element["wasm_config"].as_object_mut() else {
        return Err(conflict("the plugin has no `wasm_config`"));
    };
    for (member, value) in members {
        if !MEMBERS.contains(&member.as_str()) {
            let valid = MEMBERS.join("`, `");
            let member = visible_line(&cut(member, 64));
            return Err(invalid(format!("unknown member {member:?}; valid are `{valid}`")));
        }
        match value {
            Value::Null => drop(config.remove(&member)),
            value => drop(config.insert(member, value)),
        }
    }
    Ok(())
}

/// Fails if a component would not be loaded, or if the operator does not consent to all that it would be
/// granted without another word.
fn check_consent(decision: &ComponentDecision, acceptance: Acceptance) -> Result<()> {
    if !decision.obstacles.is_empty() {
        let reasons = cut(decision.obstacles.join("; "), MAX_REASON_BYTES);
        return Err(refusal(StatusCode::CONFLICT, "plugin_not_permitted", reasons));
    }
    if let Some(entries) = decision.entries.first().filter(|_| !acceptance.change_id) {
        let message =
            format!("{entries}; if it may read and change them, add {{\"change_id\": true}}");
        return Err(refusal(StatusCode::CONFLICT, "consent_required", message));
    }
    let consent = Consent { regrant: acceptance.regrant, change_id: acceptance.change_id };
    let changes = decision.drift.iter().flat_map(|drift| &drift.changes);
    let lacking: Vec<_> = changes
        .filter(|change| consent.lacks(change))
        .map(|change| visible_line(&change.to_string()))
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let needed = decision.drift.as_ref().map(Consent::for_all_of).unwrap_or_default();
    let message = format!(
        "the component differs from the accepted one: {}; if you agree, add {}",
        lacking.join("; "),
        json!({"regrant": needed.regrant, "change_id": needed.change_id}),
    );
    Err(refusal(StatusCode::CONFLICT, "consent_required", cut(message, MAX_REASON_BYTES)))
}

#[cfg(test)]
mod tests;
