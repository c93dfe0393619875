//! What a plugin asks for, as a person reads it before granting anything.

use serde::Serialize;

use crate::{
    plugin::Facts,
    text::{visible, visible_line},
};

/// One thing that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Wish {
    /// Which: `http.api`. Also what `--grant` calls it.
    pub(super) place: String,
    /// What exactly, in the words of the lock file.
    pub(super) what: Vec<String>,
    /// Why, as its author says.
    pub(super) reason: String,
    /// Whether the plugin can do without.
    pub(super) optional: bool,
}

impl Wish {
    /// Everything that a plugin's manifest asks for with a reason.
    pub(super) fn all(facts: &Facts) -> Vec<Self> {
        let lines = facts.requests();
        let Some(manifest) = &facts.manifest else { return Vec::new() };
        let wish = |(place, reason, optional): (String, &str, bool)| {
            let details =
                lines.iter().filter_map(|line| line.strip_prefix(&place)?.strip_prefix(' '));
            Self {
                what: details.map(visible_line).collect(),
                reason: visible(reason),
                place: visible_line(&place),
                optional,
            }
        };
        manifest.request.asked().map(wish).collect()
    }

    /// For people: what, then why.
    pub(super) fn lines(&self) -> [String; 2] {
        let Self { place, what, reason, optional } = self;
        let need = if *optional { "optional" } else { "required" };
        let what = what.join(", ");
        [
            format!("  {place} {what}").trim_end().to_owned() + &format!("  ({need})"),
            format!("      {}", one_line(reason)),
        ]
    }
}

/// What one call says that it needs to spend; no reason is asked for these.
pub(super) fn limits(facts: &Facts) -> Vec<String> {
    facts
        .requests()
        .iter()
        .filter_map(|line| line.strip_prefix("limits."))
        .map(visible_line)
        .collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
