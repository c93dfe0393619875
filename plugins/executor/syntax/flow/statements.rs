//! Statements but loops and those that catch failures.

use ruff_python_ast::{Expr, Stmt, StmtClassDef, StmtIf, StmtMatch};

use super::children::{class_value, pattern_parts};
use super::heap::SiteKey;
use super::known::CallEffect;
use super::scopes::place;
use super::state::FlowAnalysis;
use super::values::FlowValue;

/// Module whose decorator makes classes of values.
const DATACLASSES: &str = "dataclasses";

impl<'a> FlowAnalysis<'a, '_> {
    pub(super) fn body(&mut self, body: &'a [Stmt]) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'a Stmt) {
        self.depth += 1;
        if self.count(1) {
            self.known_statement(statement);
        }
        self.depth -= 1;
    }

    fn known_statement(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Expr(only) => {
                self.expression(&only.value);
            }
            Stmt::Assign(assigned) => self.assign(&assigned.targets, &assigned.value),
            Stmt::AnnAssign(assigned) => {
                if let Some(value) = &assigned.value {
                    let value = self.expression(value);
                    self.assign_target(&assigned.target, value);
                }
            }
            Stmt::AugAssign(changed) => self.augment(&changed.target, &changed.value),
            Stmt::Delete(deleted) => {
                deleted.targets.iter().for_each(|target| self.delete(target));
            }
            Stmt::If(branch) => self.branch(branch),
            Stmt::For(repeated) => self.for_loop(repeated),
            Stmt::While(repeated) => self.while_loop(repeated),
            Stmt::Match(choice) => self.choose(choice),
            Stmt::Try(caught) => self.try_statement(caught),
            Stmt::With(entered) => self.with_statement(entered),
            Stmt::Return(returned) => {
                let value = returned.value.as_deref().map(|value| self.expression(value));
                self.give_back(value.unwrap_or_default());
                self.leave_body();
            }
            Stmt::Raise(raised) => {
                for part in [&raised.exc, &raised.cause].into_iter().flatten() {
                    let value = self.expression(part).with_origins(self.control());
                    let exceptions = self.heap.site(SiteKey::Exceptions);
                    self.heap.write(exceptions, value);
                }
                self.end_script();
            }
            Stmt::Assert(assertion) => {
                let test = self.expression(&assertion.test);
                let origins = self.origins(test);
                let before = self.depend_on(origins);
                if let Some(message) = &assertion.msg {
                    self.expression(message);
                }
                self.end_script();
                self.frame.local = before;
            }
            Stmt::Break(_) | Stmt::Continue(_) => self.leave_turn(),
            Stmt::FunctionDef(function) => self.define(function),
            Stmt::ClassDef(class) => self.define_class(class),
            Stmt::Import(imported) => {
                for alias in &imported.names {
                    let module = alias.name.as_str().split('.').next().unwrap_or_default();
                    let name = alias.asname.as_deref().unwrap_or(module);
                    self.assign_name(name, FlowValue::default());
                }
            }
            Stmt::ImportFrom(imported) => {
                for alias in &imported.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.assign_name(name.as_str(), FlowValue::default());
                }
            }
            Stmt::Global(_) | Stmt::Nonlocal(_) | Stmt::Pass(_) => {}
            Stmt::TypeAlias(_) | Stmt::IpyEscapeCommand(_) => self.has_failed = true,
        }
    }

    /// Takes note of the value that a body returns here.
    pub(super) fn give_back(&mut self, value: FlowValue) {
        let value = value.with_origins(self.local_control());
        self.frame.returned.grow(&value);
    }

    /// Takes note that what follows in the body depends on whether this place is reached.
    fn leave_body(&mut self) {
        let control = self.local_control();
        self.frame.rest = control;
        let around: Vec<_> = self.frame.loops.iter().map(|(key, _)| *key).collect();
        for key in around {
            self.jump(key, control);
        }
    }

    /// Takes note that what follows in the script depends on whether this place is reached.
    pub(super) fn end_script(&mut self) {
        self.leave_body();
        if self.frame.is_function {
            let control = self.control();
            self.has_grown |= self.exits.grow(control);
        }
    }

    fn branch(&mut self, branch: &'a StmtIf) {
        let before = self.frame.local;
        let test = self.expression(&branch.test);
        let origins = self.origins(test);
        self.depend_on(origins);
        let mut start = self.frame.locals.clone();
        self.body(&branch.body);
        let mut ends = Vec::new();
        for clause in &branch.elif_else_clauses {
            ends.push(std::mem::replace(&mut self.frame.locals, std::mem::take(&mut start)));
            if let Some(test) = &clause.test {
                let test = self.expression(test);
                let origins = self.origins(test);
                self.depend_on(origins);
            }
            self.count(self.frame.locals.len());
            start.clone_from(&self.frame.locals);
            self.body(&clause.body);
        }
        // None of the branches may be taken.
        self.meet(&start);
        for end in &ends {
            self.meet(end);
        }
        self.frame.local = before;
    }

    fn choose(&mut self, choice: &'a StmtMatch) {
        let before = self.frame.local;
        let subject = self.expression(&choice.subject);
        let origins = self.origins(subject);
        self.depend_on(origins);
        self.frame.doubts += 1;
        let part = self.part(subject);
        for case in &choice.cases {
            let parts = pattern_parts(&case.pattern);
            for value in parts.values {
                let value = self.expression(value);
                let origins = self.origins(value);
                self.depend_on(origins);
            }
            for name in parts.names {
                // The rest of a sequence or a mapping is a new one.
                let rest = self.heap.site(SiteKey::At(place(&case.pattern)));
                self.heap.write(rest, part);
                self.assign_name(name, part.with_sites(rest));
            }
            if let Some(guard) = &case.guard {
                let guard = self.expression(guard);
                let origins = self.origins(guard);
                self.depend_on(origins);
            }
            // In doubt, a variable keeps what it had, so that the cases need no joining.
            self.body(&case.body);
        }
        self.frame.doubts -= 1;
        self.frame.local = before;
    }

    fn assign(&mut self, targets: &'a [Expr], value: &'a Expr) {
        if let [Expr::Tuple(names)] = targets
            && !names.elts.iter().any(Expr::is_starred_expr)
            && let Some(values) = self.parallel_values(value, names.elts.len())
        {
            for (target, value) in names.elts.iter().zip(values) {
                self.assign_target(target, value);
            }
            return;
        }
        let value = self.expression(value);
        for target in targets {
            self.assign_target(target, value);
        }
    }

    pub(super) fn assign_target(&mut self, target: &'a Expr, value: FlowValue) {
        match target {
            Expr::Name(name) => self.assign_name(name.id.as_str(), value),
            Expr::Tuple(several) => self.assign_parts(&several.elts, value),
            Expr::List(several) => self.assign_parts(&several.elts, value),
            Expr::Starred(rest) => {
                let list = self.heap.site(SiteKey::At(place(target)));
                self.heap.write(list, value);
                self.assign_target(&rest.value, value.with_sites(list));
            }
            Expr::Attribute(attribute) => {
                // A module is changed for all that use it.
                self.has_failed |= self.imported_root(&attribute.value).is_some();
                let object = self.expression(&attribute.value);
                self.store(object, value);
            }
            Expr::Subscript(subscript) => {
                let object = self.expression(&subscript.value);
                let key = self.expression(&subscript.slice);
                // Of an iterator, a slice gets the elements.
                self.consume(value);
                self.store(object, value.with(key));
            }
            _ => self.has_failed = true,
        }
    }

    fn assign_parts(&mut self, targets: &'a [Expr], value: FlowValue) {
        self.consume(value);
        let part = self.part(value);
        for target in targets {
            self.assign_target(target, part);
        }
    }

    /// Writes a value into an object. Which object that is, and whether it is written, is a part of what is written.
    fn store(&mut self, object: FlowValue, value: FlowValue) {
        let control = self.control();
        self.heap.write(object.sites, value.with_origins(object.origins).with_origins(control));
    }

    fn augment(&mut self, target: &'a Expr, value: &'a Expr) {
        let before = self.expression(target);
        let added = self.expression(value);
        self.consume(added);
        self.store(before, added);
        let changed = self.combined(place(target), &[before, added]);
        self.assign_target(target, changed.with(before));
    }

    fn delete(&mut self, target: &'a Expr) {
        match target {
            Expr::Subscript(subscript) => {
                let object = self.expression(&subscript.value);
                let key = self.expression(&subscript.slice);
                self.store(object, key);
            }
            Expr::Attribute(attribute) => {
                let object = self.expression(&attribute.value);
                self.store(object, FlowValue::default());
            }
            Expr::Tuple(several) => several.elts.iter().for_each(|one| self.delete(one)),
            Expr::List(several) => several.elts.iter().for_each(|one| self.delete(one)),
            Expr::Name(name) => {
                // Whether it is bound is seen by what reads it.
                if let Some(variable) = self.scopes.resolve(self.frame.scope, name.id.as_str()) {
                    self.add_to_variable(variable, FlowValue::default());
                }
            }
            _ => self.has_failed = true,
        }
    }

    /// Defines a class without methods: an object that holds its values.
    fn define_class(&mut self, class: &'a StmtClassDef) {
        let mut given = FlowValue::default();
        if let Some(arguments) = &class.arguments {
            given = given.with(self.arguments(arguments).all);
        }
        for value in class.body.iter().filter_map(class_value) {
            given = given.with(self.expression(value));
        }
        let made = self.heap.site(SiteKey::At(place(class)));
        self.heap.mark_fields(made);
        self.heap.write(made, given);
        let mut value = given.with_sites(made);
        if class.arguments.is_some() {
            // A base may have been told of it.
            value = self.apply(CallEffect::Any, "", place(class), None, value);
        }
        for decorator in class.decorator_list.iter().rev() {
            let decorating = self.expression(&decorator.expression);
            let called = match &decorator.expression {
                Expr::Call(call) => &*call.func,
                decorator => decorator,
            };
            if self.imported_root(called) == Some(DATACLASSES) {
                // It adds functions that store what they are given in a new object.
                continue;
            }
            let own = place(decorator);
            value = self.apply(CallEffect::Any, "", own, Some(decorating), value);
        }
        self.assign_name(class.name.as_str(), value);
    }
}
