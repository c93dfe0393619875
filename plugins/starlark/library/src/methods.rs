//! Methods of texts, lists, dicts and sets that Starlark lacks or has otherwise.

use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::{AllocDict, DictMut, DictRef};
use starlark::values::{Heap, StarlarkValue, Value, ValueLike as _, starlark_value};

use super::bound::{Bound, MethodTable};
use super::comparisons::same;
use super::containers::NamedTuple;
use super::creation::{dict_of, set_of};
use super::order::sort;
use super::values::{Args, as_int, call_method, items, list, misuse, required, size, strict_float};
use super::{collections, csv, datetime, functools, io, regex, strings, text};

/// Methods that a lowered call looks up by the type of the object. Sorted. All others are called
/// as they are.
pub const METHODS: &[&str] = &[
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

/// Calls a method of a value: as Python has it, or else as Starlark does.
pub(crate) fn dispatch<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let table = table(this.get_type());
    match table.iter().find(|(names, _)| names.contains(&name)) {
        Some((_, method)) => method(this, name, args, eval),
        None => call_own(this, name, &args, eval),
    }
}

/// Returns the methods of a type that are not Starlark's own.
fn table(class: &str) -> MethodTable {
    match class {
        "string" => strings::TABLE,
        "list" => LIST,
        "tuple" => TUPLE,
        "dict" => DICT,
        "set" => SET,
        "float" => FLOAT,
        "int" => INT,
        "bool" => BOOL,
        "defaultdict" => collections::DICT_LIKE,
        "deque" => collections::DEQUE,
        "chain" => functools::CHAIN,
        "date" | "datetime" | "timedelta" => datetime::TABLE,
        "StringIO" => io::TABLE,
        "csv" => csv::TABLE,
        "function" => functools::TABLE,
        "Pattern" | "Match" => regex::TABLE,
        _ => &[],
    }
}

const LIST: MethodTable = &[
    (&["copy"], |this, _, _, eval| Ok(list(eval.heap(), items(this, eval.heap())?))),
    (&["count"], |this, _, args, eval| count(this, args, eval.heap())),
    (&["extend"], |this, _, args, eval| extend(this, args, eval)),
    (&["index"], |this, _, args, eval| index(this, args, eval.heap())),
    (&["reverse"], |this, _, _, eval| reverse(this, eval.heap())),
    (&["sort"], |this, _, args, eval| sort_list(this, args, eval)),
];

const TUPLE: MethodTable = &[
    (&["count"], |this, _, args, eval| count(this, args, eval.heap())),
    (&["index"], |this, _, args, eval| index(this, args, eval.heap())),
    (&["_asdict", "_replace"], |this, name, args, eval| match this.downcast_ref::<NamedTuple>() {
        Some(tuple) => Ok(tuple.method(name, &args, eval.heap())),
        None => call_own(this, name, &args, eval),
    }),
];

const DICT: MethodTable = &[
    (&["copy"], |this, _, _, eval| Ok(copy_dict(this, eval.heap()))),
    (&["popitem"], |this, _, _, eval| pop_item(this, eval.heap())),
    (&["update"], |this, _, args, eval| update_dict(this, args, eval.heap())),
];

const SET: MethodTable = &[
    (&["copy"], |this, _, _, eval| set_of(&items(this, eval.heap())?, eval)),
    (&["difference_update"], |this, _, args, eval| retain(this, &args, false, eval)),
    (&["intersection_update"], |this, _, args, eval| retain(this, &args, true, eval)),
    (&["isdisjoint"], |this, _, args, eval| is_disjoint(this, &args, eval.heap())),
    (&["update"], |this, _, args, eval| {
        let others = list(eval.heap(), all_items(&args, eval.heap())?);
        call_method(this, "update", &[others], eval)
    }),
    (&["union", "intersection", "difference"], |this, name, args, eval| {
        combine(this, name, &args, eval)
    }),
];

const FLOAT: MethodTable = &[(&["is_integer"], |this, _, _, _| {
    Ok(Value::new_bool(strict_float(this).is_some_and(|float| float.fract() == 0.0)))
})];

const INT: MethodTable = &[
    (&["bit_length"], |this, _, _, eval| Ok(bit_length(this, eval.heap()))),
    (&["is_integer"], |_, _, _, _| Ok(Value::new_bool(true))),
];

const BOOL: MethodTable =
    &[(&["bit_length"], |this, _, _, eval| Ok(bit_length(this, eval.heap())))];

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

fn bit_length<'v>(this: Value<'v>, heap: Heap<'v>) -> Value<'v> {
    let bits = as_int(this).map_or(0, |int| int.bits());
    heap.alloc(i64::try_from(bits).unwrap_or(i64::MAX))
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
    let more = dict_of(args, heap)?;
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
    let others = set_of(&all_items(args, heap)?, eval)?;
    for item in items(this, heap)? {
        if others.is_in(item)? != shared {
            call_method(this, "discard", &[item], eval)?;
        }
    }
    Ok(Value::new_none())
}

/// Combines a set with any number of others. With one, the method is Starlark's own.
fn combine<'v>(
    this: Value<'v>,
    name: &str,
    args: &Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    if args.positional.len() == 1 {
        return call_own(this, name, args, eval);
    }
    let heap = eval.heap();
    let mut total = set_of(&items(this, heap)?, eval)?;
    for other in args.only_positional()? {
        let other = list(heap, items(*other, heap)?);
        total = call_method(total, name, &[other], eval)?;
    }
    Ok(total)
}
