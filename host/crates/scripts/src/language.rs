//! Properties of the languages of scripts that the host needs. The executors handle everything else.
//!
//! A tool has the same name in every language, so that files and searches do not depend on the
//! language of a request: the words and globals here are those of all languages together.

mod texts;

use airlock_core::door::ScriptLanguage;

/// A language of scripts, as models see it.
pub(super) struct Language {
    /// File name of scripts in messages.
    pub(super) file_name: &'static str,
    /// Description of the tool that runs scripts.
    pub(super) description: &'static str,
    /// Sentence at the end of each report of a successful run.
    pub(super) note: &'static str,
    /// How a call waits for its result, in the documentation of a tool.
    pub(super) waits: &'static str,
    /// Effect of a failed call; `TOOL` stands for the tool.
    pub(super) fails: &'static str,
}

/// Returns the properties of a language.
pub(super) fn describe(language: ScriptLanguage) -> &'static Language {
    match language {
        ScriptLanguage::Starlark => &texts::STARLARK,
        ScriptLanguage::Python => &texts::PYTHON,
    }
}

/// Returns the properties of a language whose scripts see the time at which their run began, if the
/// language has a clock at all.
pub(super) fn with_clock(language: ScriptLanguage) -> &'static Language {
    match language {
        ScriptLanguage::Starlark => describe(language),
        ScriptLanguage::Python => &texts::PYTHON_WITH_CLOCK,
    }
}

/// Words that cannot be names: Python's keywords and the other reserved words of Starlark. Sorted.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "export", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "while", "with", "yield",
];

/// Globals and modules that scripts use. A client with such a name would hide the global. Sorted.
const GLOBALS: &[&str] = &[
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "Exception",
    "FileNotFoundError",
    "ImportError",
    "IndexError",
    "KeyError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "TimeoutError",
    "ToolError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
    "abs",
    "all",
    "any",
    "ascii",
    "asyncio",
    "attempt",
    "base64",
    "bin",
    "binascii",
    "bool",
    "bytes",
    "callable",
    "chr",
    "collections",
    "dataclasses",
    "datetime",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "fail",
    "filter",
    "float",
    "format",
    "frozenset",
    "functools",
    "gather",
    "getattr",
    "hasattr",
    "hash",
    "hex",
    "id",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "itertools",
    "json",
    "len",
    "list",
    "map",
    "math",
    "max",
    "min",
    "next",
    "object",
    "oct",
    "open",
    "ord",
    "os",
    "partial",
    "pathlib",
    "pow",
    "print",
    "range",
    "re",
    "repr",
    "result",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "str",
    "struct",
    "sum",
    "sys",
    "tuple",
    "type",
    "typing",
    "unicodedata",
    "zip",
];

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
    fn the_texts_follow_the_setting_of_the_clock() {
        let frozen = "clock stands still at the start of the run (UTC)";
        let python = with_clock(ScriptLanguage::Python);
        for text in [python.description, python.note] {
            assert!(text.contains(frozen) && !text.contains("no clock"), "{text}");
            assert!(!text.contains("without clock"), "{text}");
        }
        let without = describe(ScriptLanguage::Python);
        assert!(without.description.contains("\n- no clock, randomness"));
        assert!(!without.description.contains(frozen) && without.note.contains("without clock"));
        assert_eq!(python.file_name, without.file_name);
        let starlark = with_clock(ScriptLanguage::Starlark).description;
        assert_eq!(starlark, describe(ScriptLanguage::Starlark).description);
        for text in [python.description, without.description, starlark] {
            assert!(!text.contains("\n\n\n") && !text.contains("  "), "{text}");
        }
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
