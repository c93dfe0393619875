//! Expressions that the interpreter lacks or takes otherwise than Python, and functions that stand
//! for them, in `library/habits.py`.

use std::fmt::Write as _;

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{
    Expr, ExprAttribute, ExprBinOp, ExprCall, ExprName, ExprSlice, Operator, Stmt, StmtAssign,
    StmtAugAssign,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::source::Edit;
use super::syntax::{Syntax, between, is_name};

/// Methods that scripts pass as functions, which the interpreter only calls.
const METHODS: [&str; 18] = [
    "add",
    "append",
    "capitalize",
    "casefold",
    "count",
    "endswith",
    "get",
    "index",
    "isdigit",
    "join",
    "keys",
    "lower",
    "lstrip",
    "split",
    "startswith",
    "strip",
    "title",
    "upper",
];

/// Returns whether a method of this name may be one that a script passes as a function.
pub(super) fn is_passed(method: &str) -> bool {
    METHODS.contains(&method)
}

/// Types of `typing` with parameters, which the interpreter takes in annotations alone.
const TYPES: [&str; 12] = [
    "Annotated",
    "Callable",
    "Dict",
    "Iterable",
    "Iterator",
    "List",
    "Literal",
    "Optional",
    "Sequence",
    "Set",
    "Tuple",
    "Union",
];

/// Built-in types with parameters, which the interpreter takes in annotations alone.
const BUILTIN_TYPES: [&str; 5] = ["dict", "list", "set", "tuple", "type"];

/// Functions whose iterators are lists in the interpreter.
const ITERATORS: [&str; 5] = ["enumerate", "filter", "map", "reversed", "zip"];

/// Returns the changes.
pub(super) fn edits(syntax: &Syntax<'_>) -> Vec<Edit> {
    let mut finder = HabitFinder { syntax, edits: Vec::new(), temporaries: 0 };
    finder.visit_body(syntax.body);
    finder.edits
}

/// Returns the change of an assignment to a slice, or of its deletion: `splice(xs, 1, 2, new)`.
/// `end` is the end of the `=`, or of what is deleted.
pub(super) fn splice(syntax: &Syntax<'_>, target: &Expr, end: TextSize) -> Option<[Edit; 2]> {
    let Expr::Subscript(subscript) = target else { return None };
    let Expr::Slice(ExprSlice { lower, upper, step: None, .. }) = &*subscript.slice else {
        return None;
    };
    let lower = lower.as_ref().map_or(Some("None"), |bound| copied(syntax, bound))?;
    let upper = upper.as_ref().map_or(Some("None"), |bound| copied(syntax, bound))?;
    let insert = format!(", {lower}, {upper},");
    let bracket = syntax.token(TokenKind::Lsqb, TextRange::new(subscript.value.end(), end))?;
    let slice = syntax.replace(&TextRange::new(bracket.start(), end), insert)?;
    Some([Edit::open(TextRange::new(target.start(), end), "_airlock_splice("), slice])
}

/// Returns the text of an expression for another place; `None` if it is on several lines, or if changes
/// are made in it.
fn copied<'a>(syntax: &Syntax<'a>, expression: &Expr) -> Option<&'a str> {
    syntax.line(expression).filter(|_| is_unchanged(expression))
}

/// Returns whether no changes are made in an expression, and evaluating it twice does nothing.
pub(super) fn is_unchanged(expression: &Expr) -> bool {
    match expression {
        Expr::Name(_)
        | Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_) => true,
        Expr::Attribute(attribute) => is_unchanged(&attribute.value),
        Expr::Subscript(subscript) => {
            is_unchanged(&subscript.value) && is_unchanged(&subscript.slice)
        }
        Expr::Slice(slice) => [&slice.lower, &slice.upper, &slice.step]
            .into_iter()
            .flatten()
            .all(|bound| is_unchanged(bound)),
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_unchanged),
        Expr::List(list) => list.elts.iter().all(is_unchanged),
        Expr::UnaryOp(operation) => is_unchanged(&operation.operand),
        Expr::BinOp(operation) => {
            !matches!(operation.op, Operator::Mod | Operator::BitOr | Operator::FloorDiv)
                && is_unchanged(&operation.left)
                && is_unchanged(&operation.right)
        }
        Expr::If(conditional) => [&conditional.test, &conditional.body, &conditional.orelse]
            .into_iter()
            .all(|part| is_unchanged(part)),
        Expr::Call(call) => {
            is_name(&call.func, &["len"])
                && call.arguments.keywords.is_empty()
                && call.arguments.args.iter().all(is_unchanged)
        }
        _ => false,
    }
}

struct HabitFinder<'s> {
    syntax: &'s Syntax<'s>,
    edits: Vec<Edit>,
    temporaries: usize,
}

