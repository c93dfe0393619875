//! Statements.

use ruff_python_ast::{ExceptHandler, Expr, Stmt, StmtAssert, StmtDelete, StmtRaise, StmtReturn};
use ruff_text_size::{Ranged, TextLen as _, TextRange};

use super::{Lowering, OWN};

const NO_TRY: &str = "there is no `try`: `attempt(tool, {\"argument\": value})` returns a struct with `ok`, `value` and `error`; \
                      test for other failures before they happen, e.g. `if key in d`, `s.lstrip(\"-\").isdigit()`";
const NO_WITH: &str =
    "there is no `with`: scripts have no files or locks of their own: call a tool";
const NO_CLASS: &str = "there is no `class`: use dicts, `struct(name = value)`, or `namedtuple`";
const NO_ASYNC: &str =
    "a call returns its result; `gather([(tool, {\"argument\": value}), …])` makes several at once";

impl<'a> Lowering<'a> {
    /// Writes the whole script, which has the names `given` from the start.
    pub(super) fn module(&mut self, body: &'a [Stmt], given: &[&str], ends_with_value: bool) {
        let cells = self.scopes.cells(&self.facts);
        self.cells(&cells, given);
        for statement in body {
            self.statement(statement);
        }
        if let Some(Stmt::Expr(last)) = body.last()
            && ends_with_value
            && stands_for_nothing(&last.value)
        {
            self.line();
            self.expression(&last.value);
        }
        if cells.contains(&"result") {
            self.line();
            self.push(&format!("result = {OWN}unbox({OWN}cell_result)"));
        }
        self.push("\n");
    }

    /// Creates the cells of a scope. Those of parameters start with the parameter's value, and those of
    /// names that the script has from the start with theirs.
    pub(super) fn cells(&mut self, cells: &[&str], parameters: &[&str]) {
        for name in cells {
            self.line();
            self.push(&format!("{OWN}cell_{name} = {OWN}cell(\"{name}\")"));
            if parameters.contains(name) {
                self.line();
                self.push(&format!("{OWN}cell_{name}[0] = "));
                self.plain_name(name);
            }
        }
    }

    /// Writes an indented block, with `pass` if nothing else is in it.
    pub(super) fn block(&mut self, body: &'a [Stmt]) {
        self.indent += 1;
        let before = self.out.len();
        for statement in body {
            self.statement(statement);
        }
        if self.out.len() == before {
            self.line();
            self.push("pass");
        }
        self.indent -= 1;
    }

    /// Writes one statement.
    pub(super) fn statement(&mut self, statement: &'a Stmt) {
        if self.is_full(statement) {
            return;
        }
        let from = self.out.len();
        self.depth += 1;
        if self.depth > super::MAX_NESTING {
            let message = format!(
                "statements are nested more than {} deep: move the inner part into a function",
                super::MAX_NESTING
            );
            self.refuse(statement.range(), message);
        } else {
            self.any_statement(statement);
        }
        self.depth -= 1;
        self.map.add(from..self.out.len(), statement.range());
    }

