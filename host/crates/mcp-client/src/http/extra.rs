//! Headers of a caller's request that are passed on to a server.

use http::{HeaderName, HeaderValue};

use airlock_core::door::CallerHeaders;
use airlock_mcp_oauth::{ExtraHeaders, is_reserved_header};

/// Headers that are passed on only if the configuration names them, because they grant access or
/// tell about the caller's connection.
const BY_NAME_ONLY: [&str; 18] = [
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "forwarded",
    "origin",
    "private-token",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "set-cookie",
    "via",
    "x-access-token",
    "x-api-key",
    "x-auth-token",
    "x-goog-api-key",
    "x-token",
];
/// Prefixes of headers that are passed on only if the configuration names them.
const BY_NAME_ONLY_PREFIXES: [&str; 4] = ["sec-", "x-airlock-", "x-bf-", "x-forwarded-"];

/// Returns the headers of a caller to send with a call.
pub(crate) fn select(
    permitted: &ExtraHeaders,
    caller: &CallerHeaders,
) -> Vec<(HeaderName, HeaderValue)> {
    if *permitted == ExtraHeaders::None {
        return Vec::new();
    }
    let permitted = caller.iter().filter(|(name, _)| permits(permitted, name));
    let parsed = permitted.filter_map(|(name, value)| {
        let mut value = HeaderValue::from_bytes(value).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::try_from(name).ok()?, value))
    });
    parsed.collect()
}

fn permits(permitted: &ExtraHeaders, name: &str) -> bool {
    let is_reserved = HeaderName::try_from(name).is_ok_and(|name| is_reserved_header(&name));
    match permitted {
        ExtraHeaders::None => false,
        ExtraHeaders::All => !is_reserved && !needs_name(name),
        ExtraHeaders::Named(names) => !is_reserved && names.contains(name),
    }
}

fn needs_name(name: &str) -> bool {
    BY_NAME_ONLY.contains(&name)
        || BY_NAME_ONLY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(extra: &ExtraHeaders) -> Vec<String> {
        let sent = [
            "x-tenant",
            "cookie",
            "authorization",
            "host",
            "connection",
            "te",
            "mcp-session-id",
            "mcp-param-x",
            "x-bf-vk",
            "x-forwarded-for",
            "accept-language",
            "x-api-key",
            "private-token",
            "x-auth-token",
            "api-key",
        ];
        let caller = CallerHeaders::collect(sent.map(|name| (name, b"v".as_slice())));
        select(extra, &caller).into_iter().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn a_header_is_passed_on_only_if_it_is_permitted() {
        assert!(selected(&ExtraHeaders::None).is_empty());
        assert_eq!(selected(&ExtraHeaders::All), ["x-tenant", "accept-language"]);
        assert_eq!(selected(&named(&["cookie", "authorization"])), ["cookie", "authorization"]);
        let reserved = ["host", "connection", "te", "mcp-session-id", "mcp-param-x", "x-other"];
        assert!(selected(&named(&reserved)).is_empty());
    }

    fn named(names: &[&str]) -> ExtraHeaders {
        ExtraHeaders::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn values_that_no_header_can_hold_are_left_out() {
        let caller = CallerHeaders::collect([("x-a", b"a\nb".as_slice()), ("x-b", b"\xff")]);
        assert_eq!(select(&ExtraHeaders::All, &caller).len(), 1);
    }
}
