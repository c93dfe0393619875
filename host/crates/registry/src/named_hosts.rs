//! Names that servers name: one of the internet must not lead to a private network.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use airlock_egress::{GuardedResolver, Unreachable};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Host;

/// Resolver of the client of one server. That server may have a private address, and so may the proxy of the environment:
/// the operator has named both. A name that came from a server may have one only if the first server has private ones
/// alone. The check runs for each connection, on the addresses that are dialled.
#[derive(Clone)]
pub(crate) struct NamedHosts(Arc<NamedHostsState>);

struct NamedHostsState {
    /// Resolves every name. Addresses that are never reached are an error.
    resolver: GuardedResolver,
    /// Guard of the first server as its URL names it. It tells private addresses from public ones, unless it permits both.
    guard: GuardedResolver,
    /// The first server.
    own: String,
    /// True once the first server has had private addresses alone, or if it is one as its URL names it.
    was_private: AtomicBool,
    /// True once the first server has had a public address: the holder of its name may add private ones later.
    was_public: AtomicBool,
    /// Names that came from servers.
    named: Mutex<BTreeSet<String>>,
}

/// Reason that a name is not dialled.
#[derive(Debug, thiserror::Error)]
#[error("{0} has a private address, and it was named by a server that has a public one")]
struct PrivateAddress(String);

impl NamedHosts {
    /// Creates the resolver of the client of a server. Fails if the host is an address that is never reached.
    pub(crate) fn new(own: &Host<&str>) -> Result<Self, Unreachable> {
        Self::with_resolver(own, GuardedResolver::new(own, true)?)
    }

    fn with_resolver(own: &Host<&str>, resolver: GuardedResolver) -> Result<Self, Unreachable> {
        let guard = GuardedResolver::new(own, false)?;
        Ok(Self(Arc::new(NamedHostsState {
            resolver,
            own: own.to_string(),
            was_private: AtomicBool::new(guard.permits_private()),
            was_public: AtomicBool::new(false),
            guard,
            named: Mutex::default(),
        })))
    }

    /// Admits a host that a server has named, and returns true, unless it is an address that must not be dialled. A name
    /// is checked when it is dialled.
    pub(crate) fn admit(&self, named: &Host<&str>) -> bool {
        if let Host::Domain(name) = named {
            self.0.named.lock().insert((*name).to_owned());
        }
        self.0.guard.check(named).is_ok()
    }
}

impl NamedHostsState {
    fn check(&self, host: &str, addresses: &[SocketAddr]) -> Result<(), PrivateAddress> {
        let private = addresses.iter().filter(|address| !self.is_public(address.ip())).count();
        if host == self.own {
            let seen = if private < addresses.len() { &self.was_public } else { &self.was_private };
            seen.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if private == 0 || self.is_private() || !self.named.lock().contains(host) {
            return Ok(());
        }
        Err(PrivateAddress(host.to_owned()))
    }

    /// Returns whether the first server is in a private network.
    fn is_private(&self) -> bool {
        self.was_private.load(Ordering::Relaxed) && !self.was_public.load(Ordering::Relaxed)
    }

    fn is_public(&self, address: IpAddr) -> bool {
        let host = match address {
            IpAddr::V4(address) => Host::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        };
        self.guard.check(&host).is_ok()
    }
}

impl Resolve for NamedHosts {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.0.clone();
        let host = name.as_str().to_owned();
        let resolving = hosts.resolver.resolve(name);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = resolving.await?.collect();
            hosts.check(&host, &addresses)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{io, pin::Pin};

    use airlock_egress::Resolver;
    use url::Url;

    use super::*;
    use crate::http::{HttpClient, PlainHttp};

