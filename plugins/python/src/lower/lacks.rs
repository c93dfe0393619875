//! Python that the interpreter lacks, and what to write instead.
//!
//! The interpreter reports the first such construct and not what to do. Here all of a script are
//! found at once, so that a model corrects them in one turn.

use std::borrow::Cow;
use std::collections::HashSet;

use monty_types::CodeLoc;
use ruff_python_ast::visitor::{Visitor, walk_comprehension, walk_expr, walk_stmt};
use ruff_python_ast::{Arguments, Comprehension, Expr, Number, Operator, Stmt, StmtClassDef};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged, TextRange};

use super::syntax::Syntax;
use super::{decorators, deletions};

/// A construct in a script that the interpreter lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lack {
    /// Its place in the script.
    pub(crate) at: CodeLoc,
    /// The construct, in a sentence.
    pub(crate) what: Cow<'static, str>,
    /// The remedy: what to write instead.
    pub(crate) hint: Cow<'static, str>,
}

/// Constructs that are reported. A model reads the report, and a script may have thousands of them.
const MAX_LACKS: usize = 20;

/// Finds the constructs of a script that the interpreter lacks, in their order; none if the script
/// does not parse.
pub(crate) fn find(source: &str) -> Vec<Lack> {
    let Ok(parsed) = parse_module(source) else { return Vec::new() };
    let syntax = Syntax::new(source, &parsed, HashSet::new());
    let mut finder = LackFinder { syntax: &syntax, found: Vec::new() };
    finder.visit_body(syntax.body);
    finder.found.sort_by_key(|(at, ..)| at.start());
    finder.found.truncate(MAX_LACKS);
    let found = finder.found.into_iter();
    found
        .map(|(at, what, hint)| Lack {
            at: syntax.place(&at),
            what: what.into(),
            hint: hint.into(),
        })
        .collect()
}

struct LackFinder<'s> {
    syntax: &'s Syntax<'s>,
    found: Vec<(TextRange, &'static str, &'static str)>,
}

impl LackFinder<'_> {
    fn lack(&mut self, at: &impl Ranged, what: &'static str, hint: &'static str) {
        self.found.push((at.range(), what, hint));
    }

    fn class(&mut self, class: &StmtClassDef) {
        if let Some(arguments) = class.arguments.as_ref().filter(|bases| !bases.is_empty()) {
            self.lack(&arguments.range(), "there is no inheritance", without(arguments));
        }
        for statement in &class.body {
            match statement {
                Stmt::FunctionDef(function) => {
                    if let Some(decorator) = function.decorator_list.first()
                        && !decorators::are_replaced(self.syntax, function)
                    {
                        self.lack(
                            decorator,
                            "there are no decorators of methods",
                            "write a plain method, or a function outside the class",
                        );
                    }
                }
                Stmt::Assign(assignment) if !matches!(&*assignment.targets, [Expr::Name(_)]) => {
                    self.class_body(statement);
                }
                Stmt::Assign(_) | Stmt::AnnAssign(_) | Stmt::Pass(_) => {}
                Stmt::Expr(statement)
                    if matches!(
                        *statement.value,
                        Expr::StringLiteral(_) | Expr::EllipsisLiteral(_)
                    ) => {}
                _ => self.class_body(statement),
            }
        }
    }

    fn class_body(&mut self, statement: &Stmt) {
        self.lack(
            statement,
            "A class body can have only methods and variables",
            "move this statement out of the class",
        );
    }
}

/// Returns what to write instead of a class with these bases.
fn without(bases: &Arguments) -> &'static str {
    let mut names = bases.args.iter().map(|base| match base {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        _ => "",
    });
    if names.clone().any(|name| matches!(name, "Enum" | "IntEnum" | "StrEnum" | "Flag")) {
        "use a dict: `STATUS = {\"OPEN\": \"open\"}`, or constants"
    } else if names.any(|name| matches!(name, "NamedTuple" | "TypedDict" | "BaseModel")) {
        "write `@dataclass` before the class, without bases, or use a dict"
    } else {
        "write the class without bases; an error of your own is `raise ValueError(\"why\")`"
    }
}

