//! Checks the addresses that a client of the host itself dials. The operator names the host in the
//! configuration, and a name must not lead to a network that the operator did not mean.

use std::{io, net::IpAddr, sync::Arc};

use reqwest::dns::{Name, Resolve, Resolving};
use tracing::warn;
use url::Host;

use super::{
    address::{self, Reach},
    resolve::{CheckedResolver, ResolveError, Resolver, SystemResolver},
};

/// Reason that a host is not dialled. Addresses are not part of it, because callers may read it.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// A name has a private address, and private networks are not permitted.
    #[error("{0} has a private address, which `allow_private` has to permit")]
    Private(String),
    /// An address of metadata services, or of link-local, multicast or reserved ranges.
    #[error("{0} has an address that no setting can permit: it is link-local or reserved")]
    Never(String),
    /// The name has no address.
    #[error("{0} has no address")]
    Nothing(String),
    /// The name cannot be resolved.
    #[error("{host} cannot be resolved")]
    Failed {
        /// The name.
        host: String,
        /// The operating system's reason.
        #[source]
        cause: io::Error,
    },
}

/// Resolver of an HTTP client that fails for names with forbidden addresses. The check runs for each
/// connection, on the addresses that are dialled, so a name that changes is checked again.
#[derive(Clone)]
pub struct GuardedResolver {
    resolver: Arc<dyn Resolver>,
    farthest: Reach,
}

impl GuardedResolver {
    /// Creates the guard for a client of one host, and checks the host if it is an address. Private
    /// networks are permitted if `allow_private`, if the host is itself a private address, or if it
    /// is `localhost`. Fails if the host is an address that is never permitted.
    pub fn new(host: &Host<&str>, allow_private: bool) -> Result<Self, Unreachable> {
        Self::with_resolver(host, allow_private, Arc::new(SystemResolver::new()))
    }

