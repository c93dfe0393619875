//! The names of a script: which function owns them, and which need a cell.
//!
//! Starlark cannot assign to a name of an outer function or of the module, nor inside an
//! expression. Names for which a script does so live in a cell, which both can change.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, Parameters, Pattern, Stmt};
use ruff_text_size::{Ranged, TextSize};

use super::comparisons::makes_set;

/// Names of one function, or of the module.
#[derive(Default)]
pub(super) struct LocalNames<'a> {
    /// Names that the function assigns, its parameters included.
    locals: BTreeSet<&'a str>,
    /// Names that it declares `global`.
    global: BTreeSet<&'a str>,
    /// Names that it declares `nonlocal`.
    nonlocal: BTreeSet<&'a str>,
    /// Names of its own that need a cell.
    cells: BTreeSet<&'a str>,
}

/// Facts about a whole script before it is lowered.
#[derive(Default)]
pub(super) struct Facts<'a> {
    /// The names of each function, by its start.
    functions: BTreeMap<TextSize, LocalNames<'a>>,
    module: LocalNames<'a>,
    /// Every name that is assigned anywhere, or that the script has from the start.
    pub(super) bound: BTreeSet<&'a str>,
    /// Names to which a set is assigned anywhere.
    pub(super) sets: BTreeSet<&'a str>,
    /// Names that are given to `next` anywhere.
    pub(super) stepped: BTreeSet<&'a str>,
    /// Whether a `defaultdict` has a factory other than a built-in type.
    pub(super) factories: bool,
}

impl<'a> Facts<'a> {
    pub(super) fn collect(body: &'a [Stmt]) -> Self {
        let mut reader = NameReader { facts: Self::default(), path: Vec::new() };
        reader.visit_body(body);
        let mut facts = reader.facts;
        facts.bound.extend(&facts.module.locals);
        facts.bound.extend(facts.functions.values().flat_map(|names| &names.locals));
        facts
    }

    /// Returns whether the script assigns the global `result` anywhere.
    pub(super) fn binds_result(&self) -> bool {
        self.module.locals.contains("result")
    }

    fn names(&mut self, function: Option<&TextSize>) -> &mut LocalNames<'a> {
        match function {
            Some(start) => self.functions.entry(*start).or_default(),
            None => &mut self.module,
        }
    }
}

/// Collects the names of a script.
struct NameReader<'a> {
    facts: Facts<'a>,
    /// Starts of the functions around the node that is read.
    path: Vec<TextSize>,
}

impl<'a> NameReader<'a> {
    fn here(&mut self) -> &mut LocalNames<'a> {
        self.facts.names(self.path.last())
    }

    fn bind(&mut self, name: &'a str) {
        self.here().locals.insert(name);
    }

    /// Records the names to which a set is assigned.
    fn sets(&mut self, target: &'a Expr, value: &'a Expr) {
        match (target, value) {
            (Expr::Tuple(targets), Expr::Tuple(values)) => {
                for (target, value) in targets.iter().zip(values) {
                    self.sets(target, value);
                }
            }
            (Expr::Name(name), value) if makes_set(value, &self.facts.sets) => {
                self.facts.sets.insert(&name.id);
            }
            _ => (),
        }
    }

    /// Gives a cell to a name that an inner function declares `nonlocal`.
    fn lend(&mut self, name: &'a str) {
        let mut outer = self.path.iter().rev().skip(1);
        let owner = outer.find(|start| {
            self.facts.functions.get(start).is_some_and(|names| names.locals.contains(name))
        });
        // The owner may assign the name after the inner function.
        let owner = owner.or_else(|| self.path.iter().rev().nth(1)).copied();
        let names = self.facts.names(owner.as_ref());
        names.locals.insert(name);
        names.cells.insert(name);
    }
}

