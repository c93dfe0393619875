//! The record of changes, and where each setting comes from.

use serde_json::{Value, json};
use url::form_urlencoded;

use crate::{
    change::{ChangeContent, ConfigState, RequestedChange, changed_after, entry_content},
    page::number_from_zero,
    refusal::{Result, conflict, forbidden, invalid, not_found},
    service::Service,
    timestamp::rfc3339,
};
use airlock_config::{AbsentOwner, Element, LeftOut, LeftOutReason, redacted};
use airlock_core::{
    act::Actor,
    operator::{Operator, Right},
    tenant::Tenant,
    threads,
};
use airlock_store::{
    SealError,
    entries::{EntryKind, EntryValue, RecordedChange},
};

/// Changes of a page, unless the query says otherwise.
const DEFAULT_LIMIT: u32 = 50;
/// Maximum changes of a page, which ends before that at 8 MiB: each has two elements of up to 1 MiB.
const MAX_LIMIT: u32 = 100;
/// Members of a virtual key with its credentials.
const CREDENTIALS: [&str; 4] =
    ["value", "value_sha256", "previous_value_sha256", "previous_valid_until"];

impl Service {
    /// Lists recorded changes, the latest first, without secrets. `before` in the query is the number
    /// of a change; those before it follow.
    pub(crate) async fn list_changes(&self, query: &str) -> Result<Value> {
        let (before, limit) = page(query)?;
        let Some(database) = self.settings.database.existing().await? else {
            return Ok(json!({"changes": [], "count": 0}));
        };
        let _place = self.place().await;
        let changes = database.recorded_changes(before, limit).await?;
        let describing = threads::run(&Tenant::GATEWAY, move || {
            changes.iter().map(describe).collect::<Vec<_>>()
        });
        let changes = describing.await;
        Ok(json!({"count": changes.len(), "changes": changes}))
    }

    /// Reverts a change. Fails if the element was changed since, also if it is the same again.
    pub(crate) async fn revert(&self, actor: &Operator, id: i64) -> Result<Value> {
        let recorded = self.database().await?.recorded_change(id).await?;
        let recorded =
            recorded.ok_or_else(|| not_found(format!("no change has the number {id}")))?;
        let is_of_limit = recorded.is_of_limit();
        let RecordedChange { actor: author, action, kind, name, before, after, .. } = recorded;
        let kind = kind.ok_or_else(|| {
            conflict(if is_of_limit {
                "what a limit counts cannot be reverted: set or remove the override of the budget"
            } else {
                "a change of operators cannot be reverted: their tokens are not kept"
            })
        })?;
        let before = opened(id, before)?;
        let after = opened(id, after)?;
        let is_of_admins = matches!(kind, EntryKind::Client | EntryKind::Setting)
            || changes_credential(kind, &action, before.as_ref(), after.as_ref());
        if is_of_admins && !actor.role.has(Right::Administer) {
            return Err(forbidden(
                "only an administrator may revert a change of a client, of a setting or of the value of a virtual key",
            ));
        }
        let revives = kind == EntryKind::VirtualKey && removes(before.as_ref(), after.as_ref());
        let is_own = author == Actor::from(actor).to_string();
        if revives && !is_own && !actor.role.has(Right::Administer) {
            return Err(forbidden(
                "only an administrator may bring back a virtual key that another operator has deleted: its credential would be valid again",
            ));
        }
        let brings_back = before.as_ref().is_some_and(|before| before.document.is_some());
        if kind == EntryKind::KeyValue && brings_back {
            return Err(conflict(
                "a value that was rotated or deleted never comes back; rotate the key instead",
            ));
        }
        let reverting = self.change(actor, |state| {
            state.check_readable(kind, &name)?;
            let current = state.entry(kind, &name).map(entry_content);
            if current != after {
                return Err(changed_after(&name, id));
            }
            let content = ChangeContent::Reverted { change: id, before: before.clone() };
            Ok(RequestedChange { action: "revert", kind, name: name.clone(), content })
        });
        let made = reverting.await?;
        Ok(json!({"status": "success", "message": format!("change {id} reverted"), "change": made}))
    }

    /// Lists where each setting comes from, and the entries of the store that have no effect.
    pub(crate) async fn list_settings(&self) -> Result<Value> {
        self.shown(describe_settings).await
    }
}

fn describe_settings(state: &ConfigState) -> Value {
    let elements = state.merged.elements.iter().map(|element| {
        json!({
            "kind": element.kind.name(),
            "name": element.name,
            "source": source(element),
            "removed": element.value.is_none(),
            "value": element.value.as_ref().map(|value| redacted(element.kind, value)),
        })
    });
    let elements: Vec<_> = elements.collect();
    let left_out: Vec<_> = state.merged.left_out.iter().map(describe_left_out).collect();
    let owners = &state.merged.config.absent_owners;
    let warnings: Vec<_> = owners.iter().map(describe_owner).collect();
    json!({
        "revision": state.entries.revision,
        "elements": elements,
        "left_out": left_out,
        "warnings": warnings,
    })
}

