//! Properties of the script language that the host needs. The executor handles everything else.

/// Words that cannot be names: Python's keywords, because models write Python, and the other
/// reserved words of Starlark. Sorted.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "export", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "while", "with", "yield",
];

/// Globals of every script. A client with such a name would hide the global. Sorted.
const GLOBALS: &[&str] = &[
    "abs",
    "all",
    "any",
    "ascii",
    "attempt",
    "bin",
    "bool",
    "bytes",
    "callable",
    "chr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "fail",
    "filter",
    "float",
    "format",
    "frozenset",
    "gather",
    "getattr",
    "hasattr",
    "hash",
    "hex",
    "int",
    "isinstance",
    "iter",
    "json",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "object",
    "oct",
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

/// Sentence at the end of each report of a successful run.
pub(super) const NOTE: &str = "Note: scripts are a subset of Python, without try, class and with; every run starts with a fresh \
                               scope.";

/// Returns whether `text` is a valid name. ASCII only, so that no two names look the same.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts_well = bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    starts_well
        && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_')
        && RESERVED.binary_search(&text).is_err()
}

/// Returns whether a client of that name would hide a global that scripts need.
pub(super) fn is_taken(global: &str) -> bool {
    GLOBALS.binary_search(&global).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_lists_are_sorted_for_binary_search() {
        assert!(RESERVED.is_sorted() && GLOBALS.is_sorted());
    }

    #[test]
    fn an_identifier_is_ascii_and_not_reserved() {
        for good in ["a", "_", "a1", "Load", "print"] {
            assert!(is_identifier(good), "{good}");
        }
        for bad in ["", "1a", "a-b", "ä", "for", "load", "None", "a b", "$a"] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }
}
