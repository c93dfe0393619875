//! Rejects requests of web pages. A page in a browser can send requests to loopback addresses, and
//! can read the responses through a name that resolves to such an address (DNS rebinding). It
//! cannot forge `Host`, `Origin` and `Sec-Fetch-Site`.
//!
//! `Host` must be one of the gateway's names, which stops DNS rebinding. `Origin` must be the
//! gateway's own origin, port included, because every other port of this machine belongs to another
//! program; or it must be listed by the operator.
//!
//! No browser can open a Unix socket. A request through it may have any `Host`, and neither of the
//! other headers, which would be those of a page that some program passes on.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};

use super::Settings;
use airlock_http::{browser::FETCH_SITE, respond::ApiError};
use airlock_ingress::Ingress;
use airlock_strings::{MAX_EXCERPT_BYTES, cut};

/// Header in which a browser states what a request is for.
const FETCH_MODE: &str = "sec-fetch-mode";

/// Fails if `Host` is not one of the gateway's names, or if a page of another origin made the
/// browser send the request.
pub(super) fn check(
    settings: &Settings,
    ingress: Ingress,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    check_host(settings, ingress, headers, uri)?;
    if matches!(ingress, Ingress::Socket(_)) { Ok(()) } else { check_page(settings, headers, uri) }
}

/// Fails as [`check`] does, but for a page of another origin that has led the browser to this one: by a
/// link, or by a redirect. Only for requests that change nothing by themselves.
pub(super) fn check_visit(
    settings: &Settings,
    ingress: Ingress,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    check_host(settings, ingress, headers, uri)?;
    let is_visit = headers.get(FETCH_MODE).is_none_or(|mode| mode == "navigate");
    if is_visit && !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    check(settings, ingress, headers, uri)
}

fn check_host(
    settings: &Settings,
    ingress: Ingress,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    if matches!(ingress, Ingress::Socket(_)) {
        return check_socket(headers);
    }
    let checks_hosts = settings.listen.ip().is_loopback() || !settings.allowed_hosts.is_empty();
    if checks_hosts && !is_named(headers, uri, |host| is_allowed(settings, host)) {
        let valid = "a loopback name, the address of `listen` and the names in `allowed_hosts`";
        return Err(host_refused(headers, uri, valid));
    }
    Ok(())
}

/// Fails if `Host` is a name that a web page may have rebound to the gateway, and not an address, `localhost` or one of
/// `allowed_hosts`. For what is shown without a credential to programs of the gateway's own machine: over plain HTTP, a
/// browser sends neither `Origin` nor `Sec-Fetch-Site` with a GET request of such a page, so it looks like a program.
/// Beyond loopback and without `allowed_hosts`, [`check`] permits every `Host`.
pub(super) fn check_unbound(
    settings: &Settings,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    if is_named(headers, uri, |host| address(host).is_some() || is_allowed(settings, host)) {
        return Ok(());
    }
    let valid = "an address, `localhost` and the names in `allowed_hosts`, or any name with the token of an operator";
    Err(host_refused(headers, uri, valid))
}

/// Returns whether a request names the gateway, and `is_valid` holds for all the names.
fn is_named(headers: &HeaderMap, uri: &Uri, is_valid: impl Fn(&str) -> bool) -> bool {
    let mut sent = sent_hosts(headers, uri).peekable();
    sent.peek().is_some()
        && sent.all(|sent| match plain_host(sent) {
            Some(host) => is_valid(host),
            None => Authority::try_from(sent).is_ok_and(|sent| is_valid(sent.host())),
        })
}

/// Returns the host of an authority of letters, digits, dots and hyphens, with or without a port; `None` for others, which
/// are parsed. Almost all are such, and parsing copies them.
fn plain_host(authority: &[u8]) -> Option<&str> {
    let end = authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len());
    let (host, port) = authority.split_at(end);
    let is_plain = !host.is_empty()
        && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
        && port.iter().skip(1).all(u8::is_ascii_digit);
    if is_plain { str::from_utf8(host).ok() } else { None }
}

