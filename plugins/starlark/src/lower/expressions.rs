//! Expressions.

use std::borrow::Cow;

use ruff_python_ast::{
    Expr, ExprBinOp, ExprDict, ExprLambda, ExprSubscript, ExprUnaryOp, Number, Operator, UnaryOp,
};
use ruff_text_size::Ranged;

use super::{Lowering, OWN, scope};

/// Largest depth of an expression in its statement; a sum of so many terms has it, too. Starlark's
/// compiler is recursive, and the sandbox provides 512 KiB of stack.
const MAX_DEPTH: usize = 150;

impl<'a> Lowering<'a> {
    /// Writes an expression, in brackets wherever its parts could be read differently.
    pub(super) fn expression(&mut self, it: &'a Expr) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.refuse_depth(it);
        } else {
            self.mapped(it, |this| this.any_expression(it));
        }
        self.depth -= 1;
    }

    fn refuse_depth(&mut self, node: &impl Ranged) {
        let message = format!(
            "an expression is nested more than {MAX_DEPTH} deep: assign its parts to names first"
        );
        self.refuse(node.range(), message);
    }

    fn any_expression(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(it) => self.name(&it.id),
            Expr::NumberLiteral(it) => self.number(&it.value, expression),
            Expr::BooleanLiteral(it) => self.push(if it.value { "True" } else { "False" }),
            Expr::NoneLiteral(_) | Expr::EllipsisLiteral(_) => self.push("None"),
            Expr::StringLiteral(it) => self.string(it.value.to_str()),
            Expr::FString(it) => self.f_string(it),
            Expr::BoolOp(it) => {
                // Starlark nests the terms of a chain.
                let terms = it.values.len().saturating_sub(2);
                if self.depth + terms >= MAX_DEPTH {
                    return self.refuse_depth(it);
                }
                self.depth += terms;
                self.joined(&it.values, it.op.as_str());
                self.depth -= terms;
            }
            Expr::Named(it) => {
                let Expr::Name(name) = &*it.target else { return };
                self.push(&format!("{OWN}set({OWN}cell_{}, ", name.id));
                self.expression(&it.value);
                self.push(")");
            }
            Expr::BinOp(it) => self.binary(it),
            Expr::UnaryOp(it) => self.unary(it),
            Expr::Lambda(it) => self.lambda(it),
            Expr::If(it) => {
                self.push("(");
                self.expression(&it.body);
                self.push(" if ");
                self.expression(&it.test);
                self.push(" else ");
                self.expression(&it.orelse);
                self.push(")");
            }
            Expr::Dict(it) => self.dict(it),
            Expr::Set(it) => {
                self.push(&format!("{OWN}set_of("));
                self.list(&it.elts);
                self.push(")");
            }
            Expr::List(it) => self.list(&it.elts),
            Expr::Tuple(it) => self.tuple(&it.elts),
            Expr::Compare(it) => self.compare(it),
            Expr::Call(it) => self.call(it),
            Expr::Attribute(it) if matches!(&*it.attr, "__name__" | "__qualname__") => {
                self.push(&format!("{OWN}title("));
                self.expression(&it.value);
                self.push(&format!(", \"{}\")", it.attr));
            }
            Expr::Attribute(it) => {
                self.object(&it.value);
                self.push(".");
                self.plain_name(&it.attr);
            }
            Expr::Subscript(it) => self.subscript(it),
            _ => self.other_expression(expression),
        }
    }

    fn other_expression(&mut self, expression: &'a Expr) {
        let range = expression.range();
        match expression {
            Expr::ListComp(it) => self.list_of(&it.elt, &it.generators),
            Expr::SetComp(it) => {
                self.push(&format!("{OWN}set_of("));
                self.list_of(&it.elt, &it.generators);
                self.push(")");
            }
            Expr::DictComp(it) => self.dict_of(it),
            Expr::Generator(it) => {
                self.push(&format!("{OWN}gen("));
                self.list_of(&it.elt, &it.generators);
                self.push(")");
            }
            Expr::Await(it) => {
                self.refuse_async(expression, "`await`");
                self.expression(&it.value);
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                self.refuse(
                    range,
                    "there is no `yield`: collect the values in a list and return it",
                );
            }
            Expr::Starred(_) => {
                self.refuse(range, "`*` is available in lists, tuples and calls only");
            }
            Expr::BytesLiteral(_) => self.refuse_here(range, "there are no bytes: use a str"),
            _ => {
                self.refuse(
                    range,
                    "this form of expression is not available: write it another way",
                );
            }
        }
    }

    /// Writes a name, read from its cell if it lives in one.
    fn name(&mut self, name: &str) {
        if name == "__name__" {
            self.push("\"__main__\"");
        } else if self.scopes.in_cell(&self.facts, name) {
            self.push(&format!("{OWN}cell_{name}[0]"));
        } else {
            self.plain_name(name);
        }
    }

    /// Writes a name as [`plain_name`].
    pub(super) fn plain_name(&mut self, name: &str) {
        self.push(&plain_name(name));
    }

    fn number(&mut self, number: &Number, node: &Expr) {
        match number {
            Number::Int(_) => {
                let digits: String = self.text_of(node).chars().filter(|c| *c != '_').collect();
                // `00` is a number in Python alone.
                let zeros = digits.trim_start_matches('0');
                let plain = digits.bytes().all(|c| c.is_ascii_digit());
                self.push(if plain && zeros.is_empty() { "0" } else { &digits });
            }
            Number::Float(float) if float.is_finite() => self.push(&format!("{float:?}")),
            Number::Float(_) => self.push("float(\"inf\")"),
            Number::Complex { .. } => {
                self.refuse(node.range(), "there are no complex numbers: use two floats");
            }
        }
    }

    /// Writes the object of an attribute. A number needs brackets, or the dot would be read as its own.
    pub(super) fn object(&mut self, it: &'a Expr) {
        if it.is_number_literal_expr() {
            self.push("(");
            self.expression(it);
            return self.push(")");
        }
        self.expression(it);
    }

    fn unary(&mut self, it: &'a ExprUnaryOp) {
        // Python negates truth values, too; of what value a name is, only the run knows.
        let word = match it.op {
            UnaryOp::Not => "(not ",
            UnaryOp::USub if it.operand.is_number_literal_expr() => "(-",
            UnaryOp::USub => "__py_neg(",
            UnaryOp::UAdd => "(+",
            UnaryOp::Invert => "(~",
        };
        self.push(word);
        match it.op {
            UnaryOp::Invert | UnaryOp::UAdd => self.operand(&it.operand),
            _ => self.expression(&it.operand),
        }
        self.push(")");
    }

    fn joined(&mut self, values: &'a [Expr], word: &str) {
        self.push("(");
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.push(&format!(" {word} "));
            }
            self.expression(value);
        }
        self.push(")");
    }

    fn binary(&mut self, it: &'a ExprBinOp) {
        // A remainder by a literal number is the usual case, and a call would cost three times as
        // much; a text on its left that is no literal has Starlark's formats then.
        let text = matches!(&*it.left, Expr::StringLiteral(_) | Expr::FString(_));
        let native = it.op != Operator::Mod
            || it.left.is_number_literal_expr()
            || it.right.is_number_literal_expr() && !text;
        if native && !matches!(it.op, Operator::Pow | Operator::MatMult) {
            // Starlark has these of numbers only.
            let truth = Self::combines_truths(it);
            self.push(if truth { "((" } else { "(" });
            self.operand(&it.left);
            self.push(&format!(" {} ", it.op.as_str()));
            self.operand(&it.right);
            return self.push(if truth { ") != 0)" } else { ")" });
        }
        self.operation(it.op, |this| this.operand(&it.left), |this| this.operand(&it.right));
    }

    /// Writes an operation between two operands that are written already.
    pub(super) fn operation(
        &mut self,
        op: Operator,
        left: impl FnOnce(&mut Self),
        right: impl FnOnce(&mut Self),
    ) {
        let (open, between) = match op {
            Operator::Mod => (format!("{OWN}percent("), ", ".into()),
            Operator::Pow => ("pow(".into(), ", ".into()),
            _ => ("(".into(), format!(" {} ", op.as_str())),
        };
        let open = if op == Operator::Pow { format!("{OWN}{open}") } else { open };
        self.push(&open);
        left(self);
        self.push(&between);
        right(self);
        self.push(")");
    }

    /// Writes an operand of arithmetic. Python counts with truth values and combines the keys of
    /// dicts; Starlark does neither.
    pub(super) fn operand(&mut self, it: &'a Expr) {
        let function = match it {
            _ if Self::is_truth(it) => "num",
            Expr::Call(call) => match &*call.func {
                Expr::Attribute(it) if matches!(&*it.attr, "keys" | "items") => "set_of",
                _ => return self.expression(it),
            },
            _ => return self.expression(it),
        };
        self.push(&format!("{OWN}{function}("));
        self.expression(it);
        self.push(")");
    }

    /// Returns whether the value is known to be a truth value.
    fn is_truth(it: &Expr) -> bool {
        match it {
            Expr::Compare(_) | Expr::BooleanLiteral(_) => true,
            Expr::UnaryOp(not) => not.op == UnaryOp::Not,
            Expr::Call(call) => Self::is_predicate(call),
            Expr::BinOp(it) => Self::combines_truths(it),
            _ => false,
        }
    }

    /// Returns whether this combines two truth values by `&`, `|` or `^`, which makes another.
    fn combines_truths(it: &ExprBinOp) -> bool {
        matches!(it.op, Operator::BitAnd | Operator::BitOr | Operator::BitXor)
            && Self::is_truth(&it.right)
            && Self::is_truth(&it.left)
    }

    fn is_predicate(call: &ruff_python_ast::ExprCall) -> bool {
        matches!(&*call.func, Expr::Name(name)
            if matches!(name.id.as_str(), "isinstance" | "bool" | "any" | "all"))
            || matches!(&*call.func, Expr::Attribute(it)
                if it.attr.starts_with("is") || matches!(&*it.attr, "startswith" | "endswith"))
    }

    fn lambda(&mut self, it: &'a ExprLambda) {
        self.push("(lambda ");
        if let Some(parameters) = &it.parameters {
            self.parameters(parameters);
        }
        self.push(": ");
        let names = it.parameters.as_deref().map(scope::parameters).unwrap_or_default();
        self.scopes.enter_inner(names);
        self.expression(&it.body);
        self.scopes.leave();
        self.push(")");
    }

    fn dict(&mut self, it: &'a ExprDict) {
        let spread = it.items.iter().any(|item| item.key.is_none());
        if spread {
            self.push(&format!("{OWN}merge("));
        }
        let mut open = false;
        if !spread {
            self.push("{");
        }
        for (at, item) in it.items.iter().enumerate() {
            if let Some(key) = &item.key {
                match (spread, open, at) {
                    (true, false, 0) => self.push("{"),
                    (true, false, _) => self.push(", {"),
                    (_, _, 0) => (),
                    _ => self.push(", "),
                }
                open = true;
                self.expression(key);
                self.push(": ");
            } else {
                if open {
                    self.push("}");
                }
                if at > 0 {
                    self.push(", ");
                }
                open = false;
            }
            self.expression(&item.value);
        }
        if open || !spread {
            self.push("}");
        }
        if spread {
            self.push(")");
        }
    }

    /// Writes a list; with starred items as the concatenation of its parts.
    pub(super) fn list(&mut self, items: &'a [Expr]) {
        if !items.iter().any(Expr::is_starred_expr) {
            self.push("[");
            self.separated(items, Self::expression);
            return self.push("]");
        }
        self.push(&format!("{OWN}concat("));
        self.separated(items, |this, item| {
            if let Expr::Starred(it) = item {
                this.expression(&it.value);
            } else {
                this.push("[");
                this.expression(item);
                this.push("]");
            }
        });
        self.push(")");
    }

    fn tuple(&mut self, items: &'a [Expr]) {
        if items.iter().any(Expr::is_starred_expr) {
            self.push(&format!("{OWN}tuple("));
            self.list(items);
            return self.push(")");
        }
        self.push("(");
        self.separated(items, Self::expression);
        if items.len() == 1 {
            self.push(",");
        }
        self.push(")");
    }

    fn subscript(&mut self, it: &'a ExprSubscript) {
        // A truth value is a position in a list, and a key of its own in a dict.
        let literal = matches!(&*it.value, Expr::List(_) | Expr::Tuple(_));
        let through = self.facts.factories
            || Self::is_truth(&it.slice)
            || literal && !it.slice.is_number_literal_expr();
        if through && !it.slice.is_slice_expr() {
            self.push(&format!("{OWN}at("));
            self.separated([&*it.value, &*it.slice], Self::expression);
            return self.push(")");
        }
        self.subscript_of(it);
    }

    pub(super) fn subscript_of(&mut self, it: &'a ExprSubscript) {
        self.expression(&it.value);
        self.push("[");
        if let Expr::Slice(slice) = &*it.slice {
            for (at, bound) in [&slice.lower, &slice.upper, &slice.step].into_iter().enumerate() {
                if at == 1 || at == 2 && bound.is_some() {
                    self.push(":");
                }
                if let Some(bound) = bound {
                    self.expression(bound);
                }
            }
        } else {
            self.expression(&it.slice);
        }
        self.push("]");
    }
}

/// Returns a name in the characters that Starlark allows.
pub(crate) fn plain_name(name: &str) -> Cow<'_, str> {
    if name == "load" {
        return format!("{OWN}name_load").into();
    }
    if name.is_ascii() {
        return name.into();
    }
    let mut plain = format!("{OWN}name");
    for c in name.chars() {
        if c.is_ascii() {
            plain.push(c);
        } else {
            plain.push_str(&format!("_{:x}_", u32::from(c)));
        }
    }
    plain.into()
}
