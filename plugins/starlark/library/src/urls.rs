//! `urllib.parse`: percent-encoding, and the parts of an address.
//!
//! - `join`: addresses relative to others

mod join;

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::dict::AllocDict;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};

use super::text;
use super::values::{as_dict, as_slice, items, list, misuse};

/// The package `urllib`.
pub(crate) fn package(builder: &mut GlobalsBuilder) {
    builder.namespace("parse", parse);
}

/// The module `urllib.parse`.
#[starlark_module]
fn parse(builder: &mut GlobalsBuilder) {
    fn quote<'v>(
        string: Value<'v>,
        #[starlark(default = "/")] safe: &str,
    ) -> starlark::Result<String> {
        Ok(encode(text_of(string, "quote")?, safe, false))
    }

    fn quote_plus<'v>(
        string: Value<'v>,
        #[starlark(default = "")] safe: &str,
    ) -> starlark::Result<String> {
        Ok(encode(text_of(string, "quote_plus")?, safe, true))
    }

    fn unquote(string: &str) -> anyhow::Result<String> {
        Ok(decode(string))
    }

    fn unquote_plus(string: &str) -> anyhow::Result<String> {
        Ok(decode(&string.replace('+', " ")))
    }

    /// The parts of an address, as a struct.
    fn urlparse<'v>(url: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let UrlParts { scheme, netloc, path, params, query, fragment, hostname, port, .. } =
            split(url);
        let none = Value::new_none();
        Ok(heap.alloc(AllocStruct([
            ("scheme", heap.alloc(scheme)),
            ("netloc", heap.alloc(netloc)),
            ("path", heap.alloc(path)),
            ("params", heap.alloc(params)),
            ("query", heap.alloc(query)),
            ("fragment", heap.alloc(fragment)),
            ("hostname", hostname.map_or(none, |host| heap.alloc(host))),
            ("port", port.map_or(none, |port| heap.alloc(u32::from(port)))),
        ])))
    }

    /// The parts of an address, as a struct, with the parameters in the path.
    fn urlsplit<'v>(url: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let UrlParts { scheme, netloc, whole, query, fragment, hostname, port, .. } = split(url);
        let none = Value::new_none();
        Ok(heap.alloc(AllocStruct([
            ("scheme", heap.alloc(scheme)),
            ("netloc", heap.alloc(netloc)),
            ("path", heap.alloc(whole)),
            ("query", heap.alloc(query)),
            ("fragment", heap.alloc(fragment)),
            ("hostname", hostname.map_or(none, |host| heap.alloc(host))),
            ("port", port.map_or(none, |port| heap.alloc(u32::from(port)))),
        ])))
    }

    /// The address to which `url` leads on the page at `base`.
    fn urljoin(base: &str, url: &str) -> anyhow::Result<String> {
        Ok(join::join(base, url))
    }

    /// Encodes a dict or pairs: `a=1&b=2`.
    fn urlencode<'v>(
        query: Value<'v>,
        #[starlark(default = false)] doseq: bool,
        #[starlark(default = "")] safe: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        let pairs = match as_dict(query) {
            Some(dict) => dict.iter().collect(),
            None => pairs(query, heap)?,
        };
        let mut out = Vec::new();
        for (key, value) in pairs {
            let key = encode(&text::str(key, heap), safe, true);
            let several = doseq && as_slice(value).is_some();
            let values = if several { items(value, heap)? } else { vec![value] };
            for value in values {
                let value = encode(&text::str(value, heap), safe, true);
                out.push(format!("{key}={value}"));
            }
        }
        Ok(out.join("&"))
    }

    /// Decodes `a=1&b=2` to a dict of lists.
    fn parse_qs<'v>(
        qs: &str,
        #[starlark(default = false)] keep_blank_values: bool,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut map: SmallMap<Value<'v>, Vec<Value<'v>>> = SmallMap::new();
        for (key, value) in query(qs, keep_blank_values) {
            let key = heap.alloc(key).get_hashed()?;
            let value = heap.alloc(value);
            match map.get_mut_hashed(key.as_ref()) {
                Some(values) => values.push(value),
                None => drop(map.insert_hashed(key, vec![value])),
            }
        }
        let pairs = map.into_iter().map(|(key, values)| (key, list(heap, values)));
        Ok(heap.alloc(AllocDict(pairs)))
    }

    /// Decodes `a=1&b=2` to a list of pairs.
    fn parse_qsl<'v>(
        qs: &str,
        #[starlark(default = false)] keep_blank_values: bool,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        let pairs = query(qs, keep_blank_values).into_iter().map(|pair| heap.alloc(pair));
        Ok(list(heap, pairs))
    }
}

