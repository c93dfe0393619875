//! The pages, with a login that begins and ends at once.

use std::collections::BTreeMap;

use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;

use super::*;
use airlock_core::{
    act::Actor,
    door::{Keys, VirtualKey},
};
use airlock_http::browser::{OWN_POLICY, POLICY};
use airlock_ingress::Payload;
use airlock_store::{OwnerId, login::UserLogin};

const LINKED: &str = "the-link";
const SECRET: &str = "browser-secret";
const ANN: &str = "sk-bf-ann";
const BOB: &str = "sk-bf-bob";

/// One link, and the browsers in which it was begun and completed.
#[derive(Default)]
struct OneLogin {
    is_secure: bool,
    begun: Mutex<Vec<String>>,
    completed: Mutex<Vec<String>>,
    header_keys: Vec<String>,
    /// Values that were entered, without their headers.
    submitted: Mutex<Vec<String>>,
    wrong_keys: Mutex<usize>,
}

/// Returns the keys of ann, who has the link, and of bob.
fn keys() -> LiveKeys {
    let keys = [("ann", ANN), ("bob", BOB)]
        .map(|(name, credential)| VirtualKey::new(name, credential, BTreeMap::new()));
    LiveKeys::new(Keys::new(keys))
}

/// Sends the form of the link in a browser.
fn sent(logins: &OneLogin, browser: Option<&str>, form: &str) -> Reply {
    let keys = keys();
    let keys = HolderKeys { keys: &keys, certificate: None };
    now(begin(logins, &keys, LINKED, browser.map(str::to_owned), form))
}

impl UserLogins for OneLogin {
    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn new_secret(&self) -> String {
        SECRET.to_owned()
    }

    fn is_secret(&self, text: &str) -> bool {
        text.ends_with("-secret")
    }

    fn find<'a>(&'a self, link: &'a str) -> BoxFuture<'a, Result<LoginOffer, LoginRefusal>> {
        let offer = LoginOffer {
            client: "up".to_owned(),
            host: "mcp.example.com".to_owned(),
            header_keys: self.header_keys.clone(),
            holder: VirtualKey::new("ann", ANN, BTreeMap::new()).tenant().scope(),
            key_name: "ann".to_owned(),
            user: None,
        };
        let found = if link == LINKED { Ok(offer) } else { Err(LoginRefusal::Gone) };
        Box::pin(async { found })
    }

    fn begin<'a>(
        &'a self,
        _: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<String, LoginRefusal>> {
        self.begun.lock().push(browser.to_owned());
        Box::pin(async { Ok("https://as.example.com/authorize".to_owned()) })
    }

    fn submit<'a>(
        &'a self,
        _: &'a str,
        entered: &'a [(String, Secret)],
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        let values = entered.iter().map(|(_, value)| value.expose().to_owned());
        self.submitted.lock().extend(values);
        let is_whole = entered.len() == self.header_keys.len();
        Box::pin(async move {
            if is_whole { Ok(()) } else { Err(LoginRefusal::Invalid("<no value>".to_owned())) }
        })
    }

    fn enter_key<'a>(
        &'a self,
        _: &'a str,
        is_holders: bool,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        *self.wrong_keys.lock() += usize::from(!is_holders);
        let is_last = *self.wrong_keys.lock() > 2;
        Box::pin(async move { if is_last { Err(LoginRefusal::Gone) } else { Ok(()) } })
    }

    fn unconfirmed<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginOffer>, LoginRefusal>> {
        let is_own = self.begun.lock().iter().any(|begun| begun == browser);
        let asks = !self.is_secure && query != "denied";
        Box::pin(async move {
            if !is_own {
                return Err(LoginRefusal::OtherBrowser);
            }
            let offer = self.find(LINKED).await?;
            if client == offer.client { Ok(asks.then_some(offer)) } else { Err(LoginRefusal::Gone) }
        })
    }

    fn complete<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        let is_own = self.begun.lock().iter().any(|begun| begun == browser);
        self.completed.lock().push(query.to_owned());
        Box::pin(async move {
            match query {
                _ if !is_own => Err(LoginRefusal::OtherBrowser),
                _ if client != "up" => Err(LoginRefusal::Gone),
                "denied" => Err(LoginRefusal::Failed("s3cret reason".to_owned())),
                _ => Ok(()),
            }
        })
    }

    fn list(
        &self,
        _: Option<OwnerId>,
        _: u32,
    ) -> BoxFuture<'_, Result<Vec<UserLogin>, LoginRefusal>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn revoke<'a>(
        &'a self,
        _: &'a str,
        _: Option<OwnerId>,
        _: Actor,
    ) -> BoxFuture<'a, Result<bool, LoginRefusal>> {
        Box::pin(async { Ok(false) })
    }
}

