//! Tables of methods, and methods that a script reads from a value without calling them. `methods` calls both.

use std::fmt;

use allocative::Allocative;
use starlark::eval::Evaluator;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, Trace, Value,
};

use super::macros::never_frozen;
use super::text;
use super::values::Args;

/// The methods of a type that Starlark lacks or has otherwise: names, and the function for them.
pub(crate) type MethodTable = &'static [(&'static [&'static str], Method)];

/// A function for methods: takes the object, the name of the called method and its arguments.
type Method = for<'v> fn(
    Value<'v>,
    &str,
    Args<'v>,
    &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>>;

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
