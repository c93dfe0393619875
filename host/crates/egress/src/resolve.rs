//! Resolves a name to addresses that may be dialled. The check runs when a connection is made, on
//! the addresses that are dialled. A name that resolves to another address later is therefore
//! checked again.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    sync::{Arc, Weak},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::address::{self, Reach};

/// Maximum number of addresses that are tried for one name. A name with a hundred unreachable addresses
/// would otherwise block its request for all of them.
const MAX_DIALLED: usize = 6;
/// Maximum number of concurrent lookups of the operating system, a quarter of the blocking threads
/// of the runtime. Each holds a thread, even if its request no longer waits for it.
const MAX_LOOKUPS: usize = 128;
/// Maximum number of them for the names of one domain: an eighth. A lookup lasts as long as its name
/// server is silent, up to half a minute, and its request may give up after a millisecond. So a
/// caller with a slow domain could otherwise take all of them.
const MAX_OF_DOMAIN: usize = 16;

/// Finds the addresses of a name. The HTTP client checks the result.
pub trait Resolver: Send + Sync + 'static {
    /// Returns all addresses of `name`, which is in lower case and in punycode. Dropping the future
    /// abandons the lookup.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The operating system's resolver: hosts file, DNS and its other configured sources.
pub(super) struct SystemResolver {
    lookups: Arc<Semaphore>,
    /// Permits of each domain that has a lookup waiting or running.
    of_domains: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl SystemResolver {
    pub(super) fn new() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)), of_domains: Mutex::default() }
    }

    /// Waits for the two permits of a lookup: first for that of the domain of `name`, so that lookups of a
    /// slow domain do not wait in the queue of all.
    fn turn(
        &self,
        name: &str,
    ) -> impl Future<Output = io::Result<[OwnedSemaphorePermit; 2]>> + Send + 'static + use<> {
        let of_domain = self.of_domain(domain(name));
        let lookups = self.lookups.clone();
        async move {
            let of_domain = of_domain.acquire_owned().await.map_err(io::Error::other)?;
            Ok([of_domain, lookups.acquire_owned().await.map_err(io::Error::other)?])
        }
    }

    fn of_domain(&self, domain: &str) -> Arc<Semaphore> {
        let mut of_domains = self.of_domains.lock();
        if let Some(lookups) = of_domains.get(domain).and_then(Weak::upgrade) {
            return lookups;
        }
        of_domains.retain(|_, lookups| lookups.strong_count() > 0);
        let lookups = Arc::new(Semaphore::new(MAX_OF_DOMAIN));
        of_domains.insert(domain.to_owned(), Arc::downgrade(&lookups));
        lookups
    }
}

