//! The kinds of entries: the part of the file that each belongs to, and the type of its document.

use airlock_store::entries::EntryKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::layout::Layout;
use crate::resolve;
use airlock_config_file::{
    error::Problem,
    file::{self, File},
    json,
    key_path::{KeyPath, segments},
    read,
    refused::NamedPart,
};

/// Key of the switch of all tools.
pub(super) const SWITCH: &str = "mcp.disabled";
/// Keys of the values of the file that entries of the kind [`EntryKind::Setting`] may have. A running gateway
/// takes each, and none opens a tool to a caller. The range of a value does not depend on other keys, so a value
/// that was checked when it was set does not make another content of the file invalid.
pub const SETTINGS: [&str; 10] = [
    SWITCH,
    "mcp.tool_manager_config.agent_timeout",
    "mcp.tool_manager_config.code_mode_binding_level",
    "mcp.tool_manager_config.code_mode_timeout",
    "mcp.tool_manager_config.disable_auto_tool_inject",
    "mcp.tool_manager_config.max_agent_depth",
    "mcp.tool_manager_config.max_nested_calls",
    "mcp.tool_manager_config.max_parallel_tool_calls",
    "mcp.tool_manager_config.max_tool_calls_per_answer",
    "mcp.tool_manager_config.tool_execution_timeout",
];

/// Returns the part of the file whose elements have a kind; `None` for a kind that has no elements.
pub(super) fn part(kind: EntryKind) -> Option<NamedPart> {
    match kind {
        EntryKind::Client => Some(NamedPart::Clients),
        EntryKind::VirtualKey => Some(NamedPart::VirtualKeys),
        EntryKind::Team => Some(NamedPart::Teams),
        EntryKind::Customer => Some(NamedPart::Customers),
        EntryKind::Role => Some(NamedPart::Roles),
        EntryKind::Environment => Some(NamedPart::Environments),
        EntryKind::VirtualMcp => Some(NamedPart::VirtualMcps),
        EntryKind::ModelConfig => Some(NamedPart::ModelConfigs),
        EntryKind::PricingOverride => Some(NamedPart::PricingOverrides),
        EntryKind::Setting | EntryKind::KeyValue => None,
    }
}

/// Returns the kinds that have elements, with their parts.
pub(super) fn parts() -> impl Iterator<Item = (EntryKind, NamedPart)> {
    EntryKind::ALL.into_iter().filter_map(|kind| Some((kind, part(kind)?)))
}

/// Replaces the elements of the file of one kind by those of the layout.
pub(super) fn place(layout: &Layout<'_>, file: &mut File) {
    let File { mcp, governance, .. } = file;
    match layout.kind {
        EntryKind::Client => place_elements(layout, &mut mcp.client_configs),
        EntryKind::VirtualKey => place_elements(layout, &mut governance.virtual_keys),
        EntryKind::Team => place_elements(layout, &mut governance.teams),
        EntryKind::Customer => place_elements(layout, &mut governance.customers),
        EntryKind::Role => place_elements(layout, &mut governance.roles),
        EntryKind::Environment => place_elements(layout, &mut governance.environments),
        EntryKind::VirtualMcp => place_elements(layout, &mut mcp.virtual_mcps),
        EntryKind::ModelConfig => place_elements(layout, &mut governance.model_configs),
        EntryKind::PricingOverride => place_elements(layout, &mut governance.pricing_overrides),
        EntryKind::Setting | EntryKind::KeyValue => {}
    }
}

fn place_elements<T: DeserializeOwned>(layout: &Layout<'_>, elements: &mut Vec<T>) {
    layout.retain(elements);
    // Each was read before without a problem.
    let added = layout.added.iter().filter_map(|(_, document)| read::read_entry(document).ok());
    elements.extend(added);
}

/// Checks a value of the file that an entry may have. Fails for another key, and for a value that the file
/// could not have there.
pub fn check_setting(key: &str, value: &Value) -> Result<(), Vec<Problem>> {
    if !SETTINGS.contains(&key) {
        let message = format!("expected one of the keys {}", SETTINGS.join(", "));
        return Err(vec![Problem { key: KeyPath::default(), message }]);
    }
    let path = KeyPath::parse(key);
    if value.is_null() {
        // In a file, it counts as absent.
        return Err(vec![Problem {
            key: path,
            message: "expected a value, found null".to_owned(),
        }]);
    }
    let mut file = Value::Null;
    json::set(&mut file, segments(&path), value.clone());
    read::read_entry::<File>(&file).map(drop)
}

/// Checks that a document is one of its kind and name.
pub(super) fn check(kind: EntryKind, name: &str, document: &Value) -> Result<(), Vec<Problem>> {
    match kind {
        EntryKind::Client => read::read_entry::<file::Client>(document).map(drop)?,
        EntryKind::VirtualKey => read::read_entry::<file::VirtualKey>(document).map(drop)?,
        EntryKind::Team => read::read_entry::<file::Team>(document).map(drop)?,
        EntryKind::Customer => read::read_entry::<file::Customer>(document).map(drop)?,
        EntryKind::Role => read::read_entry::<file::Role>(document).map(drop)?,
        EntryKind::Environment => read::read_entry::<file::Environment>(document).map(drop)?,
        EntryKind::VirtualMcp => read::read_entry::<file::VirtualMcp>(document).map(drop)?,
        EntryKind::ModelConfig => read::read_entry::<file::ModelConfig>(document).map(drop)?,
        EntryKind::PricingOverride => {
            read::read_entry::<file::PricingOverride>(document).map(drop)?;
        }
        EntryKind::KeyValue => {
            let value = read::read_entry::<file::KeyValue>(document)?;
            return resolve::check_key_value(&value);
        }
        EntryKind::Setting => return check_setting(name, document),
    }
    let member = part(kind).map_or("name", NamedPart::name_member);
    if document[member] != *name {
        let message = format!("must be {name:?}, the name of the entry");
        return Err(vec![Problem { key: KeyPath::default().member(member), message }]);
    }
    Ok(())
}
