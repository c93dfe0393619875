//! Host of a provider: the keys of the clouds.

use std::collections::BTreeMap;

use super::OF_ANOTHER_KIND;
use crate::resolve::{
    endpoint,
    file_env::FileEnv,
    name::is_plain,
    resolved::{Problems, Resolved},
};
use airlock_config_file::{
    env_text::EnvText,
    file::{self, ProviderKind, ProviderPublisher},
    key_path::KeyPath,
};
use airlock_model::{Api, Hosting};

/// Maximum bytes of the name of a deployment. AWS permits as many for the ARN of a model.
const MAX_DEPLOYMENT_BYTES: usize = 2_048;
/// Message about a resource of Azure without an endpoint.
const NO_ENDPOINT: &str = "is required, but missing: expected the endpoint of the resource, as in \"https://NAME.openai.azure.com\"";
/// Ends of URLs that are no endpoints: the paths of an API are added to them.
const API_PATHS: [&str; 3] = ["/openai", "/openai/v1", "/v1"];
/// Maximum bytes of a project, a location or a region, which are parts of URLs. Projects have 30, or more after the domain
/// of a company.
const MAX_PLACE_BYTES: usize = 128;
/// Maximum bytes of a version of an API, such as `2024-10-21`: caps `api_version`, a parameter of each URL.
const MAX_VERSION_BYTES: usize = 32;

/// The API of a provider, and its host.
pub(super) struct HostedApi {
    pub(super) api: Api,
    pub(super) hosting: Hosting,
    pub(super) deployments: BTreeMap<String, String>,
}

/// Returns the API and the host of a provider of a kind, and takes the keys that are about them;
/// `None` for a provider that is no service. Keys of other kinds are refused.
pub(super) fn resolve(
    kind: ProviderKind,
    file: &mut file::Provider,
    env: FileEnv<'_>,
) -> Resolved<Option<HostedApi>> {
    let deployments = file.deployments.take();
    let api_version = file.api_version.take();
    let region = file.region.take();
    let project = file.project.take();
    let location = file.location.take();
    let publisher = file.publisher.take();
    let is_azure = kind == ProviderKind::Azure;
    let is_bedrock = kind == ProviderKind::Bedrock;
    let is_vertex = kind == ProviderKind::Vertex;
    let of_clouds = [
        ("deployments", deployments.is_some(), is_azure || is_bedrock || is_vertex),
        ("api_version", api_version.is_some(), is_azure),
        ("region", region.is_some(), is_bedrock),
        ("project", project.is_some(), is_vertex),
        ("location", location.is_some(), is_vertex),
        ("publisher", publisher.is_some(), is_vertex),
    ];
    Resolved::new(|problems| {
        for (key, _, _) in of_clouds.into_iter().filter(|(_, is_set, is_own)| *is_set && !is_own) {
            problems.refuse(key, OF_ANOTHER_KIND);
        }
        let deployments =
            problems.take("deployments", self::deployments(deployments.unwrap_or_default()));
        let (api, hosting) = match kind {
            ProviderKind::OpenAi => (Api::OpenAi, Hosting::Vendor),
            ProviderKind::Anthropic => (Api::Anthropic, Hosting::Vendor),
            ProviderKind::Gemini => (Api::Gemini, Hosting::Vendor),
            ProviderKind::Azure => {
                let version = api_version.as_deref();
                if version.is_some_and(|version| !is_plain(version, MAX_VERSION_BYTES, "-.")) {
                    problems.refuse("api_version", "expected a date, as in \"2024-10-21\"");
                }
                (Api::OpenAi, Hosting::Azure { api_version })
            }
            ProviderKind::Bedrock => {
                let region = place(problems, "region", region, "", env)?;
                (Api::Anthropic, Hosting::Bedrock { region })
            }
            ProviderKind::Vertex => {
                let project = place(problems, "project", project, ".:", env);
                let location = place(problems, "location", location, "", env);
                let api = match publisher {
                    Some(ProviderPublisher::Anthropic) => Api::Anthropic,
                    Some(ProviderPublisher::Google) | None => Api::Gemini,
                };
                (api, Hosting::Vertex { project: project?, location: location? })
            }
            ProviderKind::Scripted => return None,
        };
        Some(HostedApi { api, hosting, deployments })
    })
}

fn deployments(deployments: BTreeMap<String, String>) -> Resolved<BTreeMap<String, String>> {
    Resolved::members(deployments, |problems, _, name| {
        if !(1..=MAX_DEPLOYMENT_BYTES).contains(&name.len()) {
            problems.refuse_whole(format_args!("must have from 1 to {MAX_DEPLOYMENT_BYTES} bytes"));
        }
        Some(name)
    })
}

/// Returns the name of a place at a cloud, which becomes a part of addresses: letters, digits, `-` and
/// the characters of `others`. Also notes that it is missing.
fn place(
    problems: &mut Problems,
    key: &str,
    written: Option<EnvText>,
    others: &str,
    env: FileEnv<'_>,
) -> Option<String> {
    let written = problems.required(key, written)?;
    let place = problems.accept(key, env.text(written))?;
    let place = place.expose();
    let has_only_valid =
        place.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || others.contains(c));
    if place.len() > MAX_PLACE_BYTES || !has_only_valid {
        problems.refuse(
            key,
            format_args!(
                "must have at most {MAX_PLACE_BYTES} characters: letters, digits and `-{others}`"
            ),
        );
    }
    Some(place.to_owned())
}

/// Returns the endpoint of a cloud: the one that is written, without a path of an API, or else the
/// cloud's own. `root` is the one of `network_config`.
pub(super) fn endpoint(
    hosting: &Hosting,
    own: Option<EnvText>,
    root: Option<EnvText>,
    env: FileEnv<'_>,
) -> Resolved<Option<String>> {
    let root_key = KeyPath::parse("network_config.base_url");
    Resolved::new(|problems| {
        let (key, url) = match (own, root) {
            (Some(_), Some(_)) => {
                problems.refuse(root_key, "the provider has a `base_url` already");
                return None;
            }
            (Some(url), None) => (KeyPath::default().member("base_url"), url),
            (None, Some(url)) => (root_key, url),
            (None, None) => {
                let own = hosting.endpoint();
                if own.is_none() {
                    problems.refuse("base_url", NO_ENDPOINT);
                }
                return own;
            }
        };
        let url = problems.accept(key.clone(), endpoint::url(url, env))?;
        let url = url.trim_end_matches('/');
        if API_PATHS.iter().any(|path| url.ends_with(path)) {
            problems.refuse(key, "must be the endpoint alone, without the path of an API");
        }
        Some(url.to_owned())
    })
}
