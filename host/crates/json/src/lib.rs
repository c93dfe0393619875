//! Untrusted JSON, with limits that are checked before a tree is built from it.
//!
//! A limit on bytes does not limit memory: `{"":0},` takes 7 bytes as text and 550 bytes as a
//! [`serde_json::Value`]. [`check`] reads the text once, builds nothing, and charges every value
//! and key with the memory that it takes in the tree. [`parse`] does the same and then builds the
//! tree. [`schema`] checks values against untrusted JSON Schemas, and [`parameters`] makes of one what
//! providers of models take. This crate does not depend on the rest of the gateway.

mod charge;
pub mod parameters;
pub mod raw;
mod scan;
pub mod schema;
mod text;
mod unique;
pub mod weight;
pub mod yaml;

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

pub use self::{
    raw::RawObject,
    scan::TokenSink,
    text::JsonText,
    unique::{DuplicateKey, check_keys, check_unique_keys},
};

/// The deepest nesting of arrays and objects, in levels. The recursion limit of
/// `serde_json`, 128, refuses the 128th level.
pub const MAX_DEPTH: usize = 127;

/// Limits on one JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Number of values and keys together. A key of an object is a node, and so is its value.
    pub nodes: usize,
    /// Nesting depth of arrays and objects. 0 admits only scalars; more than [`MAX_DEPTH`] has the
    /// same effect as [`MAX_DEPTH`].
    pub depth: usize,
    /// Estimated memory of the tree, in bytes.
    pub tree_bytes: usize,
}

impl Caps {
    /// Limits memory and nothing else, except the depth to [`MAX_DEPTH`].
    pub const fn memory(tree_bytes: usize) -> Self {
        Self { nodes: usize::MAX, depth: MAX_DEPTH, tree_bytes }
    }
}

/// Cost of a JSON text as a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of values and keys together.
    pub nodes: usize,
    /// Greatest nesting depth of arrays and objects; 0 for a scalar.
    pub depth: usize,
    /// Upper bound on the memory that the tree holds as a [`serde_json::Value`], in bytes. Spare
    /// capacity and the allocator's rounding are included. Not included: while an array or object
    /// grows, its old allocation may exist beside the new one for a short time.
    pub tree_bytes: usize,
}

/// Reason why a JSON text was refused. Offsets are in bytes from the start of the text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text has more values and keys than the cap.
    #[error("more than {limit} JSON values and keys, found by byte {at} of {len}")]
    TooManyNodes {
        /// The cap.
        limit: usize,
        /// Offset of the first node beyond the cap.
        at: usize,
        /// Bytes of the whole text.
        len: usize,
    },
    /// The text is nested deeper than the cap.
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
    /// The object has more members than a [`RawObject`] may have.
    #[error("more than {limit} members in one object")]
    TooManyMembers {
        /// The limit.
        limit: usize,
    },
    /// The text is not valid JSON.
    #[error("expected {expected} at byte {at}")]
    Syntax {
        /// Input that would have been valid there.
        expected: &'static str,
        /// Offset of the first byte that is not valid.
        at: usize,
    },
    /// The text is not valid JSON or does not fit the requested type. The error is from
    /// `serde_json`.
    #[error(transparent)]
    Parse(#[from] serde_json::Error),
}

impl Error {
    /// Returns whether the text exceeds a cap. Such a text may be valid JSON.
    pub fn is_cap(&self) -> bool {
        match self {
            Self::TooManyNodes { .. }
            | Self::TooManyMembers { .. }
            | Self::TooDeep { .. }
            | Self::TooLarge { .. } => true,
            Self::Syntax { .. } | Self::Parse(_) => false,
        }
    }
}

/// Checks a JSON text against `caps` and returns its cost. Reads the text once, allocates nothing,
/// and stops at the first byte that is not valid or exceeds a cap.
///
/// Accepts exactly the texts within `caps` that `serde_json` parses to a [`serde_json::Value`].
pub fn check(text: &[u8], caps: &Caps) -> Result<Cost, Error> {
    check_with(text, caps, &mut ())
}

/// Checks a JSON text like [`check`], and hands its tokens to `sink` as they are read.
pub fn check_with(text: &[u8], caps: &Caps, sink: &mut impl TokenSink) -> Result<Cost, Error> {
    scan::Scanner::new(text, caps, sink).run()
}

/// Checks a JSON text against `caps` like [`check`], then parses it. The returned cost is that of a
/// [`serde_json::Value`] or [`serde_json::Map`]; other types may take more or less memory.
pub fn parse<T: DeserializeOwned>(text: &[u8], caps: &Caps) -> Result<(T, Cost), Error> {
    match check(text, caps) {
        Ok(cost) => Ok((serde_json::from_slice(text)?, cost)),
        Err(error) => Err(located::<T>(error, text)),
    }
}

/// Adds line and column to a syntax error.
fn located<T: DeserializeOwned>(error: Error, text: &[u8]) -> Error {
    match error {
        // Parses again, because an error of `serde_json` has line and column. `serde_json` stops at
        // the same byte at the latest, so it builds no more than was charged.
        error @ Error::Syntax { .. } => {
            serde_json::from_slice::<T>(text).err().map_or(error, Error::Parse)
        }
        error => error,
    }
}

/// Returns the length of a value as JSON text, in bytes, without building the text. 0 if it cannot
/// be written as JSON.
pub fn text_len(value: &(impl Serialize + ?Sized)) -> usize {
    text_len_within(value, usize::MAX).unwrap_or_default()
}

/// Returns the members of the object that `json!({...})` builds. Panics if the value is not an object.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => unreachable!("an object is written here, not {other}"),
    }
}

/// Returns the length of a value as JSON text, in bytes; `None` if it is more than `limit`, which is
/// found without reading the rest of the value, or if the value cannot be written as JSON.
pub fn text_len_within(value: &(impl Serialize + ?Sized), limit: usize) -> Option<usize> {
    let mut length = LengthCounter { bytes: 0, limit };
    serde_json::to_writer(&mut length, value).ok().map(|()| length.bytes)
}

/// Maximum growth of a text by indentation, which can make nested arrays a hundred times larger.
const MAX_INDENTATION: usize = 16;
/// Length up to which an indented text may always be, in bytes.
const SHORT_BYTES: usize = 4 << 10;

/// Returns a value as JSON with a line for each element; on one line if indentation would be most of it.
pub fn indented(value: &Value) -> String {
    let text = value.to_string();
    let limit = text.len().saturating_mul(MAX_INDENTATION).max(SHORT_BYTES);
    let mut writer = BoundedText { bytes: Vec::new(), limit };
    match serde_json::to_writer_pretty(&mut writer, value) {
        Ok(()) => String::from_utf8(writer.bytes).unwrap_or(text),
        Err(_) => text,
    }
}

/// Writer that keeps bytes, up to a limit.
struct BoundedText {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writer that counts bytes, up to a limit.
struct LengthCounter {
    bytes: usize,
    limit: usize,
}

impl io::Write for LengthCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
