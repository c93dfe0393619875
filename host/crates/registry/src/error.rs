//! Reasons that an artifact is not pulled or pushed.

use airlock_strings::{MAX_REASON_BYTES, cut, visible_line};

use crate::digest::Digest;

/// Reason that an artifact is not pulled, pushed or downloaded. Texts of servers have their invisible
/// characters made visible, and no text has a credential.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created")]
    Client(#[source] reqwest::Error),
    /// The address is not valid.
    #[error("{0} is not an https:// URL with a host and without a user")]
    Address(String),
    /// The server would be reached over plain HTTP.
    #[error(
        "{host} would be reached over plain HTTP, which is for this machine; `--insecure-http` permits it"
    )]
    PlainHttp {
        /// The server.
        host: String,
    },
    /// The host has an address that is never reached.
    #[error("{0} has an address that is never reached: it is link-local or reserved")]
    Unreachable(String),
    /// There was no complete response.
    #[error("no complete response from {host}")]
    Transport {
        /// The server.
        host: String,
        /// The cause, without the URL.
        source: reqwest::Error,
    },
    /// The server has no such artifact.
    #[error("{0} does not exist, or is hidden from this user")]
    Missing(String),
    /// The server refused the request.
    #[error("{what}: the server responded with {status}{detail}")]
    Refused {
        /// The step that was refused.
        what: String,
        /// Status of the response.
        status: u16,
        /// Message of the server, with a separator before it.
        detail: String,
    },
    /// The server asks for credentials in a way that is not supported, or refuses them.
    #[error("sign-in at {host}: {reason}")]
    SignIn {
        /// The registry.
        host: String,
        /// Description of the fault.
        reason: String,
    },
    /// The response is larger than its limit.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// The response.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// The content is not that of its digest.
    #[error(
        "{what} has the digest {found}, expected {expected}: the content is not what was named"
    )]
    OtherContent {
        /// The content.
        what: &'static str,
        /// The digest that was named.
        expected: Digest,
        /// The digest of the content.
        found: Digest,
    },
    /// The manifest is not that of a component.
    #[error("the manifest is not that of one WebAssembly component: {0}")]
    Manifest(String),
    /// The response leads to a place that is not followed.
    #[error("{host} redirects to a place that is not followed: {reason}")]
    Redirect {
        /// The server.
        host: String,
        /// Description of the place.
        reason: String,
    },
}

/// Returns a text of a server as people read it, on one line.
pub(crate) fn shown(text: &str) -> String {
    cut(visible_line(text), MAX_REASON_BYTES)
}
