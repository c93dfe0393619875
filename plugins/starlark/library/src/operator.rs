//! `operator`.

use std::fmt;

use allocative::Allocative;
use starlark::environment::GlobalsBuilder;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_module;
use starlark::values::tuple::{AllocTuple, UnpackTuple};
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    starlark_value,
};

use super::macros::never_frozen;
use super::numbers::power;
use super::order::compare;
use super::values::{Args, number, required};

/// The module `operator`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    fn itemgetter<'v>(
        #[starlark(args)] keys: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        Ok(heap.alloc(Getter { keys: keys.items, attribute: false }))
    }

    fn attrgetter<'v>(
        #[starlark(args)] keys: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        Ok(heap.alloc(Getter { keys: keys.items, attribute: true }))
    }

    fn add<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        number(a, heap).add(number(b, heap), heap)
    }

    fn sub<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        a.sub(b, heap)
    }

    fn mul<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        a.mul(b, heap)
    }

    fn truediv<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        a.div(b, heap)
    }

    fn floordiv<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        a.floor_div(b, heap)
    }

    fn r#mod<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        a.percent(b, heap)
    }

    fn pow<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        power(a, b, heap)
    }

    fn eq<'v>(a: Value<'v>, b: Value<'v>) -> starlark::Result<bool> {
        a.equals(b)
    }

    fn ne<'v>(a: Value<'v>, b: Value<'v>) -> starlark::Result<bool> {
        Ok(!a.equals(b)?)
    }

    fn lt<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        Ok(compare(a, b, heap)?.is_lt())
    }

    fn gt<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        Ok(compare(a, b, heap)?.is_gt())
    }

    fn le<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        Ok(compare(a, b, heap)?.is_le())
    }

    fn ge<'v>(a: Value<'v>, b: Value<'v>, heap: Heap<'v>) -> starlark::Result<bool> {
        Ok(compare(a, b, heap)?.is_ge())
    }

    fn contains<'v>(a: Value<'v>, b: Value<'v>) -> starlark::Result<bool> {
        a.is_in(b)
    }
}

/// The function that `itemgetter` and `attrgetter` return.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct Getter<'v> {
    keys: Vec<Value<'v>>,
    #[trace(unsafe_ignore)]
    attribute: bool,
}

impl fmt::Display for Getter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.attribute { "<attrgetter>" } else { "<itemgetter>" })
    }
}

never_frozen!(Getter);

impl<'v> Getter<'v> {
    fn get(
        &self,
        object: Value<'v>,
        key: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        match key.unpack_str().filter(|_| self.attribute) {
            Some(path) => {
                path.split('.').try_fold(object, |value, name| value.get_attr_error(name, heap))
            }
            None => object.at(key, heap),
        }
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Getter<'v> {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        self.to_string()
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let [object] = Args::unpack("itemgetter", arguments, heap)?.bind(["object"])?;
        let object = required(object, "object")?;
        match &self.keys[..] {
            [only] => self.get(object, *only, heap),
            several => {
                let values = several.iter().map(|key| self.get(object, *key, heap));
                let values = values.collect::<starlark::Result<Vec<_>>>()?;
                Ok(heap.alloc(AllocTuple(values)))
            }
        }
    }
}
