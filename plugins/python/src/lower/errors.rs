//! Attributes of a caught failure: `e.kind`, `e.code`, `e.message`, `e.data` and `e.retry_after_ms` in the block of
//! `except … as e`.
//!
//! Exceptions of the interpreter have a message and nothing else, and there are no types of one's
//! own. A tool raises one of the built-in types, which scripts know as `ToolError`; its attributes
//! come from the session, which remembers the failures.

use std::collections::HashSet;

use airlock_executor::ToolError;
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_interpolated_string_element,
};
use ruff_python_ast::{
    ConversionFlag, ExceptHandler, Expr, ExprCall, ExprContext, ExprName, InterpolatedElement,
    InterpolatedStringElement,
};
use ruff_text_size::{Ranged as _, TextLen as _, TextRange};

use super::source::Edit;
use super::syntax::{Syntax, is_name};
use crate::protocol::{CAUGHT, SHOWN, TOOL_ERROR, TOOL_ERROR_TYPE};

/// Returns the changes.
pub(super) fn edits(syntax: &Syntax<'_>) -> Vec<Edit> {
    let mut finder =
        ErrorFinder { syntax, caught: Vec::new(), wrapped: HashSet::new(), edits: Vec::new() };
    finder.visit_body(syntax.body);
    let names = finder.wrapped.iter();
    names.flat_map(|name| Edit::wrap(name, format!("{CAUGHT}("))).chain(finder.edits).collect()
}

struct ErrorFinder<'a, 's> {
    syntax: &'s Syntax<'a>,
    /// Names of the exceptions whose blocks surround the present place.
    caught: Vec<&'a str>,
    /// Names to put into a call of [`CAUGHT`].
    wrapped: HashSet<TextRange>,
    edits: Vec<Edit>,
}

impl ErrorFinder<'_, '_> {
    /// Returns the name of a caught exception if an expression is one.
    fn caught<'e>(&self, expression: &'e Expr) -> Option<&'e ExprName> {
        let Expr::Name(name) = expression else { return None };
        self.caught.contains(&name.id.as_str()).then_some(name)
    }

    /// Wraps an expression if it is the name of a caught exception.
    fn wrap(&mut self, expression: &Expr) {
        if let Some(name) = self.caught(expression) {
            self.wrapped.insert(name.range());
        }
    }

    /// Lets [`SHOWN`] write a caught exception in place of `repr(e)`.
    fn represented(&mut self, call: &ExprCall) {
        if is_name(&call.func, &["repr"])
            && let [value] = &*call.arguments.args
            && let Some(name) = self.caught(value)
        {
            self.edits.extend(Edit::enclose(call, format!("({SHOWN}({}) or ", name.id), ")"));
        }
    }

    /// Does the same for `{e!r}` in an f-string.
    fn interpolated(&mut self, element: &InterpolatedElement) {
        if element.conversion == ConversionFlag::Repr
            && element.debug_text.is_none()
            && let Some(name) = self.caught(&element.expression)
            && let range = TextRange::new(name.end(), element.end())
            && let Some(mark) = self.syntax.token(TokenKind::Exclamation, range)
        {
            let conversion = TextRange::at(mark.start(), "!r".text_len());
            self.edits.push(Edit::insert(name.start(), format!("{SHOWN}({}) or repr(", name.id)));
            self.edits.push(Edit::replace(conversion, ")"));
        }
    }
}

impl<'a> Visitor<'a> for ErrorFinder<'a, '_> {
    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(clause) = handler;
        let depth = self.caught.len();
        self.caught.extend(clause.name.as_ref().map(|name| name.id.as_str()));
        walk_except_handler(self, handler);
        self.caught.truncate(depth);
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        if let InterpolatedStringElement::Interpolation(interpolation) = element {
            self.interpolated(interpolation);
        }
        walk_interpolated_string_element(self, element);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) if name.id == TOOL_ERROR && name.ctx == ExprContext::Load => {
                self.edits.push(Edit::replace(name.range(), TOOL_ERROR_TYPE.to_string()));
            }
            Expr::Attribute(attribute)
                if ToolError::ATTRIBUTES.contains(&attribute.attr.as_str()) =>
            {
                self.wrap(&attribute.value);
            }
            Expr::Attribute(attribute) if attribute.attr == *"__name__" => {
                match &*attribute.value {
                    Expr::Attribute(of) if of.attr == *"__class__" => self.wrap(&of.value),
                    Expr::Call(of) if is_name(&of.func, &["type"]) => {
                        of.arguments.args.iter().for_each(|argument| self.wrap(argument));
                    }
                    _ => {}
                }
            }
            Expr::Call(call) if is_name(&call.func, &["repr"]) => self.represented(call),
            Expr::Call(call) if is_name(&call.func, &["getattr", "hasattr"]) => {
                if let [of, Expr::StringLiteral(name), ..] = &*call.arguments.args
                    && ToolError::ATTRIBUTES.contains(&name.value.to_str())
                {
                    self.wrap(of);
                }
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use airlock_executor::FailureKind;

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
    fn a_tool_error_is_written_with_its_own_name_and_kind() {
        let source = "
try:
    files.fail()
except ToolError as e:
    result = [repr(e), f'{(e)!r}', f\"{e !r:<40}|\", f'{e}']
";
        let shown = "ToolError: refused (kind: denied)";
        let expected = format!(r#"["{shown}","{shown}","{shown:<40}|","refused"]"#);
        assert_eq!(result(source).as_deref(), Some(&*expected));
        let source =
            "try:\n    [][1]\nexcept Exception as e:\n    result = [repr(e), f'{e!r}' == repr(e)]";
        let other = result(source).unwrap_or_default();
        assert!(other.starts_with(r#"["IndexError("#) && other.ends_with(",true]"), "{other}");
        let failure = fail("files.fail()");
        assert!(failure.rendered.ends_with("\nToolError: files.fail: refused (kind: denied)\n"));
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
        let failure = fail("raise ToolError('mine')");
        assert_eq!(failure.kind, FailureKind::Runtime);
        assert_eq!(failure.message, "ToolError: mine");
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
