//! Requests of a plugin, as an operator reads them before granting anything.

use serde::Serialize;

use crate::{
    plugin::Facts,
    text::{one_line, visible, visible_line},
};

/// One request of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Wish {
    /// Place of the request, such as `http.api`; `--grant` uses the same name.
    pub(super) place: String,
    /// Details of the request, in the wording of the lock file.
    pub(super) what: Vec<String>,
    /// Reason that the author states.
    pub(super) reason: String,
    /// True if the plugin works without it.
    pub(super) optional: bool,
}

impl Wish {
    /// Returns every request of a plugin's manifest that states a reason.
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

    /// Formats the request for people: the request itself, then the reason.
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

/// Returns the limits that a plugin requests for one call; these state no reason.
pub(super) fn limits(facts: &Facts) -> Vec<String> {
    facts
        .requests()
        .iter()
        .filter_map(|line| line.strip_prefix("limits."))
        .map(visible_line)
        .collect()
}
