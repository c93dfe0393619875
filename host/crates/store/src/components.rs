//! Components of plugins that operators have uploaded, by the digests of their bytes.
//!
//! An [entry](crate::entries) names the components of its plugin, and each of those is kept as long as it
//! does. The others are kept while there is room, the last used ones longest: an earlier state of an
//! entry can be restored as long as its components are there. This module does not know what a component
//! is.
//!
//! A component is stored in parts, each in a change of its own: a change of many megabytes would delay
//! all others of the settings. Nothing uses a component before all its parts are there.

pub(crate) mod sql;

use std::{fmt, str::FromStr, sync::Arc};

use airlock_strings::{from_hex, hex};
use sha2::{Digest as _, Sha256};

use crate::database::Database;
use airlock_database::{error::Unavailable, sql::Subject};

/// Maximum bytes of one component: as many as the largest that is compiled has.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;
/// Maximum bytes of all components that entries name: 16 of the largest. Operators upload them, and
/// the database and its backups hold them all.
pub const MAX_USED_BYTES: u64 = 1 << 30;
/// Maximum bytes of the components that no entry names, such as uploads before their entry: four of the largest.
pub const MAX_UNUSED_BYTES: u64 = 256 << 20;
/// Bytes of a part.
const PART_BYTES: usize = 1 << 20;

/// Digest of a component: the SHA-256 of its bytes. As text, `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentDigest([u8; 32]);

/// A text is not the digest of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected \"sha256:\" and 64 hexadecimal digits")]
pub struct BadDigest;

/// Outcome of [`Database::put_component`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComponentPut {
    /// It is there.
    Done,
    /// It is larger than [`MAX_COMPONENT_BYTES`], or was removed again by the upload of others.
    Full,
}

impl ComponentDigest {
    const PREFIX: &str = "sha256:";

    /// Computes the digest of a component.
    pub fn compute(component: &[u8]) -> Self {
        Self(Sha256::digest(component).into())
    }

    /// Returns the digest as bytes.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ComponentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, hex(&self.0))
    }
}

impl fmt::Debug for ComponentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ComponentDigest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let digits = text.strip_prefix(Self::PREFIX).ok_or(BadDigest)?;
        from_hex(digits.as_bytes()).map(Self).ok_or(BadDigest)
    }
}

impl Database {
    /// Stores a component, which no entry names yet: a change of one has to follow. One that is there and
    /// damaged is repaired. If the future is dropped, some parts may stay until there is no room for them.
    /// Fails if the database cannot be used.
    pub async fn put_component(&self, component: Arc<[u8]>) -> Result<ComponentPut, Unavailable> {
        if component.len() > MAX_COMPONENT_BYTES {
            return Ok(ComponentPut::Full);
        }
        let hashed = component.clone();
        let digest = tokio::task::spawn_blocking(move || ComponentDigest::compute(&hashed)).await;
        let digest = digest.map_err(|_| Unavailable::Lost)?;
        let bytes = component.len();
        let parts = bytes.div_ceil(PART_BYTES);
        // Not within the change: it reads the whole component.
        let is_intact = self.component(digest).await?.is_some();
        let lacking = self
            .write(Subject::SETTINGS, move |sql| sql::begin(sql, digest, bytes, parts, is_intact));
        for number in lacking.await? {
            let component = component.clone();
            let put = self.write(Subject::SETTINGS, move |sql| {
                let end = bytes.min((number + 1) * PART_BYTES);
                sql::put_part(sql, digest, number, &component[number * PART_BYTES..end])
            });
            if !put.await? {
                return Ok(ComponentPut::Full);
            }
        }
        Ok(ComponentPut::Done)
    }

    /// Reads a component; `None` if it is not there, not complete, or not what its digest says. Fails if
    /// the database cannot be used.
    pub async fn component(&self, digest: ComponentDigest) -> Result<Option<Vec<u8>>, Unavailable> {
        let head = self.read(move |sql| sql::head(sql, digest)).await?;
        let Some(sql::Head { bytes, parts }) = head else { return Ok(None) };
        let mut component = Vec::with_capacity(bytes);
        for number in 0..parts {
            let part = self.read(move |sql| sql::part(sql, digest, number)).await?;
            // It may be removed meanwhile.
            let Some(part) = part.filter(|part| component.len() + part.len() <= bytes) else {
                return Ok(None);
            };
            component.extend_from_slice(&part);
        }
        let checking = tokio::task::spawn_blocking(move || {
            (ComponentDigest::compute(&component) == digest).then_some(component)
        });
        checking.await.map_err(|_| Unavailable::Lost)
    }
}

#[cfg(test)]
mod tests;
