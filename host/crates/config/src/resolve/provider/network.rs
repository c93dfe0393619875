//! Connections to a provider: the gateway's own keys, or Bifrost's `network_config` and
//! `proxy_config`.

use std::collections::BTreeMap;

use url::Url;

use super::super::{
    super::{
        file::{self, Amount, ProxyKind, Ranged},
        values::EnvText,
    },
    Field, upstream,
};
use airlock_core::{limit::saturating_u32, secret::Secret, units::Span};
use airlock_model::{Api, Key, Retries, Timeouts};

/// Headers that the client itself sets.
const RESERVED: [&str; 6] =
    ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// Returns the headers of every request. The header of the keys can be among them only if there are
/// no keys.
pub(super) fn headers(
    field: &Field<'_>,
    own: Option<BTreeMap<String, EnvText>>,
    extra: Option<BTreeMap<String, EnvText>>,
    api: Api,
    keys: &[Key],
) -> BTreeMap<String, Secret> {
    let mut reserved = RESERVED.to_vec();
    let has_key = keys.iter().any(|key| key.value.is_some());
    match api {
        Api::OpenAi if has_key => reserved.push("authorization"),
        Api::OpenAi => {}
        Api::Anthropic => {
            reserved.push("anthropic-version");
            reserved.extend(has_key.then_some("x-api-key"));
        }
    }
    let network = field.member("network_config").member("extra_headers");
    let mut headers =
        upstream::headers(&field.member("headers"), own.unwrap_or_default(), &reserved);
    for (name, value) in upstream::headers(&network, extra.unwrap_or_default(), &reserved) {
        if headers.contains_key(&name) {
            network.member(&name).refuse("is in `headers` already");
        }
        headers.insert(name, value);
    }
    headers
}

pub(super) fn timeouts(
    field: &Field<'_>,
    own: &file::ProviderTimeouts,
    network: &file::NetworkConfig,
) -> Timeouts {
    let owns = field.member("timeouts");
    let networks = field.member("network_config");
    Timeouts {
        request: one_of(
            (&owns.member("request"), own.request),
            (
                &networks.member("default_request_timeout_in_seconds"),
                network.default_request_timeout_in_seconds.map(|limit| Span::secs(limit.get())),
            ),
        )
        .0,
        first_byte: own.first_byte.unwrap_or_default().get().0,
        idle: one_of(
            (&owns.member("idle"), own.idle),
            (
                &networks.member("stream_idle_timeout_in_seconds"),
                network.stream_idle_timeout_in_seconds.map(|limit| Span::secs(limit.get())),
            ),
        )
        .0,
        connect: own.connect.unwrap_or_default().get().0,
    }
}

pub(super) fn retries(
    field: &Field<'_>,
    own: &file::ProviderRetries,
    network: &file::NetworkConfig,
) -> Retries {
    let owns = field.member("retries");
    let networks = field.member("network_config");
    let max = (&owns.member("max"), own.max);
    Retries {
        max: saturating_u32(one_of(
            max,
            (&networks.member("max_retries"), network.max_retries.map(Ranged::get)),
        )),
        initial: one_of(
            (&owns.member("backoff_initial"), own.backoff_initial),
            (
                &networks.member("retry_backoff_initial"),
                network.retry_backoff_initial.map(|wait| Span::millis(wait.get())),
            ),
        )
        .0,
        longest: one_of(
            (&owns.member("backoff_max"), own.backoff_max),
            (
                &networks.member("retry_backoff_max"),
                network.retry_backoff_max.map(|wait| Span::millis(wait.get())),
            ),
        )
        .0,
    }
}

/// Returns the URL of the proxy.
pub(super) fn proxy(
    field: &Field<'_>,
    own: Option<EnvText>,
    config: Option<file::ProxyConfig>,
) -> Option<Secret> {
    let own_field = field.member("proxy");
    let field = field.member("proxy_config");
    let config = config.filter(|config| config.kind != ProxyKind::None);
    match (own, config) {
        (Some(_), Some(_)) => {
            field.refuse("the provider has a `proxy` already");
            None
        }
        (Some(own), None) => Some(Secret::new(proxy_url(&own_field, own)?)),
        (None, Some(config)) => {
            let url = field.member("url");
            let mut parsed = proxy_url(&url, url.required(config.url)?)?;
            let is_socks = parsed.scheme().starts_with("socks");
            if is_socks != (config.kind == ProxyKind::Socks5) {
                url.refuse("has a scheme that does not fit `type`");
            }
            if let Some(user) = config.username {
                let user = field.member("username").text(user)?;
                // It fails only for URLs without a host.
                let _ = parsed.set_username(user.expose());
            }
            if let Some(password) = config.password {
                let password = field.member("password").text(password)?;
                let _ = parsed.set_password(Some(password.expose()));
            }
            Some(Secret::new(parsed))
        }
        (None, None) => None,
    }
}

/// Returns the URL of a proxy. Errors do not quote it, because it may have a password.
fn proxy_url(field: &Field<'_>, text: EnvText) -> Option<Url> {
    let text = field.text(text)?;
    let url = Url::parse(text.expose()).ok();
    let url = url.filter(|url| SCHEMES.contains(&url.scheme()) && url.has_host());
    if url.is_none() {
        field.refuse("expected a URL that starts with http://, https://, socks5:// or socks5h://");
    }
    url
}

/// Returns the value of one of two keys, or the default of the first one. A value in both is refused.
fn one_of<T: Amount, const MIN: u64, const MAX: u64, const DEFAULT: u64>(
    (field, own): (&Field<'_>, Option<Ranged<T, MIN, MAX, DEFAULT>>),
    (other_field, other): (&Field<'_>, Option<T>),
) -> T {
    if own.is_some() && other.is_some() {
        other_field.refuse(format_args!("`{}` has it already", field.key));
    }
    other.unwrap_or_else(|| own.unwrap_or_default().get())
}
