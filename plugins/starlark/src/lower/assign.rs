//! Assignments, and the targets that they share with loops.

use ruff_python_ast::{
    Expr, ExprSlice, ExprSubscript, Operator, StmtAnnAssign, StmtAssign, StmtAugAssign,
};
use ruff_text_size::Ranged;

use super::{Lowering, OWN};

impl<'a> Lowering<'a> {
    pub(super) fn assign(&mut self, it: &'a StmtAssign) {
        match &it.targets[..] {
            [target] => self.assign_one(target, &it.value),
            targets => {
                let name = self.fresh();
                self.line();
                self.push(&format!("{name} = "));
                self.expression(&it.value);
                for target in targets {
                    self.unpack(target, &name);
                }
            }
        }
    }

    pub(super) fn assign_annotated(&mut self, it: &'a StmtAnnAssign) {
        if let Some(value) = &it.value {
            self.assign_one(&it.target, value);
        }
    }

    fn assign_one(&mut self, target: &'a Expr, value: &'a Expr) {
        if let Expr::Subscript(it) = target
            && let Expr::Slice(slice) = &*it.slice
        {
            return self.assign_slice(it, slice, |this| this.expression(value));
        }
        if !Self::is_simple(target) {
            let name = self.fresh();
            self.line();
            self.push(&format!("{name} = "));
            self.expression(value);
            return self.unpack(target, &name);
        }
        self.line();
        self.target(target);
        self.push(" = ");
        match (target, value) {
            // The same number on both sides, without a star: nothing to unpack.
            (Expr::Tuple(_) | Expr::List(_), Expr::Tuple(it))
                if !it.iter().any(Expr::is_starred_expr) =>
            {
                self.expression(value);
            }
            (Expr::Tuple(_) | Expr::List(_), _) => self.sequence(value),
            // `next` goes on where it stopped.
            (Expr::Name(name), Expr::Call(made))
                if self.facts.stepped.contains(name.id.as_str()) && self.is_iterator(made) =>
            {
                self.push(&format!("{OWN}gen("));
                self.expression(value);
                self.push(")");
            }
            _ => self.expression(value),
        }
    }

    fn assign_slice(
        &mut self,
        it: &'a ExprSubscript,
        slice: &'a ExprSlice,
        value: impl FnOnce(&mut Self),
    ) {
        self.line();
        self.push(&format!("{OWN}set_slice("));
        self.expression(&it.value);
        self.bounds(slice);
        self.push(", ");
        value(self);
        self.push(")");
    }

    /// Writes the three bounds of a slice as further arguments.
    pub(super) fn bounds(&mut self, slice: &'a ExprSlice) {
        for bound in [&slice.lower, &slice.upper, &slice.step] {
            self.push(", ");
            match bound {
                Some(bound) => self.expression(bound),
                None => self.push("None"),
            }
        }
    }

    /// Returns whether Starlark can assign to this target as it stands.
    pub(super) fn is_simple(target: &Expr) -> bool {
        match target {
            Expr::Starred(_) => false,
            Expr::Subscript(it) => !it.slice.is_slice_expr(),
            Expr::Tuple(it) => it.iter().all(Self::is_simple),
            Expr::List(it) => it.iter().all(Self::is_simple),
            _ => true,
        }
    }

    /// Assigns the value of the name `from` to a target of any form.
    pub(super) fn unpack(&mut self, target: &'a Expr, from: &str) {
        let items = match target {
            Expr::Tuple(it) => &it.elts,
            Expr::List(it) => &it.elts,
            Expr::Subscript(it) => {
                if let Expr::Slice(slice) = &*it.slice {
                    return self.assign_slice(it, slice, |this| this.push(from));
                }
                return self.assign_name(target, from);
            }
            _ => return self.assign_name(target, from),
        };
        let star = items.iter().position(Expr::is_starred_expr);
        let names: Vec<_> = items.iter().map(|_| self.fresh()).collect();
        self.line();
        self.separated(&names, |this, name| this.push(name));
        if names.len() == 1 {
            self.push(",");
        }
        match star {
            Some(at) => {
                self.push(&format!(" = {OWN}unpack({from}, {at}, {})", items.len() - at - 1));
            }
            None => self.push(&format!(" = {OWN}seq({from})")),
        }
        for (item, name) in items.iter().zip(&names) {
            match item {
                Expr::Starred(it) => self.unpack(&it.value, name),
                _ => self.unpack(item, name),
            }
        }
    }

    fn assign_name(&mut self, target: &'a Expr, from: &str) {
        self.line();
        self.target(target);
        self.push(&format!(" = {from}"));
    }

    /// Writes a target that [`Self::is_simple`].
    pub(super) fn target(&mut self, target: &'a Expr) {
        self.mapped(target, |this| match target {
            Expr::Name(it) if this.scopes.in_cell(&this.facts, &it.id) => {
                this.push(&format!("{OWN}cell_{}[0]", it.id));
            }
            Expr::Name(it) => this.plain_name(&it.id),
            Expr::Subscript(it) => this.subscript_of(it),
            Expr::Tuple(it) => this.targets(&it.elts),
            Expr::List(it) => this.targets(&it.elts),
            Expr::Attribute(it) => {
                let message =
                    "attributes cannot be assigned: data is in dicts: `d[\"key\"] = value`";
                this.refuse_here(it.range(), message);
            }
            _ => this.refuse(target.range(), "this cannot be assigned: assign to a name"),
        });
    }

    fn targets(&mut self, items: &'a [Expr]) {
        self.push("(");
        self.separated(items, Self::target);
        if items.len() == 1 {
            self.push(",");
        }
        self.push(")");
    }

    pub(super) fn assign_modify(&mut self, it: &'a StmtAugAssign) {
        let rewritten = matches!(it.op, Operator::Mod | Operator::Pow | Operator::MatMult);
        let through = self.facts.factories && it.target.is_subscript_expr();
        if !rewritten && !through {
            self.line();
            self.target(&it.target);
            self.push(&format!(" {}= ", it.op.as_str()));
            return self.operand(&it.value);
        }
        match &*it.target {
            Expr::Subscript(target) => self.modify_item(it, target),
            target => {
                self.line();
                self.target(target);
                self.push(" = ");
                self.operation(it.op, |this| this.target(target), |this| this.operand(&it.value));
            }
        }
    }

    /// Writes `a[b] op= c` for an operator that Starlark lacks, with `a` and `b` evaluated once.
    fn modify_item(&mut self, it: &'a StmtAugAssign, target: &'a ExprSubscript) {
        let object = self.fresh();
        let key = self.fresh();
        for (name, part) in [(&object, &target.value), (&key, &target.slice)] {
            self.line();
            self.push(&format!("{name} = "));
            self.expression(part);
        }
        self.line();
        self.push(&format!("{object}[{key}] = "));
        self.operation(
            it.op,
            |this| this.push(&format!("{OWN}at({object}, {key})")),
            |this| this.operand(&it.value),
        );
    }
}
