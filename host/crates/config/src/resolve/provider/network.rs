//! Connections to a provider: the gateway's own keys, or Bifrost's `network_config` and
//! `proxy_config`.

use std::collections::BTreeMap;

use url::Url;

use super::super::{
    super::{
        file::{self, ProxyKind},
        values::EnvText,
    },
    Field, upstream,
};
use airlock_core::{secret::Secret, units::Span};
use airlock_model::{Api, Key, Retries, Timeouts};

/// Headers that the client itself sets.
const RESERVED: [&str; 6] =
    ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];
/// Longest time limit.
const DAY: Span = Span::secs(24 * 60 * 60);
/// Longest wait before a repetition.
const MAX_BACKOFF: Span = Span::secs(5 * 60);

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
    let limit = |key: &str, own, other: &str, seconds: Option<u64>, default| {
        let own = (owns.member(key), own);
        let other = (networks.member(other), seconds.map(Span::secs));
        one_of(own, other, default, Span::millis(1)..=DAY)
    };
    let default = Timeouts::default();
    let request = network.default_request_timeout_in_seconds;
    let idle = network.stream_idle_timeout_in_seconds;
    Timeouts {
        request: limit(
            "request",
            own.request,
            "default_request_timeout_in_seconds",
            request,
            Span(default.request),
        ),
        first_byte: limit("first_byte", own.first_byte, "", None, Span(default.first_byte)),
        idle: limit("idle", own.idle, "stream_idle_timeout_in_seconds", idle, Span(default.idle)),
        connect: limit("connect", own.connect, "", None, Span(default.connect)),
    }
}

pub(super) fn retries(
    field: &Field<'_>,
    own: &file::ProviderRetries,
    network: &file::NetworkConfig,
) -> Retries {
    let owns = field.member("retries");
    let networks = field.member("network_config");
    let wait = |key: &str, own, other: &str, millis: Option<u64>, default| {
        let own = (owns.member(key), own);
        let other = (networks.member(other), millis.map(Span::millis));
        one_of(own, other, Span(default), Span::millis(1)..=MAX_BACKOFF)
    };
    let default = Retries::default();
    let max = owns.member("max");
    let other = networks.member("max_retries");
    if own.max.is_some() && network.max_retries.is_some() {
        other.refuse(format_args!("`{}` has it already", max.key));
    }
    let max = match network.max_retries {
        Some(_) => other.count(network.max_retries, default.max, 0..=10),
        None => max.count(own.max, default.max, 0..=10),
    };
    Retries {
        max,
        initial: wait(
            "backoff_initial",
            own.backoff_initial,
            "retry_backoff_initial",
            network.retry_backoff_initial,
            default.initial,
        ),
        longest: wait(
            "backoff_max",
            own.backoff_max,
            "retry_backoff_max",
            network.retry_backoff_max,
            default.longest,
        ),
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

/// Returns the value of one of two keys, or the default. A value in both is refused.
fn one_of(
    (field, own): (Field<'_>, Option<Span>),
    (other_field, other): (Field<'_>, Option<Span>),
    default: Span,
    range: std::ops::RangeInclusive<Span>,
) -> std::time::Duration {
    if own.is_some() && other.is_some() {
        other_field.refuse(format_args!("`{}` has it already", field.key));
    }
    match other {
        Some(_) => other_field.within(other, default, range).0,
        None => field.within(own, default, range).0,
    }
}
