//! Settings of the guard: the rules.

use std::collections::BTreeSet;

use airlock_guest::{Error, guard::parse_settings};
use serde::Deserialize;

use crate::{
    condition::Condition,
    facts::{AFTER, BEFORE},
    pattern,
};

/// Maximum length of the name of a rule, in bytes, as of the code of a denial (`guard.wit`), which it is.
const MAX_NAME_BYTES: usize = 64;

/// Settings of the guard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which no other rule has.
    pub name: String,
    /// The tools that it is about; `None` for all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// The hook in which it is evaluated.
    #[serde(default)]
    pub when: When,
    /// The expression in CEL.
    #[serde(rename = "if")]
    pub condition: String,
    /// The decision if the expression is true.
    pub then: Decision,
    /// The reason, for the caller and the model.
    #[serde(default)]
    reason: Option<String>,
}

/// Hook in which a rule is evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The hook before the call.
    #[default]
    Before,
    /// The hook after the call.
    After,
}

/// Decision of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call is not made, or its outcome is withheld.
    Deny,
    /// The call needs an approval.
    Ask,
}

impl Settings {
    /// Fails at the first rule that cannot be used.
    pub fn check(text: &str) -> Result<(), Error> {
        let Self { rules } = parse_settings(text)?;
        if rules.is_empty() {
            return Err(Error::invalid_input("rules: is empty, so that nothing is denied"));
        }
        let mut names = BTreeSet::new();
        for (index, rule) in rules.iter().enumerate() {
            let is_new = names.insert(rule.name.as_str());
            let problem = rule.problem().or_else(|| {
                (!is_new).then(|| ("name", format!("another rule is named {:?}", rule.name)))
            });
            if let Some((key, problem)) = problem {
                return Err(Error::invalid_input(format!("rules[{index}].{key}: {problem}")));
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Returns whether the rule is evaluated for a tool in a hook.
    pub fn is_about(&self, tool: &str, when: When) -> bool {
        let tools = self.tools.as_ref();
        self.when == when
            && tools.is_none_or(|tools| tools.iter().any(|text| pattern::matches(text, tool)))
    }

    /// Returns the reason of its decision.
    pub fn reason(&self) -> String {
        let reason = self.reason.clone();
        reason.unwrap_or_else(|| format!("the rule {:?} applies", self.name))
    }

    /// Returns the key that is not valid, and the problem with it.
    fn problem(&self) -> Option<(&'static str, String)> {
        let name = &self.name;
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !is_name {
            let valid = format!("1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` or `-`");
            return Some(("name", format!("expected {valid}, found {name:?}")));
        }
        let tools = self.tools.as_deref();
        if tools.is_some_and(<[String]>::is_empty) {
            return Some(("tools", "is empty; leave it out for all".to_owned()));
        }
        let bad = tools.unwrap_or_default().iter().find(|text| !pattern::is_pattern(text));
        if let Some(bad) = bad {
            return Some(("tools", format!("{bad:?} is the full name of no tool: `CLIENT-TOOL`")));
        }
        if self.when == When::After && self.then == Decision::Ask {
            return Some(("then", "after the call, nothing can be asked".to_owned()));
        }
        let known = if self.when == When::Before { BEFORE } else { AFTER };
        let condition = Condition::parse(&self.condition);
        let checked = condition.and_then(|condition| condition.check_names(known));
        checked.err().map(|problem| ("if", problem))
    }
}