fn with_cookie(cookie: &str) -> HeaderMap {
    let value = HeaderValue::try_from(cookie).expect("header text");
    HeaderMap::from_iter([(header::COOKIE, value)])
}

fn text(reply: &Reply) -> String {
    let Payload::Whole(body) = reply.body() else { panic!("it is whole") };
    String::from_utf8(body.to_vec()).expect("text")
}

fn now<T>(work: impl Future<Output = T>) -> T {
    Box::pin(work).now_or_never().expect("it waits for nothing")
}

#[test]
fn a_login_begins_after_a_confirmation_in_the_same_browser_alone() {
    let logins = OneLogin::default();
    let page = now(offer(&logins, LINKED, &HeaderMap::new()));
    let cookie = page.headers()[header::SET_COOKIE].to_str().expect("text");
    assert_eq!(cookie, "airlock-login=browser-secret; Path=/; Max-Age=900; HttpOnly; SameSite=Lax");
    let html = text(&page);
    assert!(!html.contains(SECRET), "{html}");
    let code = confirmation(SECRET, LINKED);
    assert!(html.contains(&code), "{html}");
    let form = format!("{CONFIRMATION}={code}&{KEY}={ANN}");
    let other_link = format!("{CONFIRMATION}={}&{KEY}={ANN}", confirmation(SECRET, "other"));
    for (browser, form) in [
        (None, form.as_str()),
        (Some("other-secret"), &form),
        (Some(SECRET), ""),
        (Some(SECRET), &other_link),
    ] {
        let refused = sent(&logins, browser, form);
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{browser:?} {form}");
    }
    assert!(logins.begun.lock().is_empty() && *logins.wrong_keys.lock() == 0);
    let begun = sent(&logins, Some(SECRET), &form);
    assert_eq!(begun.status(), StatusCode::SEE_OTHER);
    assert_eq!(begun.headers()[header::LOCATION], "https://as.example.com/authorize");
}

#[test]
fn the_identifier_of_a_link_is_not_logged() {
    for (path, logged) in [
        ("/oauth/login/the-link", "/oauth/login/"),
        ("/oauth/login/the-link/", "/oauth/login/"),
        ("/api/mcp/per-user-headers/flows/the-link", "/api/mcp/per-user-headers/flows/"),
        ("/oauth/callback/up", "/oauth/callback/up"),
        ("/v1/models", "/v1/models"),
    ] {
        assert_eq!(logged_path(path), logged);
    }
}

#[test]
fn a_right_key_of_an_ended_link_begins_nothing() {
    let logins = OneLogin { wrong_keys: Mutex::new(3), ..OneLogin::default() };
    let form = format!("{CONFIRMATION}={}&{KEY}={ANN}", confirmation(SECRET, LINKED));
    assert_eq!(sent(&logins, Some(SECRET), &form).status(), StatusCode::NOT_FOUND);
    assert!(logins.begun.lock().is_empty());
}

#[test]
fn a_login_begins_with_the_key_of_its_holder_alone() {
    let logins = OneLogin::default();
    let code = confirmation(SECRET, LINKED);
    for (key, status) in [("", 403), (BOB, 403), ("sk-bf-unknown", 404)] {
        let refused = sent(&logins, Some(SECRET), &format!("{CONFIRMATION}={code}&{KEY}={key}"));
        assert_eq!(refused.status().as_u16(), status, "{key}");
        let html = text(&refused);
        assert!(key.is_empty() || !html.contains(key), "{html}");
        // The page has the form again, until the link has ended.
        assert_eq!(html.contains(&code), status == 403, "{html}");
    }
    assert!(logins.begun.lock().is_empty() && *logins.wrong_keys.lock() == 3);
}

#[test]
fn headers_are_entered_once_and_never_shown() {
    let header_keys = ["x-key", "x-tenant"].map(str::to_owned).to_vec();
    let logins = OneLogin { header_keys, ..OneLogin::default() };
    let page = now(offer(&logins, LINKED, &HeaderMap::new()));
    assert_eq!(page.headers()[header::CONTENT_SECURITY_POLICY], OWN_POLICY);
    let html = text(&page);
    assert!(html.contains("name=\"header-x-key\"") && html.contains("name=\"header-x-tenant\""));
    let code = confirmation(SECRET, LINKED);
    let form = format!("{CONFIRMATION}={code}&{KEY}={ANN}&header-x-key=hunter%202");
    let incomplete = sent(&logins, Some(SECRET), &form);
    assert_eq!(incomplete.status(), StatusCode::BAD_REQUEST);
    let html = text(&incomplete);
    assert!(!html.contains("hunter") && html.contains("&lt;no value&gt;"), "{html}");
    let form = format!("{form}&header-x-tenant=t&header-host=evil");
    let without_key = form.replace(ANN, BOB);
    assert_eq!(sent(&logins, Some(SECRET), &without_key).status(), StatusCode::FORBIDDEN);
    assert_eq!(sent(&logins, Some("other-secret"), &form).status(), StatusCode::FORBIDDEN);
    logins.submitted.lock().clear();
    let done = sent(&logins, Some(SECRET), &form);
    assert_eq!(done.status(), StatusCode::OK);
    assert!(!text(&done).contains("hunter"));
    assert_eq!(*logins.submitted.lock(), ["hunter 2", "t"]);
}

