//! The base URL of a service, and the addresses below it.

use http::Uri;
use url::Url;

use crate::BadProvider;

/// Parses the base URL of a service. Fails if it is not an HTTP URL, or has a user, a query or a
/// fragment.
pub(crate) fn base_url(provider: &str, text: &str) -> Result<Url, BadProvider> {
    let url = Url::parse(text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && is_plain(url)).ok_or_else(|| {
        BadProvider::BaseUrl { provider: provider.to_owned(), base_url: text.to_owned() }
    })
}

fn is_plain(url: &Url) -> bool {
    url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// Returns the URI of `path`, which may have a query, below a base URL.
pub(crate) fn below(base: &Url, path: &str) -> Uri {
    let mut url = base.clone();
    let (path, query) =
        path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    url.set_query(query);
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    // A URL of HTTP has only characters that a URI may have, and a host.
    url.as_str().parse().expect("an HTTP URL is a URI")
}

/// Returns a URI without its query.
pub(super) fn without_query(uri: &Uri) -> String {
    let uri = uri.to_string();
    uri.split('?').next().unwrap_or_default().to_owned()
}
