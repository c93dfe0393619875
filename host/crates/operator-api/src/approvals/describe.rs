//! Calls that wait, as JSON for the person who decides.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    ApprovalQueue,
    item::{WaitingItem, script_id},
};
use airlock_agent::approvals;
use airlock_catalog::Snapshot;
use airlock_core::{
    run::Stage,
    tenant::Tenant,
    tool::{GuardQuestions, SourceSet, SourcesByPath},
};
use airlock_scripts::runs::EffectManifest;
use airlock_store::{
    OwnerId,
    runs::{PendingRunCall, ShownRun},
};
use airlock_strings::visible_line;

/// Describes calls. What is the same for several of them is found once.
pub(super) struct Describer {
    snapshot: Arc<Snapshot>,
    /// Callers by the identifier of what they own; empty for a caller, who sees no calls of others.
    owners: BTreeMap<OwnerId, String>,
    /// Tools as they are now, by the names of calls.
    tools: BTreeMap<String, Option<ToolNow>>,
    sees_payloads: bool,
    /// Time from the last change of a run until it is removed, in milliseconds.
    run_life_ms: Option<i64>,
}

/// A tool as it is now.
#[derive(Clone)]
struct ToolNow {
    definition: String,
    is_accepted: bool,
    effects: Value,
}

impl Describer {
    /// Returns the one for what a sender sees.
    pub(super) fn new(queue: &ApprovalQueue<'_>) -> Self {
        let keys = queue.api.keys.snapshot();
        let anonymous = Tenant::ANONYMOUS;
        let tenants = keys.iter().map(airlock_core::door::VirtualKey::tenant).chain([&anonymous]);
        let tenants = tenants.filter(|_| queue.operator.is_some());
        let owners = tenants.map(|tenant| (tenant.scope(), visible_line(&tenant.to_string())));
        let life = queue.api.parts.runs.as_ref().map(|runs| runs.settings().bounds.expire_after);
        Self {
            snapshot: queue.api.parts.catalog.snapshot(),
            owners: owners.collect(),
            tools: BTreeMap::new(),
            sees_payloads: queue.sees_payloads(),
            run_life_ms: life.and_then(|life| i64::try_from(life.as_millis()).ok()),
        }
    }

    /// Describes a call; without its arguments for operators who may not see them.
    pub(super) fn describe(&mut self, item: &WaitingItem) -> Value {
        let (mut document, definition) = match item {
            WaitingItem::Call(call) => (approvals::document(call), approvals::definition_of(call)),
            WaitingItem::Script(call) => (self.script(call), Some(call.definition.clone())),
        };
        let manifest = match item {
            WaitingItem::Script(call) => EffectManifest::from_call(&call.tool, &call.arguments),
            WaitingItem::Call(_) => None,
        };
        let state = match &manifest {
            Some(manifest) => self.manifest_state(manifest),
            None => self.definition_state(&item.tool(), definition.as_deref()),
        };
        document["definition"] = state.into();
        if let Some(manifest) = manifest {
            document["effects"] = self.manifest_effects(&manifest);
            document["manifest"] = manifest.lines().into();
        }
        if let Some(members) = document.as_object_mut().filter(|_| !self.sees_payloads) {
            members.remove("arguments");
            members.remove("manifest");
            members.remove("argument_sources");
            // By its digest, short arguments could be guessed.
            members.remove("shown");
            remove_reasons(members);
        }
        document
    }

    /// Describes a call of a script, in the form of the others.
    fn script(&mut self, call: &PendingRunCall) -> Value {
        let tool = self.tool(&call.tool);
        let effects = tool.filter(|tool| tool.definition == call.definition);
        json!({
            "id": script_id(call),
            "object": "airlock.approval",
            "state": "pending",
            "tool": call.tool,
            "arguments": call.arguments,
            "key": self.owners.get(&call.owner),
            "client": null,
            "decided_by": null,
            "origin": "script",
            "effects": effects.map(|tool| tool.effects),
            "sources": SourceSet::from_json(call.sources.as_deref()),
            "argument_sources": SourcesByPath::from_stored(call.sources.as_deref()),
            "asked_by": GuardQuestions::from_json(call.asked_by.as_deref()),
            "approvals_required": 1,
            "approved_by": [],
            "shown": WaitingItem::Script(call.clone()).shown(),
            "created_at_ms": call.stopped_ms,
            "expires_at_ms": self.run_life_ms.map(|life| call.stopped_ms.saturating_add(life)),
            "run": {"id": call.run, "position": call.position.to_string()},
        })
    }

    /// Returns whether a tool is defined as it was when a call of it was made; `None` if that is not known.
    fn definition_state(&mut self, tool: &str, definition: Option<&str>) -> Option<&'static str> {
        let Some(now) = self.tool(tool) else { return Some("gone") };
        let definition = definition?;
        Some(match now {
            now if now.definition != definition => "changed",
            ToolNow { is_accepted: false, .. } => "unaccepted",
            ToolNow { .. } => "current",
        })
    }

    /// Returns the state of the tools of a manifest: the first that is not current.
    fn manifest_state(&mut self, manifest: &EffectManifest) -> Option<&'static str> {
        let mut states = manifest
            .calls
            .iter()
            .map(|call| self.definition_state(&call.tool, Some(call.definition.as_str())));
        states.find(|state| *state != Some("current")).unwrap_or(Some("current"))
    }

    /// Returns the effects of the tools of a manifest together; those of a tool that is not there now are not known.
    fn manifest_effects(&mut self, manifest: &EffectManifest) -> Value {
        let calls = manifest.calls.iter();
        let effects: Vec<_> =
            calls.map(|call| self.tool(&call.tool).map(|tool| tool.effects)).collect();
        together(&effects)
    }

    /// Finds a tool by its name or its full name.
    fn tool(&mut self, name: &str) -> Option<ToolNow> {
        if let Some(known) = self.tools.get(name) {
            return known.clone();
        }
        let found = self.snapshot.clients().find_map(|client| {
            let mut tools = client.tools.iter();
            let tool =
                tools.find(|tool| tool.name.as_str() == name || tool.full_name.as_str() == name)?;
            Some(ToolNow {
                definition: tool.digest(),
                is_accepted: !client.unaccepted.contains(&tool.original),
                effects: approvals::effects(tool),
            })
        });
        self.tools.insert(name.to_owned(), found.clone());
        found
    }
}

