//! Stands for the URL of a server in a build without `PostgreSQL`, which refuses each of them.

use std::{convert::Infallible, fmt};

use super::LocationError;

/// URL of a database on a server of `PostgreSQL`. There is none in a build without the feature
/// `postgres`.
#[derive(Clone)]
pub struct ServerUrl(Infallible);

impl ServerUrl {
    pub(super) fn parse(_text: &str) -> Result<Self, LocationError> {
        Err(LocationError::NoPostgres)
    }

    /// Makes this the URL of a pooler of the server `direct`.
    #[must_use]
    pub fn pooled(self, _: Self) -> Self {
        self
    }

    pub(crate) fn is_pooled(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn direct(&self) -> &Self {
        self
    }

    /// Proves that there is no URL.
    pub(crate) fn into_never(self) -> ! {
        match self.0 {}
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
