//! The parts of `asyncio` that scripts use beyond the interpreter's `gather` and `run`, and failures of awaited
//! calls.
//!
//! The interpreter ends a task whose awaited call fails, whatever the script catches around it. So a
//! failed call gives a value, and every `await` that may give one raises it: `await x` becomes
//! `_airlock_one(await x)`. The functions for this are in a prelude before the script.

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprAwait, ExprCall, Stmt, StmtWith};
use ruff_text_size::{Ranged as _, TextRange};

use super::source::Edit;
use super::syntax::Syntax;

/// Functions that changed scripts call. Lines before the script, whose places are left out of
/// failures.
pub(super) const PRELUDE: &str = include_str!("prelude.py");

/// Attributes of `asyncio` that stand for functions of the prelude. Tasks need no start: what is
/// awaited together runs at the same time. The host bounds how many calls do, so semaphores do
/// nothing.
const REPLACED: [(&str, &str); 7] = [
    ("create_task", "_airlock_task"),
    ("ensure_future", "_airlock_task"),
    ("shield", "_airlock_task"),
    ("wait_for", "_airlock_wait_for"),
    ("Semaphore", "_airlock_nothing"),
    ("BoundedSemaphore", "_airlock_nothing"),
    ("Lock", "_airlock_nothing"),
];

/// Returns the changes.
pub(super) fn edits(syntax: &Syntax<'_>) -> Vec<Edit> {
    let mut finder = ConcurrencyFinder { syntax, edits: Vec::new() };
    finder.visit_body(syntax.body);
    finder.edits
}

struct ConcurrencyFinder<'s> {
    syntax: &'s Syntax<'s>,
    edits: Vec<Edit>,
}

impl ConcurrencyFinder<'_> {
    /// Puts an `await` into the call that raises what it gives.
    fn awaited(&mut self, expression: &ExprAwait) {
        let is_direct =
            matches!(&*expression.value, Expr::Call(call) if attribute(call) != Some("gather"));
        let raise = if is_direct { "_airlock_one(" } else { "_airlock_any(" };
        self.edits.extend(Edit::wrap(expression, raise));
    }

    fn call(&mut self, call: &ExprCall) {
        let Some(name) = attribute(call) else { return };
        if let Some((_, with)) = REPLACED.iter().find(|(replaced, _)| *replaced == name) {
            self.edits.extend(self.syntax.replace(&*call.func, *with));
        } else if name == "gather" && !call.arguments.keywords.is_empty() {
            self.edits.extend(self.syntax.replace(&*call.func, "_airlock_gather"));
        }
    }

    /// Replaces `async with semaphore:` by `if True:`.
    fn guard(&mut self, with: &StmtWith) {
        let [item] = &*with.items else { return };
        let is_guard =
            matches!(item.context_expr, Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_));
        let mut rest = self.syntax.tokens(TextRange::new(item.end(), with.end()));
        // Nothing is in brackets around it.
        let is_last = rest.next().is_some_and(|token| token.kind() == TokenKind::Colon);
        if with.is_async && is_guard && item.optional_vars.is_none() && is_last {
            let head = TextRange::new(with.start(), item.end());
            self.edits.extend(self.syntax.replace(&head, "if True"));
        }
    }
}

/// Returns the attribute of `asyncio` that a call calls, or the imported `gather`.
pub(super) fn attribute(call: &ExprCall) -> Option<&str> {
    match &*call.func {
        Expr::Attribute(attribute) => match &*attribute.value {
            Expr::Name(module) if module.id.as_str() == "asyncio" => Some(attribute.attr.as_str()),
            _ => None,
        },
        Expr::Name(name) if name.id.as_str() == "gather" => Some("gather"),
        _ => None,
    }
}

impl<'a> Visitor<'a> for ConcurrencyFinder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::With(with) = statement {
            self.guard(with);
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Await(awaited) => self.awaited(awaited),
            Expr::Call(call) => self.call(call),
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use airlock_executor::FailureKind;

    use crate::run::tests::{batches, fail, result};

    #[test]
    fn a_failed_call_is_caught_in_the_coroutine_that_awaits_it() {
        let source = "
import asyncio
async def safe(n):
    try:
        return await (files.fail(n = n) if n == 1 else files.read_file(n = n))
    except ToolError as error:
        return [error.code, error.data['n']]
result = await asyncio.gather(*[safe(n) for n in range(3)])
";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":0},["no_way",1],{"n":2}]"#));
        assert_eq!(batches(source), [3]);
    }

    #[test]
    fn failures_of_calls_that_are_awaited_together_are_raised_there() {
        let source = "
import asyncio
async def both():
    try:
        return await asyncio.gather(files.read_file(n = 1), files.fail(n = 2))
    except ToolError as error:
        return error.data
calls = [files.fail(n = 3)]
pending = asyncio.gather(*calls)
try:
    await pending
except ToolError as error:
    result = [error.data, await both()]
";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":3},{"n":2}]"#));
    }

    #[test]
    fn failures_are_returned_if_the_script_asks_for_that() {
        let source = "
import asyncio
async def bad():
    return {}['x']
found = await asyncio.gather(files.read_file(n = 1), files.fail(n = 2), bad(), return_exceptions=True)
result = [isinstance(it, Exception) and str(it) or it for it in found]
";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":1},"refused","'x'"]"#));
        let raised = source.replace("True", "False");
        assert!(matches!(fail(&raised).kind, FailureKind::Runtime | FailureKind::Tool));
    }

    #[test]
    fn tasks_timeouts_and_semaphores_are_accepted() {
        let source = "
import asyncio
sem = asyncio.Semaphore(2)
async def get(n):
    async with sem:
        return await asyncio.wait_for(files.read_file(n = n), timeout=5)
tasks = [asyncio.create_task(get(n)) for n in range(2)] + [asyncio.create_task(files.read_file(n = 9))]
result = await asyncio.gather(*tasks)
";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":0},{"n":1},{"n":9}]"#));
        assert_eq!(batches(source), [3]);
    }
}
