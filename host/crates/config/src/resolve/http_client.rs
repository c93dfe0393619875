//! MCP servers that are reached over HTTP: `connection_string`, `headers`,
//! `allowed_extra_headers`, `tls_config`, `allow_private`, `auth_type`, `oauth_config`.

use std::{collections::BTreeSet, path::PathBuf};

use http::{HeaderName, Uri, uri::Scheme};

use super::{
    endpoint,
    file_env::FileEnv,
    resolved::{Problems, Resolved},
};
use crate::{
    env_text::EnvText,
    file::{self, AuthType, OAuthConfig, TlsConfig},
    key_path::KeyPath,
};
use airlock_mcp_client::{Authorities, ExtraHeaders, HttpSettings, Oauth, is_reserved_header};
use airlock_tls::IdentitySource;

/// Maximum scopes of one client.
const MAX_SCOPES: usize = 100;

/// Resolves the keys of a client that are about HTTP.
pub(super) fn resolve(client: file::Client, env: FileEnv<'_>) -> Resolved<Option<HttpSettings>> {
    Resolved::new(|problems| {
        let headers = client.headers.unwrap_or_default();
        let headers = endpoint::headers(headers, is_reserved_header, env);
        let headers = problems.take("headers", headers);
        let extra_headers = extra_headers(&client.allowed_extra_headers);
        let extra_headers = problems.take("allowed_extra_headers", extra_headers);
        let tls = client.tls_config.map(|tls| problems.take("tls_config", self::tls(tls, env)));
        let (authorities, identity) = tls.unwrap_or_default();
        let is_per_user = matches!(client.auth_type, AuthType::PerUserOauth);
        let oauth = match (client.auth_type, client.oauth_config) {
            (AuthType::Oauth | AuthType::PerUserOauth, None) => Some(Oauth::default()),
            (AuthType::Oauth | AuthType::PerUserOauth, Some(config)) => {
                Some(problems.take("oauth_config", oauth(config, env)))
            }
            (_, None) => None,
            (_, Some(_)) => {
                let message =
                    "belongs to a client whose `auth_type` is \"oauth\" or \"per_user_oauth\"";
                problems.refuse("oauth_config", message);
                None
            }
        };
        if oauth.is_some() {
            refuse_other_tokens(problems, headers.contains_key("authorization"), &extra_headers);
        }
        let url = problems.required("connection_string", client.connection_string)?;
        let url = problems.accept("connection_string", endpoint::url(url, env))?;
        if super::tls::is_without_tls(identity.as_ref(), &url) {
            let key = KeyPath::parse("tls_config.client_certificate");
            problems.refuse(key, super::tls::NEEDS_HTTPS);
        }
        Some(HttpSettings {
            url,
            headers,
            extra_headers,
            authorities,
            identity,
            allow_private: client.allow_private,
            oauth,
            is_per_user,
        })
    })
}

/// Resolves `oauth_config`.
fn oauth(config: OAuthConfig, env: FileEnv<'_>) -> Resolved<Oauth> {
    Resolved::new(|problems| {
        let is_written = [config.authorize_url.is_some(), config.token_url.is_some()];
        let client_id = config.client_id.and_then(|id| {
            let id = problems.accept("client_id", env.text(id))?;
            Some(id.expose().to_owned())
        });
        let client_secret = config
            .client_secret
            .and_then(|secret| problems.accept("client_secret", env.text(secret)));
        let mut url = |key, url: Option<String>| problems.accept(key, plain_url(url?));
        let oauth = Oauth {
            client_id,
            client_secret,
            client_metadata_url: url("client_metadata_url", config.client_metadata_url),
            issuer: url("issuer", config.issuer),
            authorize_url: url("authorize_url", config.authorize_url),
            token_url: url("token_url", config.token_url),
            registration_url: url("registration_url", config.registration_url),
            scopes: problems.take("scopes", scopes(config.scopes)),
        };
        if oauth.client_secret.is_some() && oauth.client_id.is_none() {
            problems.refuse("client_secret", "needs a `client_id` beside it");
        }
        check_binding(problems, &oauth, is_written);
        let document = oauth.client_metadata_url.as_ref().and_then(|url| url.parse::<Uri>().ok());
        if document.is_some_and(|url| url.scheme() != Some(&Scheme::HTTPS) || url.path() == "/") {
            problems.refuse(
                "client_metadata_url",
                "must begin with https:// and have a path, because it is the client's identifier",
            );
        }
        oauth
    })
}

