//! References to artifacts: `oci://HOST/NAME:TAG` and `oci://HOST/NAME@sha256:DIGEST`.

use std::{fmt, str::FromStr};

use url::{Host, Url};

use crate::digest::Digest;

/// Beginning of a reference.
pub const SCHEME: &str = "oci://";
/// Longest name in a registry, with its host, in bytes: as many as clients of registries take (OCI Distribution
/// Specification 1.1, section Pulling manifests).
const MAX_NAME_BYTES: usize = 255;
/// Longest tag, in bytes (the same section: 1 to 128 characters).
const MAX_TAG_BYTES: usize = 128;

/// An artifact in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host, with the port if there is one.
    authority: String,
    name: String,
    version: ArtifactVersion,
}

/// Version of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArtifactVersion {
    /// A name that the registry may give to another artifact at any time.
    Tag(String),
    /// The digest of the manifest.
    Digest(Digest),
}

/// Reason that a text is no reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST: {0}")]
pub struct BadReference(&'static str);

impl Reference {
    /// Returns the host, with the port if there is one.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the name of the artifact within its registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the last segment of the name, which is usually that of the plugin.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Returns whether it names a tag, which the registry may move.
    pub fn is_tag(&self) -> bool {
        matches!(self.version, ArtifactVersion::Tag(_))
    }

    /// Returns the same artifact by the digest of its manifest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { version: ArtifactVersion::Digest(digest), ..self.clone() }
    }

    pub(crate) fn version(&self) -> &ArtifactVersion {
        &self.version
    }

    /// Returns whether the registry is on this machine, by its name.
    pub(crate) fn is_loopback(&self) -> bool {
        let url = Url::parse(&format!("https://{}/", self.authority));
        url.is_ok_and(|url| url.host().is_some_and(|host| is_loopback(&host)))
    }
}

/// Returns whether a host is this machine, by its name or its address.
pub(crate) fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let rest = text.strip_prefix(SCHEME).ok_or(BadReference("it begins with oci://"))?;
        let (authority, path) = rest.split_once('/').ok_or(BadReference("it has no name"))?;
        if !is_authority(authority) {
            return Err(BadReference("the host is not valid"));
        }
        let (tagged, digest) = match path.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (path, None),
        };
        let (name, tag) = match tagged.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (tagged, None),
        };
        if !is_name(name) || authority.len() + name.len() > MAX_NAME_BYTES {
            return Err(BadReference("the name is not valid"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(BadReference("the tag is not valid"));
        }
        let version = match (digest, tag) {
            (Some(digest), _) => ArtifactVersion::Digest(
                digest.parse().map_err(|_| BadReference("the digest is not valid"))?,
            ),
            (None, Some(tag)) => ArtifactVersion::Tag(tag.to_owned()),
            (None, None) => return Err(BadReference("it has neither a tag nor a digest")),
        };
        Ok(Self { authority: authority.to_ascii_lowercase(), name: name.to_owned(), version })
    }
}

fn is_authority(text: &str) -> bool {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let url = Url::parse(&format!("https://{text}/"));
    is_plain && url.is_ok_and(|url| url.host().is_some() && url.path() == "/")
}

/// Returns whether a text is a name by the grammar of the protocol: segments of lower-case letters and
/// digits, with separators between them.
fn is_name(text: &str) -> bool {
    text.split('/').all(|segment| {
        segment.starts_with(is_name_character)
            && segment.ends_with(is_name_character)
            && segment.chars().all(|c| is_name_character(c) || "._-".contains(c))
            && !segment.contains("..")
    })
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_tag(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    starts_well && is_plain && text.len() <= MAX_TAG_BYTES
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authority, name, version } = self;
        write!(f, "{SCHEME}{authority}/{name}{version}")
    }
}

impl fmt::Display for ArtifactVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, ":{tag}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_has_a_host_a_name_and_a_tag_or_a_digest() {
        let digest = Digest::compute(b"");
        for (text, shown) in [
            ("oci://ghcr.io/acme/weather:1.2", "oci://ghcr.io/acme/weather:1.2".to_owned()),
            ("oci://LOCALHOST:5000/a/b-c__d:v", "oci://localhost:5000/a/b-c__d:v".to_owned()),
            ("oci://[::1]:5000/a:v", "oci://[::1]:5000/a:v".to_owned()),
            (format!("oci://h.example/a@{digest}").as_str(), format!("oci://h.example/a@{digest}")),
            // The digest decides.
            (
                format!("oci://h.example/a:v@{digest}").as_str(),
                format!("oci://h.example/a@{digest}"),
            ),
        ] {
            let reference: Reference = text.parse().expect(text);
            assert_eq!(reference.to_string(), shown);
            assert_eq!(shown.parse(), Ok(reference));
        }
        let tagged: Reference = "oci://h.example/acme/weather:1".parse().expect("a reference");
        assert!(tagged.is_tag() && !tagged.at(digest).is_tag());
        assert_eq!(tagged.short_name(), "weather");
    }

    #[test]
    fn a_text_that_could_lead_elsewhere_is_no_reference() {
        let long = format!("oci://h/{}:v", "a".repeat(MAX_NAME_BYTES));
        let long_tag = format!("oci://h/a:{}", "a".repeat(MAX_TAG_BYTES + 1));
        for text in [
            "ghcr.io/a:v",
            "oci://ghcr.io",
            "oci://ghcr.io/a",
            "oci:///a:v",
            "oci://user@host/a:v",
            "oci://host?x/a:v",
            "oci://host\\x/a:v",
            "oci://host:port/a:v",
            "oci://host/../a:v",
            "oci://host/a//b:v",
            "oci://host/A:v",
            "oci://host/a:",
            "oci://host/a:-v",
            "oci://host/a:v/../../b",
            "oci://host/a@sha256:00",
            "oci://host/a@sha512:00",
            &long,
            &long_tag,
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_of_this_machine_are_loopback() {
        for (text, expected) in [
            ("oci://localhost:5000/a:v", true),
            ("oci://127.0.0.9/a:v", true),
            ("oci://[::1]/a:v", true),
            ("oci://localhost.example/a:v", false),
            ("oci://10.0.0.1/a:v", false),
        ] {
            let reference: Reference = text.parse().expect(text);
            assert_eq!(reference.is_loopback(), expected, "{text}");
        }
    }
}