    /// Addresses of names, which may have several.
    struct Names(&'static [(&'static str, &'static str)]);

    impl Resolver for Names {
        fn resolve(
            &self,
            name: &str,
        ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static>> {
            let found = self.0.iter().filter(|(own, _)| *own == name);
            let found: Vec<IpAddr> =
                found.map(|(_, address)| address.parse().expect("an address")).collect();
            Box::pin(async move { Ok(found) })
        }
    }

    /// Returns the client of the server at a URL, and its resolver.
    fn client(
        url: &str,
        names: &'static [(&'static str, &'static str)],
    ) -> (HttpClient, NamedHosts) {
        let url = Url::parse(url).expect("a URL");
        let own = url.host().expect("a host");
        let resolver = GuardedResolver::with_resolver(&own, true, Arc::new(Names(names)));
        let hosts = resolver.and_then(|resolver| NamedHosts::with_resolver(&own, resolver));
        let hosts = hosts.map_err(|error| error.to_string()).expect("a permitted host");
        let client = HttpClient::with_hosts(&url, PlainHttp::Loopback, hosts.clone());
        (client.expect("a client"), hosts)
    }

    async fn is_dialled(hosts: &NamedHosts, name: &str) -> bool {
        hosts.resolve(name.parse().expect("a name")).await.is_ok()
    }

    #[tokio::test]
    async fn a_name_of_a_server_of_the_internet_does_not_lead_to_a_private_address() {
        let from = "https://r.example/";
        let (client, hosts) = client(
            from,
            &[
                ("r.example", "8.8.8.8"),
                ("r.example", "10.0.0.1"),
                ("public.example", "8.8.4.4"),
                ("private.example", "10.0.0.1"),
                ("both.example", "8.8.4.4"),
                ("both.example", "127.0.0.1"),
                ("proxy.example", "10.0.0.9"),
            ],
        );
        assert!(is_dialled(&hosts, "r.example").await);
        let from = Url::parse(from).expect("a URL");
        for (named, expected) in
            [("public.example", true), ("private.example", false), ("both.example", false)]
        {
            let to = Url::parse(&format!("https://{named}/token")).expect("a URL");
            client.check_named(&from, &to).expect("its name says nothing");
            assert_eq!(is_dialled(&hosts, named).await, expected, "{named}");
        }
        assert!(is_dialled(&hosts, "proxy.example").await, "no server has named it");
    }

    #[test]
    fn a_server_that_has_had_a_public_address_does_not_become_one_of_a_private_network() {
        let public: SocketAddr = "8.8.8.8:443".parse().expect("an address");
        let private: SocketAddr = "10.0.0.1:443".parse().expect("an address");
        for (seen, expected) in [
            (vec![], false),
            (vec![vec![private]], true),
            (vec![vec![private], vec![private]], true),
            (vec![vec![public], vec![private]], false),
            (vec![vec![private], vec![public]], false),
            (vec![vec![private, public]], false),
        ] {
            let own = Host::Domain("r.example");
            let NamedHosts(hosts) = NamedHosts::new(&own).expect("a permitted host");
            for addresses in &seen {
                hosts.check("r.example", addresses).expect("the operator has named it");
            }
            assert_eq!(hosts.is_private(), expected, "{seen:?}");
        }
    }

    #[tokio::test]
    async fn a_server_in_a_private_network_names_others_there_and_no_metadata_service() {
        let names = &[
            ("r.corp.example", "10.0.0.1"),
            ("auth.corp.example", "10.0.0.2"),
            ("metadata.corp.example", "169.254.169.254"),
        ];
        let from = "https://r.corp.example/";
        let (client, hosts) = client(from, names);
        assert!(is_dialled(&hosts, "r.corp.example").await);
        let from = Url::parse(from).expect("a URL");
        for (named, expected) in [("auth.corp.example", true), ("metadata.corp.example", false)] {
            let to = Url::parse(&format!("https://{named}/token")).expect("a URL");
            client.check_named(&from, &to).expect("its name says nothing");
            assert_eq!(is_dialled(&hosts, named).await, expected, "{named}");
        }
    }
}
