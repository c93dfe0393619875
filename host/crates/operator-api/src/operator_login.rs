//! `/api/session/login` and `/api/session/callback`: operators log in with a browser at an identity provider.
//! After it, a cookie is their credential.
//!
//! ```text
//! GET login ─► cookie of the browser, redirect ─► provider ─► GET callback ─► cookie of the session ─► page
//! ```
//!
//! The cookie counts for what operators use, and only where a request has no other credential. A browser
//! sends it with requests of any page that it shows, so three things keep other pages out: it is not sent with
//! requests of other sites (`SameSite`); requests that name an origin must name that of the gateway; and one
//! that changes something needs a header with a token that only the gateway's own pages can read.
//!
//! | module | purpose |
//! |---|---|
//! | `rate` | bounds the logins of each peer |

mod rate;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use tracing::{debug, warn};
use url::{Url, form_urlencoded};

pub(super) use self::rate::LoginRate;
use super::{
    OperatorApi,
    hooks::{OperatorLoginRefusal, OperatorLogins, OperatorSession, SessionLookup},
};
use airlock_core::{door::credential_digest, secret::Secret};
use airlock_http::{
    auth::{BACKGROUND_HEADER, BROWSER_COOKIES, CSRF_HEADER, SESSION_COOKIES},
    browser::{self, HtmlPage},
    respond::{ApiError, Reply},
};
use airlock_ingress::{Ingress, Parking, Peer, RequestBody, Seat};

/// Path that begins a login.
pub const LOGIN: &str = "/api/session/login";
/// Path to which the provider redirects browsers.
pub const CALLBACK: &str = "/api/session/callback";
/// Paths to which no browser is led after a login: it would log in, or out, again and again.
const OWN_PATHS: &str = "/api/session/";
/// Longest path to which a browser is led after a login, in bytes. A peer needs no credential to
/// begin a login, which is stored with the path.
const MAX_RETURN_BYTES: usize = 1_024;
/// Parameter with that path.
const RETURN_TO: &str = "return_to";
/// Time for which a browser keeps its secret, in seconds: as long as a login may take.
const BROWSER_SECONDS: u64 = 600;
/// Time after which a browser may try again, in seconds.
const RETRY_SECONDS: u16 = 5;
/// Purpose of the token, which its digest has.
const CSRF: &str = "requests that change something";

/// A step of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorLoginStep {
    /// Redirects the browser to the provider.
    Begin,
    /// Opens the session, after the redirect from the provider.
    Complete,
}

/// Session of the browser that sends a request.
#[derive(Clone)]
pub(super) struct BrowserSession {
    pub(super) session: OperatorSession,
    pub(super) credential: Secret,
}

impl BrowserSession {
    /// Returns the token that a request needs to change something.
    pub(super) fn csrf_token(&self) -> String {
        browser::confirmation(self.credential.expose(), CSRF)
    }

    /// Fails if a request changes something and does not have the token.
    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let sent = headers.get(CSRF_HEADER).and_then(|token| token.to_str().ok());
        // Compares digests, so the time of it tells nothing.
        let expected = credential_digest(&self.csrf_token());
        if sent.is_some_and(|sent| credential_digest(sent) == expected) {
            return Ok(());
        }
        let message = "a request of a session that changes something needs the header `X-Airlock-CSRF` with the `csrf_token` of GET /api/session";
        Err(ApiError::forbidden("csrf_token_invalid", message))
    }
}

/// Finds the session whose cookie a request has; `None` if it has none, or another credential. Fails if it
/// lacks the token to change something. Waits for the store, during which the connection in `seat` may be
/// evicted: anyone can send a cookie.
pub(super) async fn session(
    api: &OperatorApi,
    ingress: Ingress,
    method: &Method,
    headers: &HeaderMap,
    seat: Option<&Seat>,
) -> Result<Option<BrowserSession>, ApiError> {
    let management = api.hooks.management.as_ref();
    let Some(logins) = management.and_then(|management| management.logins()) else {
        return Ok(None);
    };
    let Some(url) = logins.external_url() else { return Ok(None) };
    if matches!(ingress, Ingress::Socket(_)) || !is_own_page(url, headers) {
        return Ok(None);
    }
    let Some(credential) = cookie(SESSION_COOKIES, url, headers) else { return Ok(None) };
    let peer = Peer::new(ingress.address()).to_string();
    let parked = seat.map(|seat| seat.park(Parking::Reading));
    let session = logins.session(credential, &peer, lookup(headers)).await;
    drop(parked);
    let Some(session) = session.map_err(|reason| unavailable(&reason))? else { return Ok(None) };
    let session = BrowserSession { session, credential: Secret::new(credential) };
    session.check(method, headers)?;
    Ok(Some(session))
}

