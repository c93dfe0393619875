//! Types as values: `int`, `list`, `datetime`: they convert, are compared, and have methods.

use std::fmt;

use allocative::Allocative;
use num_bigint::BigInt;
use starlark::collections::{SmallMap, StarlarkHasher};
use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::Dict;
use starlark::values::list::AllocList;
use starlark::values::tuple::AllocTuple;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, ValueLike as _, starlark_value,
};

use super::class::Type;
use super::collections::TupleType;
use super::creation::{dict_of, set_of};
use super::values::{
    Args, as_float, as_int, as_slice, items, misuse, required, size, strict_float,
};
use super::{collections, datetime, methods, numbers, strings, text};

#[starlark_value(type = "type")]
impl<'v> StarlarkValue<'v> for Type {
    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        construct(self.name, Args::unpack(self.name, arguments, eval.heap())?, eval)
    }

    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "__name__" | "__qualname__" => Some(heap.alloc(self.name)),
            _ if self.name == "timezone" && attribute == "utc" => Some(datetime::utc(heap)),
            _ if attribute.starts_with('_') => None,
            _ => Some(heap.alloc(Unbound { class: self.name, method: attribute.into() })),
        }
    }

    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        self.name.into()
    }

    /// Types are equal to themselves, and to their names in Starlark and in Python.
    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(match other.downcast_ref::<Self>() {
            Some(other) => other.name == self.name,
            None => other
                .unpack_str()
                .is_some_and(|text| text == self.name || text == "string" && self.name == "str"),
        })
    }

    fn write_hash(&self, hasher: &mut StarlarkHasher) -> starlark::Result<()> {
        use std::hash::Hash as _;
        self.name.hash(hasher);
        Ok(())
    }

    /// `list[int]` is the type `list`: its items are not checked.
    fn at(&self, _index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(Self { name: self.name }))
    }

    fn bit_or(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(AllocTuple([heap.alloc(Self { name: self.name }), other])))
    }
}

/// A method that is read from a type: `str.lower`, `dict.fromkeys`.
#[derive(Debug, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct Unbound {
    #[trace(unsafe_ignore)]
    class: &'static str,
    #[trace(unsafe_ignore)]
    method: String,
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<method '{}' of '{}' objects>", self.method, self.class)
    }
}

impl<'v> AllocValue<'v> for Unbound {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

#[starlark_value(type = "function")]
impl<'v> StarlarkValue<'v> for Unbound {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        format!("{}.{}", self.class, self.method)
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let mut args = Args::unpack(self.class, arguments, heap)?;
        match (self.class, self.method.as_str()) {
            ("dict" | "OrderedDict" | "Counter", "fromkeys") => {
                let [keys, value] = args.bind(["iterable", "value"])?;
                let mut dict = SmallMap::new();
                for key in items(required(keys, "iterable")?, heap)? {
                    dict.insert_hashed(key.get_hashed()?, value.unwrap_or(Value::new_none()));
                }
                Ok(heap.alloc(Dict::new(dict)))
            }
            ("str", "maketrans") => strings::maketrans(&args, heap),
            ("date" | "datetime", name) if datetime::is_class_method(name) => {
                datetime::class_method(self.class, name, args, heap)
            }
            _ if args.positional.is_empty() => {
                Err(misuse(format!("{}.{}() needs an object", self.class, self.method)))
            }
            _ => {
                let this = args.positional.remove(0);
                methods::dispatch(this, &self.method, args, eval)
            }
        }
    }
}

/// Returns the type of a value.
pub(crate) fn type_of(value: Value<'_>) -> Type {
    let name = match text::type_name(value) {
        "native_function" => "function",
        name => name,
    };
    Type { name }
}

