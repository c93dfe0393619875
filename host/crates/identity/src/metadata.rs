//! The metadata of a protected resource (RFC 9728).

use serde_json::{Value, json};
use url::Url;

use crate::{part::ResourcePart, settings::VerifierSettings};

/// Path at which metadata is served, without that of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Returns the metadata of this gateway, or of a part of it.
fn metadata(settings: &VerifierSettings, part: Option<&ResourcePart>) -> Value {
    let mut metadata = json!({
        "resource": settings.identifier(part),
        "authorization_servers": [settings.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": settings.resource_name,
    });
    let scopes = settings.known_scopes();
    if !scopes.is_empty() {
        metadata["scopes_supported"] = scopes.into();
    }
    metadata
}

/// Returns the metadata at a path; `None` if there is none. That of the whole is at the path of the
/// resource (RFC 9728, section 3.1), and at the root, where clients look if they do not get it from a
/// challenge.
pub(crate) fn find(settings: &VerifierSettings, resource: &Url, path: &str) -> Option<Value> {
    let own = self::path(resource, None);
    if path == WELL_KNOWN || path == own {
        return Some(metadata(settings, None));
    }
    let segment = path.strip_prefix(own.trim_end_matches('/'))?.strip_prefix('/')?;
    let part = ResourcePart::parse(segment).filter(|_| has_parts(settings, resource))?;
    Some(metadata(settings, Some(&part)))
}

/// Returns whether paths below that of the resource are parts of it. With `audiences`, tokens do not
/// name the resource, and the issuer may know no other one: a client must not ask it for a part.
pub(crate) fn has_parts(settings: &VerifierSettings, resource: &Url) -> bool {
    has_path(resource) && settings.audiences.is_empty()
}

fn has_path(resource: &Url) -> bool {
    resource.path() != "/"
}

/// Returns the path of the metadata.
fn path(resource: &Url, part: Option<&ResourcePart>) -> String {
    let own = if has_path(resource) { resource.path().trim_end_matches('/') } else { "" };
    match part {
        Some(part) => format!("{WELL_KNOWN}{own}/{}", part.as_str()),
        // A slash at the end of the resource is part of the path.
        None if has_path(resource) => format!("{WELL_KNOWN}{}", resource.path()),
        None => WELL_KNOWN.to_owned(),
    }
}

/// Returns the URL of the metadata.
pub(crate) fn url(resource: &Url, part: Option<&ResourcePart>) -> String {
    format!("{}{}", resource.origin().ascii_serialization(), path(resource, part))
}
