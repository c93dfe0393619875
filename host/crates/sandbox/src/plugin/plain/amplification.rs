//! Host memory that the values of a result may take.
//!
//! The engine charges a result as it takes it out of the guest, and stops at a limit. The charge is
//! less than the memory that the values take; the ratio depends on the type.

use super::{exports::Function, shape::Shape};

/// Host memory that the values made by the engine may take, for each byte that may be copied out of
/// the guest.
pub(super) const HOST_BYTES_PER_COPIED: usize = 8;

impl Function {
    /// Returns the bytes that the engine may charge for taking a result out of the guest, so that
    /// the values it makes take at most [`HOST_BYTES_PER_COPIED`] times `bytes`. The engine charges
    /// 40 bytes for a number; without this, a list of numbers could not be as long as the limit on
    /// its text allows. The same bound holds for what the guest hands to host calls.
    pub(super) fn copied_bytes(&self, bytes: usize) -> usize {
        let amplification =
            self.result.as_ref().map_or(HOST_BYTES_PER_COPIED, Shape::amplification);
        bytes.saturating_mul(HOST_BYTES_PER_COPIED) / amplification
    }
}

impl Shape {
    /// Returns the bytes of host memory that a value of this type may take for each byte that the
    /// engine charges for taking it out of the guest.
    ///
    /// The engine charges each element for the size of a [`Val`](wasmtime::component::Val), 40 bytes, and names by their
    /// length. It does not charge for three things: vectors that grow to twice their elements (and
    /// exist twice for a moment), the room for four elements that even one element gets, and the
    /// allocation behind each name, 32 bytes for a letter. So a list of numbers takes up to twice
    /// the charge, nested records of one field seven times, and 32 flags of one letter 26 times. A
    /// test checks the sum.
    fn amplification(&self) -> usize {
        const SCALAR: usize = 2;
        const LIST: usize = 4;
        const FIELDS: usize = 8;
        const FLAGS: usize = 32;
        match self {
            Self::Flags(_) => FLAGS,
            Self::Record(fields) => {
                fields.iter().map(|field| field.shape.amplification()).fold(FIELDS, usize::max)
            }
            Self::Tuple(shapes) => shapes.iter().map(Self::amplification).fold(FIELDS, usize::max),
            Self::Variant(cases) => {
                cases.values().flatten().map(Self::amplification).fold(LIST, usize::max)
            }
            Self::List(item) if item.is_scalar() => SCALAR,
            Self::List(item) => item.amplification().max(LIST),
            Self::Option(some) => some.amplification(),
            Self::Result { ok, err } => [ok, err]
                .into_iter()
                .flatten()
                .map(|shape| shape.amplification())
                .fold(SCALAR, usize::max),
            _ => SCALAR,
        }
    }

    /// Returns whether a value takes no memory besides its own place.
    fn is_scalar(&self) -> bool {
        matches!(self, Self::Bool | Self::Int(_) | Self::F32 | Self::F64 | Self::Char)
    }
}
