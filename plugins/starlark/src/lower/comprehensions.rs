//! Comprehensions and generator expressions.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprDictComp, ExprGenerator};

use super::{Lowering, OWN};

/// Function that may stop before the end of a generator expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lazy {
    Any,
    All,
    Next,
}

impl Lazy {
    pub(super) fn parse(function: &str) -> Option<Self> {
        match function {
            "any" => Some(Self::Any),
            "all" => Some(Self::All),
            "next" => Some(Self::Next),
            _ => None,
        }
    }

    /// The function that goes on until its callback decides.
    fn driver(self) -> &'static str {
        match self {
            Self::Any => "__py_any_of",
            Self::All => "__py_all_of",
            Self::Next => "__py_first_of",
        }
    }

    /// Value that the callback returns for an item that a condition leaves out.
    fn skip(self) -> &'static str {
        match self {
            Self::Any => "False",
            Self::All => "True",
            Self::Next => "None",
        }
    }
}

impl<'a> Lowering<'a> {
    /// Writes `[elt for … if …]`.
    pub(super) fn list_of(&mut self, elt: &'a Expr, generators: &'a [Comprehension]) {
        self.push("[");
        self.comprehension(generators, |this| this.expression(elt));
        self.push("]");
    }

    pub(super) fn dict_of(&mut self, it: &'a ExprDictComp) {
        self.push("{");
        self.comprehension(&it.generators, |this| {
            if let Some(key) = &it.key {
                this.expression(key);
                this.push(": ");
            }
            this.expression(&it.value);
        });
        self.push("}");
    }

    /// Writes the element, which `element` does, and the clauses. The clauses come after the
    /// element in the text, and are in scope there.
    fn comprehension(&mut self, generators: &'a [Comprehension], element: impl FnOnce(&mut Self)) {
        let mut all = BTreeSet::new();
        for generator in generators {
            all.extend(names(&generator.target));
        }
        self.scopes.enter_inner(all);
        element(self);
        self.scopes.leave();
        let mut known = BTreeSet::new();
        for generator in generators {
            if generator.is_async {
                self.refuse_async(generator, "`async`");
            }
            self.push(" for ");
            let simple = Self::is_simple(&generator.target);
            self.scopes.enter_inner(known.clone());
            let item = if simple { String::new() } else { self.fresh() };
            if simple {
                self.scopes.enter_inner(names(&generator.target));
                self.target(&generator.target);
                self.scopes.leave();
            } else {
                self.push(&item.clone());
            }
            self.push(" in ");
            self.sequence(&generator.iter);
            self.scopes.leave();
            known.extend(names(&generator.target));
            self.scopes.enter_inner(known.clone());
            if !simple {
                self.starred(&generator.target, &item);
            }
            for condition in &generator.ifs {
                self.push(" if ");
                self.expression(condition);
            }
            self.scopes.leave();
        }
    }

    /// Writes a further clause that unpacks `item` to a target with a star.
    fn starred(&mut self, target: &'a Expr, item: &str) {
        let items = match target {
            Expr::Tuple(it) => &it.elts,
            Expr::List(it) => &it.elts,
            _ => return,
        };
        let at = items.iter().position(Expr::is_starred_expr).unwrap_or_default();
        self.push(" for (");
        self.separated(items, |this, item| match item {
            Expr::Starred(it) => this.target(&it.value),
            _ => this.target(item),
        });
        self.push(&format!(",) in [{OWN}unpack({item}, {at}, {})]", items.len() - at - 1));
    }

    /// Writes a value that is gone through or unpacked: the characters of a text, too.
    pub(super) fn sequence(&mut self, it: &'a Expr) {
        if is_sequence(self, it) {
            return self.expression(it);
        }
        self.push(&format!("{OWN}seq("));
        self.expression(it);
        self.push(")");
    }

    /// Writes a generator expression that stops at the first item that decides: callbacks instead
    /// of a list.
    pub(super) fn lazy(&mut self, lazy: Lazy, it: &'a ExprGenerator) {
        self.lazy_clauses(lazy, &it.elt, &it.generators);
    }

    fn lazy_clauses(&mut self, lazy: Lazy, elt: &'a Expr, generators: &'a [Comprehension]) {
        let [generator, rest @ ..] = generators else {
            return match lazy {
                Lazy::Next => {
                    self.push("(");
                    self.expression(elt);
                    self.push(",)");
                }
                _ => self.expression(elt),
            };
        };
        self.push(&format!("{}(", lazy.driver()));
        self.sequence(&generator.iter);
        let item = self.fresh();
        self.push(&format!(", lambda {item}: ["));
        self.scopes.enter_inner(names(&generator.target));
        self.push(&"(".repeat(generator.ifs.len()));
        self.lazy_clauses(lazy, elt, rest);
        // The first condition is the outermost, and so the first that is evaluated.
        for condition in generator.ifs.iter().rev() {
            self.push(" if ");
            self.expression(condition);
            self.push(&format!(" else {})", lazy.skip()));
        }
        if Self::is_simple(&generator.target) {
            self.push(" for ");
            self.target(&generator.target);
            self.push(&format!(" in [{item}]"));
        } else {
            self.push(&format!(" for {OWN}_ in [0]"));
            self.starred(&generator.target, &item);
        }
        self.scopes.leave();
        self.push("][0])");
    }
}

/// Returns whether the value is known to be no text, so that Starlark can go through it.
pub(super) fn is_sequence(lowering: &Lowering<'_>, it: &Expr) -> bool {
    match it {
        Expr::ListComp(_)
        | Expr::SetComp(_)
        | Expr::DictComp(_)
        | Expr::Set(_)
        | Expr::List(_)
        | Expr::Tuple(_) => true,
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => {
                let builtin = [
                    "range",
                    "enumerate",
                    "zip",
                    "sorted",
                    "reversed",
                    "list",
                    "set",
                    "map",
                    "filter",
                ];
                builtin.contains(&name.id.as_str())
                    && !lowering.facts.bound.contains(name.id.as_str())
            }
            // They return new lists.
            Expr::Attribute(it) => {
                matches!(&*it.attr, "items" | "keys" | "values" | "split" | "splitlines")
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns the names that a target assigns.
pub(super) fn names(target: &Expr) -> BTreeSet<&str> {
    struct Reader<'a>(BTreeSet<&'a str>);
    impl<'a> Visitor<'a> for Reader<'a> {
        fn visit_expr(&mut self, it: &'a Expr) {
            if let Expr::Name(name) = it {
                self.0.insert(&name.id);
            }
            visitor::walk_expr(self, it);
        }
    }
    let mut reader = Reader(BTreeSet::new());
    reader.visit_expr(target);
    reader.0
}
