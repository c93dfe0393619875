//! Methods and functions of modules that the interpreter lacks, or takes otherwise than Python.
//!
//! `value.method(x)` becomes `_airlock_method(value, x)`. The function looks at the value: it stands
//! in for the interpreter's own types, and calls the method of any other. They are in
//! `library/methods.py`, `library/dates.py` and `library/sets.py`.

use std::borrow::Cow;

use airlock_executor::Bindings;
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_interpolated_string_element};
use ruff_python_ast::{
    CmpOp, Expr, ExprAttribute, ExprBinOp, ExprCall, ExprCompare, ExprContext,
    InterpolatedStringElement, Operator,
};
use ruff_text_size::{Ranged as _, TextLen as _, TextRange, TextSize};

use super::habits::is_unchanged;
use super::source::Edit;
use super::syntax::{Syntax, between};

/// Condition under which a call of a method is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// It has arguments.
    Given,
    /// It has not one argument, or one with a star.
    Several,
    /// Its last argument may contain one of these.
    Format(&'static [&'static str]),
    /// It may be of a regular expression, and its argument at this position is no plain text.
    Pattern(usize),
}

const METHODS: [(&str, When); 25] = [
    ("astimezone", When::Always),
    ("bit_length", When::Always),
    ("center", When::Given),
    ("combine", When::Given),
    ("difference", When::Several),
    ("fromisocalendar", When::Given),
    ("fromordinal", When::Given),
    ("fromtimestamp", When::Given),
    ("fsum", When::Given),
    ("intersection", When::Several),
    ("is_integer", When::Always),
    ("isocalendar", When::Always),
    ("isoformat", When::Given),
    ("maketrans", When::Given),
    ("split", When::Pattern(0)),
    ("strftime", When::Format(&["%f", "%z"])),
    ("strptime", When::Format(&["%z"])),
    ("sub", When::Pattern(1)),
    ("subn", When::Given),
    ("toordinal", When::Always),
    ("translate", When::Given),
    ("union", When::Several),
    ("update", When::Several),
    ("utcfromtimestamp", When::Given),
    ("utcoffset", When::Always),
];

/// Characters of patterns with groups, or that may match the empty text.
const PARTS: [char; 8] = ['(', '*', '?', '{', '|', '^', '$', '\\'];

/// Returns whether calls of methods of this name are changed.
pub(super) fn is_changed(method: &str) -> bool {
    METHODS.iter().any(|(name, _)| *name == method)
}

/// Returns the changes.
pub(super) fn edits(syntax: &Syntax<'_>, bindings: &Bindings) -> Vec<Edit> {
    let mut finder = MethodFinder {
        syntax,
        bindings,
        has_dates: syntax.mentions("timedelta"),
        has_patterns: syntax.mentions("compile"),
        has_classes: ["csv", "StringIO", "urllib"].iter().any(|name| syntax.mentions(name)),
        edits: Vec::new(),
    };
    finder.visit_body(syntax.body);
    finder.edits
}

struct MethodFinder<'s> {
    syntax: &'s Syntax<'s>,
    bindings: &'s Bindings,
    /// Whether the script has lengths of time.
    has_dates: bool,
    /// Whether the script may have compiled regular expressions.
    has_patterns: bool,
    /// Whether the script may have objects of classes that stand for those of the library.
    has_classes: bool,
    edits: Vec<Edit>,
}

