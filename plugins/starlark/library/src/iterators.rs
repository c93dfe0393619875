//! Values that lowered loops and generators go through.

use std::cell::Cell;
use std::fmt;

use allocative::Allocative;
use starlark::starlark_simple_value;
use starlark::values::list::ListRef;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, starlark_value,
};

/// The value of `iter` and of a generator expression: items that are gone through once.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Iter<'v> {
    items: Vec<Value<'v>>,
    #[allocative(skip)]
    #[trace(unsafe_ignore)]
    next: Cell<usize>,
    /// Names of the columns, if the items are the rows of a `csv.DictReader`.
    columns: Option<Value<'v>>,
}

impl<'v> Iter<'v> {
    pub(crate) fn new(items: Vec<Value<'v>>) -> Self {
        Self { items, next: Cell::new(0), columns: None }
    }

    /// Creates the rows of a `csv.DictReader`.
    pub(crate) fn of_rows(rows: Vec<Value<'v>>, columns: Value<'v>) -> Self {
        Self { columns: Some(columns), ..Self::new(rows) }
    }

    /// Takes the next item.
    pub(crate) fn take(&self) -> Option<Value<'v>> {
        let item = self.items.get(self.next.get()).copied();
        self.next.set(self.next.get() + usize::from(item.is_some()));
        item
    }

    /// Takes all items that are left.
    pub(crate) fn rest(&self) -> Vec<Value<'v>> {
        self.items[self.next.replace(self.items.len())..].to_vec()
    }
}

impl fmt::Display for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<generator object>")
    }
}

#[starlark_value(type = "generator")]
impl<'v> StarlarkValue<'v> for Iter<'v> {
    fn get_attr(&self, attribute: &str, _heap: Heap<'v>) -> Option<Value<'v>> {
        self.columns.filter(|_| attribute == "fieldnames")
    }

    fn iterate_collect(&self, _heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        Ok(self.rest())
    }

    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        while let Some(item) = self.take() {
            if item.equals(other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'v> AllocValue<'v> for Iter<'v> {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

/// The items of a list while a loop's body may change it, or of an iterator.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Live<'v> {
    pub(crate) items: Value<'v>,
}

impl fmt::Display for Live<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<iterator>")
    }
}

#[starlark_value(type = "iterator")]
impl<'v> StarlarkValue<'v> for Live<'v> {
    unsafe fn iterate(&self, me: Value<'v>, _heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(me)
    }

    unsafe fn iter_next(&self, index: usize, _heap: Heap<'v>) -> Option<Value<'v>> {
        use starlark::values::ValueLike as _;
        match self.items.downcast_ref::<Iter>() {
            Some(iter) => iter.take(),
            None => ListRef::from_value(self.items)?.content().get(index).copied(),
        }
    }

    unsafe fn iter_size_hint(&self, _index: usize) -> (usize, Option<usize>) {
        (0, None)
    }

    unsafe fn iter_stop(&self) {}
}

impl<'v> AllocValue<'v> for Live<'v> {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

/// A sequence without end, for `while`. The fuel of the run bounds it.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Forever;
starlark_simple_value!(Forever);

impl fmt::Display for Forever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<while>")
    }
}

#[starlark_value(type = "iterator")]
impl<'v> StarlarkValue<'v> for Forever {
    unsafe fn iterate(&self, me: Value<'v>, _heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(me)
    }

    unsafe fn iter_next(&self, _index: usize, _heap: Heap<'v>) -> Option<Value<'v>> {
        Some(Value::new_none())
    }

    unsafe fn iter_size_hint(&self, _index: usize) -> (usize, Option<usize>) {
        (0, None)
    }

    unsafe fn iter_stop(&self) {}
}
