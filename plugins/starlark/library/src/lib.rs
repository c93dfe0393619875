//! The part of Python's library that scripts use, on Starlark's values.
//!
//! [`register`] adds it to the globals of a script, whose text is lowered before: Python that Starlark lacks is written
//! as calls of functions that are here. The crate knows neither the lowering nor tools.
//!
//! - `lowered`, `comparisons`, `names`: the functions that lowered text calls
//! - [`convert`]: JSON to values and back
//! - `values`, [`text`], `format`: sequences and numbers, `repr`, format specifications
//! - `macros`: what all values have in common
//! - `bound`, `class`, `containers`: methods, types and containers as values; the files above them give them behaviour
//! - `types`, `methods`, `strings`: types as values, and the methods that Starlark lacks
//! - `creation`, `order`: sets and dicts from others; comparing and sorting
//! - `numbers`: `sum`, `round`, `sorted` and the like
//! - `iterators`, `cells`: generators, loops over lists that change, cells of names
//! - `algorithms`: `heapq`, `bisect`, `copy`
//! - one file a module: `collections`, `csv`, `datetime`, `functools`, `io`, `itertools`, `json`,
//!   `operator`, `regex` (`re`), `statistics`, `urls` (`urllib.parse`); the small ones are in `modules`
//!
//! Nothing here reads a clock, chance or memory addresses.

#![expect(
    unsafe_code,
    reason = "the derives and iterators of Starlark values implement unsafe traits and functions"
)]
#![expect(
    clippy::unnecessary_wraps,
    clippy::elidable_lifetime_names,
    reason = "Starlark's macros require results and the lifetime of values"
)]
#![expect(clippy::format_push_string, reason = "texts are short, and this reads best")]

mod algorithms;
mod bound;
mod cells;
mod class;
mod collections;
mod comparisons;
mod containers;
pub mod convert;
mod creation;
mod csv;
mod datetime;
mod format;
mod functools;
mod io;
mod iterators;
mod itertools;
mod json;
mod lowered;
mod macros;
mod methods;
mod modules;
mod names;
mod numbers;
mod operator;
mod order;
mod regex;
mod statistics;
mod strings;
pub mod text;
mod types;
mod urls;
mod values;

use starlark::environment::GlobalsBuilder;

pub use self::io::StringIo;
pub use self::methods::METHODS;
pub use self::regex::Patterns;
pub use self::values::{as_dict, misuse};

/// Names of the modules that a script can import. Sorted.
pub const MODULES: &[&str] = &[
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
pub fn register(builder: &mut GlobalsBuilder) {
    lowered::names(builder);
    lowered::sequences(builder);
    lowered::lazily(builder);
    comparisons::comparisons(builder);
    lowered::operators(builder);
    lowered::inspection(builder);
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
