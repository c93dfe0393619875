//! The HTTP client of one server, without the credentials of a login: TLS, redirects, permitted addresses, and
//! the headers of the settings.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::{Body, Response, Url, redirect};

use super::{
    http_settings::{HttpSettings, InvalidSettings},
    reserved::is_reserved_header,
};
use airlock_core::secret::Secret;

/// Maximum consecutive HTTP redirects. A moved endpoint takes one or two; a loop would never end.
const MAX_REDIRECTS: usize = 3;

/// Error of a request to a server that has no response.
#[derive(Debug)]
pub struct BrokenExchange {
    /// Error of the HTTP client.
    pub error: reqwest::Error,
    /// True if the server had received the request, and the error is that of the request to the redirect target.
    pub was_redirected: bool,
}

/// Sends requests to one server. Its connections are not shared with other servers. Cheap to clone.
#[derive(Clone)]
pub struct ServerClient {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
}

impl ServerClient {
    /// Creates the client. Reads the files of TLS; sends nothing yet. Fails if the URL, a header or a certificate
    /// cannot be used.
    pub fn new(settings: &HttpSettings) -> Result<Self, InvalidSettings> {
        let url = Url::parse(&settings.url)
            .map_err(|error| invalid(format!("the URL cannot be used: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme();
            return Err(invalid(format!(
                "the URL must begin with http:// or https://, found {scheme}://"
            )));
        }
        let redirects = redirect::Policy::none();
        let (http, _) = settings.client(&url, redirects, settings.identity.as_ref())?;
        let headers = settings.headers.iter().map(|(name, value)| own_header(name, value));
        let headers = headers.collect::<Result<_, _>>()?;
        Ok(Self { http, url, headers })
    }

    /// Creates the client as [`Self::new`] does, and blocks no other work. The caller bounds the time: a file system
    /// may never respond.
    pub async fn open(settings: &HttpSettings) -> Result<Self, InvalidSettings> {
        settings.with_files(Self::new).await
    }

    /// Returns the URL of the settings.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request to `url`, which must be of the same origin as [`Self::url`]. `own` headers replace those of
    /// the settings that have the same name. An empty body sends no body. Follows redirects that keep the method (`/mcp` to
    /// `/mcp/` is common) and stay within the origin that the credentials are for; any other redirect is returned as the
    /// response. Fails if there is no response.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        own: HeaderMap,
        body: impl Into<Body>,
    ) -> Result<Response, BrokenExchange> {
        // `RequestBuilder::headers` replaces headers of the same name.
        let request = self.http.request(method, url.clone()).headers(self.headers.clone());
        let request = request.headers(own).body(body).build();
        let mut request =
            request.map_err(|error| BrokenExchange { error, was_redirected: false })?;
        let mut redirects = 0;
        loop {
            let repeatable = request.try_clone();
            let sent = self.http.execute(request).await;
            let response =
                sent.map_err(|error| BrokenExchange { error, was_redirected: redirects > 0 })?;
            let target = redirect_target(&response).filter(|_| redirects < MAX_REDIRECTS);
            let Some(target) = target else { return Ok(response) };
            let Some(mut redirected) = repeatable else { return Ok(response) };
            *redirected.url_mut() = target;
            request = redirected;
            redirects += 1;
        }
    }
}

/// Returns the URL that a redirect leads to; `None` if the response is none that is followed.
fn redirect_target(response: &Response) -> Option<Url> {
    let keeps_method = matches!(response.status().as_u16(), 307 | 308);
    let location = response.headers().get(header::LOCATION).filter(|_| keeps_method)?;
    let location = std::str::from_utf8(location.as_bytes()).ok()?;
    let target = response.url().join(location).ok()?;
    (target.origin() == response.url().origin()).then_some(target)
}

fn own_header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), InvalidSettings> {
    let parsed =
        HeaderName::try_from(name).map_err(|_| invalid(format!("{name:?} is no header name")))?;
    if is_reserved_header(&parsed) {
        return Err(invalid(format!("header {name:?} belongs to the protocol and cannot be set")));
    }
    let mut value = HeaderValue::try_from(value.expose()).map_err(|_| {
        invalid(format!("the value of header {name:?} has characters that a header cannot hold"))
    })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

fn invalid(reason: String) -> InvalidSettings {
    InvalidSettings(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_tls::Authorities;

    fn refused(url: &str, name: &str, value: &str) -> String {
        let mut settings = HttpSettings::new(url);
        settings.headers.insert(name.to_owned(), Secret::new(value));
        let Err(error) = ServerClient::new(&settings) else { panic!("{url} {name} was taken") };
        error.to_string()
    }

    #[test]
    fn settings_that_can_never_work_are_refused_without_their_secrets() {
        insta::assert_snapshot!(refused("localhost", "a", "b"), @"the URL cannot be used: relative URL without a base");
        insta::assert_snapshot!(refused("ftp://h/", "a", "b"), @"the URL must begin with http:// or https://, found ftp://");
        insta::assert_snapshot!(refused("http://h/", "a b", "c"), @r#""a b" is no header name"#);
        insta::assert_snapshot!(
            refused("http://h/", "Accept", "c"),
            @r#"header "Accept" belongs to the protocol and cannot be set"#
        );
        insta::assert_snapshot!(
            refused("http://h/", "x-key", "s3cret\n"),
            @r#"the value of header "x-key" has characters that a header cannot hold"#
        );
        insta::assert_snapshot!(
            refused("http://169.254.169.254/mcp", "a", "b"),
            @"the URL cannot be used: 169.254.169.254 has an address that no setting can permit: it is link-local or reserved"
        );
    }

    #[test]
    fn certificates_that_cannot_be_read_are_refused() {
        let mut settings = HttpSettings::new("https://h/");
        settings.authorities = Authorities::Pem("no certificate".to_owned());
        let Err(error) = ServerClient::new(&settings) else { panic!("it was taken") };
        insta::assert_snapshot!(error.to_string(), @"`tls_config.ca_cert_pem` cannot be used: the text has no certificate in PEM format");
    }
}
