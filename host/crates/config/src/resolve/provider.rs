//! `providers`.

mod hosting;
mod keys;
mod known;
mod network;

use std::collections::BTreeSet;

use self::{hosting::HostedApi, known::KnownName};
use super::{endpoint, file_env::FileEnv, name::is_plain, resolved::Resolved, tls};
use airlock_config_file::{
    env_text::EnvText,
    file::{self, ProviderApi, ProviderKind},
    key_path::KeyPath,
    refused::{InvalidValue, NamedPart, Referent},
};
use airlock_model::{self as model, Api, Apis, Hosting, Kind, MAX_FALLBACKS, Service};

/// Message about a key of the other kinds.
const OF_ANOTHER_KIND: &str = "belongs to a provider of another kind";

pub(super) fn resolve(
    file: file::Entries<file::Provider>,
    env: FileEnv<'_>,
) -> Resolved<Vec<model::Settings>> {
    let names: BTreeSet<_> = file.0.iter().map(|(name, _)| name.clone()).collect();
    Resolved::new(|problems| {
        let providers = file.0.into_iter().filter_map(|(name, file)| {
            let key = KeyPath::default().member(&name);
            problems.take(key, provider(name, file, &names, env))
        });
        providers.collect()
    })
}

fn provider(
    name: String,
    mut file: file::Provider,
    names: &BTreeSet<String>,
    env: FileEnv<'_>,
) -> Resolved<Option<model::Settings>> {
    Resolved::new(|problems| {
        if !is_plain(&name, 64, "_-.") {
            problems.refuse_whole("a provider's name has 1 to 64 letters, digits, `_`, `-` or `.`");
        }
        let fallbacks = std::mem::take(&mut file.fallbacks);
        let fallbacks = problems.take("fallbacks", self::fallbacks(fallbacks, names));
        let known = known::find(&name);
        let kind = match file.kind {
            Some(kind) => kind,
            None => problems.merge(implied_kind(&known))?,
        };
        let kind = match kind {
            ProviderKind::Scripted => scripted(file, env),
            kind => service(file, &known, kind, env),
        };
        Some(model::Settings { name, kind: problems.merge(kind)?, fallbacks })
    })
}

/// Returns the kind that a provider's name implies.
fn implied_kind(known: &KnownName) -> Resolved<Option<ProviderKind>> {
    Resolved::new(|problems| match known {
        KnownName::Service(service) => Some(match service.api {
            Api::OpenAi => ProviderKind::OpenAi,
            Api::Anthropic => ProviderKind::Anthropic,
            Api::Gemini => ProviderKind::Gemini,
        }),
        KnownName::Cloud(kind) => Some(*kind),
        KnownName::Refused(reason) => {
            problems.refuse_whole(reason);
            None
        }
        KnownName::Unknown => {
            problems.refuse(
                "kind",
                "is required, but missing: expected \"openai\", \"anthropic\", \"gemini\", \"azure\", \"bedrock\", \"vertex\" or \"scripted\", because the name of the provider \
                 implies no kind",
            );
            None
        }
    })
}

fn scripted(file: file::Provider, env: FileEnv<'_>) -> Resolved<Option<Kind>> {
    let of_services = [
        ("base_url", file.base_url.is_some()),
        ("deployments", file.deployments.is_some()),
        ("api_version", file.api_version.is_some()),
        ("region", file.region.is_some()),
        ("project", file.project.is_some()),
        ("location", file.location.is_some()),
        ("publisher", file.publisher.is_some()),
        ("apis", file.apis.is_some()),
        ("api_key", file.api_key.is_some()),
        ("keys", file.keys.is_some()),
        ("headers", file.headers.is_some()),
        ("timeouts", file.timeouts.is_some()),
        ("retries", file.retries.is_some()),
        ("images_in_tool_results", file.images_in_tool_results.is_some()),
        ("proxy", file.proxy.is_some()),
        ("ca", file.ca.is_some()),
        ("client_certificate", file.client_certificate.is_some()),
        ("client_key", file.client_key.is_some()),
        ("network_config", file.network_config.is_some()),
        ("proxy_config", file.proxy_config.is_some()),
    ];
    Resolved::new(|problems| {
        for (key, _) in of_services.into_iter().filter(|(_, is_set)| *is_set) {
            problems.refuse(key, OF_ANOTHER_KIND);
        }
        let script = problems.required("script", file.script)?;
        Some(Kind::Scripted { script: problems.take("script", env.path(&script)) })
    })
}

