//! The functions that lowered text calls. Their names begin with `__py_`.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::dict::{Dict, DictMut, DictRef};
use starlark::values::list::ListRef;
use starlark::values::none::NoneType;
use starlark::values::tuple::{AllocTuple, UnpackTuple};
use starlark::values::{Heap, Value, ValueLike as _};

use super::cells::Cell;
use super::class::Type;
use super::containers::DictLike;
use super::creation::{insert_all, set_of};
use super::iterators::{Forever, Iter, Live};
use super::values::{
    Args, as_dict, as_float, as_int, as_slice, call, call_method, items, list, misuse, number, size,
};
use super::{format, methods, numbers, text, types};

/// Names and scopes.
#[starlark_module]
pub(crate) fn names(builder: &mut GlobalsBuilder) {
    const __py_forever: Forever = Forever;

    fn __py_cell<'v>(name: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        Ok(heap.alloc(Cell::new(name)))
    }

    /// Assigns in an expression.
    fn __py_set<'v>(cell: Value<'v>, value: Value<'v>) -> anyhow::Result<Value<'v>> {
        if let Some(cell) = cell.downcast_ref::<Cell>() {
            cell.set(value);
        }
        Ok(value)
    }

    fn __py_unbox<'v>(cell: Value<'v>) -> anyhow::Result<Value<'v>> {
        Ok(cell.downcast_ref::<Cell>().and_then(Cell::get).unwrap_or(Value::new_none()))
    }

    fn __py_raise<'v>(
        class: &str,
        #[starlark(args)] arguments: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<NoneType> {
        Err(misuse(match arguments.items.first() {
            None => class.to_owned(),
            Some(first) => format!("{class}: {}", text::str(*first, heap)),
        }))
    }
}

/// Sequences.
#[starlark_module]
pub(crate) fn sequences(builder: &mut GlobalsBuilder) {
    /// Returns what a comprehension or an assignment goes through.
    fn __py_seq<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match value.get_type() {
            "string" | "generator" => Ok(list(heap, items(value, heap)?)),
            _ => Ok(value),
        }
    }

    /// Returns what a loop goes through: a list as it changes, and the keys that a dict had.
    fn __py_live<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match value.get_type() {
            "list" | "generator" => Ok(heap.alloc(Live { items: value })),
            "string" | "dict" | "set" => Ok(list(heap, items(value, heap)?)),
            _ => Ok(value),
        }
    }

    fn __py_gen<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(Iter::new(items(value, heap)?)))
    }

    fn __py_set_of<'v>(
        value: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        set_of(&items(value, eval.heap())?, eval)
    }

    fn __py_tuple<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(AllocTuple(items(value, heap)?)))
    }

    /// Unpacks to `before` items, a list of those between, and `after` items.
    fn __py_unpack<'v>(
        value: Value<'v>,
        before: i32,
        after: i32,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let all = items(value, heap)?;
        let before = before.unsigned_abs() as usize;
        let after = after.unsigned_abs() as usize;
        if all.len() < before + after {
            return Err(misuse(format!(
                "not enough values to unpack (expected at least {}, got {})",
                before + after,
                all.len()
            )));
        }
        let (head, rest) = all.split_at(before);
        let (middle, tail) = rest.split_at(rest.len() - after);
        let middle = list(heap, middle.iter().copied());
        let parts = head.iter().copied().chain([middle]).chain(tail.iter().copied());
        Ok(list(heap, parts))
    }

    fn __py_concat<'v>(
        #[starlark(args)] parts: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut all = Vec::new();
        for part in parts.items {
            all.extend(items(part, heap)?);
        }
        Ok(list(heap, all))
    }

    fn __py_merge<'v>(
        #[starlark(args)] parts: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut map = SmallMap::new();
        for part in parts.items {
            if as_dict(part).is_none() {
                return Err(misuse(format!("'{}' object is not a mapping", text::type_name(part))));
            }
            insert_all(&mut map, part, heap)?;
        }
        Ok(heap.alloc(Dict::new(map)))
    }

    /// Whether a pattern of a sequence with `least` items, or so many and more, fits.
    fn __py_fits<'v>(value: Value<'v>, least: i32, exact: bool) -> starlark::Result<bool> {
        if !matches!(value.get_type(), "list" | "tuple" | "range" | "deque") {
            return Ok(false);
        }
        let length = value.length()?;
        Ok(if exact { length == least } else { length >= least })
    }

    /// Whether a value is a dict with these keys.
    fn __py_maps<'v>(
        value: Value<'v>,
        #[starlark(args)] keys: UnpackTuple<Value<'v>>,
    ) -> starlark::Result<bool> {
        let Some(dict) = as_dict(value) else { return Ok(false) };
        for key in keys.items {
            if dict.get(key)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The entries of a dict except for some keys.
    fn __py_without<'v>(
        value: Value<'v>,
        #[starlark(args)] keys: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut map = SmallMap::new();
        insert_all(&mut map, value, heap)?;
        for key in keys.items {
            map.shift_remove_hashed(key.get_hashed()?.as_ref());
        }
        Ok(heap.alloc(Dict::new(map)))
    }

    /// `value[key]` where a value may be made by a function.
    fn __py_at<'v>(
        value: Value<'v>,
        key: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        match value.downcast_ref::<DictLike>() {
            Some(like) => like.get_or_make(key, eval),
            // Truth values are positions, except in a dict, where they are keys.
            None if as_dict(value).is_none() => value.at(number(key, eval.heap()), eval.heap()),
            None => value.at(key, eval.heap()),
        }
    }

    /// `del value[key]`.
    fn __py_del<'v>(
        value: Value<'v>,
        key: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let inner = value.downcast_ref::<DictLike>().map_or(value, |like| like.inner);
        if DictRef::from_value(inner).is_some() {
            let removed = DictMut::from_value(inner)?.aref.remove_hashed(key.get_hashed()?);
            return removed.ok_or_else(|| misuse(format!("KeyError: {}", text::repr(key))));
        }
        call_method(inner, "pop", &[key], eval)
    }

    /// `value[start:stop:step] = new`.
    fn __py_set_slice<'v>(
        value: Value<'v>,
        start: Value<'v>,
        stop: Value<'v>,
        step: Value<'v>,
        new: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let heap = eval.heap();
        let Some(content) = ListRef::from_value(value).map(|list| list.content().to_vec()) else {
            return Err(misuse(format!(
                "a slice of {} cannot be assigned",
                text::type_name(value)
            )));
        };
        let length = i64::try_from(content.len()).unwrap_or(i64::MAX);
        let step = if step.is_none() { 1 } else { size(step, "slice step")? };
        let from = slice_bound(start, 0, length)?;
        let to = slice_bound(stop, length, length)?;
        let new = items(new, heap)?;
        if step < 1 || step != 1 && !new.is_empty() {
            return Err(misuse("a slice with a step cannot be assigned: use a loop"));
        }
        let mut all = Vec::new();
        for (at, item) in (0..).zip(content) {
            if at == from {
                all.extend(new.iter().copied());
            }
            let is_replaced = (from..to).contains(&at) && (at - from) % step == 0;
            if !is_replaced {
                all.push(item);
            }
        }
        if from >= length {
            all.extend(new);
        }
        call_method(value, "clear", &[], eval)?;
        call_method(value, "extend", &[list(heap, all)], eval)?;
        Ok(NoneType)
    }
}