/// Returns the last two labels of a name. Names below a public suffix of two labels, such as `co.uk`,
/// share their lookups.
fn domain(name: &str) -> &str {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rmatch_indices('.').nth(1).map_or(name, |(dot, _)| &name[dot + 1..])
}

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let turn = self.turn(name);
        let name = name.to_owned();
        Box::pin(async move {
            let turn = turn.await?;
            let lookup = tokio::task::spawn_blocking(move || {
                // The permits move into the thread: a lookup cannot be stopped, and counts until it
                // ends.
                let _turn = turn;
                Ok((name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

/// Reason that a host is not dialled.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// For the operator only: guests must not learn the addresses of a name.
    #[error("{host} resolves to {address}, which {}", match .reach {
        Reach::Private => "is private; to permit it, set `private` in the request of the manifest and in the grant",
        _ => "no rule can permit",
    })]
    Refused { host: String, address: IpAddr, reach: Reach },
    #[error("{host} has no address")]
    Nothing { host: String },
    #[error("{host} cannot be resolved")]
    Failed {
        host: String,
        #[source]
        cause: io::Error,
    },
}

/// Checks all addresses of a host.
///
/// One forbidden address refuses the host, whatever the others are. Dialling only the permitted
/// addresses would be as safe for this connection. But no host has both a public and a private or
/// forbidden address by accident: a mixed result is the start of DNS rebinding, or a mistake that
/// the operator should see. A refusal also does not depend on the order of the addresses.
pub(super) fn check(host: &str, addresses: &[IpAddr], farthest: Reach) -> Result<(), ResolveError> {
    let judged = addresses.iter().map(|address| (*address, address::reach(*address)));
    match judged.max_by_key(|(_, reach)| *reach).filter(|(_, reach)| *reach > farthest) {
        Some((address, reach)) => {
            Err(ResolveError::Refused { host: host.to_owned(), address, reach })
        }
        None if addresses.is_empty() => Err(ResolveError::Nothing { host: host.to_owned() }),
        None => Ok(()),
    }
}

/// Resolver of an HTTP client that checks the addresses.
pub(super) struct CheckedResolver {
    pub(super) resolver: Arc<dyn Resolver>,
    /// Strictest reach that this client may dial.
    pub(super) farthest: Reach,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let farthest = self.farthest;
        let resolving = self.resolver.resolve(&host);
        Box::pin(async move {
            let addresses = resolving
                .await
                .map_err(|cause| ResolveError::Failed { host: host.clone(), cause })?;
            check(&host, &addresses, farthest)?;
            // The client replaces port 0 by the port of the URL.
            let dialled =
                addresses.into_iter().take(MAX_DIALLED).map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(dialled) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn checked(addresses: &[&str], farthest: Reach) -> Result<(), String> {
        let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        check("x.com", &addresses, farthest).map_err(|error| error.to_string())
    }

    #[test]
    fn one_forbidden_address_refuses_the_name() {
        assert!(checked(&["8.8.8.8", "2606:4700::1111"], Reach::Public).is_ok());
        assert!(checked(&["8.8.8.8", "10.0.0.1", "::1"], Reach::Private).is_ok());
        let private = checked(&["8.8.8.8", "10.0.0.1"], Reach::Public).unwrap_err();
        insta::assert_snapshot!(private, @"x.com resolves to 10.0.0.1, which is private; to permit it, set `private` in the request of the manifest and in the grant");
        for farthest in [Reach::Public, Reach::Private] {
            for mixed in [
                ["8.8.8.8", "169.254.169.254"],
                ["fd00:ec2::254", "8.8.8.8"],
                ["8.8.8.8", "0.0.0.0"],
            ] {
                assert!(checked(&mixed, farthest).unwrap_err().ends_with("no rule can permit"));
            }
        }
        insta::assert_snapshot!(checked(&[], Reach::Private).unwrap_err(), @"x.com has no address");
    }

    #[tokio::test]
    async fn the_number_of_dialled_addresses_is_limited() {
        struct Many;
        impl Resolver for Many {
            fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
                Box::pin(async { Ok((0..100).map(|last| IpAddr::from([8, 8, 8, last])).collect()) })
            }
        }
        let checked = CheckedResolver { resolver: Arc::new(Many), farthest: Reach::Public };
        assert_eq!(
            checked.resolve("x.com".parse().unwrap()).await.ok().map(Iterator::count),
            Some(MAX_DIALLED)
        );
    }

    #[tokio::test]
    async fn a_domain_whose_lookups_do_not_end_leaves_lookups_to_the_others() {
        let resolver = SystemResolver::new();
        let names = (0..).map(|number| format!("n{number}.slow.example.com"));
        let mut held: Vec<_> =
            names.map_while(|name| resolver.turn(&name).now_or_never()).take(MAX_LOOKUPS).collect();
        assert_eq!(held.len(), MAX_OF_DOMAIN);
        assert!(resolver.turn("example.com.").now_or_never().is_none());
        assert!(resolver.turn("example.org").now_or_never().is_some());
        held.pop();
        assert!(resolver.turn("example.com").now_or_never().is_some());
        drop(held);
        drop(resolver.turn("localhost"));
        assert_eq!(resolver.of_domains.lock().len(), 1, "those without a lookup are forgotten");
    }

    #[test]
    fn the_domain_of_a_name_has_its_last_two_labels() {
        for (name, expected) in [
            ("a.b.example.com", "example.com"),
            ("example.com", "example.com"),
            ("example.com.", "example.com"),
            ("localhost", "localhost"),
            ("", ""),
        ] {
            assert_eq!(domain(name), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn the_system_resolver_resolves_localhost_to_loopback() {
        let addresses =
            SystemResolver::new().resolve("localhost").await.expect("every machine has it");
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback));
    }
}