impl HabitFinder<'_> {
    fn binary(&mut self, operation: &ExprBinOp) {
        let sides = [&*operation.left, &*operation.right];
        let is_text = matches!(&*operation.left, Expr::StringLiteral(_) | Expr::FString(_));
        let has_values = matches!(&*operation.right, Expr::Tuple(_) | Expr::Dict(_));
        let edits = match operation.op {
            Operator::Mod if is_text || has_values => {
                self.syntax.operator(operation, sides, TokenKind::Percent, "_airlock_percent(")
            }
            Operator::BitOr => {
                self.syntax.operator(operation, sides, TokenKind::Vbar, "_airlock_or(")
            }
            _ => None,
        };
        self.edits.extend(edits.into_iter().flatten());
    }

    fn call(&mut self, call: &ExprCall) {
        if let Some(first) = call.arguments.args.first() {
            match &*call.func {
                Expr::Name(name) if self.syntax.names.is_builtin(&name.id) => match &*name.id {
                    "next" => self.iterator(first),
                    "format" => {
                        self.edits.push(Edit::replace(name.range(), "_airlock_format"));
                    }
                    _ => {}
                },
                Expr::Attribute(attribute) if attribute.attr.as_str() == "from_iterable" => {
                    self.chain(attribute, first);
                }
                _ => {}
            }
        }
        let values = call.arguments.keywords.iter().map(|keyword| &keyword.value);
        for argument in call.arguments.args.iter().chain(values) {
            self.method(argument);
        }
    }

    /// Lets `next` have an iterator, in place of a list.
    fn iterator(&mut self, argument: &Expr) {
        let is_list = match argument {
            Expr::Generator(generator) => !generator.parenthesized,
            Expr::Call(call) => is_name(&call.func, &ITERATORS),
            _ => false,
        };
        if is_list {
            self.edits.extend(Edit::wrap(argument, "iter("));
        }
    }

    /// Replaces `chain.from_iterable(items)` by `chain(*items)`.
    fn chain(&mut self, method: &ExprAttribute, items: &Expr) {
        let name = TextRange::new(method.value.end(), method.end());
        let Some(name) = self.syntax.replace(&name, "") else { return };
        self.edits.push(name);
        match items {
            Expr::Generator(generator) if !generator.parenthesized => {
                self.edits.extend(Edit::enclose(generator, "*[", "]"));
            }
            _ => self.edits.push(Edit::open(items.range(), "*")),
        }
    }

    /// Makes a function of a method that is passed as one.
    fn method(&mut self, argument: &Expr) {
        let Expr::Attribute(ExprAttribute { value, attr: name, .. }) = argument else { return };
        let Expr::Name(ExprName { id: object, .. }) = &**value else { return };
        if is_passed(name) {
            let function = if object == "str" {
                format!("(lambda s, *a: s.{name}(*a))")
            } else {
                format!("_airlock_method({object}, \"{name}\", lambda *a: {object}.{name}(*a))")
            };
            self.edits.extend(self.syntax.replace(argument, function));
        }
    }

    /// Leaves the parameters out of a type that a script gives a name: `Row = Dict[str, int]`.
    fn alias(&mut self, value: &Expr) {
        let Expr::Subscript(subscript) = value else { return };
        let Expr::Name(name) = &*subscript.value else { return };
        let name = name.id.as_str();
        let is_builtin = BUILTIN_TYPES.contains(&name) && self.syntax.names.is_builtin(name);
        if is_builtin || TYPES.contains(&name) {
            let parameters = TextRange::new(subscript.value.end(), subscript.end());
            self.edits.extend(self.syntax.replace(&parameters, ""));
        }
    }

    fn assign(&mut self, assignment: &StmtAssign) {
        self.alias(&assignment.value);
        match &*assignment.targets {
            [Expr::Tuple(targets)] => self.unpack(&targets.elts, assignment),
            [target] => {
                let mut before = self.syntax.tokens(between(target, &*assignment.value));
                if let Some(equal) = before.next().filter(|token| token.kind() == TokenKind::Equal)
                    && let Some(edits) = splice(self.syntax, target, equal.end())
                {
                    self.edits.extend(edits);
                    self.edits.push(Edit::close(assignment.range(), ")"));
                }
            }
            _ => {}
        }
    }

    /// Unpacks to items by way of variables: `a[0], a[1] = x` becomes `t, u = x; a[0] = t; a[1] = u`.
    fn unpack(&mut self, targets: &[Expr], assignment: &StmtAssign) {
        let items: Vec<_> = targets
            .iter()
            .filter(|target| matches!(target, Expr::Subscript(_) | Expr::Attribute(_)))
            .collect();
        let texts: Option<Vec<_>> = items.iter().map(|item| copied(self.syntax, item)).collect();
        let Some(texts) = texts else { return };
        let mut after = String::new();
        for (item, text) in items.iter().zip(texts) {
            let name = format!("_airlock_{}", self.temporaries);
            self.temporaries += 1;
            let _ = write!(after, "; {text} = {name}");
            self.edits.push(Edit::replace(item.range(), name));
        }
        if !after.is_empty() {
            self.edits.push(Edit::close(assignment.range(), after));
        }
    }

    /// Replaces `d |= e` by `d = f(d, e)`.
    fn augmented(&mut self, assignment: &StmtAugAssign) {
        if assignment.op == Operator::BitOr
            && let Some(target) = copied(self.syntax, &assignment.target)
            && let Some(operator) = self
                .syntax
                .token(TokenKind::VbarEqual, between(&*assignment.target, &*assignment.value))
        {
            self.edits.push(Edit::replace(operator, format!("= _airlock_ior({target},")));
            self.edits.push(Edit::close(assignment.range(), ")"));
        }
    }
}

