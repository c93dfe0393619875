//! Budgets and rate limits of Bifrost that stand apart from their owners: they are moved to these. An owner
//! names its limits, or they name it.

use serde_json::{Map, Value};

use super::{draft::Draft, report::SettingOutcome};
use airlock_config_file::key_path::KeyPath;

/// Parts of `governance` whose elements have limits, and the member of a limit that names its owner there.
const OWNERS: [(&str, &str); 3] =
    [("virtual_keys", "virtual_key_id"), ("teams", "team_id"), ("customers", "customer_id")];

/// A list of limits.
struct LimitList {
    /// Its name in `governance`.
    name: &'static str,
    /// Members of a limit that have a meaning here. The others are what it counts, and its owner.
    kept: &'static [&'static str],
    /// Member of an owner that names a limit.
    named_by: &'static str,
    /// Member of an owner that has the limit itself.
    becomes: &'static str,
}

const LISTS: [LimitList; 2] = [
    LimitList {
        name: "budgets",
        kept: &["max_limit", "reset_duration", "reset_config"],
        named_by: "budget_id",
        becomes: "budgets",
    },
    LimitList {
        name: "rate_limits",
        kept: &[
            "token_max_limit",
            "token_reset_duration",
            "request_max_limit",
            "request_reset_duration",
        ],
        named_by: "rate_limit_id",
        becomes: "rate_limit",
    },
];

/// Moves the limits to their owners. One without an owner is reported, because it may be meant for something.
pub(super) fn translate(draft: &mut Draft) {
    let governance = KeyPath::default().member("governance");
    for list in &LISTS {
        let is_list = draft.object(&governance).and_then(|parts| parts.get(list.name));
        if !is_list.is_some_and(Value::is_array) {
            continue;
        }
        let limits = draft.take(&governance, list.name).unwrap_or_default();
        for (index, limit) in limits.as_array().into_iter().flatten().enumerate() {
            let key = governance.member(list.name).element(index);
            if move_one(draft, &governance, list, limit) {
                let message = format!("is `{}` of its owner", list.becomes);
                draft.note(key, SettingOutcome::Changed, message);
            } else {
                let message = "belongs to no virtual key, team or customer of the file";
                draft.note(key, SettingOutcome::Refused, message);
            }
        }
    }
}

/// Writes a limit into its owners. Returns whether it has any.
fn move_one(draft: &mut Draft, governance: &KeyPath, list: &LimitList, limit: &Value) -> bool {
    let mut is_moved = false;
    for (part, owner_member) in OWNERS {
        for key in draft.elements(&governance.member(part)) {
            let Some(owner) = draft.object(&key) else { continue };
            let is_named = is_same(owner.get(list.named_by), &limit["id"]);
            if is_named || is_same(owner.get("id"), &limit[owner_member]) {
                is_moved = true;
                write(owner, list, limit);
            }
            if is_named {
                owner.shift_remove(list.named_by);
            }
        }
    }
    is_moved
}

/// Returns whether an identifier is there and the same as another one.
fn is_same(id: Option<&Value>, other: &Value) -> bool {
    id.and_then(Value::as_str).is_some_and(|id| Some(id) == other.as_str())
}

/// Adds a limit to its owner.
fn write(owner: &mut Map<String, Value>, list: &LimitList, limit: &Value) {
    let members = list.kept.iter().filter_map(|member| {
        let value = limit.get(*member).filter(|value| !value.is_null())?;
        Some(((*member).to_owned(), value.clone()))
    });
    let limit = Value::Object(members.collect());
    let present = owner.entry(list.becomes).or_insert(Value::Null);
    match present {
        Value::Array(limits) => limits.push(limit),
        present if list.becomes == "budgets" => *present = Value::Array(vec![limit]),
        Value::Null => *present = limit,
        // It has limits of its own.
        _ => {}
    }
}
