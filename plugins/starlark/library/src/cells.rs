//! Cells of names, for lowered text.

use std::cell::RefCell;
use std::fmt;

use allocative::Allocative;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    starlark_value,
};

use super::macros::never_frozen;
use super::values::misuse;

/// The place of a name that more than one function assigns, or an expression.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Cell<'v> {
    #[trace(unsafe_ignore)]
    name: String,
    value: RefCell<Option<Value<'v>>>,
}

impl<'v> Cell<'v> {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), value: RefCell::new(None) }
    }

    pub(crate) fn get(&self) -> Option<Value<'v>> {
        *self.value.borrow()
    }

    pub(crate) fn set(&self, value: Value<'v>) {
        *self.value.borrow_mut() = Some(value);
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<cell of {}>", self.name)
    }
}

#[starlark_value(type = "cell")]
impl<'v> StarlarkValue<'v> for Cell<'v> {
    fn at(&self, _index: Value<'v>, _heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.get().ok_or_else(|| {
            misuse(format!("Local variable `{}` referenced before assignment", self.name))
        })
    }

    fn set_at(&self, _index: Value<'v>, value: Value<'v>) -> starlark::Result<()> {
        self.set(value);
        Ok(())
    }
}

never_frozen!(Cell);
