//! The HTTP clients for outbound requests. Each is one caller's, for one tenant, and reaches the internet
//! or also private networks. They never share a connection: a server that ignores the body of a
//! request, and reads it as the next request on the connection, would otherwise respond to another
//! caller or tenant with what the body asks for.

use std::{collections::HashMap, error::Error as _, io, sync::Arc, time::Duration};

use airlock_core::tenant::Tenant;
use airlock_strings::with_causes;
use parking_lot::Mutex;
use reqwest::{Client, redirect, retry};
use rustls::ClientConfig;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    address::Reach,
    credential::Credentials,
    error::{EgressError, EgressErrorKind},
    resolve::{CheckedResolver, ResolveError, Resolver},
};
use crate::tls;

/// Time limit for a connection: resolving, all addresses of a name, and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of idle connections that a client keeps for one host, half of those that one call
/// may use at the same time.
const MAX_IDLE: usize = 4;
/// Time that an idle connection is kept. A client that is not used for as long has none.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The clients that have been used in the last [`IDLE_TIMEOUT`], and what the next one is made from.
pub(super) struct HttpClients {
    resolver: Arc<dyn Resolver>,
    /// Made once, because reading the certificates of the operating system takes milliseconds.
    tls: ClientConfig,
    kept: Mutex<HashMap<ClientOwner, KeptClient>>,
}

/// The requests that may share connections.
#[derive(PartialEq, Eq, Hash)]
struct ClientOwner {
    caller: Arc<str>,
    tenant: Tenant,
    is_private: bool,
}

struct KeptClient {
    client: Client,
    used: Instant,
}

impl HttpClients {
    pub(super) fn new(resolver: &Arc<dyn Resolver>) -> Result<Self, rustls::Error> {
        let tls = tls::client_config(Vec::new())?;
        Ok(Self { resolver: resolver.clone(), tls, kept: Mutex::default() })
    }

    /// Returns the client of `caller` for `tenant` that reaches `farthest` and nothing stricter.
    pub(super) fn reaching(
        &self,
        caller: &Arc<str>,
        tenant: &Tenant,
        farthest: Reach,
    ) -> reqwest::Result<Client> {
        let caller = caller.clone();
        let tenant = tenant.clone();
        let is_private = farthest == Reach::Private;
        let owner = ClientOwner { caller, tenant, is_private };
        let now = Instant::now();
        let mut kept = self.kept.lock();
        if let Some(found) = kept.get_mut(&owner) {
            found.used = now;
            return Ok(found.client.clone());
        }
        kept.retain(|_, kept| now.duration_since(kept.used) < IDLE_TIMEOUT);
        let farthest = if is_private { Reach::Private } else { Reach::Public };
        let client = self.build(farthest)?;
        kept.insert(owner, KeptClient { client: client.clone(), used: now });
        Ok(client)
    }

    /// Builds a client that does nothing without a policy decision: no proxy from the environment, no
    /// redirects, no retries, no decompression (a small response could become a large one), no cookies
    /// (they are not compiled in).
    fn build(&self, farthest: Reach) -> reqwest::Result<Client> {
        tls::client_with(self.tls.clone())
            .dns_resolver(CheckedResolver { resolver: self.resolver.clone(), farthest })
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
}

/// Converts a failed request to the error for the guest, and logs the details that only the
/// operator may know. Neither contains the URL, which may hold a credential. Credentials are
/// redacted from the host name too, because it is the guest's own text.
pub(super) fn explain(
    error: reqwest::Error,
    caller: &str,
    credentials: &Credentials,
) -> EgressError {
    let error = error.without_url();
    if let Some(unresolved) = find::<ResolveError>(&error) {
        return explain_unresolved(unresolved, caller, credentials);
    }
    debug!(caller, cause = %credentials.blotted(&with_causes(&error)), "outbound request failed");
    if error.is_builder() {
        EgressError::invalid("the request cannot be written as HTTP")
    } else if error.is_connect() {
        if is_tls(&error) {
            EgressError::new(
                EgressErrorKind::Tls,
                "no encrypted connection: the certificate or the encryption is not acceptable",
            )
        } else {
            EgressError::new(EgressErrorKind::Connect, "no connection to the server")
        }
    } else if find::<hyper::Error>(&error).is_some_and(hyper::Error::is_parse_too_large) {
        EgressError::new(EgressErrorKind::TooLarge, "the response has too many headers")
            .having_sent(true)
    } else {
        EgressError::new(
            EgressErrorKind::Protocol,
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
) -> EgressError {
    match unresolved {
        ResolveError::Refused { host, address, .. } => {
            let host = credentials.blotted(host);
            let reason = credentials.blotted(&unresolved.to_string());
            warn!(caller, %host, %address, %reason, "outbound request refused");
            EgressError::denied()
        }
        ResolveError::Nothing { .. } | ResolveError::Failed { .. } => {
            debug!(caller, cause = %credentials.blotted(&with_causes(unresolved)), "outbound request failed");
            EgressError::new(EgressErrorKind::Dns, "the name does not resolve")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::SystemResolver;

    #[tokio::test(start_paused = true)]
    async fn clients_that_were_not_used_for_long_are_dropped() {
        let resolver: Arc<dyn Resolver> = Arc::new(SystemResolver::new());
        let clients = HttpClients::new(&resolver).expect("good settings");
        let caller: Arc<str> = "plugin".into();
        let ann = Tenant::of_key([1; 32], "ann");
        for (tenant, kept) in [(&ann, 1), (&Tenant::ANONYMOUS, 2), (&ann, 2), (&Tenant::GATEWAY, 2)]
        {
            clients.reaching(&caller, tenant, Reach::Public).expect("a client");
            assert_eq!(clients.kept.lock().len(), kept, "{tenant}");
            tokio::time::advance(IDLE_TIMEOUT / 2).await;
        }
    }
}
