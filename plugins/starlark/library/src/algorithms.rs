//! `heapq`, `bisect` and `copy`.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::dict::AllocDict;
use starlark::values::list::ListRef;
use starlark::values::none::{NoneOr, NoneType};
use starlark::values::{Heap, Value};

use super::numbers::count;
use super::order::{compare, sort};
use super::values::{Args, as_slice, call, call_method, items, list, misuse};
use super::{creation::set_of, text::MAX_DEPTH};
use super::{methods, text};

/// The module `heapq`.
#[starlark_module]
pub(crate) fn heapq(builder: &mut GlobalsBuilder) {
    fn heappush<'v>(
        heap: Value<'v>,
        item: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        call_method(heap, "append", &[item], eval)?;
        let mut all = content(heap)?;
        let last = all.len() - 1;
        rise(&mut all, 0, last, eval.heap())?;
        store(heap, &all, eval.heap())
    }

    fn heappop<'v>(
        heap: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let last = call_method(heap, "pop", &[], eval)?;
        let mut all = content(heap)?;
        let Some(first) = all.first_mut() else { return Ok(last) };
        let least = std::mem::replace(first, last);
        sink(&mut all, 0, eval.heap())?;
        store(heap, &all, eval.heap())?;
        Ok(least)
    }

    fn heapify<'v>(
        heap: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let mut all = content(heap)?;
        for at in (0..all.len() / 2).rev() {
            sink(&mut all, at, eval.heap())?;
        }
        store(heap, &all, eval.heap())
    }

    fn heapreplace<'v>(
        heap: Value<'v>,
        item: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let mut all = content(heap)?;
        let first = all.first_mut().ok_or_else(|| misuse("index out of range"))?;
        let least = std::mem::replace(first, item);
        sink(&mut all, 0, eval.heap())?;
        store(heap, &all, eval.heap())?;
        Ok(least)
    }

    fn heappushpop<'v>(
        heap: Value<'v>,
        item: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let mut all = content(heap)?;
        match all.first_mut() {
            Some(first) if compare(*first, item, eval.heap())?.is_lt() => {
                let least = std::mem::replace(first, item);
                sink(&mut all, 0, eval.heap())?;
                store(heap, &all, eval.heap())?;
                Ok(least)
            }
            _ => Ok(item),
        }
    }

    fn nlargest<'v>(
        n: Value<'v>,
        iterable: Value<'v>,
        key: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        first(n, iterable, key, true, eval)
    }

    fn nsmallest<'v>(
        n: Value<'v>,
        iterable: Value<'v>,
        key: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        first(n, iterable, key, false, eval)
    }
}

fn first<'v>(
    n: Value<'v>,
    values: Value<'v>,
    key: Option<NoneOr<Value<'v>>>,
    reverse: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let values = items(values, eval.heap())?;
    let sorted = sort(&values, key.and_then(NoneOr::into_option), reverse, eval)?;
    Ok(list(eval.heap(), sorted.into_iter().take(count(n, "n")?)))
}

fn content(heap: Value<'_>) -> starlark::Result<Vec<Value<'_>>> {
    let list = ListRef::from_value(heap).ok_or_else(|| misuse("a heap is a list"))?;
    Ok(list.content().to_vec())
}

fn store<'v>(heap: Value<'v>, all: &[Value<'v>], values: Heap<'v>) -> starlark::Result<NoneType> {
    for (at, item) in all.iter().enumerate() {
        heap.set_at(values.alloc(at), *item)?;
    }
    Ok(NoneType)
}

/// Moves the item at `at` towards `top` until its parent is smaller, as `CPython` does.
fn rise<'v>(
    all: &mut [Value<'v>],
    top: usize,
    mut at: usize,
    heap: Heap<'v>,
) -> starlark::Result<()> {
    while at > top {
        let parent = (at - 1) / 2;
        if !compare(all[at], all[parent], heap)?.is_lt() {
            break;
        }
        all.swap(at, parent);
        at = parent;
    }
    Ok(())
}

/// Moves the item at `top` down to a leaf along the smaller children, and up again to its place.
fn sink<'v>(all: &mut [Value<'v>], top: usize, heap: Heap<'v>) -> starlark::Result<()> {
    let mut at = top;
    loop {
        let left = 2 * at + 1;
        if left >= all.len() {
            return rise(all, top, at, heap);
        }
        let right = left + 1;
        let smaller = if right < all.len() && !compare(all[left], all[right], heap)?.is_lt() {
            right
        } else {
            left
        };
        all.swap(at, smaller);
        at = smaller;
    }
}

