//! Expressions that the interpreter lacks or takes otherwise than Python, and functions that stand
//! for them, in `library/habits.py`.

use std::fmt::Write as _;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{
    Expr, ExprBinOp, ExprCall, ExprSlice, Operator, Stmt, StmtAssign, StmtAugAssign,
};
use ruff_text_size::{Ranged, TextRange};

use super::names::Names;
use super::source::{Edit, without_comments};

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

/// Returns the changes.
pub(super) fn edits(source: &str, body: &[Stmt], names: &Names<'_>) -> Vec<Edit> {
    let mut finder = Finder { source, names, edits: Vec::new(), temporaries: 0 };
    finder.visit_body(body);
    finder.edits
}

/// Returns the change of an assignment to a slice, or of its deletion: `splice(xs, 1, 2, new)`.
/// `end` is the first byte of the new values, or behind a deletion.
pub(super) fn splice(source: &str, target: &Expr, end: usize) -> Option<[Edit; 2]> {
    let Expr::Subscript(it) = target else { return None };
    let Expr::Slice(ExprSlice { lower, upper, step: None, .. }) = &*it.slice else { return None };
    let bound = |bound: &Option<Box<Expr>>| match bound {
        None => Some("None".to_owned()),
        Some(bound) => plain(source, bound.range()),
    };
    let (at, from) = (target.start().to_usize(), it.value.end().to_usize());
    source[from..end].trim_end().ends_with(['=', ']']).then_some(())?;
    let insert = format!(", {}, {}, ", bound(lower)?, bound(upper)?);
    let open = Edit::open(at, end, "_airlock_splice(");
    (!source[from..end].contains('\n')).then(|| [open, Edit::replace(from, end - from, insert)])
}

/// Returns a text that is not changed elsewhere, and on one line.
fn plain(source: &str, range: TextRange) -> Option<String> {
    let text = &source[range.start().to_usize()..range.end().to_usize()];
    let is_plain = !text.contains(['\n', '%', '|', '{', '<', '>'])
        && !text.contains("await")
        && !text.contains("//")
        && !text.replace("len(", "").contains('(');
    is_plain.then(|| text.to_owned())
}

struct Finder<'s> {
    source: &'s str,
    names: &'s Names<'s>,
    edits: Vec<Edit>,
    temporaries: usize,
}