/// Returns the entry before or after the change `id`. Fails if it cannot be opened.
fn opened(id: i64, value: Result<Option<EntryValue>, SealError>) -> Result<Option<EntryValue>> {
    value.map_err(|reason| conflict(format!("the change {id} cannot be reverted: {reason}")))
}

/// Returns whether a virtual key gets another credential when a change is reverted.
fn changes_credential(
    kind: EntryKind,
    action: &str,
    before: Option<&EntryValue>,
    after: Option<&EntryValue>,
) -> bool {
    match kind {
        EntryKind::KeyValue => true,
        EntryKind::VirtualKey => match (before, after) {
            (Some(before), Some(after)) => {
                let before = credentials(before);
                let after = credentials(after);
                before.is_some() && after.is_some() && before != after
            }
            // Without an entry, the key has the credential of the file, which an update keeps.
            (Some(entry), None) | (None, Some(entry)) => {
                let is_over_file = entry.replaces.is_some() && entry.document.is_some();
                is_over_file && action != "key.update"
            }
            (None, None) => false,
        },
        _ => false,
    }
}

/// Returns whether a change has removed an element, be it of the store or of the file.
fn removes(before: Option<&EntryValue>, after: Option<&EntryValue>) -> bool {
    match after {
        Some(after) => after.document.is_none(),
        // Over an element of the file, that one has effect again.
        None => before.is_some_and(|before| before.document.is_some() && before.replaces.is_none()),
    }
}

/// Returns the credentials in the entry of a key; `None` if it removes the key of the file.
fn credentials(entry: &EntryValue) -> Option<[Value; 4]> {
    // It was written by this program.
    let key: Value = serde_json::from_str(entry.document.as_deref()?).unwrap_or_default();
    Some(CREDENTIALS.map(|member| key[member].clone()))
}

fn describe(change: &RecordedChange) -> Value {
    let values = [&change.before, &change.after];
    let unreadable = values.into_iter().find_map(|value| value.as_ref().err());
    let [before, after] = values.map(|value| {
        let value = value.as_ref().ok().and_then(Option::as_ref);
        value.map(|value| document(change.kind, value))
    });
    let mut shown = json!({
        "id": change.id,
        "at": rfc3339(change.at_ms),
        "actor": change.actor,
        "action": change.action,
        "kind": change.kind_name(),
        "name": change.name,
        "before": before,
        "after": after,
    });
    if let Some(reason) = unreadable {
        shown["unreadable"] = reason.to_string().into();
    }
    shown
}

/// Returns the document of an entry without secrets; `{"removed": true}` for a removed element of the
/// file.
fn document(kind: Option<EntryKind>, value: &EntryValue) -> Value {
    let Some(text) = &value.document else { return json!({"removed": true}) };
    // It was written by this program.
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    match kind {
        Some(kind) => redacted(kind, &document),
        None => document,
    }
}

fn describe_owner(absent: &AbsentOwner) -> Value {
    let message = format!("{absent}; no request sees the client unless it has another owner");
    json!({
        "kind": EntryKind::Client.name(),
        "name": absent.client,
        "code": "owner_absent",
        "message": message,
    })
}

fn describe_left_out(left_out: &LeftOut) -> Value {
    let reason = match &left_out.reason {
        LeftOutReason::FileChanged => {
            json!({"code": "file_changed", "message": "the configuration file was changed after the entry was made, and has effect"})
        }
        LeftOutReason::Invalid(problems) => {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            json!({"code": "invalid", "message": problems.join("; ")})
        }
        LeftOutReason::Unreadable(reason) => {
            json!({"code": "unreadable", "message": format!("it cannot be opened: {reason}")})
        }
    };
    json!({"kind": left_out.kind.name(), "name": left_out.name, "reason": reason})
}

/// Returns where an element comes from.
pub(crate) fn source(element: &Element) -> &'static str {
    match (element.in_file.is_some(), element.in_store) {
        (true, true) => "store_over_file",
        (true, false) => "file",
        (false, _) => "store",
    }
}

fn page(query: &str) -> Result<(Option<i64>, u32)> {
    let mut before = None;
    let mut limit = DEFAULT_LIMIT;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "before" => before = Some(number_from_zero("before", &value)?),
            "limit" => {
                let wanted = number_from_zero("limit", &value)?;
                limit = u32::try_from(wanted).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
            }
            _ => return Err(invalid("valid parameters are `before` and `limit`")),
        }
    }
    Ok((before, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_changes_is_bounded() {
        assert_eq!(page(""), Ok((None, DEFAULT_LIMIT)));
        assert_eq!(page("before=7&limit=9999999999"), Ok((Some(7), MAX_LIMIT)));
        assert!(page("limit=-1").is_err() && page("after=1").is_err());
    }
}
