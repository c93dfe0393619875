//! MCP servers that are reached over HTTP: `connection_string`, `connection_strings`, `headers`,
//! `allowed_extra_headers`, `tls_config`, `allow_private`, `auth_type`, `oauth_config`,
//! `per_user_header_keys`, `token_exchange`.

use std::{collections::BTreeSet, path::PathBuf};

use http::{HeaderName, Uri, uri::Scheme};

use super::{
    endpoint,
    file_env::FileEnv,
    resolved::{Problems, Resolved},
};
use airlock_config_file::{
    env_text::EnvText,
    file::{self, AuthType, OAuthConfig, SubjectTokenKind, TlsConfig, TokenExchangeConfig},
    key_path::KeyPath,
};
use airlock_mcp_oauth::{
    ExtraHeaders, HttpSettings, MAX_SCOPES_BYTES, MAX_USER_HEADERS, Oauth, SubjectTokenType,
    TokenExchange, UserCredentials, is_reserved_header,
};
use airlock_tls::{Authorities, IdentitySource};

/// Maximum scopes of one client: caps both keys `scopes`. Each list is one parameter of a request, of
/// [`MAX_SCOPES_BYTES`].
const MAX_SCOPES: usize = 100;

/// Maximum URLs of one client: caps `connection_strings`. The gateway keeps a connection to each.
const MAX_URLS: usize = 16;

/// Resolves the keys of a client that are about HTTP: the settings of each of its servers, at least one.
pub(super) fn resolve(
    client: file::Client,
    env: FileEnv<'_>,
) -> Resolved<Option<Vec<HttpSettings>>> {
    Resolved::new(|problems| {
        let headers = client.headers.unwrap_or_default();
        let headers = endpoint::headers(headers, is_reserved_header, env);
        let headers = problems.take("headers", headers);
        let extra_headers = extra_headers(&client.allowed_extra_headers);
        let extra_headers = problems.take("allowed_extra_headers", extra_headers);
        let tls = client.tls_config.map(|tls| problems.take("tls_config", self::tls(tls, env)));
        let (authorities, identity) = tls.unwrap_or_default();
        let url_key = match client.connection_strings {
            Some(_) => "connection_strings",
            None => "connection_string",
        };
        let oauth = oauth_of(problems, client.auth_type, client.oauth_config, env);
        let header_keys = client.per_user_header_keys;
        let exchange = client.token_exchange;
        let users = users(problems, client.auth_type, header_keys, exchange, env);
        if oauth.is_some() {
            refuse_other_tokens(problems, headers.contains_key("authorization"), &extra_headers);
        }
        refuse_headers_of_callers(problems, users.as_ref(), &extra_headers);
        let urls = urls(problems, client.connection_string, client.connection_strings, env)?;
        if urls.len() > 1 && (oauth.is_some() || users.is_some()) {
            problems.refuse("connection_strings", "has several URLs, and a credential is for one server: with the `auth_type` \"oauth\", \"per_user_oauth\", \"per_user_headers\" or \"token_exchange\", use `connection_string`, and another client for each further server");
        }
        if urls.iter().any(|url| super::tls::is_without_tls(identity.as_ref(), url)) {
            let key = KeyPath::parse("tls_config.client_certificate");
            problems.refuse(key, super::tls::NEEDS_HTTPS);
        }
        let settings = HttpSettings {
            url: String::new(),
            headers,
            extra_headers,
            authorities,
            identity,
            allow_private: client.allow_private,
            oauth,
            users,
        };
        let servers = urls.into_iter().map(|url| HttpSettings { url, ..settings.clone() });
        let servers: Vec<_> = servers.collect();
        if let Some(Err(error)) = servers.first().map(HttpSettings::check_users) {
            problems.refuse(url_key, error);
        }
        Some(servers)
    })
}

