//! The pages and cookies of a login, with a provider that agrees at once.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::{
    BegunLogin, Management, ManagementRefusal, ManagementRequest, OpenedSession,
    credential::OperatorCredential,
    tests::{api, settings},
};
use airlock_core::{
    door::LiveKeys,
    operator::{Operator, Role},
};
use airlock_fakes as fake;
use airlock_ingress::{Connections, EvictionRank, Payload};

const BROWSER: &str = "browser-secret";
const CREDENTIAL: &str = "session-secret";

/// Logins at one URL. They keep what they were asked.
struct OneLogin {
    url: Url,
    asked: Mutex<Vec<String>>,
}

impl OneLogin {
    fn at(url: &str) -> Self {
        Self { url: Url::parse(url).expect("a URL"), asked: Mutex::default() }
    }
}

impl OperatorLogins for OneLogin {
    fn external_url(&self) -> Option<&Url> {
        Some(&self.url)
    }

    fn begin<'a>(
        &'a self,
        browser: Option<&'a str>,
        return_to: Option<String>,
        peer: &'a str,
    ) -> BoxFuture<'a, Result<BegunLogin, OperatorLoginRefusal>> {
        self.asked.lock().push(format!("{browser:?} {return_to:?} {peer}"));
        let url = Secret::new("https://idp.example.com/authorize");
        Box::pin(async { Ok(BegunLogin { url, browser: Secret::new(BROWSER) }) })
    }

    fn complete<'a>(
        &'a self,
        query: &'a str,
        browser: Option<&'a str>,
        previous: Option<&'a str>,
        peer: &'a str,
    ) -> BoxFuture<'a, Result<OpenedSession, OperatorLoginRefusal>> {
        self.asked.lock().push(format!("{query} {browser:?} {previous:?} {peer}"));
        let opened = OpenedSession {
            credential: Secret::new(CREDENTIAL),
            life: Duration::from_mins(1),
            name: "<ann> (https://idp)".to_owned(),
            return_to: (query != "alone").then(|| "/admin?a=1&b=2".to_owned()),
        };
        let outcome = match query {
            "failed" => Err(OperatorLoginRefusal::Failed("<s3cret>".to_owned())),
            "declined" => Err(OperatorLoginRefusal::Declined("<s3cret>".to_owned())),
            "no role" => Err(OperatorLoginRefusal::NoRole("<s3cret>".to_owned())),
            "busy" => Err(OperatorLoginRefusal::Busy),
            _ => Ok(opened),
        };
        Box::pin(async { outcome })
    }

    fn session<'a>(
        &'a self,
        _: &'a str,
        peer: &'a str,
        lookup: SessionLookup,
    ) -> BoxFuture<'a, Result<Option<OperatorSession>, String>> {
        self.asked.lock().push(format!("session {peer} {lookup:?}"));
        Box::pin(pending())
    }
}

/// Management API with logins and nothing else.
struct LoginDesk(Arc<OneLogin>);

impl Management for LoginDesk {
    fn operator(&self, _: &str) -> Option<Arc<Operator>> {
        None
    }

    fn answer<'a>(
        &'a self,
        _: Option<&'a Operator>,
        _: ManagementRequest,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>> {
        unreachable!("no test sends a request to it")
    }

    fn logins(&self) -> Option<&dyn OperatorLogins> {
        Some(&*self.0)
    }
}

fn headers<const N: usize>(sent: [(&'static str, &'static str); N]) -> HeaderMap {
    let sent =
        sent.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    sent.into_iter().collect()
}

fn text(reply: &Reply) -> String {
    let Payload::Whole(body) = reply.body() else { panic!("it is whole") };
    String::from_utf8(body.to_vec()).expect("text")
}

fn cookies(reply: &Reply) -> Vec<&str> {
    let set = reply.headers().get_all(header::SET_COOKIE).iter();
    set.map(|cookie| cookie.to_str().expect("text")).collect()
}

fn begun(logins: &OneLogin, query: &str, headers: &HeaderMap) -> Reply {
    let beginning = Box::pin(begin(logins, &logins.url, query, headers, "peer"));
    beginning.now_or_never().expect("no wait")
}

fn completed(logins: &OneLogin, query: &str, headers: &HeaderMap) -> Reply {
    let completing = Box::pin(complete(logins, &logins.url, query, headers, "peer"));
    completing.now_or_never().expect("no wait")
}