/// Generator expressions that end early.
#[starlark_module]
pub(crate) fn lazily(builder: &mut GlobalsBuilder) {
    fn __py_any_of<'v>(
        values: Value<'v>,
        test: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        for item in items(values, eval.heap())? {
            if call(test, &[item], eval)?.to_bool() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn __py_all_of<'v>(
        values: Value<'v>,
        test: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        for item in items(values, eval.heap())? {
            if !call(test, &[item], eval)?.to_bool() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the first result that is not `None`: a tuple with the item.
    fn __py_first_of<'v>(
        values: Value<'v>,
        find: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        for item in items(values, eval.heap())? {
            let found = call(find, &[item], eval)?;
            if !found.is_none() {
                return Ok(found);
            }
        }
        Ok(Value::new_none())
    }

    fn __py_next_of<'v>(
        found: Value<'v>,
        default: Option<Value<'v>>,
    ) -> starlark::Result<Value<'v>> {
        match (as_slice(found), default) {
            (Some([found]), _) => Ok(*found),
            (_, Some(default)) => Ok(default),
            _ => {
                Err(misuse("StopIteration: there is no next item; give a default: `next(…, None)`"))
            }
        }
    }
}

/// Operators and text.
#[starlark_module]
pub(crate) fn operators(builder: &mut GlobalsBuilder) {
    fn __py_num<'v>(value: Value<'v>, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        Ok(number(value, heap))
    }

    fn __py_neg<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        number(value, heap).minus(heap)
    }

    fn __py_percent<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match a.unpack_str() {
            Some(template) => Ok(heap.alloc(format::percent(template, b, heap)?)),
            None => number(a, heap).percent(number(b, heap), heap),
        }
    }

    fn __py_pow<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        numbers::power(a, b, heap)
    }

    /// Joins the parts of an f-string.
    fn __py_cat<'v>(
        #[starlark(args)] parts: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        if let [only] = parts.items[..]
            && only.unpack_str().is_some()
        {
            return Ok(only);
        }
        let mut out = String::new();
        for part in &parts.items {
            match part.unpack_str() {
                Some(text) => out.push_str(text),
                None => out.push_str(&text::str(*part, heap)),
            }
        }
        Ok(heap.alloc(out))
    }

    fn __py_repr<'v>(value: Value<'v>, heap: Heap<'v>) -> anyhow::Result<String> {
        Ok(text::repr_in(value, heap))
    }

    fn __py_ascii<'v>(value: Value<'v>, heap: Heap<'v>) -> anyhow::Result<String> {
        Ok(text::ascii(&text::repr_in(value, heap)))
    }

    fn __py_format<'v>(value: Value<'v>, spec: &str, heap: Heap<'v>) -> starlark::Result<String> {
        format::format(value, spec, heap)
    }

    /// Calls a method by the type of its object.
    fn __py_method<'v>(
        #[starlark(require = pos)] this: Value<'v>,
        #[starlark(require = pos)] name: &str,
        #[starlark(args)] positional: UnpackTuple<Value<'v>>,
        #[starlark(kwargs)] named: DictRef<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let named: Vec<_> =
            named.iter().filter_map(|(name, value)| Some((name.unpack_str()?, value))).collect();
        methods::dispatch(this, name, Args::new("method", positional.items, named), eval)
    }
}