impl<'a> Visitor<'a> for LackFinder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Delete(deletion) if deletions::replaced(self.syntax, deletion).is_none() => self
                .lack(
                    deletion,
                    "`del` works only on items of a list or dict",
                    "write `xs.pop(key)` for each item, or keep the rest: `xs = xs[2:]`",
                ),
            Stmt::Match(statement) => {
                self.lack(
                    statement,
                    "there is no `match`",
                    "write `if x == 1: … elif x == 2: … else: …`",
                );
            }
            Stmt::For(statement) if statement.is_async => {
                self.lack(
                    statement,
                    "there is no `async for`",
                    "write `for`, and `await` inside it",
                );
            }
            Stmt::With(statement) if statement.is_async => self.lack(
                statement,
                "there is no `async with`",
                "leave it out: the gateway itself bounds how many calls run at a time",
            ),
            Stmt::TypeAlias(alias) => {
                self.lack(alias, "there is no `type` statement", "leave it out");
            }
            Stmt::Try(statement) if statement.is_star => {
                self.lack(statement, "there is no `except*`", "write `except`");
            }
            Stmt::ImportFrom(import)
                if import.names.iter().any(|name| name.name.as_str() == "*") =>
            {
                self.lack(import, "there is no `import *`", "import each name");
            }
            Stmt::ClassDef(class) => self.class(class),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Yield(_) | Expr::YieldFrom(_) => self.lack(
                expression,
                "there is no `yield`",
                "collect the values in a list, and return that",
            ),
            Expr::TString(template) => {
                self.lack(template, "there are no template strings", "write an f-string");
            }
            Expr::NumberLiteral(number) if matches!(number.value, Number::Complex { .. }) => {
                self.lack(number, "there are no complex numbers", "keep two floats");
            }
            Expr::BinOp(operation) if operation.op == Operator::MatMult => {
                self.lack(operation, "there is no `@`", "write the product as a comprehension");
            }
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        if comprehension.is_async {
            self.lack(comprehension, "there is no `async for`", "write `for`");
        }
        walk_comprehension(self, comprehension);
    }
}

#[cfg(test)]
mod tests {
    use airlock_executor::FailureKind;

    use crate::run::tests::fail;

    #[test]
    fn what_the_interpreter_lacks_is_answered_with_what_to_write() {
        for (source, hint) in [
            ("def f():\n  yield 1", "return that"),
            ("def f():\n  yield from [1]", "return that"),
            ("x = [1, 2]\ndel x[::2]", "xs = xs[2:]"),
            ("x = 1\ndel x.y", "xs.pop(key)"),
            ("match 1:\n  case 1: pass", "elif x == 2"),
            ("class A(Exception): pass", "raise ValueError"),
            ("from enum import Enum\nclass A(Enum): pass", "use a dict"),
            ("from typing import NamedTuple\nclass A(NamedTuple): pass", "`@dataclass`"),
            ("class A:\n  @cache\n  def b(self): return 1", "plain method"),
            ("class A:\n  for i in []: pass", "out of the class"),
            ("async def f():\n  async for x in y: pass", "`await` inside it"),
            ("async def f():\n  async with x: pass", "leave it out"),
            ("async def f():\n  return [x async for x in y]", "write `for`"),
            ("type A = int", "leave it out"),
            ("try: pass\nexcept* ValueError: pass", "write `except`"),
            ("from math import *", "import each name"),
            ("x = 1j", "two floats"),
        ] {
            let failure = fail(source);
            let said = failure.rendered.split("\nhint: ").nth(1);
            let said = said.unwrap_or_else(|| panic!("{source}: no hint in {}", failure.rendered));
            assert!(said.contains(hint), "{source}: {said}");
            assert_eq!(failure.kind, FailureKind::Syntax, "{source}");
        }
    }

    #[test]
    fn every_place_is_reported_in_one_failure() {
        let failure = fail("def f():\n    x = yield 1\n\nmatch f():\n    case 1: pass\nx = 2j\n");
        assert_eq!(failure.message, "there is no `yield`");
        assert_eq!((failure.line, failure.column), (Some(2), Some(9)));
        let expected = "  File \"code\", line 2
    x = yield 1
        ^
error: there is no `yield`
hint: collect the values in a list, and return that
  File \"code\", line 4
    match f():
    ^
error: there is no `match`
hint: write `if x == 1: … elif x == 2: … else: …`
  File \"code\", line 6
    x = 2j
        ^
error: there are no complex numbers
hint: keep two floats
";
        assert_eq!(failure.rendered, expected);
    }
}
