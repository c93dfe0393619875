//! Access to values in the manner of Python: sequences, numbers, arguments.

use num_bigint::BigInt;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::DictRef;
use starlark::values::float::StarlarkFloat;
use starlark::values::list::{AllocList, ListRef};
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue as _, Value, ValueLike as _};
use starlark::{Error, ErrorKind};

use super::containers::{DictLike, NamedTuple};
use super::iterators::Iter;
use super::text;

/// Creates the error of a call that Python would refuse, too.
pub fn misuse(what: impl std::fmt::Display) -> Error {
    Error::new_kind(ErrorKind::Function(anyhow::anyhow!("{what}")))
}

/// Returns the items that Python goes through: of a text its characters, of a dict its keys.
pub(crate) fn items<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
    if let Some(text) = value.unpack_str() {
        return Ok(text.chars().map(|c| heap.alloc(c)).collect());
    }
    if let Some(list) = ListRef::from_value(value) {
        return Ok(list.content().to_vec());
    }
    if let Some(iter) = value.downcast_ref::<Iter>() {
        return Ok(iter.rest());
    }
    Ok(value.iterate(heap)?.collect())
}

/// Returns the dict in a value: one itself, or one with a default or counts.
pub fn as_dict(value: Value<'_>) -> Option<DictRef<'_>> {
    match value.downcast_ref::<DictLike>() {
        Some(like) => DictRef::from_value(like.inner),
        None => DictRef::from_value(value),
    }
}

/// Returns the items of a list or tuple.
pub(crate) fn as_slice<'v>(value: Value<'v>) -> Option<&'v [Value<'v>]> {
    ListRef::from_value(value)
        .map(ListRef::content)
        .or_else(|| TupleRef::from_value(value).map(TupleRef::content))
        .or_else(|| value.downcast_ref::<NamedTuple>().map(|tuple| &tuple.values[..]))
}

/// Returns an int, or a bool as 0 or 1.
pub(crate) fn as_int(value: Value<'_>) -> Option<BigInt> {
    if let Some(truth) = value.unpack_bool() {
        return Some(BigInt::from(u8::from(truth)));
    }
    if let Some(small) = value.unpack_i32() {
        return Some(small.into());
    }
    (value.get_type() == "int").then(|| value.to_str().parse().ok()).flatten()
}

/// Returns an int of 64 bits, or a bool as 0 or 1.
pub(crate) fn as_i64(value: Value<'_>) -> Option<i64> {
    match value.unpack_bool() {
        Some(truth) => Some(i64::from(truth)),
        None => i64::unpack_value(value).ok().flatten(),
    }
}

/// Returns a float, or an int or bool as one.
pub(crate) fn as_float(value: Value<'_>) -> Option<f64> {
    match value.downcast_ref::<StarlarkFloat>() {
        Some(float) => Some(float.0),
        None => as_int(value).map(|int| float_of(&int)),
    }
}

/// Converts an int to the nearest float.
pub(crate) fn float_of(int: &BigInt) -> f64 {
    use num_traits::ToPrimitive as _;
    int.to_f64().unwrap_or(f64::NAN)
}

/// Returns a float itself; `None` for an int.
pub(crate) fn strict_float(value: Value<'_>) -> Option<f64> {
    value.downcast_ref::<StarlarkFloat>().map(|float| float.0)
}

/// Returns a number for arithmetic: a bool as 0 or 1, any other value as it is.
pub(crate) fn number<'v>(value: Value<'v>, heap: Heap<'v>) -> Value<'v> {
    match value.unpack_bool() {
        Some(truth) => heap.alloc(i32::from(truth)),
        None => value,
    }
}

/// Returns a position or count. Fails if the value is no int of this size.
pub(crate) fn size(value: Value<'_>, what: &str) -> starlark::Result<i64> {
    as_i64(value).ok_or_else(|| misuse(format!("{what} must be an int, not {}", text::repr(value))))
}

/// Calls a function with positional arguments.
pub(crate) fn call<'v>(
    function: Value<'v>,
    arguments: &[Value<'v>],
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    eval.eval_function(function, arguments, &[])
}

/// Calls a method of an object as it is.
pub(crate) fn call_method<'v>(
    object: Value<'v>,
    name: &str,
    arguments: &[Value<'v>],
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let method = object.get_attr_error(name, eval.heap())?;
    eval.eval_function(method, arguments, &[])
}

/// The arguments of a call of a value.
pub(crate) struct Args<'v> {
    function: &'static str,
    pub(crate) positional: Vec<Value<'v>>,
    pub(crate) named: Vec<(&'v str, Value<'v>)>,
}

impl<'v> Args<'v> {
    pub(crate) fn new(
        function: &'static str,
        positional: Vec<Value<'v>>,
        named: Vec<(&'v str, Value<'v>)>,
    ) -> Self {
        Self { function, positional, named }
    }

    pub(crate) fn unpack(
        function: &'static str,
        arguments: &Arguments<'v, '_>,
        heap: Heap<'v>,
    ) -> starlark::Result<Self> {
        let positional = arguments.positions(heap)?.collect();
        let named = arguments.names_map()?;
        let named = named.into_iter().map(|(name, value)| (name.as_str(), value)).collect();
        Ok(Self { function, positional, named })
    }

    /// Returns the arguments for parameters of these names, given by position or by name. Fails if
    /// there are others.
    pub(crate) fn bind<const N: usize>(
        self,
        names: [&str; N],
    ) -> starlark::Result<[Option<Value<'v>>; N]> {
        let function = self.function;
        if self.positional.len() > N {
            return Err(misuse(format!("{function}() takes at most {N} arguments")));
        }
        let mut bound = [None; N];
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            match names.iter().position(|known| *known == name) {
                Some(at) if bound[at].is_none() => bound[at] = Some(value),
                _ => {
                    return Err(misuse(format!(
                        "{function}() got an unexpected argument '{name}'"
                    )));
                }
            }
        }
        Ok(bound)
    }

    /// Fails if there are named arguments.
    pub(crate) fn only_positional(&self) -> starlark::Result<&[Value<'v>]> {
        match self.named.first() {
            None => Ok(&self.positional),
            Some((name, _)) => {
                Err(misuse(format!("{}() got an unexpected argument '{name}'", self.function)))
            }
        }
    }
}

/// Requires an argument.
pub(crate) fn required<'v>(value: Option<Value<'v>>, name: &str) -> starlark::Result<Value<'v>> {
    value.ok_or_else(|| misuse(format!("missing argument '{name}'")))
}

/// Requires a text.
pub(crate) fn text_of<'v>(value: Value<'v>, what: &str) -> starlark::Result<&'v str> {
    value
        .unpack_str()
        .ok_or_else(|| misuse(format!("{what} must be a str, not {}", text::type_name(value))))
}

/// Creates a list.
pub(crate) fn list<'v>(heap: Heap<'v>, items: impl IntoIterator<Item = Value<'v>>) -> Value<'v> {
    heap.alloc(AllocList(items))
}
