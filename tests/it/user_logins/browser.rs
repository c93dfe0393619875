//! The browser of a user, without a user: it keeps cookies and follows no redirect by itself.

use airlock_tests::Reply;
use reqwest::{
    Response, Url,
    header::{COOKIE, LOCATION, ORIGIN, SET_COOKIE},
    redirect::Policy,
};

/// A browser that has seen the pages of one gateway.
pub(super) struct Browser {
    http: reqwest::Client,
    cookie: Option<String>,
    /// Virtual key that its user enters.
    key: &'static str,
}

impl Browser {
    /// Creates the browser of a user who has this virtual key; empty for a user who has none.
    pub(super) fn new(key: &'static str) -> Self {
        let http = airlock::tls::client().no_proxy().redirect(Policy::none()).build();
        Self { http: http.expect("a client"), cookie: None, key }
    }

    /// Returns the same browser, in which the holder of another virtual key sits.
    pub(super) fn as_user_of(&self, key: &'static str) -> Self {
        Self { http: self.http.clone(), cookie: self.cookie.clone(), key }
    }

    /// Opens a page, as if a link on a page of another site led there.
    pub(super) async fn open(&mut self, url: &str) -> Reply {
        let mut request = self.http.get(url);
        request =
            request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, cookie);
        }
        let response = request.send().await.expect("a response");
        if let Some(set) = response.headers().get(SET_COOKIE) {
            let set = set.to_str().expect("text");
            assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
            self.cookie = set.split(';').next().map(str::to_owned);
        }
        let status = response.status().as_u16();
        let text = response.text().await.expect("a page");
        Reply { status, body: serde_json::Value::Null, text }
    }

    /// Sends the form of a page. Returns the response, which may be a redirect.
    pub(super) async fn confirm(&self, url: &str, page: &str) -> Response {
        self.send(url, confirmation(page), None).await
    }

    /// Opens a link, and enters values of headers. Returns the status of the last page.
    pub(super) async fn enter(&mut self, link: &str, values: &[(&str, &str)]) -> u16 {
        let page = self.open(link).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let fields = values.iter().map(|(name, value)| format!("&header-{name}={value}"));
        let code = format!("{}{}", confirmation(&page.text), fields.collect::<String>());
        self.send(link, &code, None).await.status().as_u16()
    }

    /// Sends a form with this code, from a page of `origin`, or of the gateway.
    pub(super) async fn send(&self, url: &str, code: &str, origin: Option<&str>) -> Response {
        let own = Url::parse(url).expect("a URL").origin().ascii_serialization();
        let mut request = self
            .http
            .post(url)
            .header(ORIGIN, origin.unwrap_or(&own))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("key={}&confirmation={code}", self.key));
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, cookie);
        }
        request.send().await.expect("a response")
    }

    /// Opens a link, confirms, and logs in as a user. Returns the URL to which the authorization server
    /// redirects.
    pub(super) async fn authorize(&mut self, link: &str, user: &str) -> String {
        let page = self.open(link).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let begun = self.confirm(link, &page.text).await;
        assert_eq!(begun.status().as_u16(), 303);
        let url = format!("{}&user={user}", location(&begun));
        let authorized = self.http.get(url).send().await.expect("a response");
        location(&authorized)
    }

    /// Logs in by a link as a user.
    pub(super) async fn log_in(&mut self, link: &str, user: &str) {
        let redirect = self.authorize(link, user).await;
        assert_eq!(self.finish(&redirect).await, 200);
    }

    /// Opens a redirect, and confirms its page: tests are over plain HTTP. Returns the last status.
    pub(super) async fn finish(&mut self, redirect: &str) -> u16 {
        let page = self.open(redirect).await;
        if page.status != 200 {
            return page.status;
        }
        self.confirm(redirect, &page.text).await.status().as_u16()
    }
}

/// Returns the code in the form of a page.
pub(super) fn confirmation(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"confirmation\" value=\"").expect("a form");
    rest.split_once('"').expect("its end").0
}

fn location(response: &Response) -> String {
    response.headers()[LOCATION].to_str().expect("text").to_owned()
}
