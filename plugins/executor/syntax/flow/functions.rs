//! Functions of a script: each is followed once a pass, with what all its calls pass.

use ruff_python_ast::{ExprLambda, Parameter, Parameters, StmtFunctionDef};

use super::calls::GivenArguments;
use super::heap::{Callee, SiteKey};
use super::known::CallEffect;
use super::locals::Locals;
use super::scopes::{Place, place};
use super::state::{FlowAnalysis, FlowFrame};
use super::values::{FlowValue, OriginSet};

pub(super) struct FlowFunction<'a> {
    node: FunctionNode<'a>,
    scope: usize,
    /// The values of its parameters.
    parameters: Locals,
    /// The values that decide whether it is called.
    entry: OriginSet,
    returned: FlowValue,
    /// The values that its body computes.
    seen: OriginSet,
    is_called: bool,
    /// True if it is awaited elsewhere than where it is called.
    is_late: bool,
}

/// A function in the tree.
#[derive(Clone, Copy)]
enum FunctionNode<'a> {
    Def(&'a StmtFunctionDef),
    Lambda(&'a ExprLambda),
}

impl<'a> FunctionNode<'a> {
    fn parameters(self) -> Option<&'a Parameters> {
        match self {
            Self::Def(function) => Some(&*function.parameters),
            Self::Lambda(lambda) => lambda.parameters.as_deref(),
        }
    }

    fn is_async(self) -> bool {
        matches!(self, Self::Def(function) if function.is_async)
    }
}

impl<'a> FlowAnalysis<'a, '_> {
    pub(super) fn define(&mut self, function: &'a StmtFunctionDef) {
        let mut value = self.function(place(function), FunctionNode::Def(function));
        for decorator in function.decorator_list.iter().rev() {
            let decorating = self.expression(&decorator.expression);
            let own = place(decorator);
            value = self.apply(CallEffect::Any, "", own, Some(decorating), value);
        }
        self.assign_name(function.name.as_str(), value);
    }

    pub(super) fn lambda(&mut self, lambda: &'a ExprLambda) -> FlowValue {
        self.function(place(lambda), FunctionNode::Lambda(lambda))
    }

    /// Makes a function. Its defaults are computed where it is made.
    fn function(&mut self, own: Place, node: FunctionNode<'a>) -> FlowValue {
        let id = match self.function_ids.get(&own) {
            Some(id) => *id,
            None => self.add_function(own, node),
        };
        if let Some(parameters) = node.parameters() {
            for parameter in parameters.iter_non_variadic_params() {
                if let Some(default) = &parameter.default {
                    let value = self.expression(default);
                    self.pass(id, parameter.parameter.name.as_str(), value);
                }
            }
        }
        self.heap.callee(SiteKey::At(own), Callee::Function(id))
    }

    fn add_function(&mut self, own: Place, node: FunctionNode<'a>) -> usize {
        let id = self.functions.len();
        self.functions.push(FlowFunction {
            node,
            scope: self.scopes.scope_at(own),
            parameters: Locals::default(),
            entry: OriginSet::default(),
            returned: FlowValue::default(),
            seen: OriginSet::default(),
            is_called: false,
            is_late: false,
        });
        self.function_ids.insert(own, id);
        self.has_grown = true;
        id
    }

    /// Passes a value to a parameter.
    fn pass(&mut self, function: usize, name: &str, value: FlowValue) {
        let scope = self.functions[function].scope;
        if let Some(variable) = self.scopes.resolve(scope, name) {
            let parameters = &mut self.functions[function].parameters;
            self.has_grown |= parameters.entry(variable).grow(&value);
        }
    }

    /// Passes a value to a parameter that takes several.
    fn pass_rest(&mut self, function: usize, rest: Option<&'a Parameter>, value: FlowValue) {
        if let Some(parameter) = rest {
            let all = self.made(place(parameter), value);
            self.pass(function, parameter.name.as_str(), all);
        }
    }

    /// Calls a function by its name. Returns its result.
    pub(super) fn call_of_function(
        &mut self,
        function: usize,
        given: &GivenArguments<'a>,
        is_awaited: bool,
    ) -> FlowValue {
        let Some(parameters) = self.functions[function].node.parameters() else {
            return self.called(function, self.control(), is_awaited);
        };
        if given.is_open {
            return self.call_of_value(function, given.all, self.control());
        }
        let by_position: Vec<_> = parameters.posonlyargs.iter().chain(&parameters.args).collect();
        for (at, value) in given.positional.iter().enumerate() {
            match by_position.get(at) {
                Some(known) => self.pass(function, known.parameter.name.as_str(), *value),
                None => self.pass_rest(function, parameters.vararg.as_deref(), *value),
            }
        }
        for (name, value) in &given.named {
            if parameters.find(name).is_some() {
                self.pass(function, name, *value);
            }
            // The name of a parameter that is given by position alone is free.
            self.pass_rest(function, parameters.kwarg.as_deref(), *value);
        }
        for rest in [&parameters.vararg, &parameters.kwarg] {
            self.pass_rest(function, rest.as_deref(), FlowValue::default());
        }
        self.called(function, self.control(), is_awaited)
    }

    /// Calls a function that is a value: all its parameters get another value.
    pub(super) fn call_of_value(
        &mut self,
        function: usize,
        value: FlowValue,
        control: OriginSet,
    ) -> FlowValue {
        if let Some(parameters) = self.functions[function].node.parameters() {
            for parameter in parameters.iter_non_variadic_params() {
                self.pass(function, parameter.parameter.name.as_str(), value);
            }
            for rest in [&parameters.vararg, &parameters.kwarg] {
                self.pass_rest(function, rest.as_deref(), value);
            }
        }
        self.called(function, control, false)
    }

    /// Takes note that a function is called. Returns its result. One that is awaited elsewhere fails there, so how far it
    /// comes is a part of its result.
    fn called(&mut self, function: usize, control: OriginSet, is_awaited: bool) -> FlowValue {
        let called = &mut self.functions[function];
        let is_late = called.node.is_async() && !is_awaited;
        self.has_grown |= called.entry.grow(control) || !called.is_called;
        self.has_grown |= is_late && !called.is_late;
        called.is_called = true;
        called.is_late |= is_late;
        self.frame.seen.grow(called.seen);
        if is_late { called.returned.with_origins(called.seen) } else { called.returned }
    }

    /// Follows the body of a function, if it is called.
    pub(super) fn follow(&mut self, function: usize) {
        let FlowFunction { node, scope, entry, seen, is_called, is_late, .. } =
            self.functions[function];
        if !is_called {
            return;
        }
        // Until it is awaited, it does not run. What awaits it may catch its failure.
        let entry = if is_late { entry.with(self.any_control).with(seen) } else { entry };
        self.frame = FlowFrame { scope, is_function: true, entry, ..FlowFrame::default() };
        let parameters = self.functions[function].parameters.clone();
        for (variable, value) in parameters.variables() {
            self.assign_variable(variable, value);
        }
        match node {
            FunctionNode::Def(function) => {
                self.body(&function.body);
                // Its end returns nothing, if it is reached.
                self.give_back(FlowValue::default());
            }
            FunctionNode::Lambda(lambda) => {
                let value = self.expression(&lambda.body);
                self.give_back(value);
            }
        }
        let FlowFrame { returned, seen, .. } = self.frame;
        let followed = &mut self.functions[function];
        self.has_grown |= followed.returned.grow(&returned) || followed.seen.grow(seen);
    }
}
