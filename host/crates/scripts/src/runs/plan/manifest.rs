//! Two rehearsals of a script → its plan.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rehearsal::{CallTreatment, Rehearsal, RehearsedCall};
use crate::{
    ask::MAX_QUESTION,
    runs::{EXECUTE, EffectManifest, ExpectedArguments, ManifestCall},
};
use airlock_sandbox::Bindings;

/// The calls that a script makes with described answers. Other answers may lead it another way.
#[derive(Debug, Serialize)]
pub struct ScriptPlan {
    /// True if the script ran to its end in both rehearsals.
    pub complete: bool,
    /// Its calls, in the order of the first of each kind.
    pub calls: Vec<PlannedCall>,
    /// The place from which nothing is known; `None` if the plan is complete.
    pub unknown_from: Option<PlanEnd>,
}

/// Calls of one tool whose arguments differ at most where they come from answers.
#[derive(Debug, PartialEq, Serialize)]
pub struct PlannedCall {
    /// Full name of the tool.
    pub tool: String,
    /// Its name in scripts.
    pub name: String,
    /// Arguments, as the guards leave them. Those that depend on answers vary.
    #[serde(flatten)]
    pub arguments: ExpectedArguments,
    /// The same, as the script writes them.
    #[serde(skip)]
    pub written: ExpectedArguments,
    /// Number of the calls; `None` if it depends on answers.
    pub times: Option<usize>,
    /// Number of the calls in each rehearsal.
    pub rehearsed: [usize; 2],
    /// Treatment of each call.
    #[serde(flatten)]
    pub treatment: CallTreatment,
    /// Tools of whose answers an argument that depends on answers, also in part, has values, by the name of the
    /// argument. Names in scripts.
    pub flows: BTreeMap<String, Vec<String>>,
    /// True if the tool says that it changes nothing.
    pub read_only: bool,
    /// Digest of the definition of the tool.
    #[serde(skip)]
    pub definition: String,
}

/// The place at which a rehearsal ended before the end of the script.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct PlanEnd {
    /// Line of the script, from 1; `None` if the failure has none.
    pub line: Option<u32>,
    /// The failure of the script.
    pub message: String,
    /// Tools that were called before, and for which nothing describes an answer. They are the reason if the script needs a
    /// part of one.
    pub undescribed: Vec<String>,
}

impl ScriptPlan {
    pub(super) fn new(first: Rehearsal, second: Rehearsal, bindings: &Bindings) -> Self {
        let calls = planned([&first.calls, &second.calls], &names(bindings));
        let ended = [first, second].into_iter().find_map(|rehearsal| {
            let (line, message) = rehearsal.failure?;
            Some(PlanEnd { line, message, undescribed: rehearsal.undescribed })
        });
        Self { complete: ended.is_none(), calls, unknown_from: ended }
    }

    /// Returns the manifest that a person approves in place of each call. `None` if no call needs an approval, and if the
    /// calls that need one are not known and bounded: the plan is not complete, their number depends on answers, a
    /// guard asks about one or changes it, or the manifest is too long to be read.
    pub(in crate::runs) fn manifest(&self) -> Option<EffectManifest> {
        // A refused call is not made.
        let made: Vec<_> =
            self.calls.iter().filter(|call| call.treatment.refused.is_none()).collect();
        let mut asking = made.iter().filter(|call| call.treatment.needs_approval).peekable();
        asking.peek()?;
        if !self.complete || !asking.all(|call| call.is_bounded()) {
            return None;
        }
        let manifest = EffectManifest { calls: made.into_iter().map(ManifestCall::from).collect() };
        let text = manifest.to_text();
        // Arguments that are nested very deeply could not be read again.
        let is_readable = text.len() <= MAX_QUESTION
            && EffectManifest::from_call(EXECUTE, &text).as_ref() == Some(&manifest);
        is_readable.then_some(manifest)
    }
}

impl PlannedCall {
    /// Returns whether the number of the calls is known, and nothing about them is decided by their arguments alone.
    fn is_bounded(&self) -> bool {
        self.times.is_some() && self.treatment.question.is_none() && self.is_left_as_written()
    }

    /// Returns whether the guards leave the arguments that a manifest shows, which has them as the script writes them.
    fn is_left_as_written(&self) -> bool {
        self.written.cover(&self.arguments)
    }
}

