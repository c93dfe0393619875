//! Comparisons that Starlark has otherwise, for lowered text.

use std::cmp::Ordering;

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::{Heap, Value, ValueLike as _};

use super::class::Type;
use super::creation::set_of;
use super::order::compare_by;
use super::values::{items, number};

/// Comparisons, by the names of their operators.
#[starlark_module]
pub(crate) fn comparisons(builder: &mut GlobalsBuilder) {
    fn __py_is<'v>(a: Value<'v>, b: Value<'v>) -> starlark::Result<bool> {
        // Small values have no identity of their own.
        if a.ptr_eq(b) {
            return Ok(true);
        }
        Ok(has_no_identity(a) && has_no_identity(b) && a.equals(b)?)
    }

    /// Equality where either side may know the other.
    fn __py_eq<'v>(a: Value<'v>, b: Value<'v>) -> starlark::Result<bool> {
        Ok(a.equals(b)? || b.equals(a)?)
    }

    fn __py_ne<'v>(a: Value<'v>, b: Value<'v>) -> starlark::Result<bool> {
        Ok(!a.equals(b)? && !b.equals(a)?)
    }

    /// Whether two collections have the same items, in any order.
    fn __py_eq_keys<'v>(
        a: Value<'v>,
        b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        let a = set_of(&items(a, eval.heap())?, eval)?;
        let b = set_of(&items(b, eval.heap())?, eval)?;
        a.equals(b)
    }

    fn __py_ne_keys<'v>(
        a: Value<'v>,
        b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        let a = set_of(&items(a, eval.heap())?, eval)?;
        let b = set_of(&items(b, eval.heap())?, eval)?;
        Ok(!a.equals(b)?)
    }

    /// Equality where truth values are numbers.
    fn __py_same<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        same(a, b, heap)
    }

    fn __py_differs<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        Ok(!same(a, b, heap)?)
    }

    /// Whether `item` is in a sequence with truth values in it.
    fn __py_among<'v>(item: Value<'v>, all: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        among(item, all, heap)
    }

    fn __py_not_among<'v>(
        item: Value<'v>,
        all: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<bool> {
        Ok(!among(item, all, heap)?)
    }

    fn __py_lt<'v>(
        a: Value<'v>,
        b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        ordered(a, b, "<", eval, |order| order == Ordering::Less)
    }

    fn __py_le<'v>(
        a: Value<'v>,
        b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        ordered(a, b, "<=", eval, Ordering::is_le)
    }

    fn __py_gt<'v>(
        a: Value<'v>,
        b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        ordered(a, b, ">", eval, |order| order == Ordering::Greater)
    }

    fn __py_ge<'v>(
        a: Value<'v>,
        b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<bool> {
        ordered(a, b, ">=", eval, Ordering::is_ge)
    }
}

/// Returns whether two values are equal, truth values being numbers.
pub(super) fn same<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
    number(a, heap).equals(number(b, heap))
}

/// Returns whether `item` is one of `all`, truth values being numbers.
fn among<'v>(item: Value<'v>, all: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
    for other in items(all, heap)? {
        if same(item, other, heap)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares two values. Sets are ordered by inclusion, and some are in no order at all.
fn ordered<'v>(
    a: Value<'v>,
    b: Value<'v>,
    operator: &str,
    eval: &mut Evaluator<'v, '_, '_>,
    test: fn(Ordering) -> bool,
) -> starlark::Result<bool> {
    if a.get_type() != "set" || b.get_type() != "set" {
        return Ok(test(compare_by(a, b, operator, eval.heap())?));
    }
    let size = a.length()?;
    let other = b.length()?;
    let (part, whole) = if size > other { (b, a) } else { (a, b) };
    for item in items(part, eval.heap())? {
        if !whole.is_in(item)? {
            return Ok(false);
        }
    }
    Ok(test(size.cmp(&other)))
}

fn has_no_identity(value: Value<'_>) -> bool {
    matches!(value.get_type(), "string" | "int") || value.downcast_ref::<Type>().is_some()
}
