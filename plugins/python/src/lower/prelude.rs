//! The functions in Python that a changed script calls. They stand before it, and only those that it
//! needs: the interpreter compiles them in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::names::Names;
use crate::protocol::GIVEN;

/// Start of the names of these functions, and of all that is added to a script.
pub(super) const OWN: &str = "_airlock_";

/// Files of functions. A function reaches up to the next line that begins with `def`.
const FILES: [&str; 6] = [
    include_str!("library/habits.py"),
    include_str!("library/methods.py"),
    include_str!("library/numbers.py"),
    include_str!("library/calls.py"),
    include_str!("library/sets.py"),
    include_str!("library/dates.py"),
];

/// The functions by their names. Built by the warm-up script, so that runs find it in the snapshot.
static FUNCTIONS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(index);

/// Built-in functions that these functions use, and that scripts hide behind names of their own.
const BUILTINS: [&str; 24] = [
    "abs",
    "all",
    "bool",
    "chr",
    "dict",
    "enumerate",
    "float",
    "getattr",
    "hasattr",
    "int",
    "isinstance",
    "iter",
    "len",
    "list",
    "max",
    "min",
    "ord",
    "range",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "type",
];

/// Returns the functions whose names are in `texts`, and those that they call in turn.
pub(super) fn functions<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut wanted: Vec<&str> = texts.flat_map(named).collect();
    let mut seen = BTreeSet::new();
    let mut out = String::new();
    while let Some(name) = wanted.pop() {
        if seen.insert(name)
            && let Some(text) = FUNCTIONS.get(name)
        {
            out.push_str(text);
            wanted.extend(named(text));
        }
    }
    out
}

/// Iterates over the names of functions in a text.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(OWN).map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// Returns the functions of all files by their names.
fn index() -> BTreeMap<&'static str, &'static str> {
    let mut found = BTreeMap::new();
    for mut rest in FILES {
        while !rest.is_empty() {
            let end = rest.find("\ndef ").map_or(rest.len(), |end| end + 1);
            let (text, after) = rest.split_at(end);
            let name = text.strip_prefix("def ").and_then(|text| text.split('(').next());
            found.insert(name.unwrap_or_default(), text);
            rest = after;
        }
    }
    found
}

/// Keeps the built-in functions that a prelude uses from the names of the script.
pub(super) fn shielded(prelude: String, names: &Names<'_>) -> String {
    let mut text = prelude;
    for name in BUILTINS.iter().filter(|name| !names.is_builtin(name)) {
        let own = format!("{OWN}builtin_{name}");
        text = format!("{own} = {name}\n{}", renamed(&text, name, &own));
    }
    text
}

/// Returns the lines that give the script its global functions and inputs. They stand behind all other
/// lines, which know the built-in functions of these names.
pub(super) fn given(names: &Names<'_>) -> String {
    let mut lines = String::new();
    for name in names.used.iter().copied() {
        lines.extend([name, " = ", GIVEN, name, "\n"]);
    }
    lines
}

/// Renames the uses of a built-in function in a text; not methods and parameters with its name.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(from) {
        let before = text[..at].chars().next_back().unwrap_or('\n');
        let after = text[at + from.len()..].chars().next().unwrap_or('\n');
        let is_other = is_word(before)
            || before == '.'
            || is_word(after)
            || after == '='
            || text[..at].ends_with("def ");
        if !is_other {
            out.push_str(&text[done..at]);
            out.push_str(to);
            done = at + from.len();
        }
    }
    out + &text[done..]
}

/// Returns whether a character beside a name makes it a part of another, or of a text.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '"' | '\'')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::result;

    #[test]
    fn a_script_gets_the_functions_that_it_calls_and_no_others() {
        let text = functions(["x = _airlock_subn(re, 'a')"].into_iter());
        assert!(text.contains("def _airlock_re_subn("), "{text}");
        assert!(text.contains("def _airlock_replaced("), "{text}");
        assert!(!text.contains("def _airlock_split("), "{text}");
        assert_eq!(functions(["_airlock_raise(x)"].into_iter()), "");
    }

    #[test]
    fn a_script_may_hide_built_in_functions() {
        for (source, value) in [
            ("list = [True, 2]\nresult = sum(x for x in list)", "3"),
            ("type = 'a'\nlen = 3\nresult = [sum([True, len]), {1} <= {1, 2}]", "[4,true]"),
            ("def sum(xs):\n    return 'mine'\nresult = sum([True])", r#""mine""#),
            (
                "def f(sorted, key):\n    return sorted([1], key=key)\nresult = f(lambda xs, key: xs, lambda x: files.read_file(n=x))",
                "[1]",
            ),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
    }
}
