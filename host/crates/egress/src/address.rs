//! Classifies IP addresses as public, private or never permitted, whatever name or spelling led to
//! them. Pure.
//!
//! Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, updated by RFC
//! 8190), the IPv6 address space registry (only `2000::/3` is assigned as global unicast) and the
//! documentation of the cloud providers for their metadata services. An IPv6 address that carries
//! an IPv4 address is classified by the IPv4 address, because its packets are delivered there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network that an address belongs to. Ordered: later variants are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// The internet.
    Public,
    /// This machine or a private network. Only a rule with `private` permits it.
    Private,
    /// Ranges that no request may reach: metadata services, link-local, multicast, reserved and
    /// documentation ranges.
    Never,
}

type AddressBlock<Address> = (Address, u32);

const NEVER_V4: [AddressBlock<Ipv4Addr>; 13] = [
    (Ipv4Addr::UNSPECIFIED, 8), // "this network", RFC 791; 0.0.0.0 is this machine on Linux
    (Ipv4Addr::new(100, 100, 100, 200), 32), // metadata of Alibaba Cloud, within the shared address space
    (Ipv4Addr::new(168, 63, 129, 16), 32), // Azure's WireServer, a public address that never leaves the host
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, RFC 3927; metadata of most clouds
    (Ipv4Addr::new(192, 0, 0, 0), 24), // IETF protocol assignments, RFC 6890; metadata of Oracle Cloud Classic
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation, RFC 5737
    (Ipv4Addr::new(192, 88, 99, 0), 24), // 6to4 relay anycast, deprecated by RFC 7526
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarking, RFC 2544
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation, RFC 5737
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation, RFC 5737
    (Ipv4Addr::new(224, 0, 0, 0), 4),  // multicast, RFC 5771
    (Ipv4Addr::new(240, 0, 0, 0), 4),  // reserved, RFC 1112
    (Ipv4Addr::BROADCAST, 32),         // limited broadcast, RFC 919
];

const PRIVATE_V4: [AddressBlock<Ipv4Addr>; 5] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),     // private use, RFC 1918
    (Ipv4Addr::new(100, 64, 0, 0), 10),  // shared address space, RFC 6598
    (Ipv4Addr::new(127, 0, 0, 0), 8),    // loopback, RFC 1122
    (Ipv4Addr::new(172, 16, 0, 0), 12),  // private use, RFC 1918
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private use, RFC 1918
];

const NEVER_V6: [AddressBlock<Ipv6Addr>; 9] = [
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128), // metadata of Scaleway
    (Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128), // metadata of Oracle Cloud
    (Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200), 128), // metadata of Alibaba Cloud
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32), // metadata, credentials and more of AWS
    (Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1), 128), // metadata of Akamai
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128), // metadata of Google Cloud
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),     // IETF protocol assignments, RFC 2928
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation, RFC 3849
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),     // documentation, RFC 9637
];

const PRIVATE_V6: [AddressBlock<Ipv6Addr>; 2] = [
    (Ipv6Addr::LOCALHOST, 128),                      // loopback, RFC 4291
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7), // unique local, RFC 4193
];

const GLOBAL_UNICAST: AddressBlock<Ipv6Addr> = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const SIX_TO_FOUR: AddressBlock<Ipv6Addr> = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
const TEREDO: AddressBlock<Ipv6Addr> = (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32);

/// Prefixes whose last 32 bits are an IPv4 address. The local-use prefix of NAT64, `64:ff9b:1::/48`
/// (RFC 8215), is not among them: the position of the IPv4 address in it depends on the
/// configuration of the network, which is unknown here (RFC 6052, section 2.2). The prefix is
/// outside global unicast, so its addresses are [`Reach::Never`].
const EMBEDDING: [AddressBlock<Ipv6Addr>; 4] = [
    (Ipv6Addr::UNSPECIFIED, 96), // IPv4-compatible, deprecated by RFC 4291
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96), // IPv4-mapped, RFC 4291
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96), // IPv4-translated, RFC 2765
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96), // NAT64, RFC 6052
];

/// Returns the reach of an address.
pub(super) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    if NEVER_V4.into_iter().any(|block| within_v4(address, block)) {
        Reach::Never
    } else if PRIVATE_V4.into_iter().any(|block| within_v4(address, block)) {
        Reach::Private
    } else {
        Reach::Public
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if let Some(carried) = carried(address) {
        return carried;
    }
    if NEVER_V6.into_iter().any(|block| within_v6(address, block)) {
        Reach::Never
    } else if PRIVATE_V6.into_iter().any(|block| within_v6(address, block)) {
        Reach::Private
    } else if within_v6(address, GLOBAL_UNICAST) {
        Reach::Public
    } else {
        Reach::Never
    }
}

/// Returns the reach of the IPv4 addresses that an IPv6 address carries; `None` if it carries none.
fn carried(address: Ipv6Addr) -> Option<Reach> {
    let bits = address.to_bits();
    if address == Ipv6Addr::LOCALHOST {
        None
    } else if EMBEDDING.into_iter().any(|block| within_v6(address, block)) {
        Some(reach_v4(v4_at(bits, 0)))
    } else if within_v6(address, SIX_TO_FOUR) {
        Some(reach_v4(v4_at(bits, 80)))
    } else if within_v6(address, TEREDO) {
        // Packets go first to the server and then to the client. The client's address is stored
        // inverted (RFC 4380, section 4).
        Some(
            reach_v4(v4_at(bits, 64)).max(reach_v4(Ipv4Addr::from_bits(!v4_at(bits, 0).to_bits()))),
        )
    } else {
        None
    }
}