#[test]
fn a_redirect_counts_in_the_browser_that_began_and_shows_no_reason() {
    let logins = OneLogin { is_secure: true, ..OneLogin::default() };
    logins.begun.lock().push(SECRET.to_owned());
    let own = with_cookie("a=b; __Host-airlock-login=browser-secret");
    for (headers, client, query, status) in [
        (&HeaderMap::new(), "up", "code=x", 403),
        (&with_cookie("__Host-airlock-login=other-secret"), "up", "code=x", 403),
        (&own, "other", "code=x", 404),
        (&own, "up", "denied", 400),
        (&own, "up", "code=x", 200),
    ] {
        let page = now(redirected(&logins, client, query, headers));
        assert_eq!(page.status().as_u16(), status, "{client} {query}");
        assert!(!text(&page).contains("s3cret"));
    }
}

#[test]
fn over_plain_http_a_redirect_completes_nothing_before_its_page_is_confirmed() {
    let logins = OneLogin::default();
    logins.begun.lock().push(SECRET.to_owned());
    let own = with_cookie("airlock-login=browser-secret");
    let page = now(redirected(&logins, "up", "code=x", &own));
    assert_eq!(page.status(), StatusCode::OK);
    assert!(logins.completed.lock().is_empty());
    let code = confirmation(SECRET, "code=x");
    assert!(text(&page).contains(&code) && text(&page).contains("“ann”"), "{}", text(&page));
    let form = format!("{CONFIRMATION}={code}");
    for (browser, query, form) in [
        (None, "code=x", form.as_str()),
        (Some("other-secret"), "code=x", &form),
        (Some(SECRET), "code=y", &form),
        (Some(SECRET), "code=x", ""),
    ] {
        let refused = now(finish(&logins, "up", query, browser.map(str::to_owned), form));
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{browser:?} {query} {form}");
    }
    assert!(logins.completed.lock().is_empty());
    let done = now(finish(&logins, "up", "code=x", Some(SECRET.to_owned()), &form));
    assert_eq!(done.status(), StatusCode::OK);
    assert_eq!(*logins.completed.lock(), ["code=x"]);
    let denied = now(redirected(&logins, "up", "denied", &own));
    assert_eq!(denied.status(), StatusCode::BAD_REQUEST);
}

#[test]
fn a_browser_is_told_when_to_begin_again() {
    let busy = refused(&LoginRefusal::Busy);
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers()[header::RETRY_AFTER], "5");
}

#[test]
fn a_browser_keeps_its_secret_and_over_tls_no_other_host_sets_it() {
    let logins = OneLogin { is_secure: true, ..OneLogin::default() };
    let kept = with_cookie("__Host-airlock-login=kept-secret; airlock-login=tossed-secret");
    let page = now(offer(&logins, LINKED, &kept));
    let cookie = page.headers()[header::SET_COOKIE].to_str().expect("text");
    assert!(cookie.starts_with("__Host-airlock-login=kept-secret; Path=/;"), "{cookie}");
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    let odd = with_cookie("__Host-airlock-login=<script>");
    assert_eq!(browser(&logins, &odd), None);
}

#[test]
fn pages_are_not_framed_cached_or_told_to_other_sites() {
    let logins = OneLogin::default();
    let unknown = now(offer(&logins, "another", &HeaderMap::new()));
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    assert!(!unknown.headers().contains_key(header::SET_COOKIE));
    for page in [unknown, now(offer(&logins, LINKED, &HeaderMap::new()))] {
        let headers = page.headers();
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], POLICY);
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(headers[header::REFERRER_POLICY], "same-origin");
        assert!(!text(&page).contains("<script"));
    }
}

#[test]
fn the_pages_of_logins_are_told_from_other_paths() {
    for (path, expected) in [
        ("/oauth/login/x", Some(LoginRoute::Link("x"))),
        ("/oauth/callback/up", Some(LoginRoute::Callback("up"))),
        ("/oauth/callback", None),
        ("/oauth/callback/up/", None),
        ("/oauth/login/", None),
        ("/oauth/login/x/y", None),
        ("/oauth/callback/", None),
        ("/oauth", None),
    ] {
        assert_eq!(LoginRoute::parse(path), expected, "{path}");
    }
}
