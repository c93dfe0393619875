//! Changes in a script that the interpreter does not take as it is.
//!
//! A changed script has the same lines as the original, and every place in it has a place in the
//! original ([`source`]). Most scripts are not changed and not even parsed here: the interpreter
//! parses them itself.

mod calls;
mod concurrency;
mod dataclasses;
mod decorators;
mod deletions;
mod errors;
mod flow;
mod habits;
pub(crate) mod lacks;
pub(crate) mod library;
mod limits;
mod methods;
mod names;
mod numbers;
pub(crate) mod percent;
mod prelude;
pub(crate) mod source;
mod unawaited;

use airlock_executor::Bindings;
use monty_types::MontyObject;
use ruff_python_ast::Stmt;
use ruff_python_parser::parse_module;

use self::lacks::Lack;
use self::names::Names;
use self::source::{Edit, Text};

/// First argument of a call that the script awaits. The call is made when the script waits, at the
/// same time as the others that it waits for.
pub(crate) const LATER: MontyObject = MontyObject::Ellipsis;
/// [`LATER`] as it is written into a call.
const LATER_TEXT: &str = "...";
/// The class of what an awaited call gives if its tool failed.
pub(crate) const FAILED: &str = "_airlock_failed";
/// Function that a changed script calls with an object of that class, to raise the failure.
pub(crate) const RAISE: &str = "_airlock_raise";
/// Function that a changed script calls with a caught exception. Returns an object with the
/// exception's attributes, because the interpreter's exceptions have none.
pub(crate) const CAUGHT: &str = "_airlock_caught";
/// Function that a changed script calls with a caught exception, to write it for people. Returns
/// `None` for those that the interpreter writes itself.
pub(crate) const SHOWN: &str = "_airlock_shown";
/// Function that a changed script calls for `format % value`, by way of the prelude's
/// `_airlock_percent`.
pub(crate) const PERCENT: &str = "_airlock_formatted";
/// The type that tools raise, as scripts write it.
pub(crate) const TOOL_ERROR: &str = "ToolError";

/// Text without which a script needs no change.
const SIGNS: [&str; 19] = [
    "await",
    "asyncio",
    "except",
    TOOL_ERROR,
    "del ",
    "import",
    "%",
    "|",
    "(",
    "] =",
    "],",
    prelude::OWN,
    "self.",
    "+",
    "//",
    "<",
    ">",
    " -",
    ".",
];

/// A script as the interpreter takes it.
pub(crate) struct Lowered<'a> {
    /// The script and its changes.
    pub(crate) text: Text<'a>,
    /// Names and functions that a script may not have, or values that it never awaits, and tools that
    /// it names and does not call.
    pub(crate) refused: Vec<Lack>,
}

impl<'a> Lowered<'a> {
    /// Changes a script where the interpreter needs it. A script that does not parse stays as it
    /// is, and the interpreter reports the error.
    pub(crate) fn of(source: &'a str, bindings: &Bindings) -> Self {
        let parsed = SIGNS.iter().any(|sign| source.contains(sign)).then(|| parse_module(source));
        let Some(Ok(parsed)) = parsed else {
            let text = Text::new(source, String::new(), Vec::new());
            return Self { text, refused: Vec::new() };
        };
        let body = &parsed.syntax().body;
        let refused = limits::find(source, body);
        if !refused.is_empty() {
            let text = Text::new(source, String::new(), Vec::new());
            return Self { text, refused };
        }
        let names = Names::of(body);
        let (edits, prelude) = changes(source, body, &names, bindings);
        let refused = unawaited::find(source, body, bindings);
        Self { text: Text::new(source, prelude, edits), refused }
    }

    /// Returns the program whose value is that of the script's `result`.
    pub(crate) fn program(&self) -> String {
        // An empty line ends the script even if its last line has a backslash at the end.
        let end = if self.text.source.contains("result") { "\n\nresult\n" } else { "\n\nNone\n" };
        self.text.program(end)
    }
}

/// Returns the changes of a script, and the text to put before it.
fn changes(
    source: &str,
    body: &[Stmt],
    names: &Names<'_>,
    bindings: &Bindings,
) -> (Vec<Edit>, String) {
    let (mut edits, mut prelude) = (Vec::new(), String::new());
    if source.contains("await") || source.contains("asyncio") {
        edits.extend(flow::edits(body, bindings));
        edits.extend(concurrency::edits(source, body));
        if !edits.is_empty() {
            prelude.push_str(concurrency::PRELUDE);
        }
    }
    if source.contains("except") || source.contains(TOOL_ERROR) {
        edits.extend(errors::edits(source, body));
    }
    if source.contains("import") {
        let (imports, library) = library::edits(source, body);
        edits.extend(imports);
        prelude.push_str(&library);
    }
    if source.contains('@') && source.contains("class ") {
        let (functions, decorators) = decorators::edits(source, body);
        edits.extend(decorators);
        prelude.push_str(&functions);
    }
    edits.extend(habits::edits(source, body, names));
    edits.extend(numbers::edits(body, names));
    edits.extend(calls::edits(body, names, bindings));
    edits.extend(methods::edits(source, body, names, bindings));
    if source.contains("del ") {
        edits.extend(deletions::edits(source, body));
    }
    let called = edits.iter().map(|edit| &*edit.insert);
    let functions = prelude::functions(called.chain([&*prelude]));
    (edits, prelude::shielded(prelude + &functions, names))
}