    fn any_statement(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => self.function(it),
            Stmt::Return(it) => self.return_(it),
            Stmt::Delete(it) => self.delete(it),
            Stmt::Assign(it) => self.assign(it),
            Stmt::AugAssign(it) => self.assign_modify(it),
            Stmt::AnnAssign(it) => self.assign_annotated(it),
            Stmt::For(it) => self.for_(it),
            Stmt::While(it) => self.while_(it),
            Stmt::If(it) => self.if_(it),
            Stmt::Match(it) => self.match_(it),
            Stmt::Raise(it) => self.raise(it),
            Stmt::Assert(it) => self.assert(it),
            Stmt::Import(it) => self.import(it),
            Stmt::ImportFrom(it) => self.import_from(it),
            Stmt::Expr(it) => self.expression_statement(&it.value),
            Stmt::Break(_) => self.break_(),
            Stmt::Continue(_) => self.word("continue"),
            // The names of a function say all that is needed.
            Stmt::Pass(_) | Stmt::Global(_) | Stmt::Nonlocal(_) | Stmt::TypeAlias(_) => (),
            _ => self.refused_statement(statement),
        }
    }

    /// Refuses a statement that has no counterpart, and looks for more of them in it.
    fn refused_statement(&mut self, statement: &'a Stmt) {
        let head = self.first_word(statement);
        match statement {
            Stmt::Try(it) => {
                self.refuse_here(head, NO_TRY);
                self.block(&it.body);
                for ExceptHandler::ExceptHandler(handler) in &it.handlers {
                    self.block(&handler.body);
                }
                self.block(&it.orelse);
                self.block(&it.finalbody);
            }
            Stmt::With(it) => {
                self.refuse(head, NO_WITH);
                self.block(&it.body);
            }
            // What is in a class is of no use without it.
            Stmt::ClassDef(_) => self.refuse_here(head, NO_CLASS),
            _ => self.refuse(head, "this statement is not available"),
        }
    }

    /// Returns the place of the first word of a statement, which is marked for the reader.
    fn first_word(&self, statement: &Stmt) -> TextRange {
        let word = self.text_of(statement).split([' ', ':']).next().unwrap_or_default();
        TextRange::at(statement.start(), word.text_len())
    }

    fn word(&mut self, word: &str) {
        self.line();
        self.push(word);
    }

    fn break_(&mut self) {
        if let Some(Some(flag)) = self.loops.last().cloned() {
            self.line();
            self.push(&format!("{flag} = False"));
        }
        self.word("break");
    }

    fn return_(&mut self, it: &'a StmtReturn) {
        self.word("return");
        if let Some(value) = &it.value {
            self.push(" ");
            self.expression(value);
        }
    }

    fn expression_statement(&mut self, value: &'a Expr) {
        if stands_for_nothing(value) {
            return;
        }
        self.line();
        self.expression(value);
    }

    fn delete(&mut self, it: &'a StmtDelete) {
        for target in &it.targets {
            match target {
                Expr::Subscript(it) => {
                    self.line();
                    if let Expr::Slice(slice) = &*it.slice {
                        self.push(&format!("{OWN}set_slice("));
                        self.expression(&it.value);
                        self.bounds(slice);
                        self.push(", [])");
                    } else {
                        self.push(&format!("{OWN}del("));
                        self.separated([&*it.value, &*it.slice], Self::expression);
                        self.push(")");
                    }
                }
                Expr::Name(_) => {
                    self.line();
                    self.target(target);
                    self.push(" = None");
                }
                Expr::Tuple(_) | Expr::List(_) => {
                    self.refuse(
                        target.range(),
                        "`del` takes no list here: delete one item after the other",
                    );
                }
                _ => self.refuse(target.range(), "`del` removes no attributes: use a dict"),
            }
        }
    }

    fn assert(&mut self, it: &'a StmtAssert) {
        self.line();
        self.push("if not (");
        self.expression(&it.test);
        self.push(&format!("): {OWN}raise(\"AssertionError\""));
        if let Some(message) = &it.msg {
            self.push(", ");
            self.expression(message);
        }
        self.push(")");
    }

    fn raise(&mut self, it: &'a StmtRaise) {
        let Some(raised) = &it.exc else {
            return self
                .refuse_here(it.range(), "`raise` needs an error here: call `fail(\"why\")`");
        };
        let (class, arguments) = match &**raised {
            Expr::Call(call) => (&*call.func, &*call.arguments.args),
            class => (class, &[][..]),
        };
        let name = match class {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(it) => it.attr.as_str(),
            _ => "Exception",
        };
        self.line();
        self.push(&format!("{OWN}raise(\"{name}\""));
        for argument in arguments {
            self.push(", ");
            self.expression(argument);
        }
        self.push(")");
    }

    /// Refuses what waits for other code.
    pub(super) fn refuse_async(&mut self, node: &impl Ranged, what: &str) {
        self.refuse_here(node.range(), format!("there is no {what}: {NO_ASYNC}"));
    }
}

/// Returns whether an expression is no statement to run: a text or `…` alone is documentation, or stands
/// for nothing.
fn stands_for_nothing(expression: &Expr) -> bool {
    matches!(expression, Expr::StringLiteral(_) | Expr::EllipsisLiteral(_))
}
