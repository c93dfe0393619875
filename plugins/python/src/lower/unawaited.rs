//! Finds values that a script never awaits: a `gather`, or a coroutine of its own; and tools that it names as a
//! statement and does not call.
//!
//! Such code makes no call and raises nothing, so that the script ends as if all were well. It is
//! found before the script runs where its value is dropped, or assigned to a name that is never read.

use std::collections::HashSet;
use std::sync::Arc;

use airlock_executor::{Binding, Bindings};
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprCall, ExprContext, Stmt};

use super::concurrency::attribute;
use super::lacks::Lack;
use super::syntax::Syntax;

/// Functions of `asyncio` whose value has to be awaited.
const AWAITABLE: [&str; 5] = ["gather", "create_task", "ensure_future", "shield", "wait_for"];

/// Finds what is never awaited, in the order of the script.
pub(super) fn find(syntax: &Syntax<'_>, bindings: &Bindings) -> Vec<Lack> {
    let mut names = FunctionNames::default();
    names.visit_body(syntax.body);
    let has_asyncio = syntax.mentions("asyncio");
    let mut finder = UnawaitedFinder { syntax, names, bindings, has_asyncio, found: Vec::new() };
    finder.visit_body(syntax.body);
    finder.found
}

/// The names of a script.
#[derive(Default)]
struct FunctionNames<'a> {
    /// Functions with `async def`.
    coroutines: HashSet<&'a str>,
    /// Names that have other values, too.
    others: HashSet<&'a str>,
    read: HashSet<&'a str>,
}

impl<'a> Visitor<'a> for FunctionNames<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::FunctionDef(function) = statement {
            let names = if function.is_async { &mut self.coroutines } else { &mut self.others };
            names.insert(function.name.as_str());
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(name) = expression {
            let is_read = name.ctx == ExprContext::Load;
            let names = if is_read { &mut self.read } else { &mut self.others };
            names.insert(name.id.as_str());
        }
        walk_expr(self, expression);
    }
}

struct UnawaitedFinder<'a> {
    syntax: &'a Syntax<'a>,
    names: FunctionNames<'a>,
    bindings: &'a Bindings,
    /// True if the script has the module. Without it, `gather` is a name that the run lacks.
    has_asyncio: bool,
    found: Vec<Lack>,
}

impl<'a> UnawaitedFinder<'a> {
    /// Reports a tool that is a statement of its own, without its call.
    fn uncalled(&mut self, value: &'a Expr) {
        let Some(tool) = self.tool(value) else { return };
        self.found.push(Lack {
            at: self.syntax.place(value),
            what: format!("`{tool}` is a tool, and this statement does not call it").into(),
            hint: format!("write `{tool}(…)`").into(),
        });
    }

    /// Returns the tool that an expression is: an attribute of a namespace, or a global function.
    fn tool(&self, expression: &'a Expr) -> Option<Arc<Binding>> {
        let (global, attribute) = match expression {
            Expr::Name(name) => (name, None),
            Expr::Attribute(attribute) => match &*attribute.value {
                Expr::Name(client) => (client, Some(attribute.attr.as_str())),
                _ => return None,
            },
            _ => return None,
        };
        let global = global.id.as_str();
        if self.syntax.names.bound.contains(global) {
            return None;
        }
        match attribute {
            None => self.bindings.function(global).cloned(),
            Some(name) if self.bindings.has(global) => self.bindings.find(global, name),
            Some(_) => None,
        }
    }

    /// Returns the call as the script writes it, without its arguments, if its value has to be
    /// awaited.
    fn awaitable(&self, call: &'a ExprCall) -> Option<String> {
        let is_coroutine = matches!(&*call.func, Expr::Name(name)
            if self.names.coroutines.contains(name.id.as_str())
                && !self.names.others.contains(name.id.as_str()));
        let is_awaitable =
            self.has_asyncio && attribute(call).is_some_and(|name| AWAITABLE.contains(&name));
        if !is_coroutine && !is_awaitable {
            return None;
        }
        let text = self.syntax.text(&*call.func);
        Some(if call.arguments.is_empty() { format!("{text}()") } else { format!("{text}(…)") })
    }

