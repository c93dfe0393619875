//! Credentials: their sources ([`SecretSource`]), the type that holds one ([`Secret`]), and their
//! redaction in output of the gateway ([`Scrubber`]).

mod answer;
mod escapes;
mod forms;
mod scrubbed;
mod scrubber;
mod source;

use std::fmt;

pub use self::{
    scrubbed::scrubbed,
    scrubber::{BadSecret, LONG_BYTES, Scrubber},
    source::{BadSource, MAX_BYTES, MIN_BYTES, SecretSource, SourceError},
};

/// A credential. `Debug` and `Display` print `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the credential in plain text, for the code that sends it.
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