impl MethodFinder<'_> {
    fn call(&mut self, call: &ExprCall) {
        let name = match &*call.func {
            Expr::Attribute(it) => it.attr.as_str(),
            Expr::Name(it) if self.bindings.function(it.id.as_str()).is_none() => it.id.as_str(),
            _ => return,
        };
        match name {
            "dumps" if call.arguments.find_keyword("default").is_some() => {
                self.function(call, "_airlock_dumps(");
            }
            "timedelta" if !call.arguments.is_empty() && !are_whole(call) => {
                self.function(call, "_airlock_timedelta(");
            }
            _ => {
                if let Expr::Attribute(method) = &*call.func
                    && self.applies(method, call)
                {
                    self.method(method, call);
                }
            }
        }
    }

    /// Returns whether a call of a method is changed.
    fn applies(&self, method: &ExprAttribute, call: &ExprCall) -> bool {
        let name = method.attr.as_str();
        let Some((_, when)) = METHODS.iter().find(|(method, _)| *method == name) else {
            return false;
        };
        let is_client = matches!(&*method.value, Expr::Name(it)
            if self.bindings.has(it.id.as_str()) && self.syntax.names.is_builtin(it.id.as_str()));
        if is_client {
            return false;
        }
        let given = &call.arguments.args;
        let has_star = given.iter().any(Expr::is_starred_expr);
        match *when {
            When::Always => true,
            When::Given => !call.arguments.is_empty(),
            When::Several => call.arguments.keywords.is_empty() && (given.len() != 1 || has_star),
            When::Format(signs) => match given.last() {
                Some(Expr::StringLiteral(it)) => {
                    signs.iter().any(|sign| it.value.to_str().contains(sign))
                }
                Some(_) => true,
                None => !call.arguments.keywords.is_empty(),
            },
            When::Pattern(at) => self.is_pattern(method, call, at),
        }
    }

    /// Returns whether a method may be of a regular expression, and the interpreter's is not enough:
    /// of a module, the argument at the position says so, and the one before it of a compiled one.
    fn is_pattern(&self, method: &ExprAttribute, call: &ExprCall, at: usize) -> bool {
        let given = &call.arguments.args;
        let is_module = matches!(&*method.value, Expr::Name(it) if it.id.as_str() == "re");
        if !is_module && (!self.has_patterns || call.arguments.is_empty()) {
            return false;
        }
        match (is_module, at) {
            // Only groups make a difference, and what may match the empty text.
            (true, 0) => match given.first() {
                Some(Expr::StringLiteral(it)) => it.value.to_str().contains(PARTS),
                _ => true,
            },
            (false, 0) => true,
            // A text with references to groups is no plain text.
            (is_module, _) => !matches!(given.get(usize::from(is_module)),
                Some(Expr::StringLiteral(it)) if !it.value.to_str().contains('\\')),
        }
    }

    /// Replaces `value.method(` by `_airlock_method(value, `.
    fn method(&mut self, method: &ExprAttribute, call: &ExprCall) {
        let Some(dot) = self.syntax.token(TokenKind::Dot, between(&*method.value, &method.attr))
        else {
            return;
        };
        self.open(call, format!("_airlock_{}(", method.attr));
        let name = TextRange::new(dot.start(), bracket(call).end());
        let comma = if call.arguments.is_empty() { "" } else { ", " };
        self.edits.push(Edit::replace(name, self.syntax.breaks(name) + comma));
    }

    /// Begins a call before another.
    fn open(&mut self, call: &ExprCall, open: impl Into<Cow<'static, str>>) {
        self.edits.push(Edit::open(call.range(), open));
        // Beside another argument, a generator needs brackets of its own.
        if let [Expr::Generator(it)] = &*call.arguments.args
            && !it.parenthesized
        {
            self.edits.extend(Edit::enclose(it, "[", "]"));
        }
    }

    /// Replaces `function(` by `open` and the function.
    fn function(&mut self, call: &ExprCall, open: &'static str) {
        self.open(call, open);
        self.edits.push(Edit::replace(bracket(call), ", "));
    }

    /// Compares sets, which the interpreter does by methods alone. A chain becomes several calls, if
    /// names and constants are in its middle: `a <= b < c` is `(f(a , b) and g(b, c))`.
    fn compare(&mut self, it: &ExprCompare) {
        let Some((last, middle)) = it.comparators.split_last() else { return };
        let operators: Option<Vec<_>> = it.ops.iter().copied().map(set_operator).collect();
        let Some(operators) = operators else { return };
        let mut sides = middle.iter().chain([&*it.left, last]);
        if !sides.any(|side| self.syntax.names.is_set(side)) {
            return;
        }
        if let ([(operator, open)], []) = (&*operators, middle) {
            let edits = self.syntax.operator(it, [&it.left, last], *operator, open);
            self.edits.extend(edits.into_iter().flatten());
        } else if let Some(edits) = self.chain(it, &operators, middle) {
            self.edits.extend(Edit::enclose(it, format!("({}", operators[0].1), "))"));
            self.edits.extend(edits);
        }
    }

    /// Returns the changes of the operators in a chain of comparisons; `None` if it stays.
    fn chain(
        &self,
        it: &ExprCompare,
        operators: &[(TokenKind, &'static str)],
        middle: &[Expr],
    ) -> Option<Vec<Edit>> {
        // What is written twice, and evaluated twice.
        let repeated: Option<Vec<_>> = middle
            .iter()
            .map(|side| self.syntax.line(side).filter(|_| is_constant(side)))
            .collect();
        let repeated = repeated?;
        let mut edits = Vec::new();
        let mut left = &*it.left;
        for (at, ((kind, open), right)) in operators.iter().zip(&it.comparators).enumerate() {
            let mut tokens = self.syntax.tokens(between(left, right));
            let (operator, insert) = match at.checked_sub(1) {
                None => (tokens.find(|token| token.kind() == *kind)?, ",".to_owned()),
                // Before a later operator there is nothing, such as the bracket of an operand.
                Some(before) => (
                    tokens.next().filter(|token| token.kind() == *kind)?,
                    format!(") and {open}{},", repeated[before]),
                ),
            };
            edits.push(Edit::replace(operator.range(), insert));
            left = right;
        }
        Some(edits)
    }

    /// Asks for the name of a function, or of what stands for a class of the library.
    fn name(&mut self, it: &ExprAttribute) {
        let is_type = matches!(&*it.value, Expr::Call(call)
            if matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "type"));
        if it.attr.as_str() == "__name__"
            && it.ctx == ExprContext::Load
            && (self.has_classes || !is_type)
            && let Some(dot) = self.syntax.token(TokenKind::Dot, between(&*it.value, &it.attr))
            && let name = TextRange::new(dot.start(), it.end())
            && let Some(name) = self.syntax.replace(&name, "")
        {
            self.edits.extend(Edit::wrap(it, "_airlock_name("));
            self.edits.push(name);
        }
    }

    /// Computes with lengths of time, which the interpreter only adds and multiplies by integers.
    fn binary(&mut self, it: &ExprBinOp) {
        let (operator, open) = match it.op {
            Operator::FloorDiv => (TokenKind::DoubleSlash, "_airlock_floor("),
            Operator::Div => (TokenKind::Slash, "_airlock_divide("),
            Operator::Mod => (TokenKind::Percent, "_airlock_modulo("),
            Operator::Mult => (TokenKind::Star, "_airlock_times("),
            _ => return,
        };
        if !is_no_time(&it.left) && !is_no_time(&it.right) {
            let edits = self.syntax.operator(it, [&it.left, &it.right], operator, open);
            self.edits.extend(edits.into_iter().flatten());
        }
    }

    /// Writes the digits of `%f` in a format of an f-string.
    fn interpolated(&mut self, element: &InterpolatedStringElement) {
        let InterpolatedStringElement::Interpolation(it) = element else { return };
        let Some(spec) = &it.format_spec else { return };
        let Some(value) =
            self.syntax.line(&*it.expression).filter(|_| is_unchanged(&it.expression))
        else {
            return;
        };
        for part in spec.elements.literals() {
            for (at, digits) in self.syntax.text(part).match_indices("%f") {
                let Ok(at) = TextSize::try_from(at) else { continue };
                let insert = format!("{{_airlock_microseconds({value})}}");
                self.edits.push(Edit::replace(
                    TextRange::at(part.start() + at, digits.text_len()),
                    insert,
                ));
            }
        }
    }
}

