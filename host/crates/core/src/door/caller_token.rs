//! The access token with which a caller has come, for servers at which it is exchanged for another one.
//!
//! Views, filters and calls are kept: in sessions, in lists, and while a call waits for answers. They have a
//! [`CallerToken`], which does not keep the token. The request does, with a [`HeldToken`], and with its end
//! the token is gone from all of them.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use crate::secret::Secret;

/// The access token of a request. Dropping it, which the request does at its end, ends all
/// [`CallerToken`]s that were made of it.
pub struct HeldToken(Arc<Secret>);

/// Access to the token of a request, while the request lasts. The default has none.
#[derive(Clone, Default)]
pub struct CallerToken(Weak<Secret>);

impl HeldToken {
    /// Holds a token.
    pub fn new(token: Secret) -> Self {
        Self(Arc::new(token))
    }

    /// Returns access to the token.
    pub fn access(&self) -> CallerToken {
        CallerToken(Arc::downgrade(&self.0))
    }
}

impl CallerToken {
    /// Returns the token; `None` if the caller has come without one, or its request has ended. The result is
    /// to be dropped as soon as the token was used.
    pub fn get(&self) -> Option<Arc<Secret>> {
        self.0.upgrade()
    }
}

impl PartialEq for CallerToken {
    /// Compares the requests, and not the tokens.
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for CallerToken {}

impl fmt::Debug for CallerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_with_its_request_in_every_copy() {
        let held = HeldToken::new(Secret::new("hunter2"));
        let access = held.access();
        let kept = access.clone();
        assert_eq!(kept.get().as_deref().map(Secret::expose), Some("hunter2"));
        assert!(kept == access && kept != CallerToken::default());
        assert_eq!(format!("{kept:?}"), "***");
        drop(held);
        assert!(kept.get().is_none() && access.get().is_none());
        assert!(CallerToken::default().get().is_none());
    }
}