    fn dropped(&mut self, value: &'a Expr) {
        let Expr::Call(call) = value else { return };
        let Some(text) = self.awaitable(call) else { return };
        let at = self.syntax.place(call);
        self.found.push(Lack {
            what: format!("`{text}` at line {} is never awaited, so it does nothing", at.line)
                .into(),
            hint: format!("write `await {text}`").into(),
            at,
        });
    }
}

impl<'a> Visitor<'a> for UnawaitedFinder<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Expr(statement) => {
                self.dropped(&statement.value);
                self.uncalled(&statement.value);
            }
            Stmt::Assign(assignment) => {
                if let [Expr::Name(name)] = &*assignment.targets
                    && !self.names.read.contains(name.id.as_str())
                {
                    self.dropped(&assignment.value);
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use airlock_executor::FailureKind;
    use airlock_test_executors::embedded;

    use crate::Python;
    use crate::run::tests::{batches, fail};

    #[test]
    fn what_is_never_awaited_is_refused_before_the_script_runs() {
        for (source, what, line) in [
            ("import asyncio\nasyncio.gather(files.read_file(n = 1))", "asyncio.gather(…)", 2),
            (
                "import asyncio\nresult = asyncio.gather(files.read_file(n = 1))",
                "asyncio.gather(…)",
                2,
            ),
            ("from asyncio import gather\n\nx = gather(files.read_file(n = 1))", "gather(…)", 3),
            ("async def main():\n  await files.read_file(n = 1)\nmain()", "main()", 3),
            (
                "import asyncio\nasync def one(n):\n  return await files.read_file(n = n)\nasync def main():\n  one(2)\nasyncio.run(main())",
                "one(…)",
                5,
            ),
            (
                "import asyncio\nasyncio.create_task(files.read_file(n = 1))",
                "asyncio.create_task(…)",
                2,
            ),
        ] {
            let failure = fail(source);
            assert_eq!((failure.kind, failure.line), (FailureKind::Syntax, Some(line)), "{source}");
            let message = format!("`{what}` at line {line} is never awaited, so it does nothing");
            assert_eq!(failure.message, message, "{source}");
            let hint = format!("hint: write `await {what}`\n");
            assert!(failure.rendered.ends_with(&hint), "{}", failure.rendered);
        }
    }

    #[test]
    fn what_is_awaited_later_is_not_refused() {
        for (source, made) in [
            (
                "import asyncio\nx = asyncio.gather(files.read_file(n = 1), files.read_file(n = 2))\nresult = await x",
                vec![2],
            ),
            (
                "import asyncio\nasync def one(n):\n  return await files.read_file(n = n)\nt = asyncio.create_task(one(1))\nresult = await t",
                vec![1],
            ),
            ("async def f():\n  pass\ndef f():\n  return files.read_file(n = 1)\nf()", vec![1]),
            ("def gather_all():\n  files.read_file(n = 1)\ngather_all()", vec![1]),
        ] {
            assert_eq!(batches(source), made, "{source}");
        }
    }

    #[test]
    fn a_global_function_is_refused_without_its_call_or_its_await() {
        let failure = embedded::fail::<Python>("x = 1\nread");
        assert_eq!((failure.kind, failure.line), (FailureKind::Syntax, Some(2)));
        let message = "`read` is a tool, and this statement does not call it";
        assert_eq!(failure.message, message);
        let source =
            "async def f(skip):\n  x = read(1)\n  if not skip:\n    return await x\nawait f(True)";
        let failure = embedded::fail::<Python>(source);
        assert_eq!(failure.kind, FailureKind::Runtime);
        assert!(failure.message.starts_with("`read(…)` was never awaited"), "{}", failure.message);
        // A name that the script binds is not the function.
        assert_eq!(embedded::result::<Python>("read = 1\nread").as_deref(), Some("1"));
        let failure = embedded::fail::<Python>("async def main():\n  return read(1)\nmain()");
        assert_eq!((failure.kind, failure.line), (FailureKind::Syntax, Some(3)));
    }

    #[test]
    fn a_call_that_was_never_made_fails_the_run() {
        let source = "import asyncio\nasync def f(skip):\n  x = files.read_file(n = 1)\n  if not skip:\n    return await x\nresult = await f(True)";
        let failure = fail(source);
        assert_eq!(failure.kind, FailureKind::Runtime);
        let message = "`files.read_file(…)` was never awaited, so the call was not made";
        assert_eq!(failure.message, message);
        assert!(failure.rendered.contains("hint: write `await"), "{}", failure.rendered);
    }
}