/// The parts of an address.
#[derive(Debug, Default, PartialEq, Eq)]
struct UrlParts<'a> {
    scheme: String,
    netloc: &'a str,
    /// The path with its parameters.
    whole: &'a str,
    path: &'a str,
    params: &'a str,
    query: &'a str,
    fragment: &'a str,
    hostname: Option<String>,
    port: Option<u16>,
}

/// Splits an address into its parts.
fn split(url: &str) -> UrlParts<'_> {
    let mut parts = UrlParts::default();
    let mut rest = url.trim_start_matches(|c: char| c <= ' ');
    if let Some((scheme, after)) = rest.split_once(':')
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    {
        (parts.scheme, rest) = (scheme.to_ascii_lowercase(), after);
    }
    if let Some(after) = rest.strip_prefix("//") {
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        (parts.netloc, rest) = after.split_at(end);
    }
    (rest, parts.fragment) = rest.split_once('#').unwrap_or((rest, ""));
    (rest, parts.query) = rest.split_once('?').unwrap_or((rest, ""));
    parts.whole = rest;
    let segment = rest.rfind('/').map_or(0, |at| at + 1);
    let params = rest[segment..].find(';').map(|at| at + segment);
    let takes = matches!(&*parts.scheme, "" | "http" | "https" | "ftp" | "sftp");
    (parts.path, parts.params) = match params.filter(|_| takes) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, ""),
    };
    let address = parts.netloc.rsplit('@').next().unwrap_or_default();
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':')),
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    parts.hostname = (!host.is_empty()).then(|| host.to_lowercase());
    parts.port = port.and_then(|port| port.parse().ok());
    parts
}

/// Returns the text that a function takes.
fn text_of<'v>(value: Value<'v>, function: &str) -> starlark::Result<&'v str> {
    value.unpack_str().ok_or_else(|| {
        let name = text::type_name(value);
        misuse(format!("{function}() takes a str, not {name}: write `{function}(str(x))`"))
    })
}

/// Returns the pairs of a sequence.
fn pairs<'v>(query: Value<'v>, heap: Heap<'v>) -> starlark::Result<Vec<(Value<'v>, Value<'v>)>> {
    let pairs = items(query, heap)?.into_iter().map(|pair| match as_slice(pair) {
        Some([key, value]) => Ok((*key, *value)),
        _ => Err(misuse("urlencode() takes a dict, or a list of pairs")),
    });
    pairs.collect()
}

/// Splits a query into decoded keys and values.
fn query(text: &str, blank: bool) -> Vec<(String, String)> {
    let text = text.replace('+', " ");
    let parts = text.split('&').filter_map(|part| match part.split_once('=') {
        Some((_, "")) if !blank => None,
        Some((key, value)) => Some((decode(key), decode(value))),
        None => (blank && !part.is_empty()).then(|| (decode(part), String::new())),
    });
    parts.collect()
}

/// Encodes each byte that is neither a letter, a digit, one of `_.-~` nor in `safe`.
fn encode(text: &str, safe: &str, plus: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || b"_.-~".contains(&byte)
            || byte.is_ascii() && safe.as_bytes().contains(&byte);
        match byte {
            _ if plain => out.push(char::from(byte)),
            b' ' if plus => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes `%41`. What is no UTF-8 becomes a replacement character.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%'
            && let Some(high) = hex_digit(bytes.get(at + 1))
            && let Some(low) = hex_digit(bytes.get(at + 2))
        {
            out.push(u8::try_from(high * 16 + low).unwrap_or_default());
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex_digit(byte: Option<&u8>) -> Option<u32> {
    byte.and_then(|byte| char::from(*byte).to_digit(16))
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn bytes_are_encoded_and_decoded() {
        assert_eq!(encode("a/é ~b&", "/", false), "a/%C3%A9%20~b%26");
        assert_eq!(encode("a/é +", "", true), "a%2F%C3%A9+%2B");
        assert_eq!(decode("a%C3%A9%2f%zz%4"), "aé/%zz%4");
        assert_eq!(decode("%ff%41"), "\u{fffd}A");
    }
}
