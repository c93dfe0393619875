//! Values that lowered loops and generators go through.

use std::cell::Cell;

use allocative::Allocative;
use starlark::starlark_simple_value;
use starlark::values::list::ListRef;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    starlark_value,
};

use super::macros::{never_frozen, shown_as};

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

shown_as!(Iter<'_> => "<generator object>");

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

never_frozen!(Iter);

/// The items of a list while a loop's body may change it, or of an iterator.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Live<'v> {
    pub(crate) items: Value<'v>,
}

shown_as!(Live<'_> => "<iterator>");

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

never_frozen!(Live);

/// A sequence without end, for `while`. The fuel of the run bounds it.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Forever;
starlark_simple_value!(Forever);

shown_as!(Forever => "<while>");

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