impl<'a> Visitor<'a> for NameReader<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => {
                self.bind(&it.name);
                self.path.push(it.start());
                for parameter in &it.parameters {
                    self.bind(parameter.name().as_str());
                }
                visitor::walk_stmt(self, statement);
                self.path.pop();
                return;
            }
            Stmt::Global(it) => {
                for name in &it.names {
                    self.here().global.insert(name);
                    self.facts.module.locals.insert(name);
                    if !self.path.is_empty() {
                        self.facts.module.cells.insert(name);
                    }
                }
            }
            Stmt::Nonlocal(it) => {
                for name in &it.names {
                    self.here().nonlocal.insert(name);
                    self.lend(name);
                }
            }
            Stmt::Import(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.bind(name.split('.').next().unwrap_or_default());
                }
            }
            Stmt::Assign(it) => {
                for target in &it.targets {
                    self.sets(target, &it.value);
                }
            }
            Stmt::ImportFrom(it) => {
                for alias in &it.names {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name));
                }
            }
            _ => (),
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(it) if matches!(it.ctx, ExprContext::Store | ExprContext::Del) => {
                self.bind(&it.id);
            }
            Expr::Named(it) => {
                if let Expr::Name(name) = &*it.target {
                    self.bind(&name.id);
                    self.here().cells.insert(&name.id);
                }
            }
            // Their variables are their own, and never assigned from elsewhere.
            Expr::ListComp(it) => return self.comprehension(&it.generators, [&*it.elt]),
            Expr::SetComp(it) => return self.comprehension(&it.generators, [&*it.elt]),
            Expr::Generator(it) => return self.comprehension(&it.generators, [&*it.elt]),
            Expr::DictComp(it) => {
                let parts = it.key.as_deref().into_iter().chain([&*it.value]);
                return self.comprehension(&it.generators, parts);
            }
            Expr::Call(it) => {
                if let (Expr::Name(next), [Expr::Name(name), ..]) = (&*it.func, &*it.arguments.args)
                    && next.id == "next"
                {
                    self.facts.stepped.insert(&name.id);
                }
                let named = matches!(&*it.func, Expr::Name(name) if name.id == "defaultdict");
                let dotted =
                    matches!(&*it.func, Expr::Attribute(name) if &*name.attr == "defaultdict");
                let factory = it.arguments.args.first();
                if (named || dotted) && factory.is_some_and(|factory| !is_type(factory)) {
                    self.facts.factories = true;
                }
            }
            _ => (),
        }
        visitor::walk_expr(self, expression);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(it) => it.name.as_ref(),
            Pattern::MatchStar(it) => it.name.as_ref(),
            Pattern::MatchMapping(it) => it.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bind(name);
        }
        visitor::walk_pattern(self, pattern);
    }

    fn visit_annotation(&mut self, _annotation: &'a Expr) {}
}

impl<'a> NameReader<'a> {
    fn comprehension(
        &mut self,
        generators: &'a [ruff_python_ast::Comprehension],
        parts: impl IntoIterator<Item = &'a Expr>,
    ) {
        for generator in generators {
            self.visit_expr(&generator.iter);
            generator.ifs.iter().for_each(|test| self.visit_expr(test));
        }
        parts.into_iter().for_each(|part| self.visit_expr(part));
    }
}

/// Returns whether a `defaultdict` can call this factory itself.
fn is_type(factory: &Expr) -> bool {
    let types = ["list", "int", "dict", "str", "float", "tuple", "bool"];
    matches!(factory, Expr::Name(name) if types.contains(&name.id.as_str()))
        || matches!(factory, Expr::NoneLiteral(_))
}

/// The scopes around the place that is lowered.
#[derive(Default)]
pub(super) struct Scopes<'a> {
    open: Vec<OpenScope<'a>>,
}

enum OpenScope<'a> {
    /// A function, by its start.
    Function(TextSize),
    /// Parameters of a lambda, or variables of a comprehension.
    Inner(BTreeSet<&'a str>),
}

impl<'a> Scopes<'a> {
    pub(super) fn enter_function(&mut self, start: TextSize) {
        self.open.push(OpenScope::Function(start));
    }

    pub(super) fn enter_inner(&mut self, names: BTreeSet<&'a str>) {
        self.open.push(OpenScope::Inner(names));
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Returns whether `name`, read or assigned here, lives in a cell.
    pub(super) fn in_cell(&self, facts: &Facts<'a>, name: &str) -> bool {
        for scope in self.open.iter().rev() {
            match scope {
                OpenScope::Inner(names) if names.contains(name) => return false,
                OpenScope::Inner(_) => (),
                OpenScope::Function(start) => {
                    let Some(names) = facts.functions.get(start) else { continue };
                    if names.global.contains(name) {
                        return facts.module.cells.contains(name);
                    }
                    if names.cells.contains(name) && !names.nonlocal.contains(name) {
                        return true;
                    }
                    if names.locals.contains(name) && !names.nonlocal.contains(name) {
                        return false;
                    }
                }
            }
        }
        facts.module.cells.contains(name)
    }

    /// Returns the names that need a cell in the innermost function, or in the module.
    pub(super) fn cells(&self, facts: &Facts<'a>) -> Vec<&'a str> {
        let function = self.open.iter().rev().find_map(|scope| match scope {
            OpenScope::Function(start) => Some(start),
            OpenScope::Inner(_) => None,
        });
        let names = match function {
            Some(start) => facts.functions.get(start),
            None => Some(&facts.module),
        };
        let Some(names) = names else { return Vec::new() };
        let cells = names.cells.iter().filter(|name| {
            function.is_none() || !names.global.contains(**name) && !names.nonlocal.contains(**name)
        });
        cells.copied().collect()
    }
}

/// Returns the names of parameters.
pub(super) fn parameters(parameters: &Parameters) -> BTreeSet<&str> {
    parameters.iter().map(|parameter| parameter.name().as_str()).collect()
}
