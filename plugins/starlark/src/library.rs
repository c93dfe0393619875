//! The part of Python's library that scripts use, on Starlark's values.
//!
//! - `core`, `comparisons`, `names`: the functions that lowered text calls
//! - `values`, `text`, `format`: sequences and numbers, `repr`, format specifications
//! - `types`, `methods`, `strings`: types as values, and the methods that Starlark lacks
//! - `numbers`: `sum`, `round`, `sorted` and the like
//! - `iterators`: generators, loops over lists that change, cells of names
//! - `algorithms`: `heapq`, `bisect`, `copy`
//! - one file a module: `collections`, `csv`, `datetime`, `functools`, `io`, `itertools`, `json`,
//!   `operator`, `regex` (`re`), `statistics`, `urls` (`urllib.parse`); the small ones are in `modules`
//!
//! Nothing here reads a clock, chance or memory addresses.

mod algorithms;
pub(crate) mod collections;
mod comparisons;
mod core;
mod csv;
pub(crate) mod datetime;
mod format;
mod functools;
pub(crate) mod io;
mod iterators;
mod itertools;
mod json;
mod methods;
mod modules;
mod names;
mod numbers;
mod operator;
pub(crate) mod regex;
mod statistics;
mod strings;
pub(crate) mod text;
mod types;
mod urls;
pub(crate) mod values;

use starlark::environment::GlobalsBuilder;

pub(crate) use self::methods::METHODS;

/// Names of the modules that a script can import. Sorted.
pub(crate) const MODULES: &[&str] = &[
    "bisect",
    "collections",
    "copy",
    "csv",
    "datetime",
    "functools",
    "heapq",
    "io",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "statistics",
    "string",
    "typing",
    "urllib.parse",
];

/// Adds everything in the library to the globals of a script. It replaces what Starlark has under
/// the same name.
pub(crate) fn register(builder: &mut GlobalsBuilder) {
    core::names(builder);
    core::sequences(builder);
    core::lazily(builder);
    comparisons::comparisons(builder);
    core::operators(builder);
    core::inspection(builder);
    names::names(builder);
    numbers::numbers(builder);
    numbers::sequences(builder);
    builder.set("__py_typing", modules::Typing);
    builder.set("__py_mod_typing", modules::Typing);
    builder.namespace("json", json::module);
    builder.namespace("__py_mod_json", json::module);
    builder.namespace("__py_mod_bisect", algorithms::bisect);
    builder.namespace("__py_mod_copy", algorithms::copy);
    builder.namespace("__py_mod_csv", csv::module);
    builder.namespace("__py_mod_io", io::module);
    builder.namespace("__py_mod_urllib", urls::package);
    builder.namespace("__py_mod_heapq", algorithms::heapq);
    builder.namespace("__py_mod_math", modules::math);
    builder.namespace("__py_mod_string", modules::string);
    builder.namespace("__py_mod_operator", operator::module);
    builder.namespace("__py_mod_re", regex::module);
    builder.namespace("__py_mod_datetime", datetime::module);
    builder.namespace("__py_mod_collections", collections::module);
    builder.namespace("__py_mod_itertools", itertools::module);
    builder.namespace("__py_mod_functools", functools::module);
    builder.namespace("__py_mod_statistics", statistics::module);
}
