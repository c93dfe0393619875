//! `/admin`: the page for operators, whose files are embedded in the program.
//!
//! The files contain nothing of the gateway, so they need no credential. Neither does `login.json`, which says whether the
//! gateway has an identity provider: the login page offers it. All else that the page shows and does are requests to the
//! API, with the rights of its operator.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::{OperatorApi, operator_login};
use airlock_admin_page::{self as files, Asset};
use airlock_http::respond::{ApiError, Reply};
use airlock_ingress::Payload;

/// Path of the page, and the prefix of all its files.
const PATH: &str = "/admin";
/// Prefix of the paths of scripts and styles, after [`PATH`].
const ASSETS: &str = "/assets/";
/// Path of the methods of login, after [`PATH`].
const LOGIN_METHODS: &str = "/login.json";

/// Policy of all files: nothing from elsewhere, no inline script or style, no frame, and no HTML from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Returns the rest of a path after that of the page; `None` for other paths.
pub fn parse_path(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path of the first page.
fn first_page() -> HeaderValue {
    let path = format!("{PATH}/{}", files::FIRST_PAGE);
    HeaderValue::try_from(path).expect("the name is header text")
}

/// Returns a file. Fails if there is none, or if the gateway has no page.
pub fn show(api: &OperatorApi, rest: &str, headers: &HeaderMap) -> Result<Reply, ApiError> {
    let is_shown = api.hooks.management.is_some() && !api.settings.hides_page;
    let found = Some(rest).filter(|_| is_shown).and_then(PagePath::at);
    match found.ok_or_else(|| ApiError::no_such_path(&format!("{PATH}{rest}")))? {
        PagePath::Root => {
            let mut reply = reply(StatusCode::SEE_OTHER, Bytes::new(), "no-store");
            reply.headers_mut().insert(header::LOCATION, first_page());
            Ok(reply)
        }
        PagePath::LoginMethods => {
            let methods = json!({"identity_provider": operator_login::is_configured(api)});
            let mut reply = reply(StatusCode::OK, methods.to_string().into(), "no-store");
            let content_type = HeaderValue::from_static("application/json");
            reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
            Ok(reply)
        }
        PagePath::Page(page) => Ok(file(StatusCode::OK, page, "no-store")),
        PagePath::Asset(asset) => {
            let etag = asset.etag.as_bytes();
            let mut known = headers.get_all(header::IF_NONE_MATCH).iter();
            let is_known = known.any(|known| lists(known.as_bytes(), etag));
            let status = if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
            let mut reply = file(status, asset, "no-cache");
            reply.headers_mut().insert(header::ETAG, etag_of(asset));
            Ok(reply)
        }
    }
}

fn etag_of(asset: &Asset) -> HeaderValue {
    HeaderValue::try_from(&asset.etag).expect("hexadecimal digits in quotes")
}

/// The content of a path.
enum PagePath {
    /// The path without a page, which leads to the first one.
    Root,
    /// The methods of login, as JSON.
    LoginMethods,
    Page(&'static Asset),
    Asset(&'static Asset),
}

impl PagePath {
    fn at(rest: &str) -> Option<Self> {
        if matches!(rest, "" | "/") {
            return Some(Self::Root);
        }
        if rest == LOGIN_METHODS {
            return Some(Self::LoginMethods);
        }
        match rest.strip_prefix(ASSETS) {
            Some(path) => files::asset(path).map(Self::Asset),
            None => files::page(rest.strip_prefix('/')?).map(Self::Page),
        }
    }
}

/// Returns whether a value of `If-None-Match` has a tag.
fn lists(known: &[u8], etag: &[u8]) -> bool {
    let mut tags = known.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tags.any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag)
}

/// Returns a file as a response; without its content if that has not changed.
fn file(status: StatusCode, file: &'static Asset, caching: &'static str) -> Reply {
    let is_new = status == StatusCode::OK;
    let bytes = if is_new { Bytes::from_static(&file.bytes) } else { Bytes::new() };
    let mut reply = reply(status, bytes, caching);
    let content_type = HeaderValue::from_static(file.content_type);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    reply
}

fn reply(status: StatusCode, bytes: Bytes, caching: &'static str) -> Reply {
    let mut reply = Response::new(Payload::Whole(bytes));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_embedded_files_have_paths() {
        assert!(matches!(PagePath::at(""), Some(PagePath::Root)));
        assert!(matches!(PagePath::at("/"), Some(PagePath::Root)));
        assert!(matches!(PagePath::at("/login.json"), Some(PagePath::LoginMethods)));
        assert!(matches!(PagePath::at("/assets/vendor/preact.mjs"), Some(PagePath::Asset(_))));
        for rest in ["/assets/", "/assets/../lib.rs", "/vendor/preact.mjs", "/nothing", "/a/b"] {
            assert!(PagePath::at(rest).is_none(), "{rest}");
        }
        for (path, rest) in [
            ("/admin", Some("")),
            ("/admin/x", Some("/x")),
            ("/administrator", None),
            ("/api/admin", None),
        ] {
            assert_eq!(parse_path(path), rest, "{path}");
        }
    }

    #[test]
    fn a_tag_is_found_in_a_list_and_in_its_weak_form() {
        for (known, is_listed) in [
            ("\"a\"", true),
            ("\"b\", \"a\"", true),
            ("W/\"a\"", true),
            ("*", true),
            ("\"ab\"", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(lists(known.as_bytes(), b"\"a\""), is_listed, "{known}");
        }
    }
}
