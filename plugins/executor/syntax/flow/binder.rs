//! Finds the names that a script binds and reads, in three passes over its tree.

use airlock_executor::Bindings;
use ruff_python_ast::visitor::{Visitor, walk_except_handler, walk_expr, walk_pattern, walk_stmt};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprCall, ExprContext, Parameters, Pattern, Stmt,
    StmtClassDef, StmtFunctionDef,
};

use super::calls::GATHER;
use super::children::{children, class_name, class_value, has_effect, names_any, pattern_name};
use super::scopes::{FlowScopes, NameDefinition, Place, ScopeKind, place};

/// Names that reach into the interpreter.
const REACHING: &[&str] =
    &["compile", "delattr", "eval", "exec", "globals", "locals", "setattr", "vars"];
/// Argument of `gather` with which failures are values.
const RETURN_EXCEPTIONS: &str = "return_exceptions";

#[derive(Clone, Copy, PartialEq, Eq)]
enum BindPhase {
    /// Finds the scopes, and the names in them that are those of outer ones.
    Declare,
    /// Binds names in their own scopes.
    Bind,
    /// Binds names of outer functions, and finds those that are read later.
    Use,
}

struct NameBinder<'b, 'a> {
    scopes: FlowScopes<'a>,
    bindings: &'b Bindings,
    phase: BindPhase,
    /// The scopes around the place.
    within: Vec<usize>,
    /// The callee of the last call, and whether that is awaited at once.
    called: Option<(Place, bool)>,
    awaited: Option<Place>,
    /// Namespaces of calls that are not awaited at once.
    late: Vec<&'a str>,
    is_refused: bool,
}

/// Finds the names of a script; `None` if it is not analysed.
pub(super) fn names<'a>(body: &'a [Stmt], bindings: &Bindings) -> Option<FlowScopes<'a>> {
    let scopes = FlowScopes::new();
    let phase = BindPhase::Declare;
    let mut binder = NameBinder {
        scopes,
        bindings,
        phase,
        within: vec![0],
        called: None,
        awaited: None,
        late: Vec::new(),
        is_refused: false,
    };
    for phase in [BindPhase::Declare, BindPhase::Bind, BindPhase::Use] {
        binder.phase = phase;
        binder.visit_body(body);
    }
    if binder.scopes.awaits {
        for namespace in binder.late {
            binder.scopes.store(namespace, false);
        }
    }
    (!binder.is_refused).then_some(binder.scopes)
}

