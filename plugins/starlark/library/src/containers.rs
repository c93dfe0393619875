//! Containers that count as dicts and tuples wherever a value is read. `collections` gives them their behaviour.

use std::sync::Arc;

use allocative::Allocative;
use starlark::values::{NoSerialize, ProvidesStaticType, StarlarkPagablePanic, Trace, Value};

use super::macros::never_frozen;

/// A `Counter` or `defaultdict`: a dict that makes the values that it lacks.
#[derive(
    Debug, Clone, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic,
)]
pub(crate) struct DictLike<'v> {
    /// The dict itself.
    pub(crate) inner: Value<'v>,
    /// The function that makes a value; `None` for a counter, whose values start at 0.
    pub(crate) factory: Option<Value<'v>>,
}

never_frozen!(DictLike);

impl DictLike<'_> {
    /// Returns the name of its type in Python.
    pub(crate) fn type_name(&self) -> &'static str {
        if self.factory.is_some() { "defaultdict" } else { "Counter" }
    }
}

/// The name of a `namedtuple`, and the names of its values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedTupleType {
    pub(crate) name: String,
    pub(crate) fields: Vec<String>,
}

/// A tuple with names.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct NamedTuple<'v> {
    #[trace(unsafe_ignore)]
    #[allocative(skip)]
    pub(crate) shape: Arc<NamedTupleType>,
    pub(crate) values: Vec<Value<'v>>,
}

never_frozen!(NamedTuple);
