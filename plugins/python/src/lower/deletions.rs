//! `del`, which the interpreter lacks: `del xs[key]` becomes `xs.pop(key)`, and `del name` binds
//! the name to `None`.

use ruff_python_ast::statement_visitor::{StatementVisitor, walk_stmt};
use ruff_python_ast::{Expr, Stmt, StmtDelete};
use ruff_text_size::Ranged as _;

use super::habits;
use super::source::Edit;

/// Returns the changes. A deletion that cannot be changed stays, and the interpreter reports it.
pub(super) fn edits(source: &str, body: &[Stmt]) -> Vec<Edit> {
    let mut finder = Finder { source, edits: Vec::new() };
    finder.visit_body(body);
    finder.edits
}

/// Returns the changes for one statement; `None` if it deletes anything but items, or one name.
pub(super) fn of_statement(source: &str, delete: &StmtDelete) -> Option<Vec<Edit>> {
    let first = delete.targets.first()?.start().to_usize();
    let mut edits = vec![replaced(source, delete.start().to_usize(), first, "del", "")?];
    if let [Expr::Name(name)] = &*delete.targets {
        edits.push(Edit::insert(name.end().to_usize(), " = None"));
        return Some(edits);
    }
    if let [target @ Expr::Subscript(it)] = &*delete.targets
        && matches!(&*it.slice, Expr::Slice(_))
    {
        edits.extend(habits::splice(source, target, target.end().to_usize())?);
        edits.push(Edit::close(target.end().to_usize(), target.start().to_usize(), "[])"));
        return Some(edits);
    }
    for target in &delete.targets {
        let Expr::Subscript(it) = target else { return None };
        if matches!(&*it.slice, Expr::Slice(_) | Expr::Tuple(_)) {
            return None;
        }
        let (open, key) = (it.value.end().to_usize(), it.slice.range());
        edits.push(replaced(source, open, key.start().to_usize(), "[", ".pop(")?);
        edits.push(replaced(source, key.end().to_usize(), it.end().to_usize(), "]", ")")?);
    }
    Some(edits)
}

/// Returns the change that replaces `old` and blanks around it; `None` if anything else is there.
fn replaced(source: &str, at: usize, end: usize, old: &str, new: &'static str) -> Option<Edit> {
    let found = source.get(at..end)?;
    let is_plain = found.trim_matches(' ') == old;
    is_plain.then(|| Edit::replace(at, end - at, new))
}

struct Finder<'s> {
    source: &'s str,
    edits: Vec<Edit>,
}

impl<'a> StatementVisitor<'a> for Finder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Delete(delete) = statement {
            self.edits.extend(of_statement(self.source, delete).unwrap_or_default());
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
