//! Methods and functions of modules that the interpreter lacks, or takes otherwise than Python.
//!
//! `value.method(x)` becomes `_airlock_method(value, x)`. The function looks at the value: it stands
//! in for the interpreter's own types, and calls the method of any other. They are in
//! `library/methods.py`, `library/dates.py` and `library/sets.py`.

use std::borrow::Cow;

use airlock_executor::Bindings;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_interpolated_string_element};
use ruff_python_ast::{
    CmpOp, Expr, ExprAttribute, ExprBinOp, ExprCall, ExprCompare, ExprContext,
    InterpolatedStringElement, Operator, Stmt,
};
use ruff_text_size::Ranged as _;

use super::names::Names;
use super::source::{Edit, without_comments};

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
    METHODS.iter().any(|(it, _)| *it == method)
}

/// Returns the changes.
pub(super) fn edits(
    source: &str,
    body: &[Stmt],
    names: &Names<'_>,
    bindings: &Bindings,
) -> Vec<Edit> {
    let has_dates = source.contains("timedelta");
    let has_classes = ["csv", "StringIO", "urllib"].iter().any(|name| source.contains(name));
    let mut finder = Finder { source, names, bindings, has_dates, has_classes, edits: Vec::new() };
    finder.visit_body(body);
    finder.edits
}

struct Finder<'s> {
    source: &'s str,
    names: &'s Names<'s>,
    bindings: &'s Bindings,
    /// Whether the script has lengths of time.
    has_dates: bool,
    /// Whether the script may have objects of classes that stand for those of the library.
    has_classes: bool,
    edits: Vec<Edit>,
}

