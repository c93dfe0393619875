//! Connections to a provider: the gateway's own keys, or Bifrost's `network_config` and
//! `proxy_config`.

use std::collections::BTreeMap;

use http::HeaderName;
use url::Url;

use crate::resolve::{
    endpoint,
    file_env::FileEnv,
    resolved::{Problems, Resolved},
};
use airlock_config_file::{
    env_text::EnvText,
    file::{self, Amount, ProxyKind, Ranged},
    key_path::KeyPath,
    refused::InvalidValue,
};
use airlock_core::{limit::saturating_u32, secret::Secret, units::Span};
use airlock_model::{Api, Hosting, Key, Retries, Timeouts, own_headers};

/// Headers that the client itself sets.
const RESERVED: [&str; 6] =
    ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// Returns the headers of every request: `own`, and `extra` of `network_config`. The header of the
/// keys can be among them only if there are no keys.
pub(super) fn headers(
    own: Option<BTreeMap<String, EnvText>>,
    extra: Option<BTreeMap<String, EnvText>>,
    (api, hosting): (Api, &Hosting),
    keys: &[Key],
    env: FileEnv<'_>,
) -> Resolved<BTreeMap<String, Secret>> {
    let has_key = keys.iter().any(|key| key.value.is_some() || key.cloud.is_some());
    let of_api = own_headers(hosting, api, has_key);
    let extra_key = KeyPath::parse("network_config.extra_headers");
    Resolved::new(|problems| {
        let own =
            endpoint::headers(own.unwrap_or_default(), |name| is_reserved(name, &of_api), env);
        let mut headers = problems.take("headers", own);
        let extra =
            endpoint::headers(extra.unwrap_or_default(), |name| is_reserved(name, &of_api), env);
        for (name, value) in problems.take(extra_key.clone(), extra) {
            if headers.contains_key(&name) {
                problems.refuse(extra_key.member(&name), "is in `headers` already");
            }
            headers.insert(name, value);
        }
        headers
    })
}

/// Returns whether the client itself sets a header; `of_api` are those of the provider's API.
fn is_reserved(name: &HeaderName, of_api: &[&str]) -> bool {
    RESERVED.contains(&name.as_str()) || of_api.contains(&name.as_str())
}

pub(super) fn timeouts(
    own: &file::ProviderTimeouts,
    network: &file::NetworkConfig,
) -> Resolved<Timeouts> {
    let request = network.default_request_timeout_in_seconds.map(|limit| Span::secs(limit.get()));
    let idle = network.stream_idle_timeout_in_seconds.map(|limit| Span::secs(limit.get()));
    Resolved::new(|problems| Timeouts {
        request: one_of(
            problems,
            ("timeouts.request", own.request),
            ("network_config.default_request_timeout_in_seconds", request),
        )
        .0,
        first_byte: own.first_byte.unwrap_or_default().get().0,
        idle: one_of(
            problems,
            ("timeouts.idle", own.idle),
            ("network_config.stream_idle_timeout_in_seconds", idle),
        )
        .0,
        connect: own.connect.unwrap_or_default().get().0,
    })
}

pub(super) fn retries(
    own: &file::ProviderRetries,
    network: &file::NetworkConfig,
) -> Resolved<Retries> {
    let initial = network.retry_backoff_initial.map(|wait| Span::millis(wait.get()));
    let longest = network.retry_backoff_max.map(|wait| Span::millis(wait.get()));
    Resolved::new(|problems| Retries {
        max: saturating_u32(one_of(
            problems,
            ("retries.max", own.max),
            ("network_config.max_retries", network.max_retries.map(Ranged::get)),
        )),
        initial: one_of(
            problems,
            ("retries.backoff_initial", own.backoff_initial),
            ("network_config.retry_backoff_initial", initial),
        )
        .0,
        longest: one_of(
            problems,
            ("retries.backoff_max", own.backoff_max),
            ("network_config.retry_backoff_max", longest),
        )
        .0,
    })
}

/// Returns the URL of the proxy: `own`, or that of `proxy_config`.
pub(super) fn proxy(
    own: Option<EnvText>,
    config: Option<file::ProxyConfig>,
    env: FileEnv<'_>,
) -> Resolved<Option<Secret>> {
    let config = config.filter(|config| config.kind != ProxyKind::None);
    Resolved::new(|problems| match (own, config) {
        (Some(_), Some(_)) => {
            problems.refuse("proxy_config", "the provider has a `proxy` already");
            None
        }
        (Some(own), None) => problems.accept("proxy", proxy_url(own, env)).map(Secret::new),
        (None, Some(config)) => problems.take("proxy_config", configured_proxy(config, env)),
        (None, None) => None,
    })
}

fn configured_proxy(config: file::ProxyConfig, env: FileEnv<'_>) -> Resolved<Option<Secret>> {
    Resolved::new(|problems| {
        let url = problems.required("url", config.url)?;
        let mut url = problems.accept("url", proxy_url(url, env))?;
        let is_socks = url.scheme().starts_with("socks");
        if is_socks != (config.kind == ProxyKind::Socks5) {
            problems.refuse("url", "has a scheme that does not fit `type`");
        }
        if let Some(user) = config.username {
            let user = problems.accept("username", env.text(user))?;
            // It fails only for URLs without a host.
            let _ = url.set_username(user.expose());
        }
        if let Some(password) = config.password {
            let password = problems.accept("password", env.text(password))?;
            let _ = url.set_password(Some(password.expose()));
        }
        Some(Secret::new(url))
    })
}

/// Returns the URL of a proxy. Errors do not quote it, because it may have a password.
fn proxy_url(text: EnvText, env: FileEnv<'_>) -> Result<Url, InvalidValue> {
    let text = env.text(text)?;
    let url = Url::parse(text.expose()).ok();
    url.filter(|url| SCHEMES.contains(&url.scheme()) && url.has_host()).ok_or_else(|| {
        "expected a URL that starts with http://, https://, socks5:// or socks5h://".into()
    })
}

/// Returns the value of one of two keys, or the default of the first one. A value in both is refused.
fn one_of<T: Amount, const MIN: u64, const MAX: u64, const DEFAULT: u64>(
    problems: &mut Problems,
    (key, own): (&str, Option<Ranged<T, MIN, MAX, DEFAULT>>),
    (other_key, other): (&str, Option<T>),
) -> T {
    if own.is_some() && other.is_some() {
        problems.refuse(KeyPath::parse(other_key), format_args!("`{key}` has it already"));
    }
    other.unwrap_or_else(|| own.unwrap_or_default().get())
}
