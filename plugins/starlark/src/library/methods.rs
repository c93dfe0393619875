//! Methods of texts, lists, dicts and sets that Starlark lacks or has otherwise.

use std::fmt;

use allocative::Allocative;
use starlark::collections::SmallMap;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::{AllocDict, Dict, DictMut, DictRef};
use starlark::values::list::ListRef;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, ValueLike as _, starlark_value,
};

use super::values::{Args, as_i64, as_int, call_method, items, list, misuse, required, size, sort};
use super::{collections, csv, datetime, format, functools, io, regex, strings, text, types};

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
        dispatch(self.this, self.name, Args::of(self.name, arguments, eval.heap())?, eval)
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

/// Calls a method of a value, by the value's type.
pub(crate) fn dispatch<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    match this.get_type() {
        "string" => {
            let receiver = this.unpack_str().unwrap_or_default();
            if strings::has(name) {
                return strings::method(receiver, name, args, heap);
            }
        }
        "list" if matches!(name, "sort" | "reverse" | "copy" | "count" | "index" | "extend") => {
            return list_method(this, name, args, eval);
        }
        "tuple" if matches!(name, "count" | "index") => return position(this, name, args, heap),
        "tuple" if name.starts_with('_') => {
            if let Some(tuple) = this.downcast_ref::<collections::NamedTuple>() {
                return Ok(tuple.method(name, &args, heap));
            }
        }
        "dict" if matches!(name, "copy" | "popitem" | "update") => {
            return dict_method(this, name, args, heap);
        }
        "set" => {
            if matches!(name, "union" | "intersection" | "difference") && args.positional.len() != 1
            {
                return combined(this, name, &args, eval);
            }
            if matches!(
                name,
                "copy" | "isdisjoint" | "intersection_update" | "difference_update" | "update"
            ) {
                return set_method(this, name, args, eval);
            }
        }
        "float" if name == "is_integer" => {
            return Ok(Value::new_bool(
                super::values::strict_float(this).is_some_and(|it| it.fract() == 0.0),
            ));
        }
        "int" | "bool" if name == "bit_length" => {
            let bits = as_int(this).map_or(0, |int| int.bits());
            return Ok(heap.alloc(i64::try_from(bits).unwrap_or(i64::MAX)));
        }
        "int" if name == "is_integer" => return Ok(Value::new_bool(true)),
        "defaultdict" | "deque" => {
            if let Some(done) = collections::method(this, name, &args, eval) {
                return done;
            }
        }
        "chain" => {
            let [sequences] = args.bind(["iterable"])?;
            let sequences = items(required(sequences, "iterable")?, heap)?;
            return functools::chain(&sequences, heap);
        }
        "date" | "datetime" | "timedelta" if datetime::has(name) => {
            return datetime::method(this, name, args, heap);
        }
        "StringIO" if io::has(name) => return io::method(this, name, args, heap),
        "csv" if csv::has(name) => return csv::method(this, name, &args, heap),
        "function" if functools::has(name) => return functools::method(this, name, heap),
        "Pattern" | "Match" if regex::has(name) => return regex::method(this, name, args, eval),
        _ => (),
    }
    let method = this.get_attr_error(name, heap)?;
    eval.eval_function(method, &args.positional, &args.named)
}

fn list_method<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    let content =
        || ListRef::from_value(this).map(|list| list.content().to_vec()).unwrap_or_default();
    match name {
        "sort" => {
            if !args.positional.is_empty() {
                return Err(misuse("sort() takes no positional arguments"));
            }
            let [key, reverse] = args.bind(["key", "reverse"])?;
            let key = key.filter(|key| !key.is_none());
            let sorted = sort(&content(), key, reverse.is_some_and(Value::to_bool), eval)?;
            replace(this, &sorted, heap)
        }
        "reverse" => {
            let reversed: Vec<_> = content().into_iter().rev().collect();
            replace(this, &reversed, heap)
        }
        "copy" => Ok(list(heap, content())),
        "extend" => {
            let [more] = args.bind(["iterable"])?;
            let more = list(heap, items(required(more, "iterable")?, heap)?);
            call_method(this, "extend", &[more], eval)
        }
        _ => position(this, name, args, heap),
    }
}

/// Replaces the items of a list by as many others.
fn replace<'v>(
    this: Value<'v>,
    sorted: &[Value<'v>],
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    for (at, item) in sorted.iter().enumerate() {
        this.set_at(heap.alloc(i32::try_from(at).unwrap_or(i32::MAX)), *item)?;
    }
    Ok(Value::new_none())
}