impl Finder<'_> {
    fn wrap(&mut self, it: &impl Ranged, open: &'static str) {
        self.edits.extend(Edit::wrap(it, open));
    }

    /// Replaces an operator by a call: `a | b` becomes `f(a , b)`.
    fn operator(&mut self, it: &ExprBinOp, operator: &str, open: &'static str) {
        let (from, to) = (it.left.end().to_usize(), it.right.start().to_usize());
        if let Some(at) = without_comments(&self.source[from..to]).find(operator) {
            self.wrap(it, open);
            let (at, remove) = (from + at, operator.len());
            self.edits.push(Edit::replace(at, remove, ","));
        }
    }

    fn binary(&mut self, it: &ExprBinOp) {
        match it.op {
            Operator::Mod
                if is_text(&it.left) || matches!(&*it.right, Expr::Tuple(_) | Expr::Dict(_)) =>
            {
                self.operator(it, "%", "_airlock_percent(");
            }
            Operator::BitOr => self.operator(it, "|", "_airlock_or("),
            _ => {}
        }
    }

    fn call(&mut self, call: &ExprCall) {
        let arguments = &call.arguments;
        let first = arguments.args.first();
        match (&*call.func, first) {
            // The interpreter's iterators over these are lists.
            (Expr::Name(name), Some(Expr::Call(it)))
                if name.id.as_str() == "next"
                    && ["enumerate", "filter", "map", "reversed", "zip"]
                        .iter()
                        .any(|of| is_name(&it.func, of)) =>
            {
                self.wrap(it, "iter(");
            }
            (Expr::Name(name), Some(Expr::Generator(it)))
                if !it.parenthesized && name.id.as_str() == "next" =>
            {
                self.wrap(it, "iter(");
            }
            (Expr::Name(name), Some(_)) if name.id.as_str() == "format" => {
                self.replace(name.range(), "_airlock_format");
            }
            (Expr::Attribute(it), Some(items)) if it.attr.as_str() == "from_iterable" => {
                let (at, end) = (it.value.end().to_usize(), it.end().to_usize());
                self.edits.push(Edit::replace(at, end - at, ""));
                let (start, end) = (items.start().to_usize(), items.end().to_usize());
                match items {
                    Expr::Generator(it) if !it.parenthesized => {
                        self.edits.push(Edit::open(start, end, "*["));
                        self.edits.push(Edit::close(end, start, "]"));
                    }
                    _ => self.edits.push(Edit::open(start, end, "*")),
                }
            }
            _ => {}
        }
        let values = arguments.keywords.iter().map(|keyword| &keyword.value);
        for argument in arguments.args.iter().chain(values) {
            self.method(argument);
        }
    }

    /// Makes a function of a method that is passed as one.
    fn method(&mut self, argument: &Expr) {
        let Expr::Attribute(it) = argument else { return };
        if !METHODS.contains(&it.attr.as_str()) {
            return;
        }
        let name = &it.attr;
        let function = match &*it.value {
            Expr::Name(of) if of.id.as_str() == "str" => format!("(lambda s, *a: s.{name}(*a))"),
            Expr::Name(of) => {
                let of = &of.id;
                format!("_airlock_method({of}, \"{name}\", lambda *a: {of}.{name}(*a))")
            }
            _ => return,
        };
        self.replace(it.range(), function);
    }

    fn replace(&mut self, range: TextRange, with: impl Into<std::borrow::Cow<'static, str>>) {
        let (at, end) = (range.start().to_usize(), range.end().to_usize());
        if !self.source[at..end].contains('\n') {
            self.edits.push(Edit::replace(at, end - at, with));
        }
    }

    /// Leaves the parameters out of a type that a script gives a name: `Row = Dict[str, int]`.
    fn alias(&mut self, value: &Expr) {
        let Expr::Subscript(it) = value else { return };
        let Expr::Name(name) = &*it.value else { return };
        let (at, end) = (it.value.end().to_usize(), it.end().to_usize());
        let name = name.id.as_str();
        let is_type = TYPES.contains(&name)
            || (["dict", "list", "set", "tuple", "type"].contains(&name)
                && self.names.is_builtin(name));
        if is_type && !self.source[at..end].contains('\n') {
            self.edits.push(Edit::replace(at, end - at, ""));
        }
    }

    fn assign(&mut self, it: &StmtAssign) {
        self.alias(&it.value);
        let [target] = &*it.targets else { return };
        if let Expr::Tuple(targets) = target {
            return self.unpack(&targets.elts, it);
        }
        if let Some(edits) = splice(self.source, target, it.value.start().to_usize()) {
            self.edits.extend(edits);
            self.edits.push(Edit::close(it.end().to_usize(), it.start().to_usize(), ")"));
        }
    }

    /// Unpacks to items by way of variables: `a[0], a[1] = x` becomes `t, u = x; a[0] = t; a[1] = u`.
    fn unpack(&mut self, targets: &[Expr], it: &StmtAssign) {
        let is_item = |target: &&Expr| matches!(target, Expr::Subscript(_) | Expr::Attribute(_));
        let items: Vec<_> = targets.iter().filter(is_item).collect();
        let texts: Option<Vec<_>> =
            items.iter().map(|item| plain(self.source, item.range())).collect();
        let Some(texts) = texts else { return };
        let mut after = String::new();
        for (item, text) in items.iter().zip(texts) {
            let name = format!("_airlock_{}", self.temporaries);
            self.temporaries += 1;
            let _ = write!(after, "; {text} = {name}");
            self.replace(item.range(), name);
        }
        if !after.is_empty() {
            self.edits.push(Edit::close(it.end().to_usize(), it.start().to_usize(), after));
        }
    }

    /// Replaces `d |= e` by `d = f(d, e)`.
    fn augmented(&mut self, it: &StmtAugAssign) {
        if it.op != Operator::BitOr {
            return;
        }
        let Some(target) = plain(self.source, it.target.range()) else { return };
        let (at, end) = (it.target.end().to_usize(), it.value.start().to_usize());
        if !target.contains('(') && self.source[at..end].trim() == "|=" {
            let insert = format!(" = _airlock_ior({target}, ");
            self.edits.push(Edit::replace(at, end - at, insert));
            self.edits.push(Edit::close(it.end().to_usize(), it.start().to_usize(), ")"));
        }
    }
}

fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Name(it) if it.id.as_str() == name)
}

fn is_text(expression: &Expr) -> bool {
    matches!(expression, Expr::StringLiteral(_) | Expr::FString(_))
}

impl<'a> Visitor<'a> for Finder<'_> {
    // Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Assign(it) => self.assign(it),
            Stmt::AugAssign(it) => self.augmented(it),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Generator(it) if it.parenthesized => {
                self.edits.push(Edit::open(it.start().to_usize(), it.end().to_usize(), "iter"));
            }
            Expr::BinOp(it) => self.binary(it),
            Expr::Call(it) => self.call(it),
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
            ("def f(x: int | None = None) -> list[int] | None:\n    return x\nresult = f(1)", "1"),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
    }
}
