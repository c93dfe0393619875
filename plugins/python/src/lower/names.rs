//! The names that a script binds or has from the start, and those that may hold sets.

use std::collections::{BTreeSet, HashMap, HashSet};

use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_parameter, walk_stmt,
};
use ruff_python_ast::{
    Alias, Comprehension, ExceptHandler, Expr, ExprContext, Operator, Parameter, Stmt,
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
    /// Names that functions and lambdas with a name read, those of functions in them among them.
    reads: HashMap<&'a str, HashSet<&'a str>>,
    /// Such functions around the place, the innermost last.
    around: Vec<&'a str>,
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

    /// Notes a name that the function around the place reads.
    fn read(&mut self, name: &'a str) {
        if let Some(function) = self.around.last() {
            self.reads.entry(*function).or_default().insert(name);
        }
    }

    /// Returns the functions and lambdas with a name that may read a name for which `is_tool` returns true:
    /// themselves, or in a function that they read. Asks once about each name, and takes time in
    /// proportion to the script.
    pub(super) fn functions_with(&self, is_tool: impl Fn(&str) -> bool) -> HashSet<&'a str> {
        // The functions that read each name.
        let mut readers: HashMap<&'a str, Vec<&'a str>> = HashMap::new();
        for (function, names) in &self.reads {
            for name in names {
                readers.entry(*name).or_default().push(*function);
            }
        }
        let mut ahead: Vec<&'a str> =
            readers.keys().copied().filter(|name| is_tool(name)).collect();
        let mut found = HashSet::new();
        while let Some(name) = ahead.pop() {
            for function in readers.get(name).into_iter().flatten() {
                if found.insert(*function) {
                    ahead.push(*function);
                }
            }
        }
        found
    }
}

/// Returns the names that an expression reads.
pub(super) fn read_names(expression: &Expr) -> Vec<&str> {
    let mut names = ReadNames(Vec::new());
    names.visit_expr(expression);
    names.0
}

/// Returns the name of the function or of the lambda that a statement defines.
fn defined_function(statement: &Stmt) -> Option<&str> {
    match statement {
        Stmt::FunctionDef(function) => Some(function.name.as_str()),
        Stmt::Assign(assignment) if matches!(*assignment.value, Expr::Lambda(_)) => {
            let [Expr::Name(name)] = &*assignment.targets else { return None };
            Some(name.id.as_str())
        }
        _ => None,
    }
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.bind(function.name.as_str()),
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
                if let [target @ Expr::Name(_)] = &*assignment.targets {
                    self.assign(target, &assignment.value);
                }
            }
            _ => {}
        }
        let function = defined_function(statement);
        if let Some(function) = function {
            // A function may call those that it defines.
            self.read(function);
            self.around.push(function);
        }
        let inner = usize::from(matches!(statement, Stmt::FunctionDef(_) | Stmt::ClassDef(_)));
        self.depth += inner;
        walk_stmt(self, statement);
        self.depth -= inner;
        if function.is_some() {
            self.around.pop();
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(variable) = expression {
            let name = variable.id.as_str();
            self.used.extend(self.given.get(name));
            if variable.ctx == ExprContext::Load {
                self.read(name);
            } else {
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

/// Collects the names that an expression reads.
struct ReadNames<'a>(Vec<&'a str>);

impl<'a> Visitor<'a> for ReadNames<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Name(name) = expression
            && name.ctx == ExprContext::Load
        {
            self.0.push(name.id.as_str());
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fmt::Write as _;

    use ruff_python_parser::parse_module;

    use super::*;

    /// Returns the functions of a script that lead to `tool`, sorted, and the names that were asked about.
    fn functions_with_tool(source: &str) -> (Vec<String>, Vec<String>) {
        let parsed = parse_module(source).expect("it parses");
        let names = Names::new(&parsed.syntax().body, HashSet::new());
        let asked = RefCell::new(Vec::new());
        let found = names.functions_with(|name| {
            asked.borrow_mut().push(name.to_owned());
            name == "tool"
        });
        let mut found: Vec<_> = found.into_iter().map(str::to_owned).collect();
        found.sort();
        (found, asked.into_inner())
    }

    #[test]
    fn a_function_leads_to_a_tool_by_itself_or_through_others() {
        for (source, functions) in [
            (
                "def a(): return tool.read()\ndef b(): return a()\ndef c(): return 1",
                &["a", "b"][..],
            ),
            ("a = lambda n: tool(n)\nb = lambda n: sorted(n, key=a)", &["a", "b"]),
            ("def a():\n  def b(): return tool()\n  return b", &["a", "b"]),
            ("def a():\n  b = lambda: tool()\n  return 1", &["a", "b"]),
            ("def a(): return b()\ndef b(): return a()", &[]),
            ("def a(): return b()\ndef b(): return a() or tool()", &["a", "b"]),
            ("def a(): return 1\ndef a(): return tool()", &["a"]),
            ("def a(): return f'{tool()}'\ntool()\nb = tool", &["a"]),
        ] {
            assert_eq!(functions_with_tool(source).0, functions, "{source}");
        }
    }

    #[test]
    fn each_name_is_looked_up_once_however_many_functions_read_it() {
        let mut source = String::new();
        for at in 0..100 {
            let _ = writeln!(source, "def f{at}(n): return f{}(n) + f0(n) + f0(n)", (at + 1) % 100);
        }
        let (found, mut asked) = functions_with_tool(&source);
        assert!(found.is_empty(), "{found:?}");
        let count = asked.len();
        asked.sort();
        asked.dedup();
        // The functions, and their parameter.
        assert_eq!((count, asked.len()), (101, 101));
    }
}
