//! Methods with `@property`, `@staticmethod` and `@classmethod`, which the interpreter lacks.
//!
//! The decorator goes, and so the method is a plain one. Where the script reads an attribute of that
//! name, it calls a function that looks at the value: of an object of the class, it calls the method
//! as the decorator would, and of any other it reads the attribute.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{
    Decorator, Expr, ExprAttribute, ExprContext, Stmt, StmtClassDef, StmtFunctionDef,
};
use ruff_text_size::{Ranged as _, TextRange};

use super::source::Edit;
use super::syntax::{Syntax, between};
use super::{habits, methods};

/// Kind of method that a decorator makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MethodKind {
    Property,
    Static,
    Class,
}

/// Names in scripts that read attributes by names which are not in the text, or that set them.
const BY_NAME: [&str; 5] = ["getattr", "hasattr", "attrgetter", "setattr", "setter"];

/// Returns the kind of a method whose decorator is replaced.
fn kind(syntax: &Syntax<'_>, method: &StmtFunctionDef) -> Option<MethodKind> {
    let [Decorator { expression: Expr::Name(decorator), .. }] = &*method.decorator_list else {
        return None;
    };
    let kind = match decorator.id.as_str() {
        "property" => MethodKind::Property,
        "staticmethod" => MethodKind::Static,
        "classmethod" => MethodKind::Class,
        _ => return None,
    };
    let is_unknown = habits::is_passed(&method.name)
        || methods::is_changed(&method.name)
        || BY_NAME.iter().any(|name| syntax.mentions(name));
    (!is_unknown).then_some(kind)
}

/// Returns whether the decorators of a method are replaced.
pub(super) fn are_replaced(syntax: &Syntax<'_>, method: &StmtFunctionDef) -> bool {
    kind(syntax, method).is_some()
}

/// Returns the functions in Python that read the attributes, and the changes.
pub(super) fn edits(syntax: &Syntax<'_>) -> (String, Vec<Edit>) {
    let mut methods = ReplacedMethods { syntax, found: BTreeMap::new(), edits: Vec::new() };
    methods.visit_body(syntax.body);
    let mut text = String::new();
    for ((name, kind), classes) in &methods.found {
        write_function(&mut text, name, *kind, classes);
    }
    let mut readers = AttributeReads { syntax, found: methods.found, edits: methods.edits };
    if !readers.found.is_empty() {
        readers.visit_body(syntax.body);
    }
    (text, readers.edits)
}

/// Writes the function that reads an attribute of this name.
fn write_function(out: &mut String, name: &str, kind: MethodKind, classes: &BTreeSet<&str>) {
    let mut names = String::new();
    for class in classes {
        let _ = write!(names, "\"{class}\", ");
    }
    let prefix = kind.prefix();
    let _ = match kind {
        MethodKind::Property => writeln!(
            out,
            "def {prefix}{name}(it):\n    return it.{name}() if type(it).__name__ in ({names}) else it.{name}"
        ),
        MethodKind::Static | MethodKind::Class => {
            let first = if kind == MethodKind::Class { "of, " } else { "" };
            writeln!(
                out,
                "def {prefix}{name}(it):\n    of = it if type(it).__name__ == \"type\" else type(it)\n    if of.__name__ in ({names}):\n        return lambda *a, **k: of.{name}({first}*a, **k)\n    return lambda *a, **k: it.{name}(*a, **k)"
            )
        }
    };
}

impl MethodKind {
    /// Start of the names of functions that read such attributes.
    fn prefix(self) -> &'static str {
        match self {
            Self::Property => "_airlock_property_",
            Self::Static => "_airlock_static_",
            Self::Class => "_airlock_class_",
        }
    }
}

/// Finds the methods, and removes their decorators.
struct ReplacedMethods<'a> {
    syntax: &'a Syntax<'a>,
    /// The classes that have a method of this name and kind.
    found: BTreeMap<(&'a str, MethodKind), BTreeSet<&'a str>>,
    edits: Vec<Edit>,
}

impl<'a> ReplacedMethods<'a> {
    fn class(&mut self, class: &'a StmtClassDef) {
        for statement in &class.body {
            let Stmt::FunctionDef(function) = statement else { continue };
            let name = function.name.as_str();
            if let Some(kind) = kind(self.syntax, function) {
                self.found.entry((name, kind)).or_default().insert(class.name.as_str());
                self.edits.push(Edit::replace(function.decorator_list[0].range(), ""));
            }
        }
    }
}

