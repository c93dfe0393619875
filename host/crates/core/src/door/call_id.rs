//! Identifiers of calls.

use std::fmt;

use serde::Serialize;
use uuid::Uuid;

/// Identifier of one call: a UUID of version 7, which sorts by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    pub(super) fn next() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
