//! Changes in a script that the interpreter does not take as it is.
//!
//! A changed script has the same lines as the original, and every place in it has a place in the
//! original ([`source`]).

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
mod syntax;
mod unawaited;

use std::collections::BTreeMap;

use airlock_executor::{Bindings, Script, SourceCall, ToolFlow};
use monty_types::MontyObject;
use ruff_python_ast::Stmt;
use ruff_python_ast::token::TokenKind;
use ruff_python_parser::parse_module;

use self::lacks::Lack;
use self::source::{Edit, Text};
use self::syntax::Syntax;
use crate::source_calls::source_calls;
use crate::source_flow::tool_flows;

/// A script as the interpreter takes it.
pub(crate) struct Lowered<'a> {
    /// The script and its changes.
    pub(crate) text: Text<'a>,
    /// Names and functions that a script may not have, or values that it never awaits, and tools that
    /// it names and does not call.
    pub(crate) refused: Vec<Lack>,
    /// True if the value of the script is that of its last statement, an expression.
    pub(crate) ends_with_value: bool,
    /// The calls of tools that the source shows.
    pub(crate) calls: Vec<SourceCall>,
    /// What the arguments of calls may come from; `None` if the host does not ask for it, or the source does not
    /// show it.
    pub(crate) flows: Option<Vec<ToolFlow>>,
}

impl<'a> Lowered<'a> {
    /// Changes a script where the interpreter needs it. A script that does not parse stays as it
    /// is, and the interpreter reports the error.
    pub(crate) fn new(script: &'a Script, inputs: &BTreeMap<String, MontyObject>) -> Self {
        let Script { source, bindings, .. } = script;
        let Ok(parsed) = parse_module(source) else { return Self::unchanged(source, Vec::new()) };
        let functions = bindings.functions().map(|function| &*function.name);
        let given = functions.chain(inputs.keys().map(String::as_str)).collect();
        let syntax = Syntax::new(source, &parsed, given);
        let refused = limits::find(&syntax);
        if !refused.is_empty() {
            return Self::unchanged(source, refused);
        }
        let (edits, prelude) = changes(&syntax, bindings);
        let refused = unawaited::find(&syntax, bindings);
        let ends_with_value = script.last_expression && ends_with_value(&syntax);
        let calls = source_calls(syntax.body, bindings, &|name| inputs.contains_key(name));
        let followed = script.follows_values.then_some(syntax.body);
        let flows =
            followed.and_then(|body| tool_flows(body, bindings, &|name| inputs.contains_key(name)));
        let text = Text::new(source, prelude, edits);
        Self { text, refused, ends_with_value, calls, flows }
    }

    fn unchanged(source: &'a str, refused: Vec<Lack>) -> Self {
        let text = Text::new(source, String::new(), Vec::new());
        let calls = Vec::new();
        Self { text, refused, ends_with_value: false, calls, flows: None }
    }

    /// Returns the program whose value is that of the script's `result`, which is `None` if the script
    /// does not bind it, or that of its last statement.
    pub(crate) fn program(&self) -> String {
        // An empty line ends the script even if its last line has a backslash at the end. The value of
        // a program is that of its last expression.
        self.text.program(if self.ends_with_value { "\n\n" } else { "\n\nresult\n" })
    }
}

/// Returns whether the last statement has a value, and the script binds no `result` in its place.
fn ends_with_value(syntax: &Syntax<'_>) -> bool {
    // `…` alone stands for nothing.
    matches!(syntax.body.last(), Some(Stmt::Expr(last)) if !last.value.is_ellipsis_literal_expr())
        && !syntax.names.binds_result
}

/// Returns the changes of a script, and the text to put before it.
fn changes(syntax: &Syntax<'_>, bindings: &Bindings) -> (Vec<Edit>, String) {
    let mut edits = Vec::new();
    let mut prelude = String::new();
    if syntax.has(TokenKind::Await) || syntax.mentions("asyncio") {
        edits.extend(flow::edits(syntax.body, bindings));
        edits.extend(concurrency::edits(syntax));
        if !edits.is_empty() {
            prelude.push_str(concurrency::PRELUDE);
        }
    }
    edits.extend(errors::edits(syntax));
    if syntax.has(TokenKind::Import) {
        let (imports, library) = library::edits(syntax);
        edits.extend(imports);
        prelude.push_str(&library);
    }
    let (functions, decorators) = decorators::edits(syntax);
    edits.extend(decorators);
    prelude.push_str(&functions);
    edits.extend(habits::edits(syntax));
    edits.extend(numbers::edits(syntax));
    edits.extend(calls::edits(syntax, bindings));
    edits.extend(methods::edits(syntax, bindings));
    edits.extend(deletions::edits(syntax));
    let called = edits.iter().map(|edit| &*edit.insert);
    let functions = prelude::functions(called.chain([&*prelude]));
    let prelude = prelude::shielded(prelude + &functions, &syntax.names);
    (edits, prelude + &prelude::given(&syntax.names))
}