/// Returns the URLs of a client, at least one, without duplicates.
fn urls(
    problems: &mut Problems,
    one: Option<EnvText>,
    several: Option<Vec<EnvText>>,
    env: FileEnv<'_>,
) -> Option<Vec<String>> {
    let several = match (one, several) {
        (Some(_), Some(_)) => {
            let message = "is beside `connection_string`; exactly one of both is needed";
            problems.refuse("connection_strings", message);
            return None;
        }
        (one, None) => {
            let url = problems.required("connection_string", one)?;
            return Some(vec![problems.accept("connection_string", endpoint::url(url, env))?]);
        }
        (None, Some(several)) => several,
    };
    let count = several.len();
    if !(1..=MAX_URLS).contains(&count) {
        problems.refuse(
            "connection_strings",
            format_args!("has {count} URLs; expected 1 to {MAX_URLS}"),
        );
        return None;
    }
    let mut seen = BTreeSet::new();
    let urls = Resolved::elements(several, |problems, url| {
        let url = problems.accept_whole(endpoint::url(url, env))?;
        if !seen.insert(url.clone()) {
            problems.refuse_whole("is the URL of an earlier entry; name each server once");
        }
        Some(url)
    });
    let urls = problems.take("connection_strings", urls);
    (urls.len() == count).then_some(urls)
}

/// Resolves `oauth_config`, as far as it belongs to the `auth_type`.
fn oauth_of(
    problems: &mut Problems,
    auth_type: AuthType,
    config: Option<OAuthConfig>,
    env: FileEnv<'_>,
) -> Option<Oauth> {
    match (auth_type, config) {
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
    }
}

/// Resolves the credentials of users: `per_user_header_keys` and `token_exchange`, as far as they belong to
/// the `auth_type`.
fn users(
    problems: &mut Problems,
    auth_type: AuthType,
    header_keys: Vec<String>,
    exchange: Option<TokenExchangeConfig>,
    env: FileEnv<'_>,
) -> Option<UserCredentials> {
    let has_headers = matches!(auth_type, AuthType::PerUserHeaders);
    let exchanges = matches!(auth_type, AuthType::TokenExchange);
    if !has_headers && !header_keys.is_empty() {
        let message = "belongs to a client whose `auth_type` is \"per_user_headers\"";
        problems.refuse("per_user_header_keys", message);
    }
    if !exchanges && exchange.is_some() {
        let message = "belongs to a client whose `auth_type` is \"token_exchange\"";
        problems.refuse("token_exchange", message);
    }
    match auth_type {
        AuthType::None | AuthType::Headers | AuthType::Oauth => None,
        AuthType::PerUserOauth => Some(UserCredentials::Login),
        AuthType::PerUserHeaders => {
            let names = problems.take("per_user_header_keys", user_headers(header_keys));
            Some(UserCredentials::Headers(names))
        }
        AuthType::TokenExchange => {
            let exchange = problems.required("token_exchange", exchange)?;
            let exchange = problems.take("token_exchange", token_exchange(exchange, env))?;
            Some(UserCredentials::Exchange(exchange))
        }
    }
}

/// Resolves the names of headers whose values users enter.
fn user_headers(names: Vec<String>) -> Resolved<Vec<HeaderName>> {
    let count = names.len();
    let mut seen = BTreeSet::new();
    Resolved::new(|problems| {
        let names = Resolved::elements(names, |problems, name| {
            let name = problems.accept_whole(header_name(&name))?;
            if !seen.insert(name.to_string()) {
                problems.refuse_whole("is listed twice (case does not count)");
            }
            Some(name)
        });
        let names = problems.merge(names);
        if count == 0 {
            problems.refuse_whole(
                "is required with the `auth_type` \"per_user_headers\": name the headers whose values each user enters",
            );
        }
        if count > MAX_USER_HEADERS {
            problems.refuse_whole(format_args!("has more than {MAX_USER_HEADERS} entries"));
        }
        names
    })
}

