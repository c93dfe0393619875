//! Functions and methods whose effects are known. Of any other, all that it can reach may be in all that it can reach
//! afterwards.
//!
//! The names stand for the built-in functions, the methods of built-in types, and the libraries of both
//! executors: a script whose classes have methods is not analysed.

/// Effect of a call on its arguments, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEffect {
    /// Returns a text, a number, or another value that cannot change.
    Plain,
    /// Returns a new object that may hold the arguments.
    New,
    /// Returns an argument, something in it, or a new object that may hold it.
    Part,
    /// Changes only the object whose method it is, and returns something in it or in the arguments.
    Insert,
    /// May do anything with what it reaches.
    Any,
    /// Ends the script.
    Exit,
}

/// Functions that return a value that cannot change.
const PLAIN: &[&str] = &[
    "abs",
    "all",
    "any",
    "ascii",
    "bin",
    "bool",
    "bytes",
    "callable",
    "chr",
    "float",
    "format",
    "hasattr",
    "hash",
    "hex",
    "int",
    "isinstance",
    "issubclass",
    "len",
    "oct",
    "ord",
    "pow",
    "print",
    "range",
    "repr",
    "round",
    "str",
];
/// Functions that return a new object.
const NEW: &[&str] = &[
    "Counter",
    "OrderedDict",
    "defaultdict",
    "deque",
    "dict",
    "divmod",
    "enumerate",
    "filter",
    "frozenset",
    "list",
    "map",
    "partial",
    "reversed",
    "set",
    "sorted",
    "struct",
    "tuple",
    "zip",
];
/// Functions that return something in an argument.
const PART: &[&str] = &["getattr", "iter", "max", "min", "next", "sum"];
/// Functions that end the script.
const EXIT: &[&str] = &["exit", "fail", "quit"];
/// Functions whose results are read once, or read as they are asked for.
const ITERATORS: &[&str] = &[
    "accumulate",
    "batched",
    "chain",
    "combinations",
    "combinations_with_replacement",
    "compress",
    "count",
    "cycle",
    "dropwhile",
    "enumerate",
    "filter",
    "filterfalse",
    "finditer",
    "from_iterable",
    "groupby",
    "islice",
    "iter",
    "map",
    "pairwise",
    "permutations",
    "product",
    "repeat",
    "reversed",
    "starmap",
    "takewhile",
    "tee",
    "zip",
    "zip_longest",
];
/// Modules whose functions change nothing, and whose results are new.
const PURE_MODULES: &[&str] = &[
    "base64",
    "datetime",
    "fractions",
    "hashlib",
    "html",
    "json",
    "math",
    "re",
    "statistics",
    "string",
    "textwrap",
    "time",
    "unicodedata",
    "urllib",
    "uuid",
];
/// Modules whose functions change nothing, and return what they are given.
const PASSING_MODULES: &[&str] = &["asyncio", "functools", "itertools"];
/// Module of functions that stand for operators.
const OPERATOR: &str = "operator";

const PLAIN_METHODS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "date",
    "decode",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "getvalue",
    "hex",
    "index",
    "isalnum",
    "isalpha",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isoformat",
    "isoweekday",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rstrip",
    "startswith",
    "strftime",
    "strip",
    "swapcase",
    "timestamp",
    "title",
    "total_seconds",
    "upper",
    "weekday",
    "zfill",
];
const NEW_METHODS: &[&str] = &[
    "codepoints",
    "copy",
    "difference",
    "elements",
    "elems",
    "findall",
    "finditer",
    "groupdict",
    "groups",
    "intersection",
    "isdisjoint",
    "issubset",
    "issuperset",
    "items",
    "keys",
    "most_common",
    "partition",
    "rpartition",
    "rsplit",
    "split",
    "splitlines",
    "symmetric_difference",
    "union",
    "values",
];
const PART_METHODS: &[&str] = &["get", "group", "match", "search"];
const INSERT_METHODS: &[&str] = &[
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "extendleft",
    "insert",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "reverse",
    "rotate",
    "setdefault",
    "sort",
    "update",
    "write",
];
/// Methods that change their objects, besides [`INSERT_METHODS`], and functions of modules that change what they are
/// given.
const CHANGING: &[&str] = &[
    "close",
    "delitem",
    "difference_update",
    "dump",
    "heapify",
    "heappop",
    "heappush",
    "heappushpop",
    "heapreplace",
    "insort",
    "insort_left",
    "insort_right",
    "intersection_update",
    "move_to_end",
    "read",
    "readline",
    "readlines",
    "seek",
    "setitem",
    "subtract",
    "symmetric_difference_update",
    "truncate",
    "writeheader",
    "writelines",
    "writerow",
    "writerows",
];

/// Returns the effect of a built-in function.
pub(super) fn function(name: &str) -> CallEffect {
    let known = [
        (PLAIN, CallEffect::Plain),
        (NEW, CallEffect::New),
        (PART, CallEffect::Part),
        (EXIT, CallEffect::Exit),
    ];
    find(&known, name)
}

/// Returns the effect of a method.
pub(super) fn method(name: &str) -> CallEffect {
    let known = [
        (PLAIN_METHODS, CallEffect::Plain),
        (NEW_METHODS, CallEffect::New),
        (PART_METHODS, CallEffect::Part),
        (INSERT_METHODS, CallEffect::Insert),
    ];
    find(&known, name)
}

/// Returns the effect of a function of a module, by the first part of its name.
pub(super) fn imported(module: &str, function: &str) -> CallEffect {
    if (module, function) == ("sys", "exit") {
        return CallEffect::Exit;
    }
    // It writes to the file that it is given.
    if function == "dump" {
        return CallEffect::Any;
    }
    if PURE_MODULES.contains(&module) {
        return CallEffect::New;
    }
    if PASSING_MODULES.contains(&module) {
        return CallEffect::Part;
    }
    if NEW.contains(&function) { CallEffect::New } else { CallEffect::Any }
}

/// Returns whether the values in a module never change.
pub(super) fn is_pure(module: &str) -> bool {
    PURE_MODULES.contains(&module) || module == OPERATOR
}

/// Returns whether a function or a method of this name may change what it reaches, where it is called as a value.
pub(super) fn is_changing(name: &str) -> bool {
    INSERT_METHODS.contains(&name) || CHANGING.contains(&name)
}

/// Returns whether reading the result of a function may change it.
pub(super) fn is_iterator(function: &str, effect: CallEffect) -> bool {
    effect == CallEffect::Any || ITERATORS.contains(&function)
}

/// Returns whether `print` writes nowhere else with a keyword.
pub(super) fn is_plain_of_print(keyword: Option<&str>) -> bool {
    matches!(keyword, Some("sep" | "end" | "flush"))
}

fn find(known: &[(&[&str], CallEffect)], name: &str) -> CallEffect {
    let found = known.iter().find(|(names, _)| names.contains(&name));
    found.map_or(CallEffect::Any, |(_, effect)| *effect)
}
