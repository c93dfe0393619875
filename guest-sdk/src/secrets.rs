//! Secrets, as far as the plugin asks for them in its `plugin.toml` and the operator grants them.
//!
//! A plugin seldom sees one: the host attaches it to the requests that name it, see
//! [`Request::with_credential`]. What a plugin needs to know is whether it is there.
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
//! Natively there are none.
//!
//! [`Request::with_credential`]: crate::http::Request::with_credential

use std::fmt;

use crate::bindings::airlock::host::{secrets as host, secrets_reveal};
use crate::{Error, ErrorKind};

/// Whether the operator granted a secret of this name and it has a value.
pub fn exists(name: &str) -> bool {
    cfg!(target_family = "wasm") && host::exists(name)
}

/// The value of a secret, for the rare plugin that computes something with it: a signature, say.
///
/// It needs `reveal = true` in the request and a grant of its own, which operators are right to
/// give to few. Whoever calls this function has the import `airlock:host/secrets-reveal` in the
/// component, for everyone to see. The host takes the value out of results, errors and logs all the
/// same.
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
    if !cfg!(target_family = "wasm") {
        return Err(unavailable("there are no secrets outside a gateway"));
    }
    secrets_reveal::reveal(name).map(Revealed).map_err(|error| match error {
        secrets_reveal::SecretError::NotFound => {
            Error::internal(format!("this plugin does not ask for a secret called {name:?}"))
                .with_code("secret_not_found")
        }
        secrets_reveal::SecretError::Denied => Error::denied(format!(
            "the operator did not grant this plugin the value of its secret {name:?}"
        ))
        .with_code("secret_denied"),
        secrets_reveal::SecretError::Unavailable => {
            unavailable(&format!("the secret {name:?} cannot be read right now"))
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
    /// The value itself.
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
    fn natively_there_are_none() {
        assert!(!exists("token"));
        assert_eq!(reveal("token").unwrap_err().code(), Some("secret_unavailable"));
    }

    #[test]
    fn a_value_does_not_print() {
        assert_eq!(format!("{:?}", Some(Revealed(b"hunter2".to_vec()))), "Some(***)");
    }
}
