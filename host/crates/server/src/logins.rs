//! `/oauth/login/{link}` and `/oauth/callback/{client}`: pages at which users log in at MCP servers that act
//! for them.
//!
//! A link says for whom it is, and begins nothing before its user confirms: a link that another person has
//! sent binds the account of who follows it to that person. The confirmation is a form with a code that
//! only a page for this browser has, and the browser's secret is a cookie. The redirect of the
//! authorization server counts in that browser alone, and at the address of its own client. Over plain HTTP,
//! another program of the machine can set the cookie, so the redirect has to be confirmed as well.
//!
//! A browser shows nothing of its user. For the holder of a virtual key, the form therefore asks for the
//! key: no person who has the link alone can log in for the holder, and none can be led to log in for the
//! holder of another key. A few wrong keys end the link. At a server whose users enter the values of
//! headers, the form asks for them too, and no page shows them again.
//!
//! | module | purpose |
//! |---|---|
//! | `page` | the pages, as HTML |
//! | `sessions` | `/api/mcp/sessions`: the list of logins |
//! | `user_logins` | the logins, as the gateway makes them |

mod page;
pub(super) mod sessions;
mod user_logins;

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use tracing::warn;
use url::form_urlencoded;

pub use self::user_logins::{LoginOffer, LoginRefusal, UserLogins};
use super::App;
use airlock_core::{
    door::{CertificateDigest, LiveKeys},
    request_memory::RequestCharge,
    secret::Secret,
};
use airlock_http::{
    body,
    browser::{confirmation, cookies, reply, set_cookie},
    respond::{ApiError, Reply},
};
use airlock_ingress::{Ingress, RequestBody};

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
/// Field of a form with the code of its page.
const CONFIRMATION: &str = "confirmation";
/// Field of a form with a virtual key.
const KEY: &str = "key";
/// Prefix of the fields of a form with the values of headers, before the names of these.
const HEADER_PREFIX: &str = "header-";

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

/// Returns the path of a request as it is logged: without the identifier of a link, which is a secret.
pub(super) fn logged_path(path: &str) -> &str {
    let prefix = [LINK, sessions::HEADERS].into_iter().find(|prefix| path.starts_with(prefix));
    prefix.unwrap_or(path)
}

/// Answers a request to a page. Every outcome is a page, with a status.
pub(super) async fn answer(
    app: &App,
    route: LoginRoute<'_>,
    ingress: Ingress,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let logins = &*app.hooks.logins;
    match (route, request.method()) {
        (LoginRoute::Callback(client), &Method::POST) => {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let browser = browser(logins, request.headers());
            let form = body::form(request, app.settings.bodies(), charge).await?;
            Ok(finish(logins, client, &query, browser, &form).await)
        }
        (LoginRoute::Callback(client), _) => {
            let query = request.uri().query().unwrap_or_default();
            Ok(redirected(logins, client, query, request.headers()).await)
        }
        (LoginRoute::Link(link), &Method::POST) => {
            let browser = browser(logins, request.headers());
            let form = body::form(request, app.settings.bodies(), charge).await?;
            let keys = HolderKeys { keys: &app.keys, certificate: ingress.certificate() };
            Ok(begin(logins, &keys, link, browser, &form).await)
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
    let page = page::offer(&offer, &confirmation(&browser, link), None);
    let mut reply = reply(StatusCode::OK, &page);
    let name = if logins.is_secure() { SECURE_COOKIE } else { COOKIE };
    let cookie = set_cookie(name, &browser, COOKIE_SECONDS, logins.is_secure());
    reply.headers_mut().insert(header::SET_COOKIE, cookie);
    reply
}

/// The virtual keys, for the form that asks for one.
struct HolderKeys<'a> {
    keys: &'a LiveKeys,
    /// Certificate that the browser has shown.
    certificate: Option<CertificateDigest>,
}

impl HolderKeys<'_> {
    /// Returns whether a form has the key of the holder of a link. Keys are found by their digests, so the
    /// time that it takes tells nothing about the key.
    fn has(&self, form: &str, offer: &LoginOffer) -> bool {
        let entered = field(form, KEY).map(Secret::new);
        let key = entered.and_then(|key| {
            self.keys.find(key.expose().trim_ascii(), self.certificate, SystemTime::now())
        });
        key.is_some_and(|key| key.tenant().scope() == offer.holder)
    }
}