/// Built-in functions that look at values.
#[starlark_module]
pub(crate) fn inspection(builder: &mut GlobalsBuilder) {
    const int: Type = Type { name: "int" };
    const float: Type = Type { name: "float" };
    const str: Type = Type { name: "str" };
    const bool: Type = Type { name: "bool" };
    const list: Type = Type { name: "list" };
    const dict: Type = Type { name: "dict" };
    const set: Type = Type { name: "set" };
    const frozenset: Type = Type { name: "frozenset" };
    const tuple: Type = Type { name: "tuple" };
    const object: Type = Type { name: "object" };
    const r#type: Type = Type { name: "type" };

    /// The value as Python code.
    fn repr<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<String> {
        Ok(text::repr_in(value, heap))
    }

    /// The value as Python code, in ASCII.
    fn ascii<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<String> {
        Ok(text::ascii(&text::repr_in(value, heap)))
    }

    /// Formats a value: `format(2.5, ".2f")`.
    fn format<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        #[starlark(require = pos, default = "")] spec: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        format::format(value, spec, heap)
    }

    /// Whether a value is of a type, or of one in a tuple of types.
    fn isinstance<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        #[starlark(require = pos)] class: Value<'v>,
    ) -> starlark::Result<bool> {
        types::is_instance(value, class)
    }

    /// Whether a value can be called.
    fn callable<'v>(#[starlark(require = pos)] value: Value<'v>) -> anyhow::Result<bool> {
        Ok(matches!(
            value.get_type(),
            "function" | "native_function" | "tool" | "type" | "namedtuple"
        ))
    }

    /// An iterator over the items, for `next`.
    fn iter<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        match values.get_type() {
            "generator" => Ok(values),
            _ => Ok(heap.alloc(Iter::new(items(values, heap)?))),
        }
    }

    /// The next item of an iterator.
    fn next<'v>(
        #[starlark(require = pos)] iterator: Value<'v>,
        #[starlark(require = pos)] default: Option<Value<'v>>,
    ) -> starlark::Result<Value<'v>> {
        let Some(iter) = iterator.downcast_ref::<Iter>() else {
            let name = text::type_name(iterator);
            return Err(misuse(format!(
                "'{name}' object is not an iterator: write `next(iter(…))`"
            )));
        };
        iter.take().or(default).ok_or_else(|| misuse("StopIteration: there is no next item"))
    }

    /// A number in base 2.
    fn bin<'v>(
        #[starlark(require = pos)] number: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        radix(number, "#b", heap)
    }

    /// A number in base 8.
    fn oct<'v>(
        #[starlark(require = pos)] number: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        radix(number, "#o", heap)
    }

    /// A number in base 16.
    fn hex<'v>(
        #[starlark(require = pos)] number: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        radix(number, "#x", heap)
    }
}

fn radix<'v>(number: Value<'v>, spec: &str, heap: Heap<'v>) -> starlark::Result<String> {
    let int = as_int(number).ok_or_else(|| {
        misuse(format!("'{}' object cannot be interpreted as an integer", text::type_name(number)))
    })?;
    format::format(heap.alloc(int), spec, heap)
}

/// Returns a number for functions of floats.
pub(crate) fn real(value: Value<'_>) -> starlark::Result<f64> {
    as_float(value)
        .ok_or_else(|| misuse(format!("must be real number, not {}", text::type_name(value))))
}

/// Returns the position that a bound of a slice stands for in a list of this length.
fn slice_bound(bound: Value<'_>, default: i64, length: i64) -> starlark::Result<i64> {
    if bound.is_none() {
        return Ok(default);
    }
    let at = size(bound, "slice index")?;
    Ok((if at < 0 { at + length } else { at }).clamp(0, length))
}
