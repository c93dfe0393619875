//! Expressions but calls.

use ruff_python_ast::{
    Comprehension, Expr, ExprAttribute, ExprBinOp, ExprIf, ExprName, Operator, UnaryOp,
};
use ruff_text_size::Ranged as _;

use super::children::children;
use super::heap::{Callee, SiteKey};
use super::known::{self, CallEffect};
use super::scopes::{NameDefinition, Place, place};
use super::state::FlowAnalysis;
use super::values::FlowValue;

/// Module that Starlark scripts have without importing it.
const JSON: &str = "json";

impl<'a> FlowAnalysis<'a, '_> {
    /// Computes an expression.
    pub(super) fn expression(&mut self, expression: &'a Expr) -> FlowValue {
        self.depth += 1;
        let value = if self.count(1) { self.value(expression) } else { FlowValue::default() };
        self.depth -= 1;
        let control = self.control();
        self.has_grown |= self.any_control.grow(control);
        if self.scopes.catches {
            let origins = self.origins(value);
            self.frame.seen.grow(origins);
        }
        value
    }

    fn value(&mut self, expression: &'a Expr) -> FlowValue {
        let own = place(expression);
        match expression {
            Expr::StringLiteral(_)
            | Expr::BytesLiteral(_)
            | Expr::NumberLiteral(_)
            | Expr::BooleanLiteral(_)
            | Expr::NoneLiteral(_)
            | Expr::EllipsisLiteral(_) => FlowValue::default(),
            Expr::Name(name) => self.name(name),
            Expr::Attribute(attribute) => self.attribute(attribute),
            Expr::Subscript(subscript) => {
                let object = self.expression(&subscript.value);
                let key = self.expression(&subscript.slice);
                let origins = self.origins(key);
                self.part(object).with_origins(origins)
            }
            Expr::BoolOp(all) => self.in_turn(&all.values.iter().collect::<Vec<_>>()),
            Expr::Compare(_) => {
                let value = self.in_turn(&children(expression));
                self.consume(value);
                FlowValue::plain(self.origins(value))
            }
            Expr::BinOp(operation) => self.operation(own, operation),
            Expr::UnaryOp(operation) => {
                let operand = self.expression(&operation.operand);
                match operation.op {
                    UnaryOp::Not => FlowValue::plain(self.origins(operand)),
                    _ => self.combined(own, &[operand]),
                }
            }
            Expr::If(choice) => self.choice(choice),
            Expr::Named(named) => {
                let value = self.expression(&named.value);
                // In a comprehension too, it is a name of the body.
                let scope = self.frame.scope;
                self.frame.scope = self.scopes.body_of(scope);
                self.assign_target(&named.target, value);
                self.frame.scope = scope;
                value
            }
            Expr::Lambda(lambda) => self.lambda(lambda),
            Expr::Dict(_) | Expr::Set(_) | Expr::List(_) | Expr::Tuple(_) => {
                let values = self.joined(&children(expression));
                self.made(own, values)
            }
            Expr::ListComp(list) => self.comprehension(expression, &list.generators),
            Expr::SetComp(set) => self.comprehension(expression, &set.generators),
            Expr::DictComp(dict) => self.comprehension(expression, &dict.generators),
            Expr::Generator(lazy) => {
                // It runs as far as it is read, anywhere, and how far it comes is seen there.
                let before = self.depend_on(self.any_control);
                let mut value = FlowValue::default();
                let computed = self.guard(lazy.start(), |analysis| {
                    value = analysis.comprehension(expression, &lazy.generators);
                });
                self.heap.mark_iterator(value.sites);
                self.frame.local = before;
                value.with_origins(computed)
            }
            Expr::Await(awaited) => {
                self.awaits(&awaited.value);
                self.expression(&awaited.value)
            }
            Expr::FString(_) => {
                let values = self.joined(&children(expression));
                FlowValue::plain(self.origins(values))
            }
            Expr::TString(_) => {
                let values = self.joined(&children(expression));
                self.combined(own, &[values])
            }
            Expr::Starred(starred) => {
                let value = self.expression(&starred.value);
                self.consume(value);
                self.part(value)
            }
            Expr::Slice(_) => self.joined(&children(expression)),
            Expr::Call(call) => self.call(call),
            Expr::Yield(_) | Expr::YieldFrom(_) | Expr::IpyEscapeCommand(_) => {
                self.has_failed = true;
                FlowValue::default()
            }
        }
    }

    fn name(&mut self, name: &'a ExprName) -> FlowValue {
        let text = name.id.as_str();
        let Some(variable) = self.scopes.resolve(self.frame.scope, text) else {
            return self.given_name(text);
        };
        let value = self.variable_value(variable);
        if let NameDefinition::Import(module, member) =
            self.scopes.variable(variable).only_definition()
        {
            let module = self.module(module);
            let is_changing = member.is_some_and(known::is_changing);
            let module = if is_changing { self.changing(module) } else { module };
            return module.with_origins(value.origins);
        }
        if (self.is_input)(text) { value.with(self.given_name(text)) } else { value }
    }

    /// Returns the value of a name that the script does not bind.
    fn given_name(&mut self, name: &'a str) -> FlowValue {
        if let Some(tool) = self.bindings.function(name) {
            let tool = tool.clone();
            return self.tool_value(&tool);
        }
        if (self.is_input)(name) {
            return FlowValue::default().with_sites(self.heap.site(SiteKey::Name(name)));
        }
        match known::function(name) {
            CallEffect::Plain | CallEffect::Exit => FlowValue::default(),
            CallEffect::Any => {
                let value = self.heap.callee(SiteKey::Name(name), Callee::Unknown);
                self.heap.mark_fields(value.sites);
                value
            }
            // They return objects, also as methods under the name of one that does not.
            CallEffect::New | CallEffect::Part | CallEffect::Insert => self.builtin(),
        }
    }

    /// Returns a function or a module of the interpreter that changes nothing.
    fn builtin(&mut self) -> FlowValue {
        FlowValue::default().with_sites(self.heap.fixed(SiteKey::Builtins))
    }

    /// Returns a value that may be a function or a method, and change what is in it, and what it is given.
    fn changing(&mut self, value: FlowValue) -> FlowValue {
        self.heap.fixed(SiteKey::Changing);
        value.with(self.heap.callee(SiteKey::Changing, Callee::Unknown))
    }

    /// Returns a module or something in it as a value.
    fn module(&mut self, module: &str) -> FlowValue {
        if known::is_pure(module) {
            return self.builtin();
        }
        let value = self.heap.callee(SiteKey::Modules, Callee::Unknown);
        self.heap.mark_fields(value.sites);
        value
    }

    fn attribute(&mut self, attribute: &'a ExprAttribute) -> FlowValue {
        if let Some(tool) = self.tool_in_namespace(attribute) {
            return self.named_value(&tool);
        }
        let object = self.expression(&attribute.value);
        let value = self.part(object);
        if known::is_changing(attribute.attr.as_str()) { self.changing(value) } else { value }
    }

    /// Returns the module that an expression is in, by the first part of its name.
    pub(super) fn imported_root(&self, expression: &'a Expr) -> Option<&'a str> {
        match expression {
            Expr::Name(name) => {
                let text = name.id.as_str();
                let Some(variable) = self.scopes.resolve(self.frame.scope, text) else {
                    return (text == JSON && !(self.is_input)(text)).then_some(text);
                };
                match self.scopes.variable(variable).only_definition() {
                    NameDefinition::Import(module, _) => Some(module),
                    _ => None,
                }
            }
            Expr::Attribute(attribute) => self.imported_root(&attribute.value),
            _ => None,
        }
    }

    /// Computes expressions of which each decides whether the next is computed.
    fn in_turn(&mut self, expressions: &[&'a Expr]) -> FlowValue {
        let before = self.frame.local;
        self.frame.doubts += 1;
        let mut all = FlowValue::default();
        for expression in expressions.iter().copied() {
            let value = self.expression(expression);
            let origins = self.origins(value);
            self.depend_on(origins);
            all = all.with(value);
        }
        self.frame.doubts -= 1;
        self.frame.local = before;
        all
    }

    fn choice(&mut self, choice: &'a ExprIf) -> FlowValue {
        let test = self.expression(&choice.test);
        let origins = self.origins(test);
        let before = self.depend_on(origins);
        self.frame.doubts += 1;
        let one = self.expression(&choice.body);
        let other = self.expression(&choice.orelse);
        self.frame.doubts -= 1;
        self.frame.local = before;
        one.with(other).with_origins(origins)
    }

    fn operation(&mut self, own: Place, operation: &'a ExprBinOp) -> FlowValue {
        let left = self.expression(&operation.left);
        let right = self.expression(&operation.right);
        // With a text or a number, it returns one, unless it repeats a list.
        let is_plain = left.sites.is_empty() || right.sites.is_empty();
        if is_plain && operation.op != Operator::Mult {
            return FlowValue::plain(self.origins(left.with(right)));
        }
        self.combined(own, &[left, right])
    }

    /// Returns a new value that may hold others.
    pub(super) fn combined(&mut self, own: Place, values: &[FlowValue]) -> FlowValue {
        let all = values.iter().copied().fold(FlowValue::default(), FlowValue::with);
        if all.sites.is_empty() { all } else { self.made(own, all).with_origins(all.origins) }
    }

    /// Returns a new object that holds a value.
    pub(super) fn made(&mut self, own: Place, value: FlowValue) -> FlowValue {
        let made = self.heap.site(SiteKey::At(own));
        self.heap.write(made, value);
        FlowValue::default().with_sites(made)
    }

    /// Computes several expressions.
    pub(super) fn joined(&mut self, expressions: &[&'a Expr]) -> FlowValue {
        let values = expressions.iter().copied().map(|expression| self.expression(expression));
        values.fold(FlowValue::default(), FlowValue::with)
    }

    fn comprehension(
        &mut self,
        expression: &'a Expr,
        generators: &'a [Comprehension],
    ) -> FlowValue {
        let scope = self.scopes.scope_at(place(expression));
        let elements =
            self.turns(generators, scope, |analysis| analysis.joined(&children(expression)));
        self.made(place(expression), elements)
    }
}