impl<'a> Visitor<'a> for HabitFinder<'_> {
    // Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Assign(assignment) => self.assign(assignment),
            Stmt::AugAssign(assignment) => self.augmented(assignment),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Generator(generator) if generator.parenthesized => {
                self.edits.push(Edit::open(generator.range(), "iter"));
            }
            Expr::BinOp(operation) => self.binary(operation),
            Expr::Call(call) => self.call(call),
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::result;

    #[test]
    fn habits_have_pythons_meaning() {
        for (source, value) in [
            (
                "xs = [3, 5]\nresult = [next(x for x in xs if x > 3), next((x for x in xs if x > 9), None)]",
                "[5,null]",
            ),
            (
                "g = (x * 2 for x in [1, 2])\nresult = [next(g), list(g), sum((x for x in [1, 2]))]",
                "[2,[4],3]",
            ),
            (
                "a = {'x': 1}\nb = {'y': 2}\nc = a | b | {'z': 3}\na |= b\nresult = [c, a, 5 | 2, sorted({1} | {2})]",
                r#"[{"x":1,"y":2,"z":3},{"x":1,"y":2},7,[1,2]]"#,
            ),
            (
                "xs = [1, 2, 3, 4]\nxs[1:3] = ['a']\nys = [1, 2, 3]\nys[:0] = [0]\nzs = [1, 2, 3]\ndel zs[1:]\nresult = [xs, ys, zs]",
                r#"[[1,"a",4],[0,1,2,3],[1]]"#,
            ),
            (
                "xs = [1, 2, 3]\nxs[0], xs[2] = xs[2], xs[0]\nd = {}\nd['a'], y = 1, 2\nresult = [xs, d, y]",
                r#"[[3,2,1],{"a":1},2]"#,
            ),
            (
                "d = {'a': 2, 'b': 1}\nresult = [max(d, key=d.get), list(map(str.upper, ['a'])), sorted(['B', 'a'], key=str.lower)]",
                r#"["a",["A"],["a","B"]]"#,
            ),
            (
                "from itertools import chain\nresult = [list(chain.from_iterable([[1], [2]])), format(1234.5, ',.1f'), format('x')]",
                r#"[[1,2],"1,234.5","x"]"#,
            ),
            (
                "from typing import Dict, Optional\nRow = Dict[str, int | None]\nRows = list[Row]\nMaybe = Optional[int]\nEither = int | str | None\ndef f(x: Maybe) -> Row:\n    return {'x': x}\nresult = [f(1), isinstance(1, int | float), isinstance('a', int | None), isinstance(None, Either)]",
                r#"[{"x":1},true,false,true]"#,
            ),
            ("list = [7]\nfirst = list[0]\nresult = first", "7"),
            (
                "class A:\n  def __init__(self): self.title = 't'\na = A()\nshown = []\nprint(a.title)\nshown.append(a.title)\nresult = [str(a.title), shown, f'{str(a.title)}']",
                r#"["t",["t"],"t"]"#,
            ),
            (
                "d = {'await': {'a': 1}, '(': [1, 2]}\nd['await'] |= {'b': 2}\nd['('][:1] = (3,)\nd['//'], d['|'] = 1, 2\nresult = d",
                r#"{"await":{"a":1,"b":2},"(":[3,2],"//":1,"|":2}"#,
            ),
            ("xs = [1, 2]\n(xs)[len(xs):] = ([3]) # =\nresult = xs", "[1,2,3]"),
            ("def f(x: int | None = None) -> list[int] | None:\n    return x\nresult = f(1)", "1"),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
    }
}
