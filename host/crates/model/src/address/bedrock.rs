//! Anthropic's models at Amazon Bedrock: `InvokeModel`, which has the model and the kind of response in
//! the path, and the version and the beta features in the body.

use http::Uri;
use url::Url;

use super::{
    addresses::{Addresses, HostedMessages, Operation},
    segment::segment,
};
use crate::http::below;
use airlock_conversation::read::Untranslatable;

/// Addresses of the models of a region.
#[derive(Debug)]
pub(super) struct RegionPaths {
    endpoint: Url,
}

impl RegionPaths {
    pub(super) fn new(endpoint: Url) -> Self {
        Self { endpoint }
    }
}

impl Addresses for RegionPaths {
    fn below(&self, path: &str) -> Uri {
        below(&self.endpoint, path)
    }

    fn uri(&self, _: Operation, model: &str, is_streamed: bool) -> Result<Uri, Untranslatable> {
        let operation = if is_streamed { "invoke-with-response-stream" } else { "invoke" };
        Ok(self.below(&format!("model/{}/{operation}", segment(model)?)))
    }

    fn messages(&self) -> Option<HostedMessages> {
        Some(HostedMessages { version: "bedrock-2023-05-31", is_body_only: true })
    }
}
