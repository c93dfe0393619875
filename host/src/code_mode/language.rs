//! What the host knows of the language that scripts are written in. Everything else is the
//! executor's business.

/// Words that cannot be a name: Python's keywords, since models write Python, and what Starlark
/// reserves besides. Sorted.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "export", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "while", "with", "yield",
];

/// Globals that every script has. A client of such a name would take them away. Sorted.
const GLOBALS: &[&str] = &[
    "abs",
    "all",
    "any",
    "attempt",
    "bool",
    "bytes",
    "chr",
    "dict",
    "dir",
    "enumerate",
    "fail",
    "filter",
    "float",
    "gather",
    "getattr",
    "hasattr",
    "hash",
    "int",
    "json",
    "len",
    "list",
    "map",
    "max",
    "min",
    "ord",
    "partial",
    "pow",
    "print",
    "range",
    "repr",
    "result",
    "reversed",
    "round",
    "set",
    "sorted",
    "str",
    "struct",
    "sum",
    "tuple",
    "type",
    "zip",
];

/// One sentence for the end of each run's text.
pub(super) const NOTE: &str = "Note: scripts are Starlark, a small Python without try, while, import and class; every run starts \
                               with a fresh scope.";

/// Whether `text` can be a name: ASCII alone, so that two names never look the same.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts_well = bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    starts_well
        && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_')
        && RESERVED.binary_search(&text).is_err()
}

/// Whether a global of that name would hide what scripts need.
pub(super) fn is_taken(global: &str) -> bool {
    GLOBALS.binary_search(&global).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_as_the_search_needs_them() {
        assert!(RESERVED.is_sorted() && GLOBALS.is_sorted());
    }

    #[test]
    fn a_name_is_ascii_and_no_reserved_word() {
        for good in ["a", "_", "a1", "Load", "print"] {
            assert!(is_identifier(good), "{good}");
        }
        for bad in ["", "1a", "a-b", "ä", "for", "load", "None", "a b", "$a"] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }
}