fn service(
    mut file: file::Provider,
    known: &KnownName,
    kind: ProviderKind,
    env: FileEnv<'_>,
) -> Resolved<Option<Kind>> {
    Resolved::new(|problems| {
        if file.script.is_some() {
            problems.refuse("script", OF_ANOTHER_KIND);
        }
        let hosted = problems.merge(hosting::resolve(kind, &mut file, env));
        let HostedApi { api, hosting, deployments } = hosted?;
        let mut network = file.network_config.unwrap_or_default();
        let has_own_url = file.base_url.is_some() || network.base_url.is_some();
        let apis = match file.apis {
            Some(listed) => problems.take("apis", apis(&listed, api))?,
            None if known.is_openai() && !has_own_url && api == Api::OpenAi => Apis::Both,
            None => Apis::Chat,
        };
        let own = file.base_url;
        let root = network.base_url.take();
        let base_url = match &hosting {
            Hosting::Vendor => base_url(own, root, known, api, env),
            cloud => hosting::endpoint(cloud, own, root, env),
        };
        let base_url = problems.merge(base_url);
        let needs_key = !has_own_url && !known.is_local();
        let keys = keys::resolve(file.api_key, file.keys, &hosting, needs_key, env);
        let keys = problems.merge(keys);
        let extra = network.extra_headers.take();
        let headers = network::headers(file.headers, extra, (api, &hosting), &keys, env);
        let headers = problems.merge(headers);
        let timeouts = network::timeouts(&file.timeouts.unwrap_or_default(), &network);
        let timeouts = problems.merge(timeouts);
        let retries = network::retries(&file.retries.unwrap_or_default(), &network);
        let retries = problems.merge(retries);
        let proxy = problems.merge(network::proxy(file.proxy, file.proxy_config, env));
        let ca = file.ca.map(|path| problems.take("ca", tls::path(&path, env)));
        let identity = tls::identity(file.client_certificate, file.client_key, env);
        let identity = problems.merge(identity);
        let base_url = base_url?;
        if tls::is_without_tls(identity.as_ref(), &base_url) {
            problems.refuse("client_certificate", tls::NEEDS_HTTPS);
        }
        let defaults = Service::new(api, base_url);
        let images_in_tool_results =
            file.images_in_tool_results.unwrap_or(defaults.images_in_tool_results);
        Some(Kind::Service(Box::new(Service {
            hosting,
            deployments,
            apis,
            keys,
            headers,
            timeouts,
            retries,
            images_in_tool_results,
            proxy,
            ca,
            identity,
            ..defaults
        })))
    })
}

/// Returns the APIs of OpenAI that a service has.
fn apis(listed: &[ProviderApi], api: Api) -> Resolved<Option<Apis>> {
    Resolved::new(|problems| {
        if api != Api::OpenAi {
            problems.refuse_whole("belongs to a provider of kind \"openai\" or \"azure\"");
            return None;
        }
        if let Some(at) = (1..listed.len()).find(|at| listed[..*at].contains(&listed[*at])) {
            problems.refuse(at, "is in the list already");
            return None;
        }
        match (listed.contains(&ProviderApi::Chat), listed.contains(&ProviderApi::Responses)) {
            (true, true) => Some(Apis::Both),
            (true, false) => Some(Apis::Chat),
            (false, true) => Some(Apis::Responses),
            (false, false) => {
                problems
                    .refuse_whole("found [], expected at least one of \"chat\" and \"responses\"");
                None
            }
        }
    })
}

/// Returns the URL of the API, up to and including its version. `root` is the one of
/// `network_config`.
fn base_url(
    own: Option<EnvText>,
    root: Option<EnvText>,
    known: &KnownName,
    api: Api,
    env: FileEnv<'_>,
) -> Resolved<Option<String>> {
    let root_key = KeyPath::parse("network_config.base_url");
    Resolved::new(|problems| match (own, root) {
        (Some(_), Some(_)) => {
            problems.refuse(root_key, "the provider has a `base_url` already");
            None
        }
        (Some(url), None) => {
            let url = problems.accept("base_url", endpoint::url(url, env))?;
            Some(url.trim_end_matches('/').to_owned())
        }
        (None, Some(root)) => {
            let root = problems.accept(root_key, endpoint::url(root, env))?;
            Some(known.url_below(root.trim_end_matches('/'), api))
        }
        (None, None) => problems.accept("base_url", known.url(api)),
    })
}

fn fallbacks(fallbacks: Vec<String>, names: &BTreeSet<String>) -> Resolved<Vec<String>> {
    Resolved::new(|problems| {
        let count = fallbacks.len();
        if count > MAX_FALLBACKS {
            problems.refuse_whole(format_args!(
                "must have at most {MAX_FALLBACKS} elements, found {count}"
            ));
        }
        let fallbacks = Resolved::elements(fallbacks, |problems, fallback| {
            let parts = fallback.split_once('/');
            if !parts.is_some_and(|(name, model)| names.contains(name) && !model.is_empty()) {
                problems.refuse_whole(InvalidValue::absent(
                    Referent::ElementOf(NamedPart::Providers),
                    format_args!(
                        "found {fallback:?}, expected NAME/model with the name of a provider"
                    ),
                ));
            }
            Some(fallback)
        });
        problems.merge(fallbacks)
    })
}
