//! Truth values in sums: the interpreter does not add a `bool` to a number.
//!
//! Only those that the text shows to be truth values are changed, and what `sum` adds. A variable that
//! holds one fails with a hint.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprCall, Operator, Stmt, UnaryOp};
use ruff_text_size::Ranged as _;

use super::names::Names;
use super::source::Edit;
use super::syntax::Syntax;

/// Built-in functions that return a truth value.
const FUNCTIONS: [&str; 6] = ["all", "any", "bool", "callable", "hasattr", "isinstance"];

/// Methods of built-in types that return a truth value.
const METHODS: [&str; 12] = [
    "endswith",
    "isalnum",
    "isalpha",
    "isdigit",
    "isdisjoint",
    "islower",
    "isnumeric",
    "isspace",
    "issubset",
    "issuperset",
    "isupper",
    "startswith",
];

/// Returns the changes.
pub(super) fn edits(syntax: &Syntax<'_>) -> Vec<Edit> {
    let mut finder = NumberFinder { names: &syntax.names, edits: Vec::new() };
    finder.visit_body(syntax.body);
    finder.edits
}

struct NumberFinder<'s> {
    names: &'s Names<'s>,
    edits: Vec<Edit>,
}

impl NumberFinder<'_> {
    /// Makes a number of an operand that is a truth value.
    fn operand(&mut self, operand: &Expr) {
        if is_truth(operand) {
            self.edits.extend(Edit::wrap(operand, "_airlock_number("));
        }
    }

    /// Lets `sum` add truth values, unless the text shows that there are none.
    fn call(&mut self, call: &ExprCall) {
        let Expr::Name(name) = &*call.func else { return };
        if name.id.as_str() != "sum" || !self.names.is_builtin("sum") {
            return;
        }
        let is_plain = match call.arguments.args.first() {
            Some(Expr::Generator(generator)) => is_number(&generator.elt),
            Some(Expr::ListComp(comprehension)) => is_number(&comprehension.elt),
            Some(Expr::List(list)) => list.elts.iter().all(is_number),
            _ => false,
        };
        if !is_plain {
            self.edits.push(Edit::replace(name.range(), "_airlock_sum"));
        }
    }
}

/// Returns whether a value is a truth value. A method may be one of the script's own, so it is
/// converted only if it returns one.
fn is_truth(expression: &Expr) -> bool {
    match expression {
        Expr::Compare(_) | Expr::BooleanLiteral(_) => true,
        Expr::UnaryOp(operation) => operation.op == UnaryOp::Not,
        Expr::BinOp(operation)
            if matches!(operation.op, Operator::BitAnd | Operator::BitOr | Operator::BitXor) =>
        {
            is_truth(&operation.left) && is_truth(&operation.right)
        }
        Expr::BoolOp(operation) => operation.values.iter().all(is_truth),
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => FUNCTIONS.contains(&name.id.as_str()),
            Expr::Attribute(method) => METHODS.contains(&method.attr.as_str()),
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether a value is no truth value, as the text shows.
fn is_number(expression: &Expr) -> bool {
    match expression {
        Expr::NumberLiteral(_) | Expr::BinOp(_) => true,
        Expr::Call(call) => matches!(&*call.func, Expr::Name(name)
            if ["float", "int", "len", "round"].contains(&name.id.as_str())),
        _ => false,
    }
}

impl<'a> Visitor<'a> for NumberFinder<'_> {
    // Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::AugAssign(assignment) = statement
            && matches!(assignment.op, Operator::Add | Operator::Sub | Operator::Mult)
        {
            self.operand(&assignment.value);
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::BinOp(operation)
                if matches!(operation.op, Operator::Add | Operator::Sub | Operator::Mult) =>
            {
                self.operand(&operation.left);
                self.operand(&operation.right);
            }
            Expr::Call(call) => self.call(call),
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn truth_values_are_added_as_numbers() {
        for (source, value) in [
            (
                "xs = [1, 2, 3]\nresult = [sum(x > 1 for x in xs), sum([not x for x in xs]), 1 + (2 > 1), True + 1]",
                "[2,0,2,2]",
            ),
            (
                "n = 0\nfor s in ['a', 'b', 'a']:\n    n += s == 'a'\n    n += (s == 'b') * 10\nresult = [n, 1.5 + True, 3 - (1 < 2 and 2 < 3)]",
                "[12,2.5,2]",
            ),
            (
                "flags = {'a': True, 'b': False, 'c': True}\nresult = [sum(flags.values()), sum([True, False]), sum(v for v in flags.values()), sum([True, 2], 5)]",
                "[2,1,2,8]",
            ),
            (
                "result = [sum([0.5, 1]), sum([[1], [2]], []), sum(()), sum((x for x in [1, 2]), start=1), 1 + 'ab'.startswith('a') + any([1])]",
                "[1.5,[1,2],0,4,3]",
            ),
            ("class A:\n  def isdigit(self): return 'x'\nresult = 'y' + A().isdigit()", r#""yx""#),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_added_fails_as_in_python() {
        assert_eq!(
            fail("result = sum([1, 'a'])").message,
            "TypeError: unsupported operand type(s) for +: 'int' and 'str'"
        );
        let failure = fail("a = True\nresult = 1 + a");
        assert!(failure.rendered.contains("hint: write `int(flag)`"), "{}", failure.rendered);
    }
}
