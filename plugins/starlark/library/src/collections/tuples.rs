//! `namedtuple`.

use std::fmt;
use std::sync::Arc;

use allocative::Allocative;
use starlark::collections::StarlarkHasher;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::AllocDict;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, ValueLike as _, starlark_value,
};

use super::super::bound::bound;
use super::super::containers::{NamedTuple, NamedTupleType};
use super::super::text;
use super::super::values::{Args, as_slice, list, misuse};

/// The type that `namedtuple` returns.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct TupleType {
    #[trace(unsafe_ignore)]
    #[allocative(skip)]
    shape: Arc<NamedTupleType>,
}

impl TupleType {
    pub(super) fn new(name: &str, fields: Vec<String>) -> Self {
        Self { shape: Arc::new(NamedTupleType { name: name.into(), fields }) }
    }

    pub(crate) fn is_type_of(&self, value: Value<'_>) -> bool {
        value
            .downcast_ref::<NamedTuple>()
            .is_some_and(|tuple| Arc::ptr_eq(&tuple.shape, &self.shape))
    }
}

impl fmt::Display for TupleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<class '__main__.{}'>", self.shape.name)
    }
}

impl<'v> AllocValue<'v> for TupleType {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

#[starlark_value(type = "namedtuple")]
impl<'v> StarlarkValue<'v> for TupleType {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "__name__" => Some(heap.alloc(&*self.shape.name)),
            "_fields" => Some(list(heap, self.shape.fields.iter().map(|name| heap.alloc(&**name)))),
            _ => None,
        }
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let args = Args::unpack("namedtuple", arguments, eval.heap())?;
        let fields = &self.shape.fields;
        let mut values = args.positional;
        for field in &fields[values.len().min(fields.len())..] {
            let named = args.named.iter().find(|(name, _)| name == field);
            let (_, value) = named.ok_or_else(|| {
                misuse(format!("{}() misses the argument '{field}'", self.shape.name))
            })?;
            values.push(*value);
        }
        if values.len() != fields.len() {
            return Err(misuse(format!("{}() takes {} arguments", self.shape.name, fields.len())));
        }
        Ok(eval.heap().alloc(NamedTuple { shape: Arc::clone(&self.shape), values }))
    }
}

impl fmt::Display for NamedTuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = self.shape.name.clone();
        text::enclosed(
            &mut out,
            "(",
            ")",
            self.shape.fields.iter().zip(&self.values),
            |out, (name, value)| {
                out.push_str(&format!("{name}={}", text::repr(*value)));
            },
        );
        f.write_str(&out)
    }
}

#[starlark_value(type = "tuple")]
impl<'v> StarlarkValue<'v> for NamedTuple<'v> {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        if let Some(at) = self.shape.fields.iter().position(|field| field == attribute) {
            return Some(self.values[at]);
        }
        match attribute {
            "_fields" => Some(list(heap, self.shape.fields.iter().map(|name| heap.alloc(&**name)))),
            "_asdict" | "_replace" => {
                let copy = Self { shape: Arc::clone(&self.shape), values: self.values.clone() };
                bound(copy, attribute, &["_asdict", "_replace"], heap)
            }
            _ => None,
        }
    }

    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        list(heap, self.values.iter().copied()).at(index, heap)
    }

    fn slice(
        &self,
        start: Option<Value<'v>>,
        stop: Option<Value<'v>>,
        stride: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        tuple(&self.values, heap).slice(start, stop, stride, heap)
    }

    fn iterate_collect(&self, _heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        Ok(self.values.clone())
    }

    fn length(&self) -> starlark::Result<i32> {
        Ok(i32::try_from(self.values.len()).unwrap_or(i32::MAX))
    }

    fn to_bool(&self) -> bool {
        !self.values.is_empty()
    }

    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        for value in &self.values {
            if value.equals(other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        let other = match other.downcast_ref::<Self>() {
            Some(other) => &other.values[..],
            None => as_slice(other).unwrap_or_default(),
        };
        if other.len() != self.values.len() {
            return Ok(false);
        }
        for (a, b) in self.values.iter().zip(other) {
            if !a.equals(*b)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compare(&self, other: Value<'v>) -> starlark::Result<std::cmp::Ordering> {
        let other = match other.downcast_ref::<Self>() {
            Some(other) => &other.values[..],
            None => as_slice(other).unwrap_or_default(),
        };
        for (a, b) in self.values.iter().zip(other) {
            if !a.equals(*b)? {
                return a.compare(*b);
            }
        }
        Ok(self.values.len().cmp(&other.len()))
    }

    fn write_hash(&self, hasher: &mut StarlarkHasher) -> starlark::Result<()> {
        for value in &self.values {
            std::hash::Hash::hash(&value.get_hashed()?.hash(), hasher);
        }
        Ok(())
    }
}

fn tuple<'v>(values: &[Value<'v>], heap: Heap<'v>) -> Value<'v> {
    heap.alloc(starlark::values::tuple::AllocTuple(values.iter().copied()))
}

impl<'v> NamedTuple<'v> {
    /// Calls `_asdict` or `_replace`.
    pub(crate) fn method(&self, name: &str, args: &Args<'v>, heap: Heap<'v>) -> Value<'v> {
        let pairs = self.shape.fields.iter().zip(&self.values);
        if name == "_asdict" {
            return heap.alloc(AllocDict(pairs.map(|(name, value)| (&**name, *value))));
        }
        let values = pairs.map(|(field, value)| {
            let new = args.named.iter().find(|(name, _)| name == field);
            new.map_or(*value, |(_, value)| *value)
        });
        heap.alloc(Self { values: values.collect(), shape: Arc::clone(&self.shape) })
    }
}
