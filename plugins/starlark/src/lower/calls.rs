//! Calls.

use airlock_starlark_library::METHODS;
use ruff_python_ast::{Arguments, Expr, ExprAttribute, ExprCall, Keyword};
use ruff_text_size::Ranged;

use super::comprehensions::Lazy;
use super::{Lowering, OWN};

/// Functions and methods that go through all of their argument, so that a list in place of a
/// generator expression makes no difference. Sorted.
const EAGER: &[&str] = &[
    "Counter",
    "OrderedDict",
    "deque",
    "dict",
    "enumerate",
    "extend",
    "fmean",
    "frozenset",
    "join",
    "list",
    "max",
    "mean",
    "median",
    "min",
    "set",
    "sorted",
    "sum",
    "tuple",
    "union",
    "update",
];

/// Built-in functions of Python that a run cannot have.
const REFUSED: &[(&str, &str)] = &[
    ("open", "scripts have no files of their own: call a tool"),
    ("input", "a script cannot ask: call a tool, or return what is missing in `result`"),
    ("eval", "write the expression itself"),
    ("exec", "write the statements themselves"),
    ("compile", "write the statements themselves"),
    ("globals", "use a dict"),
    ("locals", "use a dict"),
    ("id", "compare with `==`"),
    ("exit", "end with `result = …`, or `fail(\"why\")`"),
    ("quit", "end with `result = …`, or `fail(\"why\")`"),
    ("__import__", "write `import`"),
    ("setattr", "use a dict"),
    ("super", "there are no classes: use dicts, or `namedtuple`"),
];

impl<'a> Lowering<'a> {
    pub(super) fn call(&mut self, it: &'a ExprCall) {
        match &*it.func {
            Expr::Name(name) if !self.facts.bound.contains(name.id.as_str()) => {
                let name = name.id.as_str();
                if let Some((name, say)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                    self.refuse(it.func.range(), format!("there is no `{name}`: {say}"));
                }
                if let Some(lazy) = Lazy::parse(name)
                    && let [Expr::Generator(generator), rest @ ..] = &*it.arguments.args
                {
                    return self.lazy_call(lazy, generator, rest, it);
                }
                if let ("next", [Expr::Call(made), rest @ ..]) = (name, &*it.arguments.args)
                    && self.is_iterator(made)
                {
                    self.push(&format!("next({OWN}gen("));
                    self.call(made);
                    self.push(")");
                    for default in rest {
                        self.push(", ");
                        self.expression(default);
                    }
                    return self.push(")");
                }
                self.expression(&it.func);
                self.arguments(&it.arguments, EAGER.binary_search(&name).is_ok());
            }
            Expr::Attribute(method) => self.method(method, &it.arguments),
            function => {
                self.expression(function);
                self.arguments(&it.arguments, false);
            }
        }
    }

    /// Returns whether this calls a function that makes an iterator in Python, and a list here.
    pub(super) fn is_iterator(&self, call: &ExprCall) -> bool {
        let made = ["filter", "map", "zip", "enumerate", "reversed"];
        matches!(&*call.func, Expr::Name(name)
            if made.contains(&name.id.as_str()) && !self.facts.bound.contains(name.id.as_str()))
    }

    fn lazy_call(
        &mut self,
        lazy: Lazy,
        generator: &'a ruff_python_ast::ExprGenerator,
        rest: &'a [Expr],
        call: &'a ExprCall,
    ) {
        match lazy {
            Lazy::Any | Lazy::All => self.lazy(lazy, generator),
            Lazy::Next => {
                self.push(&format!("{OWN}next_of("));
                self.lazy(lazy, generator);
                for default in rest {
                    self.push(", ");
                    self.expression(default);
                }
                self.push(")");
            }
        }
        if lazy != Lazy::Next && !rest.is_empty() {
            self.refuse(call.range(), "`any` and `all` take one argument: leave the second out");
        }
    }

    /// Writes a call of a method. Those that Starlark lacks, or has otherwise, go through a
    /// function that knows the type of the object.
    fn method(&mut self, method: &'a ExprAttribute, arguments: &'a Arguments) {
        let name = method.attr.as_str();
        if matches!(name, "now" | "today" | "utcnow") && is_clock(&method.value) {
            let say = "a run has no clock: call a tool that returns the time, or pass the date in";
            self.refuse(method.range(), format!("there is no `{name}`: {say}"));
        }
        let eager = EAGER.binary_search(&name).is_ok();
        if METHODS.binary_search(&name).is_err() {
            self.mapped(method, |this| {
                this.object(&method.value);
                this.push(".");
                this.plain_name(name);
            });
            return self.arguments(arguments, eager);
        }
        self.push(&format!("{OWN}method("));
        self.expression(&method.value);
        self.push(&format!(", \"{name}\""));
        if !arguments.args.is_empty() || !arguments.keywords.is_empty() {
            self.push(", ");
            self.argument_list(arguments, eager);
        }
        self.push(")");
    }

    fn arguments(&mut self, arguments: &'a Arguments, eager: bool) {
        self.push("(");
        self.argument_list(arguments, eager);
        self.push(")");
    }

    fn argument_list(&mut self, arguments: &'a Arguments, eager: bool) {
        let stars = arguments.args.iter().filter(|argument| argument.is_starred_expr()).count();
        let spreads = arguments.keywords.iter().filter(|keyword| keyword.arg.is_none()).count();
        let odd = arguments
            .keywords
            .iter()
            .any(|keyword| keyword.arg.as_ref().is_some_and(|name| is_odd(name)));
        let mut first = true;
        if stars > 0 {
            self.push("*");
            self.list(&arguments.args);
            first = false;
        } else {
            for argument in &arguments.args {
                self.next(&mut first);
                match argument {
                    Expr::Generator(it) if eager => self.list_of(&it.elt, &it.generators),
                    _ => self.expression(argument),
                }
            }
        }
        if stars == 0 && spreads == 0 && !odd {
            for keyword in &arguments.keywords {
                self.next(&mut first);
                self.keyword(keyword);
            }
        } else if !arguments.keywords.is_empty() {
            self.next(&mut first);
            self.push(&format!("**{OWN}merge("));
            self.separated(&arguments.keywords, |this, keyword| match &keyword.arg {
                Some(name) => {
                    this.push("{");
                    this.string(name);
                    this.push(": ");
                    this.expression(&keyword.value);
                    this.push("}");
                }
                None => this.expression(&keyword.value),
            });
            self.push(")");
        }
    }

    fn next(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.push(", ");
        }
    }

    fn keyword(&mut self, it: &'a Keyword) {
        if let Some(name) = &it.arg {
            self.push(name);
            self.push(" = ");
        }
        self.expression(&it.value);
    }
}

/// Returns whether Starlark cannot have this name before `=` in a call.
fn is_odd(name: &str) -> bool {
    name == "load" || !name.is_ascii()
}

/// Returns whether the object of `now()` is `datetime` or `date`.
fn is_clock(object: &Expr) -> bool {
    match object {
        Expr::Name(name) => matches!(name.id.as_str(), "datetime" | "date" | "dt"),
        Expr::Attribute(it) => matches!(it.attr.as_str(), "datetime" | "date"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_functions_that_go_through_everything_are_sorted_for_binary_search() {
        assert!(super::EAGER.is_sorted());
    }
}
