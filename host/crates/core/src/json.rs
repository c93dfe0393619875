//! JSON from outside, bounded before a tree is built of it.
//!
//! A limit on bytes is no limit on memory: `{"":0},` is 7 bytes of text and 550 bytes as a
//! [`Value`]. [`check`] reads the text once, builds nothing, and charges every value and key with
//! what the tree of it takes; [`parse`] does the same and then builds the tree. This module knows
//! JSON and nothing of the gateway.

mod charge;
mod scan;
mod text;
mod unique;

use serde::de::DeserializeOwned;

pub use self::{
    text::JsonText,
    unique::{DuplicateKey, check_unique_keys},
};

/// The deepest nesting of arrays and objects that `serde_json` parses.
pub const MAX_DEPTH: usize = 127;

/// Bounds on one JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Values and keys together. A key of an object is a node, and so is its value.
    pub nodes: usize,
    /// Arrays and objects inside one another: 0 admits scalars alone, more than [`MAX_DEPTH`] has
    /// no effect.
    pub depth: usize,
    /// Estimated memory of the tree, in bytes.
    pub tree_bytes: usize,
}

impl Caps {
    /// Bounds memory and nothing else, beyond the depth that `serde_json` parses.
    pub const fn memory(tree_bytes: usize) -> Self {
        Self { nodes: usize::MAX, depth: MAX_DEPTH, tree_bytes }
    }
}

/// Cost of a JSON text as a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Values and keys together.
    pub nodes: usize,
    /// Arrays and objects inside one another, at the deepest place.
    pub depth: usize,
    /// Upper bound on the memory that the tree holds as a [`serde_json::Value`], in bytes: spare
    /// capacity and the allocator's rounding included. While an array or object grows, its old
    /// allocation may exist beside the new one for a moment.
    pub tree_bytes: usize,
}

/// Why a JSON text was refused. Offsets are in bytes from the start of the text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// More values and keys than the cap.
    #[error("more than {limit} JSON values and keys, found by byte {at} of {len}")]
    TooManyNodes {
        /// The cap.
        limit: usize,
        /// Offset of the first node beyond the cap.
        at: usize,
        /// Bytes of the whole text.
        len: usize,
    },
    /// Nested deeper than the cap.
    #[error("arrays and objects nested more than {limit} deep, found at byte {at}")]
    TooDeep {
        /// The cap.
        limit: usize,
        /// Offset of the first bracket beyond the cap.
        at: usize,
    },
    /// The tree would take more memory than the cap.
    #[error(
        "takes more than {limit_bytes} bytes of memory when parsed, found {found_bytes} by byte {at} of {len}"
    )]
    TooLarge {
        /// The cap.
        limit_bytes: usize,
        /// Estimated memory of the text up to `at`.
        found_bytes: usize,
        /// Offset of the node that crossed the cap.
        at: usize,
        /// Bytes of the whole text.
        len: usize,
    },
    /// No JSON.
    #[error("expected {expected} at byte {at}")]
    Syntax {
        /// Input that would have been valid there.
        expected: &'static str,
        /// Offset of the first byte that is not valid.
        at: usize,
    },
    /// No JSON, or not of the type that was asked for; in the words of `serde_json`.
    #[error(transparent)]
    Parse(#[from] serde_json::Error),
}

impl Error {
    /// Whether a cap refused the text, which may be valid JSON.
    pub fn is_cap(&self) -> bool {
        matches!(self, Self::TooManyNodes { .. } | Self::TooDeep { .. } | Self::TooLarge { .. })
    }
}

/// Checks a JSON text against `caps` and returns what it costs. Reads it once, allocates nothing,
/// and stops at the first byte that is not valid or crosses a cap.
///
/// Accepts exactly the texts within `caps` that `serde_json` parses to a [`serde_json::Value`].
pub fn check(text: &[u8], caps: &Caps) -> Result<Cost, Error> {
    scan::Scanner::new(text, caps).run()
}

/// Checks a JSON text against `caps` like [`check`], then parses it. The cost is that of a
/// [`serde_json::Value`] or [`serde_json::Map`]; other types may take more or less.
pub fn parse<T: DeserializeOwned>(text: &[u8], caps: &Caps) -> Result<(T, Cost), Error> {
    match check(text, caps) {
        Ok(cost) => Ok((serde_json::from_slice(text)?, cost)),
        // `serde_json` stops at the same byte at the latest, so it builds no more than was charged;
        // its error has line and column.
        Err(error @ Error::Syntax { .. }) => {
            Err(serde_json::from_slice::<T>(text).err().map_or(error, Error::Parse))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
