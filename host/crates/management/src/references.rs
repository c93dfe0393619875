//! Elements that name others, which cannot be deleted meanwhile.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    change::ConfigState,
    kind::{REFERENCES, word},
    refusal::{Result, conflict},
};
use airlock_core::door::roles_of_view;
use airlock_store::entries::EntryKind;

impl ConfigState {
    /// Returns the texts by which others name the element that a text names: its name and its identifier.
    /// The text alone if there is none.
    pub(crate) fn synonyms(&self, kind: EntryKind, text: &str) -> BTreeSet<String> {
        let element = self.named(kind, text);
        let id = element.and_then(|element| element.value.as_ref()?["id"].as_str());
        let name = element.map_or(text, |element| &element.name);
        id.into_iter().chain([name]).map(str::to_owned).collect()
    }

    /// Fails if another element needs the one with this kind and name.
    pub(crate) fn check_unused(&self, kind: EntryKind, name: &str) -> Result<()> {
        let names = self.synonyms(kind, name);
        for reference in REFERENCES.iter().filter(|reference| reference.to == kind) {
            let mut holders = self.elements(reference.from);
            let holder = holders.find(|holder| {
                let value = holder.value.as_ref().map(|value| &value[reference.member]);
                value.is_some_and(|value| has_one_of(value, &names))
            });
            if let Some(holder) = holder {
                return Err(conflict(format!(
                    "{} {:?} names it in `{}`; change that first",
                    word(reference.from),
                    holder.name,
                    reference.member
                )));
            }
        }
        let views = self.merged.config.oauth.iter().flat_map(|oauth| &oauth.views);
        let mut roles = views.flat_map(|view| roles_of_view(&view.view));
        if kind == EntryKind::Role && roles.any(|role| role == name) {
            return Err(conflict(
                "`mcp_server.oauth.views` gives it to senders of access tokens; remove it there first",
            ));
        }
        Ok(())
    }
}

impl ConfigState {
    /// Returns a place that has the name of a virtual key, although no key may have it any more; `None` for a
    /// new name. Who makes a key with such a name gets what the place gives to the name.
    pub(crate) fn place_of_key_name(&self, name: &str) -> Option<&'static str> {
        if self.in_file(EntryKind::VirtualKey, name).is_some() {
            return Some("the configuration file");
        }
        for kind in [EntryKind::VirtualKey, EntryKind::KeyValue] {
            if self.entry(kind, name).is_some() || self.check_readable(kind, name).is_err() {
                return Some("the store");
            }
        }
        let config = &self.merged.config;
        let mut rules = config.server.mcp.approval_rules.iter();
        if rules.any(|rule| rule.virtual_key.as_deref() == Some(name)) {
            return Some("`mcp_server.approval_rules`");
        }
        if config.oauth.iter().flat_map(|oauth| &oauth.views).any(|rule| rule.view == name) {
            return Some("`mcp_server.oauth.views`");
        }
        let names = BTreeSet::from([name.to_owned()]);
        let clients = self.elements(EntryKind::Client);
        let mut holders = clients.chain(self.elements(EntryKind::VirtualMcp));
        let is_named = holders.any(|holder| {
            let value = holder.value.as_ref().map(|value| &value["virtual_keys"]);
            value.is_some_and(|value| has_one_of(value, &names))
        });
        is_named.then_some("`virtual_keys` of a client or a virtual MCP")
    }
}

/// Returns whether a text, or an element of a list of texts, is one of these.
fn has_one_of(value: &Value, names: &BTreeSet<String>) -> bool {
    match value {
        Value::String(text) => names.contains(text),
        Value::Array(elements) => elements.iter().any(|element| has_one_of(element, names)),
        _ => false,
    }
}
