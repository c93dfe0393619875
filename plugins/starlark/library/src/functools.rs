//! `functools`, and the functions that have functions of their own.
//!
//! - `caches`: `lru_cache` and `cache`

mod caches;

use std::fmt;

use allocative::Allocative;
use starlark::environment::GlobalsBuilder;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_module;
use starlark::starlark_simple_value;
use starlark::values::dict::DictRef;
use starlark::values::tuple::UnpackTuple;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    starlark_value,
};

pub(crate) use self::caches::TABLE;
use self::caches::{Cached, Decorator, caching};
use super::bound::{MethodTable, bound};
use super::macros::{never_frozen, shown_as};
use super::order::CmpKey;
use super::values::{Args, call, items, list, misuse, required};

/// The module `functools`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    fn reduce<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(require = pos)] values: Value<'v>,
        #[starlark(require = pos)] initial: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let mut values = items(values, eval.heap())?.into_iter();
        let first = initial.or_else(|| values.next());
        let first =
            first.ok_or_else(|| misuse("reduce() of empty iterable with no initial value"))?;
        values.try_fold(first, |total, item| call(function, &[total, item], eval))
    }

    fn cmp_to_key<'v>(function: Value<'v>, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        Ok(heap.alloc(KeyMaker { function }))
    }

    fn partial<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] positional: UnpackTuple<Value<'v>>,
        #[starlark(kwargs)] named: DictRef<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        let named = named.iter().collect();
        Ok(heap.alloc(Partial { function, positional: positional.items, named }))
    }

    /// Decorates a function so that it keeps its results; `maxsize` is the number kept, or `None`.
    fn lru_cache<'v>(
        maxsize: Option<Value<'v>>,
        typed: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        // The type of an argument always counts here.
        let _ = typed;
        caching(maxsize, heap)
    }

    /// Decorates a function so that it keeps all its results.
    fn cache<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        Ok(heap.alloc(Cached::new(function, None, heap)))
    }

    /// Returns a decorator that leaves its function as it is: functions have no names to copy.
    fn wraps<'v>(
        #[starlark(require = pos)] _function: Value<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        Ok(heap.alloc(Decorator::WRAPS))
    }
}

/// A function with some of its arguments.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct Partial<'v> {
    function: Value<'v>,
    positional: Vec<Value<'v>>,
    named: Vec<(Value<'v>, Value<'v>)>,
}

impl fmt::Display for Partial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "functools.partial({})", self.function)
    }
}

never_frozen!(Partial);

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Partial<'v> {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        "partial".into()
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let args = Args::unpack("partial", arguments, eval.heap())?;
        let positional = [&self.positional[..], &args.positional[..]].concat();
        let mut named: Vec<_> = self
            .named
            .iter()
            .filter_map(|(name, value)| Some((name.unpack_str()?, *value)))
            .filter(|(name, _)| args.named.iter().all(|(later, _)| later != name))
            .collect();
        named.extend(args.named);
        eval.eval_function(self.function, &positional, &named)
    }
}

/// The function that `cmp_to_key` returns: makes a key that compares by a call.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct KeyMaker<'v> {
    function: Value<'v>,
}

shown_as!(KeyMaker<'_> => "<cmp_to_key>");
never_frozen!(KeyMaker);

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for KeyMaker<'v> {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        "cmp_to_key".into()
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let [item] = Args::unpack("cmp_to_key", arguments, heap)?.bind(["object"])?;
        let item = required(item, "object")?;
        Ok(heap.alloc(CmpKey { function: self.function, item }))
    }
}

/// `itertools.chain`, which has `chain.from_iterable`.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Chain;
starlark_simple_value!(Chain);

shown_as!(Chain => "<class 'itertools.chain'>");

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Chain {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        "chain".into()
    }

    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        bound(FromIterable, attribute, FROM_ITERABLE, heap)
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        chain(Args::unpack("chain", arguments, heap)?.only_positional()?, heap)
    }
}

const FROM_ITERABLE: &[&str] = &["from_iterable"];

pub(crate) const CHAIN: MethodTable = &[(FROM_ITERABLE, |_, _, args, eval| {
    let [sequences] = args.bind(["iterable"])?;
    chain(&items(required(sequences, "iterable")?, eval.heap())?, eval.heap())
})];

/// The object of `chain.from_iterable`.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct FromIterable;
starlark_simple_value!(FromIterable);

shown_as!(FromIterable => "chain");

#[starlark_value(type = "chain")]
impl<'v> StarlarkValue<'v> for FromIterable {}

/// Concatenates the items of several sequences.
fn chain<'v>(sequences: &[Value<'v>], heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let mut all = Vec::new();
    for sequence in sequences {
        all.extend(items(*sequence, heap)?);
    }
    Ok(list(heap, all))
}
