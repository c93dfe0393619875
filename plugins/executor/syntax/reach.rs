//! Finds the calls that a script makes in any case, if it ends well.
//!
//! Followed are the statements of the module, up to the first that may leave it, and those of its functions that are
//! called there. A call in a branch or in a loop that may be empty is left out: the script may end well without it.

use std::collections::BTreeMap;

use airlock_executor::Bindings;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{
    Arguments, CmpOp, Comprehension, Expr, ExprAttribute, ExprCall, ExprDict, Number, Stmt,
    StmtFunctionDef,
};
use ruff_text_size::{Ranged, TextSize};

use super::ScriptFacts;

/// Function of Starlark scripts that makes several calls at the same time.
const GATHER: &str = "gather";

/// A call of a tool in the tree.
pub(super) struct FoundCall<'a> {
    /// Start of the call.
    pub(super) start: TextSize,
    /// The tool, as an attribute of its namespace.
    pub(super) tool: &'a ExprAttribute,
    pub(super) namespace: &'a str,
    pub(super) arguments: FoundArguments<'a>,
}

/// Arguments of a call in the tree.
#[derive(Clone, Copy)]
pub(super) enum FoundArguments<'a> {
    /// Those of a call.
    Call(&'a Arguments),
    /// One dict, beside the tool.
    Dict(&'a ExprDict),
}

/// Returns the calls of a script that are looked at, in any order.
pub(super) fn found_calls<'a>(
    body: &'a [Stmt],
    facts: &ScriptFacts<'a>,
    bindings: &Bindings,
    is_input: &dyn Fn(&str) -> bool,
) -> Vec<FoundCall<'a>> {
    let mut finder = CallFinder {
        facts,
        bindings,
        is_input,
        found: Vec::new(),
        awaited: None,
        functions: BTreeMap::new(),
        called: Vec::new(),
        is_in_function: false,
    };
    finder.visit_body(body);
    finder.is_in_function = true;
    // One after the other, because functions may call each other to any depth.
    while let Some(function) = finder.called.pop() {
        finder.visit_body(&function.body);
    }
    finder.found
}

/// Follows a script.
struct CallFinder<'f, 'a> {
    facts: &'f ScriptFacts<'a>,
    bindings: &'f Bindings,
    is_input: &'f dyn Fn(&str) -> bool,
    found: Vec<FoundCall<'a>>,
    /// Start of the expression that was awaited last.
    awaited: Option<TextSize>,
    /// Functions of the module that are defined so far and were not called.
    functions: BTreeMap<&'a str, &'a StmtFunctionDef>,
    /// Functions that are called and not followed yet.
    called: Vec<&'a StmtFunctionDef>,
    is_in_function: bool,
}

impl<'a> CallFinder<'_, 'a> {
    fn define(&mut self, function: &'a StmtFunctionDef) {
        function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.visit_parameters(&function.parameters);
        let name = function.name.as_str();
        let is_plain = function.decorator_list.is_empty() && function.type_params.is_none();
        let is_only = self.facts.is_bound_once(name) && !(self.is_input)(name);
        if is_plain && is_only && !self.is_in_function {
            self.functions.insert(name, function);
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        let is_awaited = self.awaited == Some(call.start());
        // A script that catches failures may make the call in one place, and await it in another.
        let is_made_later = self.facts.catches && self.facts.awaits && !is_awaited;
        match &*call.func {
            Expr::Attribute(tool) => {
                if !is_made_later {
                    self.add(call.start(), tool, FoundArguments::Call(&call.arguments));
                }
                if is_run_of_asyncio(tool) {
                    self.awaited = call.arguments.args.first().map(Ranged::start);
                }
            }
            Expr::Name(name) if name.id.as_str() == GATHER && !self.facts.is_bound(GATHER) => {
                self.gathered(&call.arguments);
            }
            Expr::Name(name) => self.enter(name.id.as_str(), is_awaited),
            _ => {}
        }
    }

    /// Follows a function of the module that is called. One that is `async` runs when it is awaited.
    fn enter(&mut self, name: &str, is_awaited: bool) {
        let function = self.functions.get(name).copied();
        if let Some(function) = function.filter(|function| is_awaited || !function.is_async) {
            self.functions.remove(name);
            self.called.push(function);
        }
    }

    /// Adds the calls of `gather([(files.read, {…}), …])`, which ends the script if one of them fails.
    fn gathered(&mut self, arguments: &'a Arguments) {
        let mut names = arguments.keywords.iter().map(|keyword| keyword.arg.as_deref());
        let handles_failures = names.any(|name| name != Some("limit"));
        if handles_failures {
            return;
        }
        match arguments.args.first() {
            Some(Expr::List(list)) => list.elts.iter().for_each(|planned| self.planned(planned)),
            Some(Expr::ListComp(list)) if self.is_repeated(&list.generators) => {
                self.planned(&list.elt);
            }
            _ => {}
        }
    }

    fn planned(&mut self, planned: &'a Expr) {
        if let Expr::Tuple(pair) = planned
            && let [Expr::Attribute(tool), Expr::Dict(arguments)] = &pair.elts[..]
        {
            self.add(tool.start(), tool, FoundArguments::Dict(arguments));
        }
    }

    fn add(&mut self, start: TextSize, tool: &'a ExprAttribute, arguments: FoundArguments<'a>) {
        let Expr::Name(namespace) = &*tool.value else { return };
        let namespace = namespace.id.as_str();
        let is_taken = self.facts.is_bound(namespace) || (self.is_input)(namespace);
        if !is_taken && self.bindings.has(namespace) && !tool.attr.starts_with("__") {
            self.found.push(FoundCall { start, tool, namespace, arguments });
        }
    }

    /// Follows a comprehension: its `element` if there certainly is one.
    fn comprehension(&mut self, generators: &'a [Comprehension], element: Option<&'a Expr>) {
        generators.iter().take(1).for_each(|first| self.visit_expr(&first.iter));
        if let Some(element) = element
            && self.is_repeated(generators)
        {
            self.visit_expr(element);
        }
    }

    /// Returns whether a comprehension certainly has an element.
    fn is_repeated(&self, generators: &[Comprehension]) -> bool {
        let [only] = generators else { return false };
        only.ifs.is_empty() && !only.is_async && self.is_filled(&only.iter)
    }

    /// Returns whether something to iterate over certainly has an item.
    fn is_filled(&self, iterated: &Expr) -> bool {
        match iterated {
            Expr::List(list) => list.elts.iter().any(|item| !item.is_starred_expr()),
            Expr::Tuple(tuple) => tuple.elts.iter().any(|item| !item.is_starred_expr()),
            Expr::Call(call) => self.is_filled_range(call),
            _ => false,
        }
    }

    fn is_filled_range(&self, call: &ExprCall) -> bool {
        let [Expr::NumberLiteral(end)] = &call.arguments.args[..] else { return false };
        let Number::Int(end) = &end.value else { return false };
        is_name(&call.func, "range")
            && !self.facts.is_bound("range")
            && end.as_u64().is_some_and(|end| end > 0)
    }

    /// Returns whether a condition certainly holds: `True`, or `__name__ == "__main__"`.
    fn holds(&self, condition: &Expr) -> bool {
        match condition {
            Expr::BooleanLiteral(literal) => literal.value,
            Expr::Compare(compared) => {
                let [Expr::StringLiteral(main)] = &compared.comparators[..] else { return false };
                is_name(&compared.left, "__name__")
                    && compared.ops[..] == [CmpOp::Eq]
                    && main.value.to_str() == "__main__"
                    && !self.facts.is_bound("__name__")
            }
            _ => false,
        }
    }
}

