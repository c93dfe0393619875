//! Differences between the tools of two builds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

use super::{Change, line_diff::line_diff};
use crate::{Metadata, metadata::canonical_tool};
use airlock_lock::{Pin, diff_deadline};
use airlock_strings::{visible, visible_line};

/// Returns the tools that were added, removed and changed.
pub(super) fn changes(pin: &Pin, metadata: &Metadata) -> Vec<Change> {
    let mut changes = Vec::new();
    // A component without embedded descriptors was not run to list its tools. Its tools are defined
    // by its code, which is compared by digest.
    if metadata.tools.is_empty() {
        return changes;
    }
    // Of a name that is there twice, the first one counts.
    let pinned: BTreeMap<_, _> =
        pin.tools.iter().rev().map(|pinned| (pinned.name.as_str(), pinned)).collect();
    let deadline = diff_deadline();
    for tool in &metadata.tools {
        match pinned.get(tool.name.as_str()) {
            None => changes.push(Change::ToolAdded {
                tool: visible_line(&tool.name),
                description: visible(&tool.description),
            }),
            Some(pinned) => {
                let was = pinned.value();
                changes.extend(tool_changes(&tool.name, &was, &canonical_tool(tool), deadline));
            }
        }
    }
    let found: BTreeSet<_> = metadata.tools.iter().map(|tool| tool.name.as_str()).collect();
    let gone = pin.tools.iter().filter(|pinned| !found.contains(pinned.name.as_str()));
    changes.extend(gone.map(|pinned| Change::ToolRemoved { tool: visible_line(&pinned.name) }));
    changes
}

fn tool_changes(tool: &str, was: &Value, is: &Value, deadline: Instant) -> Vec<Change> {
    let fields: BTreeSet<&String> = [was, is]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|members| members.keys())
        .collect();
    fields
        .into_iter()
        .filter(|field| was.get(*field) != is.get(*field))
        .map(|field| Change::ToolChanged {
            tool: visible_line(tool),
            field: visible_line(field),
            diff: line_diff(&text(was.get(field)), &text(is.get(field)), deadline),
        })
        .collect()
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => visible(text),
        Some(value) => visible(&serde_json::to_string_pretty(value).unwrap_or_default()),
    }
}