impl<'a> Visitor<'a> for ReplacedMethods<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::ClassDef(class) = statement {
            self.class(class);
        }
        walk_stmt(self, statement);
    }
}

/// Changes where the attributes are read.
struct AttributeReads<'a> {
    syntax: &'a Syntax<'a>,
    found: BTreeMap<(&'a str, MethodKind), BTreeSet<&'a str>>,
    edits: Vec<Edit>,
}

impl AttributeReads<'_> {
    /// Replaces `value.name` by a call: `_airlock_property_name(value)`.
    fn read(&mut self, attribute: &ExprAttribute, is_called: bool) {
        let name = attribute.attr.as_str();
        let kinds = [MethodKind::Property, MethodKind::Static, MethodKind::Class];
        let Some(kind) = kinds.into_iter().find(|kind| self.found.contains_key(&(name, *kind)))
        else {
            return;
        };
        // A call of this name is that of a method of another class.
        if is_called && kind == MethodKind::Property {
            return;
        }
        let Some(dot) =
            self.syntax.token(TokenKind::Dot, between(&*attribute.value, &attribute.attr))
        else {
            return;
        };
        let name = TextRange::new(dot.start(), attribute.end());
        self.edits
            .push(Edit::open(attribute.range(), format!("{}{}(", kind.prefix(), attribute.attr)));
        self.edits.push(Edit::replace(name, self.syntax.breaks(name) + ")"));
    }
}

impl<'a> Visitor<'a> for AttributeReads<'_> {
    // Annotations are not evaluated.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                if let Expr::Attribute(function) = &*call.func {
                    self.read(function, true);
                    self.visit_expr(&function.value);
                    self.visit_arguments(&call.arguments);
                    return;
                }
            }
            Expr::Attribute(attribute) if attribute.ctx == ExprContext::Load => {
                self.read(attribute, false);
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    const ORDER: &str = "
from dataclasses import dataclass, asdict
@dataclass
class Order:
    id: int
    prices: list

    @property
    def total(self):
        return sum(self.prices)

    @property
    def label(self) -> str:
        return f'#{self.id}: {self.total:.2f}'

    @classmethod
    def parse(cls, text, sign=1):
        return cls(int(text) * sign, [1, 2])

    @staticmethod
    def double(x):
        return x * 2

    def doubled(self):
        return self.double(self.total) + Order.double(1)

class Other:
    def __init__(self): self.total = 'own'
    def parse(self, x): return ['other', x]

order = Order(7, [1, 2.5])
";

    #[test]
    fn decorated_methods_are_read_and_called_as_in_python() {
        for (expression, value) in [
            ("[order.total, order.label, order.doubled()]", r##"[3.5,"#7: 3.50",9.0]"##),
            ("[Order.parse('3').total, order.parse('4', sign=-1).id, Order.double(4)]", "[3,-4,8]"),
            ("[Other().total, Other().parse(1), asdict(order)['id']]", r#"["own",["other",1],7]"#),
            (
                "[(order)\n  .total, max([order], key=lambda it: it.total).id, sum(o.total for o in [order])]",
                "[3.5,7,3.5]",
            ),
            ("[order.total, 'getattr(order)'] # getattr(order)", r#"[3.5,"getattr(order)"]"#),
            ("f'{order.total} {order.label!r}'", r#""3.5 '#7: 3.50'""#),
        ] {
            let source = format!("{ORDER}result = {expression}");
            assert_eq!(result(&source).as_deref(), Some(value), "{expression}");
        }
        let failure = fail(&format!("{ORDER}order.totals"));
        assert_eq!(failure.message, "AttributeError: 'Order' object has no attribute 'totals'");
        let line = u32::try_from(ORDER.lines().count()).expect("a few") + 1;
        assert_eq!(failure.line, Some(line));
    }

    #[test]
    fn decorators_that_cannot_be_replaced_are_refused() {
        for rest in [
            "getattr(order, 'total')",
            "class A:\n  @property\n  def title(self): return 1",
            "class A:\n  @cache\n  def b(self): return 1",
        ] {
            let failure = fail(&format!("{ORDER}{rest}"));
            assert_eq!(failure.message, "there are no decorators of methods", "{rest}");
        }
    }
}