/// The module `bisect`.
#[starlark_module]
pub(crate) fn bisect(builder: &mut GlobalsBuilder) {
    fn bisect_left<'v>(
        a: Value<'v>,
        x: Value<'v>,
        #[starlark(require = named)] key: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<i32> {
        place(a, x, key, false, eval)
    }

    fn bisect_right<'v>(
        a: Value<'v>,
        x: Value<'v>,
        #[starlark(require = named)] key: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<i32> {
        place(a, x, key, true, eval)
    }

    fn bisect<'v>(
        a: Value<'v>,
        x: Value<'v>,
        #[starlark(require = named)] key: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<i32> {
        place(a, x, key, true, eval)
    }

    fn insort<'v>(
        a: Value<'v>,
        x: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let at = place(a, x, None, true, eval)?;
        call_method(a, "insert", &[eval.heap().alloc(at), x], eval)
    }
}

/// Returns where to insert `wanted` into a sorted list, after equal items with `after`.
fn place<'v>(
    sorted: Value<'v>,
    wanted: Value<'v>,
    key: Option<NoneOr<Value<'v>>>,
    after: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<i32> {
    let all = items(sorted, eval.heap())?;
    let key = key.and_then(NoneOr::into_option);
    let mut low = 0;
    let mut high = all.len();
    while low < high {
        let middle = usize::midpoint(low, high);
        let item = key.map_or(Ok(all[middle]), |key| call(key, &[all[middle]], eval))?;
        let order = compare(item, wanted, eval.heap())?;
        if order.is_lt() || after && order.is_eq() { low = middle + 1 } else { high = middle }
    }
    Ok(i32::try_from(low).unwrap_or(i32::MAX))
}

/// The module `copy`.
#[starlark_module]
pub(crate) fn copy(builder: &mut GlobalsBuilder) {
    fn copy<'v>(x: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        match x.get_type() {
            "list" | "dict" | "set" | "defaultdict" | "deque" => {
                methods::dispatch(x, "copy", Args::new("copy", Vec::new(), Vec::new()), eval)
            }
            _ => Ok(x),
        }
    }

    fn deepcopy<'v>(x: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        deep(x, 0, eval)
    }
}

fn deep<'v>(
    value: Value<'v>,
    depth: usize,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    if depth > MAX_DEPTH {
        return Err(misuse(format!(
            "deepcopy: more than {MAX_DEPTH} levels, or it contains itself"
        )));
    }
    let heap = eval.heap();
    match value.get_type() {
        "list" => {
            let all = as_slice(value).unwrap_or_default().to_vec();
            let all: Vec<_> = all
                .into_iter()
                .map(|item| deep(item, depth + 1, eval))
                .collect::<Result<_, _>>()?;
            Ok(list(heap, all))
        }
        "dict" => {
            let entries: Vec<_> =
                super::values::as_dict(value).iter().flat_map(|dict| dict.iter()).collect();
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(key, item)| Ok((key, deep(item, depth + 1, eval)?)))
                .collect::<starlark::Result<_>>()?;
            Ok(heap.alloc(AllocDict(entries)))
        }
        "set" => set_of(&items(value, heap)?, eval),
        // What cannot change needs no copy.
        "tuple" | "string" | "int" | "float" | "bool" | "NoneType" | "date" | "datetime"
        | "function" => Ok(value),
        _ => Err(misuse(format!("deepcopy has no copy of a {}", text::type_name(value)))),
    }
}