impl<'a> NameBinder<'_, 'a> {
    fn scope(&self) -> usize {
        self.within.last().copied().unwrap_or_default()
    }

    /// Returns the scope in which an assignment inside an expression binds its name.
    fn assigning_scope(&self) -> usize {
        let mut within = self.within.iter().rev().copied();
        within.find(|scope| self.scopes.is_of_body(*scope)).unwrap_or_default()
    }

    fn enter(&mut self, node: Place, kind: ScopeKind) {
        let scope = self.scopes.open(node, self.scope(), kind);
        self.within.push(scope);
    }

    fn leave(&mut self) {
        self.within.pop();
    }

    fn bind(&mut self, name: &'a str, definition: NameDefinition<'a>) {
        self.bind_in(self.scope(), name, definition);
    }

    fn bind_in(&mut self, scope: usize, name: &'a str, definition: NameDefinition<'a>) {
        self.look_at(name);
        self.is_refused |= self.bindings.is_tool_or_namespace(name);
        // Those of outer functions are bound once these have bound theirs.
        let is_outer = self.scopes.is_nonlocal(scope, name);
        let phase = if is_outer { BindPhase::Use } else { BindPhase::Bind };
        if self.phase == phase {
            self.scopes.bind(scope, name, definition);
            self.scopes.read(self.scope(), name);
        }
    }

    /// Takes note of a tool in the source.
    fn tool(&mut self, namespace: &'a str, tool: Place) {
        if self.phase != BindPhase::Bind {
            return;
        }
        let awaited = self.called.filter(|(callee, _)| *callee == tool).map(|(_, awaited)| awaited);
        if awaited == Some(false) {
            self.late.push(namespace);
        }
        self.scopes.store(namespace, awaited.is_some() && self.scope() == 0);
    }

    fn look_at(&mut self, name: &str) {
        let is_own = name.starts_with("__") && name != "__name__";
        self.is_refused |= is_own || REACHING.contains(&name);
        self.scopes.awaits |= name == "asyncio";
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.is_refused |= function.type_params.is_some();
        function.returns.iter().for_each(|returned| self.visit_annotation(returned));
        let own = place(function);
        let is_plain = function.decorator_list.is_empty();
        let definition =
            if is_plain { NameDefinition::Function(own) } else { NameDefinition::Other };
        self.bind(function.name.as_str(), definition);
        self.defaults(&function.parameters);
        self.enter(own, ScopeKind::Function);
        self.parameters(&function.parameters);
        self.visit_body(&function.body);
        self.leave();
    }

    fn defaults(&mut self, parameters: &'a Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            parameter.default.iter().for_each(|default| self.visit_expr(default));
        }
    }

    fn parameters(&mut self, parameters: &'a Parameters) {
        let plain = parameters.iter_non_variadic_params().map(|parameter| &parameter.parameter);
        let rest = [&parameters.vararg, &parameters.kwarg].into_iter().flatten();
        for parameter in plain.chain(rest.map(|parameter| &**parameter)) {
            parameter.annotation.iter().for_each(|shown| self.visit_annotation(shown));
            self.bind(parameter.name.as_str(), NameDefinition::Other);
        }
    }

    fn comprehension(&mut self, node: &'a Expr, generators: &'a [Comprehension], kind: ScopeKind) {
        generators.iter().take(1).for_each(|first| self.visit_expr(&first.iter));
        self.enter(place(node), kind);
        for (at, generator) in generators.iter().enumerate() {
            if at > 0 {
                self.visit_expr(&generator.iter);
            }
            self.visit_expr(&generator.target);
            generator.ifs.iter().for_each(|condition| self.visit_expr(condition));
        }
        for child in children(node) {
            self.visit_expr(child);
        }
        self.leave();
    }

    /// Looks at a class, which has values and no methods.
    fn class(&mut self, class: &'a StmtClassDef) {
        class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        class.arguments.iter().for_each(|arguments| self.visit_arguments(arguments));
        self.is_refused |= class.type_params.is_some();
        self.bind(class.name.as_str(), NameDefinition::Other);
        let own: Vec<_> = class.body.iter().filter_map(class_name).collect();
        for statement in &class.body {
            match statement {
                Stmt::Pass(_) => {}
                Stmt::Expr(shown) if shown.value.is_string_literal_expr() => {}
                Stmt::Assign(_) | Stmt::AnnAssign(_) if class_name(statement).is_some() => {
                    if let Stmt::AnnAssign(typed) = statement {
                        self.visit_annotation(&typed.annotation);
                    }
                    if let Some(value) = class_value(statement) {
                        self.visit_expr(value);
                        self.is_refused |= names_any(value, &own);
                    }
                }
                _ => self.is_refused = true,
            }
        }
        self.is_refused |= own.iter().any(|name| name.starts_with("__"));
    }
}

