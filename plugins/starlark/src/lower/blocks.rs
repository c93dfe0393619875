//! Functions, loops and conditions.

use ruff_python_ast::{
    Decorator, Expr, ParameterWithDefault, Parameters, Stmt, StmtFor, StmtFunctionDef, StmtIf,
    StmtWhile,
};
use ruff_text_size::{Ranged, TextRange};

use super::{Lowering, OWN, scope};

/// Most clauses of a chain of `elif` that stays one. Starlark nests each in the one before, and its compiler is recursive.
const MAX_CLAUSES: usize = 10;

/// Depth of statements from which every chain of `elif` is divided: half of what may nest.
const SHALLOW: usize = super::MAX_NESTING / 2;

impl<'a> Lowering<'a> {
    pub(super) fn function(&mut self, it: &'a StmtFunctionDef) {
        if it.is_async {
            self.refuse_async(&TextRange::at(it.start(), 5.into()), "`async`");
        }
        let decorators = self.decorators(&it.decorator_list);
        let in_cell = self.scopes.in_cell(&self.facts, &it.name);
        self.line();
        self.push("def ");
        self.plain_name(&it.name);
        self.push("(");
        self.parameters(&it.parameters);
        self.push("):");
        self.scopes.enter_function(it.start());
        let loops = std::mem::take(&mut self.loops);
        let cells = self.scopes.cells(&self.facts);
        let names: Vec<_> = scope::parameters(&it.parameters).into_iter().collect();
        self.indent += 1;
        self.cells(&cells, &names);
        self.indent -= 1;
        self.block(&it.body);
        self.loops = loops;
        self.scopes.leave();
        let mut target = String::new();
        if in_cell {
            target = format!("{OWN}cell_{}[0]", it.name);
            self.line();
            self.push(&format!("{target} = "));
            self.plain_name(&it.name);
        }
        // One after the other: a long list must not become a deep call.
        for decorator in decorators.iter().rev() {
            self.line();
            self.decorated(&target, &it.name);
            self.push(&format!(" = {decorator}("));
            self.decorated(&target, &it.name);
            self.push(")");
        }
    }

    /// Writes the cell of a function, or else its name.
    fn decorated(&mut self, cell: &str, name: &str) {
        if cell.is_empty() {
            self.plain_name(name);
        } else {
            self.push(cell);
        }
    }

    /// Evaluates decorators before the function that they decorate, and returns their names.
    fn decorators(&mut self, decorators: &'a [Decorator]) -> Vec<String> {
        let mut names = Vec::with_capacity(decorators.len());
        for decorator in decorators {
            let name = self.fresh();
            self.line();
            self.push(&format!("{name} = "));
            self.expression(&decorator.expression);
            names.push(name);
        }
        names
    }

    /// Writes parameters with their defaults, and without annotations.
    pub(super) fn parameters(&mut self, it: &'a Parameters) {
        enum Part<'a> {
            Text(&'static str),
            Name(&'static str, &'a str, Option<&'a Expr>),
        }
        impl<'a> From<&'a ParameterWithDefault> for Part<'a> {
            fn from(it: &'a ParameterWithDefault) -> Self {
                Self::Name("", it.parameter.name.as_str(), it.default.as_deref())
            }
        }
        let mut parts = Vec::new();
        parts.extend(it.posonlyargs.iter().map(Part::from));
        if !it.posonlyargs.is_empty() {
            parts.push(Part::Text("/"));
        }
        parts.extend(it.args.iter().map(Part::from));
        match &it.vararg {
            Some(all) => parts.push(Part::Name("*", all.name.as_str(), None)),
            None if it.kwonlyargs.is_empty() => (),
            None => parts.push(Part::Text("*")),
        }
        parts.extend(it.kwonlyargs.iter().map(Part::from));
        parts.extend(it.kwarg.iter().map(|all| Part::Name("**", all.name.as_str(), None)));
        self.separated(parts, |this, part| match part {
            Part::Text(text) => this.push(text),
            Part::Name(stars, name, default) => {
                this.push(stars);
                this.plain_name(name);
                if let Some(default) = default {
                    this.push(" = ");
                    this.expression(default);
                }
            }
        });
    }

