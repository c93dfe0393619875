//! Values that the variables of a script may hold, function by function.

use std::collections::HashMap;

use ruff_python_ast::visitor::{Visitor, walk_comprehension, walk_expr, walk_stmt};
use ruff_python_ast::{
    Arguments, Comprehension, Expr, ExprCall, Parameters, Stmt, StmtFunctionDef,
};

use super::super::syntax::is_name;

/// Methods that add their arguments to a collection.
const ADDING: [&str; 7] =
    ["add", "append", "appendleft", "extend", "insert", "setdefault", "update"];
/// Functions that await their arguments.
const AWAITING: [&str; 2] = ["gather", "run"];

/// Values that a name may stand for.
#[derive(Clone, Copy)]
pub(super) enum PossibleValue<'a> {
    /// The value of an expression in a scope, or something in that value.
    Value(usize, &'a Expr),
    /// A function, by the scope of its body.
    Function { scope: usize, is_async: bool },
}

/// The functions of a script, each with its variables. The first scope is that of the module.
pub(super) struct Scopes<'a> {
    all: Vec<ScopeNames<'a>>,
    /// Calls of functions by their name, to find what their parameters hold.
    calls: HashMap<&'a str, Vec<(usize, &'a ExprCall)>>,
    /// Operands of `await` and arguments of `gather`.
    awaited: Vec<(usize, &'a Expr)>,
    /// The scope of the statement at hand.
    at: usize,
}

#[derive(Default)]
struct ScopeNames<'a> {
    /// The scope around it; its own number for the module's.
    outer: usize,
    names: HashMap<&'a str, Vec<PossibleValue<'a>>>,
    parameters: HashMap<&'a str, Parameter<'a>>,
    returns: Vec<&'a Expr>,
}

/// A parameter of a function.
struct Parameter<'a> {
    function: &'a str,
    position: usize,
}

impl<'a> Scopes<'a> {
    /// Reads a script.
    pub(super) fn new(body: &'a [Stmt]) -> Self {
        let mut scopes = Self {
            all: vec![ScopeNames::default()],
            calls: HashMap::new(),
            awaited: Vec::new(),
            at: 0,
        };
        scopes.visit_body(body);
        scopes
    }

    /// Returns the expressions that are awaited, with their scopes.
    pub(super) fn awaited(&self) -> Vec<(usize, &'a Expr)> {
        self.awaited.clone()
    }

