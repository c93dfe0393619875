//! Methods of texts, lists, dicts and sets that Starlark lacks or has otherwise.

use std::fmt;

use allocative::Allocative;
use starlark::collections::SmallMap;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::{AllocDict, Dict, DictMut, DictRef};
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, ValueLike as _, starlark_value,
};

use super::collections::{self, NamedTuple};
use super::comparisons::same;
use super::values::{
    Args, as_dict, as_i64, as_int, call_method, items, list, misuse, required, size, sort,
    strict_float, text_of,
};
use super::{csv, datetime, format, functools, io, regex, strings, text, types};

/// Methods that a lowered call looks up by the type of the object. Sorted. All others are called
/// as they are.
pub(crate) const METHODS: &[&str] = &[
    "bit_length",
    "casefold",
    "center",
    "copy",
    "count",
    "difference",
    "difference_update",
    "encode",
    "endswith",
    "expandtabs",
    "extend",
    "find",
    "format",
    "format_map",
    "index",
    "intersection",
    "intersection_update",
    "is_integer",
    "isascii",
    "isdecimal",
    "isdisjoint",
    "isidentifier",
    "isnumeric",
    "isprintable",
    "join",
    "ljust",
    "popitem",
    "reverse",
    "rfind",
    "rjust",
    "rsplit",
    "sort",
    "split",
    "splitlines",
    "startswith",
    "swapcase",
    "title",
    "translate",
    "union",
    "update",
    "zfill",
];

/// A method with its object, as a value.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Bound<'v> {
    pub(crate) this: Value<'v>,
    #[trace(unsafe_ignore)]
    pub(crate) name: &'static str,
}

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<method {} of {}>", self.name, text::type_name(self.this))
    }
}

impl<'v> AllocValue<'v> for Bound<'v> {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Bound<'v> {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        self.name.into()
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        dispatch(self.this, self.name, Args::unpack(self.name, arguments, eval.heap())?, eval)
    }
}

/// Returns the method `name` of a value if it is one of `known`.
pub(crate) fn bound<'v>(
    this: impl AllocValue<'v>,
    name: &str,
    known: &'static [&'static str],
    heap: Heap<'v>,
) -> Option<Value<'v>> {
    let name = known.iter().find(|known| **known == name)?;
    Some(heap.alloc(Bound { this: heap.alloc(this), name }))
}

/// Calls a method of a value: as Python has it, or else as Starlark does.
pub(crate) fn dispatch<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    match (this.get_type(), name) {
        ("string", _) if strings::has(name) => {
            strings::method(this.unpack_str().unwrap_or_default(), name, args, heap)
        }
        ("list", "copy") => Ok(list(heap, items(this, heap)?)),
        ("list", "extend") => extend(this, args, eval),
        ("list", "reverse") => reverse(this, heap),
        ("list", "sort") => sort_list(this, args, eval),
        ("list" | "tuple", "count") => count(this, args, heap),
        ("list" | "tuple", "index") => index(this, args, heap),
        ("tuple", _) if name.starts_with('_') => match this.downcast_ref::<NamedTuple>() {
            Some(tuple) => Ok(tuple.method(name, &args, heap)),
            None => call_own(this, name, &args, eval),
        },
        ("dict", "copy") => Ok(copy_dict(this, heap)),
        ("dict", "popitem") => pop_item(this, heap),
        ("dict", "update") => update_dict(this, args, heap),
        ("set", "copy") => types::set_of(&items(this, heap)?, eval),
        ("set", "difference_update") => retain(this, &args, false, eval),
        ("set", "intersection_update") => retain(this, &args, true, eval),
        ("set", "isdisjoint") => is_disjoint(this, &args, heap),
        ("set", "update") => {
            let others = list(heap, all_items(&args, heap)?);
            call_method(this, "update", &[others], eval)
        }
        // With one argument, they are Starlark's own.
        ("set", "union" | "intersection" | "difference") if args.positional.len() != 1 => {
            combine(this, name, &args, eval)
        }
        ("float", "is_integer") => {
            Ok(Value::new_bool(strict_float(this).is_some_and(|float| float.fract() == 0.0)))
        }
        ("int", "is_integer") => Ok(Value::new_bool(true)),
        ("int" | "bool", "bit_length") => {
            let bits = as_int(this).map_or(0, |int| int.bits());
            Ok(heap.alloc(i64::try_from(bits).unwrap_or(i64::MAX)))
        }
        ("defaultdict" | "deque", _) => match collections::method(this, name, &args, eval) {
            Some(done) => done,
            None => call_own(this, name, &args, eval),
        },
        ("chain", _) => {
            let [sequences] = args.bind(["iterable"])?;
            functools::chain(&items(required(sequences, "iterable")?, heap)?, heap)
        }
        ("date" | "datetime" | "timedelta", _) if datetime::has(name) => {
            datetime::method(this, name, args, heap)
        }
        ("StringIO", _) if io::has(name) => io::method(this, name, args, heap),
        ("csv", _) if csv::has(name) => csv::method(this, name, &args, heap),
        ("function", _) if functools::has(name) => functools::method(this, name, heap),
        ("Pattern" | "Match", _) if regex::has(name) => regex::method(this, name, args, eval),
        _ => call_own(this, name, &args, eval),
    }
}