    /// Writes an `if` with its further clauses. A long chain becomes one `if` for each clause.
    pub(super) fn if_(&mut self, it: &'a StmtIf) {
        let nested = it.elif_else_clauses.iter().filter(|clause| clause.test.is_some()).count();
        if nested > MAX_CLAUSES || nested > 0 && self.depth + nested > SHALLOW {
            return self.long_if(it);
        }
        self.line();
        self.push("if ");
        self.expression(&it.test);
        self.push(":");
        self.block(&it.body);
        for clause in &it.elif_else_clauses {
            self.line();
            if let Some(test) = &clause.test {
                self.depth += 1;
                self.push("elif ");
                self.expression(test);
            } else {
                self.push("else");
            }
            self.push(":");
            self.block(&clause.body);
        }
        self.depth -= nested;
    }

    /// Writes one `if` for each clause, none in the other. A flag tells whether the chain goes on.
    fn long_if(&mut self, it: &'a StmtIf) {
        let open = self.fresh();
        self.line();
        self.push(&format!("{open} = True"));
        // Each level of it takes the stack of two.
        self.depth += 1;
        self.clause(&open, Some(&it.test), &it.body);
        for clause in &it.elif_else_clauses {
            self.clause(&open, clause.test.as_ref(), &clause.body);
        }
        self.depth -= 1;
    }

    fn clause(&mut self, open: &str, test: Option<&'a Expr>, body: &'a [Stmt]) {
        self.line();
        self.push(&format!("if {open}"));
        if let Some(test) = test {
            self.push(" and (");
            self.expression(test);
            self.push(")");
        }
        self.push(":");
        self.indent += 1;
        self.line();
        self.push(&format!("{open} = False"));
        // `block` indents by itself.
        self.indent -= 1;
        self.block(body);
    }

    pub(super) fn for_(&mut self, it: &'a StmtFor) {
        if it.is_async {
            self.refuse_async(&TextRange::at(it.start(), 5.into()), "`async`");
        }
        let flag = self.flag(&it.orelse);
        self.line();
        self.push("for ");
        let unpack = (!Self::is_simple(&it.target)).then(|| self.fresh());
        match &unpack {
            Some(name) => self.push(&name.clone()),
            None => self.target(&it.target),
        }
        self.push(" in ");
        self.live(&it.iter);
        self.push(":");
        if let Some(name) = unpack {
            self.indent += 1;
            self.unpack(&it.target, &name);
            self.indent -= 1;
        }
        self.loop_body(flag, &it.body, &it.orelse);
    }

    /// Writes a `while` as a loop over an endless sequence.
    pub(super) fn while_(&mut self, it: &'a StmtWhile) {
        let flag = self.flag(&it.orelse);
        self.line();
        self.push(&format!("for {OWN}_ in {OWN}forever:"));
        if !matches!(&*it.test, Expr::BooleanLiteral(literal) if literal.value) {
            self.indent += 1;
            self.line();
            self.push("if not (");
            self.expression(&it.test);
            self.push("): break");
            self.indent -= 1;
        }
        self.loop_body(flag, &it.body, &it.orelse);
    }

    fn loop_body(&mut self, flag: Option<String>, body: &'a [Stmt], orelse: &'a [Stmt]) {
        self.loops.push(flag.clone());
        self.block(body);
        self.loops.pop();
        if let Some(flag) = flag {
            self.line();
            self.push(&format!("if {flag}:"));
            self.block(orelse);
        }
    }

    /// Sets the flag that tells whether a loop with an `else` ended without `break`.
    fn flag(&mut self, orelse: &[Stmt]) -> Option<String> {
        if orelse.is_empty() {
            return None;
        }
        let flag = self.fresh();
        self.line();
        self.push(&format!("{flag} = True"));
        Some(flag)
    }

    /// Writes what a loop goes through, so that its body may change it as in Python.
    fn live(&mut self, it: &'a Expr) {
        if super::comprehensions::is_sequence(self, it) {
            return self.expression(it);
        }
        self.push(&format!("{OWN}live("));
        self.expression(it);
        self.push(")");
    }
}
