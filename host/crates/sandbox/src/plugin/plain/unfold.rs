//! Unfolding of wasmtime's types to shapes, within limits.
//!
//! A WIT type cannot contain itself. But a hostile component may nest types deeply, or use one type
//! twice at each of many levels, so that a few bytes unfold to millions of parts. Depth, parts and
//! cases are counted while types are unfolded, and unfolding stops at the first limit.

use indexmap::IndexSet;
use wasmtime::component::{
    Type,
    types::{ComponentFunc, Record},
};

use super::shape::{Field, Int, Shape};

/// Levels of nested types. A function with more is left out, because the code that walks a shape
/// recurses, and arguments are read with at most 128 levels of JSON.
pub(super) const MAX_DEPTH: usize = 64;
/// Types, and cases of enums, variants and flags, of all functions of a component together. A
/// component with more is refused. 14 levels of a type that is used twice at each unfold to more.
pub(super) const MAX_PARTS: usize = 20_000;
/// Bytes of all their names, counted at each use, because each use keeps a copy. A component with
/// more is refused. One name may have 100,000 bytes, and 20,000 uses of it would take 2 GB.
const MAX_NAME_BYTES: usize = 1 << 20;
/// Cases of one enum, variant or set of flags. The engine searches them one by one for each value
/// that it takes out of a guest: one of a thousand takes 16 to 27 µs.
pub(super) const MAX_CASES: usize = 1_000;

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
                let cases = variant
                    .cases()
                    .map(|case| Ok((self.name(case.name)?, self.payload(case.ty, depth)?)));
                Shape::Variant(cases.collect::<Result<_, _>>()?)
            }
            Type::Enum(of) => Shape::Enum(self.names(of.names())?),
            Type::Flags(flags) => Shape::Flags(self.names(flags.names())?),
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
                ok: self.payload(result.ok(), depth)?.map(Box::new),
                err: self.payload(result.err(), depth)?.map(Box::new),
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

    fn payload(&mut self, ty: Option<Type>, depth: usize) -> Result<Option<Shape>, BadTypes> {
        ty.map(|ty| self.shape(&ty, depth)).transpose()
    }

    fn names<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<IndexSet<String>, BadTypes> {
        self.cases(names.len())?;
        names.map(|name| self.name(name)).collect()
    }

    fn cases(&mut self, cases: usize) -> Result<(), BadTypes> {
        if cases > MAX_CASES {
            return Err(unsupported(&format!(
                "it has a type of {cases} cases; the limit is {MAX_CASES}"
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