/// Returns how a comparison of sets is written, and the function that stands for it.
fn set_operator(operator: CmpOp) -> Option<(TokenKind, &'static str)> {
    match operator {
        CmpOp::LtE => Some((TokenKind::LessEqual, "_airlock_is_subset(")),
        CmpOp::Lt => Some((TokenKind::Less, "_airlock_is_proper_subset(")),
        CmpOp::GtE => Some((TokenKind::GreaterEqual, "_airlock_is_superset(")),
        CmpOp::Gt => Some((TokenKind::Greater, "_airlock_is_proper_superset(")),
        _ => None,
    }
}

/// Returns whether a value is a name or a constant, or a set of them.
fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::Name(_) | Expr::NumberLiteral(_) | Expr::StringLiteral(_) => true,
        Expr::Set(it) => it.elts.iter().all(is_constant),
        _ => false,
    }
}

/// Returns whether all arguments are integers in the text.
fn are_whole(call: &ExprCall) -> bool {
    let mut named = call.arguments.keywords.iter();
    call.arguments.args.iter().all(is_whole)
        && named.all(|keyword| keyword.arg.is_some() && is_whole(&keyword.value))
}

fn is_whole(expression: &Expr) -> bool {
    match expression {
        Expr::UnaryOp(it) => is_integer(&it.operand),
        _ => is_integer(expression),
    }
}

fn is_integer(expression: &Expr) -> bool {
    matches!(expression, Expr::NumberLiteral(it) if it.value.is_int())
}

/// Returns whether a value is no length of time: a number, or a part of formatting with `%`.
fn is_no_time(expression: &Expr) -> bool {
    is_integer(expression)
        || matches!(
            expression,
            Expr::StringLiteral(_) | Expr::FString(_) | Expr::Tuple(_) | Expr::Dict(_)
        )
}

/// Returns the opening bracket of a call.
fn bracket(call: &ExprCall) -> TextRange {
    TextRange::at(call.arguments.start(), TextSize::of('('))
}