    /// Returns what a name may stand for; nothing if the script does not bind it.
    pub(super) fn held(&self, scope: usize, name: &str) -> Vec<PossibleValue<'a>> {
        let ScopeNames { outer, names, parameters, .. } = &self.all[scope];
        let mut held = names.get(name).cloned().unwrap_or_default();
        let parameter = parameters.get(name);
        if let Some(parameter) = parameter {
            held.extend(self.arguments(name, parameter));
        }
        if held.is_empty() && parameter.is_none() && *outer != scope {
            return self.held(*outer, name);
        }
        held
    }

    /// Returns whether the script binds a name in a scope, or around it.
    pub(super) fn is_bound(&self, scope: usize, name: &str) -> bool {
        let ScopeNames { outer, names, parameters, .. } = &self.all[scope];
        names.contains_key(name)
            || parameters.contains_key(name)
            || (*outer != scope && self.is_bound(*outer, name))
    }

    /// Returns the values that a name stands for.
    #[expect(clippy::unused_self, reason = "read with `returns`, of the same scopes")]
    pub(super) fn values(&self, held: &PossibleValue<'a>) -> Option<(usize, &'a Expr)> {
        match held {
            PossibleValue::Value(scope, value) => Some((*scope, value)),
            PossibleValue::Function { .. } => None,
        }
    }

    /// Returns the expressions that a function returns, with their scope.
    pub(super) fn returns(&self, scope: usize) -> impl Iterator<Item = (usize, &'a Expr)> {
        self.all[scope].returns.iter().map(move |value| (scope, *value))
    }

    /// Returns what calls of a function give for a parameter.
    fn arguments(&self, name: &str, parameter: &Parameter<'a>) -> Vec<PossibleValue<'a>> {
        let calls = self.calls.get(parameter.function).into_iter().flatten();
        let given = calls.filter_map(|(scope, call)| {
            let Arguments { args, keywords, .. } = &call.arguments;
            let named = keywords
                .iter()
                .find(|keyword| keyword.arg.as_ref().is_some_and(|arg| arg.as_str() == name));
            let value =
                named.map(|keyword| &keyword.value).or_else(|| args.get(parameter.position));
            value.map(|value| PossibleValue::Value(*scope, value))
        });
        given.collect()
    }

    fn bind(&mut self, name: &'a str, held: PossibleValue<'a>) {
        self.all[self.at].names.entry(name).or_default().push(held);
    }

    /// Binds the names in a target to a value, or to what is in it.
    fn assign(&mut self, target: &'a Expr, value: &'a Expr) {
        match (target, value) {
            (Expr::Name(name), _) => {
                self.bind(name.id.as_str(), PossibleValue::Value(self.at, value));
            }
            (Expr::Subscript(subscript), _) => self.assign(&subscript.value, value),
            (Expr::Starred(starred), _) => self.assign(&starred.value, value),
            (Expr::Tuple(targets), Expr::Tuple(values))
                if targets.elts.len() == values.elts.len() =>
            {
                for (target, value) in targets.elts.iter().zip(&values.elts) {
                    self.assign(target, value);
                }
            }
            (Expr::Tuple(tuple), _) => {
                tuple.elts.iter().for_each(|target| self.assign(target, value));
            }
            (Expr::List(list), _) => list.elts.iter().for_each(|target| self.assign(target, value)),
            _ => {}
        }
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        let name = function.name.as_str();
        let scope = self.all.len();
        self.all.push(ScopeNames {
            outer: self.at,
            parameters: parameters(name, &function.parameters),
            ..ScopeNames::default()
        });
        self.bind(name, PossibleValue::Function { scope, is_async: function.is_async });
        let outer = std::mem::replace(&mut self.at, scope);
        self.visit_body(&function.body);
        self.at = outer;
    }

    fn call(&mut self, call: &'a ExprCall) {
        let arguments = call.arguments.args.iter().map(|argument| (self.at, argument));
        match &*call.func {
            Expr::Attribute(method) => {
                let name = method.attr.as_str();
                if AWAITING.contains(&name) && is_name(&method.value, &["asyncio"]) {
                    self.awaited.extend(arguments);
                } else if ADDING.contains(&name) {
                    for argument in &call.arguments.args {
                        self.assign(&method.value, argument);
                    }
                }
            }
            Expr::Name(function) => {
                if function.id.as_str() == "gather" {
                    self.awaited.extend(arguments);
                }
                self.calls.entry(function.id.as_str()).or_default().push((self.at, call));
            }
            _ => {}
        }
    }
}

/// Returns the parameters that an argument is given for.
fn parameters<'a>(
    function: &'a str,
    parameters: &'a Parameters,
) -> HashMap<&'a str, Parameter<'a>> {
    parameters
        .iter_non_variadic_params()
        .map(|parameter| parameter.parameter.name.as_str())
        .chain(parameters.vararg.iter().map(|parameter| parameter.name.as_str()))
        .enumerate()
        .map(|(position, name)| (name, Parameter { function, position }))
        .collect()
}

impl<'a> Visitor<'a> for Scopes<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => return self.function(function),
            Stmt::Return(statement) => {
                let returns = &mut self.all[self.at].returns;
                returns.extend(statement.value.as_deref());
            }
            Stmt::Assign(assignment) => {
                assignment.targets.iter().for_each(|target| self.assign(target, &assignment.value));
            }
            Stmt::AnnAssign(assignment) => {
                if let Some(value) = &assignment.value {
                    self.assign(&assignment.target, value);
                }
            }
            Stmt::AugAssign(assignment) => self.assign(&assignment.target, &assignment.value),
            Stmt::For(statement) => self.assign(&statement.target, &statement.iter),
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.assign(&comprehension.target, &comprehension.iter);
        walk_comprehension(self, comprehension);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Await(awaited) => self.awaited.push((self.at, &awaited.value)),
            Expr::Named(named) => self.assign(&named.target, &named.value),
            Expr::Call(call) => self.call(call),
            _ => {}
        }
        walk_expr(self, expression);
    }
}
