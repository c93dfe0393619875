//! MCP servers that are reached over HTTP: `connection_string`, `headers`,
//! `allowed_extra_headers`, `tls_config`, `allow_private`, `auth_type`, `oauth_config`.

use std::collections::BTreeSet;

use http::{HeaderName, Uri, uri::Scheme};

use super::{
    super::file::{self, AuthType, OAuthConfig, TlsConfig},
    Field, upstream,
};
use airlock_mcp_client::{Authorities, ExtraHeaders, HttpSettings, Oauth, is_reserved_header};

/// Maximum scopes of one client.
const MAX_SCOPES: usize = 100;

/// Resolves the settings of a server.
pub(super) fn resolve(field: &Field<'_>, client: file::Client) -> Option<HttpSettings> {
    let headers = upstream::headers(
        &field.member("headers"),
        client.headers.unwrap_or_default(),
        &upstream::RESERVED,
    );
    let extra_headers =
        extra_headers(&field.member("allowed_extra_headers"), &client.allowed_extra_headers);
    let authorities = client
        .tls_config
        .map(|tls| authorities(&field.member("tls_config"), tls))
        .unwrap_or_default();
    let oauth = oauth(field, client.auth_type, client.oauth_config);
    if oauth.is_some() {
        refuse_other_tokens(field, headers.contains_key("authorization"), &extra_headers);
    }
    let field = field.member("connection_string");
    let url = upstream::url(&field, field.required(client.connection_string)?)?;
    Some(HttpSettings {
        url,
        headers,
        extra_headers,
        authorities,
        allow_private: client.allow_private,
        oauth,
    })
}

/// Resolves the authorization with OAuth; `None` for a client without it.
fn oauth(field: &Field<'_>, auth_type: AuthType, config: Option<OAuthConfig>) -> Option<Oauth> {
    let field = field.member("oauth_config");
    if !matches!(auth_type, AuthType::Oauth) {
        if config.is_some() {
            field.refuse("belongs to a client whose `auth_type` is \"oauth\"");
        }
        return None;
    }
    let Some(config) = config else { return Some(Oauth::default()) };
    let is_written = [config.authorize_url.is_some(), config.token_url.is_some()];
    let oauth = Oauth {
        client_id: config
            .client_id
            .and_then(|id| Some(field.member("client_id").text(id)?.expose().to_owned())),
        client_secret: config
            .client_secret
            .and_then(|secret| field.member("client_secret").text(secret)),
        client_metadata_url: checked_url(
            &field.member("client_metadata_url"),
            config.client_metadata_url,
        ),
        issuer: checked_url(&field.member("issuer"), config.issuer),
        authorize_url: checked_url(&field.member("authorize_url"), config.authorize_url),
        token_url: checked_url(&field.member("token_url"), config.token_url),
        registration_url: checked_url(&field.member("registration_url"), config.registration_url),
        scopes: scopes(&field.member("scopes"), config.scopes),
    };
    if oauth.client_secret.is_some() && oauth.client_id.is_none() {
        field.member("client_secret").refuse("needs a `client_id` beside it");
    }
    check_binding(&field, &oauth, is_written);
    let document = oauth.client_metadata_url.as_ref().and_then(|url| url.parse::<Uri>().ok());
    if document.is_some_and(|url| url.scheme() != Some(&Scheme::HTTPS) || url.path() == "/") {
        field.member("client_metadata_url").refuse(
            "must begin with https:// and have a path, because it is the client's identifier",
        );
    }
    Some(oauth)
}

fn checked_url(field: &Field<'_>, url: Option<String>) -> Option<String> {
    url.filter(|url| check_url(field, url))
}

/// Checks that the endpoints of the settings are of one authorization server, and that a secret is
/// bound to one: the MCP server chooses it otherwise. `is_written` tells whether the URL of the
/// authorization endpoint and that of the token endpoint are.
fn check_binding(field: &Field<'_>, oauth: &Oauth, is_written: [bool; 2]) {
    match is_written {
        [true, false] => field.member("authorize_url").refuse("needs a `token_url` beside it"),
        [false, true] => field.member("token_url").refuse("needs an `authorize_url` beside it"),
        [false, false] if oauth.client_secret.is_some() && oauth.issuer.is_none() => {
            field.member("client_secret").refuse(
                "needs the `issuer` to which it may be sent, or both `authorize_url` and `token_url`",
            );
        }
        _ => {}
    }
}

fn check_url(field: &Field<'_>, url: &str) -> bool {
    let parsed = url.parse::<Uri>().ok();
    let is_http = parsed.is_some_and(|url| {
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        is_http && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    });
    if !is_http {
        field.refuse("expected a URL that starts with https:// or http://, without a user name");
    }
    is_http
}

fn scopes(field: &Field<'_>, scopes: Vec<String>) -> Vec<String> {
    for (index, _) in scopes.iter().enumerate().filter(|(_, scope)| !is_scope(scope)) {
        field
            .element(index)
            .refuse("is no scope: use up to 256 printable characters without spaces");
    }
    if scopes.len() > MAX_SCOPES {
        field.refuse(format_args!("has more than {MAX_SCOPES} entries"));
    }
    scopes
}

/// Returns whether a text is a scope (RFC 6749, section 3.3).
fn is_scope(scope: &str) -> bool {
    (1..=256).contains(&scope.len())
        && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Refuses other sources of the header that has the access token.
fn refuse_other_tokens(field: &Field<'_>, is_in_headers: bool, extra: &ExtraHeaders) {
    let is_passed_on =
        matches!(extra, ExtraHeaders::Named(names) if names.contains("authorization"));
    for (name, is_given) in [("headers", is_in_headers), ("allowed_extra_headers", is_passed_on)] {
        if is_given {
            field.member(name).refuse(
                "has `authorization`, which the access token of `auth_type` \"oauth\" replaces",
            );
        }
    }
}

/// Resolves the headers of callers that are passed on.
fn extra_headers(field: &Field<'_>, names: &[String]) -> ExtraHeaders {
    if names == ["*"] {
        return ExtraHeaders::All;
    }
    let mut checked = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let field = field.element(index);
        match HeaderName::try_from(name.as_str()) {
            _ if name == "*" => {
                field.refuse("\"*\" stands for every header and must be the only entry");
            }
            Err(_) => field.refuse("is not a valid header name"),
            Ok(name) if is_reserved_header(&name) => field.refuse("is set by the transport itself"),
            Ok(name) => {
                if !checked.insert(name.as_str().to_owned()) {
                    field.refuse("is listed twice (case does not count)");
                }
            }
        }
    }
    if checked.is_empty() { ExtraHeaders::None } else { ExtraHeaders::Named(checked) }
}

fn authorities(field: &Field<'_>, tls: TlsConfig) -> Authorities {
    match (tls.ca_cert_pem, tls.ca_file) {
        (Some(_), Some(_)) => {
            field.refuse("has both `ca_cert_pem` and `ca_file`; choose one");
            Authorities::System
        }
        (Some(pem), None) => {
            let pem = field.member("ca_cert_pem").text(pem);
            pem.map(|pem| Authorities::Pem(pem.expose().to_owned())).unwrap_or_default()
        }
        (None, Some(path)) => Authorities::File(field.member("ca_file").path(&path)),
        (None, None) => Authorities::System,
    }
}
