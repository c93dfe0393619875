//! The effect manifest of a script: the calls that a person approves at once.
//!
//! The journal of the run has it as its first call, of the tool that runs scripts. So it waits, is approved, denied
//! and stored as any other call, and each list of calls that wait has it.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{EXECUTE, ExpectedArguments, ShownArgument};
use airlock_core::{run::Position, tool::SourceSet};
use airlock_strings::{hex, visible_line};

/// Position of the manifest in its run.
pub(super) const MANIFEST_POSITION: Position = Position { block: 1, branch: 0 };

/// The calls of a script that a person approves together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectManifest {
    /// The calls, in the order in which the script is expected to make the first of each kind.
    pub calls: Vec<ManifestCall>,
}

/// Calls of one tool that differ at most in some arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestCall {
    /// Name by which the script calls the tool.
    pub tool: String,
    /// Name of the tool in the text of the script.
    pub name: String,
    /// Digest of the definition of the tool.
    pub definition: String,
    /// Arguments of the calls.
    #[serde(flatten)]
    pub arguments: ExpectedArguments,
    /// Tools of whose results an argument that varies, also in part, is expected to have values, by the name of the
    /// argument. Shown, and not enforced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flows: BTreeMap<String, Vec<String>>,
    /// Maximum number of the calls; `None` for any number, of calls that need no approval.
    pub at_most: Option<u32>,
    /// True if the calls would each wait for an approval.
    pub needs_approval: bool,
    /// Sources of untrusted content because of which the calls need the approval.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub sources: SourceSet,
}

impl EffectManifest {
    /// Reads the manifest that a call in a journal is; `None` for any other call. A script cannot call the tool that runs
    /// scripts.
    pub fn from_call(tool: &str, arguments: &str) -> Option<Self> {
        if tool != EXECUTE {
            return None;
        }
        serde_json::from_str(arguments).ok()
    }

    /// Takes the approval back once it has expired: each of the calls that needs one waits for its own.
    pub(super) fn expire(&mut self) {
        for call in &mut self.calls {
            call.needs_approval = false;
        }
    }

    /// Returns the JSON text that a journal has as the arguments of the call.
    ///
    /// # Panics
    ///
    /// Never: the keys are strings.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("the keys are strings")
    }

    /// Returns the digest of the text of a manifest, by which records name what was approved.
    pub fn digest(text: &str) -> String {
        format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
    }

    /// Returns a line for each call, for the person who decides: those that need an approval first. Nothing is left out,
    /// and no character of an argument can begin a line, or look like the end of the arguments.
    pub fn lines(&self) -> Vec<String> {
        let (asking, others): (Vec<_>, Vec<_>) =
            self.calls.iter().partition(|call| call.needs_approval);
        asking.into_iter().chain(others).map(ManifestCall::line).collect()
    }
}

impl ManifestCall {
    fn line(&self) -> String {
        let arguments: Vec<_> = self
            .arguments
            .shown("any value")
            .map(|shown| {
                let ShownArgument { name, value } = shown;
                let expected = self.flows.get(name).map(|tools| tools.join(", "));
                let expected = expected.map(|tools| format!(" (expected from {tools})"));
                format!("{}={value}{}", argument_name(name), expected.unwrap_or_default())
            })
            .collect();
        let times: Cow<'_, str> = match self.at_most {
            Some(1) => "at most once".into(),
            Some(times) => format!("at most {times} times").into(),
            None => "any number of times".into(),
        };
        let need = if self.needs_approval { "" } else { ", needs no approval" };
        let read = if self.sources.is_empty() {
            String::new()
        } else {
            format!(", after reading untrusted content from {}", self.sources)
        };
        visible_line(&format!("{}({}): {times}{need}{read}", self.name, arguments.join(", ")))
    }
}

