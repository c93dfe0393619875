//! `del`, which the interpreter lacks: `del xs[key]` becomes `xs.pop(key)`, and `del name` binds
//! the name to `None`.

use ruff_python_ast::statement_visitor::{StatementVisitor, walk_stmt};
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::{Expr, Stmt, StmtDelete};
use ruff_text_size::{Ranged as _, TextRange};

use super::habits;
use super::source::Edit;
use super::syntax::{Syntax, between};

/// Returns the changes. A deletion that cannot be changed stays, and the interpreter reports it.
pub(super) fn edits(syntax: &Syntax<'_>) -> Vec<Edit> {
    let mut finder = DeletionFinder { syntax, edits: Vec::new() };
    finder.visit_body(syntax.body);
    finder.edits
}

/// Returns the changes for one statement; `None` if it deletes anything but items, or one name.
pub(super) fn replaced(syntax: &Syntax<'_>, delete: &StmtDelete) -> Option<Vec<Edit>> {
    let del = TextRange::new(delete.start(), delete.targets.first()?.start());
    let mut edits = vec![replaced_token(syntax, del, TokenKind::Del, "")?];
    if let [Expr::Name(name)] = &*delete.targets {
        edits.push(Edit::insert(name.end(), " = None"));
        return Some(edits);
    }
    if let [target @ Expr::Subscript(subscript)] = &*delete.targets
        && subscript.slice.is_slice_expr()
    {
        edits.extend(habits::splice(syntax, target, target.end())?);
        edits.push(Edit::close(target.range(), "[])"));
        return Some(edits);
    }
    for target in &delete.targets {
        let Expr::Subscript(subscript) = target else { return None };
        if matches!(&*subscript.slice, Expr::Slice(_) | Expr::Tuple(_)) {
            return None;
        }
        let before = between(&*subscript.value, &*subscript.slice);
        let after = TextRange::new(subscript.slice.end(), subscript.end());
        edits.push(replaced_token(syntax, before, TokenKind::Lsqb, ".pop(")?);
        edits.push(replaced_token(syntax, after, TokenKind::Rsqb, ")")?);
    }
    Some(edits)
}

/// Returns the change that replaces a token and blanks around it; `None` if anything else is there.
fn replaced_token(
    syntax: &Syntax<'_>,
    range: TextRange,
    kind: TokenKind,
    with: &'static str,
) -> Option<Edit> {
    let mut tokens = syntax.tokens(range);
    let is_alone = tokens.next()?.kind() == kind && tokens.next().is_none();
    is_alone.then(|| syntax.replace(&range, with)).flatten()
}

struct DeletionFinder<'s> {
    syntax: &'s Syntax<'s>,
    edits: Vec<Edit>,
}

impl<'a> StatementVisitor<'a> for DeletionFinder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Delete(delete) = statement {
            self.edits.extend(replaced(self.syntax, delete).unwrap_or_default());
        }
        walk_stmt(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn items_and_names_are_deleted() {
        for (source, value) in [
            ("d = {'a': 1, 'b': 2}\ndel d['a']\nresult = d", r#"{"b":2}"#),
            (
                "d = {'a': {'b': 1}, 'c': [1, 2]}\ndel d['a']['b'], d['c'][-1]\nresult = d",
                r#"{"a":{},"c":[1]}"#,
            ),
            ("x = [1, 2, 3]\nfor i in [0]:\n    del x[ i + 1 ]\nresult = x", "[1,3]"),
            ("x = 1\ndel x\nresult = 2", "2"),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
        let failure = fail("d = {}\nif True: del d['a']");
        assert_eq!(failure.message, "KeyError: a");
        assert_eq!(failure.line, Some(2));
    }
}