/// Checks that the endpoints of the settings are of one authorization server, and that a secret is
/// bound to one: the MCP server chooses it otherwise. `is_written` tells whether the URL of the
/// authorization endpoint and that of the token endpoint are.
fn check_binding(problems: &mut Problems, oauth: &Oauth, is_written: [bool; 2]) {
    match is_written {
        [true, false] => problems.refuse("authorize_url", "needs a `token_url` beside it"),
        [false, true] => problems.refuse("token_url", "needs an `authorize_url` beside it"),
        [false, false] if oauth.client_secret.is_some() && oauth.issuer.is_none() => {
            problems.refuse(
                "client_secret",
                "needs the `issuer` to which it may be sent, or both `authorize_url` and `token_url`",
            );
        }
        _ => {}
    }
}

/// Returns a URL of an authorization server.
fn plain_url(url: String) -> Result<String, &'static str> {
    let parsed = url.parse::<Uri>().ok();
    let is_plain = parsed.is_some_and(|url| {
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        is_http && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    });
    is_plain
        .then_some(url)
        .ok_or("expected a URL that starts with https:// or http://, without a user name")
}

fn scopes(scopes: Vec<String>) -> Resolved<Vec<String>> {
    let count = scopes.len();
    Resolved::new(|problems| {
        let scopes = Resolved::elements(scopes, |problems, scope| {
            if !is_scope(&scope) {
                problems
                    .refuse_whole("is no scope: use up to 256 printable characters without spaces");
            }
            Some(scope)
        });
        let scopes = problems.merge(scopes);
        if count > MAX_SCOPES {
            problems.refuse_whole(format_args!("has more than {MAX_SCOPES} entries"));
        }
        scopes
    })
}

/// Returns whether a text is a scope (RFC 6749, section 3.3).
fn is_scope(scope: &str) -> bool {
    (1..=256).contains(&scope.len())
        && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Refuses other sources of the header that has the access token.
fn refuse_other_tokens(problems: &mut Problems, is_in_headers: bool, extra: &ExtraHeaders) {
    let is_passed_on =
        matches!(extra, ExtraHeaders::Named(names) if names.contains("authorization"));
    for (name, is_given) in [("headers", is_in_headers), ("allowed_extra_headers", is_passed_on)] {
        if is_given {
            problems.refuse(
                name,
                "has `authorization`, which the access token of the `auth_type` replaces",
            );
        }
    }
}

/// Resolves the headers of callers that are passed on.
fn extra_headers(names: &[String]) -> Resolved<ExtraHeaders> {
    if names == ["*"] {
        return Resolved::new(|_| ExtraHeaders::All);
    }
    let mut seen = BTreeSet::new();
    let names = Resolved::elements(names, |problems, name| {
        let name = problems.accept_whole(extra_header(name))?;
        if !seen.insert(name.clone()) {
            problems.refuse_whole("is listed twice (case does not count)");
        }
        Some(name)
    });
    names.map(|names| {
        let names = BTreeSet::from_iter(names);
        if names.is_empty() { ExtraHeaders::None } else { ExtraHeaders::Named(names) }
    })
}

fn extra_header(name: &str) -> Result<String, &'static str> {
    if name == "*" {
        return Err("\"*\" stands for every header and must be the only entry");
    }
    let header = HeaderName::try_from(name).map_err(|_| "is not a valid header name")?;
    if is_reserved_header(&header) {
        return Err("is set by the transport itself");
    }
    Ok(header.as_str().to_owned())
}

/// Resolves `tls_config`: the authorities of the server, and the gateway's certificate for it.
fn tls(tls: TlsConfig, env: FileEnv<'_>) -> Resolved<(Authorities, Option<IdentitySource>)> {
    let TlsConfig { ca_cert_pem, ca_file, client_certificate, client_key } = tls;
    Resolved::new(|problems| {
        let identity = super::tls::identity(client_certificate, client_key, env);
        let identity = problems.merge(identity);
        (problems.merge(authorities(ca_cert_pem, ca_file, env)), identity)
    })
}

fn authorities(
    pem: Option<EnvText>,
    file: Option<PathBuf>,
    env: FileEnv<'_>,
) -> Resolved<Authorities> {
    Resolved::new(|problems| match (pem, file) {
        (Some(_), Some(_)) => {
            problems.refuse_whole("has both `ca_cert_pem` and `ca_file`; choose one");
            Authorities::System
        }
        (Some(pem), None) => {
            let pem = problems.accept("ca_cert_pem", env.text(pem));
            pem.map(|pem| Authorities::Pem(pem.expose().to_owned())).unwrap_or_default()
        }
        (None, Some(path)) => {
            Authorities::File(problems.take("ca_file", super::tls::path(&path, env)))
        }
        (None, None) => Authorities::System,
    })
}
