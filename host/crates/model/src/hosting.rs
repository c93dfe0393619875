//! The properties of hosts and their APIs that depend on no request: which APIs a host has, the headers that the gateway
//! sets for it, and the name of its vendor in spans.
//!
//! A new host is a variant of [`Hosting`], an arm of each function here, and a file in `address`; one in `signin` too,
//! if its credentials are no keys.

use super::settings::{Api, Hosting};

/// Returns whether a host has an API.
pub(super) fn has_api(hosting: &Hosting, api: Api) -> bool {
    match hosting {
        Hosting::Vendor => true,
        Hosting::Azure { .. } => api == Api::OpenAi,
        Hosting::Bedrock { .. } => api == Api::Anthropic,
        Hosting::Vertex { .. } => matches!(api, Api::Anthropic | Api::Gemini),
    }
}

/// Returns the name of the header that carries a key. In `authorization`, the key follows `Bearer`.
pub(super) fn key_header(hosting: &Hosting, api: Api) -> &'static str {
    match (hosting, api) {
        (Hosting::Azure { .. }, _) => "api-key",
        (Hosting::Bedrock { .. } | Hosting::Vertex { .. }, _) | (Hosting::Vendor, Api::OpenAi) => {
            "authorization"
        }
        (Hosting::Vendor, Api::Anthropic) => "x-api-key",
        (Hosting::Vendor, Api::Gemini) => "x-goog-api-key",
    }
}

/// Returns the names of the headers that the gateway sets for a host and an API, besides those of every request. Those of
/// a credential are among them only if there is one.
pub fn own_headers(hosting: &Hosting, api: Api, has_credential: bool) -> Vec<&'static str> {
    let mut names = Vec::new();
    if has_credential {
        names.push(key_header(hosting, api));
    }
    match (hosting, api) {
        (Hosting::Bedrock { .. }, _) if has_credential => {
            names.extend(["x-amz-date", "x-amz-security-token"]);
        }
        (Hosting::Vendor, Api::Anthropic) => names.push("anthropic-version"),
        _ => {}
    }
    names
}

/// Returns the name that the conventions of OpenTelemetry have for the vendor of a service; `None` for OpenAI's API at
/// the host that its URL names, which may be that of another vendor.
pub(super) fn vendor(hosting: &Hosting, api: Api) -> Option<&'static str> {
    match (hosting, api) {
        (Hosting::Azure { .. }, _) => Some("azure.ai.openai"),
        (Hosting::Bedrock { .. }, _) => Some("aws.bedrock"),
        (Hosting::Vertex { .. }, _) => Some("gcp.vertex_ai"),
        (Hosting::Vendor, Api::Anthropic) => Some("anthropic"),
        (Hosting::Vendor, Api::Gemini) => Some("gcp.gemini"),
        (Hosting::Vendor, Api::OpenAi) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_of_a_host_include_that_of_its_key_only_if_there_is_a_credential() {
        let bedrock = Hosting::Bedrock { region: "r".to_owned() };
        let vertex = Hosting::Vertex { project: "p".to_owned(), location: "l".to_owned() };
        let signed = vec!["authorization", "x-amz-date", "x-amz-security-token"];
        let anthropic = vec!["x-api-key", "anthropic-version"];
        for (hosting, api, with_credential, without) in [
            (Hosting::Vendor, Api::OpenAi, vec!["authorization"], vec![]),
            (Hosting::Vendor, Api::Anthropic, anthropic, vec!["anthropic-version"]),
            (Hosting::Vendor, Api::Gemini, vec!["x-goog-api-key"], vec![]),
            (Hosting::Azure { api_version: None }, Api::OpenAi, vec!["api-key"], vec![]),
            (bedrock, Api::Anthropic, signed, vec![]),
            (vertex, Api::Gemini, vec!["authorization"], vec![]),
        ] {
            assert_eq!(own_headers(&hosting, api, true), with_credential, "{hosting:?}");
            assert_eq!(own_headers(&hosting, api, false), without, "{hosting:?}");
        }
    }
}