/// Returns the effects of several tools together: the worse one that any of them has, and the better one if all have it.
/// One that is not known of some and worse of none is `null`.
fn together(effects: &[Option<Value>]) -> Value {
    let worse =
        [("read_only", false), ("destructive", true), ("idempotent", false), ("open_world", true)];
    let members = worse.map(|(name, worse)| {
        let mut known =
            effects.iter().map(|effects| effects.as_ref().and_then(|known| known[name].as_bool()));
        let is_worse = known.clone().any(|value| value == Some(worse));
        let is_better = known.all(|value| value == Some(!worse));
        let value = if is_worse { Some(worse) } else { is_better.then_some(!worse) };
        (name.to_owned(), Value::from(value))
    });
    Value::Object(members.into_iter().collect())
}

/// Leaves the names of the guards that ask about a call: their reasons may repeat its arguments.
fn remove_reasons(document: &mut Map<String, Value>) {
    let asked_by = document.get_mut("asked_by").and_then(Value::as_array_mut);
    for asked in asked_by.into_iter().flatten().filter_map(Value::as_object_mut) {
        asked.remove("reason");
    }
}

/// Adds the script of a call, and what its run has done so far, to the document of the call. The script has the
/// arguments of calls in it, so operators who do not see them do not see it.
pub(super) fn add_script(
    document: &mut Value,
    call: &PendingRunCall,
    shown: &ShownRun,
    sees_payloads: bool,
) {
    let calls: Vec<_> = shown
        .calls
        .iter()
        .map(|shown| {
            json!({
                "position": shown.position.to_string(),
                "tool": &*shown.call.called.tool,
                "state": stage(shown.call.stage),
            })
        })
        .collect();
    let run = &mut document["run"];
    run["language"] = shown.run.language.as_str().into();
    run["calls"] = calls.into();
    if sees_payloads {
        run["script"] = shown.run.script.as_str().into();
        run["lines"] = lines_with(&shown.run.script, &call.tool).into();
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Pending { .. } => "pending",
        Stage::Approved { .. } | Stage::Retried { .. } => "approved",
        Stage::Denied => "denied",
        Stage::Sent { .. } => "sent",
        Stage::InDoubt { .. } => "in_doubt",
        Stage::Answered => "answered",
    }
}

/// Returns the numbers of the lines of a script that name a tool, from 1. Scripts write `client.tool`, where the name
/// of the call is `client-tool`.
fn lines_with(script: &str, tool: &str) -> Vec<usize> {
    let own = tool.split_once('-').map_or(tool, |(_, own)| own);
    let lines = script.lines().enumerate();
    lines.filter(|(_, line)| has_word(line, own)).map(|(index, _)| index + 1).collect()
}

/// Returns whether a line has a word that is no part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !word.is_empty() && !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_reasons_of_guards_the_names_of_the_guards_are_left() {
        let mut document = json!({"asked_by": [{"guard": "mail", "reason": "to ann@x"}, 1]});
        remove_reasons(document.as_object_mut().expect("an object"));
        assert_eq!(document, json!({"asked_by": [{"guard": "mail"}, 1]}));
        let mut without = json!({"id": "call_1"});
        remove_reasons(without.as_object_mut().expect("an object"));
        assert_eq!(without, json!({"id": "call_1"}));
    }

    #[test]
    fn the_effects_of_a_manifest_are_the_worst_of_its_tools() {
        let good = json!({"read_only": true, "destructive": false, "idempotent": true, "open_world": null});
        let bad = json!({"read_only": false, "destructive": true, "idempotent": true, "open_world": null});
        for (effects, expected) in [
            (vec![Some(good.clone())], good.clone()),
            (vec![Some(good.clone()), Some(bad.clone())], bad.clone()),
            (
                vec![Some(good), None],
                json!({"read_only": null, "destructive": null, "idempotent": null, "open_world": null}),
            ),
            (
                vec![None, Some(bad)],
                json!({"read_only": false, "destructive": true, "idempotent": null, "open_world": null}),
            ),
        ] {
            assert_eq!(together(&effects), expected, "{effects:?}");
        }
    }

    #[test]
    fn the_lines_that_name_a_tool_are_found_and_no_part_of_a_longer_name() {
        let script = "x = tracker.list()\ntracker.close(number=7)\nclosed = 1\n# close, é\nenclose";
        assert_eq!(lines_with(script, "tracker-close"), [2, 4]);
        assert_eq!(lines_with(script, "list"), [1]);
        assert_eq!(lines_with("é.clos\u{e9}", "a-clos\u{e9}"), [1]);
        assert_eq!(lines_with(script, "tracker-"), Vec::<usize>::new());
    }
}