impl<'a> Visitor<'a> for NameBinder<'_, 'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => return self.function(function),
            Stmt::ClassDef(class) => return self.class(class),
            Stmt::Try(_) | Stmt::With(_) => self.scopes.catches = true,
            Stmt::Assign(assigned) => {
                if let ([Expr::Name(name)], Expr::Lambda(lambda)) =
                    (&assigned.targets[..], &*assigned.value)
                {
                    self.visit_expr(&assigned.value);
                    let definition = NameDefinition::Function(place(lambda));
                    return self.bind(name.id.as_str(), definition);
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str().split('.').next().unwrap_or_default();
                    let name = alias.asname.as_deref().unwrap_or(module);
                    self.bind(name, NameDefinition::Import(module, None));
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_deref().unwrap_or_default();
                let module = module.split('.').next().unwrap_or_default();
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let definition = NameDefinition::Import(module, Some(alias.name.as_str()));
                    self.is_refused |= name == "*";
                    self.bind(name, definition);
                }
            }
            Stmt::Global(_) | Stmt::Nonlocal(_) if self.phase == BindPhase::Declare => {
                self.declare(statement);
            }
            Stmt::TypeAlias(_) | Stmt::IpyEscapeCommand(_) => self.is_refused = true,
            _ => {}
        }
        if !matches!(statement, Stmt::Import(_) | Stmt::ImportFrom(_)) {
            walk_stmt(self, statement);
        }
    }

    /// Types are not analysed.
    fn visit_annotation(&mut self, annotation: &'a Expr) {
        self.is_refused |= has_effect(annotation);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) => {
                let text = name.id.as_str();
                self.look_at(text);
                self.is_refused |= self.bindings.has(text);
                match name.ctx {
                    ExprContext::Load if self.bindings.function(text).is_some() => {
                        // All functions that are tools are one namespace.
                        self.tool("", place(expression));
                    }
                    ExprContext::Load if self.phase == BindPhase::Use => {
                        self.scopes.read(self.scope(), text);
                    }
                    ExprContext::Load => {}
                    _ => self.bind(text, NameDefinition::Other),
                }
            }
            Expr::Attribute(attribute) => {
                let is_own =
                    attribute.attr.starts_with("__") && attribute.attr.as_str() != "__name__";
                self.is_refused |= is_own;
                match &*attribute.value {
                    Expr::Name(namespace) if self.bindings.has(namespace.id.as_str()) => {
                        self.is_refused |= attribute.ctx != ExprContext::Load;
                        self.tool(namespace.id.as_str(), place(expression));
                    }
                    value => self.visit_expr(value),
                }
            }
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().for_each(|parameters| self.defaults(parameters));
                self.enter(place(lambda), ScopeKind::Function);
                lambda.parameters.iter().for_each(|parameters| self.parameters(parameters));
                self.visit_expr(&lambda.body);
                self.leave();
            }
            Expr::Named(named) => {
                self.visit_expr(&named.value);
                match &*named.target {
                    Expr::Name(name) => {
                        let scope = self.assigning_scope();
                        self.bind_in(scope, name.id.as_str(), NameDefinition::Other);
                        if self.phase == BindPhase::Use && scope != self.scope() {
                            self.scopes.repeat(scope, name.id.as_str());
                        }
                    }
                    _ => self.is_refused = true,
                }
            }
            Expr::Call(call) => {
                self.scopes.catches |= returns_failures(call);
                let is_awaited = self.awaited == Some(place(expression));
                self.called = Some((place(&*call.func), is_awaited));
                walk_expr(self, expression);
            }
            Expr::ListComp(list) => {
                self.comprehension(expression, &list.generators, ScopeKind::Comprehension);
            }
            Expr::SetComp(set) => {
                self.comprehension(expression, &set.generators, ScopeKind::Comprehension);
            }
            Expr::DictComp(dict) => {
                self.comprehension(expression, &dict.generators, ScopeKind::Comprehension);
            }
            Expr::Generator(lazy) => {
                self.comprehension(expression, &lazy.generators, ScopeKind::Generator);
            }
            Expr::Yield(_) | Expr::YieldFrom(_) | Expr::IpyEscapeCommand(_) => {
                self.is_refused = true;
            }
            Expr::Await(awaited) => {
                self.scopes.awaits = true;
                self.awaited = Some(place(&*awaited.value));
                walk_expr(self, expression);
            }
            _ => walk_expr(self, expression),
        }
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        caught.name.iter().for_each(|name| self.bind(name.as_str(), NameDefinition::Other));
        walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        if let Some(name) = pattern_name(pattern) {
            self.bind(name, NameDefinition::Other);
        }
        walk_pattern(self, pattern);
    }
}

impl<'a> NameBinder<'_, 'a> {
    /// Takes note of names that are those of outer scopes.
    fn declare(&mut self, statement: &'a Stmt) {
        let (names, is_global) = match statement {
            Stmt::Global(global) => (&global.names, true),
            Stmt::Nonlocal(nonlocal) => (&nonlocal.names, false),
            _ => return,
        };
        let scope = self.scope();
        for name in names {
            self.scopes.declare(scope, name.as_str(), is_global);
        }
    }
}

/// Returns whether the result of a call may have failures as values.
fn returns_failures(call: &ExprCall) -> bool {
    call.arguments.keywords.iter().any(|keyword| match &keyword.arg {
        Some(name) => name.as_str() == RETURN_EXCEPTIONS,
        None => match &*call.func {
            Expr::Attribute(method) => method.attr.as_str() == GATHER,
            Expr::Name(function) => function.id.as_str() == GATHER,
            _ => false,
        },
    })
}
