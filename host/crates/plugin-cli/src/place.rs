//! Places of components: a file, an artifact in a registry, or a URL.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use url::Url;

use airlock_authoring::{Component, Origin};
use airlock_compile::MAX_COMPONENT_BYTES;
use airlock_config::environment;
use airlock_plugin::MAX_SIGNATURE_BYTES;
use airlock_registry::{
    Credential, Digest, Downloads, PlainHttp, Reference, Registry, RegistryError, SCHEME,
};
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
    /// A URL without a fragment, and the digest that the component must have.
    Url(Url, Option<Digest>),
}

/// Beginning of a fragment of a URL that is meant as a digest, in any case.
const DIGEST: &str = "sha";

impl ComponentPlace {
    /// Parses a place. A text without a scheme is a path. Fails if the fragment of a URL begins with
    /// `sha`, in any case, and is not a valid digest.
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
        let digest = url.fragment().filter(|fragment| is_meant_as_digest(fragment));
        let digest = digest.map(str::parse::<Digest>).transpose();
        let digest = digest.with_context(|| {
            format!("the digest after `#` in the URL {} is not valid", without_query(&url))
        })?;
        url.set_fragment(None);
        Ok(Self::Url(url, digest))
    }

    /// Reads the component, or fetches it with its signature. Returns the place too: with the digest of the
    /// manifest in place of a tag, and with that of the component as the fragment of a URL.
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
            Self::Url(url, digest) => {
                let component = Box::pin(download(&url, network)).await?;
                let found = Digest::compute(&component.bytes);
                check_digest(&url, digest, &found)?;
                Ok((component, PathBuf::from(format!("{url}#{found}"))))
            }
        }
    }
}

/// Returns whether a fragment of a URL is meant as a digest. One with a typing error must not be ignored as another
/// fragment is: any component would be taken.
fn is_meant_as_digest(fragment: &str) -> bool {
    let beginning = fragment.get(..DIGEST.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(DIGEST))
}

/// Fails if a component has another digest than the one that was named.
fn check_digest(url: &Url, named: Option<Digest>, found: &Digest) -> anyhow::Result<()> {
    let Some(expected) = named.filter(|named| named != found) else { return Ok(()) };
    let error = RegistryError::OtherContent { what: "it", expected, found: found.clone() };
    Err(error).with_context(|| format!("{} has changed", without_query(url)))
}

/// Pulls an artifact.
async fn fetch(reference: Reference, network: &NetworkOptions) -> anyhow::Result<Component> {
    let _spinner = Spinner::begin(format!("pulling {reference}"));
    let mut registry = network.registry(reference.clone())?;
    let pulled = registry.pull(MAX_COMPONENT_BYTES as u64).await;
    let pulled = pulled.with_context(|| format!("{reference} cannot be pulled"))?;
    let signature_bytes = pulled.signature.as_ref().map_or(0, String::len) as u64;
    ensure!(
        signature_bytes <= MAX_SIGNATURE_BYTES,
        "the signature of {reference} has {signature_bytes} bytes; the limit is {MAX_SIGNATURE_BYTES}"
    );
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
    let signature = signature.with_context(|| format!("the signature of {place} is not text"))?;
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
        let ComponentPlace::Url(url, None) = parse("https://r.example/w.wasm?sig=hush#x") else {
            panic!("no URL")
        };
        assert_eq!(url.as_str(), "https://r.example/w.wasm?sig=hush");
        assert_eq!(without_query(&url), "https://r.example/w.wasm");
        let digest = Digest::compute(b"");
        let pinned = parse(&format!("{url}#{digest}"));
        assert_eq!(pinned, ComponentPlace::Url(url, Some(digest)));
        for path in ["weather.wasm", "./oci:/x", "/srv/https/x.wasm"] {
            assert_eq!(parse(path), ComponentPlace::File(path.into()));
        }
        for bad in ["oci://r.example/weather", "https://"] {
            assert!(ComponentPlace::parse(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fragment_that_is_meant_as_a_digest_and_is_none_is_refused() {
        let good = Digest::compute(b"").to_string();
        let misspelled = [
            "sha256:00".to_owned(),
            good.to_uppercase(),
            good.replace(':', "="),
            good.replace(':', "%3A"),
            good.replace("sha256", "SHA256"),
            good.replace("sha256", "sha512"),
            good.replace("sha256", "sha-256"),
        ];
        for fragment in misspelled {
            let place = format!("https://r.example/w.wasm#{fragment}");
            let refused = ComponentPlace::parse(Path::new(&place)).expect_err("it is no digest");
            assert!(format!("{refused:#}").contains("`sha256:` and 64"), "{refused:#}");
        }
    }

    #[test]
    fn a_component_that_is_not_the_named_one_is_refused_and_any_is_taken_without_a_digest() {
        let url = Url::parse("https://r.example/w.wasm?sig=hush").expect("a URL");
        let found = Digest::compute(b"");
        assert!(check_digest(&url, None, &found).is_ok());
        assert!(check_digest(&url, Some(found.clone()), &found).is_ok());
        let other = check_digest(&url, Some(Digest::compute(b"x")), &found).expect_err("refused");
        assert_eq!(other.to_string(), "https://r.example/w.wasm has changed");
    }

    fn parse(text: &str) -> ComponentPlace {
        ComponentPlace::parse(Path::new(text)).expect("a place")
    }
}
