//! `providers`.

mod keys;
mod known;
mod network;

use std::collections::BTreeSet;

use self::known::{Known, Name};
use super::{
    super::{
        file::{self, ProviderApi, ProviderKind},
        values::EnvText,
    },
    Field, upstream,
};
use airlock_model::{Api, Apis, Kind, MAX_FALLBACKS, Service, Settings};

pub(super) fn resolve(field: &Field<'_>, file: file::Entries<file::Provider>) -> Vec<Settings> {
    let names: BTreeSet<_> = file.0.iter().map(|(name, _)| name.clone()).collect();
    let entries = file.0.into_iter();
    entries.filter_map(|(name, file)| provider(&field.member(&name), name, file, &names)).collect()
}

fn provider(
    field: &Field<'_>,
    name: String,
    mut file: file::Provider,
    names: &BTreeSet<String>,
) -> Option<Settings> {
    let is_fit = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if name.is_empty() || name.len() > 64 || !is_fit {
        field.refuse("a provider's name has 1 to 64 letters, digits, `_`, `-` or `.`");
    }
    let fallbacks = std::mem::take(&mut file.fallbacks);
    check_fallbacks(&field.member("fallbacks"), &fallbacks, names);
    let known = known::find(&name);
    let kind = match file.kind {
        Some(kind) => kind,
        None => implied_kind(field, &known)?,
    };
    let kind = match kind {
        ProviderKind::OpenAi => service(field, file, &known, Api::OpenAi)?,
        ProviderKind::Anthropic => service(field, file, &known, Api::Anthropic)?,
        ProviderKind::Scripted => scripted(field, file)?,
    };
    Some(Settings { name, kind, fallbacks })
}

/// Returns the kind that a provider's name implies.
fn implied_kind(field: &Field<'_>, known: &Name) -> Option<ProviderKind> {
    match known {
        Name::Known(Known { api: Api::OpenAi, .. }) => Some(ProviderKind::OpenAi),
        Name::Known(Known { api: Api::Anthropic, .. }) => Some(ProviderKind::Anthropic),
        Name::Refused(reason) => {
            field.refuse(reason);
            None
        }
        Name::Unknown => {
            field.member("kind").refuse(
                "is required, but missing: expected \"openai\", \"anthropic\" or \"scripted\", because the name of the provider \
                 implies no kind",
            );
            None
        }
    }
}

fn scripted(field: &Field<'_>, file: file::Provider) -> Option<Kind> {
    let of_services = [
        ("base_url", file.base_url.is_some()),
        ("apis", file.apis.is_some()),
        ("api_key", file.api_key.is_some()),
        ("keys", file.keys.is_some()),
        ("headers", file.headers.is_some()),
        ("timeouts", file.timeouts.is_some()),
        ("retries", file.retries.is_some()),
        ("images_in_tool_results", file.images_in_tool_results.is_some()),
        ("proxy", file.proxy.is_some()),
        ("ca", file.ca.is_some()),
        ("network_config", file.network_config.is_some()),
        ("proxy_config", file.proxy_config.is_some()),
    ];
    for (key, _) in of_services.iter().filter(|(_, is_set)| *is_set) {
        field.member(key).refuse("belongs to a provider of another kind");
    }
    let script = field.member("script");
    Some(Kind::Scripted { script: script.path(&script.required(file.script)?) })
}

fn service(field: &Field<'_>, file: file::Provider, known: &Name, api: Api) -> Option<Kind> {
    if file.script.is_some() {
        field.member("script").refuse("belongs to a provider of another kind");
    }
    let mut network = file.network_config.unwrap_or_default();
    let has_own_url = file.base_url.is_some() || network.base_url.is_some();
    let is_openai = matches!(known, Name::Known(known) if known.name == "openai");
    let default = if is_openai && !has_own_url { Apis::Both } else { Apis::Chat };
    let apis = apis(&field.member("apis"), file.apis.as_deref(), api, default)?;
    let base_url = base_url(field, file.base_url, network.base_url.take(), known, api);
    let needs_key = !has_own_url && !known.is_local();
    let keys = keys::resolve(field, file.api_key, file.keys, needs_key);
    let headers = network::headers(field, file.headers, network.extra_headers.take(), api, &keys);
    let timeouts = network::timeouts(field, &file.timeouts.unwrap_or_default(), &network);
    let retries = network::retries(field, &file.retries.unwrap_or_default(), &network);
    let proxy = network::proxy(field, file.proxy, file.proxy_config);
    let ca = file.ca.map(|path| field.member("ca").path(&path));
    let defaults = Service::new(api, base_url?);
    let images_in_tool_results =
        file.images_in_tool_results.unwrap_or(defaults.images_in_tool_results);
    Some(Kind::Service(Box::new(Service {
        apis,
        keys,
        headers,
        timeouts,
        retries,
        images_in_tool_results,
        proxy,
        ca,
        ..defaults
    })))
}

/// Returns the APIs of OpenAI that a service has.
fn apis(
    field: &Field<'_>,
    listed: Option<&[ProviderApi]>,
    api: Api,
    default: Apis,
) -> Option<Apis> {
    let Some(listed) = listed else {
        return Some(if api == Api::OpenAi { default } else { Apis::default() });
    };
    if api == Api::Anthropic {
        field.refuse("belongs to a provider of kind \"openai\"");
        return None;
    }
    if let Some(at) = (1..listed.len()).find(|at| listed[..*at].contains(&listed[*at])) {
        field.element(at).refuse("is in the list already");
        return None;
    }
    match (listed.contains(&ProviderApi::Chat), listed.contains(&ProviderApi::Responses)) {
        (true, true) => Some(Apis::Both),
        (true, false) => Some(Apis::Chat),
        (false, true) => Some(Apis::Responses),
        (false, false) => {
            field.refuse("found [], expected at least one of \"chat\" and \"responses\"");
            None
        }
    }
}

/// Returns the URL of the API, up to and including its version.
fn base_url(
    field: &Field<'_>,
    own: Option<EnvText>,
    root: Option<EnvText>,
    known: &Name,
    api: Api,
) -> Option<String> {
    let network = field.member("network_config").member("base_url");
    match (own, root) {
        (Some(_), Some(_)) => {
            network.refuse("the provider has a `base_url` already");
            None
        }
        (Some(url), None) => {
            let url = upstream::url(&field.member("base_url"), url)?;
            Some(url.trim_end_matches('/').to_owned())
        }
        (None, Some(root)) => {
            let root = upstream::url(&network, root)?;
            Some(known.url_below(root.trim_end_matches('/'), api))
        }
        (None, None) => {
            let url = known.url(api);
            if url.is_none() {
                let reason = match known {
                    Name::Known(_) => "because the service of this name has an API of another kind",
                    _ => "because no service of this name is known",
                };
                field.member("base_url").refuse(format_args!("is required, {reason}"));
            }
            url
        }
    }
}

fn check_fallbacks(field: &Field<'_>, fallbacks: &[String], names: &BTreeSet<String>) {
    if fallbacks.len() > MAX_FALLBACKS {
        field.refuse(format_args!(
            "must have at most {MAX_FALLBACKS} elements, found {}",
            fallbacks.len()
        ));
    }
    for (index, fallback) in fallbacks.iter().enumerate() {
        match fallback.split_once('/') {
            Some((name, model)) if names.contains(name) && !model.is_empty() => {}
            _ => field.element(index).refuse(format_args!(
                "found {fallback:?}, expected NAME/model with the name of a provider"
            )),
        }
    }
}
