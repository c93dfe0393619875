//! The HTTP client of one server, without the credentials of a login: TLS, redirects, permitted addresses, and
//! the headers of the settings.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{RequestBuilder, Url, redirect};

use super::{
    http_settings::{HttpSettings, InvalidSettings},
    reserved::is_reserved_header,
};
use airlock_core::secret::Secret;

/// Maximum consecutive HTTP redirects. A moved endpoint takes one or two; a loop would never end.
const MAX_REDIRECTS: usize = 3;

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
        let redirects = redirect::Policy::custom(same_origin);
        let (http, _) = settings.client(&url, redirects, settings.identity.as_ref())?;
        let headers = settings.headers.iter().map(|(name, value)| header(name, value));
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

    /// Begins a request to `url`, which must be of the same origin as [`Self::url`]. `own` headers replace those of
    /// the settings that have the same name.
    pub fn request(&self, method: Method, url: &Url, own: HeaderMap) -> RequestBuilder {
        // `RequestBuilder::headers` replaces headers of the same name.
        self.http.request(method, url.clone()).headers(self.headers.clone()).headers(own)
    }
}

/// Follows a redirect that keeps the method (`/mcp` to `/mcp/` is common) and stays within the
/// origin that the credentials are for. Any other redirect is returned as the response.
fn same_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first();
    let stays = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_method && stays && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), InvalidSettings> {
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
