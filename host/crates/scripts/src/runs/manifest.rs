//! The effect manifest of a script: the calls that a person approves at once.
//!
//! The journal of the run has it as its first call, of the tool that runs scripts. So it waits, is approved, denied
//! and stored as any other call, and each list of calls that wait has it.

use std::{borrow::Cow, cell::OnceCell, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::EXECUTE;
use airlock_core::{run::Position, tool::SourceSet};
use airlock_json::raw;
use airlock_strings::{hex, visible_line};

/// Position of the manifest in its run.
pub(super) const MANIFEST_POSITION: Position = Position { block: 1, branch: 0 };
/// Maximum bytes of an argument that is compared with a constant one: six times as many as a manifest has, because
/// each character may be escaped.
const MAX_COMPARED: usize = 96 << 10;

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
    /// Arguments that each of the calls has.
    pub arguments: Map<String, Value>,
    /// Names of the arguments that may have any value, or be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub varying: Vec<String>,
    /// Tools of whose results a varying argument is expected to have values, by the name of the argument. Shown, and
    /// not enforced.
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

/// The arguments of a call, read once for the comparison with all entries of a manifest: each may have 1 MiB, and a
/// manifest a hundred entries.
pub(super) struct ComparedArguments<'t>(Vec<ComparedMember<'t>>);

struct ComparedMember<'t> {
    name: Cow<'t, str>,
    text: &'t str,
    /// The value, once it has been compared; `None` if no constant argument can be as long.
    value: OnceCell<Option<Value>>,
}

impl<'t> From<&'t str> for ComparedArguments<'t> {
    /// Reads arguments, as JSON text of an object.
    fn from(arguments: &'t str) -> Self {
        let members = raw::members(arguments).into_iter().flatten();
        let members =
            members.map(|(name, text)| ComparedMember { name, text, value: OnceCell::new() });
        Self(members.collect())
    }
}

impl ComparedMember<'_> {
    fn is_equal(&self, value: &Value) -> bool {
        let read = self.value.get_or_init(|| {
            (self.text.len() <= MAX_COMPARED)
                .then(|| serde_json::from_str(self.text).ok())
                .flatten()
        });
        read.as_ref() == Some(value)
    }
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
    /// Returns whether the manifest has a call with these arguments: each constant argument is there and equal, and
    /// each other one is a varying one.
    pub(super) fn permits(&self, made: &ComparedArguments<'_>) -> bool {
        // More are not looked at one by one.
        if made.0.len() > self.arguments.len() + self.varying.len() {
            return false;
        }
        let mut constant = 0;
        for member in &made.0 {
            match self.arguments.get(&*member.name) {
                Some(value) if member.is_equal(value) => constant += 1,
                None if self.varying.iter().any(|varying| **varying == *member.name) => {}
                _ => return false,
            }
        }
        constant == self.arguments.len()
    }

    fn line(&self) -> String {
        let constant =
            self.arguments.iter().map(|(name, value)| format!("{}={value}", argument_name(name)));
        let varying = self.varying.iter().map(|name| {
            let shown = argument_name(name);
            match self.flows.get(name) {
                Some(tools) => {
                    format!("{shown}=any value (expected from {})", tools.join(", "))
                }
                None => format!("{shown}=any value"),
            }
        });
        let arguments: Vec<_> = constant.chain(varying).collect();
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
    use serde_json::json;

    use super::*;

    fn call() -> ManifestCall {
        ManifestCall {
            tool: "tracker-close".into(),
            name: "tracker.close".into(),
            definition: "d".into(),
            arguments: Map::from_iter([("reason".to_owned(), json!({"a": [1, "x"]}))]),
            varying: vec!["number".into()],
            flows: BTreeMap::from([("number".into(), vec!["tracker.list".into()])]),
            at_most: Some(2),
            needs_approval: true,
            sources: SourceSet::default(),
        }
    }

    #[test]
    fn constant_arguments_are_equal_and_no_others_are_there_but_varying_ones() {
        let call = call();
        for arguments in [
            r#"{"reason": {"a": [1, "x"]}, "number": 7}"#,
            r#"{"number":{"any":"value"},"reason":{"a":[1,"\u0078"]}}"#,
            r#"{"reason": {"a":[1,"x"]}}"#,
        ] {
            assert!(call.permits(&arguments.into()), "{arguments}");
        }
        for arguments in [
            "",
            "{}",
            "[]",
            r#"{"number":7}"#,
            r#"{"reason":{"a":[1,"y"]}}"#,
            r#"{"reason":{"a":[1,"x"]},"force":true}"#,
            r#"{"reason":{"a":[1.0,"x"]}}"#,
            r#"{"reason":{"a":[1,"x"],"b":2}}"#,
            r#"{"number":7,"number":8,"number":9}"#,
        ] {
            assert!(!call.permits(&arguments.into()), "{arguments}");
        }
    }

    #[test]
    fn an_argument_is_parsed_once_for_all_entries_and_only_where_one_has_it_constant() {
        let long = format!("[{}1]", "1,".repeat(MAX_COMPARED / 2));
        let arguments = format!(r#"{{"reason":"x","number":{{}},"long":{long}}}"#);
        let made = ComparedArguments::from(arguments.as_str());
        let mut entry = call();
        entry.varying.push("long".into());
        assert!(!entry.permits(&made));
        let [reason, number, _] = &made.0[..] else { panic!("three members") };
        let read = reason.value.get().expect("it is constant");
        assert_eq!(read.as_ref(), Some(&json!("x")));
        assert!(number.value.get().is_none(), "it varies, and another differs before");
        entry.arguments = Map::from_iter([("long".to_owned(), json!([1]))]);
        entry.varying.push("reason".into());
        assert!(!entry.permits(&made));
        assert_eq!(made.0[2].value.get(), Some(&None), "too long to be constant");
    }

    #[test]
    fn a_line_has_arguments_flows_and_how_often() {
        let mut shown = call();
        let line = r#"tracker.close(reason={"a":[1,"x"]}, number=any value (expected from tracker.list)): at most 2 times"#;
        assert_eq!(shown.line(), line);
        shown.arguments = Map::from_iter([("a".to_owned(), json!("b\nc\u{202e}"))]);
        shown.varying.clear();
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
        let arguments = Map::from_iter([(forged.to_owned(), json!(1))]);
        let varying = vec!["f=1, to".to_owned(), String::new(), "größe.a-b_$1".to_owned()];
        let shown = ManifestCall { arguments, varying, flows: BTreeMap::new(), ..call() };
        let line = r#"tracker.close("b=\"x\"): at most once, needs no approval; c.d(e"=1, "f=1, to"=any value, ""=any value, größe.a-b_$1=any value): at most 2 times"#;
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
        let manifest = EffectManifest { calls: vec![call()] };
        let text = manifest.to_text();
        assert_eq!(EffectManifest::from_call(EXECUTE, &text), Some(manifest.clone()));
        assert_eq!(EffectManifest::from_call("tracker-close", &text), None);
        assert_eq!(EffectManifest::from_call(EXECUTE, r#"{"code":"x"}"#), None);
        let digest = EffectManifest::digest(&text);
        assert!(digest.starts_with("sha256:") && digest.len() == 7 + 64);
        assert_ne!(digest, EffectManifest::digest("{}"));
    }
}