impl From<&PlannedCall> for ManifestCall {
    fn from(call: &PlannedCall) -> Self {
        Self {
            tool: call.tool.clone(),
            name: call.name.clone(),
            definition: call.definition.clone(),
            arguments: call.written.clone(),
            flows: call.flows.clone(),
            at_most: call.times.and_then(|times| u32::try_from(times).ok()),
            needs_approval: call.treatment.needs_approval,
            sources: call.treatment.sources.clone(),
        }
    }
}

/// Returns the names of tools in scripts, by their full names.
fn names(bindings: &Bindings) -> BTreeMap<&str, String> {
    let names = bindings
        .iter()
        .map(|known| (known.tool.as_str(), format!("{}.{}", known.namespace, known.name)));
    names.collect()
}

/// Returns the calls of two rehearsals. Calls of a tool are compared in the order in which they were made.
fn planned(rehearsals: [&[RehearsedCall]; 2], names: &BTreeMap<&str, String>) -> Vec<PlannedCall> {
    let mut tools: Vec<&str> = Vec::new();
    for call in rehearsals.into_iter().flatten() {
        if !tools.contains(&call.tool.as_str()) {
            tools.push(&call.tool);
        }
    }
    let mut all = Vec::new();
    for tool in tools {
        let [first, second] = rehearsals
            .map(|calls| calls.iter().filter(|call| call.tool == tool).collect::<Vec<_>>());
        let mut planned: Vec<PlannedCall> = Vec::new();
        for at in 0..first.len().max(second.len()) {
            add(&mut planned, names, first.get(at).copied(), second.get(at).copied());
        }
        all.append(&mut planned);
    }
    all
}

/// Adds the calls that two rehearsals made at the same turn, or one of them.
fn add(
    planned: &mut Vec<PlannedCall>,
    names: &BTreeMap<&str, String>,
    first: Option<&RehearsedCall>,
    second: Option<&RehearsedCall>,
) {
    let Some(call) = first.or(second) else { return };
    let other = first.and(second);
    let arguments = match other {
        Some(other) => ExpectedArguments::between(&call.arguments, &other.arguments),
        None => ExpectedArguments::alone(&call.arguments, &call.origins),
    };
    let written = match other {
        Some(other) => ExpectedArguments::between(&call.written, &other.written),
        None => ExpectedArguments::alone(&call.written, &call.origins),
    };
    let mut treatment = call.treatment.clone();
    treatment.add(&other.unwrap_or(call).treatment);
    let same = planned.iter().position(|known| {
        // A call of one rehearsal alone is one more of those that depend on answers.
        let is_like = other.is_none() && known.permits(call);
        let is_equal = known.arguments == arguments && known.written == written;
        known.treatment == treatment && (is_like || is_equal)
    });
    let at = same.unwrap_or_else(|| {
        planned.push(PlannedCall {
            tool: call.tool.clone(),
            name: named(names, &call.tool),
            arguments,
            written,
            times: None,
            rehearsed: [0, 0],
            treatment,
            flows: BTreeMap::new(),
            read_only: call.is_read_only,
            definition: call.definition.clone(),
        });
        planned.len() - 1
    });
    let known = &mut planned[at];
    known.rehearsed[0] += usize::from(first.is_some());
    known.rehearsed[1] += usize::from(second.is_some());
    known.times = exact(known.rehearsed);
    known.add_flows(call, names);
    known.add_flows(other.unwrap_or(call), names);
}

/// Returns the name of a tool in scripts.
fn named(names: &BTreeMap<&str, String>, tool: &str) -> String {
    names.get(tool).map_or(tool, String::as_str).to_owned()
}

impl PlannedCall {
    /// Returns whether the arguments of a call are these, but for those that vary.
    fn permits(&self, call: &RehearsedCall) -> bool {
        self.arguments.permit(&call.arguments) && self.written.permit(&call.written)
    }

    /// Adds the origins of the varying arguments of a call.
    fn add_flows(&mut self, call: &RehearsedCall, names: &BTreeMap<&str, String>) {
        for (argument, tools) in &call.origins {
            if !self.arguments.varies(argument) {
                continue;
            }
            let known = self.flows.entry(argument.clone()).or_default();
            for tool in tools.iter().map(|tool| named(names, tool)) {
                if !known.contains(&tool) {
                    known.push(tool);
                }
            }
        }
    }
}

