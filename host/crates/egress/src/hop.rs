//! One request of an exchange, and its change by a redirect. No I/O.

use std::sync::Arc;

use airlock_core::tenant::Tenant;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::{
    credential::{Credential, Credentials},
    error::{EgressError, EgressErrorKind},
    headers,
    message::EgressRequest,
    policy::Bounds,
    rule,
    target::Target,
};

/// A request that is well-formed and within its bounds, but not yet checked against the policy.
pub(super) struct Hop<'a> {
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) credentials: Vec<&'a Credential>,
}

impl<'a> Hop<'a> {
    /// Validates a caller's request. Fails if it is malformed, exceeds `bounds`, or names
    /// credentials that are not in `credentials` or contradict each other.
    pub(super) fn first(
        request: EgressRequest,
        bounds: &Bounds,
        credentials: &'a Credentials,
    ) -> Result<Self, EgressError> {
        let method = rule::method(&request.method);
        let method = method.map_err(|_| {
            EgressError::invalid(
                "the method cannot be used; a method is written in capitals, such as GET",
            )
        })?;
        let target =
            Target::parse(&request.url).map_err(|error| EgressError::invalid(error.to_string()))?;
        let named = credentials.select(&request.credentials)?;
        let headers = headers::accept(&request.headers, &named)?;
        if let Some(owner) = named.iter().find(|owner| owner.collides_with(target.url())) {
            let owner = owner.name();
            return Err(EgressError::invalid(format!(
                "the URL's query has the parameter that belongs to the credential {owner:?}"
            )));
        }
        let body = request.body.filter(|body| !body.is_empty());
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            // Such a body has no meaning (RFC 9110, section 9.3.1), and a server that ignores it
            // reads it as the next request.
            return Err(EgressError::invalid(format!("a {method} request has no body")));
        }
        if body.as_ref().is_some_and(|body| body.len() > bounds.request_bytes) {
            let limit = bounds.request_bytes;
            let problem = format!("the request's body has more than {limit} bytes");
            return Err(EgressError::new(EgressErrorKind::TooLarge, problem));
        }
        Ok(Self { method, target, headers, body, credentials: named })
    }

    /// Returns whether the connection must end with the request: it has a body, and its method gives the body
    /// no meaning, as `DELETE` (RFC 9110, section 9.3.5). A server that ignores the body may read it as the
    /// next request on the connection, which may be that of another caller.
    pub(super) fn ends_connection(&self) -> bool {
        self.body.is_some() && !matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }

    /// Returns the request that follows a redirect, as browsers build it (the Fetch standard,
    /// "HTTP-redirect fetch"). A long body is searched for `credentials` on a thread of `tenant`.
    pub(super) async fn redirected(
        mut self,
        status: StatusCode,
        location: &str,
        credentials: &Arc<Credentials>,
        tenant: &Tenant,
    ) -> Result<Self, EgressError> {
        let mut target = self.target.join(location).map_err(|_| {
            EgressError::new(
                EgressErrorKind::Protocol,
                "the server redirects to a URL that cannot be requested",
            )
        })?;
        if self.target.scheme() == "https" && target.scheme() == "http" {
            // Data that was sent encrypted would be sent again in plain text.
            return Err(EgressError::denied());
        }
        for credential in &self.credentials {
            credential.detach(&mut target);
        }
        let leaves_origin = !target.same_origin(&self.target);
        self.target = target;
        if leaves_origin {
            headers::leave_origin(&mut self.headers);
            self.credentials.clear();
        }
        let becomes_get = match status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            headers::leave_body(&mut self.headers);
        }
        if leaves_origin && self.holds_any_of(credentials, tenant).await {
            return Err(EgressError::denied());
        }
        Ok(self)
    }

    /// Returns whether the URL, the headers or the body contain the value of a credential that a
    /// server or the guest has written there.
    async fn holds_any_of(&self, credentials: &Arc<Credentials>, tenant: &Tenant) -> bool {
        let in_head = credentials.occur_in(self.target.url().as_str().as_bytes())
            || self.headers.iter().any(|(name, value)| {
                credentials.occur_in(name.as_str().as_bytes())
                    || credentials.occur_in(value.as_bytes())
            });
        match &self.body {
            Some(body) if !in_head => credentials.occur_in_body(tenant, body.clone()).await,
            _ => in_head,
        }
    }
}

