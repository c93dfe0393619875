//! Holds a run to its manifest: the script is planned before its first call, a person approves the manifest once, and
//! each call of the script is compared with it.
//!
//! The manifest approves a call, and the door decides about it as about any other. The numbers of the calls that were made
//! are not stored: a run that is resumed makes the same calls again from its start.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::info;

use super::{
    EXECUTE, EffectManifest, Journal, ManifestCall, RunCalls, Runs, ScriptApproval,
    expected::ComparedArguments, plan,
};
use crate::{CodeMode, Runner};
use airlock_core::{
    door::{Approved, Chain},
    run::Called,
    tool::CallError,
};
use airlock_sandbox::{Script, ScriptCall};

/// The calls of an approved manifest that are left to a script.
pub(super) struct HeldManifest(Mutex<Vec<HeldCall>>);

/// Calls of a manifest.
struct HeldCall {
    call: Arc<ManifestCall>,
    /// Number of calls that are left; `None` for any number.
    left: Option<u32>,
}

/// Result of the comparison of a call with the manifest of its run.
pub(super) enum HeldVerdict {
    /// The run has no manifest.
    NotHeld,
    /// The manifest has the call, and approves it as this entry if it needs an approval.
    Inside(Option<Arc<ManifestCall>>),
    /// The manifest does not have the call, or not as often. It waits for an approval of its own.
    Outside,
}

impl From<EffectManifest> for HeldManifest {
    fn from(manifest: EffectManifest) -> Self {
        let calls = manifest.calls.into_iter();
        let held = calls.map(|call| HeldCall { left: call.at_most, call: Arc::new(call) });
        Self(Mutex::new(held.collect()))
    }
}

impl HeldManifest {
    /// Counts a call as a script writes it. Guards are not asked about all calls of a run that is resumed, and these count
    /// too. Of several entries that permit it, the strictest one counts.
    pub(super) fn count(&self, made: &ScriptCall) -> HeldVerdict {
        let arguments = ComparedArguments::from(made.arguments.as_str());
        let mut calls = self.0.lock();
        let found = calls
            .iter_mut()
            .filter(|held| held.left != Some(0) && held.call.tool == made.tool)
            .filter(|held| held.call.arguments.permit_call(&arguments))
            .max_by_key(|held| held.call.arguments.strictness());
        let Some(held) = found else { return HeldVerdict::Outside };
        held.left = held.left.map(|left| left - 1);
        HeldVerdict::Inside(held.call.needs_approval.then(|| held.call.clone()))
    }
}

impl HeldVerdict {
    /// Returns the approval of the call with the arguments that the guards leave; `None` if it has none, or if the guards
    /// have changed arguments that were shown with the manifest.
    pub(super) fn approved(&self, arguments: &str) -> Option<Approved> {
        let Self::Inside(Some(call)) = self else { return None };
        call.arguments.permit_call(&arguments.into()).then(|| approved(call, arguments))
    }

    /// Returns the verdict about a call because of which a guard asks. What it asks was not shown with the manifest.
    pub(super) fn without_approval(self) -> Self {
        match self {
            Self::Inside(_) => Self::Inside(None),
            other => other,
        }
    }
}

/// Returns the approval of one call. It covers neither calls that a plugin makes in it, nor sources that the manifest did
/// not show.
fn approved(call: &ManifestCall, arguments: &str) -> Approved {
    Approved {
        tool: call.tool.as_str().into(),
        definition: call.definition.as_str().into(),
        arguments: arguments.into(),
        covers_nested: false,
        by_operators: false,
        decided_by: None,
        sources: call.sources.clone(),
    }
}

impl CodeMode {
    /// Holds the calls of a run to its manifest, if it has one or gets one. Fails if the run stops until a person has
    /// decided about the manifest, or if the manifest was denied.
    pub(crate) async fn hold_to_manifest(
        &self,
        calls: &RunCalls,
        journal: &Arc<Journal>,
        runner: &dyn Runner,
        script: &Script,
    ) -> Result<(), CallError> {
        if let Some(approved) = journal.approved_manifest().await? {
            let mut manifest = approved.manifest;
            if approved.is_expired {
                manifest.expire();
            }
            calls.hold_to(manifest.into());
            return Ok(());
        }
        let chain = calls.chain();
        if !self.asks_for_manifests(chain, journal) {
            return Ok(());
        }
        let planned = plan::planned_manifest(chain, runner, script).await?;
        let Some(manifest) = planned else { return Ok(()) };
        let called = called(chain, &manifest);
        info!(
            run = journal.id(),
            manifest = &*called.definition,
            "the manifest of a script waits for an approval"
        );
        Err(journal.ask_manifest(called).await)
    }

    /// Returns whether a run that begins is planned, and its manifest approved in place of its calls.
    fn asks_for_manifests(&self, chain: &Chain, journal: &Journal) -> bool {
        let settings = self.runs.as_ref().map(Runs::settings);
        settings.is_some_and(|settings| settings.approval == ScriptApproval::Manifest)
            && journal.known_wrong().is_none()
            && journal.can_suspend()
            && !chain.approves_script()
    }
}

