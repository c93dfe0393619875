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
use super::syntax::{Syntax, between, is_name};

/// Condition under which a call of a method is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallCondition {
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

const METHODS: [(&str, CallCondition); 25] = [
    ("astimezone", CallCondition::Always),
    ("bit_length", CallCondition::Always),
    ("center", CallCondition::Given),
    ("combine", CallCondition::Given),
    ("difference", CallCondition::Several),
    ("fromisocalendar", CallCondition::Given),
    ("fromordinal", CallCondition::Given),
    ("fromtimestamp", CallCondition::Given),
    ("fsum", CallCondition::Given),
    ("intersection", CallCondition::Several),
    ("is_integer", CallCondition::Always),
    ("isocalendar", CallCondition::Always),
    ("isoformat", CallCondition::Given),
    ("maketrans", CallCondition::Given),
    ("split", CallCondition::Pattern(0)),
    ("strftime", CallCondition::Format(&["%f", "%z"])),
    ("strptime", CallCondition::Format(&["%z"])),
    ("sub", CallCondition::Pattern(1)),
    ("subn", CallCondition::Given),
    ("toordinal", CallCondition::Always),
    ("translate", CallCondition::Given),
    ("union", CallCondition::Several),
    ("update", CallCondition::Several),
    ("utcfromtimestamp", CallCondition::Given),
    ("utcoffset", CallCondition::Always),
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
    /// True if the script has lengths of time.
    has_dates: bool,
    /// True if the script may have compiled regular expressions.
    has_patterns: bool,
    /// True if the script may have objects of classes that stand for those of the library.
    has_classes: bool,
    edits: Vec<Edit>,
}

