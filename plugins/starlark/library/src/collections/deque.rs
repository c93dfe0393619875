//! `deque`.

use std::fmt;

use allocative::Allocative;
use starlark::eval::Evaluator;
use starlark::values::list::ListRef;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    ValueLike as _, starlark_value,
};

use super::super::bound::bound;
use super::super::macros::never_frozen;
use super::super::text;
use super::super::values::{Args, call_method, items, list, misuse, required, size};

/// A list that changes at both ends.
#[derive(
    Debug, Clone, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic,
)]
pub(crate) struct Deque<'v> {
    /// The list itself.
    inner: Value<'v>,
    #[trace(unsafe_ignore)]
    maxlen: Option<usize>,
}

pub(super) const METHODS: &[&str] = &[
    "append",
    "appendleft",
    "copy",
    "count",
    "extend",
    "extendleft",
    "popleft",
    "reverse",
    "rotate",
];

impl fmt::Display for Deque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = text::repr(self.inner);
        match self.maxlen {
            Some(maxlen) => write!(f, "deque({inner}, maxlen={maxlen})"),
            None => write!(f, "deque({inner})"),
        }
    }
}

never_frozen!(Deque);

#[starlark_value(type = "deque")]
impl<'v> StarlarkValue<'v> for Deque<'v> {
    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.inner.at(index, heap)
    }

    fn set_at(&self, index: Value<'v>, value: Value<'v>) -> starlark::Result<()> {
        self.inner.set_at(index, value)
    }

    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        if attribute == "maxlen" {
            return Some(self.maxlen.map_or(Value::new_none(), |maxlen| heap.alloc(maxlen)));
        }
        bound(self.clone(), attribute, METHODS, heap)
            .or_else(|| self.inner.get_attr(attribute, heap).ok().flatten())
    }

    fn iterate_collect(&self, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        items(self.inner, heap)
    }

    fn length(&self) -> starlark::Result<i32> {
        self.inner.length()
    }

    fn to_bool(&self) -> bool {
        self.inner.to_bool()
    }

    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        self.inner.is_in(other)
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        match other.downcast_ref::<Self>() {
            Some(other) => self.inner.equals(other.inner),
            None => Ok(false),
        }
    }
}

impl<'v> Deque<'v> {
    /// Calls `deque`.
    pub(super) fn construct(args: Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let [from, maxlen] = args.bind(["iterable", "maxlen"])?;
        let content = from.map_or(Ok(Vec::new()), |from| items(from, heap))?;
        let maxlen = match maxlen.filter(|maxlen| !maxlen.is_none()) {
            Some(maxlen) => Some(usize::try_from(size(maxlen, "maxlen")?).unwrap_or_default()),
            None => None,
        };
        let skip = content.len().saturating_sub(maxlen.unwrap_or(usize::MAX));
        let inner = list(heap, content.into_iter().skip(skip));
        Ok(heap.alloc(Self { inner, maxlen }))
    }

    pub(super) fn method(
        &self,
        name: &str,
        args: &Args<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let first = args.only_positional()?.first().copied();
        let start = heap.alloc(0);
        match name {
            "append" => call_method(self.inner, "append", &[required(first, "item")?], eval)?,
            "appendleft" => {
                call_method(self.inner, "insert", &[start, required(first, "item")?], eval)?
            }
            "popleft" => {
                if !self.inner.to_bool() {
                    return Err(misuse("pop from an empty deque"));
                }
                return call_method(self.inner, "pop", &[start], eval);
            }
            "extend" => {
                let more = list(heap, items(required(first, "iterable")?, heap)?);
                call_method(self.inner, "extend", &[more], eval)?
            }
            "extendleft" => {
                for item in items(required(first, "iterable")?, heap)? {
                    call_method(self.inner, "insert", &[start, item], eval)?;
                }
                Value::new_none()
            }
            "rotate" => {
                let by = first.map_or(Ok(1), |by| size(by, "n"))?;
                self.arrange(
                    |all| {
                        let length = i64::try_from(all.len().max(1)).unwrap_or(i64::MAX);
                        all.rotate_right(
                            usize::try_from(by.rem_euclid(length)).unwrap_or_default(),
                        );
                    },
                    heap,
                )?
            }
            "reverse" => self.arrange(<[_]>::reverse, heap)?,
            "copy" => {
                let inner = list(heap, items(self.inner, heap)?);
                return Ok(heap.alloc(Self { inner, maxlen: self.maxlen }));
            }
            _ => {
                let wanted = required(first, "value")?;
                let mut count = 0;
                for item in items(self.inner, heap)? {
                    count += i32::from(item.equals(wanted)?);
                }
                return Ok(heap.alloc(count));
            }
        };
        let left = matches!(name, "appendleft" | "extendleft");
        while self.maxlen.is_some_and(|maxlen| {
            ListRef::from_value(self.inner).is_some_and(|list| list.len() > maxlen)
        }) {
            call_method(self.inner, "pop", &[heap.alloc(if left { -1 } else { 0 })], eval)?;
        }
        Ok(Value::new_none())
    }

    fn arrange(
        &self,
        by: impl FnOnce(&mut [Value<'v>]),
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut all = items(self.inner, heap)?;
        by(&mut all);
        for (at, item) in all.into_iter().enumerate() {
            self.inner.set_at(heap.alloc(at), item)?;
        }
        Ok(Value::new_none())
    }
}
