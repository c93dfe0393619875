//! Identifies the remote end of a connection, for the limits of each.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// An address that connections come from, or its /64 network for IPv6, because the holder of one
/// IPv6 address usually has its whole /64. All loopback addresses are one peer. The programs that
/// connect through the Unix socket have no address, and are one peer, like those whose address another server
/// of the process does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(Option<IpAddr>);

impl Peer {
    /// Returns the peer of `address`, or of all without one.
    pub fn new(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            IpAddr::V4(address) => address.into(),
        }))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(IpAddr::V6(network)) => write!(f, "{network}/64"),
            Some(address) => write!(f, "{address}"),
            None => f.write_str("no address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::new(Some(address.parse().expect("an address")))
    }

    #[test]
    fn a_peer_is_an_address_or_a_network_of_ipv6() {
        assert_eq!(peer("10.0.0.1"), peer("::ffff:10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_ne!(peer("::1"), peer("::2"));
        let shown = ["10.0.0.1", "2001:db8::1"].map(|address| peer(address).to_string());
        assert_eq!(shown, ["10.0.0.1", "2001:db8::/64"]);
        assert_eq!(Peer::new(None).to_string(), "no address");
    }

    #[test]
    fn all_loopback_addresses_are_one_peer() {
        let shown = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.2"]
            .map(|address| peer(address).to_string());
        assert_eq!(shown, ["127.0.0.1"; 4]);
    }
}
