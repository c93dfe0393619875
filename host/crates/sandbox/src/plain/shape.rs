//! The types of a component's functions, unfolded once when the component is loaded.
//!
//! A WIT type cannot contain itself. But a hostile component may nest types deeply, or use one type
//! twice at each of many levels, so that a few bytes unfold to millions of parts. Depth, parts and
//! cases are bounded while types are unfolded, so code that walks a [`Shape`] may recurse.

use std::collections::HashMap;

use wasmtime::component::{
    Type, Val,
    types::{ComponentFunc, Record},
};

/// Levels of nested types. A function with more is left out.
pub(super) const MAX_DEPTH: usize = 64;
/// Types, and cases of enums, variants and flags, of all functions of a component together. A
/// component with more is refused.
pub(super) const MAX_PARTS: usize = 20_000;
/// Bytes of all their names, counted at each use. A component with more is refused.
const MAX_NAME_BYTES: usize = 1 << 20;
/// Cases of one enum, variant or set of flags. The engine searches them one by one for each value
/// that it takes out of a guest.
pub(super) const MAX_CASES: usize = 1_000;

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
    Variant(Cases<Option<Shape>>),
    Enum(Cases<()>),
    Flags(Vec<String>),
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
    fn new(name: &str, shape: Shape, is_optional: bool) -> Self {
        Self { name: name.to_owned(), key: name.replace('-', "_"), shape, is_optional }
    }
}

/// Cases in the order of their type, with a lookup by name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cases<T> {
    list: Vec<(String, T)>,
    places: HashMap<String, usize>,
}

impl<T> Cases<T> {
    /// Returns the payload of the case with this name; `None` if there is no such case.
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.places.get(name).map(|place| &self.list[*place].1)
    }

    /// Returns all cases in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, T)> {
        self.list.iter()
    }

    /// Returns the names of all cases in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str())
    }
}

impl<T> FromIterator<(String, T)> for Cases<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(cases: I) -> Self {
        let list: Vec<_> = cases.into_iter().collect();
        let places =
            list.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        Self { list, places }
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

impl Shape {
    /// Returns the bytes of host memory that a value of this type may take for each byte that the
    /// engine charges for taking it out of the guest.
    ///
    /// The engine charges each element for the size of a [`Val`], 40 bytes, and names by their
    /// length. It does not charge for three things: vectors that grow to twice their elements (and
    /// exist twice for a moment), the room for four elements that even one element gets, and the
    /// allocation behind each name, 32 bytes for a letter. So a list of numbers takes up to twice
    /// the charge, nested records of one field seven times, and 32 flags of one letter 26 times. A
    /// test checks the sum.
    pub(super) fn weight(&self) -> usize {
        const SCALAR: usize = 2;
        const LIST: usize = 4;
        const FIELDS: usize = 8;
        const FLAGS: usize = 32;
        let inner =
            |shape: &Option<Box<Self>>| shape.as_ref().map_or(SCALAR, |shape| shape.weight());
        match self {
            Self::Flags(_) => FLAGS,
            Self::Record(fields) => {
                fields.iter().map(|field| field.shape.weight()).fold(FIELDS, usize::max)
            }
            Self::Tuple(shapes) => shapes.iter().map(Self::weight).fold(FIELDS, usize::max),
            Self::Variant(cases) => cases
                .iter()
                .filter_map(|(_, shape)| shape.as_ref())
                .map(Self::weight)
                .fold(LIST, usize::max),
            Self::List(item) if item.is_scalar() => SCALAR,
            Self::List(item) => item.weight().max(LIST),
            Self::Option(some) => some.weight(),
            Self::Result { ok, err } => inner(ok).max(inner(err)),
            _ => SCALAR,
        }
    }

    /// Returns whether a value takes no memory besides its own place.
    fn is_scalar(&self) -> bool {
        matches!(self, Self::Bool | Self::Int(_) | Self::F32 | Self::F64 | Self::Char)
    }
}

/// Reasons for which a type cannot be unfolded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadTypes {
    /// The function cannot be a tool; the text is the reason.
    Unsupported(String),
    /// The types exceed [`MAX_PARTS`], or the limit on bytes of names.
    TooManyParts,
}

/// Unfolds the types of one component within its limits.
pub(super) struct Unfolder {
    parts_left: usize,
    name_bytes_left: usize,
}

impl Unfolder {
    pub(super) fn new() -> Self {
        Self { parts_left: MAX_PARTS, name_bytes_left: MAX_NAME_BYTES }
    }

    /// Unfolds the parameters of a function.
    pub(super) fn parameters(&mut self, function: &ComponentFunc) -> Result<Vec<Field>, BadTypes> {
        function.params().map(|(name, ty)| self.field(name, &ty, 0)).collect()
    }

    /// Unfolds the result of a function; `None` if it returns nothing.
    pub(super) fn result(&mut self, function: &ComponentFunc) -> Result<Option<Shape>, BadTypes> {
        let mut results = function.results();
        let first = results.next().map(|ty| self.shape(&ty, 0)).transpose()?;
        match results.next() {
            None => Ok(first),
            Some(_) => Err(unsupported("it returns more than one value")),
        }
    }

