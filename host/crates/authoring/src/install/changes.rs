//! Differences between the grants of the installed build and those of the new one.

use serde_json::{Map, Value};

use airlock_plugin::Requests;
use airlock_strings::visible_line;

/// Returns notes about the grants that were added and changed.
pub(super) fn notes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let before = by_key(before);
    let after = by_key(after);
    let mut added = Vec::new();
    let mut changed = Vec::new();
    for (key, value) in &after {
        match before.iter().find(|(other, _)| other == key) {
            None => added.push(key.as_str()),
            Some((_, other)) if other != value => changed.push(key.as_str()),
            Some(_) => {}
        }
    }
    let notes = [note("added to the grants", &added), note("changed in the grants", &changed)];
    notes.into_iter().flatten().collect()
}

fn note(what: &str, keys: &[&str]) -> Option<String> {
    (!keys.is_empty()).then(|| visible_line(&format!("{what}: {}", keys.join(", "))))
}

/// Returns each grant with its key, such as `http.api`; a rule for a host is its own key.
fn by_key(grants: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (kind, value) in grants {
        match value {
            Value::Object(named) if kind != "scratch" => {
                found.extend(named.iter().map(|(name, value)| (format!("{kind}.{name}"), value)));
            }
            Value::Array(listed) => found.extend(listed.iter().map(|value| match value {
                Value::String(name) => (format!("{kind}.{name}"), value),
                _ => (format!("{kind}={}", value["url"].as_str().unwrap_or_default()), value),
            })),
            _ => found.push((kind.clone(), value)),
        }
    }
    found
}

/// Removes the grants that no request of the plugin is for. Returns their keys. Left in place, a later
/// build would get them again by requesting the same name. Network rules without a name stay: they
/// open nothing that is not requested.
pub(super) fn remove_stale(grants: &mut Map<String, Value>, requests: &Requests) -> Vec<String> {
    let mut removed = Vec::new();
    for kind in ["http", "secret", "kv", "files", "slot", "tools"] {
        let is_empty = match grants.get_mut(kind) {
            Some(Value::Object(members)) => {
                members.retain(|name, _| is_kept(kind, name, requests, &mut removed));
                members.is_empty()
            }
            Some(Value::Array(listed)) => {
                listed.retain(|value| {
                    let name = value.as_str();
                    name.is_none_or(|name| is_kept(kind, name, requests, &mut removed))
                });
                listed.is_empty()
            }
            _ => false,
        };
        if is_empty {
            grants.shift_remove(kind);
        }
    }
    for kind in ["scratch", "clocks"] {
        if requests.named(kind).is_none()
            && grants.shift_remove(kind).is_some_and(|grant| grant != false)
        {
            removed.push(kind.to_owned());
        }
    }
    removed
}

/// Returns whether the plugin requests a grant. Adds the key of one that it does not to `removed`.
fn is_kept(kind: &str, name: &str, requests: &Requests, removed: &mut Vec<String>) -> bool {
    let key = format!("{kind}.{name}");
    let is_requested = match kind {
        "files" if requests.files.contains_key("*") => true,
        "tools" => requests.tools.iter().flat_map(|tools| &tools.call).any(|tool| tool == name),
        _ => requests.named(&key).is_some(),
    };
    if !is_requested {
        removed.push(key);
    }
    is_requested
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grants_that_are_added_or_changed_are_named_and_the_others_are_not() {
        let before = json!({
            "http": ["api", {"url": "https://a.example"}, {"url": "https://b.example"}],
            "secret": {"token": {"from": "env:T"}},
            "kv": {"notes": {}},
            "scratch": {},
        });
        let after = json!({
            "http": ["api", "other", {"url": "https://a.example", "private": true}, {"url": "https://b.example"}],
            "secret": {"token": {"from": "env:U"}},
            "kv": {"notes": {}, "cache": {}},
            "scratch": {},
            "clocks": true,
        });
        let before = object(&before);
        let after = object(&after);
        assert_eq!(
            notes(&before, &after),
            [
                "added to the grants: http.other, kv.cache, clocks",
                "changed in the grants: http=https://a.example, secret.token"
            ]
        );
        assert!(notes(&after, &after).is_empty());
    }

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn grants_without_a_request_are_removed_and_the_others_stay_as_they_are() {
        let requests = json!({
            "http": {"api": {"url": "https://a.example", "reason": "r"}},
            "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
            "tools": {"call": ["text-count"], "reason": "r"},
        });
        let requests: Requests = serde_json::from_value(requests).expect("requests");
        let mut grants = json!({
            "http": ["old", {"url": "https://b.example"}, "api"],
            "secret": {"token": {"from": "env:T"}},
            "kv": {"cache": {}, "notes": {"max_bytes": "1KiB"}},
            "files": {"data": {"path": "/d"}},
            "slot": {"find": "web-search"},
            "tools": ["text-count", "text-sort"],
            "scratch": {},
            "clocks": true,
        });
        let removed = remove_stale(grants.as_object_mut().expect("an object"), &requests);
        assert_eq!(
            removed,
            [
                "http.old",
                "secret.token",
                "kv.cache",
                "files.data",
                "slot.find",
                "tools.text-sort",
                "scratch",
                "clocks"
            ]
        );
        let left = json!({
            "http": [{"url": "https://b.example"}, "api"],
            "kv": {"notes": {"max_bytes": "1KiB"}},
            "tools": ["text-count"],
        });
        assert_eq!(grants, left);
        assert!(remove_stale(grants.as_object_mut().expect("an object"), &requests).is_empty());
    }

    #[test]
    fn a_request_for_any_directory_keeps_every_granted_one() {
        let requests = json!({"files": {"*": {"access": "read_only", "reason": "r"}}});
        let requests: Requests = serde_json::from_value(requests).expect("requests");
        let mut grants = json!({"files": {"data": {"path": "/d"}}, "clocks": false});
        let removed = remove_stale(grants.as_object_mut().expect("an object"), &requests);
        assert!(removed.is_empty() && grants["files"]["data"]["path"] == "/d", "{grants}");
    }
}