/// Resolves `token_exchange`; `None` if a part that it needs is missing.
fn token_exchange(
    config: TokenExchangeConfig,
    env: FileEnv<'_>,
) -> Resolved<Option<TokenExchange>> {
    Resolved::new(|problems| {
        let client_secret = config
            .client_secret
            .and_then(|secret| problems.accept("client_secret", env.text(secret)));
        if config.audience.is_none() && config.resource.is_none() {
            problems.refuse(
                "audience",
                "is required, or `resource`: without either, the token might be for another server",
            );
        }
        let audience = config.audience;
        if audience.as_ref().is_some_and(|audience| !is_name(audience)) {
            problems.refuse("audience", "expected 1 to 1024 characters without spaces");
        }
        let resource = config.resource.and_then(|url| problems.accept("resource", plain_url(url)));
        let scopes = problems.take("scopes", scopes(config.scopes));
        let token_url = problems.required("token_url", config.token_url);
        let token_url = token_url.and_then(|url| problems.accept("token_url", plain_url(url)));
        let client_id = problems.required("client_id", config.client_id);
        let client_id = client_id.and_then(|id| problems.accept("client_id", env.text(id)));
        Some(TokenExchange {
            token_url: token_url?,
            client_id: client_id?.expose().to_owned(),
            client_secret,
            audience,
            resource,
            scopes,
            subject_token_type: match config.subject_token_type {
                SubjectTokenKind::AccessToken => SubjectTokenType::AccessToken,
                SubjectTokenKind::Jwt => SubjectTokenType::Jwt,
            },
        })
    })
}

fn is_name(text: &str) -> bool {
    (1..=1024).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Refuses headers of callers that are passed on in the place of credentials of users.
fn refuse_headers_of_callers(
    problems: &mut Problems,
    users: Option<&UserCredentials>,
    extra: &ExtraHeaders,
) {
    let ExtraHeaders::Named(passed_on) = extra else { return };
    let replaced = match users {
        Some(UserCredentials::Headers(names)) => {
            names.iter().map(HeaderName::as_str).find(|name| passed_on.contains(*name))
        }
        Some(UserCredentials::Exchange(_)) => {
            Some("authorization").filter(|name| passed_on.contains(*name))
        }
        Some(UserCredentials::Login) | None => None,
    };
    if let Some(name) = replaced {
        problems.refuse(
            "allowed_extra_headers",
            format_args!("has `{name}`, which the credentials of the `auth_type` replace"),
        );
    }
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
        let oauth = Oauth {
            client_id,
            client_secret,
            client_metadata_url: endpoint(
                problems,
                "client_metadata_url",
                config.client_metadata_url,
            ),
            issuer: endpoint(problems, "issuer", config.issuer),
            authorize_url: endpoint(problems, "authorize_url", config.authorize_url),
            token_url: endpoint(problems, "token_url", config.token_url),
            registration_url: endpoint(problems, "registration_url", config.registration_url),
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

/// Returns the URL at a key, or notes the error and returns `None`.
fn endpoint(problems: &mut Problems, key: &'static str, url: Option<String>) -> Option<String> {
    problems.accept(key, plain_url(url?))
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
    let bytes = scopes.iter().map(|scope| scope.len() + 1).sum::<usize>();
    Resolved::new(|problems| {
        let scopes = Resolved::elements(scopes, |problems, scope| {
            if !is_scope(&scope) {
                problems.refuse_whole(
                    "is not a valid scope: use up to 256 printable characters without spaces",
                );
            }
            Some(scope)
        });
        let scopes = problems.merge(scopes);
        if count > MAX_SCOPES {
            problems.refuse_whole(format_args!("has more than {MAX_SCOPES} entries"));
        }
        if bytes > MAX_SCOPES_BYTES {
            problems.refuse_whole(format_args!(
                "takes {bytes} bytes with a space after each scope; expected at most {MAX_SCOPES_BYTES}"
            ));
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
    Ok(header_name(name)?.as_str().to_owned())
}

fn header_name(name: &str) -> Result<HeaderName, &'static str> {
    let header = HeaderName::try_from(name).map_err(|_| "is not a valid header name")?;
    if is_reserved_header(&header) {
        return Err("is set by the transport itself");
    }
    Ok(header)
}

/// Resolves `tls_config`: the authorities of the server, and the gateway's certificate for it.
pub(super) fn tls(
    tls: TlsConfig,
    env: FileEnv<'_>,
) -> Resolved<(Authorities, Option<IdentitySource>)> {
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