fn host_refused(headers: &HeaderMap, uri: &Uri, valid: &str) -> ApiError {
    let sent = shown(sent_hosts(headers, uri));
    ApiError::forbidden("host_not_allowed", format!("`Host` is {sent}; valid are {valid}"))
}

/// Iterates over the names by which a request names the gateway. HTTP/2 sends `:authority`. If a request has
/// both, both are checked.
fn sent_hosts<'h>(headers: &'h HeaderMap, uri: &'h Uri) -> impl Iterator<Item = &'h [u8]> {
    let sent = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    sent.chain(uri.authority().map(|authority| authority.as_str().as_bytes()))
}

/// Fails if a page of another origin made the browser send the request.
fn check_page(settings: &Settings, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    // Programs send neither, and a pass over the names takes less time than hashing them.
    if !headers.keys().any(|name| *name == header::ORIGIN || name.as_str() == FETCH_SITE) {
        return Ok(());
    }
    let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
    if !origins.is_empty() && origins.iter().all(|origin| is_listed(settings, origin)) {
        return Ok(());
    }
    let hosts: Vec<_> =
        sent_hosts(headers, uri).map(|host| Authority::try_from(host).ok()).collect();
    if !origins.iter().all(|origin| is_same(origin, &hosts)) {
        let message = format!(
            "`Origin` is {}; valid are the gateway's own origin, which is `Host` with its port, and those in `allowed_origins`",
            shown(origins.iter().map(|origin| origin.as_bytes())),
        );
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    // A page's GET request carries no `Origin`, but every recent browser sends this header.
    let sites: Vec<&[u8]> = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes).collect();
    if !sites.iter().all(|site| matches!(*site, b"same-origin" | b"none")) {
        let message = format!(
            "`Sec-Fetch-Site` is {}: a web page of another origin made this request; valid are \"same-origin\" and \"none\"",
            shown(sites.into_iter()),
        );
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    Ok(())
}

/// Fails if a request through the Unix socket is that of a page, the gateway's own included.
fn check_socket(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.contains_key(header::ORIGIN) || headers.contains_key(FETCH_SITE) {
        let message = "a request through the Unix socket must have neither `Origin` nor `Sec-Fetch-Site`: web pages may not use it";
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    Ok(())
}

/// Returns the values of a header for an error message, quoted and cut.
fn shown<'a>(values: impl Iterator<Item = &'a [u8]>) -> String {
    let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
    if values.is_empty() {
        "missing".to_owned()
    } else {
        format!("{:?}", cut(values.join(", "), MAX_EXCERPT_BYTES))
    }
}

pub(super) fn is_listed(settings: &Settings, origin: &HeaderValue) -> bool {
    settings
        .allowed_origins
        .iter()
        .any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
}

/// Returns whether `origin` is the origin of all `hosts`. `null` equals no origin.
fn is_same(origin: &HeaderValue, hosts: &[Option<Authority>]) -> bool {
    let Ok(origin) = Uri::try_from(origin.as_bytes()) else { return false };
    let scheme_port = match origin.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    let Some(origin) = origin.authority() else { return false };
    // A `Host` without a port means the default port of the scheme. Only a proxy in front of the
    // gateway may know the scheme.
    let port = origin.port_u16().unwrap_or(scheme_port);
    !hosts.is_empty()
        && hosts.iter().all(|host| {
            host.as_ref().is_some_and(|host| {
                host.host().eq_ignore_ascii_case(origin.host())
                    && host.port_u16().unwrap_or(scheme_port) == port
            })
        })
}

fn is_allowed(settings: &Settings, host: &str) -> bool {
    let is_local = match address(host) {
        Some(address) => address.is_loopback() || address == settings.listen.ip(),
        None => host.eq_ignore_ascii_case("localhost"),
    };
    is_local || settings.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

/// Returns the address that a host is; `None` if it is a name.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

#[cfg(test)]
mod tests;