#[test]
fn over_tls_cookies_are_of_this_host_alone_and_over_plain_http_they_have_other_names() {
    let sent = headers([(
        "cookie",
        "airlock=plain; __Host-airlock=secure; airlock-operator-login=b; __Host-airlock-operator-login=c",
    )]);
    let secure = OneLogin::at("https://gw.example.com/base/");
    let reply = begun(&secure, "", &sent);
    assert_eq!(reply.status(), StatusCode::SEE_OTHER);
    assert_eq!(reply.headers()[header::LOCATION], "https://idp.example.com/authorize");
    assert_eq!(
        cookies(&reply),
        [
            "__Host-airlock-operator-login=browser-secret; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"
        ]
    );
    let reply = completed(&secure, "q", &sent);
    assert_eq!(
        cookies(&reply),
        ["__Host-airlock=session-secret; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"],
        "the secret of the browser stays, for a login in another window"
    );
    let asked = [r#"Some("c") None peer"#, r#"q Some("c") Some("secure") peer"#];
    assert_eq!(*secure.asked.lock(), asked);
    let plain = OneLogin::at("http://127.0.0.1:8080/");
    let reply = completed(&plain, "q", &sent);
    assert_eq!(
        cookies(&reply)[0],
        "airlock=session-secret; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"
    );
    assert_eq!(*plain.asked.lock(), [r#"q Some("b") Some("plain") peer"#]);
}

#[test]
fn a_page_after_a_login_leads_to_a_path_and_shows_no_markup_of_others() {
    let logins = OneLogin::at("https://gw.example.com/");
    let reply = completed(&logins, "q", &HeaderMap::new());
    let page = text(&reply);
    assert!(page.contains("As &lt;ann&gt; (https://idp)."), "{page}");
    assert!(page.contains("content=\"0;url=/admin?a=1&amp;b=2\""), "{page}");
    assert!(!text(&completed(&logins, "alone", &HeaderMap::new())).contains("refresh"));
    for (query, status) in [("failed", 400), ("declined", 400), ("no role", 403), ("busy", 503)] {
        let reply = completed(&logins, query, &HeaderMap::new());
        assert_eq!(reply.status().as_u16(), status);
        assert!(!text(&reply).contains("s3cret") && cookies(&reply).is_empty());
        let headers = reply.headers();
        assert!(headers[header::CONTENT_SECURITY_POLICY].to_str().is_ok_and(|policy| {
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'")
        }));
        assert_eq!(headers[header::REFERRER_POLICY], "no-referrer");
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
    }
}

#[test]
fn the_log_warns_of_no_refusal_that_anyone_can_cause() {
    let reason = String::new();
    for (refusal, expected) in [
        (OperatorLoginRefusal::Gone, true),
        (OperatorLoginRefusal::OtherBrowser, true),
        (OperatorLoginRefusal::Busy, true),
        (OperatorLoginRefusal::Declined(reason.clone()), true),
        (OperatorLoginRefusal::Failed(reason.clone()), false),
        (OperatorLoginRefusal::NoRole(reason.clone()), false),
        (OperatorLoginRefusal::Unavailable(reason), false),
    ] {
        assert_eq!(refusal.is_by_anyone(), expected, "{refusal:?}");
    }
}

#[test]
fn a_login_that_has_begun_shows_no_secret_in_the_log() {
    let url = Secret::new("https://idp.example.com/?state=s3cret");
    let begun = BegunLogin { url, browser: Secret::new("s3cret") };
    assert!(!format!("{begun:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_connection_may_be_evicted_while_the_session_of_its_cookie_is_read() {
    let logins = Arc::new(OneLogin::at("https://gw.example.com/"));
    let (catalog, _) = fake::catalog();
    let management: Arc<dyn Management> = Arc::new(LoginDesk(logins.clone()));
    let api = api(catalog, LiveKeys::default(), Some(management), settings());
    let slot = Connections::new(1, 1).admit(Peer::new(None)).expect("there is room");
    let _running = slot.activity.begin();
    let seat = slot.seats().seat();
    let cookies = headers([("cookie", "__Host-airlock=x")]);
    let address = Some([10, 0, 0, 1].into());
    let ingress = Ingress::Remote { address, certificate: None };
    let finding = super::session(&api, ingress, &Method::GET, &cookies, Some(&seat));
    let mut finding = std::pin::pin!(finding);
    assert!(finding.as_mut().now_or_never().is_none(), "the store does not respond");
    assert!(matches!(slot.activity.rank(), Some(EvictionRank::Reading(_))));
    assert_eq!(*logins.asked.lock(), ["session 10.0.0.1 Use"], "its peer has a queue of its own");
}

#[tokio::test]
async fn neither_the_check_of_a_stream_nor_a_request_in_the_background_uses_a_session() {
    let logins = Arc::new(OneLogin::at("https://gw.example.com/"));
    let (catalog, _) = fake::catalog();
    let management: Arc<dyn Management> = Arc::new(LoginDesk(logins.clone()));
    let api = api(catalog, LiveKeys::default(), Some(management), settings());
    let address = Some([10, 0, 0, 1].into());
    let ingress = Ingress::Remote { address, certificate: None };
    let own = headers([("cookie", "__Host-airlock=x")]);
    let background = headers([("cookie", "__Host-airlock=x"), ("x-airlock-background", "true")]);
    for sent in [&own, &background] {
        let finding = Box::pin(super::session(&api, ingress, &Method::GET, sent, None));
        assert!(finding.now_or_never().is_none(), "the store does not respond");
    }
    let credential =
        OperatorCredential::Session { credential: Secret::new("x"), peer: "stream".to_owned() };
    let operator = Operator { name: "ann".to_owned(), role: Role::Admin, sees_payloads: false };
    let checking = Box::pin(credential.is_of(&operator, &api.hooks));
    assert!(checking.now_or_never().is_none(), "the store does not respond");
    let expected = ["session 10.0.0.1 Use", "session 10.0.0.1 Check", "session stream Check"];
    assert_eq!(*logins.asked.lock(), expected);
}

#[test]
fn a_browser_returns_to_a_path_of_the_gateway_alone() {
    for (path, is_local) in [
        ("/", true),
        ("/admin/keys?name=a%20b#top", true),
        ("//evil.example", false),
        ("/\\evil.example", false),
        ("\\/evil.example", false),
        ("/\t/evil.example", false),
        ("https://evil.example/", false),
        ("javascript:alert(1)", false),
        ("admin", false),
        ("", false),
        ("/\"><script>", false),
        ("/ä", false),
        ("/api/session/login", false),
    ] {
        assert_eq!(self::is_local(path), is_local, "{path:?}");
    }
    assert!(is_local(&format!("/{}", "x".repeat(1_023))));
    assert!(!is_local(&format!("/{}", "x".repeat(1_024))));
    assert_eq!(return_to("a=b&return_to=%2Fadmin"), Ok(Some("/admin".to_owned())));
    assert_eq!(return_to("a=b"), Ok(None));
    for query in ["return_to=", "return_to=%2F%2Fevil", "return_to=%2Fa&return_to=%2Fb"] {
        assert_eq!(return_to(query), Err(NotLocal), "{query}");
        let logins = OneLogin::at("https://gw.example.com/");
        assert_eq!(begun(&logins, query, &HeaderMap::new()).status(), StatusCode::BAD_REQUEST);
        assert!(logins.asked.lock().is_empty());
    }
}

#[test]
fn a_cookie_counts_for_own_pages_alone() {
    let url = Url::parse("https://gw.example.com/base/").expect("a URL");
    for (sent, is_own) in [
        (headers([]), true),
        (headers([("origin", "https://gw.example.com")]), true),
        (headers([("sec-fetch-site", "same-origin")]), true),
        (headers([("sec-fetch-site", "none")]), true),
        (headers([("origin", "https://tools.example.com")]), false),
        (headers([("origin", "http://gw.example.com")]), false),
        (headers([("origin", "https://gw.example.com:8443")]), false),
        (headers([("origin", "null")]), false),
        (headers([("sec-fetch-site", "same-site")]), false),
        (headers([("sec-fetch-site", "cross-site")]), false),
    ] {
        assert_eq!(is_own_page(&url, &sent), is_own, "{sent:?}");
    }
}

fn session(credential: &str) -> BrowserSession {
    let operator = Operator { name: "ann".to_owned(), role: Role::Admin, sees_payloads: false };
    BrowserSession {
        session: OperatorSession {
            id: "1".to_owned(),
            operator: Arc::new(operator),
            expires: SystemTime::UNIX_EPOCH,
        },
        credential: Secret::new(credential),
    }
}

fn with(token: &str) -> HeaderMap {
    let token = HeaderValue::try_from(token).expect("text");
    HeaderMap::from_iter([(HeaderName::from_static(CSRF_HEADER), token)])
}

#[test]
fn a_change_needs_the_token_of_its_own_session() {
    let own = session("a");
    assert!(own.check(&Method::GET, &HeaderMap::new()).is_ok());
    assert!(own.check(&Method::HEAD, &HeaderMap::new()).is_ok());
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        assert!(own.check(&method, &with(&own.csrf_token())).is_ok());
        for other in [HeaderMap::new(), with(""), with("a"), with(&session("b").csrf_token())] {
            let refused = own.check(&method, &other).expect_err("refused");
            assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        }
    }
}