    fn field(&mut self, name: &str, ty: &Type, depth: usize) -> Result<Field, BadTypes> {
        self.name(name)?;
        match ty {
            Type::Option(option) => {
                Ok(Field::new(name, self.shape(&option.ty(), depth + 1)?, true))
            }
            _ => Ok(Field::new(name, self.shape(ty, depth)?, false)),
        }
    }

    fn shape(&mut self, ty: &Type, depth: usize) -> Result<Shape, BadTypes> {
        if depth >= MAX_DEPTH {
            return Err(unsupported(&format!("its types are nested deeper than {MAX_DEPTH}")));
        }
        self.count(1)?;
        Ok(match ty {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Int(Int::S8),
            Type::U8 => Shape::Int(Int::U8),
            Type::S16 => Shape::Int(Int::S16),
            Type::U16 => Shape::Int(Int::U16),
            Type::S32 => Shape::Int(Int::S32),
            Type::U32 => Shape::Int(Int::U32),
            Type::S64 => Shape::Int(Int::S64),
            Type::U64 => Shape::Int(Int::U64),
            Type::Float32 => Shape::F32,
            Type::Float64 => Shape::F64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::Own(_) | Type::Borrow(_) => {
                return Err(unsupported("it takes or returns a resource"));
            }
            Type::Stream(_) => return Err(unsupported("it takes or returns a stream")),
            Type::Future(_) => return Err(unsupported("it takes or returns a future")),
            Type::ErrorContext => return Err(unsupported("it takes or returns an error context")),
            Type::Map(_) => return Err(unsupported("it takes or returns a map")),
            Type::FixedLengthList(_) => {
                return Err(unsupported("it takes or returns a list of fixed length"));
            }
            _ => self.compound(ty, depth + 1)?,
        })
    }

    fn compound(&mut self, ty: &Type, depth: usize) -> Result<Shape, BadTypes> {
        Ok(match ty {
            Type::List(list) if list.ty() == Type::U8 => Shape::Bytes,
            Type::List(list) => Shape::List(Box::new(self.shape(&list.ty(), depth)?)),
            Type::Record(record) => self.record(record, depth)?,
            Type::Tuple(tuple) => Shape::Tuple(
                tuple.types().map(|ty| self.shape(&ty, depth)).collect::<Result<_, _>>()?,
            ),
            Type::Variant(variant) => {
                self.cases(variant.cases().len())?;
                let case = |case: wasmtime::component::types::Case<'_>| {
                    Ok((
                        self.name(case.name)?,
                        case.ty.map(|ty| self.shape(&ty, depth)).transpose()?,
                    ))
                };
                Shape::Variant(variant.cases().map(case).collect::<Result<_, _>>()?)
            }
            Type::Enum(names) => {
                self.cases(names.names().len())?;
                Shape::Enum(
                    names
                        .names()
                        .map(|name| Ok((self.name(name)?, ())))
                        .collect::<Result<_, _>>()?,
                )
            }
            Type::Flags(flags) => {
                self.cases(flags.names().len())?;
                Shape::Flags(flags.names().map(|name| self.name(name)).collect::<Result<_, _>>()?)
            }
            Type::Option(option) => match self.shape(&option.ty(), depth)? {
                // The outer option would be ambiguous: `null` could mean either.
                Shape::Option(_) => {
                    return Err(unsupported(
                        "it has an option of an option, which JSON cannot tell apart",
                    ));
                }
                shape => Shape::Option(Box::new(shape)),
            },
            Type::Result(result) => Shape::Result {
                ok: self.payload(result.ok(), depth)?,
                err: self.payload(result.err(), depth)?,
            },
            _ => return Err(unsupported("it has a type that this release does not know")),
        })
    }

    fn record(&mut self, record: &Record, depth: usize) -> Result<Shape, BadTypes> {
        Ok(Shape::Record(
            record
                .fields()
                .map(|field| self.field(field.name, &field.ty, depth))
                .collect::<Result<_, _>>()?,
        ))
    }

    fn payload(&mut self, ty: Option<Type>, depth: usize) -> Result<Option<Box<Shape>>, BadTypes> {
        ty.map(|ty| self.shape(&ty, depth).map(Box::new)).transpose()
    }

    fn cases(&mut self, cases: usize) -> Result<(), BadTypes> {
        if cases > MAX_CASES {
            return Err(unsupported(&format!(
                "it has a type of {cases} cases, the limit is {MAX_CASES}"
            )));
        }
        self.count(cases)
    }

    /// Copies a name and counts it, because each use keeps a copy.
    fn name(&mut self, name: &str) -> Result<String, BadTypes> {
        self.name_bytes_left =
            self.name_bytes_left.checked_sub(name.len()).ok_or(BadTypes::TooManyParts)?;
        Ok(name.to_owned())
    }

    fn count(&mut self, parts: usize) -> Result<(), BadTypes> {
        self.parts_left = self.parts_left.checked_sub(parts).ok_or(BadTypes::TooManyParts)?;
        Ok(())
    }
}

fn unsupported(reason: &str) -> BadTypes {
    BadTypes::Unsupported(reason.to_owned())
}
