//! The setup token: a gateway without an operator prints one at its start, and its holder makes
//! the first operator. It is kept in memory alone, and is of no use once there is an operator.

use parking_lot::Mutex;

use crate::token::{self, NoRandomness, TokenDigest};
use airlock_core::secret::Secret;

/// Prefix of setup tokens.
const PREFIX: &str = "setup_";

/// A setup token, to be shown to the operator once.
#[derive(Debug)]
pub struct SetupToken(Secret);

impl SetupToken {
    /// Returns the token in plain text.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// The setup token of a gateway, while it is valid.
#[derive(Debug, Default)]
pub(crate) struct Setup(Mutex<Option<TokenDigest>>);

impl Setup {
    /// Makes a token. An earlier one is no longer valid.
    pub(crate) fn begin(&self) -> Result<SetupToken, NoRandomness> {
        let token = token::generate(PREFIX)?;
        *self.0.lock() = Some(token::digest(token.expose()));
        Ok(SetupToken(token))
    }

    /// Returns whether a token is valid. Compares digests, so the time of it tells nothing.
    pub(crate) fn accepts(&self, token: &str) -> bool {
        *self.0.lock() == Some(token::digest(token))
    }

    /// Returns whether there is a valid token.
    pub(crate) fn is_active(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Makes the token invalid.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_token_is_valid_until_the_setup_ends() {
        let setup = Setup::default();
        assert!(!setup.is_active() && !setup.accepts(""));
        let first = setup.begin().expect("randomness");
        assert!(setup.accepts(first.expose()) && !setup.accepts("setup_"));
        let second = setup.begin().expect("randomness");
        assert!(setup.accepts(second.expose()) && !setup.accepts(first.expose()));
        setup.end();
        assert!(!setup.is_active() && !setup.accepts(second.expose()));
    }
}
