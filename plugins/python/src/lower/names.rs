//! The names that a script binds or has from the start, and those that may hold sets.

use std::collections::{BTreeSet, HashSet};

use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_parameter, walk_stmt,
};
use ruff_python_ast::{
    Alias, Comprehension, ExceptHandler, Expr, ExprContext, Operator, Parameter, Stmt,
    StmtFunctionDef,
};

/// The names of a script, whatever their scopes.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// Names that the script has from the start: those of global functions and inputs.
    given: HashSet<&'a str>,
    /// Those of them that are in the script.
    pub(super) used: BTreeSet<&'a str>,
    /// Names that the script gives a value.
    pub(super) bound: HashSet<&'a str>,
    /// True if the script gives the global `result` a value.
    pub(super) binds_result: bool,
    /// Functions, classes and comprehensions around the place: names that are bound there are no globals.
    depth: usize,
    /// Variables that hold a set at some place.
    sets: HashSet<&'a str>,
    /// Functions and lambdas with a name, and what they evaluate.
    functions: Vec<(&'a str, &'a [Stmt])>,
    lambdas: Vec<(&'a str, &'a Expr)>,
}

impl<'a> Names<'a> {
    pub(super) fn new(body: &'a [Stmt], given: HashSet<&'a str>) -> Self {
        let mut names = Self { given, ..Self::default() };
        names.visit_body(body);
        names
    }

    fn bind(&mut self, name: &'a str) {
        self.bound.insert(name);
        self.binds_result |= name == "result" && self.depth == 0;
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
        !self.bound.contains(name) && !self.given.contains(name)
    }

    /// Returns whether a value may be a set, as far as the text shows.
    pub(super) fn is_set(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Set(_) | Expr::SetComp(_) => true,
            Expr::Name(name) => self.sets.contains(name.id.as_str()),
            Expr::Call(call) => match &*call.func {
                Expr::Name(name) => matches!(name.id.as_str(), "set" | "frozenset"),
                Expr::Attribute(method) => {
                    matches!(method.attr.as_str(), "items" | "keys") || self.is_set(&method.value)
                }
                _ => false,
            },
            Expr::BinOp(operation) => {
                matches!(operation.op, Operator::BitOr | Operator::BitAnd | Operator::Sub)
                    && (self.is_set(&operation.left) || self.is_set(&operation.right))
            }
            _ => false,
        }
    }

    /// Returns whether a function, as a script passes it, may read a name for which `is_name` returns
    /// true: itself, if it is a lambda or a function of the script, or in a function that it reads.
    pub(super) fn mentions(&self, function: &Expr, is_name: &dyn Fn(&str) -> bool) -> bool {
        let mut read = ReadNames::default();
        match function {
            Expr::Name(name) => self.add_read(name.id.as_str(), &mut read),
            Expr::Lambda(lambda) => read.visit_expr(&lambda.body),
            _ => return false,
        }
        // Each once: functions may name each other.
        let mut seen = HashSet::new();
        while let Some(name) = read.0.pop() {
            let name = name.id.as_str();
            if is_name(name) {
                return true;
            }
            if seen.insert(name) {
                self.add_read(name, &mut read);
            }
        }
        false
    }

    /// Adds the names that the functions and lambdas with a name read.
    fn add_read<'r>(&'r self, function: &str, read: &mut ReadNames<'r>) {
        for (_, body) in self.functions.iter().filter(|(name, _)| *name == function) {
            read.visit_body(body);
        }
        for (_, value) in self.lambdas.iter().filter(|(name, _)| *name == function) {
            read.visit_expr(value);
        }
    }
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(StmtFunctionDef { name, body, .. }) => {
                self.bind(name.as_str());
                self.functions.push((name.as_str(), body));
            }
            Stmt::ClassDef(class) => self.bind(class.name.as_str()),
            Stmt::Global(statement) => {
                self.binds_result |= statement.names.iter().any(|name| name.as_str() == "result");
            }
            Stmt::Assign(assignment) => {
                if let ([Expr::Tuple(names)], Expr::Tuple(values)) =
                    (&*assignment.targets, &*assignment.value)
                {
                    for (name, value) in names.elts.iter().zip(&values.elts) {
                        self.assign(name, value);
                    }
                }
                if let [Expr::Name(name)] = &*assignment.targets {
                    self.assign(&assignment.targets[0], &assignment.value);
                    if matches!(*assignment.value, Expr::Lambda(_)) {
                        self.lambdas.push((name.id.as_str(), &assignment.value));
                    }
                }
            }
            _ => {}
        }
        let inner = usize::from(matches!(statement, Stmt::FunctionDef(_) | Stmt::ClassDef(_)));
        self.depth += inner;
        walk_stmt(self, statement);
        self.depth -= inner;
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(variable) = expression {
            let name = variable.id.as_str();
            self.used.extend(self.given.get(name));
            if variable.ctx != ExprContext::Load {
                self.bind(name);
            }
        }
        let inner = usize::from(matches!(expression, Expr::Lambda(_)));
        self.depth += inner;
        walk_expr(self, expression);
        self.depth -= inner;
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        let Comprehension { target, iter, ifs, .. } = comprehension;
        self.visit_expr(iter);
        self.depth += 1;
        self.visit_expr(target);
        self.depth -= 1;
        for condition in ifs {
            self.visit_expr(condition);
        }
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(parameter.name.as_str());
        walk_parameter(self, parameter);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        self.bind(alias.asname.as_ref().unwrap_or(&alias.name).as_str());
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(clause) = handler;
        if let Some(name) = &clause.name {
            self.bind(name.as_str());
        }
        walk_except_handler(self, handler);
    }
}

/// The names that an expression or a statement reads.
#[derive(Default)]
struct ReadNames<'a>(Vec<&'a ruff_python_ast::ExprName>);

impl<'a> Visitor<'a> for ReadNames<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(name) = expression
            && name.ctx == ExprContext::Load
        {
            self.0.push(name);
        }
        walk_expr(self, expression);
    }
}
