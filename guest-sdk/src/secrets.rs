//! Secrets that the plugin requests in its `plugin.toml` and the operator grants.
//!
//! A plugin seldom reads a secret: the host attaches it to the requests that name it, see
//! [`Request::with_credential`]. The plugin only needs to know whether it exists.
//!
//! ```
//! use airlock_guest::{Error, http::Request, secrets};
//!
//! fn repositories(user: &str) -> Request {
//!     let request = Request::get(format!("https://api.github.com/users/{user}/repos"));
//!     // Works without, within a lower limit.
//!     if secrets::exists("token") { request.with_credential("token") } else { request }
//! }
//! # let _ = repositories("x");
//! ```
//!
//! In native builds, the secrets are those of a [`testing::Host`](crate::testing::Host).
//!
//! [`Request::with_credential`]: crate::http::Request::with_credential

use std::fmt;

use crate::host::{secrets as host, secrets_reveal};
use crate::{Error, ErrorKind};

/// Returns whether the operator granted a secret of this name and it has a value.
pub fn exists(name: &str) -> bool {
    host::exists(name)
}

/// Returns the value of a secret, for the rare plugin that computes with it, such as a signature.
///
/// It needs `reveal = true` in the request and a separate grant, which operators should give to few
/// plugins. A plugin that calls this function has the visible import `airlock:host/secrets-reveal`
/// in its component. The host still redacts the value from results, errors and logs.
///
/// ```no_run
/// # use airlock_guest::{Error, secrets};
/// # fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] { [0; 32] }
/// fn sign(message: &[u8]) -> Result<[u8; 32], Error> {
///     let key = secrets::reveal("signing_key")?;
///     Ok(hmac(key.expose(), message))
/// }
/// ```
pub fn reveal(name: &str) -> Result<Revealed, Error> {
    secrets_reveal::reveal(name).map(Revealed).map_err(|error| match error {
        secrets_reveal::SecretError::NoSuchSecret => {
            Error::internal(format!("this plugin does not ask for a secret called {name:?}"))
                .with_code("secret_no_such_secret")
        }
        secrets_reveal::SecretError::Denied => Error::denied(format!(
            "this tool may not read the secret {name:?}: the operator has not granted its value, or \
             plugin.toml does not declare `secret` for the tool"
        ))
        .with_code("secret_denied"),
        secrets_reveal::SecretError::Unavailable(reason) => {
            unavailable(&format!("the secret {name:?} cannot be read now: {reason}"))
        }
        secrets_reveal::SecretError::Other(reason) => {
            Error::new(ErrorKind::Other, format!("the secret {name:?} cannot be read: {reason}"))
                .with_code("secret_other")
        }
    })
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message).with_code("secret_unavailable")
}

/// A secret's value. It prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Revealed(Vec<u8>);

impl Revealed {
    /// Returns the value itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Revealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_redacted_when_printed() {
        assert_eq!(format!("{:?}", Some(Revealed(b"hunter2".to_vec()))), "Some(***)");
    }
}