/// Returns the call that a manifest is in the journal of its run.
fn called(chain: &Chain, manifest: &EffectManifest) -> Called {
    let text = manifest.to_text();
    Called {
        tool: EXECUTE.into(),
        definition: EffectManifest::digest(&text).into(),
        arguments: text.into(),
        written: None,
        // To approve it again has no further effect.
        is_repeatable: true,
        sources: chain.nested_context().to_json().map(Into::into),
        asked_by: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::runs::{ExpectedArguments, PartialValue};
    use airlock_core::tool::SourceSet;

    fn entry(arguments: Value, varying: &[&str], at_most: Option<u32>) -> ManifestCall {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        ManifestCall {
            tool: "a-b".into(),
            name: "a.b".into(),
            definition: "d".into(),
            arguments: ExpectedArguments {
                constant: arguments,
                varying: varying.iter().map(|name| (*name).to_owned()).collect(),
                ..ExpectedArguments::default()
            },
            flows: BTreeMap::new(),
            at_most,
            needs_approval: at_most.is_some(),
            sources: SourceSet::from_iter(["web"]),
        }
    }

    /// Returns whether the calls are inside, with an approval and without, or outside.
    fn verdicts(manifest: Vec<ManifestCall>, made: &[(&str, &str)]) -> Vec<Option<bool>> {
        let held = HeldManifest::from(EffectManifest { calls: manifest });
        let made = made.iter().map(|(tool, arguments)| ScriptCall {
            tool: (*tool).to_owned(),
            arguments: (*arguments).to_owned(),
        });
        made.map(|call| match held.count(&call) {
            HeldVerdict::Inside(approved) => Some(approved.is_some()),
            HeldVerdict::NotHeld | HeldVerdict::Outside => None,
        })
        .collect()
    }

    #[test]
    fn a_call_is_inside_as_often_as_the_manifest_has_it() {
        let manifest = vec![entry(json!({"n": 1}), &[], Some(2))];
        let one = ("a-b", r#"{"n":1}"#);
        let made = [one, ("a-b", r#"{"n":2}"#), ("a-c", r#"{"n":1}"#), one, one];
        assert_eq!(verdicts(manifest, &made), [Some(true), None, None, Some(true), None]);
        let any = vec![entry(json!({}), &["n"], None)];
        assert_eq!(verdicts(any, &[one; 3]), [Some(false); 3]);
    }

    #[test]
    fn after_its_approval_has_expired_a_manifest_bounds_the_calls_and_approves_none() {
        let mut manifest = EffectManifest { calls: vec![entry(json!({"n": 1}), &[], Some(1))] };
        manifest.expire();
        let one = ("a-b", r#"{"n":1}"#);
        assert_eq!(verdicts(manifest.calls, &[one, one]), [Some(false), None]);
    }

    #[test]
    fn the_entry_with_the_most_constant_arguments_counts_first() {
        let manifest =
            vec![entry(json!({"n": 1}), &[], Some(1)), entry(json!({}), &["n"], Some(1))];
        let one = ("a-b", r#"{"n":1}"#);
        let other = ("a-b", r#"{"n":7}"#);
        assert_eq!(verdicts(manifest.clone(), &[one, other, one]), [Some(true), Some(true), None]);
        assert_eq!(verdicts(manifest, &[one, one, other]), [Some(true), Some(true), None]);
    }

    #[test]
    fn a_call_whose_constant_parts_differ_is_outside() {
        let mut partial = entry(json!({}), &[], Some(2));
        let parts = BTreeMap::from([
            ("to".to_owned(), PartialValue::Constant(json!("boss"))),
            ("body".to_owned(), PartialValue::Any),
        ]);
        partial.arguments.partial = BTreeMap::from([("m".to_owned(), PartialValue::Object(parts))]);
        let any = entry(json!({}), &["m"], Some(1));
        let [boss, other] =
            ["boss", "other"].map(|to| format!(r#"{{"m":{{"to":"{to}","body":"text"}}}}"#));
        let made = [("a-b", boss.as_str()), ("a-b", other.as_str()), ("a-b", other.as_str())];
        assert_eq!(verdicts(vec![any, partial], &made), [Some(true), Some(true), None]);
    }

    #[test]
    fn an_approval_is_for_the_definition_and_the_sources_that_were_shown() {
        let held =
            HeldManifest::from(EffectManifest { calls: vec![entry(json!({}), &["n"], Some(2))] });
        let call = ScriptCall { tool: "a-b".to_owned(), arguments: r#"{"n": 1}"#.to_owned() };
        let verdict = held.count(&call);
        let approved = verdict.approved(&call.arguments).expect("it is inside");
        assert_eq!((&*approved.tool, &*approved.definition), ("a-b", "d"));
        assert_eq!(&*approved.arguments, r#"{"n": 1}"#);
        assert_eq!(approved.sources, SourceSet::from_iter(["web"]));
        assert!(!approved.covers_nested && !approved.by_operators);
        let asked = held.count(&call).without_approval();
        assert!(asked.approved(&call.arguments).is_none(), "a guard asks");
        assert!(matches!(held.count(&call), HeldVerdict::Outside), "both were counted");
    }

    #[test]
    fn an_approval_is_for_the_arguments_that_guards_leave_if_the_manifest_has_shown_them() {
        let calls = vec![entry(json!({"n": 1}), &["text"], Some(1))];
        let held = HeldManifest::from(EffectManifest { calls });
        let written = r#"{"n":1,"text":"secret"}"#;
        let call = ScriptCall { tool: "a-b".to_owned(), arguments: written.to_owned() };
        let verdict = held.count(&call);
        let left = r#"{"n":1,"text":"hidden"}"#;
        let approved = verdict.approved(left).expect("a varying argument has any value");
        assert_eq!(&*approved.arguments, left);
        for changed in [r#"{"n":2,"text":"secret"}"#, r#"{"n":1,"to":"others"}"#] {
            assert!(verdict.approved(changed).is_none(), "{changed}");
        }
    }
}
