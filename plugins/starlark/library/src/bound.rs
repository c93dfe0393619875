//! Methods that a script reads from a value without calling them. `methods` calls them.

use std::fmt;

use allocative::Allocative;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, Trace, Value,
};

use super::macros::never_frozen;
use super::text;

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

never_frozen!(Bound);

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
