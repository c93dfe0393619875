//! Attributes of a caught failure: `e.kind`, `e.code`, `e.message` and `e.data` in the block of
//! `except … as e`.
//!
//! Exceptions of the interpreter have a message and nothing else, and there are no types of one's
//! own. A tool raises one of the built-in types, which scripts know as `ToolError`; its attributes
//! come from the session, which remembers the failures.

use std::collections::HashSet;

use ruff_python_ast::visitor::{Visitor, walk_except_handler, walk_expr};
use ruff_python_ast::{ExceptHandler, Expr, ExprContext, Stmt};
use ruff_text_size::{Ranged as _, TextRange};

use super::source::Edit;
use super::{CAUGHT, TOOL_ERROR};
use crate::session;

/// What a `ToolError` has beyond other exceptions.
const ATTRIBUTES: [&str; 4] = ["kind", "code", "message", "data"];

/// Returns the changes.
pub(super) fn edits(body: &[Stmt]) -> Vec<Edit> {
    let mut finder = Finder::default();
    finder.visit_body(body);
    finder.wrapped.into_iter().flat_map(wrap).chain(finder.edits).collect()
}

/// Puts a name into a call of [`CAUGHT`].
fn wrap((start, end): (usize, usize)) -> [Edit; 2] {
    [Edit::insert(start, format!("{CAUGHT}(")), Edit::insert(end, ")")]
}

#[derive(Default)]
struct Finder<'a> {
    /// Names of the exceptions whose blocks surround the present place.
    caught: Vec<&'a str>,
    /// Names to wrap.
    wrapped: HashSet<(usize, usize)>,
    edits: Vec<Edit>,
}

impl Finder<'_> {
    /// Wraps an expression if it is the name of a caught exception.
    fn wrap(&mut self, expression: &Expr) {
        if let Expr::Name(name) = expression
            && self.caught.contains(&name.id.as_str())
        {
            self.wrapped.insert(bytes(name.range()));
        }
    }
}

impl<'a> Visitor<'a> for Finder<'a> {
    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        let depth = self.caught.len();
        self.caught.extend(it.name.as_ref().map(|name| name.id.as_str()));
        walk_except_handler(self, handler);
        self.caught.truncate(depth);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) if name.id == TOOL_ERROR && name.ctx == ExprContext::Load => {
                let (at, end) = bytes(name.range());
                let insert = session::TOOL_ERROR.to_string().into();
                self.edits.push(Edit { at, remove: end - at, insert });
            }
            Expr::Attribute(it) if ATTRIBUTES.contains(&it.attr.as_str()) => self.wrap(&it.value),
            Expr::Attribute(it) if it.attr == *"__name__" => match &*it.value {
                Expr::Attribute(of) if of.attr == *"__class__" => self.wrap(&of.value),
                Expr::Call(of) if is_call(&of.func, &["type"]) => {
                    of.arguments.args.iter().for_each(|it| self.wrap(it));
                }
                _ => {}
            },
            Expr::Call(it) if is_call(&it.func, &["getattr", "hasattr"]) => {
                if let [of, Expr::StringLiteral(name), ..] = &*it.arguments.args
                    && ATTRIBUTES.contains(&name.value.to_str())
                {
                    self.wrap(of);
                }
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

fn is_call(function: &Expr, names: &[&str]) -> bool {
    matches!(function, Expr::Name(name) if names.contains(&name.id.as_str()))
}

/// Returns the first byte of a range and the one behind it.
fn bytes(range: TextRange) -> (usize, usize) {
    (range.start().to_usize(), range.end().to_usize())
}

#[cfg(test)]
mod tests {
    use crate::failure::FailureKind;
    use crate::run::tests::{fail, result};

    #[test]
    fn a_failed_tool_is_caught_with_its_attributes() {
        let source = "
try:
    files.fail(path = 'a')
except ToolError as e:
    result = [str(e), e.kind, e.code, e.message, e.data, type(e).__name__, e.__class__.__name__, isinstance(e, ToolError)]
";
        let failed =
            r#"["refused","denied","no_way","refused",{"path":"a"},"ToolError","ToolError",true]"#;
        assert_eq!(result(source).as_deref(), Some(failed));
    }

    #[test]
    fn other_exceptions_have_no_attributes() {
        let source = "
try:
    [][1]
except Exception as e:
    result = [hasattr(e, 'kind'), getattr(e, 'code', 'none'), type(e).__name__]
";
        assert_eq!(result(source).as_deref(), Some(r#"[false,"none","IndexError"]"#));
        let source = "try:\n    [][1]\nexcept Exception as e:\n    print(e.kind)";
        let failure = fail(source);
        assert_eq!(failure.message, "AttributeError: 'IndexError' object has no attribute 'kind'");
        assert_eq!(failure.line, Some(4));
    }

    #[test]
    fn a_tool_error_is_caught_by_its_kind_of_exception_alone() {
        let caught_by =
            |kind: &str| format!("try:\n    files.fail()\nexcept {kind}:\n    result = 1\n");
        for kind in ["ToolError", "Exception", "(ValueError, ToolError)"] {
            assert_eq!(result(&caught_by(kind)).as_deref(), Some("1"), "{kind}");
        }
        for kind in ["ValueError", "RuntimeError", "KeyError"] {
            assert_eq!(fail(&caught_by(kind)).kind, FailureKind::Tool, "{kind}");
        }
    }

    #[test]
    fn a_script_raises_tool_errors_of_its_own() {
        let source = "
try:
    raise ToolError('mine')
except ToolError as e:
    result = [str(e), e.kind, e.code, e.data]
";
        assert_eq!(result(source).as_deref(), Some(r#"["mine","other",null,null]"#));
        assert_eq!(fail("raise ToolError('mine')").kind, FailureKind::Runtime);
        assert_eq!(
            fail("try:\n    pass\nexcept: pass\nraise ToolError('x')").kind,
            FailureKind::Runtime
        );
    }

    #[test]
    fn the_last_failure_with_a_text_gives_the_attributes() {
        let source = "
found = []
for path in ['a', 'b']:
    try:
        files.fail(path = path)
    except ToolError as error:
        try:
            {}['x']
        except KeyError as inner:
            found.append([error.data['path'], str(inner)])
result = found
";
        assert_eq!(result(source).as_deref(), Some(r#"[["a","'x'"],["b","'x'"]]"#));
    }
}
