//! The metadata of a protected resource (RFC 9728).

use serde_json::{Value, json};
use url::Url;

use crate::settings::VerifierSettings;

/// Where metadata is served, without the path of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Returns the metadata of this gateway.
pub(crate) fn metadata(settings: &VerifierSettings) -> Value {
    let mut metadata = json!({
        "resource": settings.resource,
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

/// Returns the paths at which the metadata is served. The first one is that of the resource by
/// RFC 9728, section 3.1; the second one, at the root, is where clients look if they do not get it
/// from a challenge. They are the same if the resource has no path.
pub(crate) fn paths(resource: &Url) -> Vec<String> {
    match resource.path() {
        "/" => vec![WELL_KNOWN.to_owned()],
        path => vec![format!("{WELL_KNOWN}{path}"), WELL_KNOWN.to_owned()],
    }
}

/// Returns the URL of the metadata.
pub(crate) fn url(resource: &Url) -> String {
    format!("{}{}", resource.origin().ascii_serialization(), paths(resource)[0])
}
