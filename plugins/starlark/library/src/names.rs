//! Names that a script imports, and the names of functions, for lowered text.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::{Heap, Value};

use super::values::misuse;
use crate::convert;

#[starlark_module]
pub(crate) fn names(builder: &mut GlobalsBuilder) {
    /// The name that a script imports from a module.
    fn __py_import<'v>(
        from: Value<'v>,
        module: &str,
        name: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        from.get_attr(name, heap)?.ok_or_else(|| {
            let has = from.dir_attr().join(", ");
            misuse(format!("cannot import name `{name}` from `{module}`: it has {has}"))
        })
    }

    /// The name of a function or type, or else the attribute of this name.
    fn __py_title<'v>(
        value: Value<'v>,
        attribute: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        match value.get_type() {
            "function" | "native_function" => Ok(match &*convert::function_name(value) {
                "lambda" => heap.alloc("<lambda>"),
                name => heap.alloc(name),
            }),
            _ => value.get_attr_error(attribute, heap),
        }
    }
}