    /// Does the same as [`Self::new`], with another resolver.
    pub fn with_resolver(
        host: &Host<&str>,
        allow_private: bool,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, Unreachable> {
        let literal = reach(host);
        if literal == Reach::Never {
            return Err(Unreachable::Never(host.to_string()));
        }
        let farthest = if allow_private { Reach::Private } else { literal };
        Ok(Self { resolver, farthest })
    }

    /// Checks another host that the same client is to dial. A name is checked again, by its
    /// addresses, when it is resolved; an address is dialled without that.
    pub fn check(&self, host: &Host<&str>) -> Result<(), Unreachable> {
        match reach(host) {
            Reach::Never => Err(Unreachable::Never(host.to_string())),
            Reach::Private if self.farthest == Reach::Public => {
                Err(Unreachable::Private(host.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether private networks are permitted.
    pub fn permits_private(&self) -> bool {
        self.farthest == Reach::Private
    }
}

/// Returns the reach of a host as it is written.
fn reach(host: &Host<&str>) -> Reach {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let is_local = name == "localhost" || name.ends_with(".localhost");
            if is_local { Reach::Private } else { Reach::Public }
        }
        Host::Ipv4(address) => address::reach(IpAddr::V4(*address)),
        Host::Ipv6(address) => address::reach(IpAddr::V6(*address)),
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let checked = CheckedResolver { resolver: self.resolver.clone(), farthest: self.farthest };
        let resolving = checked.resolve(name);
        Box::pin(async move {
            resolving.await.map_err(|error| match error.downcast::<ResolveError>() {
                Ok(unresolved) => Unreachable::from(*unresolved).into(),
                Err(other) => other,
            })
        })
    }
}

impl From<ResolveError> for Unreachable {
    /// Leaves out the address, which only the log of the operator names.
    fn from(unresolved: ResolveError) -> Self {
        match unresolved {
            ResolveError::Refused { host, address, reach } => {
                warn!(host, %address, "address of an upstream server refused");
                match reach {
                    Reach::Private => Self::Private(host),
                    _ => Self::Never(host),
                }
            }
            ResolveError::Nothing { host } => Self::Nothing(host),
            ResolveError::Failed { host, cause } => Self::Failed { host, cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use super::*;

    /// Resolves every name to the same addresses.
    struct To(&'static [&'static str]);

    impl Resolver for To {
        fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let addresses = self.0.iter().map(|text| text.parse().expect("an address")).collect();
            Box::pin(async { Ok(addresses) })
        }
    }

    async fn dialled(url: &str, allow: bool, to: &'static [&'static str]) -> Result<usize, String> {
        let url = url::Url::parse(url).expect("a URL");
        let host = url.host().expect("it has a host");
        let guard = GuardedResolver::with_resolver(&host, allow, Arc::new(To(to)));
        let name = "name.example".parse().expect("a name");
        let resolved = guard.map_err(|error| error.to_string())?.resolve(name).await;
        resolved.map(Iterator::count).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_public_name_reaches_public_addresses_and_private_ones_if_permitted() {
        let public = "https://mcp.example.com/";
        assert_eq!(dialled(public, false, &["8.8.8.8", "2606:4700::1111"]).await, Ok(2));
        for private in [&["10.0.0.1"][..], &["127.0.0.1"], &["::1"], &["8.8.8.8", "192.168.0.1"]] {
            let error = dialled(public, false, private).await.expect_err("private");
            assert!(error.contains("`allow_private`"), "{error}");
            assert!(dialled(public, true, private).await.is_ok(), "{private:?}");
        }
        assert!(dialled(public, true, &[]).await.expect_err("none").contains("no address"));
    }

    #[tokio::test]
    async fn metadata_and_reserved_addresses_are_refused_whatever_is_permitted() {
        for allow in [false, true] {
            for never in [&["169.254.169.254"][..], &["10.0.0.1", "0.0.0.0"], &["fe80::1"]] {
                let error = dialled("https://mcp.example.com/", allow, never).await;
                assert!(error.is_err_and(|error| error.contains("no setting")), "{never:?}");
            }
            for literal in ["http://169.254.169.254/", "http://[fe80::1]/", "http://0xa9fea9fe/"] {
                assert!(dialled(literal, allow, &["8.8.8.8"]).await.is_err(), "{literal}");
            }
        }
    }

    #[tokio::test]
    async fn a_private_host_in_the_url_permits_private_networks() {
        for url in [
            "http://localhost:3000/mcp",
            "http://LOCALHOST./",
            "http://app.localhost/",
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://10.1.2.3/",
        ] {
            assert_eq!(dialled(url, false, &["127.0.0.1"]).await, Ok(1), "{url}");
        }
        for url in ["http://8.8.8.8/", "http://localhost.example.com/", "http://notlocalhost/"] {
            assert!(dialled(url, false, &["127.0.0.1"]).await.is_err(), "{url}");
        }
    }

    #[test]
    fn another_host_of_the_same_client_is_checked_as_it_is_written() {
        let public = guard_of("https://mcp.example.com/");
        let private = guard_of("http://10.0.0.1/");
        assert!(!public.permits_private() && private.permits_private());
        for (other, by_public, by_private) in [
            ("https://as.example.com/", true, true),
            ("https://8.8.8.8/", true, true),
            ("http://127.0.0.1/", false, true),
            ("http://localhost/", false, true),
            ("http://[fd00::1]/", false, true),
            ("http://169.254.169.254/", false, false),
        ] {
            let url = url::Url::parse(other).expect("a URL");
            let host = url.host().expect("it has a host");
            assert_eq!(public.check(&host).is_ok(), by_public, "{other}");
            assert_eq!(private.check(&host).is_ok(), by_private, "{other}");
        }
    }

    fn guard_of(url: &str) -> GuardedResolver {
        let url = url::Url::parse(url).expect("a URL");
        GuardedResolver::new(&url.host().expect("it has a host"), false).expect("permitted")
    }
}