/// `isinstance`: `class` is a type, or a tuple of types.
pub(crate) fn is_instance(value: Value<'_>, class: Value<'_>) -> starlark::Result<bool> {
    if let Some(classes) = as_slice(class) {
        for class in classes {
            if is_instance(value, *class)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let name = text::type_name(value);
    if class.is_none() {
        return Ok(value.is_none());
    }
    if let Some(class) = class.downcast_ref::<Type>() {
        return Ok(matches!(
            (class.name, name),
            ("object", _)
                | ("int", "bool")
                | ("date", "datetime")
                | ("dict", "Counter" | "defaultdict" | "OrderedDict")
                | ("frozenset", "set")
        ) || class.name == name);
    }
    if let Some(tuples) = class.downcast_ref::<TupleType>() {
        return Ok(tuples.is_type_of(value));
    }
    if class.get_type() == "typing" {
        return Ok(true);
    }
    Err(misuse("isinstance() arg 2 must be a type, or a tuple of types"))
}

fn construct<'v>(
    name: &'static str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    match name {
        "int" => {
            let [value, base] = args.bind(["x", "base"])?;
            value.map_or_else(|| Ok(heap.alloc(0)), |value| int(value, base, heap))
        }
        "float" => {
            let [value] = args.bind(["x"])?;
            Ok(heap.alloc(value.map_or(Ok(0.0), float)?))
        }
        "str" => {
            let [value] = args.bind(["object"])?;
            Ok(match value {
                Some(value) if value.unpack_str().is_some() => value,
                Some(value) => heap.alloc(text::str(value, heap)),
                None => heap.alloc(""),
            })
        }
        "bool" => {
            let [value] = args.bind(["x"])?;
            Ok(Value::new_bool(value.is_some_and(Value::to_bool)))
        }
        "list" | "tuple" | "set" | "frozenset" => {
            let [value] = args.bind(["iterable"])?;
            let items = value.map_or(Ok(Vec::new()), |value| items(value, heap))?;
            match name {
                "list" => Ok(heap.alloc(AllocList(items))),
                "tuple" => Ok(heap.alloc(AllocTuple(items))),
                _ => set_of(&items, eval),
            }
        }
        "dict" | "OrderedDict" => Ok(heap.alloc(Dict::new(dict_of(args, heap)?))),
        "type" => {
            let [value] = args.bind(["object"])?;
            Ok(heap.alloc(type_of(required(value, "object")?)))
        }
        "object" => Ok(heap.alloc(starlark::values::structs::AllocStruct::EMPTY)),
        "Counter" | "defaultdict" | "deque" => collections::construct(name, args, eval),
        "date" | "datetime" | "timedelta" | "timezone" => datetime::construct(name, args, heap),
        _ => Err(misuse(format!("{name} cannot be called"))),
    }
}

fn int<'v>(
    value: Value<'v>,
    base: Option<Value<'v>>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    if let Some(digits) = value.unpack_str() {
        let base = base.map_or(Ok(10), |base| size(base, "base"))?;
        let parsed = parse_int(digits, base);
        return parsed.map(|int| heap.alloc(int)).ok_or_else(|| {
            let shown = text::repr(value);
            misuse(format!("invalid literal for int() with base {base}: {shown}"))
        });
    }
    if let Some(float) = strict_float(value) {
        return if float.is_finite() {
            Ok(heap.alloc(numbers::whole(float.trunc())))
        } else {
            Err(misuse(format!("cannot convert float {} to integer", text::float_repr(float))))
        };
    }
    as_int(value).map(|int| heap.alloc(int)).ok_or_else(|| {
        misuse(format!(
            "int() argument must be a string or a number, not '{}'",
            text::type_name(value)
        ))
    })
}

fn parse_int(digits: &str, base: i64) -> Option<BigInt> {
    let digits = digits.trim();
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixed = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((lower.strip_prefix(prefix)?, radix)));
    let (body, radix) = match (base, prefixed) {
        (0, Some((rest, radix))) => (rest, radix),
        (0, None) => (&*lower, 10),
        (base, Some((rest, radix))) if base == i64::from(radix) => (rest, radix),
        (base, _) => (&*lower, u32::try_from(base).ok().filter(|base| (2..=36).contains(base))?),
    };
    let body = body.replace('_', "");
    let sound = !body.is_empty() && body.chars().all(|c| c.is_digit(radix));
    let int = sound.then(|| BigInt::parse_bytes(body.as_bytes(), radix))??;
    Some(if negative { -int } else { int })
}

fn float(value: Value<'_>) -> starlark::Result<f64> {
    if let Some(digits) = value.unpack_str() {
        let plain = digits.trim().replace('_', "");
        let sound = !plain.is_empty() && !plain.eq_ignore_ascii_case("infinit");
        return plain.parse().ok().filter(|_| sound).ok_or_else(|| {
            misuse(format!("could not convert string to float: {}", text::repr(value)))
        });
    }
    as_float(value).ok_or_else(|| {
        let name = text::type_name(value);
        misuse(format!("float() argument must be a string or a real number, not '{name}'"))
    })
}
