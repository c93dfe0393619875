//! Addresses of e-mail.

use airlock_digits::words::{run, starts_word};

/// Longest name before the `@`, in bytes.
const NAME: usize = 64;
/// Longest name of a host, in bytes.
const HOST: usize = 189;
/// Endings of files: `icon@2x.png` is no address.
const FILES: [&[u8]; 10] =
    [b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"css", b"js", b"json", b"html"];

/// Finds an address that begins at a place. Returns its end.
pub(super) fn email(text: &[u8], at: usize) -> Option<usize> {
    if !begins(text, at) {
        return None;
    }
    let name = run(text, at, NAME + 1, is_in_name);
    let at_sign = at + name;
    let last = text[at_sign - 1];
    if name > NAME || text.get(at_sign) != Some(&b'@') || last == b'.' {
        return None;
    }
    let host = at_sign + 1;
    let length = run(text, host, HOST + 1, |byte| is_in_word(byte) || byte == b'.');
    let host_end = host + length;
    // A sentence can end with an address.
    let dots = text[host..host_end].iter().rev().take_while(|byte| **byte == b'.').count();
    let end = host_end - dots;
    (length <= HOST && is_host(&text[host..end])).then_some(end)
}

/// Returns whether an address can begin at a place: not within a name, and not with the digits of `%3D` or the letter of a `\n`.
fn begins(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    let is_encoded = before.last() == Some(&b'%')
        && text[at..].iter().take(2).filter(|byte| byte.is_ascii_hexdigit()).count() == 2;
    // A letter of two bytes has its second one here.
    let is_within = before.last().is_some_and(|byte| (0x80..0xC0).contains(byte))
        && before.iter().nth_back(1).is_some_and(|byte| (0xC3..=0xD4).contains(byte));
    // The letter of a line break that is written as in JSON.
    let is_escape = before.last() == Some(&b'\\') && matches!(text[at], b'n' | b'r' | b't');
    starts_word(text, at) && !is_encoded && !is_within && !is_escape
}

/// Returns whether a byte is in a word: a letter, also one of two bytes, a digit or `-`.
fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || (0x80..=0xD4).contains(&byte)
}

fn is_in_name(byte: u8) -> bool {
    is_in_word(byte) || matches!(byte, b'.' | b'_' | b'+' | b'\'')
}

/// Returns whether a name is one of a host with a domain.
fn is_host(name: &[u8]) -> bool {
    let mut labels = name.split(|byte| *byte == b'.');
    let Some(top) = labels.next_back() else { return false };
    let is_top = top.len() >= 2
        && (top.iter().all(u8::is_ascii_alphabetic) || top.starts_with(b"xn--"))
        && !FILES.contains(&top);
    let mut count = 0;
    let has_labels = labels.all(|label| {
        count += 1;
        !label.is_empty() && !label.starts_with(b"-") && !label.ends_with(b"-")
    });
    is_top && has_labels && count > 0
}

#[cfg(test)]
mod tests {
    use super::super::{PersonalKind, personal};

    fn found(text: &str) -> Option<&str> {
        let found = personal(text, &[PersonalKind::Email]);
        found.first().map(|found| &text[found.start..found.end])
    }

    #[test]
    fn addresses_are_found_whole() {
        for address in [
            "ann@a.example",
            "Ann.O'Neil+news@mail.a-b.co.uk",
            "a_b@xn--bcher-kva.example",
            "jörg@bücher.example",
            "7@a.example",
        ] {
            for text in [
                address.to_owned(),
                format!("<{address}>"),
                format!("Mail {address}."),
                format!(r"a\n{address}\n"),
                format!("?to={address}&x"),
                format!("to%3D{address}%26"),
                format!("邮箱{address}"),
                format!("{address},{address}"),
            ] {
                assert_eq!(found(&text), Some(address), "{text}");
            }
        }
        for other in [
            "ann@localhost",
            "@ann",
            "ann@",
            "node@18.0.1",
            "icon@2x.png",
            "ann@-a.example",
            "ann@a..example",
            "ann.@a.example",
            "a @ b.example",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