/// Returns the name of an argument as a plan and a manifest show it: as a JSON string, unless it has only letters, digits
/// and `_`, `-`, `.` and `$`. A script chooses the names of a tool that takes any.
pub fn argument_name(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.$".contains(c)) {
        name.into()
    } else {
        Value::from(name).to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, json};

    use super::*;
    use crate::runs::PartialValue;

    fn call() -> ManifestCall {
        ManifestCall {
            tool: "tracker-close".into(),
            name: "tracker.close".into(),
            definition: "d".into(),
            arguments: ExpectedArguments {
                constant: Map::from_iter([("reason".to_owned(), json!({"a": [1, "x"]}))]),
                varying: BTreeSet::from(["number".to_owned()]),
                ..ExpectedArguments::default()
            },
            flows: BTreeMap::from([("number".into(), vec!["tracker.list".into()])]),
            at_most: Some(2),
            needs_approval: true,
            sources: SourceSet::default(),
        }
    }

    #[test]
    fn a_line_has_arguments_flows_and_how_often() {
        let mut shown = call();
        let line = r#"tracker.close(reason={"a":[1,"x"]}, number=any value (expected from tracker.list)): at most 2 times"#;
        assert_eq!(shown.line(), line);
        shown.arguments.constant = Map::from_iter([("a".to_owned(), json!("b\nc\u{202e}"))]);
        shown.arguments.varying.clear();
        shown.at_most = None;
        shown.needs_approval = false;
        shown.sources.insert("web");
        let line = shown.line();
        assert!(!line.contains(['\n', '\u{202e}']), "{line}");
        let end =
            "): any number of times, needs no approval, after reading untrusted content from web";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn the_name_of_an_argument_cannot_imitate_the_end_of_a_call() {
        let forged = r#"b="x"): at most once, needs no approval; c.d(e"#;
        let arguments = ExpectedArguments {
            constant: Map::from_iter([(forged.to_owned(), json!(1))]),
            varying: BTreeSet::from(["f=1, to", "", "größe.a-b_$1"].map(str::to_owned)),
            ..ExpectedArguments::default()
        };
        let shown = ManifestCall { arguments, flows: BTreeMap::new(), ..call() };
        let line = r#"tracker.close("b=\"x\"): at most once, needs no approval; c.d(e"=1, ""=any value, "f=1, to"=any value, größe.a-b_$1=any value): at most 2 times"#;
        assert_eq!(shown.line(), line);
    }

    #[test]
    fn a_value_of_which_parts_vary_is_shown_with_those_that_do_not() {
        let mut shown = call();
        let parts = BTreeMap::from([
            ("to".to_owned(), PartialValue::Constant(json!("any value"))),
            ("a\":any value,\"b".to_owned(), PartialValue::Any),
        ]);
        let list = PartialValue::Array(vec![PartialValue::Constant(json!(1)), PartialValue::Any]);
        shown.arguments.partial = BTreeMap::from([
            ("m".to_owned(), PartialValue::Object(parts)),
            ("list".to_owned(), list),
        ]);
        shown.arguments.varying.clear();
        shown.flows = BTreeMap::from([("m".into(), vec!["tracker.list".into()])]);
        let line = r#"tracker.close(reason={"a":[1,"x"]}, list=[1,any value], m={"a\":any value,\"b":any value,"to":"any value"} (expected from tracker.list)): at most 2 times"#;
        assert_eq!(shown.line(), line);
    }

    #[test]
    fn the_calls_that_need_an_approval_are_shown_first() {
        let free = ManifestCall { name: "a.b".into(), needs_approval: false, ..call() };
        let manifest = EffectManifest { calls: vec![free.clone(), call(), free, call()] };
        let lines = manifest.lines();
        let starts: Vec<_> = lines.iter().filter_map(|line| line.split_once('(')).collect();
        let names: Vec<_> = starts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["tracker.close", "tracker.close", "a.b", "a.b"]);
    }

    #[test]
    fn a_manifest_is_read_from_a_call_of_the_tool_that_runs_scripts_alone() {
        let mut partial = call();
        let parts = BTreeMap::from([("to".to_owned(), PartialValue::Constant(json!(1.5)))]);
        let list = vec![PartialValue::Any, PartialValue::Object(parts)];
        partial.arguments.partial = BTreeMap::from([("m".to_owned(), PartialValue::Array(list))]);
        let manifest = EffectManifest { calls: vec![call(), partial] };
        let text = manifest.to_text();
        assert_eq!(EffectManifest::from_call(EXECUTE, &text), Some(manifest.clone()));
        assert_eq!(EffectManifest::from_call("tracker-close", &text), None);
        assert_eq!(EffectManifest::from_call(EXECUTE, r#"{"code":"x"}"#), None);
        let digest = EffectManifest::digest(&text);
        assert!(digest.starts_with("sha256:") && digest.len() == 7 + 64);
        assert_ne!(digest, EffectManifest::digest("{}"));
    }
}
