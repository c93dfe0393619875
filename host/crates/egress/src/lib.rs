//! The one way out for plugins: whatever they send over HTTP is decided on, bounded and sent here.
//! The host's own clients, of models and upstreams, do not go through it.
//!
//! A [`Policy`] is made of [`Rule`]s, those that a plugin asks for and those that its operator
//! grants; a request leaves if one of each side matches it. Names are resolved, the addresses
//! checked, and only what was checked is dialled. Each redirect is a request of its own.
//! Credentials are attached at the last moment and are seen by nobody but the server. An [`Outlet`]
//! is what one caller may send, a [`Session`] what one of its calls may. This module knows neither
//! guests nor manifests: it is handed rules, secrets and a deadline.

mod address;
mod client;
mod credential;
mod error;
mod exchange;
mod headers;
mod hop;
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

use self::{client::Clients, resolve::SystemResolver, session::Shared};
pub use self::{
    credential::{BadCredential, Credential, Credentials, Injection},
    error::{Error, ErrorKind},
    headers::is_reserved as is_reserved_header,
    message::{Redirects, Request, Response},
    path::{BadPath, BadPattern},
    policy::{Bounds, Policy},
    resolve::Resolver,
    rule::{BadRule, Rule},
    session::{Outlet, Place, Session},
};

/// Requests of the whole process that are on their way at the same time.
const MAX_IN_FLIGHT: usize = 256;

/// The HTTP clients of the process and what bounds them together. Cheap to clone.
#[derive(Clone)]
pub struct Egress(Arc<Shared>);

/// No request can be sent at all: the system's certificates cannot be read, for one.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client can be made")]
pub struct Unusable(#[source] reqwest::Error);

impl Egress {
    /// Makes the clients, which resolve names as the operating system does.
    pub fn new() -> Result<Self, Unusable> {
        Self::with_resolver(Arc::new(SystemResolver::new()))
    }

    /// Makes the clients with another way to resolve names.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the resolver is handed over; that each client takes a clone is not its caller's affair"
    )]
    pub fn with_resolver(resolver: Arc<dyn Resolver>) -> Result<Self, Unusable> {
        Self::assemble(&resolver, MAX_IN_FLIGHT)
    }

    fn assemble(resolver: &Arc<dyn Resolver>, max_in_flight: usize) -> Result<Self, Unusable> {
        let clients = Clients::new(resolver).map_err(Unusable)?;
        Ok(Self(Arc::new(Shared::new(clients, max_in_flight))))
    }

    /// Joins what one caller may send. `caller` is its name in the operator's log.
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