fn v4_at(bits: u128, shift: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::try_from((bits >> shift) & 0xffff_ffff).expect("32 bits were kept"))
}

fn within_v4(address: Ipv4Addr, (prefix, length): AddressBlock<Ipv4Addr>) -> bool {
    (address.to_bits() ^ prefix.to_bits()) >> (32 - length) == 0
}

fn within_v6(address: Ipv6Addr, (prefix, length): AddressBlock<Ipv6Addr>) -> bool {
    (address.to_bits() ^ prefix.to_bits()) >> (128 - length) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judged(text: &str) -> Reach {
        reach(text.parse().unwrap_or_else(|_| panic!("{text} is an address")))
    }

    #[test]
    fn every_range_ends_at_its_registered_bounds() {
        for (reach, addresses) in [
            (
                Reach::Public,
                "1.0.0.0 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0",
            ),
            (
                Reach::Public,
                "168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0",
            ),
            (
                Reach::Public,
                "191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0",
            ),
            (
                Reach::Public,
                "198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255",
            ),
            (
                Reach::Private,
                "10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.199 100.100.100.201 100.127.255.255",
            ),
            (
                Reach::Private,
                "127.0.0.0 127.0.0.1 127.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255",
            ),
            (
                Reach::Never,
                "0.0.0.0 0.255.255.255 100.100.100.200 168.63.129.16 169.254.0.0 169.254.169.254 169.254.255.255",
            ),
            (
                Reach::Never,
                "192.0.0.0 192.0.0.192 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.1 198.18.0.0 198.19.255.255",
            ),
            (
                Reach::Never,
                "198.51.100.7 203.0.113.7 224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255",
            ),
            (
                Reach::Public,
                "2000:: 2001:200:: 2001:4860:4860::8888 2001:db7:ffff::1 2001:db9:: 2606:4700::1111 3ffe:: 3fff:1000::",
            ),
            (
                Reach::Private,
                "::1 fc00:: fd00:: fd00:42::41 fd00:ec1::1 fd00:ec3::1 fd12:3456::1 fdff:ffff::1",
            ),
            (
                Reach::Never,
                ":: fe80:: fe80::a9fe:a9fe febf::1 fec0::1 ff00:: ff02::1 2001:: 2001:1ff:ffff::1 2001:db8::1",
            ),
            (
                Reach::Never,
                "3fff::1 3fff:fff:ffff::1 4000:: 5f00::1 100::1 100:0:0:1::1 1fff:: fe00::1 64:ff9b:1::808:808",
            ),
            (
                Reach::Never,
                "fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:100::100:200",
            ),
            (Reach::Never, "fd00:a9fe:a9fe::1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(judged(address), reach, "{address}");
            }
        }
    }

    #[test]
    fn an_ipv6_address_that_carries_ipv4_is_classified_by_the_ipv4_address() {
        for (reach, addresses) in [
            (
                Reach::Public,
                "::8.8.8.8 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1",
            ),
            (
                Reach::Private,
                "::127.0.0.1 ::ffff:127.0.0.1 ::ffff:0:10.0.0.1 64:ff9b::192.168.1.1 2002:a00:1::5",
            ),
            (
                Reach::Never,
                "::169.254.169.254 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 ::ffff:0.0.0.0",
            ),
            (Reach::Never, "64:ff9b:1::10.0.0.1 64:ff9b:1:a9fe:a9:fe00::"),
            // Teredo: a public server and a public client (8.8.8.8 inverted). Then one of the two
            // is private, and then one is never permitted.
            (Reach::Public, "2001:0:4136:e378:8000:63bf:f7f7:f7f7"),
            (
                Reach::Private,
                "2001:0:4136:e378:8000:63bf:f5ff:fffe 2001:0:a00:1:8000:63bf:f7f7:f7f7",
            ),
            (
                Reach::Never,
                "2001:0:4136:e378:8000:63bf:5601:5601 2001:0:a9fe:a9fe:8000:63bf:f7f7:f7f7",
            ),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(judged(address), reach, "{address}");
            }
        }
    }

    proptest! {
        #[test]
        fn an_address_is_classified_the_same_in_every_spelling(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = address.octets();
            let spellings = [
                format!("http://{bits}/"),
                format!("http://{bits:#x}/"),
                format!("http://0{bits:o}/"),
                format!("http://{a:#x}.{b}.0{c:o}.{d}/"),
                format!("http://{a}.{}/", bits & 0xff_ffff),
                format!("http://{a}.{b}.{}/", bits & 0xffff),
                format!("http://%{:02x}{}.{b}.{c}.{d}/", a.to_string().as_bytes()[0], &a.to_string()[1..]),
                format!("http://{a}.{b}.{c}.{d}./"),
                format!("http://[::ffff:{address}]/"),
                format!("http://[64:ff9b::{address}]/"),
                format!("http://[2002:{:x}:{:x}::1]/", bits >> 16, bits & 0xffff),
            ];
            for spelling in spellings {
                let judged = match url::Url::parse(&spelling).unwrap().host().unwrap() {
                    url::Host::Ipv4(address) => reach(address.into()),
                    url::Host::Ipv6(address) => reach(address.into()),
                    url::Host::Domain(name) => panic!("{spelling} became the name {name}"),
                };
                prop_assert_eq!(judged, reach_v4(address), "{}", spelling);
            }
        }

        #[test]
        fn no_ipv6_address_outside_the_tables_is_public(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            if reach(address.into()) == Reach::Public {
                prop_assert!(within_v6(address, GLOBAL_UNICAST) || carried(address).is_some(), "{}", address);
            }
        }
    }
}