impl Finder<'_> {
    fn call(&mut self, call: &ExprCall) {
        let name = match &*call.func {
            Expr::Attribute(it) => it.attr.as_str(),
            Expr::Name(it) => it.id.as_str(),
            _ => return,
        };
        let has_default = || {
            let names = &call.arguments.keywords;
            names.iter().any(|it| it.arg.as_ref().is_some_and(|arg| arg.as_str() == "default"))
        };
        match name {
            "dumps" if has_default() => self.function(call, "_airlock_dumps("),
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
        let Some((_, when)) = METHODS.iter().find(|(it, _)| *it == name) else {
            return false;
        };
        let is_client = matches!(&*method.value, Expr::Name(it)
            if self.bindings.has(it.id.as_str()) && self.names.is_builtin(it.id.as_str()));
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
        if !is_module && (!self.source.contains("compile(") || call.arguments.is_empty()) {
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
        let from = method.value.end().to_usize();
        let to = call.arguments.range.start().to_usize() + 1;
        let name = method.attr.start().to_usize();
        let gap = without_comments(&self.source[from..name]);
        let Some(dot) = gap.rfind('.').map(|at| from + at) else { return };
        let open = format!("_airlock_{}(", method.attr);
        self.open(call, open);
        let comma = if call.arguments.is_empty() { "" } else { ", " };
        let insert = "\n".repeat(self.source[dot..to].matches('\n').count()) + comma;
        self.edits.push(Edit::replace(dot, to - dot, insert));
    }

    /// Begins a call before another.
    fn open(&mut self, call: &ExprCall, open: impl Into<Cow<'static, str>>) {
        let (at, end) = (call.start().to_usize(), call.end().to_usize());
        self.edits.push(Edit::open(at, end, open));
        // Beside another argument, a generator needs brackets of its own.
        if let [Expr::Generator(it)] = &*call.arguments.args
            && !it.parenthesized
        {
            let (start, end) = (it.start().to_usize(), it.end().to_usize());
            self.edits.push(Edit::open(start, end, "["));
            self.edits.push(Edit::close(end, start, "]"));
        }
    }

    /// Replaces `function(` by `open` and the function.
    fn function(&mut self, call: &ExprCall, open: &'static str) {
        let at = call.arguments.range.start().to_usize();
        self.open(call, open);
        self.edits.push(Edit::replace(at, 1, ", "));
    }

    /// Replaces an operator by a call: `a <= b` becomes `open a , b)`.
    fn operator(&mut self, it: &Expr, sides: [&Expr; 2], operator: &str, open: &'static str) {
        let (from, to) = (sides[0].end().to_usize(), sides[1].start().to_usize());
        let gap = without_comments(&self.source[from..to]);
        let Some(at) = gap.find(operator) else { return };
        self.edits.extend(Edit::wrap(it, open));
        let (at, remove) = (from + at, operator.len());
        self.edits.push(Edit::replace(at, remove, ","));
    }

    /// Compares sets, which the interpreter does by methods alone. A chain becomes several calls, if
    /// names and constants are in its middle: `a <= b < c` is `(f(a , b) and g(b, c))`.
    fn compare(&mut self, whole: &Expr, it: &ExprCompare) {
        let Some((last, middle)) = it.comparators.split_last() else { return };
        let operators: Option<Vec<_>> = it.ops.iter().copied().map(set_operator).collect();
        let Some(operators) = operators else { return };
        let mut sides = middle.iter().chain([&*it.left, last]);
        if !sides.any(|side| self.names.is_set(side)) {
            return;
        }
        if let ([(operator, open)], []) = (&*operators, middle) {
            return self.operator(whole, [&it.left, last], operator, open);
        }
        // What is written twice, and evaluated twice.
        let repeated: Vec<_> = middle
            .iter()
            .filter(|it| is_constant(it))
            .map(|it| &self.source[it.start().to_usize()..it.end().to_usize()])
            .filter(|text| !text.contains('\n'))
            .collect();
        if repeated.len() < middle.len() {
            return;
        }
        let (mut edits, mut left) = (Vec::new(), &*it.left);
        for (at, ((operator, open), right)) in operators.iter().zip(&it.comparators).enumerate() {
            let (from, to) = (left.end().to_usize(), right.start().to_usize());
            let gap = without_comments(&self.source[from..to]);
            // Before a later operator there is nothing, such as the bracket of an operand.
            let is_next = |found: &usize| at == 0 || gap[..*found].trim().is_empty();
            let Some(found) = gap.find(operator).filter(is_next) else { return };
            let insert = match at.checked_sub(1) {
                None => ",".to_owned(),
                Some(before) => format!(") and {open}{},", repeated[before]),
            };
            edits.push(Edit::replace(from + found, operator.len(), insert));
            left = right;
        }
        let (start, end) = (whole.start().to_usize(), whole.end().to_usize());
        self.edits.push(Edit::open(start, end, format!("({}", operators[0].1)));
        self.edits.push(Edit::close(end, start, "))"));
        self.edits.extend(edits);
    }

    /// Asks for the name of a function, or of what stands for a class of the library.
    fn name(&mut self, whole: &Expr, it: &ExprAttribute) {
        let is_type = matches!(&*it.value, Expr::Call(it)
            if matches!(&*it.func, Expr::Name(name) if name.id.as_str() == "type"));
        let (from, to) = (it.value.end().to_usize(), it.end().to_usize());
        if it.attr.as_str() == "__name__"
            && it.ctx == ExprContext::Load
            && (self.has_classes || !is_type)
            && let Some(brackets) = self.source[from..to].strip_suffix(".__name__")
        {
            let from = from + brackets.len();
            self.edits.extend(Edit::wrap(whole, "_airlock_name("));
            self.edits.push(Edit::replace(from, to - from, ""));
        }
    }

    /// Computes with lengths of time, which the interpreter only adds and multiplies by integers.
    fn binary(&mut self, whole: &Expr, it: &ExprBinOp) {
        let (operator, open) = match it.op {
            Operator::FloorDiv => ("//", "_airlock_floor("),
            Operator::Div => ("/", "_airlock_divide("),
            Operator::Mod => ("%", "_airlock_modulo("),
            Operator::Mult => ("*", "_airlock_times("),
            _ => return,
        };
        // Formatting with `%`, and plain arithmetic.
        let is_other = |it: &Expr| {
            is_integer(it)
                || matches!(
                    it,
                    Expr::StringLiteral(_) | Expr::FString(_) | Expr::Tuple(_) | Expr::Dict(_)
                )
        };
        if !is_other(&it.left) && !is_other(&it.right) {
            self.operator(whole, [&it.left, &it.right], operator, open);
        }
    }

    /// Writes the digits of `%f` in a format of an f-string.
    fn interpolated(&mut self, element: &InterpolatedStringElement) {
        let InterpolatedStringElement::Interpolation(it) = element else { return };
        let Some(spec) = &it.format_spec else { return };
        let (from, to) = (spec.start().to_usize(), spec.end().to_usize());
        let range = it.expression.range();
        let value = &self.source[range.start().to_usize()..range.end().to_usize()];
        if value.contains(['(', '\n', '{', '"', '\'', '%']) {
            return;
        }
        for (at, _) in self.source[from..to].match_indices("%f") {
            let insert = format!("{{_airlock_microseconds({value})}}");
            self.edits.push(Edit::replace(from + at, 2, insert));
        }
    }
}

/// Returns how a comparison of sets is written, and the function that stands for it.
fn set_operator(operator: CmpOp) -> Option<(&'static str, &'static str)> {
    match operator {
        CmpOp::LtE => Some(("<=", "_airlock_is_subset(")),
        CmpOp::Lt => Some(("<", "_airlock_is_proper_subset(")),
        CmpOp::GtE => Some((">=", "_airlock_is_superset(")),
        CmpOp::Gt => Some((">", "_airlock_is_proper_superset(")),
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
    let is_whole = |it: &Expr| match it {
        Expr::UnaryOp(it) => is_integer(&it.operand),
        _ => is_integer(it),
    };
    let named = call.arguments.keywords.iter().map(|it| (it.arg.is_some(), &it.value));
    let given = call.arguments.args.iter().map(|it| (true, it));
    given.chain(named).all(|(has_name, it)| has_name && is_whole(it))
}

fn is_integer(expression: &Expr) -> bool {
    matches!(expression, Expr::NumberLiteral(it) if it.value.is_int())
}

impl<'a> Visitor<'a> for Finder<'_> {
    // Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        self.interpolated(element);
        walk_interpolated_string_element(self, element);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(it) => self.call(it),
            Expr::Compare(it) => self.compare(expression, it),
            Expr::Attribute(it) => self.name(expression, it),
            Expr::BinOp(it) if self.has_dates => self.binary(expression, it),
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
