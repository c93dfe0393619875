//! Decides about calls and their outcomes by rules of the operator. [`settings`] are the rules, [`condition`] are their
//! expressions in CEL, [`facts`] the values that an expression sees, and [`pattern`] the names of tools.

pub mod condition;
pub mod facts;
pub mod pattern;
pub mod settings;

use airlock_guest::{
    Error,
    guard::{Call, Guard, Hook, Outcome, Verdict},
};

use self::{
    condition::Condition,
    facts::Facts,
    settings::{Decision, Rule, Settings, When},
};

/// Code of the denial by a rule that cannot be evaluated.
const FAILED: &str = "rule_failed";

/// The guard.
#[derive(Debug)]
pub struct PolicyGuard;

impl Guard for PolicyGuard {
    const HOOKS: &'static [Hook] = &[Hook::Before, Hook::After];

    fn check_settings(settings: &str) -> Result<(), Error> {
        Settings::check(settings)
    }

    fn before(call: &Call) -> Result<Verdict, Error> {
        decide(call, When::Before, None)
    }

    fn after(call: &Call, outcome: &Outcome) -> Result<Verdict, Error> {
        decide(call, When::After, Some(outcome))
    }
}

airlock_guest::guard!(PolicyGuard);

/// Evaluates the rules for a call in their order. The first that denies it ends; the questions of the others are one.
fn decide(call: &Call, when: When, outcome: Option<&Outcome>) -> Result<Verdict, Error> {
    let Settings { rules } = call.settings()?;
    let mut rules = rules.iter().filter(|rule| rule.is_about(&call.tool, when)).peekable();
    if rules.peek().is_none() {
        return Ok(Verdict::Allow);
    }
    let facts = Facts::new(call, outcome)?;
    let mut questions = Vec::new();
    for rule in rules {
        match holds(rule, &facts) {
            Ok(false) => {}
            Ok(true) if rule.then == Decision::Ask => questions.push(rule.reason()),
            Ok(true) => return Ok(Verdict::deny(rule.name.as_str(), rule.reason())),
            Err(problem) => return Ok(Verdict::deny(FAILED, failure(rule, &problem))),
        }
    }
    Ok(if questions.is_empty() { Verdict::Allow } else { Verdict::ask(questions.join("; ")) })
}

fn holds(rule: &Rule, facts: &Facts) -> Result<bool, String> {
    Condition::parse(&rule.condition)?.holds(facts)
}

/// Returns the reason of the denial by a rule that cannot be evaluated. The problem may name a part of an outcome, which
/// the caller must not see.
fn failure(rule: &Rule, problem: &str) -> String {
    let name = &rule.name;
    match rule.when {
        When::Before => format!("the rule {name:?} cannot be evaluated: {problem}"),
        When::After => format!("the rule {name:?} cannot be evaluated"),
    }
}

#[cfg(test)]
mod tests;
