//! The only network access of plugins: every HTTP request of a plugin is checked against a policy,
//! bounded and sent here. The host's own clients do not use this path: [`https`] is the one for model providers, [`tls`]
//! the TLS of all of them, and the one for MCP servers connects only to the addresses that a [`GuardedResolver`] permits.
//!
//! A [`Policy`] consists of [`Rule`]s on two sides: those that a plugin asks for and those that its
//! operator grants. A request is sent if a rule of each side matches it. Names are resolved, the
//! addresses are checked, and connections are made only to checked addresses. Each redirect is
//! checked as a request of its own. Credentials are attached just before sending, and only the server
//! receives them.
//! An [`Outlet`] holds the permissions of one caller, a [`Session`] the requests of one call. This
//! crate knows neither guests nor manifests: it takes rules, secrets and a deadline as arguments.

mod address;
mod client;
mod credential;
mod error;
mod exchange;
mod guard;
mod headers;
mod hop;
pub mod https;
mod injection;
mod message;
mod path;
mod policy;
mod resolve;
mod rule;
mod session;
mod spelling;
mod target;
pub mod tls;

use std::sync::Arc;

use self::{client::HttpClients, resolve::SystemResolver, session::EgressState};
pub use self::{
    credential::{BadCredential, Credential, Credentials},
    error::{EgressError, EgressErrorKind},
    guard::{GuardedResolver, Unreachable},
    headers::is_reserved as is_reserved_header,
    injection::Injection,
    message::{EgressRequest, EgressResponse, Redirects},
    path::{BadPath, BadPattern},
    policy::{Bounds, Destinations, Policy},
    resolve::Resolver,
    rule::{BadRule, Rule},
    session::{EgressObserver, Outlet, RequestSlot, Session},
};

/// Maximum number of requests of the whole process in flight, as many as four callers may have. Each
/// holds a connection, and so a file descriptor.
const MAX_IN_FLIGHT: usize = 256;

/// The HTTP clients of the process and the limits that they share. Cheap to clone.
#[derive(Clone)]
pub struct Egress(Arc<EgressState>);

/// Reason that no HTTP client can be built: the settings of TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be created")]
pub struct HttpClientError(#[source] rustls::Error);

impl Egress {
    /// Builds the clients, which resolve names as the operating system does.
    pub fn new() -> Result<Self, HttpClientError> {
        Self::with_resolver(Arc::new(SystemResolver::new()))
    }

    /// Builds the clients with another resolver.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the resolver is handed over; that each client takes a clone is not its caller's affair"
    )]
    pub fn with_resolver(resolver: Arc<dyn Resolver>) -> Result<Self, HttpClientError> {
        Self::assemble(&resolver, MAX_IN_FLIGHT)
    }

    fn assemble(
        resolver: &Arc<dyn Resolver>,
        max_in_flight: usize,
    ) -> Result<Self, HttpClientError> {
        let clients = HttpClients::new(resolver).map_err(HttpClientError)?;
        Ok(Self(Arc::new(EgressState::new(clients, max_in_flight))))
    }

    /// Creates the outlet of one caller. `caller` is its name in the operator's log.
    pub fn outlet(
        &self,
        caller: &str,
        policy: impl Into<Arc<Policy>>,
        credentials: impl Into<Arc<Credentials>>,
    ) -> Outlet {
        Outlet::new(&self.0, caller, policy.into(), credentials.into())
    }
}

#[cfg(test)]
pub(crate) mod tests;