/// Calls a method that Starlark has.
fn call_own<'v>(
    this: Value<'v>,
    name: &str,
    args: &Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let method = this.get_attr_error(name, eval.heap())?;
    eval.eval_function(method, &args.positional, &args.named)
}

fn extend<'v>(
    this: Value<'v>,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    let [more] = args.bind(["iterable"])?;
    let more = list(heap, items(required(more, "iterable")?, heap)?);
    call_method(this, "extend", &[more], eval)
}

fn reverse<'v>(this: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let reversed: Vec<_> = items(this, heap)?.into_iter().rev().collect();
    replace(this, &reversed, heap)
}

fn sort_list<'v>(
    this: Value<'v>,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    if !args.positional.is_empty() {
        return Err(misuse("sort() takes no positional arguments"));
    }
    let [key, reverse] = args.bind(["key", "reverse"])?;
    let key = key.filter(|key| !key.is_none());
    let sorted = sort(&items(this, heap)?, key, reverse.is_some_and(Value::to_bool), eval)?;
    replace(this, &sorted, heap)
}

/// Replaces the items of a list by as many others.
fn replace<'v>(
    this: Value<'v>,
    others: &[Value<'v>],
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    for (at, item) in others.iter().enumerate() {
        this.set_at(heap.alloc(i32::try_from(at).unwrap_or(i32::MAX)), *item)?;
    }
    Ok(Value::new_none())
}

/// `count` of a list or tuple.
fn count<'v>(this: Value<'v>, args: Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let [wanted, ..] = args.bind(["value", "start", "stop"])?;
    let wanted = required(wanted, "value")?;
    let mut found = 0;
    for item in items(this, heap)? {
        if same(item, wanted, heap)? {
            found += 1;
        }
    }
    Ok(heap.alloc(found))
}

/// `index` of a list or tuple.
fn index<'v>(this: Value<'v>, args: Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let [wanted, start, stop] = args.bind(["value", "start", "stop"])?;
    let wanted = required(wanted, "value")?;
    let all = items(this, heap)?;
    let from = position(start, 0, all.len())?;
    let to = position(stop, all.len(), all.len())?;
    for (at, item) in all.iter().enumerate().take(to).skip(from) {
        if same(*item, wanted, heap)? {
            return Ok(heap.alloc(i32::try_from(at).unwrap_or(i32::MAX)));
        }
    }
    Err(misuse(format!("{} is not in {}", text::repr(wanted), text::type_name(this))))
}

/// Returns the position that an argument stands for in a sequence of this length.
fn position(value: Option<Value<'_>>, default: usize, length: usize) -> starlark::Result<usize> {
    let Some(value) = value else { return Ok(default) };
    let at = size(value, "index")?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if at < 0 { at + length } else { at };
    Ok(usize::try_from(at.clamp(0, length)).unwrap_or_default())
}

fn copy_dict<'v>(this: Value<'v>, heap: Heap<'v>) -> Value<'v> {
    let entries: Vec<_> =
        DictRef::from_value(this).map(|dict| dict.iter().collect()).unwrap_or_default();
    heap.alloc(AllocDict(entries))
}

fn pop_item<'v>(this: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let mut dict = DictMut::from_value(this)?;
    let last = dict.aref.iter_hashed().last();
    let (key, value) = last.ok_or_else(|| misuse("popitem(): dictionary is empty"))?;
    dict.aref.remove_hashed(key);
    Ok(heap.alloc((*key.key(), value)))
}

fn update_dict<'v>(this: Value<'v>, args: Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let more = types::dict_of(args, heap)?;
    let mut dict = DictMut::from_value(this)?;
    for (key, value) in more.into_iter_hashed() {
        dict.aref.insert_hashed(key, value);
    }
    Ok(Value::new_none())
}

/// Returns the items of all arguments.
fn all_items<'v>(args: &Args<'v>, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
    let mut all = Vec::new();
    for argument in args.only_positional()? {
        all.extend(items(*argument, heap)?);
    }
    Ok(all)
}

fn is_disjoint<'v>(
    this: Value<'v>,
    args: &Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    for item in all_items(args, heap)? {
        if this.is_in(item)? {
            return Ok(Value::new_bool(false));
        }
    }
    Ok(Value::new_bool(true))
}

/// Leaves in a set what is in others, or what is not.
fn retain<'v>(
    this: Value<'v>,
    args: &Args<'v>,
    shared: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    let others = types::set_of(&all_items(args, heap)?, eval)?;
    for item in items(this, heap)? {
        if others.is_in(item)? != shared {
            call_method(this, "discard", &[item], eval)?;
        }
    }
    Ok(Value::new_none())
}

