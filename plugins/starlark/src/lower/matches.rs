//! `match`, as one `if` for each case.

use ruff_python_ast::{
    Expr, Identifier, MatchCase, Pattern, PatternMatchClass, PatternMatchMapping, Singleton,
    StmtMatch,
};
use ruff_text_size::Ranged;

use super::{Lowering, MAX_NESTING, OWN};

/// Types whose pattern takes the value itself: `int(n)`.
const TYPES: &[&str] =
    &["bool", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"];

/// Longest text that leads to a part of the value, in bytes. Each pattern for the part repeats it, and the keys of a
/// pattern are as long as the script makes them.
const MAX_PATH: usize = 1_000;

/// Names with the part of the value to which each is bound.
type Captures<'a> = Vec<(&'a Identifier, String)>;

impl<'a> Lowering<'a> {
    /// Writes a `match`. A flag tells whether the cases go on: a guard may refuse a case after its
    /// names are bound.
    pub(super) fn match_(&mut self, it: &'a StmtMatch) {
        let subject = self.fresh();
        let open = self.fresh();
        self.line();
        self.push(&format!("{subject} = "));
        self.expression(&it.subject);
        self.line();
        self.push(&format!("{open} = True"));
        for case in &it.cases {
            self.case(case, &subject, &open);
        }
    }

    fn case(&mut self, case: &'a MatchCase, subject: &str, open: &str) {
        let mut captures = Vec::new();
        self.line();
        self.push(&format!("if {open} and "));
        self.mapped(&case.pattern, |this| this.pattern(&case.pattern, subject, &mut captures));
        self.push(":");
        self.indent += 1;
        for (name, part) in captures {
            self.bind(name, &part);
        }
        if let Some(guard) = &case.guard {
            self.line();
            self.push("if ");
            self.expression(guard);
            self.push(":");
            self.indent += 1;
        }
        self.line();
        self.push(&format!("{open} = False"));
        // `block` indents by itself.
        self.indent -= 1;
        self.block(&case.body);
        self.indent -= usize::from(case.guard.is_some());
    }

    /// Writes the test whether `value` fits a pattern, and collects the names that it binds.
    fn pattern(&mut self, pattern: &'a Pattern, value: &str, captures: &mut Captures<'a>) {
        if self.is_full(pattern) {
            return;
        }
        self.depth += 1;
        if self.depth > MAX_NESTING || value.len() > MAX_PATH {
            let message = "a pattern is nested too deep, or its keys are too long: match its parts one by one";
            self.refuse(pattern.range(), message);
            self.depth -= 1;
            return;
        }
        let parts = match pattern {
            Pattern::MatchOr(it) => it.patterns.len(),
            Pattern::MatchSequence(it) => it.patterns.len(),
            Pattern::MatchMapping(it) => it.patterns.len(),
            _ => 0,
        };
        if parts > MAX_NESTING {
            let message = format!(
                "a pattern has more than {MAX_NESTING} parts: write `x in [...]`, or several cases"
            );
            self.refuse(pattern.range(), message);
            self.depth -= 1;
            return;
        }
        self.any_pattern(pattern, value, captures);
        self.depth -= 1;
    }

    fn any_pattern(&mut self, pattern: &'a Pattern, value: &str, captures: &mut Captures<'a>) {
        match pattern {
            Pattern::MatchValue(it) => {
                self.push(&format!("({value} == "));
                self.expression(&it.value);
                self.push(")");
            }
            Pattern::MatchSingleton(it) => {
                let word = match it.value {
                    Singleton::None => "None",
                    Singleton::True => "True",
                    Singleton::False => "False",
                };
                self.push(&format!("({value} == {word})"));
            }
            Pattern::MatchAs(it) => {
                match &it.pattern {
                    Some(inner) => self.pattern(inner, value, captures),
                    None => self.push("True"),
                }
                if let Some(name) = &it.name {
                    self.capture(name, value.to_owned(), captures);
                }
            }
            Pattern::MatchOr(it) => self.alternatives(&it.patterns, value),
            Pattern::MatchSequence(it) => self.sequence_pattern(&it.patterns, value, captures),
            Pattern::MatchMapping(it) => self.mapping_pattern(it, value, captures),
            Pattern::MatchClass(it) => self.class_pattern(it, value, captures),
            Pattern::MatchStar(it) => {
                self.refuse(it.range(), "`*` is available in patterns of sequences only");
            }
        }
    }

