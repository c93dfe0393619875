//! Plugins as operators see them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    MEMBERS, changed_meanwhile,
    decision::{ComponentDecision, EarlierComponent},
    inspected::{Inspected, Purpose},
    plugin,
};
use crate::{
    change::ConfigState, gateway::Apply, record::source, refusal::Result, service::Service,
};
use airlock_config::{Element, StoredComponents, redacted};
use airlock_plugin::{RequestSummary, requested_limits};
use airlock_store::{components::ComponentDigest, entries::EntryKind};
use airlock_strings::{cut, visible, visible_line};

/// Number of times that the components of a plugin are inspected because others took their places: each may take minutes.
const ATTEMPTS: usize = 4;
/// Maximum tools of a component that are shown: its author chooses how many it has.
const MAX_TOOLS: usize = 500;
/// Maximum bytes of a description that are shown: the author of the component chooses it.
const MAX_DESCRIPTION_BYTES: usize = 4 << 10;

/// Returns a plugin without its components: where it comes from, and its state on this gateway.
pub(super) fn summary(element: &Element, gateway: Option<&dyn Apply>) -> Value {
    let value = element.value.as_ref();
    let stored = value.and_then(StoredComponents::read);
    let shown = value.map(|value| redacted(EntryKind::Client, value)).unwrap_or_default();
    let state = gateway.and_then(|gateway| gateway.plugin(&element.name));
    let mut document = json!({
        "name": element.name,
        "source": source(element),
        "disabled": shown["disabled"] == true,
        "component": shown["wasm_config"]["component"],
        "accepted": stored.and_then(|stored| stored.accepted).map(|digest| digest.to_string()),
        "offered": stored.and_then(|stored| stored.offered).map(|digest| digest.to_string()),
        "state": state.map(|state| json!({
            "phase": state.phase, "reason": state.reason, "digest": state.digest,
        })),
        "tools_to_execute": shown["tools_to_execute"],
        "tools_to_auto_execute": shown["tools_to_auto_execute"],
    });
    let members = MEMBERS.iter().map(|member| {
        ((*member).to_owned(), shown["wasm_config"].get(*member).cloned().unwrap_or_default())
    });
    if let Value::Object(document) = &mut document {
        document.extend(members);
    }
    document
}

/// Components that were inspected, or the reasons that they cannot be.
type InspectedComponents = BTreeMap<ComponentDigest, Result<Arc<Inspected>>>;

impl Service {
    /// Returns a plugin without its components.
    pub(super) fn plugin_summary(&self, state: &ConfigState, name: &str) -> Value {
        let element = state.element(EntryKind::Client, name);
        element.map(|element| summary(element, self.gateway.as_deref())).unwrap_or_default()
    }

    /// Returns a plugin with its components, and the decision about each. One that cannot be read or used
    /// any more has the reason instead.
    pub(super) async fn plugin_document(&self, name: &str, purpose: Purpose) -> Result<Value> {
        let mut found = InspectedComponents::new();
        for _ in 0..ATTEMPTS {
            let state = self.state().await?;
            let (name, value) = plugin(&state, name)?;
            let Some(stored) = StoredComponents::read(value) else {
                return Ok(self.plugin_summary(&state, &name));
            };
            let digests = stored.digests();
            for digest in &digests {
                let known = self.inspections.find(*digest);
                found.extend(known.map(|inspected| (*digest, Ok(inspected))));
            }
            if digests.iter().all(|digest| found.contains_key(digest)) {
                return self.described(&state, &name, value, &found).await;
            }
            // The state has all entries, and an inspection may take minutes.
            drop(state);
            for digest in digests {
                if found.contains_key(&digest) {
                    continue;
                }
                match self.inspect_stored(digest, purpose).await {
                    Err(refused) if refused.status.is_server_error() => return Err(refused),
                    inspected => drop(found.insert(digest, inspected)),
                }
            }
        }
        Err(changed_meanwhile(name))
    }

    /// Returns a plugin with its components, which were `found`.
    async fn described(
        &self,
        state: &ConfigState,
        name: &str,
        value: &Value,
        found: &InspectedComponents,
    ) -> Result<Value> {
        let mut document = self.plugin_summary(state, name);
        let StoredComponents { accepted, offered } =
            StoredComponents::read(value).unwrap_or_default();
        let accepted = accepted.and_then(|digest| found.get_key_value(&digest));
        let before = accepted.and_then(|(_, inspected)| inspected.as_ref().ok());
        let before = before.map(|inspected| &inspected.metadata);
        let earlier = EarlierComponent::new(accepted.is_some(), before);
        let offered = offered.and_then(|digest| found.get_key_value(&digest));
        for (member, component) in [("accepted", accepted), ("offered", offered)] {
            document[member] = match component {
                None => Value::Null,
                Some((digest, Err(refused))) => {
                    json!({"digest": digest.to_string(), "problem": refused.message})
                }
                Some((_, Ok(inspected))) => {
                    let metadata = &inspected.metadata;
                    let decision = self.decide(state, name, value, metadata, earlier).await?;
                    described_component(inspected, &decision)
                }
            };
        }
        Ok(document)
    }
}

/// Returns a component and the decision about it.
fn described_component(inspected: &Inspected, decision: &ComponentDecision) -> Value {
    let Inspected { bytes, metadata, .. } = inspected;
    let manifest = metadata.manifest.as_ref();
    let tools: Vec<_> = metadata
        .tools
        .iter()
        .take(MAX_TOOLS)
        .map(|tool| {
            let effects = manifest.map(|manifest| {
                let declared = manifest.tools.iter().filter(|listed| listed.name == tool.name);
                declared
                    .flat_map(|listed| &listed.effects)
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            });
            json!({
                "name": visible_line(&tool.name),
                "description": cut(visible(&tool.description), MAX_DESCRIPTION_BYTES),
                "effects": effects,
            })
        })
        .collect();
    let members = [
        ("digest", json!(metadata.digest)),
        ("bytes", json!(bytes)),
        ("id", json!(metadata.id())),
        ("version", json!(manifest.map(|manifest| manifest.version.to_string()))),
        ("description", json!(manifest.map(|manifest| visible_line(&manifest.description)))),
        ("tools", json!(tools)),
        ("tool_count", json!(metadata.tools.len())),
        ("requests", json!(RequestSummary::all(metadata))),
        ("limits", json!(requested_limits(metadata))),
        ("imports", json!(metadata.imports)),
        ("obstacles", json!(decision.obstacles)),
        ("notes", json!(decision.notes)),
        ("changes", json!(decision.drift.as_ref().map(|drift| &drift.changes))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}
