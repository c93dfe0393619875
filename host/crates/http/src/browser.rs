//! Browsers: their cookies, the pages that they are shown, and a header that only they send.

mod page;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

pub use self::page::{HtmlPage, escaped};
use super::respond::Reply;
use airlock_ingress::Payload;
use airlock_strings::hex;

/// Header in which a browser states the relation between the origin of a request and its target.
pub const FETCH_SITE: &str = "sec-fetch-site";
/// No scripts, nothing from elsewhere, and no frame of another page around it. Forms are not restricted:
/// browsers would apply that to the redirect to the authorization server too.
pub const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";
/// The same for a page whose form leads to no redirect: it is sent to the gateway alone.
pub const OWN_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                          frame-ancestors 'none'; form-action 'self'";

/// Returns a header that sets a cookie with a secret, which no script reads and other sites do not send but
/// with a link. With 0 seconds, it removes the cookie.
///
/// # Panics
///
/// Panics if the name or the secret is not header text. The gateway makes both.
pub fn set_cookie(name: &str, secret: &str, seconds: u64, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie =
        format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(cookie).expect("a secret is header text")
}

/// Returns the values of the cookies with this name.
pub fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).filter_map(move |pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}

/// Returns the code of the form of a page, which is a link or the query of a redirect, in the browser with
/// this secret. The form does not have the secret itself.
pub fn confirmation(browser: &str, page: &str) -> String {
    let mut hasher = Sha256::new().chain_update("airlock confirmation ");
    for part in [browser, page] {
        hasher = hasher.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
    }
    hex(&hasher.finalize())
}

/// Returns the response with a page, which no cache keeps and no other page frames.
pub fn reply(status: StatusCode, page: &HtmlPage) -> Reply {
    let mut reply = Response::new(Payload::Whole(Bytes::from(page.to_html())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, if page.is_own() { OWN_POLICY } else { POLICY }),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The link is not told to other sites. With `no-referrer`, the form would have no `Origin`.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}
