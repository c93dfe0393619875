//! Functions that keep their results.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocative::Allocative;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_simple_value;
use starlark::values::dict::{AllocDict, DictMut, DictRef};
use starlark::values::structs::AllocStruct;
use starlark::values::tuple::AllocTuple;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    ValueLike as _, starlark_value,
};

use super::super::bound::{MethodTable, bound};
use super::super::macros::never_frozen;
use super::super::numbers::count;
use super::super::values::{Args, misuse, required};

/// Results that `lru_cache` keeps if the script does not say how many.
const KEPT: usize = 128;

const METHODS: &[&str] = &["cache_clear", "cache_info"];

pub(crate) const TABLE: MethodTable =
    &[(METHODS, |this, name, _, eval| method(this, name, eval.heap()))];

/// Returns what `lru_cache(maxsize)` returns: a decorator, or the decorated function if the argument
/// is one.
pub(super) fn caching<'v>(
    maxsize: Option<Value<'v>>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let kept = match maxsize {
        None => Some(KEPT),
        Some(none) if none.is_none() => None,
        Some(function) if function.get_type() == "function" => {
            return Ok(heap.alloc(Cached::new(function, Some(KEPT), heap)));
        }
        Some(maxsize) => Some(count(maxsize, "maxsize")?),
    };
    Ok(heap.alloc(Decorator { caches: true, kept }))
}

/// The decorator that `lru_cache()` or `wraps()` returns.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(super) struct Decorator {
    /// True if the function keeps its results; otherwise it is not changed.
    caches: bool,
    /// Results to keep; `None` for all.
    kept: Option<usize>,
}
starlark_simple_value!(Decorator);

impl Decorator {
    /// The decorator that changes nothing.
    pub(super) const WRAPS: Self = Self { caches: false, kept: None };

    fn name(&self) -> &'static str {
        if self.caches { "lru_cache" } else { "wraps" }
    }
}

impl fmt::Display for Decorator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.name())
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Decorator {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        self.name().into()
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let [function] = Args::unpack(self.name(), arguments, heap)?.bind(["function"])?;
        let function = required(function, "function")?;
        if self.caches {
            Ok(heap.alloc(Cached::new(function, self.kept, heap)))
        } else {
            Ok(function)
        }
    }
}

/// Calls that found a result, and those that did not.
#[derive(Debug, Default)]
struct CacheCounts {
    hits: usize,
    misses: usize,
}

/// A function that keeps its results.
#[derive(
    Debug, Clone, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic,
)]
pub(super) struct Cached<'v> {
    function: Value<'v>,
    /// A dict from arguments to results, the latest used last.
    results: Value<'v>,
    /// Results to keep; `None` for all.
    #[trace(unsafe_ignore)]
    kept: Option<usize>,
    #[allocative(skip)]
    #[trace(unsafe_ignore)]
    counts: Arc<Mutex<CacheCounts>>,
}

impl<'v> Cached<'v> {
    pub(super) fn new(function: Value<'v>, kept: Option<usize>, heap: Heap<'v>) -> Self {
        let results = heap.alloc(AllocDict::EMPTY);
        Self { function, results, kept, counts: Arc::default() }
    }

    fn counts(&self) -> MutexGuard<'_, CacheCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result that is kept for these arguments.
    fn find(&self, key: Value<'v>) -> starlark::Result<Option<Value<'v>>> {
        let found =
            DictRef::from_value(self.results).map(|dict| dict.get(key)).transpose()?.flatten();
        let Some(found) = found else {
            self.counts().misses += 1;
            return Ok(None);
        };
        self.counts().hits += 1;
        if self.kept.is_some() {
            let mut dict = DictMut::from_value(self.results)?;
            let key = key.get_hashed()?;
            dict.aref.remove_hashed(key);
            dict.aref.insert_hashed(key, found);
        }
        Ok(Some(found))
    }

    fn keep(&self, key: Value<'v>, result: Value<'v>) -> starlark::Result<()> {
        let mut dict = DictMut::from_value(self.results)?;
        dict.aref.insert_hashed(key.get_hashed()?, result);
        if self.kept.is_some_and(|kept| dict.aref.len() > kept) {
            let oldest = dict.aref.iter_hashed().next().map(|(key, _)| key);
            oldest.map(|key| dict.aref.remove_hashed(key));
        }
        Ok(())
    }
}

impl fmt::Display for Cached<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.function, f)
    }
}

never_frozen!(Cached);

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Cached<'v> {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        "lru_cache".into()
    }

    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "__wrapped__" => Some(self.function),
            _ => bound(self.clone(), attribute, METHODS, heap),
        }
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let Args { positional, named, .. } = Args::unpack("lru_cache", arguments, heap)?;
        let names = named.iter().flat_map(|(name, value)| [heap.alloc(*name), *value]);
        let parts = [heap.alloc(positional.len())].into_iter().chain(positional.iter().copied());
        let key = heap.alloc(AllocTuple(parts.chain(names).collect::<Vec<_>>()));
        if let Some(found) = self.find(key)? {
            return Ok(found);
        }
        let result = eval.eval_function(self.function, &positional, &named)?;
        self.keep(key, result)?;
        Ok(result)
    }
}

/// Calls a method of a function that keeps its results.
fn method<'v>(this: Value<'v>, name: &str, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let cached = this
        .downcast_ref::<Cached>()
        .ok_or_else(|| misuse(format!("a function without `lru_cache` has no `{name}`")))?;
    if name == "cache_clear" {
        DictMut::from_value(cached.results)?.aref.clear();
        *cached.counts() = CacheCounts::default();
        return Ok(Value::new_none());
    }
    let CacheCounts { hits, misses } = *cached.counts();
    let size = DictRef::from_value(cached.results).map_or(0, |dict| dict.len());
    let kept = cached.kept.map_or(Value::new_none(), |kept| heap.alloc(kept));
    let fields = [("hits", heap.alloc(hits)), ("misses", heap.alloc(misses)), ("maxsize", kept)];
    Ok(heap.alloc(AllocStruct(fields.into_iter().chain([("currsize", heap.alloc(size))]))))
}