/// Returns whether a response with this status is a redirect.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use airlock_core::secret::Secret;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::Injection;

    const BOUNDS: Bounds = Bounds { request_bytes: 4, ..Bounds::PLUGIN };

    fn request(method: &str, url: &str) -> EgressRequest {
        EgressRequest { method: method.to_owned(), url: url.to_owned(), ..EgressRequest::default() }
    }

    fn refused(request: EgressRequest) -> String {
        let error =
            Hop::first(request, &BOUNDS, &Credentials::default()).err().expect("it is refused");
        assert!(!error.request_sent);
        format!("{:?}: {error}", error.kind)
    }

    #[test]
    fn an_invalid_request_is_refused_before_the_policy_decision() {
        insta::assert_snapshot!(refused(request("get", "https://x.com")), @"InvalidRequest: the method cannot be used; a method is written in capitals, such as GET");
        insta::assert_snapshot!(refused(request("GET /\r\nx: y", "https://x.com")), @"InvalidRequest: the method cannot be used; a method is written in capitals, such as GET");
        insta::assert_snapshot!(refused(request("CONNECT", "https://x.com")), @"InvalidRequest: the method cannot be used; a method is written in capitals, such as GET");
        insta::assert_snapshot!(refused(request("GET", "x.com")), @"InvalidRequest: the URL cannot be read: relative URL without a base");
        insta::assert_snapshot!(refused(request("GET", "https://x.com/a%2fb")), @"InvalidRequest: the URL's path holds an encoded slash");
        insta::assert_snapshot!(refused(with_body("GET", b"1")), @"InvalidRequest: a GET request has no body");
        insta::assert_snapshot!(refused(with_body("HEAD", b"1")), @"InvalidRequest: a HEAD request has no body");
        insta::assert_snapshot!(refused(with_body("POST", b"12345")), @"TooLarge: the request's body has more than 4 bytes");
        let unknown = EgressRequest {
            credentials: vec!["token".to_owned()],
            ..request("GET", "https://x.com")
        };
        insta::assert_snapshot!(refused(unknown), @"Denied: the request is not permitted");
        for fine in [
            with_body("GET", b""),
            with_body("POST", b"1234"),
            with_body("DELETE", b"1"),
            request("POST", "https://x.com"),
        ] {
            assert!(Hop::first(fine, &BOUNDS, &Credentials::default()).is_ok());
        }
    }

    fn with_body(method: &str, bytes: &'static [u8]) -> EgressRequest {
        EgressRequest { body: Some(Bytes::from_static(bytes)), ..request(method, "https://x.com") }
    }

    #[test]
    fn a_url_with_the_parameter_of_its_credential_is_refused() {
        let credential = Credential::new(
            "token",
            Secret::new("value"),
            Injection::query("key").unwrap(),
            Vec::new(),
        )
        .unwrap();
        let credentials = Credentials::new(vec![credential]).unwrap();
        for (url, fine) in [
            ("https://x.com/?a=key", true),
            ("https://x.com/?key=1", false),
            ("https://x.com/?a&k%65y", false),
        ] {
            assert_eq!(Hop::first(with_token(url), &BOUNDS, &credentials).is_ok(), fine, "{url}");
        }
    }

    fn with_token(url: &str) -> EgressRequest {
        EgressRequest { credentials: vec!["token".to_owned()], ..request("GET", url) }
    }

    /// Follows one redirect of a request with several headers, a credential and, for POST and PUT,
    /// a body. Returns the parts that the next request keeps.
    fn followed(method: &str, from: &str, status: u16, location: &str) -> String {
        let injection = Injection::header("x-key", "").unwrap();
        let token =
            Credential::new("token", Secret::new("s3cret-value"), injection, Vec::new()).unwrap();
        let credentials = Arc::new(Credentials::new(vec![token]).unwrap());
        let headers = ["authorization", "cookie", "content-type", "accept", "x-api-key"];
        let body = matches!(method, "POST" | "PUT").then(|| Bytes::from_static(b"body"));
        let request = EgressRequest {
            headers: headers.into_iter().map(|name| (name.to_owned(), b"x".to_vec())).collect(),
            body,
            credentials: vec!["token".to_owned()],
            ..request(method, from)
        };
        let hop = Hop::first(request, &Bounds::PLUGIN, &credentials).unwrap();
        match follow(hop, status, location, &credentials) {
            Ok(hop) => {
                let mut names: Vec<_> = hop.headers.keys().map(http::HeaderName::as_str).collect();
                names.sort_unstable();
                let body = if hop.body.is_some() { " +body" } else { "" };
                let credential = if hop.credentials.is_empty() { "" } else { " +credential" };
                format!("{} {} {}{body}{credential}", hop.method, hop.target.url(), names.join(","))
            }
            Err(error) => format!("{:?}", error.kind),
        }
    }

    /// Follows a redirect of a request whose body is short, so that it is searched here.
    fn follow<'a>(
        hop: Hop<'a>,
        status: u16,
        location: &str,
        credentials: &Arc<Credentials>,
    ) -> Result<Hop<'a>, EgressError> {
        let status = StatusCode::from_u16(status).unwrap();
        let following = hop.redirected(status, location, credentials, &Tenant::ANONYMOUS);
        following.now_or_never().expect("it waits for no thread")
    }

    #[test]
    fn a_body_ends_the_connection_unless_the_method_is_post_put_or_patch() {
        for (method, ends) in [
            ("POST", false),
            ("PUT", false),
            ("PATCH", false),
            ("DELETE", true),
            ("OPTIONS", true),
            ("REPORT", true),
        ] {
            let none = Credentials::default();
            let request = with_body(method, b"GET");
            assert_eq!(Hop::first(request, &BOUNDS, &none).unwrap().ends_connection(), ends);
            let request = with_body(method, b"");
            assert!(!Hop::first(request, &BOUNDS, &none).unwrap().ends_connection(), "{method}");
        }
    }

    #[test]
    fn redirects_change_methods_and_bodies_as_browsers_do() {
        for status in [301, 302] {
            assert_eq!(method_and_parts("POST", status), ("GET".to_owned(), false, false));
            assert_eq!(method_and_parts("PUT", status), ("PUT".to_owned(), true, true));
            assert_eq!(method_and_parts("HEAD", status), ("HEAD".to_owned(), false, true));
        }
        assert_eq!(method_and_parts("POST", 303), ("GET".to_owned(), false, false));
        assert_eq!(method_and_parts("PUT", 303), ("GET".to_owned(), false, false));
        assert_eq!(method_and_parts("HEAD", 303), ("HEAD".to_owned(), false, true));
        for status in [307, 308] {
            assert_eq!(method_and_parts("POST", status), ("POST".to_owned(), true, true));
            assert_eq!(method_and_parts("GET", status), ("GET".to_owned(), false, true));
        }
    }

    fn method_and_parts(method: &str, status: u16) -> (String, bool, bool) {
        let text = followed(method, "https://x.com/a", status, "/b");
        (
            text.split(' ').next().unwrap_or_default().to_owned(),
            text.contains("+body"),
            text.contains("content-type"),
        )
    }

    #[test]
    fn a_redirect_to_another_origin_drops_the_credential_and_headers_of_the_origin() {
        let at_home = "accept,authorization,content-type,cookie,x-api-key +credential";
        let abroad = "accept,content-type";
        for (location, url, kept) in [
            ("/b?c#d", "https://x.com/b?c", at_home),
            ("b", "https://x.com/a/b", at_home),
            ("?q", "https://x.com/a/?q", at_home),
            ("https://X.com:443/b", "https://x.com/b", at_home),
            ("//x.com./b", "https://x.com/b", at_home),
            ("//y.com/b", "https://y.com/b", abroad),
            ("https://x.com:444/b", "https://x.com:444/b", abroad),
            ("https://a.x.com/b", "https://a.x.com/b", abroad),
        ] {
            assert_eq!(
                followed("GET", "https://x.com/a/", 302, location),
                format!("GET {url} {kept}"),
                "{location}"
            );
        }
        assert_eq!(
            followed("GET", "http://x.com/", 302, "https://x.com/"),
            format!("GET https://x.com/ {abroad}")
        );
        assert_eq!(
            followed("GET", "http://x.com:8080/", 302, "//x.com:8081/"),
            format!("GET http://x.com:8081/ {abroad}")
        );
    }

    #[test]
    fn unsafe_or_invalid_redirects_are_refused() {
        for (location, kind) in [
            ("http://x.com/", "Denied"),
            ("http://x.com:443/", "Denied"),
            ("https://y.com/?leaked=s3cret-value", "Denied"),
            ("https://y.com/?leaked=s3cret%2dvalue", "Denied"),
            ("https://y.com/a/s3cret%2Dv%61lue", "Denied"),
            ("https://y.com/?back=https%3A%2F%2Fx.com%2F%3Fkey%3Ds3cret%252dvalue", "Denied"),
            ("https://S3cret-Value.y.com/", "Denied"),
            ("ftp://x.com/", "Protocol"),
            ("file:///etc/passwd", "Protocol"),
            ("https://me@x.com/", "Protocol"),
            ("https://x.com/a%2f..", "Protocol"),
            ("https://[", "Protocol"),
        ] {
            assert_eq!(followed("GET", "https://x.com/", 302, location), kind, "{location}");
        }
    }

    #[test]
    fn a_request_that_contains_a_credential_is_redirected_only_within_its_origin() {
        let token = Credential::new(
            "token",
            Secret::new("k 3+"),
            Injection::query("key").unwrap(),
            Vec::new(),
        )
        .unwrap();
        let credentials = Arc::new(Credentials::new(vec![token]).unwrap());
        let accept = ("accept", "x");
        let elsewhere = "https://y.com/";
        assert_eq!(redirected(&credentials, accept, "fine", 307, elsewhere), Ok(true));
        for body in ["<k 3+>", "key=k+3%2B", "key=k%203%2b", "key=%6B%203+"] {
            assert_eq!(
                redirected(&credentials, accept, body, 307, elsewhere),
                Err(EgressErrorKind::Denied),
                "{body}"
            );
            assert_eq!(redirected(&credentials, accept, body, 307, "/b"), Ok(true), "{body}");
            assert_eq!(
                redirected(&credentials, accept, body, 303, elsewhere),
                Ok(false),
                "{body} stays behind"
            );
            let location = format!("{elsewhere}?{body}");
            assert_eq!(
                redirected(&credentials, accept, "fine", 307, &location),
                Err(EgressErrorKind::Denied),
                "{location}"
            );
        }
        assert_eq!(
            redirected(&credentials, ("accept", "k 3+"), "fine", 307, elsewhere),
            Err(EgressErrorKind::Denied)
        );
        assert_eq!(
            redirected(&credentials, ("content-type", "k%203+"), "fine", 307, elsewhere),
            Err(EgressErrorKind::Denied)
        );
        assert_eq!(
            redirected(&credentials, ("accept-k%203+", "x"), "fine", 307, elsewhere),
            Err(EgressErrorKind::Denied)
        );
        assert_eq!(
            redirected(&credentials, ("x-key", "k 3+"), "fine", 307, elsewhere),
            Ok(true),
            "the header stays behind"
        );
    }

    fn redirected(
        credentials: &Arc<Credentials>,
        header: (&str, &str),
        body: &'static str,
        status: u16,
        location: &str,
    ) -> Result<bool, EgressErrorKind> {
        let request = EgressRequest {
            headers: vec![(header.0.to_owned(), header.1.as_bytes().to_vec())],
            body: Some(Bytes::from_static(body.as_bytes())),
            ..request("POST", "https://x.com/")
        };
        let hop = Hop::first(request, &Bounds::PLUGIN, credentials).unwrap();
        let hop = follow(hop, status, location, credentials);
        hop.map(|hop| hop.body.is_some()).map_err(|error| error.kind)
    }
}
