//! The two HTTP clients for outbound requests: one for the internet, one that also reaches private
//! networks. They never share a connection.

use std::{error::Error as _, io, sync::Arc, time::Duration};

use airlock_strings::with_causes;
use reqwest::{Client, redirect, retry};
use tracing::{debug, warn};

use super::{
    address::Reach,
    credential::Credentials,
    error::{Error, ErrorKind},
    resolve::{CheckedResolver, ResolveError, Resolver},
};
use crate::tls;

/// Time limit for a connection: resolving, all addresses of a name, and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of idle connections that are kept for one host, half of those that one call may
/// use at the same time.
const MAX_IDLE: usize = 4;
/// Time that an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Both clients.
pub(super) struct HttpClients {
    public: Client,
    private: Client,
}

impl HttpClients {
    pub(super) fn new(resolver: &Arc<dyn Resolver>) -> reqwest::Result<Self> {
        Ok(Self {
            public: client(resolver, Reach::Public)?,
            private: client(resolver, Reach::Private)?,
        })
    }

    /// Returns the client that reaches `farthest` and nothing stricter.
    pub(super) fn reaching(&self, farthest: Reach) -> &Client {
        if farthest == Reach::Private { &self.private } else { &self.public }
    }
}

/// Builds a client that does nothing without a policy decision: no proxy from the environment, no
/// redirects, no retries, no decompression (a small response could become a large one), no cookies
/// (they are not compiled in).
fn client(resolver: &Arc<dyn Resolver>, farthest: Reach) -> reqwest::Result<Client> {
    tls::client()
        .dns_resolver(CheckedResolver { resolver: resolver.clone(), farthest })
        .user_agent(concat!("airlock/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .http1_only()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_nodelay(true)
        .build()
}

/// Converts a failed request to the error for the guest, and logs the details that only the
/// operator may know. Neither contains the URL, which may hold a credential. Credentials are
/// redacted from the host name too, because it is the guest's own text.
pub(super) fn explain(error: reqwest::Error, caller: &str, credentials: &Credentials) -> Error {
    let error = error.without_url();
    if let Some(unresolved) = find::<ResolveError>(&error) {
        return explain_unresolved(unresolved, caller, credentials);
    }
    debug!(caller, cause = %credentials.blotted(&with_causes(&error)), "outbound request failed");
    if error.is_builder() {
        Error::invalid("the request cannot be written as HTTP")
    } else if error.is_connect() {
        if is_tls(&error) {
            Error::new(
                ErrorKind::Tls,
                "no encrypted connection: the certificate or the encryption is not acceptable",
            )
        } else {
            Error::new(ErrorKind::Connect, "no connection to the server")
        }
    } else if find::<hyper::Error>(&error).is_some_and(hyper::Error::is_parse_too_large) {
        Error::new(ErrorKind::TooLarge, "the response has too many headers").having_sent(true)
    } else {
        Error::new(
            ErrorKind::Protocol,
            "the server closed the connection too early, or its response is not HTTP",
        )
        .having_sent(true)
    }
}

/// Converts the reason that a host is not dialled to the error for the guest. A refused address
/// returns the same error as every other refusal.
pub(super) fn explain_unresolved(
    unresolved: &ResolveError,
    caller: &str,
    credentials: &Credentials,
) -> Error {
    match unresolved {
        ResolveError::Refused { host, address, .. } => {
            let host = credentials.blotted(host);
            let reason = credentials.blotted(&unresolved.to_string());
            warn!(caller, %host, %address, %reason, "outbound request refused");
            Error::denied()
        }
        ResolveError::Nothing { .. } | ResolveError::Failed { .. } => {
            debug!(caller, cause = %credentials.blotted(&with_causes(unresolved)), "outbound request failed");
            Error::new(ErrorKind::Dns, "the name does not resolve")
        }
    }
}

/// Returns whether a connection failed in TLS. The other causes are the operating system and a
/// timeout.
fn is_tls(error: &reqwest::Error) -> bool {
    // rustls reports its error inside an error of this type; errors of the operating system have a
    // number.
    find::<io::Error>(error)
        .is_some_and(|error| error.raw_os_error().is_none() && error.get_ref().is_some())
        && !error.is_timeout()
}

fn find<E: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}
