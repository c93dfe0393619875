//! Names of a script: the scope that binds each, and those that are read by code that runs later.
//!
//! The whole script is not analysed if it has something whose effects its source does not show: names that reach
//! into the interpreter, classes with methods, generators, tools or their namespaces under other names.

use std::collections::BTreeMap;

use ruff_text_size::{Ranged, TextSize};

/// Start and end of a part of the source.
pub(super) type Place = (TextSize, TextSize);

pub(super) fn place(node: &impl Ranged) -> Place {
    (node.start(), node.end())
}

/// Kind of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Module,
    /// A function, whose body runs later.
    Function,
    /// A generator expression, which runs as far as its values are read.
    Generator,
    /// Another comprehension, which runs where it is.
    Comprehension,
}

struct FlowScope<'a> {
    parent: Option<usize>,
    kind: ScopeKind,
    names: BTreeMap<&'a str, usize>,
    /// Names that are those of an outer scope; true for that of the module.
    outer: BTreeMap<&'a str, bool>,
}

/// The value of a name, if it is bound once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameDefinition<'a> {
    /// A function of the script.
    Function(Place),
    /// A module, by the first part of its name, or something in it.
    Import(&'a str, Option<&'a str>),
    Other,
}

pub(super) struct FlowVariable<'a> {
    /// True if code reads or binds it that runs later, or several times.
    pub(super) is_cell: bool,
    scope: usize,
    times_bound: usize,
    definition: NameDefinition<'a>,
}

impl<'a> FlowVariable<'a> {
    /// Returns its definition, if it is the only one.
    pub(super) fn only_definition(&self) -> NameDefinition<'a> {
        if self.times_bound == 1 { self.definition } else { NameDefinition::Other }
    }
}

/// All names of a script.
pub(super) struct FlowScopes<'a> {
    scopes: Vec<FlowScope<'a>>,
    by_place: BTreeMap<Place, usize>,
    variables: Vec<FlowVariable<'a>>,
    /// True if it may catch failures, or get them as values.
    pub(super) catches: bool,
    /// True if it awaits anything.
    pub(super) awaits: bool,
}

impl<'a> FlowScopes<'a> {
    /// Creates the names of a script that binds none.
    pub(super) fn new() -> Self {
        let mut scopes = Self {
            scopes: Vec::new(),
            by_place: BTreeMap::new(),
            variables: Vec::new(),
            catches: false,
            awaits: false,
        };
        scopes.add(None, ScopeKind::Module);
        scopes
    }

    /// Returns the scope of a function or a comprehension.
    pub(super) fn scope_at(&self, node: Place) -> usize {
        self.by_place.get(&node).copied().unwrap_or_default()
    }

    pub(super) fn variable(&self, variable: usize) -> &FlowVariable<'a> {
        &self.variables[variable]
    }

    pub(super) fn count(&self) -> usize {
        self.variables.len()
    }

    /// Finds the variable that a name is in a scope; `None` if the script does not bind it.
    pub(super) fn resolve(&self, scope: usize, name: &str) -> Option<usize> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            let FlowScope { parent, names, outer, .. } = &self.scopes[scope];
            match outer.get(name) {
                Some(true) => return self.scopes[0].names.get(name).copied(),
                Some(false) => {}
                None => {
                    if let Some(variable) = names.get(name) {
                        return Some(*variable);
                    }
                }
            }
            at = *parent;
        }
        None
    }

    /// Returns whether code in a scope runs where that of an outer one does, which has the variable.
    fn runs_in(&self, scope: usize, variable: usize) -> bool {
        let mut at = scope;
        loop {
            let FlowScope { parent, kind, .. } = &self.scopes[at];
            if self.variables[variable].scope == at {
                return matches!(kind, ScopeKind::Module | ScopeKind::Function);
            }
            match parent {
                Some(parent) if *kind == ScopeKind::Comprehension => at = *parent,
                _ => return false,
            }
        }
    }

    /// Returns whether the code of a scope is that of the module or of a function.
    pub(super) fn is_of_body(&self, scope: usize) -> bool {
        matches!(self.scopes[scope].kind, ScopeKind::Module | ScopeKind::Function)
    }

    /// Returns the scope of the body that a scope is in: of the module or of a function.
    pub(super) fn body_of(&self, scope: usize) -> usize {
        let mut at = scope;
        while let Some(parent) = self.scopes[at].parent.filter(|_| !self.is_of_body(at)) {
            at = parent;
        }
        at
    }

    /// Returns the scope of a function or a comprehension that is in another scope, and creates it.
    pub(super) fn open(&mut self, node: Place, parent: usize, kind: ScopeKind) -> usize {
        if let Some(scope) = self.by_place.get(&node) {
            return *scope;
        }
        let scope = self.add(Some(parent), kind);
        self.by_place.insert(node, scope);
        scope
    }

    /// Takes note of a name in a scope that is that of an outer one, or of the module.
    pub(super) fn declare(&mut self, scope: usize, name: &'a str, is_global: bool) {
        if scope != 0 {
            self.scopes[scope].outer.insert(name, is_global);
        }
    }

    /// Returns whether a name in a scope is that of an outer function.
    pub(super) fn is_nonlocal(&self, scope: usize, name: &str) -> bool {
        self.scopes[scope].outer.get(name) == Some(&false)
    }

    /// Takes note of a name that is read in a scope.
    pub(super) fn read(&mut self, scope: usize, name: &str) {
        if let Some(variable) = self.resolve(scope, name)
            && !self.runs_in(scope, variable)
        {
            self.variables[variable].is_cell = true;
        }
    }

    /// Takes note that a name in a scope is bound by code that runs several times.
    pub(super) fn repeat(&mut self, scope: usize, name: &str) {
        if let Some(variable) = self.resolve(scope, name) {
            self.variables[variable].is_cell = true;
        }
    }

    /// Takes note of a tool. Those of one namespace share a variable of the module, for all that they were given, under the
    /// name of the namespace, which the script does not bind. It has one value for the whole script unless all calls are
    /// ordered: made in the order of the source.
    pub(super) fn store(&mut self, namespace: &'a str, is_ordered: bool) {
        self.bind(0, namespace, NameDefinition::Other);
        if !is_ordered {
            self.repeat(0, namespace);
        }
    }

    fn add(&mut self, parent: Option<usize>, kind: ScopeKind) -> usize {
        let names = BTreeMap::new();
        self.scopes.push(FlowScope { parent, kind, names, outer: BTreeMap::new() });
        self.scopes.len() - 1
    }

    pub(super) fn bind(&mut self, scope: usize, name: &'a str, definition: NameDefinition<'a>) {
        let known = match self.scopes[scope].outer.get(name) {
            None => self.scopes[scope].names.get(name).copied(),
            Some(true) => self.scopes[0].names.get(name).copied(),
            Some(false) => self.resolve(scope, name),
        };
        let variable = known.unwrap_or_else(|| {
            let is_global = self.scopes[scope].outer.get(name) == Some(&true);
            let at = if is_global { 0 } else { scope };
            let variable = self.variables.len();
            let times_bound = 0;
            let added = FlowVariable { is_cell: false, scope: at, times_bound, definition };
            self.variables.push(added);
            self.scopes[at].names.insert(name, variable);
            variable
        });
        let is_own = self.runs_in(scope, variable);
        let bound = &mut self.variables[variable];
        bound.times_bound += 1;
        bound.is_cell |= !is_own;
    }
}
