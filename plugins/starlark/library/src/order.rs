//! The order of values: comparing, sorting, and the keys of `functools.cmp_to_key`.

use std::cmp::Ordering;

use allocative::Allocative;
use starlark::eval::Evaluator;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    ValueLike as _, starlark_value,
};

use super::macros::{never_frozen, shown_as};
use super::text;
use super::values::{as_slice, call, misuse, number};

/// Compares as Python does: bools are numbers, and the first items that differ decide.
pub(crate) fn compare<'v>(
    a: Value<'v>,
    b: Value<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Ordering> {
    compare_by(a, b, "<", heap)
}

/// Compares two values, and names `operator` if they are in no order.
pub(crate) fn compare_by<'v>(
    a: Value<'v>,
    b: Value<'v>,
    operator: &str,
    heap: Heap<'v>,
) -> starlark::Result<Ordering> {
    if let (Some(x), Some(y)) = (as_slice(a), as_slice(b))
        && a.get_type() == b.get_type()
    {
        for (x, y) in x.iter().zip(y) {
            if !x.equals(*y)? {
                return compare_by(*x, *y, operator, heap);
            }
        }
        return Ok(x.len().cmp(&y.len()));
    }
    number(a, heap).compare(number(b, heap)).map_err(|_| {
        let a = text::type_name(a);
        let b = text::type_name(b);
        misuse(format!("'{operator}' not supported between instances of '{a}' and '{b}'"))
    })
}

/// Sorts by a comparison that may fail, or be inconsistent. Stable.
pub(crate) fn sort_by<T: Copy>(
    items: &mut Vec<T>,
    compare: &mut dyn FnMut(T, T) -> starlark::Result<Ordering>,
) -> starlark::Result<()> {
    if items.len() < 2 {
        return Ok(());
    }
    let mut right = items.split_off(items.len() / 2);
    let mut left = std::mem::take(items);
    sort_by(&mut left, compare)?;
    sort_by(&mut right, compare)?;
    items.reserve(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    let mut right = right.into_iter().peekable();
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let smaller = if compare(*b, *a)? == Ordering::Less { &mut right } else { &mut left };
        items.extend(smaller.next());
    }
    items.extend(left);
    items.extend(right);
    Ok(())
}

/// Sorts items like `sorted`: by `key` if there is one.
pub(crate) fn sort<'v>(
    items: &[Value<'v>],
    key: Option<Value<'v>>,
    reverse: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Vec<Value<'v>>> {
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let key = match key {
            Some(key) => call(key, &[*item], eval)?,
            None => *item,
        };
        keyed.push((key, *item));
    }
    // `functools.cmp_to_key` makes keys that compare by a call.
    sort_by(&mut keyed, &mut |(a, _), (b, _)| {
        let (a, b) = if reverse { (b, a) } else { (a, b) };
        match compared(a, b, eval)? {
            Some(ordering) => Ok(ordering),
            None => compare(a, b, eval.heap()),
        }
    })?;
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

/// A key that compares by a call.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct CmpKey<'v> {
    pub(crate) function: Value<'v>,
    pub(crate) item: Value<'v>,
}

shown_as!(CmpKey<'_> => "<key>");
never_frozen!(CmpKey);

#[starlark_value(type = "key")]
impl<'v> StarlarkValue<'v> for CmpKey<'v> {}

/// Compares two keys of `cmp_to_key`; `None` for other values.
fn compared<'v>(
    a: Value<'v>,
    b: Value<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Option<Ordering>> {
    let (Some(x), Some(y)) = (a.downcast_ref::<CmpKey>(), b.downcast_ref::<CmpKey>()) else {
        return Ok(None);
    };
    let heap = eval.heap();
    let order = number(call(x.function, &[x.item, y.item], eval)?, heap);
    Ok(Some(order.compare(heap.alloc(0))?))
}