/// Combines a set with any number of others.
fn combine<'v>(
    this: Value<'v>,
    name: &str,
    args: &Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    let mut total = types::set_of(&items(this, heap)?, eval)?;
    for other in args.only_positional()? {
        let other = list(heap, items(*other, heap)?);
        total = call_method(total, name, &[other], eval)?;
    }
    Ok(total)
}

/// `str.maketrans`: a dict from code points to texts, or to `None`.
pub(crate) fn maketrans<'v>(args: &Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let entries = match args.only_positional()? {
        [table] => table_entries(*table)?,
        [from, to, rest @ ..] => {
            let from = text_of(*from, "x")?;
            let to = text_of(*to, "y")?;
            if from.chars().count() != to.chars().count() {
                return Err(misuse("the first two maketrans arguments must have equal length"));
            }
            let removed = rest.first().and_then(|removed| removed.unpack_str()).unwrap_or_default();
            let replaced = from.chars().zip(to.chars().map(|c| heap.alloc(c)));
            replaced.chain(removed.chars().map(|c| (c, Value::new_none()))).collect()
        }
        [] => return Err(misuse("maketrans() needs an argument")),
    };
    let mut map = SmallMap::new();
    for (key, value) in entries {
        map.insert_hashed(heap.alloc(u32::from(key)).get_hashed()?, value);
    }
    Ok(heap.alloc(Dict::new(map)))
}

/// Returns the entries of a dict whose keys are characters or code points.
fn table_entries(table: Value<'_>) -> starlark::Result<Vec<(char, Value<'_>)>> {
    let dict = as_dict(table).ok_or_else(|| misuse("maketrans() needs a dict"))?;
    let entries = dict.iter().map(|(key, value)| {
        let character = match key.unpack_str() {
            Some(text) => text.chars().next(),
            None => as_i64(key).and_then(|code| char::from_u32(u32::try_from(code).ok()?)),
        };
        let character =
            character.ok_or_else(|| misuse("maketrans() keys are single characters"))?;
        Ok((character, value))
    });
    entries.collect()
}

/// `str.format` of a text with positional and named values.
pub(crate) fn format_text<'v>(
    template: &str,
    args: &Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    format::format_fields(template, &args.positional, &args.named, heap)
        .map(|text| heap.alloc(text))
}

#[cfg(test)]
mod tests {
    use airlock_executor::testing::check_values;

    use super::METHODS;
    use crate::Starlark;
    use crate::library::MODULES;
    use crate::run::tests::{fail, result};

    #[test]
    fn methods_are_those_of_python() {
        check_values::<Starlark>(&[
            (
                "[[1, 2, 1].count(1), (1, True).count(1), [1, 2, 1].index(1, 1), (1, 2).index(2, -1, 9)]",
                "[2,2,2,1]",
            ),
            ("[[1].copy(), {1: 2}.copy(), sorted(set([1]).copy())]", r#"[[1],{"1":2},[1]]"#),
            (
                "[sorted(set([1]).union([2], 'a'), key = str), sorted(set([1, 2, 3]).intersection([1, 2], [2])), sorted(set([1, 2]).difference())]",
                r#"[[1,2,"a"],[2],[1,2]]"#,
            ),
            ("[set([1]).isdisjoint([2], [1]), set([1]).isdisjoint([2])]", "[false,true]"),
            (
                "[1.0.is_integer(), (3).is_integer(), (5).bit_length(), True.bit_length()]",
                "[true,true,3,1]",
            ),
            (
                "'abc'.translate(str.maketrans('ab', 'xy', 'c')) + 'abc'.translate(str.maketrans({'a': 'z', 98: None}))",
                r#""xyzc""#,
            ),
        ]);
        let source = "
a, d, s, t = [3, 1, 2], {'x': 1}, set([1, 2, 3]), set([1, 2, 3])
a.sort(key = lambda n: -n)
a.reverse()
a.extend('b')
d.update([('y', 2)], z = 3)
last = d.popitem()
s.intersection_update([1, 2], [3])
t.difference_update([1], [2])
t.update([4], (5,))
result = [a, d, last, sorted(s), sorted(t)]
";
        let value = r#"[[1,2,3,"b"],{"x":1,"y":2},["z",3],[1,2,3],[3,4,5]]"#;
        assert_eq!(result(source).as_deref(), Some(value));
        for (source, message) in [
            ("[1].index(2)", "2 is not in list"),
            ("{}.copy().popitem()", "popitem(): dictionary is empty"),
            ("[2].sort(len)", "sort() takes no positional arguments"),
            (
                "str.maketrans('a', 'bc')",
                "the first two maketrans arguments must have equal length",
            ),
            ("set([1]).union(a = 1)", "method() got an unexpected argument 'a'"),
        ] {
            assert_eq!(fail(source).message, message, "{source}");
        }
    }

    #[test]
    fn the_lists_of_names_are_sorted_for_binary_search() {
        assert!(METHODS.is_sorted() && MODULES.is_sorted());
    }
}