impl MethodFinder<'_> {
    fn call(&mut self, call: &ExprCall) {
        let name = match &*call.func {
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            Expr::Name(name) if self.bindings.function(name.id.as_str()).is_none() => {
                name.id.as_str()
            }
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
        let is_client = matches!(&*method.value, Expr::Name(name)
            if self.bindings.has(name.id.as_str()) && self.syntax.names.is_builtin(name.id.as_str()));
        if is_client {
            return false;
        }
        let given = &call.arguments.args;
        let has_star = given.iter().any(Expr::is_starred_expr);
        match *when {
            CallCondition::Always => true,
            CallCondition::Given => !call.arguments.is_empty(),
            CallCondition::Several => {
                call.arguments.keywords.is_empty() && (given.len() != 1 || has_star)
            }
            CallCondition::Format(signs) => match given.last() {
                Some(Expr::StringLiteral(literal)) => {
                    signs.iter().any(|sign| literal.value.to_str().contains(sign))
                }
                Some(_) => true,
                None => !call.arguments.keywords.is_empty(),
            },
            CallCondition::Pattern(at) => self.is_pattern(method, call, at),
        }
    }

    /// Returns whether a method may be of a regular expression, and the interpreter's is not enough:
    /// of a module, the argument at the position says so, and the one before it of a compiled one.
    fn is_pattern(&self, method: &ExprAttribute, call: &ExprCall, at: usize) -> bool {
        let given = &call.arguments.args;
        let is_module = is_name(&method.value, &["re"]);
        if !is_module && (!self.has_patterns || call.arguments.is_empty()) {
            return false;
        }
        match (is_module, at) {
            // Only groups make a difference, and what may match the empty text.
            (true, 0) => match given.first() {
                Some(Expr::StringLiteral(literal)) => literal.value.to_str().contains(PARTS),
                _ => true,
            },
            (false, 0) => true,
            // A text with references to groups is no plain text.
            (is_module, _) => !matches!(given.get(usize::from(is_module)),
                Some(Expr::StringLiteral(literal)) if !literal.value.to_str().contains('\\')),
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
        if let [Expr::Generator(generator)] = &*call.arguments.args
            && !generator.parenthesized
        {
            self.edits.extend(Edit::enclose(generator, "[", "]"));
        }
    }

    /// Replaces `function(` by `open` and the function.
    fn function(&mut self, call: &ExprCall, open: &'static str) {
        self.open(call, open);
        self.edits.push(Edit::replace(bracket(call), ", "));
    }

    /// Compares sets, which the interpreter does by methods alone. A chain becomes several calls, if
    /// names and constants are in its middle: `a <= b < c` is `(f(a , b) and g(b, c))`.
    fn compare(&mut self, comparison: &ExprCompare) {
        let Some((last, middle)) = comparison.comparators.split_last() else { return };
        let operators: Option<Vec<_>> = comparison.ops.iter().copied().map(set_operator).collect();
        let Some(operators) = operators else { return };
        let mut sides = middle.iter().chain([&*comparison.left, last]);
        if !sides.any(|side| self.syntax.names.is_set(side)) {
            return;
        }
        if let ([(operator, open)], []) = (&*operators, middle) {
            let edits = self.syntax.operator(comparison, [&comparison.left, last], *operator, open);
            self.edits.extend(edits.into_iter().flatten());
        } else if let Some(edits) = self.chain(comparison, &operators, middle) {
            self.edits.extend(Edit::enclose(comparison, format!("({}", operators[0].1), "))"));
            self.edits.extend(edits);
        }
    }

    /// Returns the changes of the operators in a chain of comparisons; `None` if it stays.
    fn chain(
        &self,
        comparison: &ExprCompare,
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
        let mut left = &*comparison.left;
        for (at, ((kind, open), right)) in operators.iter().zip(&comparison.comparators).enumerate()
        {
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
    fn name(&mut self, attribute: &ExprAttribute) {
        let is_type =
            matches!(&*attribute.value, Expr::Call(call) if is_name(&call.func, &["type"]));
        if attribute.attr.as_str() == "__name__"
            && attribute.ctx == ExprContext::Load
            && (self.has_classes || !is_type)
            && let Some(dot) =
                self.syntax.token(TokenKind::Dot, between(&*attribute.value, &attribute.attr))
            && let name = TextRange::new(dot.start(), attribute.end())
            && let Some(name) = self.syntax.replace(&name, "")
        {
            self.edits.extend(Edit::wrap(attribute, "_airlock_name("));
            self.edits.push(name);
        }
    }

    /// Computes with lengths of time, which the interpreter only adds and multiplies by integers.
    fn binary(&mut self, operation: &ExprBinOp) {
        let (operator, open) = match operation.op {
            Operator::FloorDiv => (TokenKind::DoubleSlash, "_airlock_floor("),
            Operator::Div => (TokenKind::Slash, "_airlock_divide("),
            Operator::Mod => (TokenKind::Percent, "_airlock_modulo("),
            Operator::Mult => (TokenKind::Star, "_airlock_times("),
            _ => return,
        };
        if !is_no_time(&operation.left) && !is_no_time(&operation.right) {
            let edits = self.syntax.operator(
                operation,
                [&operation.left, &operation.right],
                operator,
                open,
            );
            self.edits.extend(edits.into_iter().flatten());
        }
    }

    /// Writes the digits of `%f` in a format of an f-string.
    fn interpolated(&mut self, element: &InterpolatedStringElement) {
        let InterpolatedStringElement::Interpolation(interpolation) = element else { return };
        let Some(spec) = &interpolation.format_spec else { return };
        let Some(value) = self
            .syntax
            .line(&*interpolation.expression)
            .filter(|_| is_unchanged(&interpolation.expression))
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
        Expr::Set(set) => set.elts.iter().all(is_constant),
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
        Expr::UnaryOp(operation) => is_integer(&operation.operand),
        _ => is_integer(expression),
    }
}

fn is_integer(expression: &Expr) -> bool {
    matches!(expression, Expr::NumberLiteral(number) if number.value.is_int())
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
            Expr::Call(call) => self.call(call),
            Expr::Compare(comparison) => self.compare(comparison),
            Expr::Attribute(attribute) => self.name(attribute),
            Expr::BinOp(operation) if self.has_dates => self.binary(operation),
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests;
