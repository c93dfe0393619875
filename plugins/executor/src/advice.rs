//! Texts of hints that are the same in every language. Each language has its own table of the errors that they are for.

/// A script writes the booleans of JSON.
pub const BOOLEANS: &str = "those are `True` and `False` here";
/// A script reads a member of a dict as an attribute.
pub const DICT_KEYS: &str =
    "keys of a dict are read with brackets: `d[\"key\"]`, or `d.get(\"key\")`";
/// A script uses a value that is missing.
pub const NO_VALUE: &str =
    "the value is `None`: `dict.get` found no such key, or a tool returned nothing";
/// A script calls itself too deep.
pub const RECURSION: &str =
    "calls nest at most 200 deep: use a loop over a list of what is left to do";
/// A script writes the null of JSON.
pub const NULL: &str = "that is `None` here";
