//! The types of a component's functions that JSON can express.
//!
//! A [`Shape`] is an unfolded copy of wasmtime's type, made once when the component is loaded.
//! wasmtime has no lookup by name: it lists the cases of a variant one by one and makes a type for
//! each. To find one of a thousand cases took 16 to 27 µs that way and 20 to 45 ns here, and
//! arguments of 1 MiB can hold 260,000 cases: seconds on a thread that no deadline stops. The copy
//! also has the names of fields in JSON, and no type that JSON cannot express.
//!
//! Types that are too deep or too large are refused while they are unfolded
//! ([`unfold`](super::unfold)), so code that walks a shape may recurse.

use indexmap::{IndexMap, IndexSet};
use wasmtime::component::Val;

/// A type that JSON can express.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Bool,
    Int(Int),
    F32,
    F64,
    Char,
    String,
    /// `list<u8>`, which is base64 in JSON.
    Bytes,
    List(Box<Shape>),
    Record(Vec<Field>),
    Tuple(Vec<Shape>),
    /// Cases with their payloads, in the order of the type.
    Variant(IndexMap<String, Option<Shape>>),
    Enum(IndexSet<String>),
    Flags(IndexSet<String>),
    Option(Box<Shape>),
    Result {
        ok: Option<Box<Shape>>,
        err: Option<Box<Shape>>,
    },
}

/// A field of a record, or a parameter of a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its name in WIT, such as `max-results`.
    pub(super) name: String,
    /// Its name in JSON, such as `max_results`. Names in WIT have no `_`, so two names never become
    /// the same.
    pub(super) key: String,
    /// Its type; for an option, the inner type.
    pub(super) shape: Shape,
    /// True if the field is an option, which may be absent.
    pub(super) is_optional: bool,
}

impl Field {
    pub(super) fn new(name: &str, shape: Shape, is_optional: bool) -> Self {
        Self { name: name.to_owned(), key: name.replace('-', "_"), shape, is_optional }
    }
}

/// The integer types of WIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Int {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

impl Int {
    /// Returns the smallest and the largest number of the type.
    pub(super) fn range(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
        }
    }

    /// Converts a number to a value of this type; `None` if it is out of range.
    pub(super) fn val(self, number: i128) -> Option<Val> {
        Some(match self {
            Self::S8 => Val::S8(number.try_into().ok()?),
            Self::U8 => Val::U8(number.try_into().ok()?),
            Self::S16 => Val::S16(number.try_into().ok()?),
            Self::U16 => Val::U16(number.try_into().ok()?),
            Self::S32 => Val::S32(number.try_into().ok()?),
            Self::U32 => Val::U32(number.try_into().ok()?),
            Self::S64 => Val::S64(number.try_into().ok()?),
            Self::U64 => Val::U64(number.try_into().ok()?),
        })
    }
}