impl<'a> Visitor<'a> for CallFinder<'_, 'a> {
    fn visit_body(&mut self, body: &'a [Stmt]) {
        for statement in body {
            self.visit_stmt(statement);
            if may_leave(statement) {
                return;
            }
        }
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(function) => self.define(function),
            Stmt::If(branch) => {
                self.visit_expr(&branch.test);
                if self.holds(&branch.test) {
                    self.visit_body(&branch.body);
                }
            }
            Stmt::While(repeated) => {
                self.visit_expr(&repeated.test);
                if self.holds(&repeated.test) {
                    self.visit_body(&repeated.body);
                }
            }
            Stmt::For(repeated) => {
                self.visit_expr(&repeated.iter);
                if !repeated.is_async && self.is_filled(&repeated.iter) {
                    self.visit_body(&repeated.body);
                }
            }
            Stmt::Match(choice) => self.visit_expr(&choice.subject),
            Stmt::Assert(assertion) => self.visit_expr(&assertion.test),
            // The failures of a call in them may be caught, and the values of types are never computed.
            Stmt::Try(_) | Stmt::With(_) | Stmt::ClassDef(_) | Stmt::TypeAlias(_) => {}
            _ => walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().for_each(|defaults| self.visit_parameters(defaults));
            }
            Expr::BoolOp(all) => all.values.iter().take(1).for_each(|one| self.visit_expr(one)),
            Expr::If(choice) => self.visit_expr(&choice.test),
            Expr::Compare(chain) => {
                self.visit_expr(&chain.left);
                chain.comparators.iter().take(1).for_each(|second| self.visit_expr(second));
            }
            Expr::ListComp(list) => self.comprehension(&list.generators, Some(&list.elt)),
            Expr::SetComp(set) => self.comprehension(&set.generators, None),
            Expr::DictComp(dict) => self.comprehension(&dict.generators, None),
            Expr::Generator(lazy) => self.comprehension(&lazy.generators, None),
            Expr::Await(awaited) => {
                self.awaited = Some(awaited.value.start());
                walk_expr(self, expression);
            }
            Expr::Call(call) => {
                self.call(call);
                walk_expr(self, expression);
            }
            _ => walk_expr(self, expression),
        }
    }

    fn visit_annotation(&mut self, _annotation: &'a Expr) {}
}

/// Returns whether an attribute is `asyncio.run`, which awaits its argument.
fn is_run_of_asyncio(function: &ExprAttribute) -> bool {
    function.attr.as_str() == "run" && is_name(&function.value, "asyncio")
}

fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Name(known) if known.id.as_str() == name)
}

/// Returns whether a script may end well without reaching what follows a statement in its block.
fn may_leave(statement: &Stmt) -> bool {
    let mut finder = ExitFinder::default();
    finder.visit_stmt(statement);
    finder.found
}

/// Finds the statements that leave a block.
#[derive(Default)]
struct ExitFinder {
    /// Loops around the place, within the block.
    loops: usize,
    found: bool,
}

impl<'a> Visitor<'a> for ExitFinder {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Return(_) => self.found = true,
            Stmt::Break(_) | Stmt::Continue(_) => self.found |= self.loops == 0,
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            Stmt::For(repeated) => self.repeated(&repeated.body, &repeated.orelse),
            Stmt::While(repeated) => self.repeated(&repeated.body, &repeated.orelse),
            _ => walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, _expression: &'a Expr) {}
}

impl ExitFinder {
    fn repeated(&mut self, body: &[Stmt], orelse: &[Stmt]) {
        self.loops += 1;
        self.visit_body(body);
        self.loops -= 1;
        self.visit_body(orelse);
    }
}