    /// Collects a name with the part of the value to which it is bound.
    fn capture(&mut self, name: &'a Identifier, part: String, captures: &mut Captures<'a>) {
        self.captured += part.len();
        captures.push((name, part));
    }

    fn alternatives(&mut self, patterns: &'a [Pattern], value: &str) {
        let mut captures = Vec::new();
        self.push("(");
        for (at, pattern) in patterns.iter().enumerate() {
            if at > 0 {
                self.push(" or ");
            }
            self.pattern(pattern, value, &mut captures);
        }
        self.push(")");
        if let Some((name, _)) = captures.first() {
            self.refuse(
                name.range(),
                "a pattern with `|` binds no names here: write a case for each alternative",
            );
        }
    }

    fn sequence_pattern(
        &mut self,
        patterns: &'a [Pattern],
        value: &str,
        captures: &mut Captures<'a>,
    ) {
        let star = patterns.iter().position(Pattern::is_match_star);
        let least = patterns.len() - usize::from(star.is_some());
        let exact = if star.is_none() { "True" } else { "False" };
        self.push(&format!("({OWN}fits({value}, {least}, {exact})"));
        for (at, pattern) in patterns.iter().enumerate() {
            let after = patterns.len() - at;
            if let Pattern::MatchStar(it) = pattern {
                let end = if after == 1 { String::new() } else { format!("-{}", after - 1) };
                let part = format!("{OWN}concat({value}[{at}:{end}])");
                if let Some(name) = &it.name {
                    self.capture(name, part, captures);
                }
                continue;
            }
            let part = match star {
                Some(star) if star < at => format!("{value}[-{after}]"),
                _ => format!("{value}[{at}]"),
            };
            self.push(" and ");
            self.pattern(pattern, &part, captures);
        }
        self.push(")");
    }

    fn mapping_pattern(
        &mut self,
        it: &'a PatternMatchMapping,
        value: &str,
        captures: &mut Captures<'a>,
    ) {
        self.push(&format!("({OWN}maps({value}"));
        let mut keys = Vec::new();
        for key in &it.keys {
            self.push(", ");
            let from = self.out.len();
            self.expression(key);
            keys.push(self.out[from..].to_owned());
        }
        self.push(")");
        for (key, pattern) in keys.iter().zip(&it.patterns) {
            self.push(" and ");
            self.pattern(pattern, &format!("{value}[{key}]"), captures);
        }
        self.push(")");
        if let Some(name) = &it.rest {
            let all = format!("{OWN}without({value}");
            let rest = keys.iter().fold(all, |all, key| all + ", " + key) + ")";
            self.capture(name, rest, captures);
        }
    }

    fn class_pattern(
        &mut self,
        it: &'a PatternMatchClass,
        value: &str,
        captures: &mut Captures<'a>,
    ) {
        let known = matches!(&*it.cls, Expr::Name(name) if TYPES.contains(&name.id.as_str()));
        if !known || it.arguments.patterns.len() > 1 || !it.arguments.keywords.is_empty() {
            let message = "a pattern of a class is available for built-in types only, like `str()` or `int(n)`";
            return self.refuse(it.range(), message);
        }
        self.push(&format!("(isinstance({value}, "));
        self.expression(&it.cls);
        self.push(")");
        if let [pattern] = &*it.arguments.patterns {
            self.push(" and ");
            self.pattern(pattern, value, captures);
        }
        self.push(")");
    }
}
