//! The names that a script binds, and those that may hold sets.

use std::collections::HashSet;

use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_parameter, walk_stmt,
};
use ruff_python_ast::{
    Alias, ExceptHandler, Expr, ExprContext, Operator, Parameter, Stmt, StmtFunctionDef,
};

/// The names of a script, whatever their scopes.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// Names that the script gives a value: such a built-in function is not Python's.
    pub(super) bound: HashSet<&'a str>,
    /// Variables that hold a set at some place.
    sets: HashSet<&'a str>,
    /// Functions and lambdas with a name, and what they evaluate.
    functions: Vec<(&'a str, &'a [Stmt])>,
    lambdas: Vec<(&'a str, &'a Expr)>,
}

impl<'a> Names<'a> {
    pub(super) fn new(body: &'a [Stmt]) -> Self {
        let mut names = Self::default();
        names.visit_body(body);
        names
    }

    /// Notes a name that holds a set.
    fn assign(&mut self, name: &'a Expr, value: &Expr) {
        if let Expr::Name(name) = name
            && self.is_set(value)
        {
            self.sets.insert(name.id.as_str());
        }
    }

    /// Returns whether a call of this name is one of Python's built-in function.
    pub(super) fn is_builtin(&self, name: &str) -> bool {
        !self.bound.contains(name)
    }

    /// Returns whether a value may be a set, as far as the text shows.
    pub(super) fn is_set(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Set(_) | Expr::SetComp(_) => true,
            Expr::Name(it) => self.sets.contains(it.id.as_str()),
            Expr::Call(it) => match &*it.func {
                Expr::Name(name) => matches!(name.id.as_str(), "set" | "frozenset"),
                Expr::Attribute(method) => {
                    matches!(method.attr.as_str(), "items" | "keys") || self.is_set(&method.value)
                }
                _ => false,
            },
            Expr::BinOp(it) => {
                matches!(it.op, Operator::BitOr | Operator::BitAnd | Operator::Sub)
                    && (self.is_set(&it.left) || self.is_set(&it.right))
            }
            _ => false,
        }
    }

    /// Returns whether a function, as a script passes it, may name one of `names`: a lambda, or a
    /// function of the script. Follows calls among them for `depth` steps.
    pub(super) fn mentions(
        &self,
        function: &Expr,
        is_name: &dyn Fn(&str) -> bool,
        depth: usize,
    ) -> bool {
        let mut read = Read::default();
        match function {
            Expr::Name(name) => {
                let name = name.id.as_str();
                for (_, body) in self.functions.iter().filter(|(function, _)| *function == name) {
                    read.visit_body(body);
                }
                for (_, value) in self.lambdas.iter().filter(|(lambda, _)| *lambda == name) {
                    read.visit_expr(value);
                }
            }
            Expr::Lambda(it) => read.visit_expr(&it.body),
            _ => return false,
        }
        read.0.iter().any(|name| {
            is_name(name.id.as_str())
                || (depth > 0 && self.mentions(&Expr::Name((*name).clone()), is_name, depth - 1))
        })
    }
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(StmtFunctionDef { name, body, .. }) => {
                self.bound.insert(name.as_str());
                self.functions.push((name.as_str(), body));
            }
            Stmt::ClassDef(it) => {
                self.bound.insert(it.name.as_str());
            }
            Stmt::Assign(it) => {
                if let ([Expr::Tuple(names)], Expr::Tuple(values)) = (&*it.targets, &*it.value) {
                    for (name, value) in names.elts.iter().zip(&values.elts) {
                        self.assign(name, value);
                    }
                }
                if let [Expr::Name(name)] = &*it.targets {
                    self.assign(&it.targets[0], &it.value);
                    if matches!(*it.value, Expr::Lambda(_)) {
                        self.lambdas.push((name.id.as_str(), &it.value));
                    }
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(it) = expression
            && it.ctx != ExprContext::Load
        {
            self.bound.insert(it.id.as_str());
        }
        walk_expr(self, expression);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.insert(parameter.name.as_str());
        walk_parameter(self, parameter);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        self.bound.insert(alias.asname.as_ref().unwrap_or(&alias.name).as_str());
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        self.bound.extend(it.name.as_ref().map(ruff_python_ast::Identifier::as_str));
        walk_except_handler(self, handler);
    }
}

/// The names that an expression or a statement reads.
#[derive(Default)]
struct Read<'a>(Vec<&'a ruff_python_ast::ExprName>);

impl<'a> Visitor<'a> for Read<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(it) = expression
            && it.ctx == ExprContext::Load
        {
            self.0.push(it);
        }
        walk_expr(self, expression);
    }
}