/// `count` and `index` of a list or tuple.
fn position<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let [wanted, start, stop] = args.bind(["value", "start", "stop"])?;
    let wanted = required(wanted, "value")?;
    let all = items(this, heap)?;
    let bound = |value: Option<Value<'v>>, default: usize| -> starlark::Result<usize> {
        let Some(value) = value else { return Ok(default) };
        let at = size(value, "index")?;
        let length = i64::try_from(all.len()).unwrap_or(i64::MAX);
        let at = if at < 0 { at + length } else { at };
        Ok(usize::try_from(at.clamp(0, length)).unwrap_or_default())
    };
    let (from, to) = (bound(start, 0)?, bound(stop, all.len())?);
    let mut found = 0;
    for (at, item) in all.iter().enumerate() {
        if super::comparisons::same(*item, wanted, heap)? {
            if name == "index" && (from..to).contains(&at) {
                return Ok(heap.alloc(i32::try_from(at).unwrap_or(i32::MAX)));
            }
            found += 1;
        }
    }
    match name {
        "index" => {
            Err(misuse(format!("{} is not in {}", text::repr(wanted), text::type_name(this))))
        }
        _ => Ok(heap.alloc(found)),
    }
}

fn dict_method<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    match name {
        "copy" => {
            let entries: Vec<_> =
                DictRef::from_value(this).map(|dict| dict.iter().collect()).unwrap_or_default();
            Ok(heap.alloc(AllocDict(entries)))
        }
        "update" => {
            let more = types::dict_of(args, heap)?;
            let mut dict = DictMut::from_value(this)?;
            for (key, value) in more.into_iter_hashed() {
                dict.aref.insert_hashed(key, value);
            }
            Ok(Value::new_none())
        }
        _ => {
            let mut dict = DictMut::from_value(this)?;
            let last = dict.aref.iter_hashed().last();
            let (key, value) = last.ok_or_else(|| misuse("popitem(): dictionary is empty"))?;
            dict.aref.remove_hashed(key);
            Ok(heap.alloc((*key.key(), value)))
        }
    }
}

fn set_method<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    let mut other = Vec::new();
    for argument in args.only_positional()? {
        other.extend(items(*argument, heap)?);
    }
    match name {
        "copy" => types::set_of(&items(this, heap)?, eval),
        "update" => call_method(this, "update", &[list(heap, other)], eval),
        "isdisjoint" => {
            for item in other {
                if this.is_in(item)? {
                    return Ok(Value::new_bool(false));
                }
            }
            Ok(Value::new_bool(true))
        }
        _ => {
            let other = types::set_of(&other, eval)?;
            for item in items(this, heap)? {
                if other.is_in(item)? == (name == "difference_update") {
                    call_method(this, "discard", &[item], eval)?;
                }
            }
            Ok(Value::new_none())
        }
    }
}

/// Combines a set with any number of others.
fn combined<'v>(
    this: Value<'v>,
    name: &str,
    args: &Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let mut total = types::set_of(&items(this, eval.heap())?, eval)?;
    for other in args.only_positional()? {
        let other = list(eval.heap(), items(*other, eval.heap())?);
        total = call_method(total, name, &[other], eval)?;
    }
    Ok(total)
}

/// `str.maketrans`: a dict from code points to texts, or to `None`.
pub(crate) fn maketrans<'v>(args: &Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let mut map = SmallMap::new();
    let mut put = |key: char, value: Value<'v>| -> starlark::Result<()> {
        map.insert_hashed(heap.alloc(u32::from(key)).get_hashed()?, value);
        Ok(())
    };
    match args.only_positional()? {
        [table] => {
            for pair in items(call_items(*table, heap)?, heap)? {
                let pair = items(pair, heap)?;
                let key = match pair[0].unpack_str() {
                    Some(key) => key.chars().next(),
                    None => {
                        as_i64(pair[0]).and_then(|code| char::from_u32(u32::try_from(code).ok()?))
                    }
                };
                put(key.ok_or_else(|| misuse("maketrans() keys are single characters"))?, pair[1])?;
            }
        }
        [from, to, rest @ ..] => {
            let (from, to) =
                (super::values::text_of(*from, "x")?, super::values::text_of(*to, "y")?);
            if from.chars().count() != to.chars().count() {
                return Err(misuse("the first two maketrans arguments must have equal length"));
            }
            for (from, to) in from.chars().zip(to.chars()) {
                put(from, heap.alloc(to))?;
            }
            for gone in rest.first().and_then(|it| it.unpack_str()).unwrap_or_default().chars() {
                put(gone, Value::new_none())?;
            }
        }
        [] => return Err(misuse("maketrans() needs an argument")),
    }
    Ok(heap.alloc(Dict::new(map)))
}

fn call_items<'v>(table: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let dict = super::values::as_dict(table).ok_or_else(|| misuse("maketrans() needs a dict"))?;
    let pairs: Vec<_> = dict.iter().map(|pair| heap.alloc(pair)).collect();
    Ok(list(heap, pairs))
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
    use super::METHODS;
    use crate::library::MODULES;

    #[test]
    fn the_lists_of_names_are_sorted_for_binary_search() {
        assert!(METHODS.is_sorted() && MODULES.is_sorted());
    }
}