impl<'a> Visitor<'a> for MethodFinder<'_> {
    // Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        self.interpolated(element);
        walk_interpolated_string_element(self, element);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(it) => self.call(it),
            Expr::Compare(it) => self.compare(it),
            Expr::Attribute(it) => self.name(it),
            Expr::BinOp(it) if self.has_dates => self.binary(it),
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{batches, fail, result};

    #[test]
    fn patterns_that_split_otherwise_at_the_empty_text_are_refused() {
        for call in [
            r"re.split(r'x*', 'axbc')",
            r"re.split(r'x*', 'xxx')",
            r"re.split(r'(x*)', 'axb')",
            r"re.compile(r'\s*').split('a b')",
        ] {
            let failure = fail(&format!("import re\n{call}"));
            let message =
                "ValueError: re.split() takes no pattern here that matches the empty text";
            assert!(failure.message.starts_with(message), "{call}: {}", failure.message);
            assert_eq!(failure.line, Some(2), "{call}");
        }
    }

    #[test]
    fn methods_of_the_scripts_own_classes_and_of_tools_are_called_as_they_are() {
        let class = "
class Own:
    def __init__(self, n): self.n = n
    def combine(self, other): return self.n + other
    def isocalendar(self): return 'own'
    def union(self, *them, k=1): return [*them, k]
    def sub(self, a, b): return [a, b]
    def split(self): return 'split'
    def translate(self, table): return table
    def strftime(self, format): return format
    def update(self, a, b): return a + b
own = Own(1)
import re
p = re.compile('(a)')
";
        for (expression, value) in [
            (
                "[own.combine(2), own.isocalendar(), own.union(1, 2), own.sub(1, 2)]",
                r#"[3,"own",[1,2,1],[1,2]]"#,
            ),
            (
                "[own.translate(3), own.strftime('%f'), own.update(1, 2), own.split()]",
                r#"[3,"%f",3,"split"]"#,
            ),
            ("files.read_file(update=1)", r#"{"update":1}"#),
            (
                "[Own(1)\n  .combine(\n  2), (Own(4)) . combine (5), {'a': own}['a'].combine(1)]",
                "[3,9,2]",
            ),
            ("'a b'.split(maxsplit=1)", r#"["a","b"]"#),
        ] {
            let source = format!("{class}result = {expression}");
            assert_eq!(result(&source).as_deref(), Some(value), "{expression}");
        }
        assert_eq!(batches("x = await files.read_file(split=1)"), [1]);
    }

    #[test]
    fn changed_calls_nest_in_each_other_and_in_awaits() {
        for (source, value) in [
            ("import math\nresult = math.fsum(x for x in [0.5, 1])", "1.5"),
            (
                "from datetime import datetime, timedelta\na = datetime(2024, 1, 9)\nresult = [((a - datetime(2024, 1, 1)) // timedelta(days=0.5)) // 2, a.astimezone().isocalendar()[1] * (1 < 2), f\"{a.isoformat(' ')}\"]",
                r#"[8,2,"2024-01-09 00:00:00"]"#,
            ),
            (
                "from datetime import timedelta\nx = await files.read_file(n = 6)\nasync def f(): return 6\nresult = [await f() // x['n'], await f() * (await f())]",
                "[1,36]",
            ),
            (
                "import re\nresult = re.sub('(a)', lambda m: re.sub('(.)', r'\\1_', m.group(1)), 'xa')",
                r#""xa_""#,
            ),
            ("async def f(): return {'a': 1}\nresult = await f() | {'b': 2}", r#"{"a":1,"b":2}"#),
            (
                "a = [1, 2]\na[0], b = sum([x > 1 for x in a]), {1} | {2}\nresult = [a, len(b)]",
                "[[1,2],2]",
            ),
            (
                "result = ['ab'.center(5, '*'), 'ab'.center(6), 'abc'.center(2)]",
                r#"["**ab*","  ab  ","abc"]"#,
            ),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
    }

    #[test]
    fn failures_are_those_of_python_at_the_place_of_the_script() {
        for (source, message, line) in [
            (
                "from datetime import datetime\ndatetime.strptime('x', '%Y%z')",
                "ValueError: time data 'x' does not match format '%Y%z'",
                2,
            ),
            (
                "import re\n\nre.sub('a', '\\\\q', 'a')",
                "ValueError: bad escape \\q in the replacement",
                3,
            ),
            (
                "x = 1\n'a'.center(3, 'ab')",
                "TypeError: The fill character must be exactly one character long",
                2,
            ),
            ("from datetime import timedelta\ntimedelta(day=1.5)", "TypeError: ", 2),
            (
                "x = {1}\nx <= 3",
                "TypeError: '<=' not supported between instances of 'set' and 'int'",
                2,
            ),
        ] {
            let failure = fail(source);
            assert!(failure.message.starts_with(message), "{source}: {}", failure.message);
            assert_eq!(failure.line, Some(line), "{source}");
        }
    }
}
