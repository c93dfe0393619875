//! The browser of an operator, without an operator.

use std::collections::BTreeMap;

use airlock_tests::Reply;
use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{COOKIE, LOCATION, SET_COOKIE},
    redirect::Policy,
};

/// A browser. It keeps cookies by their origins, and follows no redirect by itself.
pub(super) struct Browser {
    http: reqwest::Client,
    cookies: BTreeMap<String, BTreeMap<String, String>>,
}

/// A page, or a redirect.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) text: String,
    /// URL of a redirect.
    pub(super) next: Option<Url>,
    url: Url,
}

impl Browser {
    pub(super) fn new() -> Self {
        let http = airlock::tls::client().no_proxy().redirect(Policy::none()).build();
        Self { http: http.expect("a client"), cookies: BTreeMap::new() }
    }

    /// Opens a page, as a link or a redirect of another site does.
    pub(super) async fn open(&mut self, url: &str) -> Page {
        let request = self.http.get(url);
        let request =
            request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
        self.send(url, request).await
    }

    /// Begins a login at a gateway, and logs in at its provider as a user. Returns the URL to which the
    /// provider redirects.
    pub(super) async fn authorize(&mut self, gateway: &str, query: &str, user: &str) -> String {
        let begun = self.open(&format!("{gateway}/api/session/login{query}")).await;
        assert_eq!(begun.status, 303, "{}", begun.text);
        let mut page = self.follow(begun, gateway).await;
        for form in [format!("prompt=login&login={user}&password=x"), "prompt=consent".to_owned()] {
            if page.next.is_some() {
                break;
            }
            let url = page.url.to_string();
            let request = self.http.post(&url).body(form);
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            let sent = self.send(&url, request).await;
            page = self.follow(sent, gateway).await;
        }
        page.next.unwrap_or_else(|| panic!("no redirect: {}", page.text)).into()
    }

    /// Logs in at a gateway. Returns its last page.
    pub(super) async fn log_in(&mut self, gateway: &str, user: &str) -> Page {
        let redirect = self.authorize(gateway, "", user).await;
        self.open(&redirect).await
    }

    /// Follows redirects that do not lead to the gateway.
    async fn follow(&mut self, mut page: Page, gateway: &str) -> Page {
        while let Some(next) = page.next.clone().filter(|url| !url.as_str().starts_with(gateway)) {
            page = self.open(next.as_str()).await;
        }
        page
    }

    /// Builds a request with the cookies that a page of the gateway sends.
    pub(super) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.with_cookies(url, self.http.request(method, url))
    }

    /// Sends such a request.
    pub(super) async fn ask(&self, method: Method, url: &str) -> Reply {
        Reply::fetch(self.request(method, url)).await
    }

    /// Returns a cookie of an origin.
    pub(super) fn cookie(&self, url: &str, name: &str) -> Option<&String> {
        self.cookies.get(&origin(url))?.get(name)
    }

    /// Makes another origin the one with these cookies, as if both were behind one address.
    pub(super) fn move_to(&mut self, from: &str, to: &str) {
        if let Some(jar) = self.cookies.remove(&origin(from)) {
            self.cookies.insert(origin(to), jar);
        }
    }

    fn with_cookies(&self, url: &str, request: RequestBuilder) -> RequestBuilder {
        let cookies = self.cookies.get(&origin(url)).into_iter().flatten();
        let cookies: Vec<_> = cookies.map(|(name, value)| format!("{name}={value}")).collect();
        if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) }
    }

    async fn send(&mut self, url: &str, request: RequestBuilder) -> Page {
        let response = self.with_cookies(url, request).send().await.expect("a response");
        self.keep(url, &response);
        let url = Url::parse(url).expect("a URL");
        let location = response.headers().get(LOCATION).map(|value| value.to_str().expect("text"));
        let next = location.map(|location| url.join(location).expect("a URL"));
        let status = response.status().as_u16();
        Page { status, next, url, text: response.text().await.expect("text") }
    }

    fn keep(&mut self, url: &str, response: &Response) {
        let jar = self.cookies.entry(origin(url)).or_default();
        for cookie in response.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("text");
            let (pair, rest) = cookie.split_once(';').expect("attributes");
            let (name, value) = pair.split_once('=').expect("a pair");
            if rest.contains("Max-Age=0") || rest.contains("1970") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

/// Returns the origin of a URL. Real cookies ignore ports; here, each program has its own.
fn origin(url: &str) -> String {
    Url::parse(url).expect("a URL").origin().ascii_serialization()
}
