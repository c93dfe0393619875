//! Tools in the functions that a script passes to `sorted`, `map` and the like.
//!
//! The interpreter calls such a function where it cannot wait for a tool. So these built-in functions
//! are written in Python (`library/calls.py`) where the function may call one.

use std::cell::OnceCell;
use std::collections::HashSet;

use airlock_executor::Bindings;
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, ExprCall, ExprContext};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::names::{Names, read_names};
use super::source::Edit;
use super::syntax::Syntax;

/// Built-in functions that call one of their arguments.
const CALLERS: [&str; 5] = ["filter", "map", "max", "min", "sorted"];

/// Returns the changes.
pub(super) fn edits(syntax: &Syntax<'_>, bindings: &Bindings) -> Vec<Edit> {
    let mut finder =
        CallFinder { names: &syntax.names, bindings, callers: OnceCell::new(), edits: Vec::new() };
    finder.visit_body(syntax.body);
    finder.edits
}

struct CallFinder<'s> {
    names: &'s Names<'s>,
    bindings: &'s Bindings,
    /// Functions of the script that may call a tool; found when the first is passed.
    callers: OnceCell<HashSet<&'s str>>,
    edits: Vec<Edit>,
}

impl<'s> CallFinder<'s> {
    /// Returns whether a function may call a tool.
    fn calls(&self, function: &Expr) -> bool {
        match function {
            Expr::Attribute(attribute) => {
                matches!(&*attribute.value, Expr::Name(of) if self.bindings.has(of.id.as_str()))
            }
            Expr::Name(name) => {
                let name = name.id.as_str();
                self.bindings.function(name).is_some() || self.callers().contains(name)
            }
            Expr::Lambda(lambda) => read_names(&lambda.body).into_iter().any(|name| {
                self.callers().contains(name) || self.bindings.is_tool_or_namespace(name)
            }),
            _ => false,
        }
    }

    fn callers(&self) -> &HashSet<&'s str> {
        self.callers.get_or_init(|| {
            self.names.functions_with(|name| self.bindings.is_tool_or_namespace(name))
        })
    }

    fn call(&mut self, call: &ExprCall) {
        let named = call.arguments.find_keyword("key").map(|keyword| &keyword.value);
        match &*call.func {
            Expr::Name(name)
                if CALLERS.contains(&name.id.as_str())
                    && self.names.is_builtin(name.id.as_str()) =>
            {
                let first = matches!(name.id.as_str(), "filter" | "map");
                let function = if first { call.arguments.args.first() } else { named };
                if function.is_some_and(|function| self.calls(function)) {
                    self.edits.push(Edit::replace(name.range(), format!("_airlock_{}", name.id)));
                }
            }
            Expr::Attribute(method) if method.attr.as_str() == "sort" => {
                if let Expr::Name(list) = &*method.value
                    && named.is_some_and(|key| self.calls(key))
                {
                    let bracket = TextRange::at(call.arguments.start(), TextSize::of('('));
                    self.edits.push(Edit::replace(method.range(), "_airlock_sort"));
                    self.edits.push(Edit::replace(bracket, format!("({}, ", list.id)));
                }
            }
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for CallFinder<'_> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => self.call(call),
            Expr::Name(name)
                if name.id.as_str() == "callable"
                    && name.ctx == ExprContext::Load
                    && self.names.is_builtin("callable") =>
            {
                self.edits.push(Edit::replace(name.range(), "_airlock_callable"));
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use airlock_test_executors::embedded;

    use crate::Python;
    use crate::run::tests::{fail, result};

    #[test]
    fn a_key_function_may_call_tools() {
        let many = "def key(n): return read(n)\ndef read(n): return -files.read_file(n=n)['n']\nxs = [3, 1, 2]\n";
        for (expression, value) in [
            ("sorted(xs, key=lambda n: files.read_file(n=-n)['n'])", "[3,2,1]"),
            ("sorted(xs, key=key, reverse=True)", "[1,2,3]"),
            ("[max(xs, key=key), min(3, 1, key=key), max([], key=key, default=7)]", "[1,3,7]"),
            ("list(map(lambda n, m: files.read_file(n=n)['n'] + m, xs, [1, 1]))", "[4,2]"),
            ("[x for x in filter(lambda n: files.read_file(n=n)['n'] > 1, xs)]", "[3,2]"),
            ("xs.sort(key=lambda n: files.read_file(n=n)['n']) or xs", "[1,2,3]"),
            ("[d['n'] for d in map(files.read_file, [{'n': 1}])]", "[1]"),
        ] {
            let source = format!("{many}result = {expression}");
            assert_eq!(result(&source).as_deref(), Some(value), "{expression}");
        }
        let failure = fail(&format!("{many}max([], key=key)"));
        assert_eq!(failure.message, "ValueError: max() iterable argument is empty");
    }

    #[test]
    fn a_key_function_may_lead_to_a_tool_through_many_functions() {
        let mut source = "def f0(n): return -files.read_file(n=n)['n']\n".to_owned();
        for at in 1..8 {
            let _ = writeln!(source, "def f{at}(n): return f{}(n)", at - 1);
        }
        let chain = format!("{source}result = sorted([1, 3, 2], key=f7)");
        assert_eq!(result(&chain).as_deref(), Some("[3,2,1]"));
        // Each of the functions names both twenty times, and none a tool.
        let body = ["f(n - 1) + g(n - 1)"; 20].join(" + ");
        let cycle = format!(
            "def f(n): return n if n < 3 else {body}\ndef g(n): return f(n)\nresult = sorted([2, 1], key=f)"
        );
        assert_eq!(result(&cycle).as_deref(), Some("[1,2]"));
    }

    #[test]
    fn a_key_function_may_be_or_call_a_global_function() {
        embedded::check_results::<Python>(&[
            ("sorted([2, 1], key=lambda n: read(n)['path'])", "[1,2]"),
            ("def key(n): return -read(n)['path']\nxs = [1, 2]\nxs.sort(key=key)\nxs", "[2,1]"),
            ("[d['record'] for d in map(save, [1, 2])]", "[1,2]"),
            ("[callable(save), callable(id)]", "[true,false]"),
        ]);
    }

    #[test]
    fn what_can_be_called_is_known() {
        let source = "def f(): pass\nresult = [callable(it) for it in [f, len, int, lambda: 1, files.read_file, 1, 'a', None]]";
        let value = "[true,true,true,true,true,false,false,false]";
        assert_eq!(result(source).as_deref(), Some(value));
    }
}
