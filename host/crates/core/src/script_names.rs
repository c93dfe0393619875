//! Names in scripts: which texts can be names, and which of them are taken.
//!
//! A tool has the same name in every language of scripts. So the words and globals here are those of all languages together.

/// Words that cannot be names: Python's keywords and the other reserved words of Starlark. Sorted.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "export", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "while", "with", "yield",
];

/// Globals and modules that scripts use. A tool or a client with such a name would hide the global.
const GLOBALS: &str = "ArithmeticError AssertionError AttributeError BaseException Exception FileNotFoundError \
     ImportError IndexError KeyError LookupError NameError NotImplementedError OSError \
     OverflowError PermissionError RecursionError RuntimeError StopIteration SyntaxError \
     TimeoutError ToolError TypeError ValueError ZeroDivisionError abs all any ascii asyncio \
     attempt base64 bin binascii bool bytes callable chr collections dataclasses datetime dict dir \
     divmod enumerate fail filter float format frozenset functools gather getattr hasattr hash hex \
     id int isinstance issubclass iter itertools json len list map math max min next object oct \
     open ord os partial pathlib pow print range re repr result reversed round set setattr slice \
     sorted str struct sum sys tuple type typing unicodedata zip";

/// Returns whether `text` is a valid name. ASCII only, so that no two names look the same.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts_well = bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    starts_well
        && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_')
        && RESERVED.binary_search(&text).is_err()
}

/// Returns whether a global of that name would hide one that scripts need.
pub fn is_taken(global: &str) -> bool {
    GLOBALS.split_ascii_whitespace().any(|known| known == global)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserved_words_are_sorted_for_binary_search() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn a_global_is_taken_as_a_whole_word() {
        for taken in GLOBALS.split_ascii_whitespace() {
            assert!(is_taken(taken), "{taken}");
        }
        for free in ["", " ", "ab", "abs all", "absent"] {
            assert!(!is_taken(free), "{free:?}");
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
