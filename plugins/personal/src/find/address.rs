//! Addresses of the Internet protocol.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str,
};

use airlock_digits::words::{ends_word, is_whole, run, starts_word};

/// Longest address, in bytes: eight groups of four digits and seven colons.
const LONGEST: usize = 39;
/// Shortest address of IPv6 that is found, in bytes. Shorter ones are names of code, or of this machine: `a::b`, `::1`.
const SHORTEST_IPV6: usize = 6;

/// Finds an address that begins at a place. Returns its end.
pub(super) fn ip(text: &[u8], at: usize) -> Option<usize> {
    let is_within = matches!(&text[..at], [.., b':' | b'.']);
    if is_within || !starts_word(text, at) {
        return None;
    }
    ipv4(text, at).or_else(|| ipv6(text, at))
}

fn ipv4(text: &[u8], at: usize) -> Option<usize> {
    let length = run(text, at, 16, |byte| byte.is_ascii_digit() || byte == b'.');
    // A sentence can end with an address.
    let end = at + length - usize::from(text[at..at + length].ends_with(b"."));
    let address: Ipv4Addr = str::from_utf8(&text[at..end]).ok()?.parse().ok()?;
    // Of no host, of this one, and masks.
    let is_special = matches!(address.octets()[0], 0 | 127 | 255);
    (!is_special && is_whole(text, at, end)).then_some(end)
}

fn ipv6(text: &[u8], at: usize) -> Option<usize> {
    let length = run(text, at, LONGEST + 2, |byte| byte.is_ascii_hexdigit() || byte == b':');
    let found = &text[at..at + length];
    // A sentence can go on after an address with a colon.
    let is_ended = found.ends_with(b":") && !found.ends_with(b"::");
    let found = &found[..length - usize::from(is_ended)];
    let has_digit = found.iter().any(u8::is_ascii_digit);
    if found.len() < SHORTEST_IPV6 || !has_digit {
        return None;
    }
    let _: Ipv6Addr = str::from_utf8(found).ok()?.parse().ok()?;
    let end = at + found.len();
    ends_word(text, end).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::super::{PersonalKind, personal};

    fn found(text: &str) -> Option<&str> {
        let found = personal(text, &[PersonalKind::IpAddress]);
        found.first().map(|found| &text[found.start..found.end])
    }

    #[test]
    fn addresses_are_found_whole() {
        for address in [
            "203.0.113.7",
            "10.1.2.3",
            "2001:db8::7",
            "2001:0db8:0000:0000:0000:ff00:0042:8329",
            "fe80::1",
        ] {
            for text in [
                address.to_owned(),
                format!("from {address}."),
                format!("[{address}]:443"),
                format!("{address}: refused"),
                format!("{address}/24"),
                format!("ip={address}&x"),
            ] {
                assert_eq!(found(&text), Some(address), "{text}");
            }
        }
        for other in [
            "127.0.0.1",
            "0.0.0.0",
            "255.255.255.0",
            "::1",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "v1.2.3.4",
            "12:34:56",
            "abc::def",
            "std::a1",
            "01:02:03:04:05:06",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