fn exact([first, second]: [usize; 2]) -> Option<usize> {
    (first == second).then_some(first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    fn call(tool: &str, arguments: Value) -> RehearsedCall {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        RehearsedCall {
            tool: tool.into(),
            definition: "d".into(),
            written: arguments.clone(),
            arguments,
            origins: BTreeMap::new(),
            treatment: CallTreatment { needs_approval: true, ..CallTreatment::default() },
            is_read_only: false,
        }
    }

    /// Returns the plan of two rehearsals that ran to their ends.
    fn plan(first: &[RehearsedCall], second: &[RehearsedCall]) -> ScriptPlan {
        let [first, second] = [first, second]
            .map(|calls| Rehearsal { calls: calls.to_vec(), ..Rehearsal::default() });
        ScriptPlan::new(first, second, &Bindings::default())
    }

    /// Returns the tool, the constant and the varying arguments and the times of each entry.
    fn shown(first: &[RehearsedCall], second: &[RehearsedCall]) -> Value {
        let names = BTreeMap::from([("a-x", "a.x".to_owned())]);
        let planned = planned([first, second], &names);
        let rows = planned.iter().map(|call| {
            let ExpectedArguments { constant, partial, varying } = &call.arguments;
            assert!(partial.is_empty(), "{partial:?}");
            json!([call.name, constant, varying, call.times, call.rehearsed])
        });
        rows.collect()
    }

    #[test]
    fn what_differs_between_the_rehearsals_depends_on_answers() {
        let first = [
            call("a-x", json!({"n": 1, "s": "k"})),
            call("b", json!({})),
            call("a-x", json!({"n": 1, "s": "m"})),
        ];
        let second = [
            call("a-x", json!({"n": 1, "s": "k"})),
            call("a-x", json!({"n": 2, "s": "m"})),
            call("b", json!({"t": 1})),
        ];
        let expected = json!([
            ["a.x", {"n": 1, "s": "k"}, [], 1, [1, 1]],
            ["a.x", {"s": "m"}, ["n"], 1, [1, 1]],
            ["b", {}, ["t"], 1, [1, 1]],
        ]);
        assert_eq!(shown(&first, &second), expected);
    }

    #[test]
    fn a_loop_over_an_answer_has_no_number_of_calls() {
        let one = [call("a-x", json!({"n": 1, "s": "k"}))];
        let more = [2, 3, 4].map(|n| call("a-x", json!({"n": n, "s": "k"})));
        assert_eq!(shown(&one, &more), json!([["a.x", {"s": "k"}, ["n"], null, [1, 3]]]));
        let constant = [0, 1, 2].map(|n| call("a-x", json!({"n": n})));
        let times = shown(&constant, &constant);
        assert_eq!(times[2], json!(["a.x", {"n": 2}, [], 1, [1, 1]]));
        assert_eq!(shown(&[], &one), json!([["a.x", {"n": 1, "s": "k"}, [], null, [0, 1]]]));
    }

    #[test]
    fn equal_calls_are_one_entry() {
        let twice = [call("b", json!({"n": 1})), call("b", json!({"n": 1}))];
        assert_eq!(shown(&twice, &twice), json!([["b", {"n": 1}, [], 2, [2, 2]]]));
    }

    #[test]
    fn a_plan_ends_where_a_rehearsal_failed() {
        let failure = Some((Some(3), "no".to_owned()));
        let failed = Rehearsal { undescribed: vec!["b".into()], failure, ..Rehearsal::default() };
        let plan = ScriptPlan::new(Rehearsal::default(), failed, &Bindings::default());
        let end = PlanEnd { line: Some(3), message: "no".into(), undescribed: vec!["b".into()] };
        assert_eq!((plan.complete, plan.unknown_from), (false, Some(end)));
        let plan =
            ScriptPlan::new(Rehearsal::default(), Rehearsal::default(), &Bindings::default());
        assert!(plan.complete && plan.calls.is_empty());
    }

    #[test]
    fn a_varying_argument_has_the_tools_of_its_values() {
        let mut one = call("a-x", json!({"n": 1, "s": "k"}));
        let tools = BTreeSet::from(["a-x".to_owned(), "b".to_owned()]);
        one.origins = BTreeMap::from([("n".to_owned(), tools.clone()), ("s".to_owned(), tools)]);
        let other = RehearsedCall {
            arguments: call("a-x", json!({"n": 2, "s": "k"})).arguments,
            ..one.clone()
        };
        let names = BTreeMap::from([("a-x", "a.x".to_owned())]);
        let planned = planned([&[one], &[other]], &names);
        assert_eq!(json!(planned[0].flows), json!({"n": ["a.x", "b"]}));
    }

    #[test]
    fn a_value_of_an_answer_varies_in_a_call_that_one_rehearsal_alone_makes() {
        let [one, another] = [1, 2].map(|n| {
            let tools = BTreeSet::from(["b".to_owned()]);
            let origins = BTreeMap::from([("n".to_owned(), tools)]);
            RehearsedCall { origins, ..call("a-x", json!({"n": n, "s": "k"})) }
        });
        let expected = json!([["a.x", {"s": "k"}, ["n"], null, [0, 2]]]);
        assert_eq!(shown(&[], &[one.clone(), another]), expected);
        let shown = plan(&[one], &[]);
        assert_eq!(shown.calls[0].written, shown.calls[0].arguments);
        assert_eq!(json!(shown.calls[0].flows), json!({"n": ["b"]}));
    }

    #[test]
    fn constant_parts_of_an_object_stay_constant_in_the_manifest() {
        let calls = ["one", "two"]
            .map(|body| call("b", json!({"m": {"to": "boss", "body": body}, "n": 1})));
        let manifest = plan(&calls[..1], &calls[1..]).manifest().expect("it is bounded");
        let lines = manifest.lines();
        assert_eq!(lines, [r#"b(n=1, m={"body":any value,"to":"boss"}): at most once"#]);
        let text = manifest.to_text();
        assert!(
            text.contains(r#""partial":{"m":{"object":{"body":"any","to":{"constant":"boss"}}}}"#)
        );
    }

    #[test]
    fn arguments_that_could_not_be_read_again_have_no_manifest() {
        for (depth, expected) in [(100, true), (126, false)] {
            let nested = (0..depth).fold(json!("x"), |inner, _| json!([inner]));
            let calls = [call("b", json!({"t": nested}))];
            assert_eq!(plan(&calls, &calls).manifest().is_some(), expected, "{depth}");
        }
    }

    #[test]
    fn a_manifest_has_what_the_script_writes_if_guards_leave_what_is_approved() {
        let left = call("a-x", json!({"s": "hidden"})).arguments;
        let mut changed = RehearsedCall { arguments: left, ..call("a-x", json!({"s": "secret"})) };
        changed.treatment.needs_approval = false;
        let calls = [changed.clone(), call("b", json!({"t": 1}))];
        let shown = plan(&calls, &calls);
        assert_eq!(shown.calls[0].arguments.constant, changed.arguments);
        let manifest = shown.manifest().expect("guards leave the call that needs an approval");
        assert_eq!(manifest.calls[0].arguments.constant, changed.written);
        changed.treatment.needs_approval = true;
        let calls = [changed];
        assert_eq!(plan(&calls, &calls).manifest(), None);
    }

    #[test]
    fn a_manifest_has_all_calls_that_are_made_if_those_that_need_an_approval_are_bounded() {
        let mut free = call("a-x", json!({"n": 1}));
        free.treatment.needs_approval = false;
        let asking = call("b", json!({"t": 1}));
        let calls = [free.clone(), asking.clone(), asking.clone()];
        let more = [free.clone(), free.clone(), asking.clone(), asking.clone()];
        let manifest = plan(&calls, &more).manifest().expect("the calls of b are bounded");
        let shown: Vec<_> = manifest
            .calls
            .iter()
            .map(|call| (call.tool.as_str(), call.at_most, call.needs_approval))
            .collect();
        assert_eq!(shown, [("a-x", None, false), ("b", Some(2), true)]);
        let mut refused = asking.clone();
        refused.treatment.refused = Some("no".into());
        let with_refused = [asking.clone(), refused.clone()];
        let manifest = plan(&with_refused, &with_refused).manifest().expect("one is made");
        assert_eq!(manifest.calls.len(), 1);
        let mut asked = asking.clone();
        asked.treatment.question = Some("sure?".into());
        let long = call("b", json!({"t": "x".repeat(MAX_QUESTION)}));
        for (first, second) in [
            (vec![free.clone()], vec![free]),
            (vec![asking.clone()], vec![asking.clone(), asking]),
            (vec![refused.clone()], vec![refused]),
            (vec![asked.clone()], vec![asked]),
            (vec![long.clone()], vec![long]),
        ] {
            assert_eq!(plan(&first, &second).manifest(), None, "{first:?}");
        }
        let failed = Rehearsal { failure: Some((None, "no".into())), ..Rehearsal::default() };
        let first = Rehearsal { calls: calls.to_vec(), ..Rehearsal::default() };
        assert_eq!(ScriptPlan::new(first, failed, &Bindings::default()).manifest(), None);
    }
}
