//! `/oauth/login/{link}` and `/oauth/callback/{client}`: pages at which users log in at MCP servers that act
//! for them.
//!
//! A link says for whom it is, and begins nothing before its user confirms: a link that another person has
//! sent binds the account of who follows it to that person. The confirmation is a form with a code that
//! only a page for this browser has, and the browser's secret is a cookie. The redirect of the
//! authorization server counts in that browser alone, and at the address of its own client. Over plain HTTP,
//! another program of the machine can set the cookie, so the redirect has to be confirmed as well.
//!
//! | module | purpose |
//! |---|---|
//! | `page` | the pages, as HTML |
//! | `sessions` | `/api/mcp/sessions`: the list of logins |

mod page;
pub(super) mod sessions;

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use sha2::{Digest as _, Sha256};
use tracing::warn;
use url::form_urlencoded;

use self::page::Page;
use super::{
    App, body,
    memory::RequestCharge,
    respond::{ApiError, Payload, Reply},
};
use airlock_store::{OwnerId, login::UserLogin};
use airlock_strings::hex;

const LINK: &str = "/oauth/login/";
const CALLBACK: &str = "/oauth/callback/";
/// Name of the cookie with the secret of a browser. Over TLS, the prefix keeps other hosts from setting it;
/// browsers refuse the prefix over plain HTTP, which is for this machine alone.
const SECURE_COOKIE: &str = "__Host-airlock-login";
const COOKIE: &str = "airlock-login";
/// Time for which a browser keeps its secret, in seconds: as long as a link.
const COOKIE_SECONDS: u64 = 900;
/// Time after which a browser may try again to begin a login, in seconds.
const RETRY_SECONDS: u16 = 5;
/// Field of the form.
const CONFIRMATION: &str = "confirmation";
/// No scripts, nothing from elsewhere, and no frame of another page around it. Forms are not restricted:
/// browsers would apply that to the redirect to the authorization server too.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

/// Logins of users at MCP servers. The server does not depend on the way they are made.
pub trait UserLogins: Send + Sync + 'static {
    /// Returns whether browsers reach the gateway over TLS.
    fn is_secure(&self) -> bool;

    /// Returns a secret for a browser that has none.
    fn new_secret(&self) -> String;

    /// Returns whether a text may be a secret of a browser.
    fn is_secret(&self, text: &str) -> bool;

    /// Returns what a link is for.
    fn find<'a>(&'a self, link: &'a str) -> BoxFuture<'a, Result<LoginOffer, LoginRefusal>>;

    /// Begins the login of a link that the user of the browser with this secret has confirmed. Returns the
    /// URL of the authorization server.
    fn begin<'a>(
        &'a self,
        link: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<String, LoginRefusal>>;

    /// Returns the login that a redirect would complete, if its user has to confirm that once more; `None`
    /// if the redirect is enough. `client` is the one whose address the redirect came to. Completes nothing.
    fn unconfirmed<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginOffer>, LoginRefusal>>;

    /// Completes a login of this client with the query of the redirect, in the browser with this secret.
    /// Fails if the login is that of another client. Dropping the future does not undo it.
    fn complete<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>>;

    /// Returns the logins of one tenant, or of all, at most a thousand from `offset` on.
    fn list(
        &self,
        holder: Option<OwnerId>,
        offset: u32,
    ) -> BoxFuture<'_, Result<Vec<UserLogin>, LoginRefusal>>;

    /// Removes a login; with a tenant, only one of that tenant. Returns false if there is none.
    fn revoke<'a>(
        &'a self,
        session: &'a str,
        holder: Option<OwnerId>,
    ) -> BoxFuture<'a, Result<bool, LoginRefusal>>;
}

/// Login that a link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOffer {
    /// Name of the client.
    pub client: String,
    /// Host of its server.
    pub host: String,
    /// Name of the virtual key that asked.
    pub key_name: String,
    /// Issuer and subject of the user who asked with an access token; `None` if the virtual key was the
    /// credential.
    pub user: Option<(String, String)>,
}

/// Reason that a login goes no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The link or the redirect is of no use: it has expired, was used, or never was.
    Gone,
    /// The redirect comes from another browser than the one that confirmed.
    OtherBrowser,
    /// Too many logins at the server are being begun.
    Busy,
    /// The authorization server refuses it, or the login failed otherwise. The reason is for the operator.
    Failed(String),
    /// The store is not available, with the reason for the operator.
    Unavailable(String),
}

impl fmt::Display for LoginRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the link has expired or was used"),
            Self::OtherBrowser => f.write_str("the redirect came to another browser"),
            Self::Busy => f.write_str("too many logins at this server are being begun"),
            Self::Failed(reason) | Self::Unavailable(reason) => f.write_str(reason),
        }
    }
}

/// A page of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginRoute<'p> {
    /// That of a link.
    Link(&'p str),
    /// The one to which the authorization server of this client redirects.
    Callback(&'p str),
}

impl<'p> LoginRoute<'p> {
    /// Finds the page of a path; `None` for other paths.
    pub(super) fn parse(path: &'p str) -> Option<Self> {
        let found = match path.strip_prefix(CALLBACK) {
            Some(client) => Self::Callback(client),
            None => Self::Link(path.strip_prefix(LINK)?),
        };
        let (Self::Callback(name) | Self::Link(name)) = found;
        (!name.is_empty() && !name.contains('/')).then_some(found)
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Link(_) | Self::Callback(_) => &[Method::GET, Method::POST],
        }
    }
}

