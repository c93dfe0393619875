//! Places of components: a file, an artifact in a registry, or a URL.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use url::Url;

use airlock_authoring::{Component, Origin};
use airlock_compile::MAX_COMPONENT_BYTES;
use airlock_config::environment;
use airlock_plugin::MAX_SIGNATURE_BYTES;
use airlock_registry::{Credential, Downloads, PlainHttp, Reference, Registry, SCHEME};
use airlock_strings::visible_line;
use airlock_terminal::{output, spinner::Spinner};

/// Options of commands that reach a registry or a server.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct NetworkOptions {
    /// Reach the registry or the server over plain HTTP. It is always permitted on this machine.
    #[arg(long)]
    pub(super) insecure_http: bool,
}

impl NetworkOptions {
    /// Returns the servers that may be reached over plain HTTP.
    pub(super) fn plain(&self) -> PlainHttp {
        if self.insecure_http { PlainHttp::Anywhere } else { PlainHttp::Loopback }
    }

    /// Creates the client of the registry of an artifact, with the credential of `docker login`.
    pub(super) fn registry(&self, reference: Reference) -> anyhow::Result<Registry> {
        let credential = match docker_config() {
            Some(path) => Credential::from_docker(&path, reference.authority())?,
            None => None,
        };
        Ok(Registry::new(reference, credential, self.plain())?)
    }
}

/// Returns the path of the configuration file of Docker; `None` without a home directory.
fn docker_config() -> Option<PathBuf> {
    let own = environment("DOCKER_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = own.or_else(|| Some(PathBuf::from(environment("HOME")?).join(".docker")));
    Some(directory?.join("config.json"))
}

/// Place of a component, as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ComponentPlace {
    File(PathBuf),
    Artifact(Reference),
    Url(Url),
}

impl ComponentPlace {
    /// Parses a place. A text without a scheme is a path.
    pub(super) fn parse(typed: &Path) -> anyhow::Result<Self> {
        let text = typed.to_str().unwrap_or_default();
        if text.starts_with(SCHEME) {
            return Ok(Self::Artifact(text.parse()?));
        }
        if !(text.starts_with("https://") || text.starts_with("http://")) {
            return Ok(Self::File(typed.to_owned()));
        }
        let mut url =
            Url::parse(text).with_context(|| format!("{} is no URL", visible_line(text)))?;
        url.set_fragment(None);
        Ok(Self::Url(url))
    }

    /// Reads the component, or fetches it with its signature. Returns the place too, with the digest of the
    /// manifest in place of a tag.
    pub(super) async fn read(
        self,
        network: &NetworkOptions,
    ) -> anyhow::Result<(Component, PathBuf)> {
        match self {
            Self::File(path) => Ok((Component::read(&path).await?, path)),
            Self::Artifact(reference) => {
                let fetched = Box::pin(fetch(reference, network)).await?;
                let place = PathBuf::from(fetched.origin.source.clone().unwrap_or_default());
                Ok((fetched, place))
            }
            Self::Url(url) => {
                Ok((Box::pin(download(&url, network)).await?, PathBuf::from(url.as_str())))
            }
        }
    }
}

/// Pulls an artifact.
async fn fetch(reference: Reference, network: &NetworkOptions) -> anyhow::Result<Component> {
    let _spinner = Spinner::begin(format!("pulling {reference}"));
    let mut registry = network.registry(reference.clone())?;
    let pulled = registry.pull(MAX_COMPONENT_BYTES as u64).await;
    let pulled = pulled.with_context(|| format!("{reference} cannot be pulled"))?;
    let file = PathBuf::from(format!("{}.wasm", reference.short_name()));
    let source = Some(reference.at(pulled.digest).to_string());
    let origin = Origin { source, signature: pulled.signature, publisher: None };
    Ok(Component::new(file, pulled.component, origin)?)
}

/// Downloads a component, and the signature beside it.
async fn download(url: &Url, network: &NetworkOptions) -> anyhow::Result<Component> {
    let place = without_query(url);
    let _spinner = Spinner::begin(format!("downloading {place}"));
    let downloads = Downloads::new(url, network.plain())?;
    let bytes = downloads.get(url, MAX_COMPONENT_BYTES as u64).await;
    let bytes = bytes.with_context(|| format!("{place} cannot be downloaded"))?;
    let bytes = bytes.ok_or_else(|| anyhow!("{place} does not exist"))?;
    let mut beside = url.clone();
    beside.set_path(&format!("{}.minisig", url.path()));
    let signature = downloads.get(&beside, MAX_SIGNATURE_BYTES).await;
    let signature = signature.with_context(|| format!("the signature of {place} is unknown"))?;
    let signature = signature.map(String::from_utf8).transpose();
    let signature = signature.with_context(|| format!("the signature of {place} is no text"))?;
    let mut segments = url.path_segments().into_iter().flatten();
    let file =
        PathBuf::from(segments.next_back().filter(|name| !name.is_empty()).unwrap_or("plugin"));
    let origin = Origin { source: Some(place), signature, publisher: None };
    Ok(Component::new(file, bytes, origin)?)
}

/// Returns a URL as it is shown and recorded: its query may have a credential.
fn without_query(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    visible_line(shown.as_str())
}

/// Prints the place and the publisher of a component that was fetched or signed.
pub(super) fn show_origin(Origin { source, signature, publisher }: &Origin) -> anyhow::Result<()> {
    if let Some(source) = source {
        output::line(&format!("from {source}"))?;
    }
    match (publisher, signature) {
        (Some(publisher), _) => output::line(&format!("signed by {publisher}")),
        (None, Some(_)) => {
            output::line("publisher unknown: signed with a key that is not in `plugins.publishers`")
        }
        (None, None) if source.is_some() => output::line("publisher unknown: not signed"),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_reference_a_url_or_a_path() {
        assert!(matches!(parse("oci://r.example/acme/weather:1"), ComponentPlace::Artifact(_)));
        let ComponentPlace::Url(url) = parse("https://r.example/w.wasm?sig=hush#x") else {
            panic!("no URL")
        };
        assert_eq!(url.as_str(), "https://r.example/w.wasm?sig=hush");
        assert_eq!(without_query(&url), "https://r.example/w.wasm");
        for path in ["weather.wasm", "./oci:/x", "/srv/https/x.wasm"] {
            assert_eq!(parse(path), ComponentPlace::File(path.into()));
        }
        for bad in ["oci://r.example/weather", "https://"] {
            assert!(ComponentPlace::parse(Path::new(bad)).is_err(), "{bad}");
        }
    }

    fn parse(text: &str) -> ComponentPlace {
        ComponentPlace::parse(Path::new(text)).expect("a place")
    }
}
