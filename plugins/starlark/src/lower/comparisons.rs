//! Comparisons, single and chained.

use std::collections::BTreeSet;

use ruff_python_ast::{CmpOp, Expr, ExprCompare};
use ruff_text_size::Ranged;

use super::{Lowering, MAX_NESTING, OWN};

impl<'a> Lowering<'a> {
    pub(super) fn compare(&mut self, it: &'a ExprCompare) {
        match (&*it.ops, &*it.comparators) {
            ([op], [right]) => self.comparison(
                *op,
                (&*it.left, right),
                |this| this.side(*op, &it.left),
                |this| this.side(*op, right),
            ),
            (ops, _) if ops.len() > MAX_NESTING => self.refuse(
                it.range(),
                format!(
                    "a chain has more than {MAX_NESTING} comparisons: join shorter ones with `and`"
                ),
            ),
            (ops, rights) => self.chain(None, &it.left, ops, rights),
        }
    }

    /// Writes one side of a comparison. The keys and items of a dict are in an order like a set.
    fn side(&mut self, op: CmpOp, it: &'a Expr) {
        match op {
            CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE if is_view(it) => self.operand(it),
            _ => self.expression(it),
        }
    }

    /// Writes `a < b < c` so that each is evaluated once and in order, and `c` only if `a < b`:
    /// `[(x < y and …) for x in [a] for y in [b]][0]`. `left` is the name of `first` if it has one.
    fn chain(&mut self, left: Option<&str>, first: &'a Expr, ops: &[CmpOp], rights: &'a [Expr]) {
        let [op, ops @ ..] = ops else { return };
        let [right, rights @ ..] = rights else { return };
        let x = left.map_or_else(|| self.fresh(), Into::into);
        let y = self.fresh();
        let nodes = (first, right);
        if ops.is_empty() {
            return self.comparison(*op, nodes, |this| this.push(&x), |this| this.side(*op, right));
        }
        self.push("[(");
        self.comparison(*op, nodes, |this| this.push(&x), |this| this.push(&y));
        self.push(" and ");
        self.chain(Some(&y), right, ops, rights);
        self.push(")");
        if left.is_none() {
            self.push(&format!(" for {x} in ["));
            self.side(*op, first);
            self.push("]");
        }
        self.push(&format!(" for {y} in ["));
        self.side(*op, right);
        self.push("]][0]");
    }

    /// Writes a comparison of two sides; `nodes` tells their form.
    fn comparison(
        &mut self,
        op: CmpOp,
        nodes: (&'a Expr, &'a Expr),
        left: impl FnOnce(&mut Self),
        right: impl FnOnce(&mut Self),
    ) {
        let none = nodes.1.is_none_literal_expr();
        let special = self.special(op, nodes.0, nodes.1);
        let called = special.map(|function| format!("{OWN}{function}("));
        let (open, between) = match (op, called) {
            (_, Some(open)) => (open, ", "),
            (CmpOp::Is, _) if none => ("(".into(), " == "),
            (CmpOp::IsNot, _) if none => ("(".into(), " != "),
            (CmpOp::Is, _) => (format!("{OWN}is("), ", "),
            (CmpOp::IsNot, _) => (format!("(not {OWN}is("), ", "),
            (CmpOp::Lt, _) => ("(".into(), " < "),
            (CmpOp::LtE, _) => ("(".into(), " <= "),
            (CmpOp::Gt, _) => ("(".into(), " > "),
            (CmpOp::GtE, _) => ("(".into(), " >= "),
            (CmpOp::Eq, _) => ("(".into(), " == "),
            (CmpOp::NotEq, _) => ("(".into(), " != "),
            (CmpOp::In, _) => ("(".into(), " in "),
            (CmpOp::NotIn, _) => ("(".into(), " not in "),
        };
        self.push(&open);
        left(self);
        self.push(between);
        right(self);
        self.push(if op == CmpOp::IsNot && !none { "))" } else { ")" });
    }

    /// Returns the function for a comparison that Starlark does not have, by the form of its
    /// operands.
    fn special(&self, op: CmpOp, left: &Expr, right: &Expr) -> Option<&'static str> {
        let has_keys = is_keys(left) || is_keys(right);
        let is_truth = left.is_boolean_literal_expr() || right.is_boolean_literal_expr();
        let is_order = matches!(op, CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE);
        let has_order = is_order && (is_truth || self.is_set(left) || self.is_set(right));
        let is_known = left.is_tuple_expr() || right.is_tuple_expr() || is_type_call(left);
        match op {
            CmpOp::Eq if has_keys => Some("eq_keys"),
            CmpOp::NotEq if has_keys => Some("ne_keys"),
            // Python's truth values are the numbers 0 and 1.
            CmpOp::Eq if is_truth => Some("same"),
            CmpOp::NotEq if is_truth => Some("differs"),
            CmpOp::In if left.is_boolean_literal_expr() || has_truth(right) => Some("among"),
            CmpOp::NotIn if left.is_boolean_literal_expr() || has_truth(right) => Some("not_among"),
            CmpOp::Eq if is_known => Some("eq"),
            CmpOp::NotEq if is_known => Some("ne"),
            CmpOp::Lt if has_order => Some("lt"),
            CmpOp::LtE if has_order => Some("le"),
            CmpOp::Gt if has_order => Some("gt"),
            CmpOp::GtE if has_order => Some("ge"),
            _ => None,
        }
    }

    /// Returns whether the value may be a set.
    fn is_set(&self, it: &Expr) -> bool {
        makes_set(it, &self.facts.sets)
    }
}

/// Returns whether this makes a set, by its form; `known` are names of sets.
pub(super) fn makes_set(it: &Expr, known: &BTreeSet<&str>) -> bool {
    let methods = ["union", "intersection", "difference", "symmetric_difference"];
    match it {
        Expr::Name(name) => known.contains(name.id.as_str()),
        Expr::Set(_) | Expr::SetComp(_) => true,
        Expr::BinOp(it) => makes_set(&it.left, known) || makes_set(&it.right, known),
        Expr::Call(call) => {
            is_view(it)
                || matches!(&*call.func, Expr::Name(it) if it.id == "set" || it.id == "frozenset")
                || matches!(&*call.func, Expr::Attribute(it) if methods.contains(&it.attr.as_str()))
        }
        _ => false,
    }
}

/// Returns whether this is `d.keys()` or `d.items()`.
fn is_view(it: &Expr) -> bool {
    matches!(it, Expr::Call(call) if matches!(&*call.func, Expr::Attribute(it)
        if matches!(&*it.attr, "keys" | "items")))
}

/// Returns whether this is `d.keys()`, which Python compares like a set.
fn is_keys(it: &Expr) -> bool {
    matches!(it, Expr::Call(call) if matches!(&*call.func, Expr::Attribute(it) if &*it.attr == "keys"))
}

fn is_type_call(it: &Expr) -> bool {
    matches!(it, Expr::Call(call) if matches!(&*call.func, Expr::Name(it) if it.id == "type"))
}

/// Returns whether this is a list, tuple or set with `True` or `False` in it.
fn has_truth(it: &Expr) -> bool {
    let items = match it {
        Expr::List(it) => &it.elts,
        Expr::Tuple(it) => &it.elts,
        Expr::Set(it) => &it.elts,
        _ => return false,
    };
    items.iter().any(Expr::is_boolean_literal_expr)
}