/// Begins a confirmed login: redirects to the authorization server, or stores the headers that were entered.
async fn begin(
    logins: &dyn UserLogins,
    keys: &HolderKeys<'_>,
    link: &str,
    browser: Option<String>,
    form: &str,
) -> Reply {
    let Some(browser) = browser.filter(|browser| is_confirmed(browser, link, form)) else {
        return reply(StatusCode::FORBIDDEN, &page::unconfirmed());
    };
    let offer = match logins.find(link).await {
        Ok(offer) => offer,
        Err(refusal) => return refused(&refusal),
    };
    let code = confirmation(&browser, link);
    // A user with access tokens has no key to enter.
    if offer.user.is_none() {
        let is_holders = keys.has(form, &offer);
        if let Err(refusal) = logins.enter_key(link, is_holders).await {
            return refused(&refusal);
        }
        if !is_holders {
            let problem = "This is not the virtual key that is named here.";
            return reply(StatusCode::FORBIDDEN, &page::offer(&offer, &code, Some(problem)));
        }
    }
    if offer.header_keys.is_empty() {
        return match logins.begin(link, &browser).await {
            Ok(url) => leaving(url),
            Err(refusal) => refused(&refusal),
        };
    }
    match logins.submit(link, &entered(form, &offer.header_keys)).await {
        Ok(()) => reply(StatusCode::OK, &page::done(&offer.client)),
        Err(LoginRefusal::Invalid(reason)) => {
            reply(StatusCode::BAD_REQUEST, &page::offer(&offer, &code, Some(&reason)))
        }
        Err(refusal) => refused(&refusal),
    }
}

/// Redirects to the authorization server.
fn leaving(url: String) -> Reply {
    let Ok(url) = HeaderValue::try_from(url) else { return refused(&LoginRefusal::Gone) };
    let mut reply = reply(StatusCode::SEE_OTHER, &page::leaving());
    reply.headers_mut().insert(header::LOCATION, url);
    reply
}

/// Returns the values of these headers in a form. Other fields are not values.
fn entered(form: &str, header_keys: &[String]) -> Vec<(String, Secret)> {
    let values = header_keys.iter().filter_map(|name| {
        let value = field(form, &format!("{HEADER_PREFIX}{name}"))?;
        Some((name.clone(), Secret::new(value)))
    });
    values.collect()
}

/// Returns the first field of a form with this name.
fn field(form: &str, name: &str) -> Option<String> {
    let mut fields = form_urlencoded::parse(form.as_bytes());
    fields.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
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
            let page = page::finish(&offer, &confirmation(&browser, query));
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
        None => reply(StatusCode::FORBIDDEN, &page::unconfirmed()),
    }
}

async fn complete(logins: &dyn UserLogins, client: &str, query: &str, browser: &str) -> Reply {
    match logins.complete(client, query, browser).await {
        Ok(()) => reply(StatusCode::OK, &page::done(client)),
        Err(refusal) => refused(&refusal),
    }
}

/// Returns the secret of the browser that sends a request.
fn browser(logins: &dyn UserLogins, headers: &HeaderMap) -> Option<String> {
    let name = if logins.is_secure() { SECURE_COOKIE } else { COOKIE };
    cookies(headers, name).find(|value| logins.is_secret(value)).map(str::to_owned)
}

/// Returns whether a form has the code of this page in the browser with this secret.
fn is_confirmed(browser: &str, page: &str, form: &str) -> bool {
    field(form, CONFIRMATION).is_some_and(|sent| sent == confirmation(browser, page))
}

fn refused(refusal: &LoginRefusal) -> Reply {
    let status = match refusal {
        LoginRefusal::Gone => StatusCode::NOT_FOUND,
        LoginRefusal::OtherBrowser => StatusCode::FORBIDDEN,
        LoginRefusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
        LoginRefusal::Invalid(_) => StatusCode::BAD_REQUEST,
        LoginRefusal::Failed(reason) => {
            warn!(reason, "a login of a user has failed");
            StatusCode::BAD_REQUEST
        }
        LoginRefusal::Unavailable(reason) => {
            warn!(reason, "logins of users are not available");
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let mut reply = reply(status, &page::refusal(refusal));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from(RETRY_SECONDS);
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    reply
}

#[cfg(test)]
mod tests;
