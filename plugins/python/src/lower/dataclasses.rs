//! Fields of dataclasses, for the functions of `dataclasses` that the interpreter lacks.
//!
//! A class with `field(…)` gets its methods from `library/dataclasses.py`; the interpreter makes the
//! others.

use std::fmt::Write as _;

use ruff_python_ast::visitor::{Visitor, walk_stmt};
use ruff_python_ast::{Expr, Stmt, StmtClassDef};
use ruff_text_size::Ranged as _;

use super::source::Edit;

/// Returns a table of all dataclasses and their fields, in Python, and the changes of decorators.
pub(super) fn fields(body: &[Stmt]) -> (String, Vec<Edit>) {
    let mut finder = DataclassFinder { table: String::new(), edits: Vec::new() };
    finder.visit_body(body);
    (format!("_airlock_fields = {{{}}}\n", finder.table), finder.edits)
}

struct DataclassFinder {
    table: String,
    edits: Vec<Edit>,
}

impl DataclassFinder {
    fn class(&mut self, class: &StmtClassDef) {
        let decorator =
            class.decorator_list.iter().find(|mark| is_named(&mark.expression, "dataclass"));
        let Some(decorator) = decorator else { return };
        let mut names = String::new();
        let mut has_fields = false;
        for statement in &class.body {
            let Stmt::AnnAssign(assignment) = statement else { continue };
            let Expr::Name(name) = &*assignment.target else { continue };
            let is_of_class = match &*assignment.annotation {
                Expr::Subscript(subscript) => is_named(&subscript.value, "ClassVar"),
                other => is_named(other, "ClassVar"),
            };
            if !is_of_class {
                let _ = write!(names, "\"{}\", ", name.id);
                has_fields |= assignment
                    .value
                    .as_deref()
                    .is_some_and(|value| value.is_call_expr() && is_named(value, "field"));
            }
        }
        let _ = write!(self.table, "\"{}\": ({names}), ", class.name);
        if has_fields {
            let insert = format!("_airlock_dataclass({names})");
            self.edits.push(Edit::replace(decorator.expression.range(), insert));
        }
    }
}

/// Returns whether an expression is a name, an attribute of that name, or a call of one.
fn is_named(expression: &Expr, name: &str) -> bool {
    match expression {
        Expr::Name(variable) => variable.id.as_str() == name,
        Expr::Attribute(attribute) => attribute.attr.as_str() == name,
        Expr::Call(call) => is_named(&call.func, name),
        _ => false,
    }
}

impl<'a> Visitor<'a> for DataclassFinder {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::ClassDef(class) = statement {
            self.class(class);
        }
        walk_stmt(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    const ITEM: &str = "
from dataclasses import dataclass, field, asdict, astuple, replace, fields
@dataclass
class Tag:
    name: str
@dataclass
class Item:
    id: int
    tags: list = field(default_factory=list)
    size: int = 2
    def total(self):
        return self.size * len(self.tags)
";

    #[test]
    fn dataclasses_are_taken_apart_and_changed() {
        for (expression, value) in [
            ("asdict(Item(1, [Tag('a')]))", r#"{"id":1,"tags":[{"name":"a"}],"size":2}"#),
            ("astuple(Tag('a'))", r#"["a"]"#),
            (
                "[replace(Tag('a'), name='b').name, [f.name for f in fields(Item)]]",
                r#"["b",["id","tags","size"]]"#,
            ),
            ("Item(id=3, tags=[1, 2]).total()", "4"),
            ("str(Item(1))", r#""Item(id=1, tags=[], size=2)""#),
            (
                "[Item(1) == Item(1), Item(1) == Item(2), isinstance(Item(1), Item)]",
                "[true,false,true]",
            ),
            ("Item(1)", r#"{"id":1,"tags":[],"size":2}"#),
        ] {
            let source = format!("{ITEM}result = {expression}");
            assert_eq!(result(&source).as_deref(), Some(value), "{expression}");
        }
        let source =
            format!("{ITEM}a = Item(1)\na.tags.append(5)\nresult = [a.tags, Item(1).tags]");
        assert_eq!(result(&source).as_deref(), Some("[[5],[]]"));
        for (expression, message) in [
            ("Item()", "TypeError: Item.__init__() missing 1 required positional argument: 'id'"),
            ("Item(1, x=2)", "TypeError: Item.__init__() got an unexpected keyword argument 'x'"),
            ("asdict(1)", "TypeError: asdict() should be called on dataclass instances"),
        ] {
            assert_eq!(fail(&format!("{ITEM}{expression}")).message, message);
        }
    }
}
