//! Two rehearsals of a script → its plan.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::rehearsal::{Rehearsal, RehearsedCall};
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
    /// Arguments that do not depend on answers.
    pub arguments: Map<String, Value>,
    /// Names of the arguments that depend on answers.
    pub varying: Vec<String>,
    /// Number of the calls; `None` if it depends on answers.
    pub times: Option<usize>,
    /// Number of the calls in each rehearsal.
    pub rehearsed: [usize; 2],
    /// True if each call waits for an approval.
    pub needs_approval: bool,
    /// True if the tool says that it changes nothing.
    pub read_only: bool,
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
            let name = names.get(tool).map_or(tool, String::as_str);
            add(&mut planned, name, first.get(at).copied(), second.get(at).copied());
        }
        all.append(&mut planned);
    }
    all
}

/// Adds the calls that two rehearsals made at the same turn, or one of them.
fn add(
    planned: &mut Vec<PlannedCall>,
    name: &str,
    first: Option<&RehearsedCall>,
    second: Option<&RehearsedCall>,
) {
    let Some(call) = first.or(second) else { return };
    let other = first.and(second).unwrap_or(call);
    let (constant, varying) = compared(&call.arguments, &other.arguments);
    let is_in_one = first.is_none() || second.is_none();
    let same = planned.iter_mut().find(|known| {
        // A call of one rehearsal alone is one more of those that depend on answers.
        let is_like = is_in_one && known.permits(&call.arguments);
        is_like || (known.arguments == constant && known.varying == varying)
    });
    let counted = [usize::from(first.is_some()), usize::from(second.is_some())];
    match same {
        Some(known) => {
            known.rehearsed[0] += counted[0];
            known.rehearsed[1] += counted[1];
            known.times = exact(known.rehearsed);
        }
        None => planned.push(PlannedCall {
            tool: call.tool.clone(),
            name: name.to_owned(),
            arguments: constant,
            varying,
            times: exact(counted),
            rehearsed: counted,
            needs_approval: call.needs_approval,
            read_only: call.is_read_only,
        }),
    }
}

impl PlannedCall {
    /// Returns whether the arguments are these, but for those that vary.
    fn permits(&self, arguments: &Map<String, Value>) -> bool {
        let constant =
            self.arguments.iter().all(|(name, value)| arguments.get(name) == Some(value));
        let mut names = arguments.keys();
        constant
            && names.all(|name| self.arguments.contains_key(name) || self.varying.contains(name))
    }
}

/// Returns the arguments that are the same in both, and the names of the others.
fn compared(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
) -> (Map<String, Value>, Vec<String>) {
    let mut constant = Map::new();
    let mut varying = Vec::new();
    for (name, value) in one {
        if other.get(name) == Some(value) {
            constant.insert(name.clone(), value.clone());
        } else {
            varying.push(name.clone());
        }
    }
    varying.extend(other.keys().filter(|name| !one.contains_key(*name)).cloned());
    varying.sort_unstable();
    (constant, varying)
}

fn exact([first, second]: [usize; 2]) -> Option<usize> {
    (first == second).then_some(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(tool: &str, arguments: Value) -> RehearsedCall {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        RehearsedCall { tool: tool.into(), arguments, needs_approval: true, is_read_only: false }
    }

    /// Returns the tool, the constant and the varying arguments and the times of each entry.
    fn shown(first: &[RehearsedCall], second: &[RehearsedCall]) -> Value {
        let names = BTreeMap::from([("a-x", "a.x".to_owned())]);
        let planned = planned([first, second], &names);
        let rows = planned.iter().map(|call| {
            json!([call.name, call.arguments, call.varying, call.times, call.rehearsed])
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
        let failed = Rehearsal { calls: Vec::new(), undescribed: vec!["b".into()], failure };
        let plan = ScriptPlan::new(Rehearsal::default(), failed, &Bindings::default());
        let end = PlanEnd { line: Some(3), message: "no".into(), undescribed: vec!["b".into()] };
        assert_eq!((plan.complete, plan.unknown_from), (false, Some(end)));
        let plan =
            ScriptPlan::new(Rehearsal::default(), Rehearsal::default(), &Bindings::default());
        assert!(plan.complete && plan.calls.is_empty());
    }
}