/// Answers a request to a page. Every outcome is a page, with a status.
pub(super) async fn answer(
    app: &App,
    route: LoginRoute<'_>,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let logins = &*app.hooks.logins;
    match (route, request.method()) {
        (LoginRoute::Callback(client), &Method::POST) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let browser = browser(logins, request.headers());
            let form = body::form(request, &app.settings, charge).await?;
            Ok(finish(logins, client, &query, browser, &form).await)
        }
        (LoginRoute::Callback(client), _) => {
            let query = request.uri().query().unwrap_or_default();
            Ok(redirected(logins, client, query, request.headers()).await)
        }
        (LoginRoute::Link(link), &Method::POST) => {
            let browser = browser(logins, request.headers());
            let form = body::form(request, &app.settings, charge).await?;
            Ok(begin(logins, link, browser, &form).await)
        }
        (LoginRoute::Link(link), _) => Ok(offer(logins, link, request.headers()).await),
    }
}

/// Shows what a link is for, and asks for a confirmation.
async fn offer(logins: &dyn UserLogins, link: &str, headers: &HeaderMap) -> Reply {
    let offer = match logins.find(link).await {
        Ok(offer) => offer,
        Err(refusal) => return refused(&refusal),
    };
    let browser = browser(logins, headers).unwrap_or_else(|| logins.new_secret());
    let mut reply = reply(StatusCode::OK, &Page::offer(&offer, &confirmation(&browser, link)));
    let (name, secure) =
        if logins.is_secure() { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    let cookie = format!(
        "{name}={browser}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}"
    );
    let cookie = HeaderValue::try_from(cookie).expect("a secret is header text");
    reply.headers_mut().insert(header::SET_COOKIE, cookie);
    reply
}

/// Begins a confirmed login: redirects to the authorization server.
async fn begin(logins: &dyn UserLogins, link: &str, browser: Option<String>, form: &str) -> Reply {
    let Some(browser) = browser.filter(|browser| is_confirmed(browser, link, form)) else {
        return reply(StatusCode::FORBIDDEN, &Page::unconfirmed());
    };
    match logins.begin(link, &browser).await {
        Ok(url) => {
            let Ok(url) = HeaderValue::try_from(url) else { return refused(&LoginRefusal::Gone) };
            let mut reply = reply(StatusCode::SEE_OTHER, &Page::leaving());
            reply.headers_mut().insert(header::LOCATION, url);
            reply
        }
        Err(refusal) => refused(&refusal),
    }
}

/// Completes the login of a redirect, or shows for whom it is and asks for a confirmation.
async fn redirected(
    logins: &dyn UserLogins,
    client: &str,
    query: &str,
    headers: &HeaderMap,
) -> Reply {
    let Some(browser) = browser(logins, headers) else {
        return refused(&LoginRefusal::OtherBrowser);
    };
    match logins.unconfirmed(client, query, &browser).await {
        Ok(Some(offer)) => {
            let page = Page::finish(&offer, &confirmation(&browser, query));
            reply(StatusCode::OK, &page)
        }
        Ok(None) => complete(logins, client, query, &browser).await,
        Err(refusal) => refused(&refusal),
    }
}

/// Completes a confirmed login.
async fn finish(
    logins: &dyn UserLogins,
    client: &str,
    query: &str,
    browser: Option<String>,
    form: &str,
) -> Reply {
    match browser.filter(|browser| is_confirmed(browser, query, form)) {
        Some(browser) => complete(logins, client, query, &browser).await,
        None => reply(StatusCode::FORBIDDEN, &Page::unconfirmed()),
    }
}

async fn complete(logins: &dyn UserLogins, client: &str, query: &str, browser: &str) -> Reply {
    match logins.complete(client, query, browser).await {
        Ok(()) => reply(StatusCode::OK, &Page::done(client)),
        Err(refusal) => refused(&refusal),
    }
}

/// Returns the secret of the browser that sends a request.
fn browser(logins: &dyn UserLogins, headers: &HeaderMap) -> Option<String> {
    let name = if logins.is_secure() { SECURE_COOKIE } else { COOKIE };
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = cookies.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name && logins.is_secret(value)).then(|| value.to_owned())
    });
    found.next()
}

/// Returns whether a form has the code of this page in the browser with this secret.
fn is_confirmed(browser: &str, page: &str, form: &str) -> bool {
    let mut fields = form_urlencoded::parse(form.as_bytes());
    let sent = fields.find(|(name, _)| name == CONFIRMATION).map(|(_, value)| value);
    sent.as_deref() == Some(&*confirmation(browser, page))
}

/// Returns the code of the form of a page, which is a link or the query of a redirect, in the browser with
/// this secret. The form does not have the secret itself.
fn confirmation(browser: &str, page: &str) -> String {
    let mut hasher = Sha256::new().chain_update("airlock confirmation ");
    for part in [browser, page] {
        hasher = hasher.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
    }
    hex(&hasher.finalize())
}

fn refused(refusal: &LoginRefusal) -> Reply {
    let status = match refusal {
        LoginRefusal::Gone => StatusCode::NOT_FOUND,
        LoginRefusal::OtherBrowser => StatusCode::FORBIDDEN,
        LoginRefusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
        LoginRefusal::Failed(reason) => {
            warn!(reason, "a login of a user has failed");
            StatusCode::BAD_REQUEST
        }
        LoginRefusal::Unavailable(reason) => {
            warn!(reason, "logins of users are not available");
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let mut reply = reply(status, &Page::refusal(refusal));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from(RETRY_SECONDS);
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    reply
}

fn reply(status: StatusCode, page: &Page) -> Reply {
    let mut reply = Response::new(Payload::Whole(Bytes::from(page.to_html())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
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

#[cfg(test)]
mod tests;