/// Returns the purpose for which a request looks its session up. The header can only end a session earlier.
fn lookup(headers: &HeaderMap) -> SessionLookup {
    if headers.contains_key(BACKGROUND_HEADER) { SessionLookup::Check } else { SessionLookup::Use }
}

/// Returns whether a request comes from a page of the gateway, or from none. Pages of `allowed_origins` may
/// send requests, but not in the name of an operator.
fn is_own_page(url: &Url, headers: &HeaderMap) -> bool {
    let own = url.origin().ascii_serialization();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let mut sites = headers.get_all(browser::FETCH_SITE).iter();
    origins.all(|origin| origin.as_bytes() == own.as_bytes())
        && sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Returns the value of the cookie that counts where browsers reach the gateway at this URL.
fn cookie<'h>(names: [&'static str; 2], url: &Url, headers: &'h HeaderMap) -> Option<&'h str> {
    browser::cookies(headers, name(names, url)).next()
}

fn name(names: [&'static str; 2], url: &Url) -> &'static str {
    let [secure, plain] = names;
    if is_secure(url) { secure } else { plain }
}

fn is_secure(url: &Url) -> bool {
    url.scheme() == "https"
}

/// Answers a request of a login. Every outcome is a page, with a status.
pub async fn answer(
    api: &OperatorApi,
    step: OperatorLoginStep,
    ingress: Ingress,
    request: Request<RequestBody>,
) -> Reply {
    let head = request.into_parts().0;
    let management = api.hooks.management.as_ref();
    let logins = management.and_then(|management| management.logins());
    let Some(logins) = logins else { return no_login() };
    let Some(url) = logins.external_url() else { return no_login() };
    let peer = Peer::new(ingress.address());
    if !api.login_rate.admit(peer) {
        return too_many();
    }
    let peer = peer.to_string();
    let query = head.uri.query().unwrap_or_default();
    match step {
        OperatorLoginStep::Begin => begin(logins, url, query, &head.headers, &peer).await,
        OperatorLoginStep::Complete => complete(logins, url, query, &head.headers, &peer).await,
    }
}

/// Begins a login: redirects to the provider.
async fn begin(
    logins: &dyn OperatorLogins,
    url: &Url,
    query: &str,
    headers: &HeaderMap,
    peer: &str,
) -> Reply {
    let Ok(return_to) = return_to(query) else {
        let text = "The address to return to after the login is not a path of this gateway.";
        return reply(StatusCode::BAD_REQUEST, &HtmlPage::of_text("Not logged in", text));
    };
    let begun = match logins.begin(cookie(BROWSER_COOKIES, url, headers), return_to, peer).await {
        Ok(begun) => begun,
        Err(refusal) => return refused(&refusal),
    };
    let Ok(mut location) = HeaderValue::try_from(begun.url.expose()) else {
        return refused(&OperatorLoginRefusal::Failed("the URL is no header text".to_owned()));
    };
    location.set_sensitive(true);
    let text = "The browser goes on to the identity provider.";
    let mut reply = reply(StatusCode::SEE_OTHER, &HtmlPage::of_text("Log in", text));
    reply.headers_mut().insert(header::LOCATION, location);
    let name = name(BROWSER_COOKIES, url);
    let cookie = browser::set_cookie(name, begun.browser.expose(), BROWSER_SECONDS, is_secure(url));
    reply.headers_mut().insert(header::SET_COOKIE, cookie);
    reply
}

/// Completes the login of a redirect, and leads the browser to where it came from. The browser keeps its
/// secret until that expires, because a login in another of its windows may not be complete.
async fn complete(
    logins: &dyn OperatorLogins,
    url: &Url,
    query: &str,
    headers: &HeaderMap,
    peer: &str,
) -> Reply {
    let browser = cookie(BROWSER_COOKIES, url, headers);
    let previous = cookie(SESSION_COOKIES, url, headers);
    let opened = match logins.complete(query, browser, previous, peer).await {
        Ok(opened) => opened,
        Err(refusal) => return refused(&refusal),
    };
    let page = HtmlPage::of_text("You are logged in", &format!("As {}.", opened.name));
    // A page, and not a redirect: for the browser, the request that follows a redirect still comes from the
    // provider, and `Sec-Fetch-Site` says so.
    let page = match opened.return_to {
        Some(path) => page.leading_to(path),
        None => page,
    };
    let mut reply = reply(StatusCode::OK, &page);
    let credential = opened.credential.expose();
    let seconds = opened.life.as_secs();
    let name = name(SESSION_COOKIES, url);
    let session = browser::set_cookie(name, credential, seconds, is_secure(url));
    reply.headers_mut().insert(header::SET_COOKIE, session);
    reply
}

/// Returns a header that removes the cookie of a session.
pub(super) fn forget(api: &OperatorApi) -> Option<HeaderValue> {
    let url = external_url(api)?;
    Some(browser::set_cookie(name(SESSION_COOKIES, url), "", 0, is_secure(url)))
}

/// Returns whether operators can log in at an identity provider.
pub(super) fn is_configured(api: &OperatorApi) -> bool {
    external_url(api).is_some()
}

/// Returns the URL at which browsers reach the gateway; `None` if no login is configured.
fn external_url(api: &OperatorApi) -> Option<&Url> {
    api.hooks.management.as_ref()?.logins()?.external_url()
}

/// Returns the path to which a query asks to return; `None` if it asks for none. Fails if that is not a path
/// of the gateway.
fn return_to(query: &str) -> Result<Option<String>, NotLocal> {
    let mut wanted = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == RETURN_TO);
    let Some((_, path)) = wanted.next() else { return Ok(None) };
    if wanted.next().is_some() || !is_local(&path) { Err(NotLocal) } else { Ok(Some(path.into())) }
}

/// A path to return to is not one of the gateway.
#[derive(Debug, PartialEq, Eq)]
struct NotLocal;

/// Returns whether a text is a path at the gateway for every browser: they take `//` and `/\` for the
/// beginning of another host, and drop line breaks and tabs.
fn is_local(path: &str) -> bool {
    let is_plain =
        path.bytes().all(|byte| byte.is_ascii_graphic() && !br#"\"'<>`"#.contains(&byte));
    path.len() <= MAX_RETURN_BYTES
        && is_plain
        && path.starts_with('/')
        && !path.starts_with("//")
        && !path.starts_with(OWN_PATHS)
}

fn refused(refusal: &OperatorLoginRefusal) -> Reply {
    let status = match refusal {
        OperatorLoginRefusal::Gone
        | OperatorLoginRefusal::Failed(_)
        | OperatorLoginRefusal::Declined(_) => StatusCode::BAD_REQUEST,
        OperatorLoginRefusal::OtherBrowser | OperatorLoginRefusal::NoRole(_) => {
            StatusCode::FORBIDDEN
        }
        OperatorLoginRefusal::Busy | OperatorLoginRefusal::Unavailable(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let text = match refusal {
        OperatorLoginRefusal::Gone => "This login has expired or was completed. Log in again.",
        OperatorLoginRefusal::OtherBrowser => {
            "This login was not begun in this browser, or the browser does not keep cookies. Log in again."
        }
        OperatorLoginRefusal::Busy => "Other logins are being completed. Try again in a moment.",
        OperatorLoginRefusal::Failed(_) => {
            "The login failed or was refused. Log in again; the log of the gateway has the reason."
        }
        OperatorLoginRefusal::Declined(_) => {
            "The identity provider refused the login, or it was cancelled. Log in again."
        }
        OperatorLoginRefusal::NoRole(_) => {
            "Your account may not operate this gateway. Ask its administrator for a role."
        }
        OperatorLoginRefusal::Unavailable(_) => "Logins are not available now. Try again later.",
    };
    if refusal.is_by_anyone() {
        debug!(reason = %refusal, "an operator is not logged in");
    } else {
        warn!(reason = %refusal, "an operator is not logged in");
    }
    let mut reply = reply(status, &HtmlPage::of_text("Not logged in", text));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    }
    reply
}

fn no_login() -> Reply {
    let text = "Operators of this gateway do not log in with a browser.";
    reply(StatusCode::NOT_FOUND, &HtmlPage::of_text("No login", text))
}

fn too_many() -> Reply {
    let text = "Too many logins were begun from your network. Try again in a moment.";
    let page = HtmlPage::of_text("Not logged in", text);
    let mut reply = reply(StatusCode::TOO_MANY_REQUESTS, &page);
    reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    reply
}

fn reply(status: StatusCode, page: &HtmlPage) -> Reply {
    let mut reply = browser::reply(status, page);
    // The URL of a redirect has a code. The pages have no form.
    let policy = HeaderValue::from_static("no-referrer");
    reply.headers_mut().insert(HeaderName::from_static("referrer-policy"), policy);
    reply
}

fn unavailable(reason: &str) -> ApiError {
    let message = format!("sessions of operators cannot be read: {reason}");
    ApiError::unavailable("store_unavailable", message)
}

#[cfg(test)]
mod tests;
