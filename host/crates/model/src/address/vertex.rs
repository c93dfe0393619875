//! Vertex AI.
//!
//! The models of a publisher lie below a project and a location. Gemini's are addressed as in Gemini's
//! own API; Anthropic's have the model and the kind of response in the path, and a version in the body.

use std::sync::Arc;

use http::Uri;
use url::Url;

use super::{
    addresses::{Addresses, HostedMessages, Operation},
    segment::segment,
    vendor::extended,
};
use crate::{http::below, settings::Api};
use airlock_conversation::read::Untranslatable;

/// Addresses of the models of a publisher.
#[derive(Debug)]
struct PublisherPaths {
    base: Url,
}

/// Returns the addresses below the endpoint of a location. `project` and `location` have no characters
/// with a meaning in a path.
pub(super) fn addresses(
    endpoint: &Url,
    project: &str,
    location: &str,
    api: Api,
) -> Arc<dyn Addresses> {
    let publisher = if api == Api::Anthropic { "anthropic" } else { "google" };
    let path = format!("v1/projects/{project}/locations/{location}/publishers/{publisher}");
    Arc::new(PublisherPaths { base: extended(endpoint, &path) })
}

impl Addresses for PublisherPaths {
    fn below(&self, path: &str) -> Uri {
        below(&self.base, path)
    }

    fn uri(&self, _: Operation, model: &str, is_streamed: bool) -> Result<Uri, Untranslatable> {
        let method = if is_streamed { "streamRawPredict" } else { "rawPredict" };
        Ok(self.below(&format!("models/{}:{method}", segment(model)?)))
    }

    fn messages(&self) -> Option<HostedMessages> {
        Some(HostedMessages { version: "vertex-2023-10-16", is_body_only: false })
    }
}
