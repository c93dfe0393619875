//! Creates sets and dicts as Python's constructors do.

use std::sync::OnceLock;

use starlark::collections::SmallMap;
use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};
use starlark::eval::Evaluator;
use starlark::values::list::AllocList;
use starlark::values::{FrozenValue, Heap, Value};

use super::values::{Args, as_dict, items, misuse};

/// Creates a set. Fails if an item cannot be hashed.
pub(crate) fn set_of<'v>(
    items: &[Value<'v>],
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let items = eval.heap().alloc(AllocList(items.iter().copied()));
    eval.eval_function(native_set().to_value(), &[items], &[])
}

/// Returns Starlark's own function `set`, the only one that makes sets.
fn native_set() -> FrozenValue {
    static SETS: OnceLock<Globals> = OnceLock::new();
    let sets =
        SETS.get_or_init(|| GlobalsBuilder::extended_by(&[LibraryExtension::SetType]).build());
    let set = sets.iter().find(|(name, _)| *name == "set");
    set.expect("the extension for sets has the function `set`").1
}

/// Creates the content of a dict: from a dict or pairs, and named arguments.
pub(crate) fn dict_of<'v>(
    mut args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<SmallMap<Value<'v>, Value<'v>>> {
    let mut map = SmallMap::new();
    if args.positional.len() > 1 {
        return Err(misuse(format!(
            "dict expected at most 1 argument, got {}",
            args.positional.len()
        )));
    }
    if let Some(first) = args.positional.pop() {
        insert_all(&mut map, first, heap)?;
    }
    for (name, value) in args.named {
        map.insert_hashed(heap.alloc(name).get_hashed()?, value);
    }
    Ok(map)
}

/// Inserts the entries of a dict, or of pairs.
pub(crate) fn insert_all<'v>(
    map: &mut SmallMap<Value<'v>, Value<'v>>,
    from: Value<'v>,
    heap: Heap<'v>,
) -> starlark::Result<()> {
    if let Some(dict) = as_dict(from) {
        for (key, value) in dict.iter_hashed() {
            map.insert_hashed(key, value);
        }
        return Ok(());
    }
    for pair in items(from, heap)? {
        let pair = items(pair, heap)?;
        let [key, value] = pair[..] else {
            return Err(misuse(format!(
                "dictionary update sequence element has length {}; 2 is required",
                pair.len()
            )));
        };
        map.insert_hashed(key.get_hashed()?, value);
    }
    Ok(())
}
