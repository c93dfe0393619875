//! Parts of statements, expressions and patterns.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_pattern};
use ruff_python_ast::{Comprehension, Expr, Identifier, Pattern, Stmt};

/// Returns the name that a statement of a class gives a value or a type.
pub(super) fn class_name(statement: &Stmt) -> Option<&str> {
    let target = match statement {
        Stmt::Assign(assigned) => {
            assigned.targets.first().filter(|_| assigned.targets.len() == 1)?
        }
        Stmt::AnnAssign(assigned) => &*assigned.target,
        _ => return None,
    };
    if let Expr::Name(name) = target { Some(name.id.as_str()) } else { None }
}

/// Returns the value that a statement of a class has.
pub(super) fn class_value(statement: &Stmt) -> Option<&Expr> {
    match statement {
        Stmt::Assign(assigned) => Some(&*assigned.value),
        Stmt::AnnAssign(assigned) => assigned.value.as_deref(),
        _ => None,
    }
}

/// Returns whether an expression reads one of some names, or makes a function.
pub(super) fn names_any(expression: &Expr, names: &[&str]) -> bool {
    match expression {
        Expr::Name(name) => names.contains(&name.id.as_str()),
        Expr::Lambda(_) => true,
        _ => parts(expression).into_iter().any(|part| names_any(part, names)),
    }
}

/// Returns the expressions directly in another one, in the order in which they are computed; of a comprehension,
/// those of an element.
pub(super) fn children(expression: &Expr) -> Vec<&Expr> {
    let mut found = ChildFinder { found: Vec::new(), is_of_element: true };
    walk_expr(&mut found, expression);
    found.found
}

/// Returns all expressions directly in another one.
fn parts(expression: &Expr) -> Vec<&Expr> {
    let mut found = ChildFinder { found: Vec::new(), is_of_element: false };
    walk_expr(&mut found, expression);
    found.found
}

struct ChildFinder<'a> {
    found: Vec<&'a Expr>,
    is_of_element: bool,
}

impl<'a> Visitor<'a> for ChildFinder<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        self.found.push(expression);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        if !self.is_of_element {
            self.found.extend([&comprehension.iter, &comprehension.target]);
            self.found.extend(&comprehension.ifs);
        }
    }
}

/// Returns the name that a pattern binds itself.
pub(super) fn pattern_name(pattern: &Pattern) -> Option<&str> {
    let name = match pattern {
        Pattern::MatchAs(part) => part.name.as_ref(),
        Pattern::MatchStar(part) => part.name.as_ref(),
        Pattern::MatchMapping(part) => part.rest.as_ref(),
        _ => None,
    };
    name.map(Identifier::as_str)
}

/// Returns whether an expression calls anything, or assigns to a name.
pub(super) fn has_effect(expression: &Expr) -> bool {
    matches!(expression, Expr::Call(_) | Expr::Named(_))
        || parts(expression).into_iter().any(has_effect)
}

/// Names that a pattern binds, and expressions that it is compared with.
pub(super) struct PatternParts<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) values: Vec<&'a Expr>,
}

/// Returns the names and the expressions of a pattern.
pub(super) fn pattern_parts(pattern: &Pattern) -> PatternParts<'_> {
    let mut parts = PatternParts { names: Vec::new(), values: Vec::new() };
    parts.visit_pattern(pattern);
    parts
}

impl<'a> Visitor<'a> for PatternParts<'a> {
    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        self.names.extend(pattern_name(pattern));
        walk_pattern(self, pattern);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        self.values.push(expression);
    }
}
