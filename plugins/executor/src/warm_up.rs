//! The run that fills the snapshot of an executor.

use crate::{Binding, Language, Request, Script, ToolAnswer, ToolError, Tools};

/// Runs a script that touches what usual runs need, as [`Language::prepare`]. It may call the tool
/// `tools.touch`, which is also `tools.Touch`.
///
/// # Panics
///
/// If the script fails, or leaves no result.
pub fn warm_up<L: Language>(name: &str, source: &str) {
    let touch = Binding {
        alias: Some("Touch".into()),
        ..Binding::in_namespace("tools", "touch", "tools-touch")
    };
    let script = Script::new(name, source, vec![touch].into());
    let outcome = L::run(&script, &Touch, &|_| ());
    assert!(matches!(outcome, Ok(Some(_))), "the warm-up script fails: {outcome:?}");
}

struct Touch;

impl Tools for Touch {
    fn call(&self, _: Request) -> Result<ToolAnswer, ToolError> {
        Ok(ToolAnswer::Json("{\"text\": [1, 2.5]}".into()))
    }
}
