//! Hints for failures of scripts: what to write instead.

use crate::Bindings;

/// One habit of models, and the text of its hint.
pub struct Hint {
    errors: &'static [&'static str],
    say: &'static str,
}

/// Creates the entry of a table: the hint `say` applies if an error contains one of `errors`.
pub const fn hint(errors: &'static [&'static str], say: &'static str) -> Hint {
    Hint { errors, say }
}

/// Returns the first hint that applies to an error; `None` if none does.
pub fn first_hint(hints: &[Hint], error: &str) -> Option<&'static str> {
    let mut hints = hints.iter();
    let hint = hints.find(|hint| hint.errors.iter().any(|part| error.contains(part)))?;
    Some(hint.say)
}

impl Bindings {
    /// Returns a hint for an error that names the last tool which [`Bindings::look_up`] did not find;
    /// `None` for any other error.
    pub fn hint_for_missed(&self, error: &str) -> Option<String> {
        let (namespace, name) = self.missed()?;
        error.contains(&name).then(|| {
            let tools = quoted_list(&self.names(&namespace));
            format!("`{namespace}` has no tool `{name}`; it has {tools}")
        })
    }

    /// Returns a hint for a name that the script does not bind: the tool that it means, or the
    /// functions and the namespaces.
    pub fn hint_for_name(&self, name: &str) -> String {
        if let Some(tool) = self.spelled(name) {
            return format!("a tool is called as an attribute of its client: `{tool}(…)`");
        }
        let functions = self.function_names();
        let namespaces = self.namespaces();
        let known: Vec<_> = [("the functions are", functions), ("the tools are under", namespaces)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} {}", quoted_list(&names)))
            .collect();
        if known.is_empty() {
            return "no tools are bound to this script".into();
        }
        known.join(", and ")
    }

    /// Returns a hint for the import of a name that is a global already; `None` for any other.
    pub fn hint_for_import(&self, name: &str) -> Option<String> {
        let (what, call) = if self.has(name) {
            ("client", format!("{name}.TOOL(…)"))
        } else {
            self.function(name)?;
            ("function", format!("{name}(…)"))
        };
        Some(format!(
            "`{name}` is a {what}, and already a name: leave the import out and call `{call}`"
        ))
    }
}

/// Returns names with commas between them.
pub(crate) fn quoted_list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
