//! Text that must not be seen: where it comes from ([`Source`]), what holds it ([`Secret`]), and
//! what takes it out of what leaves the gateway ([`Scrubber`]).

mod answer;
mod escapes;
mod forms;
mod scrubber;
mod source;

use std::fmt;

pub use self::{
    scrubber::{BadSecret, LONG_BYTES, Scrubber},
    source::{BadSource, MAX_BYTES, MIN_BYTES, Source, SourceError},
};

/// A credential. It prints as `***`, whatever it is part of.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The credential itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
