//! Calls of anything but tools.

use ruff_python_ast::{Arguments, Expr, ExprAttribute, ExprCall, ExprName};

use super::heap::Callee;
use super::known::{self, CallEffect};
use super::scopes::{NameDefinition, Place, place};
use super::state::FlowAnalysis;
use super::values::{FlowValue, SiteSet};

/// Module of functions that run at the same time.
const ASYNCIO: &str = "asyncio";
/// Functions that make several calls at the same time: of Starlark scripts, and of [`ASYNCIO`].
pub(super) const GATHER: &str = "gather";
/// Function of [`ASYNCIO`] that awaits a call.
const RUN: &str = "run";
/// Function that returns an object whose fields the script chooses.
const STRUCT: &str = "struct";
/// Function of Starlark scripts that makes a call whose failure is a value.
const ATTEMPT: &str = "attempt";

/// The arguments of a call.
#[derive(Default)]
pub(super) struct GivenArguments<'a> {
    pub(super) positional: Vec<FlowValue>,
    pub(super) named: Vec<(&'a str, FlowValue)>,
    /// All of them, joined.
    pub(super) all: FlowValue,
    /// True if an argument stands for several.
    pub(super) is_open: bool,
}

impl<'a> FlowAnalysis<'a, '_> {
    pub(super) fn call(&mut self, call: &'a ExprCall) -> FlowValue {
        let is_awaited = self.awaited.contains(&place(call));
        if self.is_asyncio(&call.func, RUN) {
            call.arguments.args.iter().for_each(|argument| self.awaits(argument));
        }
        if let Some(tool) = self.tool_of(&call.func) {
            return self.tool_call(&tool, call, is_awaited);
        }
        match &*call.func {
            Expr::Name(name) => self.call_of_name(name, call, is_awaited),
            Expr::Attribute(method) => self.call_of_attribute(method, call),
            callee => {
                let callee = self.expression(callee);
                let given = self.arguments(&call.arguments);
                self.apply(CallEffect::Any, "", place(call), Some(callee), given.all)
            }
        }
    }

    /// Computes the arguments of a call.
    pub(super) fn arguments(&mut self, arguments: &'a Arguments) -> GivenArguments<'a> {
        let mut given = GivenArguments::default();
        for argument in &arguments.args {
            let value = self.expression(argument);
            given.is_open |= argument.is_starred_expr();
            given.positional.push(value);
            given.all = given.all.with(value);
        }
        for keyword in &arguments.keywords {
            let mut value = self.expression(&keyword.value);
            if let Some(name) = &keyword.arg {
                given.named.push((name.as_str(), value));
            } else {
                given.is_open = true;
                value = self.part(value);
            }
            given.all = given.all.with(value);
        }
        given
    }

    fn call_of_name(
        &mut self,
        name: &'a ExprName,
        call: &'a ExprCall,
        is_awaited: bool,
    ) -> FlowValue {
        let text = name.id.as_str();
        let Some(variable) = self.scopes.resolve(self.frame.scope, text) else {
            return self.call_of_given(text, call);
        };
        let definition = self.scopes.variable(variable).only_definition();
        let callee = self.expression(&call.func);
        let given = self.arguments(&call.arguments);
        match definition {
            NameDefinition::Function(own) => match self.function_ids.get(&own).copied() {
                Some(function) => self.call_of_function(function, &given, is_awaited),
                // It is not defined yet: the next pass knows it.
                None => FlowValue::default(),
            },
            NameDefinition::Import(module, Some(function)) => {
                let effect = known::imported(module, function);
                self.apply(effect, function, place(call), None, given.all)
            }
            _ => self.apply(CallEffect::Any, text, place(call), Some(callee), given.all),
        }
    }

    /// Calls a function by a name that the script does not bind.
    fn call_of_given(&mut self, name: &'a str, call: &'a ExprCall) -> FlowValue {
        match name {
            GATHER => return self.gather(call),
            ATTEMPT => return self.attempt(call),
            _ => {}
        }
        let given = self.arguments(&call.arguments);
        let mut names = call.arguments.keywords.iter().map(|keyword| keyword.arg.as_deref());
        // It may write to a file.
        let is_written = name == "print" && !names.all(known::is_plain_of_print);
        let effect = if is_written { CallEffect::Any } else { known::function(name) };
        self.apply(effect, name, place(call), None, given.all)
    }

    fn call_of_attribute(&mut self, method: &'a ExprAttribute, call: &'a ExprCall) -> FlowValue {
        let name = method.attr.as_str();
        if let Some(module) = self.imported_root(&method.value) {
            // The functions of a module do not change it; those of something in it may.
            let is_in_module = method.value.is_name_expr() || known::is_pure(module);
            let object = self.expression(&method.value);
            let object = (!is_in_module).then_some(object);
            let given = self.arguments(&call.arguments);
            let effect = known::imported(module, name);
            return self.apply(effect, name, place(call), object, given.all);
        }
        let object = self.expression(&method.value);
        let given = self.arguments(&call.arguments);
        // It may be a function of the script, or one of another name.
        let is_known = !self.heap.holds_callees(object) && !self.heap.has_fields(object.sites);
        let effect = if is_known { known::method(name) } else { CallEffect::Any };
        self.apply(effect, name, place(call), Some(object), given.all)
    }

    /// Calls something with an effect: a method of an `object`, or a function that is one.
    pub(super) fn apply(
        &mut self,
        effect: CallEffect,
        name: &str,
        own: Place,
        object: Option<FlowValue>,
        given: FlowValue,
    ) -> FlowValue {
        let object = object.unwrap_or_default();
        let all = object.with(given);
        self.consume(all);
        let within = self.part(all);
        let reachable = within.sites;
        let origins = self.heap.origins_within(within);
        let is_plain = matches!(effect, CallEffect::Plain | CallEffect::Exit);
        // What is known of it holds unless it calls what it is given.
        let is_unknown = !is_plain && self.heap.callees(reachable).contains(&Callee::Unknown);
        let effect = if is_unknown { CallEffect::Any } else { effect };
        match effect {
            CallEffect::Exit => {
                self.end_script();
                FlowValue::default()
            }
            CallEffect::Plain => FlowValue::plain(origins),
            CallEffect::New | CallEffect::Part => {
                let made = self.made(own, all);
                if known::is_iterator(name, effect) {
                    self.heap.mark_iterator(made.sites);
                }
                if name == STRUCT {
                    self.heap.mark_fields(made.sites);
                }
                self.call_values(within.with(made), made.sites);
                let made = made.with_origins(all.origins);
                if effect == CallEffect::Part { made.with(within) } else { made }
            }
            CallEffect::Insert => {
                let control = self.control();
                let added = given.with_origins(object.origins).with_origins(control);
                self.heap.write(object.sites, added);
                self.call_values(within, object.sites);
                within
            }
            CallEffect::Any => {
                let made = self.made(own, all);
                self.heap.mark_iterator(made.sites);
                self.heap.mark_fields(made.sites);
                let control = self.control();
                let mixed = all.with(made).with_origins(origins).with_origins(control);
                self.heap.write(reachable.with(made.sites), mixed);
                self.call_values(within.with(made), made.sites);
                within.with(made)
            }
        }
    }

    /// Calls all functions and tools that can be reached from a value, with the value, at any time. Their results are
    /// written to some objects.
    fn call_values(&mut self, value: FlowValue, into: SiteSet) {
        let callees = self.heap.callees(value.sites);
        if callees.is_empty() {
            return;
        }
        let origins = self.origins(value);
        let control = self.control().with(self.any_control);
        for callee in callees {
            let result = match callee {
                Callee::Function(function) => {
                    self.call_of_value(function, value.with_origins(origins), control)
                }
                Callee::Tool(tool) => {
                    self.pass_to_tool(tool, "", origins.with(control));
                    FlowValue::plain(self.tool_origins(tool))
                }
                // A call that reaches it is one whose effect is not known: all of it is mixed already.
                Callee::Unknown => continue,
            };
            self.heap.write(into, result);
        }
    }

    /// Computes the values that are assigned to so many names at once; `None` if the source does not show
    /// each of them.
    pub(super) fn parallel_values(
        &mut self,
        value: &'a Expr,
        count: usize,
    ) -> Option<Vec<FlowValue>> {
        let parts = match value {
            Expr::Tuple(tuple) => &tuple.elts[..],
            Expr::List(list) => &list.elts[..],
            Expr::Await(awaited) => match &*awaited.value {
                Expr::Call(call) if self.is_asyncio(&call.func, GATHER) => {
                    self.awaits(&awaited.value);
                    &call.arguments.args[..]
                }
                _ => return None,
            },
            Expr::Call(call) if self.is_gather(&call.func) => self.planned_calls(call)?,
            _ => return None,
        };
        if parts.len() != count || parts.iter().any(Expr::is_starred_expr) {
            return None;
        }
        let is_planned = value.is_call_expr();
        let values = parts
            .iter()
            .map(|part| if is_planned { self.planned(part) } else { self.expression(part) });
        let values: Vec<_> = values.collect();
        if let Some(call) = gathering(value) {
            for keyword in &call.arguments.keywords {
                self.expression(&keyword.value);
            }
        }
        Some(values)
    }

    fn is_gather(&self, callee: &Expr) -> bool {
        let Expr::Name(name) = callee else { return false };
        name.id.as_str() == GATHER && self.scopes.resolve(self.frame.scope, GATHER).is_none()
    }

    /// Takes note that the calls in an expression are awaited where it is.
    pub(super) fn awaits(&mut self, value: &'a Expr) {
        let Expr::Call(call) = value else { return };
        self.awaited.insert(place(call));
        // With a keyword, it may return failures.
        if self.is_asyncio(&call.func, GATHER) && call.arguments.keywords.is_empty() {
            let calls = call.arguments.args.iter().filter_map(gathered_call);
            self.awaited.extend(calls.map(place));
        }
    }

    /// Returns whether an expression is a function of [`ASYNCIO`].
    fn is_asyncio(&self, callee: &'a Expr, function: &str) -> bool {
        match callee {
            Expr::Attribute(attribute) => {
                attribute.attr.as_str() == function
                    && self.imported_root(&attribute.value) == Some(ASYNCIO)
            }
            Expr::Name(name) => {
                let variable = self.scopes.resolve(self.frame.scope, name.id.as_str());
                let definition =
                    variable.map(|variable| self.scopes.variable(variable).only_definition());
                definition == Some(NameDefinition::Import(ASYNCIO, Some(function)))
            }
            _ => false,
        }
    }
}

/// Returns the call that an argument of `gather` stands for: one, or one for each element of a comprehension.
fn gathered_call(argument: &Expr) -> Option<&ExprCall> {
    match argument {
        Expr::Call(call) => Some(call),
        Expr::Starred(several) => match &*several.value {
            Expr::ListComp(list) => gathered_call(&list.elt),
            Expr::Generator(lazy) => gathered_call(&lazy.elt),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the call that makes several, of an expression that is one.
fn gathering(value: &Expr) -> Option<&ExprCall> {
    match value {
        Expr::Call(call) => Some(call),
        Expr::Await(awaited) => gathering(&awaited.value),
        _ => None,
    }
}
