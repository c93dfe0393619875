//! Finds what a script may not have, although the interpreter takes it: names that stand for what is
//! added to a script, and functions that nest too deep.

use ruff_python_ast::visitor::{
    Visitor, walk_alias, walk_except_handler, walk_expr, walk_parameter, walk_stmt,
};
use ruff_python_ast::{Alias, ExceptHandler, Expr, Identifier, Parameter, Stmt};
use ruff_text_size::Ranged;

use super::lacks::Lack;
use super::prelude::OWN;
use super::syntax::Syntax;

/// Functions in functions, at most. The interpreter's time to compile the innermost doubles with
/// each.
const MAX_DEPTH: usize = 10;

/// Finds the first name that is reserved, and the first function that nests too deep.
pub(super) fn find(syntax: &Syntax<'_>) -> Vec<Lack> {
    let mut finder = LimitFinder { syntax, depth: 0, own: None, deep: None };
    finder.visit_body(syntax.body);
    finder.own.into_iter().chain(finder.deep).collect()
}

struct LimitFinder<'s> {
    syntax: &'s Syntax<'s>,
    /// Functions around the place.
    depth: usize,
    own: Option<Lack>,
    deep: Option<Lack>,
}

impl LimitFinder<'_> {
    fn lack(&self, at: &impl Ranged, what: String, hint: &'static str) -> Lack {
        Lack { at: self.syntax.place(at), what: what.into(), hint: hint.into() }
    }

    fn name(&mut self, name: &str, at: &impl Ranged) {
        if self.own.is_none() && name.starts_with(OWN) {
            let what = format!("the name `{name}` is reserved");
            self.own = Some(self.lack(at, what, "give it another name"));
        }
    }

    fn identifier(&mut self, name: &Identifier) {
        self.name(name.as_str(), name);
    }
}

impl<'a> Visitor<'a> for LimitFinder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => {
                self.identifier(&function.name);
                if self.depth >= MAX_DEPTH {
                    // What is inside it is not looked at: it may nest as deep as the parser goes.
                    let what = format!("functions nest at most {MAX_DEPTH} deep");
                    let hint = "define the inner functions outside, and pass them what they need";
                    self.deep = self.deep.take().or_else(|| Some(self.lack(function, what, hint)));
                    return;
                }
                self.depth += 1;
                walk_stmt(self, statement);
                self.depth -= 1;
                return;
            }
            Stmt::ClassDef(class) => self.identifier(&class.name),
            Stmt::Global(statement) => {
                statement.names.iter().for_each(|name| self.identifier(name));
            }
            Stmt::Nonlocal(statement) => {
                statement.names.iter().for_each(|name| self.identifier(name));
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(name) = expression {
            self.name(name.id.as_str(), name);
        }
        walk_expr(self, expression);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.identifier(&parameter.name);
        walk_parameter(self, parameter);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        self.identifier(alias.asname.as_ref().unwrap_or(&alias.name));
        walk_alias(self, alias);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(clause) = handler;
        if let Some(name) = &clause.name {
            self.identifier(name);
        }
        walk_except_handler(self, handler);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use airlock_executor::FailureKind;

    use super::MAX_DEPTH;
    use crate::run::tests::{fail, result};

    /// Returns a script with so many functions in each other.
    fn nested(depth: usize) -> String {
        let mut source = String::new();
        for at in 0..depth {
            let _ = writeln!(source, "{}def f():", " ".repeat(at));
        }
        source + &" ".repeat(depth) + "return 1\nresult = 2"
    }

    #[test]
    fn functions_nest_only_so_deep() {
        assert_eq!(result(&nested(MAX_DEPTH)).as_deref(), Some("2"));
        for depth in [MAX_DEPTH + 1, 40] {
            let failure = fail(&nested(depth));
            assert_eq!((failure.kind, failure.line), (FailureKind::Syntax, Some(11)));
            assert_eq!(failure.message, "functions nest at most 10 deep");
            assert!(failure.rendered.contains("hint: define"), "{}", failure.rendered);
        }
        let beside = "def f():\n  def g(): pass\n  return 1\n".repeat(20);
        assert_eq!(result(&format!("{beside}result = f()")).as_deref(), Some("1"));
    }

    #[test]
    fn names_of_what_is_added_to_scripts_are_reserved() {
        for source in [
            "_airlock_sum = 5\nresult = sum([True, 1.5])",
            "def _airlock_sum(x): return 5\nresult = 1",
            "class _airlock_Rows:\n  pass",
            "def f(_airlock_x): pass",
            "import math as _airlock_math",
            "from math import pi as _airlock_pi",
            "try:\n  f()\nexcept ValueError as _airlock_e:\n  pass",
            "def f():\n  global _airlock_x\n  pass",
            "print([1 for _airlock_x in []])",
            "import csv\nresult = _airlock_csv.QUOTE_ALL",
        ] {
            let failure = fail(source);
            assert_eq!(failure.kind, FailureKind::Syntax, "{source}");
            assert!(failure.message.starts_with("the name `_airlock_"), "{}", failure.message);
            assert!(failure.message.ends_with("` is reserved"), "{}", failure.message);
        }
        assert_eq!(result("airlock_x = (1)\nresult = airlock_x").as_deref(), Some("1"));
    }
}
